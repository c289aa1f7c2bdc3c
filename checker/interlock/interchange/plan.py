"""A plan, interlock.plan/1: a program with its transfers written, and what a runtime needs to execute it
(spec/lowering.md).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from interlock.interchange.plan_actions import list_actions
from interlock.program.build import OrderBuilder
from interlock.program.ir import COLUMNS, Communicator, Layer, Memory, Program, Size, Stage, Tie
from interlock.program.kinds import WITH_PEER, Kind
from interlock.program.plain import plain_form

FORMAT = "interlock.plan/1"
LARGEST = 1 << 30
_KIND = {k.name: k for k in Kind}


class PlanError(ValueError):
    """A plan that cannot be read or used (IL845). `code` is the diagnostic's."""

    def __init__(self, message: str, code: str = "IL845"):
        super().__init__(f"{message} [{code}]")
        self.code = code


@dataclass(frozen=True)
class Plan:
    """`certificates`: for each model under which the plan's program was shown valid, the sha256 of the
    certificate's document.

    `lines[r][i]`: the line of the plan's file at which operation i of rank r stands (1 is the first).
    """

    name: str
    target: str
    program: Program
    rewrites: tuple[str, ...] = ()
    certificates: dict[str, str] = field(default_factory=dict)
    source: str = ""

    def __post_init__(self):
        if self.program.inserted:
            raise ValueError("a plan's program has its transfers written")

    @property
    def lines(self) -> list[list[int]]:
        """By the form that `dumps` gives every plan."""
        at, out = _HEAD, []
        for r in range(self.program.ranks):
            n = int(self.program.order.start[r + 1] - self.program.order.start[r])
            out.append(list(range(at + 1, at + 1 + n)))
            at += n + (2 if n else 1)
        return out

    @property
    def sha256(self) -> str:
        return digest(dumps(self))


_HEAD = 10  # lines before the lists of the ranks


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def certificate_text(document: dict) -> str:
    """As certificate files are written: what the digest of a certificate is taken of."""
    return json.dumps(document, separators=(",", ":"))


def program_head(program: Program) -> dict:
    """The plain form without its order."""
    plain = plain_form(program)
    del plain["order"], plain["kinds"]
    return plain


def dumps(plan: Plan) -> str:
    """One operation a line, so that a line number names an operation."""

    def compact(value):
        return json.dumps(value, separators=(",", ":"))

    fields = {
        "format": FORMAT,
        "name": plan.name,
        "source": plan.source,
        "target": plan.target,
        "rewrites": list(plan.rewrites),
        "certificates": dict(sorted(plan.certificates.items())),
        "program": program_head(plan.program),
    }
    out = ["{", *(f'"{key}": {compact(value)},' for key, value in fields.items()), '"ranks": [']
    assert len(out) == _HEAD - 1
    lists = list_actions(plan.program)
    for r, rank in enumerate(lists):
        out.append("[" if rank else "[]" + "," * (r + 1 < len(lists)))
        out += [compact(a) + ("," if i + 1 < len(rank) else "") for i, a in enumerate(rank)]
        if rank:
            out.append("]," if r + 1 < len(lists) else "]")
    return "\n".join([*out, "]}"]) + "\n"


def loads(text: str) -> Plan:
    """Raises PlanError: no plan, another version, or operations that do not follow from the program it
    states.
    """
    try:
        value = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise PlanError(f"no plan: {error}") from None
    found = value.get("format") if isinstance(value, dict) else None
    if found != FORMAT:
        raise PlanError(
            f"the plan is of the format {found!r}, and this version reads {FORMAT!r}: lower the schedule "
            "again"
        )
    try:
        program = read_program(value["program"], value["ranks"])
        plan = Plan(
            value["name"],
            value["target"],
            program,
            tuple(value["rewrites"]),
            dict(value["certificates"]),
            value["source"],
        )
        stated, asked = (
            [_as_text(rank) for rank in ranks] for ranks in (value["ranks"], list_actions(program))
        )
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise PlanError(f"no plan: {type(error).__name__}: {error}") from None
    for r, pair in enumerate(zip(asked, stated, strict=True)):
        for i, (a, b) in enumerate(zip(*pair, strict=True)):
            if a != b:
                raise PlanError(
                    f"operation {i} of rank {r} is not what the plan's program says: {b}, and not {a}"
                )
    return plan


def _as_text(rank: Sequence[dict]) -> list[str]:
    return [json.dumps(a, sort_keys=True) for a in rank]


def read_program(plain: dict, ranks: Sequence[Sequence[dict]]) -> Program:
    """The program that a head and lists of actions say. Raises KeyError, TypeError, ValueError."""

    def size(pair):
        return Size(*pair)

    layers = tuple(
        Layer(
            l["name"],
            l["trainable"],
            l["modality"],
            l["weights"],
            size(l["activation"]),
            size(l["until_weight"]),
            size(l["output"]),
            size(l["workspace"]),
            l.get("recompute", False),
        )
        for l in plain["layers"]
    )
    stages = tuple(
        Stage(
            s["region"], *s["layers"], rank=s.get("rank"), owner=tuple(s["owner"]) if "owner" in s else None
        )
        for s in plain["stages"]
    )
    memory = plain["memory"] and Memory(
        tuple(plain["memory"]["capacity"]),
        tuple(plain["memory"]["gradient"]),
        tuple(plain["memory"]["optimizer"]),
    )
    names = list(plain["names"])
    order = OrderBuilder()
    if len(ranks) != plain["ranks"]:
        raise ValueError(f"{len(ranks)} lists of operations for {plain['ranks']} ranks")
    for rank in ranks:
        for a in rank:
            kind = _KIND[a["do"]]
            order.op(
                kind,
                a.get("stage", -1),
                a.get("mb", -1),
                peer=a["peer"] if kind in WITH_PEER else -1,
                name=names.index(a["name"]) if "name" in a else -1,
                comm=a.get("comm", 0),
                launch=a.get("launch", -1),
            )
        order.end_rank()
    return Program(
        plain["ranks"],
        plain["microbatches"],
        layers,
        stages,
        order.build(),
        tuple(plain["images"]),
        {k: frozenset(v) for k, v in plain["modalities"].items()},
        plain["transfers"] == "inserted",
        plain["reductions"] == "inserted",
        plain["fragment"],
        plain["placeholders"],
        tuple(Communicator(c["name"], tuple(c["ranks"])) for c in plain["communicators"]),
        tuple(Tie(t["name"], tuple(t["stages"]), t["comm"]) for t in plain["ties"]),
        memory,
        tuple(names),
    )


def describe_difference(a: Program, b: Program) -> str:
    """Where two programs differ; empty: nowhere, but for the places in the sources."""
    if program_head(a) != program_head(b):
        x, y = program_head(a), program_head(b)
        return f"{next(k for k in x if x[k] != y[k])} differs"
    if a.order.start.tolist() != b.order.start.tolist():
        return "a rank has another number of operations"
    for column in COLUMNS:
        x, y = getattr(a.order, column), getattr(b.order, column)
        if (x != y).any():
            row = int((x != y).argmax())
            return f"{a.show(row)} on rank {a.rank_of(row)} became {b.show(row)}"
    return ""


__all__ = [
    "FORMAT",
    "Plan",
    "PlanError",
    "certificate_text",
    "digest",
    "dumps",
    "program_head",
    "loads",
    "read_program",
    "describe_difference",
]
