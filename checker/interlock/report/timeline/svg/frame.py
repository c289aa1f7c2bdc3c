"""Where a picture has room for what: ranks from top to bottom, time from left to right."""

from __future__ import annotations

from interlock.report.timeline.layout import Scene

COMPUTE_HEIGHT, LINE_HEIGHT, MEMORY_HEIGHT, GAP = 26, 6, 24, 10
TOP, LEFT, RIGHT = 66, 62, 14
MOST_RANKS = 32
LEFT_OUT = -1  # stands in the list of ranks for those in the middle that are not drawn
LEFT_OUT_HEIGHT = 22
WIDEST_SLOT = 110  # of an operation behind the point where its rank stops
GHOSTS_SHARE = 0.6  # of the width that they may take together
NO_REGION = 5  # colours of what belongs to no stage


class Frame:
    """Of one scene. `tag`: before the ids of its patterns, which are to differ within one file."""

    def __init__(self, scene: Scene, width: int, memory: bool = True, tag: str = ""):
        self.scene, self.width, self.tag = scene, width, tag
        self.until = max(scene.makespan, 1)
        self.memory = MEMORY_HEIGHT if memory and scene.tracks else 0
        slots = max((g.slot + 1 for g in scene.ghosts), default=0)
        self.slot = min(WIDEST_SLOT, (width - LEFT - RIGHT) * GHOSTS_SHARE / slots) if slots else 0
        self.behind = slots * self.slot  # what is drawn there, behind the point where it stops
        self.room = width - LEFT - RIGHT - self.behind
        self.scale = self.room / self.until
        self.ranks = _list_ranks(scene.ranks)
        self.y: dict[int, float] = {}
        self.bottom: float = TOP
        for rank in self.ranks:
            self.y[rank] = self.bottom
            self.bottom += LEFT_OUT_HEIGHT if rank == LEFT_OUT else self._rank_height(rank)
        self.used: set[tuple[int, str]] = set()  # regions and kinds with a box

    def stretch(self, scale: float, until: int) -> None:
        """Onto an axis of time that it shares with other pictures."""
        self.scale, self.until = scale, until

    def x(self, ns: float) -> float:
        return LEFT + ns * self.scale

    def lines_height(self, rank: int) -> int:
        """Of the lines of its transfers."""
        return self.scene.comm_lines[rank] * LINE_HEIGHT

    def body_height(self, rank: int) -> int:
        """Of its compute and its transfers."""
        return COMPUTE_HEIGHT + self.lines_height(rank)

    def _rank_height(self, rank: int) -> int:
        return self.body_height(rank) + self.memory + GAP

    def region_of(self, stage: int) -> int:
        regions = self.scene.stage_region
        return regions[stage] if 0 <= stage < len(regions) else NO_REGION

    def chunk_of(self, stage: int) -> int:
        chunks = self.scene.stage_chunk
        return chunks[stage] if 0 <= stage < len(chunks) else 0

    def weight_pattern(self, region: int) -> str:
        """The fill of a weight half."""
        return f"url(#{self.tag}w{region})"

    @property
    def idle_pattern(self) -> str:
        return f"url(#{self.tag}idle)"


def _list_ranks(ranks: int) -> list[int]:
    if ranks <= MOST_RANKS:
        return list(range(ranks))
    half = MOST_RANKS // 2
    return [*range(half), LEFT_OUT, *range(ranks - half + 1, ranks)]
