"""HyperParallel step lists -> programs (spec/interchange.md)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from interlock.interchange.importer import NO_STEP_OPTIONS, Imported, StepListImporter, StepOptions
from interlock.interchange.json_reader import Value, describe, read_json, shorten
from interlock.interchange.step_lists import (
    assemble_program,
    build_order,
    check_rank_lists,
    contains_any,
    parse_index,
)
from interlock.program.build import OrderBuilder
from interlock.program.ir import Communicator, Stage
from interlock.program.kinds import TRANSFER, Kind
from interlock.text.finding import Finding, InputError, Mark, error
from interlock.text.source import Source, Span

_STEP = re.compile("([A-Z][A-Z_]*) (0|[1-9][0-9]*|-) (-1|0|[1-9][0-9]*|-)")
_FORM = (
    "a step is `TYPE microbatch stage`, such as `FWD 0 2`; `-` alone is a bubble, `-` within a step is None"
)
_BODY = {
    "FWD": Kind.F,
    "BWD": Kind.B,
    "BWD_INPUT": Kind.I,
    "BWD_WEIGHT": Kind.W,
    "FWD_SEND": Kind.SEND_F,
    "FWD_RECV": Kind.RECV_F,
    "BWD_SEND": Kind.SEND_B,
    "BWD_RECV": Kind.RECV_B,
}
_WHOLE = {"FSDP_UNSHARD": Kind.UNSHARD, "FSDP_RESHARD": Kind.RESHARD, "FSDP_REDUCE_GRAD": Kind.REDUCE}
_DROPPED = {
    "DATA_LOAD",
    "DATA_SEND",
    "DATA_RECV",
    "SWAP_LAUNCH_OFFLOAD",
    "SWAP_WAIT_OFFLOAD",
    "SWAP_LAUNCH_LOAD",
    "SWAP_WAIT_LOAD",
}
_PREFIX = {
    "MPIPE_TRANSPOSE_FWD",
    "MPIPE_TRANSPOSE_BWD",
    "MPIPE_FWD_SEND",
    "MPIPE_FWD_RECV",
    "MPIPE_GRAPH_SEND",
    "MPIPE_GRAPH_RECV",
}
_SUFFIX = {"MPIPE_GRAD_SEND", "MPIPE_GRAD_RECV_WITH_BACKWARD"}
_MPIPE = _PREFIX | _SUFFIX | {"MPIPE_PARAM_BROADCAST", "MPIPE_GRAD_REDUCE"}
_COMPOSITES = {"OVERLAP_F_B": "overlap", "OVERLAP_B_F": "overlap", "BATCH_SEND_RECV": "batch"}
_KNOWN = {*_BODY, *_WHOLE, *_DROPPED, *_MPIPE, *_COMPOSITES}
_SENDS = {
    *(k for k in _BODY if k.endswith(("SEND", "RECV"))),
    "MPIPE_FWD_SEND",
    "MPIPE_FWD_RECV",
    "MPIPE_GRAPH_SEND",
    "MPIPE_GRAPH_RECV",
    "MPIPE_GRAD_SEND",
}


@dataclass(frozen=True, slots=True)
class _Step:
    """`launch` numbers the composite it is part of, counted within its rank; -1: none."""

    type: str
    mb: int
    stage: int
    span: Span
    launch: int = -1


def read(source: Source, options: StepOptions = NO_STEP_OPTIONS) -> Imported:
    """The program of `{"0": ["FWD 0 0", ..], ..}`. Raises InputError (IL104, IL106, IL112, IL113, IL204)."""
    lists = [list(_steps(steps)) for steps in _ranks(read_json(source))]
    encoder = _encoder(lists)
    builder = OrderBuilder()
    for rank, steps in enumerate(lists):
        _add(builder, rank, steps, encoder)
        builder.end_rank()
    order = build_order(builder)
    inserted = not contains_any(order, TRANSFER)
    if encoder is None:
        return Imported(
            assemble_program(
                order, options, inserted=inserted, reductions_inserted=not contains_any(order, [Kind.REDUCE])
            )
        )
    placement = options.placement
    if isinstance(placement, tuple):
        placement = (0, *placement)  # stage 0 is the encoder, the file's stages follow
    elif placement is not None:
        raise error(
            "IL113",
            f"the placement `{placement}` is declared, and the file has a transposed encoder in front",
            help="leave it out, or give the rank of each stage",
        )
    program = assemble_program(
        order,
        replace(options, placement=placement),
        inserted=inserted,
        reductions_inserted=not encoder.reduced,
    )
    if program.microbatches > len(encoder.owner):
        raise error(
            "IL113",
            f"no rank encodes microbatch {len(encoder.owner)}",
            help=f"list `MPIPE_TRANSPOSE_FWD {len(encoder.owner)} -1` on its owner",
        )
    layers = (replace(program.layers[0], name="encoder", trainable=encoder.trained), *program.layers[1:])
    stages = (Stage("encoder", 0, 1, owner=encoder.owner[: program.microbatches]), *program.stages[1:])
    comms = (
        Communicator("default", tuple(range(len(lists)))),
        Communicator("replicas", tuple(range(len(lists)))),
    )
    program = replace(
        program,
        layers=layers,
        stages=stages,
        communicators=comms if encoder.broadcast else comms[:1],
        names=encoder.names,
    )
    return Imported(program, tuple(encoder.comments(len(lists))))


# -- text
# ----------------------------------------------------------------------------------------------------------------  # noqa: E501


def _ranks(value: Value) -> list[Value]:
    lists = value.expect(
        dict,
        'an object of ranks, `{"0": ["FWD 0 0", ..], ..}`',
        "write out `exec_order`: for each rank its list of steps",
    )
    check_rank_lists(list(lists.values()), value)
    wrong = next((name for name in lists if not re.fullmatch("0|[1-9][0-9]*", name)), None)
    if wrong is not None:
        raise error(
            "IL112",
            f"`{shorten(wrong)}` is no rank",
            lists[wrong].span,
            "its steps",
            'name the lists by their ranks, `"0"`, `"1"`, ..',
        )
    missing = next((r for r in range(len(lists)) if str(r) not in lists), None)
    if missing is not None:
        raise error(
            "IL112",
            f"rank {missing} has no list, and the file has {len(lists)} ranks",
            value.span,
            help="number the ranks from 0, without gaps",
        )
    return [lists[str(r)] for r in range(len(lists))]


def _steps(rank: Value) -> Iterator[_Step]:
    """The steps of a rank, composites taken apart, without bubbles and what moves no tensor of the
    pipeline.
    """
    launch = 0
    for item in rank.expect(list, "a list of steps", _FORM):
        if isinstance(item.data, list):
            parts = _composite(item)
            # a composite of one step is that step
            yield from (replace(s, launch=launch) for s in parts) if len(parts) > 1 else parts
            launch += 1
        elif item.data is not None and item.data != "-":
            yield from _one(item)


def _one(item: Value) -> Iterable[_Step]:
    text = item.expect(str, "a step", _FORM)
    found = _STEP.fullmatch(text)
    if not found or found[1] not in _KNOWN:
        raise _no_step(item, text, found[1] if found else text.split(" ")[0])
    kind, mb, stage = found.groups()
    if kind in _DROPPED:
        return ()
    if kind in _COMPOSITES:
        raise error(
            "IL112",
            f"`{kind}` lists no steps of its own",
            item.span,
            help=f'write it as a list, the type first: `["{kind}", "FWD 3 0", "BWD 1 0"]`',
        )
    wants = (
        "a microbatch"
        if kind in _BODY or kind in _PREFIX or kind in _SUFFIX or kind == "MPIPE_PARAM_BROADCAST"
        else "",
        "-1" if kind in _PREFIX or kind == "MPIPE_PARAM_BROADCAST" else "0" if kind in _MPIPE else "a stage",
    )
    if wants[0] and mb == "-":
        raise error(
            "IL112",
            f"`{text}` names no microbatch",
            item.span,
            help=f"write `{kind} 0 {stage}` for microbatch 0",
        )
    if wants[1] in ("-1", "0") and stage != wants[1]:
        raise error(
            "IL112",
            f"`{kind}` has the stage {wants[1]}, not {stage}",
            item.span,
            help=f"write `{kind} {mb} {wants[1]}`, as ScheduleMPipeTranspose does",
        )
    if wants[1] == "a stage" and stage in ("-", "-1"):
        raise error(
            "IL112",
            f"`{text}` names no stage of the pipeline",
            item.span,
            help=f"write `{kind} {mb} 0` for stage 0",
        )
    return (
        _Step(
            kind,
            -1 if mb == "-" else parse_index(mb, item),
            -1 if stage == "-1" else parse_index(stage, item),
            item.span,
        ),
    )


def _no_step(item: Value, text: str, kind: str) -> InputError:
    from difflib import get_close_matches

    if kind in _KNOWN:
        return error("IL112", f"`{shorten(text)}` is not a step", item.span, help=_FORM)
    near = get_close_matches(kind[:40].upper(), _KNOWN, n=1, cutoff=0.6)
    return error(
        "IL112",
        f"the step type `{shorten(kind)}` does not exist",
        item.span,
        help=f"`{near[0]}` was meant, perhaps; {_FORM}" if near else _FORM,
    )


def _composite(item: Value) -> list[_Step]:
    head, *rest = item.data or [item]
    kind = head.data if isinstance(head.data, str) else ""
    if kind not in _COMPOSITES:
        raise error(
            "IL112",
            f"a list that begins with {describe(head) if item.data else 'nothing'} is no step",
            item.span,
            help='a composite is `["OVERLAP_F_B", "FWD 3 0", "BWD 1 0"]`, OVERLAP_B_F or BATCH_SEND_RECV '
            "likewise",
        )
    steps = [step for part in rest for step in _one(part)]
    if _COMPOSITES[kind] == "batch":
        if odd := next((s for s in steps if s.type not in _SENDS), None):
            raise error(
                "IL112",
                f"`{kind}` holds transfers, and `{odd.type}` is none",
                odd.span,
                help="move it out of the list",
            )
        if not rest:
            raise error("IL112", f"`{kind}` is empty", item.span, help="delete it")
    else:
        forward, backward = ("FWD",), ("BWD", "BWD_INPUT", "BWD_WEIGHT")
        want = (forward, backward) if kind == "OVERLAP_F_B" else (backward, forward)
        if len(steps) != 2 or any(s.type not in types for s, types in zip(steps, want)):
            raise error(
                "IL112",
                f"`{kind}` is not "
                f"{'one FWD and one backward' if kind == 'OVERLAP_F_B' else 'one backward and one FWD'}, "
                "in "
                "this "
                "order",
                item.span,
                help='an overlap is `["OVERLAP_F_B", "FWD 3 0", "BWD 1 0"]`',
            )
    return steps


# -- the transposed encoder
# ----------------------------------------------------------------------------------------------


@dataclass
class _Encoder:
    """What the MPIPE steps say: the owner of each microbatch, where gradients go, and what else is listed."""

    owner: tuple[int, ...]
    first: int  # the rank of the pipeline's first stage
    central: bool  # encoder backward recomputed on that rank
    reduced: bool
    broadcast: bool
    names: tuple[str, ...]

    @property
    def trained(self) -> bool:
        return not self.central and (self.reduced or self.broadcast)

    def comments(self, ranks: int) -> Iterator[str]:
        yield "Stage 0 is the transposed encoder; stage s of the file is stage s + 1 here."
        if self.central:
            yield (
                "The encoder is trained where its backward is recomputed, within the backward of stage 1 "
                f"on rank {self.first}: its owners run it forward only, as if frozen."
            )
        elif self.trained:
            yield (
                f"The encoder's backward of what rank {self.first} owns, which the file leaves within the "
                "backward of its stage 0, is written out as 0B."
            )


def _encoder(lists: list[list[_Step]]) -> _Encoder | None:
    """Raises IL113 where the MPIPE steps of the ranks do not belong together."""
    found: dict[str, list[tuple[int, _Step]]] = {}
    for rank, steps in enumerate(lists):
        for s in steps:
            if s.type in _MPIPE or s.type == "FWD" and s.stage == 0:
                found.setdefault(s.type, []).append((rank, s))
    mpipe = [name for name in found if name in _MPIPE]
    if not mpipe:
        return None
    if "MPIPE_TRANSPOSE_FWD" not in found:
        rank, step = found[mpipe[0]][0]
        raise error(
            "IL113",
            f"`{step.type}` stands in a file without an encoder",
            step.span,
            help="list `MPIPE_TRANSPOSE_FWD m -1` for each microbatch, on its owner, or delete the step",
        )
    owner: dict[int, int] = {}
    for rank, step in found["MPIPE_TRANSPOSE_FWD"]:
        owner.setdefault(step.mb, rank)
    for m in range(len(owner)):
        if m not in owner:
            _, last = max(found["MPIPE_TRANSPOSE_FWD"], key=lambda f: f[1].mb)
            raise error(
                "IL113",
                f"no rank encodes microbatch {m}",
                last.span,
                f"microbatch {last.mb} is encoded",
                f"list `MPIPE_TRANSPOSE_FWD {m} -1` on its owner",
            )
    central = next(
        (
            s
            for name in ("MPIPE_TRANSPOSE_BWD", "MPIPE_GRAPH_SEND", "MPIPE_GRAPH_RECV")
            for _, s in found.get(name, ())
        ),
        None,
    )
    reduced = next(
        (
            s
            for name in ("MPIPE_GRAD_REDUCE", "MPIPE_GRAD_SEND", "MPIPE_GRAD_RECV_WITH_BACKWARD")
            for _, s in found.get(name, ())
        ),
        None,
    )
    if central and reduced:
        raise InputError(
            Finding.of_input(
                "IL113",
                "the encoder's backward is both recomputed on the first rank and run on its owners",
                (Mark(central.span, "recomputed"), Mark(reduced.span, "on its owners")),
                "write out a schedule with `owner_backward` either on or off",
            )
        )
    first = found["FWD"][0][0] if "FWD" in found else 0
    encoder = _Encoder(
        tuple(owner[m] for m in range(len(owner))),
        first,
        central is not None,
        reduced is not None,
        "MPIPE_PARAM_BROADCAST" in found,
        (),
    )
    if central:
        _check_recomputed(lists, found, encoder)
    graphs = sorted(
        {s.mb for name in ("MPIPE_GRAPH_SEND", "MPIPE_GRAPH_RECV") for _, s in found.get(name, ())}
    )
    encoder.names = (*(f"graph{m}" for m in graphs), *(("params",) if encoder.broadcast else ()))
    return encoder


def _check_recomputed(
    lists: list[list[_Step]], found: dict[str, list[tuple[int, _Step]]], encoder: _Encoder
) -> None:
    """In central mode each TRANSPOSE_BWD stands once, on the first stage's rank, after BWD(m, 0)."""
    done: set[int] = set()
    backward: dict[int, Span] = {}
    for s in lists[encoder.first]:
        if s.type in ("BWD", "BWD_INPUT") and s.stage == 0:
            backward[s.mb] = s.span
        elif s.type == "MPIPE_TRANSPOSE_BWD":
            if s.mb in done:
                raise error(
                    "IL113",
                    f"the encoder's backward of microbatch {s.mb} is listed twice",
                    s.span,
                    help="delete one of them",
                )
            if s.mb not in backward:
                raise error(
                    "IL113",
                    f"the encoder's backward of microbatch {s.mb} stands before its gradient is there",
                    s.span,
                    help=f"put it after `BWD {s.mb} 0`",
                )
            done.add(s.mb)
    if odd := next(((r, s) for r, s in found.get("MPIPE_TRANSPOSE_BWD", ()) if r != encoder.first), None):
        raise error(
            "IL113",
            f"`MPIPE_TRANSPOSE_BWD` stands on rank {odd[0]}, and the pipeline's first stage is on rank "
            f"{encoder.first}",
            odd[1].span,
            help=f"move it to rank {encoder.first}, where the gradient is",
        )
    if missing := sorted(backward.keys() - done):
        raise error(
            "IL113",
            f"the encoder's backward of microbatch {missing[0]} is missing",
            backward[missing[0]],
            "its gradient is there",
            f"add `MPIPE_TRANSPOSE_BWD {missing[0]} -1` after this step",
        )


