"""DeepSpeed instruction lists -> programs (spec/interchange.md)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from interlock.interchange.importer import NO_STEP_OPTIONS, Imported, StepListImporter, StepOptions
from interlock.interchange.json_reader import Value, read_json, shorten
from interlock.interchange.step_lists import (
    assemble_program,
    build_order,
    check_rank_lists,
    contains_any,
    flatten_steps,
    parse_index,
)
from interlock.program.build import OrderBuilder
from interlock.program.kinds import TRANSFER, Kind
from interlock.text.finding import Finding, InputError, Mark, error
from interlock.text.source import Source, Span

SHOWN = 20  # clashes reported in one run
_WITH = {
    "ForwardPass": Kind.F,
    "BackwardPass": Kind.B,
    "SendActivation": Kind.SEND_F,
    "RecvActivation": Kind.RECV_F,
    "SendGrad": Kind.SEND_B,
    "RecvGrad": Kind.RECV_B,
    "LoadMicroBatch": None,
}
_ALONE = {"ReduceGrads": Kind.REDUCE, "ReduceTiedGrads": None, "OptimizerStep": Kind.STEP}
_STEP = re.compile(r"([A-Za-z]+)(?:\((?:(buffer_id|micro_batch_id) *= *(0|[1-9][0-9]*))?\))?")
_FORM = (
    "an instruction is `ForwardPass(buffer_id=0)`, as DeepSpeed prints it, or `ForwardPass(micro_batch_id=0)`"
)


@dataclass(frozen=True, slots=True)
class _Step:
    type: str
    by: str  # buffer_id, micro_batch_id, or "" where neither is wanted
    number: int
    span: Span


def read(source: Source, options: StepOptions = NO_STEP_OPTIONS) -> Imported:
    """The program of `[["LoadMicroBatch(buffer_id=0)", ..], ..]`, a list for each rank.

    Raises InputError (IL104, IL106, IL112, IL113).
    """
    value = read_json(source)
    lists = check_rank_lists(
        value.expect(
            list,
            "a list of instructions for each rank",
            "write out `list(TrainSchedule(..).steps())` for each stage",
        ),
        value,
    )
    steps = [
        [
            _step(item)
            for item in flatten_steps(rank.expect(list, "a list of instructions", _FORM), "an instruction")
        ]
        for rank in lists
    ]
    _one_form(steps)
    _trains(steps)
    clashes: list[Finding] = []
    builder = OrderBuilder()
    tied = False
    for rank, listed in enumerate(steps):
        buffers = _Buffers(rank, clashes)
        for s in listed:
            kind = _WITH.get(s.type, _ALONE.get(s.type))
            tied |= s.type == "ReduceTiedGrads"
            at = {"at": s.span.at, "width": s.span.width}
            if s.type in _WITH:
                mb = buffers.microbatch(s) if s.by == "buffer_id" else s.number
                if kind is not None:
                    builder.op(kind, rank, mb, **at)
            elif kind is Kind.STEP:
                builder.op(kind, **at)
            elif kind is not None:
                builder.op(kind, rank, **at)
        builder.end_rank()
    if clashes:
        *shown, last = clashes[:SHOWN]
        raise InputError(
            *shown,
            replace(last, detail=(f"{len(clashes)} instructions of this file fill a buffer that is in use",)),
        )
    order = build_order(builder)
    program = assemble_program(
        order,
        options,
        inserted=not contains_any(order, TRANSFER),
        reductions_inserted=not contains_any(order, [Kind.REDUCE]),
    )
    return Imported(
        program,
        (
            "ReduceTiedGrads names no parameters: add a line such as `tie embed = stage 0, 3` and "
            "`reduce(tie: embed)` where layers share them.",
        )
        if tied
        else (),
    )


def _step(item: Value) -> _Step:
    text: str = item.data
    found = _STEP.fullmatch(text.strip())
    known = {**_WITH, **_ALONE}
    if not found or found[1] not in known:
        from difflib import get_close_matches

        name = re.match("[A-Za-z_]*", text)[0]
        near = get_close_matches(name[:40], known, n=1, cutoff=0.6) if name not in known else ()
        raise error(
            "IL112",
            f"`{shorten(text)}` is no instruction",
            item.span,
            help=f"`{near[0]}` was meant, perhaps; {_FORM}" if near else _FORM,
        )
    name, by, digits = found.groups()
    if name in _ALONE and by:
        raise error("IL112", f"`{name}` takes no microbatch", item.span, help=f"write `{name}()`")
    if name in _WITH and not by:
        raise error(
            "IL112",
            f"`{text}` names neither a buffer nor a microbatch",
            item.span,
            help=f"write `{name}(buffer_id=0)`",
        )
    return _Step(name, by or "", parse_index(digits, item) if digits else -1, item.span)


def _one_form(steps: list[list[_Step]]) -> None:
    first = next((s for listed in steps for s in listed if s.by), None)
    other = next((s for listed in steps for s in listed if s.by and first and s.by != first.by), None)
    if other is not None:
        raise InputError(
            Finding.of_input(
                "IL112",
                f"one instruction gives `{first.by}`, another `{other.by}`",
                (Mark(other.span), Mark(first.span, "the first")),
                "write the whole file in one form",
            )
        )


def _trains(steps: list[list[_Step]]) -> None:
    if not any(s.type == "BackwardPass" for listed in steps for s in listed):
        first = next((s for listed in steps for s in listed if s.type == "ForwardPass"), None)
        if first is None:
            raise error(
                "IL106",
                "the file holds no forward and no backward",
                help="write out the instructions of every stage",
            )
        raise error(
            "IL113",
            "the file has no `BackwardPass`: it is an inference schedule",
            first.span,
            help="write out a `TrainSchedule`",
        )


# -- buffers
# -------------------------------------------------------------------------------------------------------------  # noqa: E501


@dataclass
class _Buffer:
    microbatch: int
    filled: Span
    forward: bool = False
    backward: bool = False
    sent: bool = True  # whether its gradient, once there is one, has been sent


@dataclass
class _Buffers:
    """Which microbatch each buffer of a rank holds.

    Microbatches come in order: the k-th to fill a buffer is number k.
    """

    rank: int
    clashes: list[Finding]
    held: dict[int, _Buffer] = field(default_factory=dict)
    filled: int = 0

    def microbatch(self, s: _Step) -> int:
        """The microbatch an instruction is about. Raises IL113."""
        if s.type == "LoadMicroBatch" and self.rank > 0 or s.type == "RecvActivation" and self.rank == 0:
            return (
                self._of(s).microbatch if s.number in self.held else 0
            )  # labels on the last stage; a wrong receive is for the checker
        if s.type in ("LoadMicroBatch", "RecvActivation"):
            return self._fill(s)
        held = self._of(s)
        match s.type:
            case "ForwardPass":
                held.forward = True
            case "BackwardPass":
                held.backward, held.sent = True, self.rank == 0
            case "SendGrad":
                held.sent = True
        return held.microbatch

    def _fill(self, s: _Step) -> int:
        old = self.held.get(s.number)
        if old is not None and not (old.backward and old.sent):
            what = (
                "its gradient is not sent"
                if old.backward
                else "its backward has not run"
                if old.forward
                else "it has not run"
            )
            self.clashes.append(
                Finding.of_input(
                    "IL113",
                    f"`{s.type}` fills buffer {s.number} of rank {self.rank}, which still holds microbatch "
                    f"{old.microbatch}: {what}",
                    (
                        Mark(s.span, "filled again"),
                        Mark(old.filled, f"microbatch {old.microbatch} came here"),
                    ),
                    "send the gradient before receiving into the buffer, or give the rank more buffers",
                )
            )
        self.held[s.number] = _Buffer(self.filled, s.span)
        self.filled += 1
        return self.filled - 1

    def _of(self, s: _Step) -> _Buffer:
        if s.number not in self.held:
            raise error(
                "IL113",
                f"`{s.type}` uses buffer {s.number} of rank {self.rank}, which holds nothing",
                s.span,
                help="put "
                f"`{'LoadMicroBatch' if self.rank == 0 else 'RecvActivation'}(buffer_id={s.number})` "
                "before it",
            )
        return self.held[s.number]


IMPORTER = StepListImporter(read)
