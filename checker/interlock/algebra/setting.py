"""What a schedule says besides model and cut: ranks, microbatches and their modalities, communicators, ties,
freezing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from interlock.algebra.indices import indices
from interlock.algebra.machine import Hardware, hardware
from interlock.algebra.model import Chain
from interlock.language import ast
from interlock.program.ir import Communicator, Size, Stage, Tie
from interlock.text.finding import Finding, InputError, Mark, error
from interlock.text.phrases import list_names, suggest
from interlock.text.source import Span

RANK_LIMIT, MICROBATCH_LIMIT = 1 << 16, 10_000_000


@dataclass(frozen=True)
class Setting:
    """`stretched`: the number of microbatches is not the one written; what is listed for microbatches is then
    repeated in turn.
    """

    ranks: int
    microbatches: int
    images: tuple[int, ...]
    modalities: dict[str, frozenset[int]]
    stretched: bool
    hardware: Hardware = Hardware()

    def amount(self, size: Size, modality: str | None = None) -> int:
        """A quantity summed over the microbatches that have the modality."""
        present = self.modalities.get(modality, range(self.microbatches))
        return size.fixed * len(present) + size.per_image * self._images_of.get(
            modality, self._images_of[None]
        )

    @cached_property
    def _images_of(self) -> dict[str | None, int]:
        """The images of the microbatches that have a modality, and of all of them."""
        return {
            None: sum(self.images),
            **{name: sum(self.images[m] for m in present) for name, present in self.modalities.items()},
        }


def numbers(schedule: ast.Schedule, ranks: int | None, microbatches: int | None) -> tuple[int, int]:
    """Ranks and microbatches, those asked for before those written. Raises IL206."""
    out = []
    for what, asked, written in (
        ("ranks", ranks, schedule.ranks),
        ("microbatches", microbatches, schedule.microbatches),
    ):
        value = asked if asked is not None else written.value if written is not None else None
        span = written.span if written is not None else schedule.name.span
        if value is None:
            raise error(
                "IL206",
                f"schedule `{schedule.name}` has no number of {what}",
                span,
                help=f"write `{what} 4` in it",
            )
        if value < 1:
            raise error("IL206", f"a schedule with {value} {what}", span, help="write 1 or more")
        limit = RANK_LIMIT if what == "ranks" else MICROBATCH_LIMIT
        if value > limit:
            raise error("IL104", f"{value:,} {what} are too many", span, help=f"the most is {limit:,}")
        out.append(value)
    return out[0], out[1]


def setting(schedule: ast.Schedule, chain: Chain, ranks: int, microbatches: int) -> Setting:
    """Raises IL107 (unknown modality), IL206 (counts that do not fit the number of microbatches)."""
    written = schedule.microbatches.value if schedule.microbatches is not None else microbatches
    stretched = written != microbatches
    M = microbatches
    images = (1,) * M
    modalities: dict[str, frozenset[int]] = {}
    if schedule.images is not None:
        counts = [c.value for c in schedule.images.counts]
        if len(counts) != written:
            raise error(
                "IL206",
                f"`images` has {len(counts)} entries for {written} microbatches",
                schedule.images.span,
                help="give the images of each microbatch, in order",
            )
        images = tuple(counts[m % written] for m in range(M))
        if len(chain.modalities) == 1:
            modalities[chain.modalities[0]] = frozenset(m for m in range(M) if images[m] > 0)
    listed: dict[str, Span] = {}
    for line in schedule.presence:
        name = line.modality.text
        if name not in chain.modalities:
            raise error(
                "IL107",
                f"no layer has modality `{name}`",
                line.modality.span,
                help=suggest(name, chain.modalities)
                or f"modalities of this model: {list_names(chain.modalities)}",
            )
        if name in listed:
            raise InputError(
                Finding.of_input(
                    "IL103",
                    f"modality `{name}` is listed twice",
                    (Mark(line.span), Mark(listed[name], "first here")),
                    "put the microbatches into one line",
                )
            )
        listed[name] = line.span
        members = set(indices(line.microbatches, written, "microbatch", "IL206"))
        modalities[name] = frozenset(m for m in range(M) if m % written in members)
    return Setting(ranks, M, images, modalities, stretched, hardware(schedule, ranks))


def communicators(schedule: ast.Schedule, ranks: int) -> tuple[Communicator, ...]:
    """The default one, then those declared. Raises IL103 (a name twice), IL204 (a rank that does
    not exist).
    """
    out = [Communicator("default", tuple(range(ranks)))]
    for node in schedule.communicators:
        if any(c.name == node.name.text for c in out):
            raise error(
                "IL103",
                f"two communicators are called `{node.name}`",
                node.name.span,
                help="rename one of them; `default` is the one with all ranks",
            )
        out.append(
            Communicator(node.name.text, tuple(sorted(set(indices(node.ranks, ranks, "rank", "IL204")))))
        )
    return tuple(out)


def ties(
    schedule: ast.Schedule, chain: Chain, stages: Sequence[Stage], ranks: int, comms: list[Communicator]
) -> tuple[Tie, ...]:
    """Ties over stages. A tie without a communicator gets one of its own, appended to `comms`, if it lies on
    several ranks.

    Raises IL107, IL103, IL204 (a stage that does not exist), IL210 (fewer than two layers).
    """
    out: list[Tie] = []
    for node in schedule.ties:
        if node.layers:
            layers = [l for ref in node.layers for l in chain.resolve(ref)]
            tied = sorted(
                {s for s, stage in enumerate(stages) for l in layers if stage.first <= l < stage.last}
            )
            few = len(set(layers)) < 2
        else:
            tied = sorted(set(indices(node.stages, len(stages), "stage", "IL204")))
            few = len(tied) < 2
        if few:
            raise error(
                "IL210",
                "a tie of one layer",
                node.span,
                help="name the layers that share the parameters: `tie embed, head`",
            )
        name = node.name.text if node.name else "_".join(ref.group.text for ref in node.layers) or "tie"
        if any(t.name == name for t in out):
            raise error(
                "IL103", f"two ties are called `{name}`", node.span, help="name them: `tie NAME = ..`"
            )
        on = sorted({r for s in tied for r in (range(ranks) if stages[s].replicated else (stages[s].rank,))})
        comm = 0
        if node.comm is not None:
            comm = comm_number(node.comm.text, node.comm.span, comms)
        elif len(on) > 1 and len(on) < ranks:
            label = name if all(c.name != name for c in comms) else f"{name}_tie"
            comms.append(Communicator(label, tuple(on)))
            comm = len(comms) - 1
        out.append(Tie(name, tuple(tied), comm))
    return tuple(out)


def comm_number(name: str, span: Span, comms: Sequence[Communicator]) -> int:
    for number, c in enumerate(comms):
        if c.name == name:
            return number
    known = [c.name for c in comms]
    raise error(
        "IL107",
        f"no communicator is called `{name}`",
        span,
        "unknown",
        suggest(name, known)
        or f"known communicators: {list_names(known)}; declare it: `communicator {name} = ranks ..`",
    )


def frozen_layers(schedule: ast.Schedule, chain: Chain, stages: Sequence[Stage]) -> set[int]:
    """Layers frozen by `frozen` in the model and by `freeze`. Raises IL107, IL204."""
    out = {l for l, layer in enumerate(chain.layers) if not layer.trainable}
    for node in schedule.freezes:
        for ref in node.layers:
            out.update(chain.resolve(ref))
        for s in indices(node.stages, len(stages), "stage", "IL204"):
            out.update(range(stages[s].first, stages[s].last))
    return out