# -- operations
# ----------------------------------------------------------------------------------------------------------


def _add(builder: OrderBuilder, rank: int, steps: list[_Step], encoder: _Encoder | None) -> None:  # noqa: C901, PLR0912
    shift = 0 if encoder is None else 1
    names = {} if encoder is None else {name: i for i, name in enumerate(encoder.names)}
    launches: dict[int, int] = {}
    reduced: set[int] = set()
    stages: set[int] = set()
    pending: list[
        tuple[int, int]
    ] = []  # owner mode: rank 0's own encoder backwards, after the step they are part of
    for i, s in enumerate(steps):
        launch = -1
        if s.launch >= 0:
            launch = (
                launches[s.launch]
                if s.launch in launches
                else launches.setdefault(s.launch, builder.new_launch())
            )
        at = {"at": s.span.at, "width": s.span.width, "launch": launch}
        if s.type in _BODY:
            kind = _BODY[s.type]
            builder.op(kind, s.stage + shift, s.mb, **at)
            stages.add(s.stage + shift)
            if (
                encoder
                and encoder.reduced
                and rank == encoder.first
                and s.stage == 0
                and kind in (Kind.B, Kind.I)
                and s.mb < len(encoder.owner)
                and encoder.owner[s.mb] == rank
            ):
                pending.append((s.mb, s.span.at))
        elif s.type in _WHOLE:
            builder.op(_WHOLE[s.type], s.stage + shift, **at)
            if s.type == "FSDP_REDUCE_GRAD":
                reduced.add(s.stage + shift)
        elif s.type != "MPIPE_GRAD_REDUCE":
            _mpipe(builder, s, names, encoder, rank, at)
        else:
            continue
        if launch < 0 or i + 1 == len(steps) or steps[i + 1].launch != s.launch:
            for mb, place in pending:
                builder.op(Kind.B, 0, mb, at=place, width=s.span.width)
            pending.clear()
    if encoder and encoder.reduced:  # reductions of the pipeline's stages are the trainer's: at the end
        for stage in sorted(stages - reduced):
            builder.op(Kind.REDUCE, stage)
        for s in steps:
            if s.type == "MPIPE_GRAD_REDUCE":
                builder.op(Kind.REDUCE, 0, at=s.span.at, width=s.span.width)


