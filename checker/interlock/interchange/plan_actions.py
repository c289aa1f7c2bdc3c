"""What each operation of a plan says beside its place: peers, where data come from and go to, the footprint's
gates, what is let go.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from interlock.program.facts import Facts
from interlock.program.ir import Program, Stage
from interlock.program.kinds import TO_NEXT, TRANSFER, WITH_MICROBATCH, WITH_PEER, WITH_STAGE, Kind

BATCH, LOSS, LOCAL, WIRE, NOTHING = "batch", "loss", "local", "wire", "nothing"
LATER = "later"  # the loss has an operation of its own


def find_rank(stage: Stage, mb: int) -> int:
    """rank(s, m): where a stage runs a microbatch."""
    rank = stage.rank if stage.owner is None else stage.owner[mb]
    assert rank is not None
    return rank


def list_actions(program: Program) -> list[list[dict]]:
    """For each rank one dictionary an operation (spec/lowering.md, "Operations").

    Asks for a program without IL304.
    """
    actions = _Actions(Facts(program))
    start = program.order.start.tolist()
    return [[actions.of_row(row) for row in range(a, b)] for a, b in zip(start, start[1:])]


@dataclass(frozen=True, slots=True)
class _Place:
    """A row with a microbatch: its kind, stage and microbatch, the class of that, and the stages before and
    after on its path.
    """

    kind: Kind
    stage: int
    mb: int
    path: int
    before: int
    after: int


class _Actions:
    def __init__(self, facts: Facts):
        self.facts, self.program, self.footprint = facts, facts.program, facts.footprint
        order = self.program.order
        self.kind = [Kind(k) for k in order.kind.tolist()]
        self.stage, self.mb, self.peer = order.stage.tolist(), order.mb.tolist(), order.peer.tolist()
        self.name, self.comm, self.launch = order.name.tolist(), order.comm.tolist(), order.launch.tolist()
        self.rank, self.path = facts.rank.tolist(), facts.cls.tolist()

    @cached_property
    def last_backward(self) -> np.ndarray:
        """Rows after which nothing of their (stage, microbatch) is needed.

        W, or what computes the input gradient if no W is listed.
        """
        last = np.zeros(self.facts.n, dtype=bool)
        ends = np.where(self.facts.first_W >= 0, self.facts.first_W, self.facts.first_X)
        last[ends[ends >= 0]] = True
        return last

    def of_row(self, row: int) -> dict:
        kind = self.kind[row]
        action: dict = {"do": kind.name}
        if kind in WITH_STAGE:
            action["stage"] = self.stage[row]
        if kind in WITH_MICROBATCH:
            action["mb"] = self.mb[row]
            action |= self._of_microbatch(row)
        if kind in WITH_PEER:
            action["peer"] = self.peer[row]
        if self.name[row] >= 0:
            action["name"] = self.program.names[self.name[row]]
        if self.comm[row]:
            action["comm"] = self.comm[row]
        if self.launch[row] >= 0:
            action["launch"] = self.launch[row]
        return action

    def _of_microbatch(self, row: int) -> dict:
        stage, path = self.stage[row], self.path[row]
        before, after = int(self.footprint.prev[path, stage]), int(self.footprint.next[path, stage])
        place = _Place(self.kind[row], stage, self.mb[row], path, before, after)
        if place.kind is Kind.F:
            return self._forward(row, place)
        if place.kind in (Kind.B, Kind.I, Kind.W):
            return self._backward(row, place)
        return self._transfer(place) if place.kind in TRANSFER else {}

    def _forward(self, row: int, place: _Place) -> dict:
        action = {
            "from": BATCH if place.before < 0 else self._side(row, place.before),
            "to": LOSS if place.after < 0 else self._side(row, place.after),
            "prev": place.before,
            "next": place.after,
            "back": bool(self.footprint.back[place.path, place.stage]),
            "cross": bool(self.footprint.cross[place.path, place.stage]),
        }
        if place.after < 0 and self.facts.first_LOSS[place.stage * self.facts.M + place.mb] >= 0:
            action["loss"] = LATER
        return action

    def _backward(self, row: int, place: _Place) -> dict:
        crosses = bool(self.footprint.cross[place.path, place.stage])
        action: dict = {
            "back": bool(self.footprint.back[place.path, place.stage]),
            "cross": crosses,
            "weights": bool(self.footprint.wwork[place.path, place.stage]),
        }
        if place.kind is not Kind.W:
            action |= {
                "from": LOSS if place.after < 0 else self._side(row, place.after),
                "prev": place.before,
                "next": place.after,
                "to": NOTHING if place.before < 0 or not crosses else self._side(row, place.before),
            }
        if self.last_backward[row]:
            action["drop"] = True
        return action

    def _transfer(self, place: _Place) -> dict:
        other = place.after if place.kind in TO_NEXT else place.before
        action: dict = {"peer": find_rank(self.program.stages[other], place.mb), "other": other}
        if place.kind in (Kind.SEND_B, Kind.RECV_B):
            sender = place.stage if place.kind is Kind.SEND_B else other
            if not self.footprint.cross[place.path, sender]:
                action["empty"] = True  # a placeholder's transfer: no gradient crosses here
        return action

    def _side(self, row: int, stage: int) -> str:
        """Whether a neighbouring stage of this row's runs here or elsewhere."""
        rank = find_rank(self.program.stages[stage], self.mb[row])
        return LOCAL if rank == self.rank[row] else WIRE