def _mpipe(
    builder: OrderBuilder, s: _Step, names: dict[str, int], encoder: _Encoder, rank: int, at: dict
) -> None:
    graph = names.get(f"graph{s.mb}", -1)
    match s.type:
        case "MPIPE_PARAM_BROADCAST":
            builder.op(Kind.COLL, name=names["params"], comm=1, **at)
        case "MPIPE_TRANSPOSE_FWD":
            builder.op(Kind.F, 0, s.mb, **at)
        case "MPIPE_FWD_SEND":
            builder.op(Kind.SEND_F, 0, s.mb, **at)
        case "MPIPE_FWD_RECV":
            builder.op(Kind.RECV_F, 1, s.mb, **at)
        case "MPIPE_GRAD_SEND":
            builder.op(Kind.SEND_B, 1, s.mb, **at)
        case "MPIPE_GRAD_RECV_WITH_BACKWARD":
            builder.op(Kind.RECV_B, 0, s.mb, **at)
            builder.op(Kind.B, 0, s.mb, **at)
        case "MPIPE_GRAPH_SEND":
            builder.op(Kind.SEND, peer=encoder.first, name=graph, **at)
        case "MPIPE_GRAPH_RECV":
            owner = encoder.owner[s.mb] if s.mb < len(encoder.owner) else rank
            builder.op(Kind.RECV, peer=owner, name=graph, **at)
        case "MPIPE_TRANSPOSE_BWD" if graph >= 0:  # runs when the encoder's input has come
            builder.op(Kind.WAIT, name=graph, **at)


IMPORTER = StepListImporter(read)
