"""What `require` asks, as limits a check can decide; and what this version cannot decide, with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from interlock.algebra.elaborate import Elaborated
from interlock.algebra.expr import evaluate
from interlock.language import ast
from interlock.text.finding import error
from interlock.text.phrases import list_names, suggest

_UNDECIDED = {"deadlock_free": "the parametric prover"}
_COSTS = {"bubble": "percent", "exposure": "time", "makespan": "time"}


@dataclass(frozen=True)
class Bound:
    """`require FIGURE <= LIMIT` (`strict`: `<`), in nanoseconds or as a share; of bubble, exposure or
    makespan. models: () for all.
    """

    figure: str
    limit: Fraction | int
    strict: bool = False
    models: tuple[str, ...] = ()

    def is_broken_by(self, value: Fraction | int) -> bool:
        return value > self.limit or (self.strict and value == self.limit)


@dataclass(frozen=True)
class Requirements:
    """Limits for each rank (bytes; stashes), None where not asked; `undecided`: reasons for a verdict
    `unknown`; `bounded_stash` where asked.
    `costs`: decided by check/durations.py, as are assumptions."""

    peak: tuple[int | None, ...] | None = None
    in_flight: tuple[int | None, ...] | None = None
    bounded_stash: bool = False
    undecided: tuple[str, ...] = ()
    costs: tuple[Bound, ...] = ()


def requirements(schedule: Elaborated) -> Requirements:
    """Raises InputError (IL210, IL213) for a requirement that says nothing sensible."""
    P, M = schedule.program.ranks, schedule.program.microbatches
    peak: list[int | None] = [None] * P
    in_flight: list[int | None] = [None] * P
    bounded, undecided, costs = False, [], []
    for claim in schedule.requires:
        match claim.condition:
            case ast.Name(text="bounded_stash"):
                bounded = True
            case ast.Compare(operator="<=" | "<" as operator, left=left, right=right) if _figure(left)[0] in (
                "peak",
                "in_flight",
            ):
                figure, variable = _figure(left)
                table = peak if figure == "peak" else in_flight
                for r in range(P):
                    limit = _limit(figure, right, {"P": P, "M": M} | ({variable: r} if variable else {})) - (
                        operator == "<"
                    )
                    table[r] = limit if table[r] is None else min(table[r], limit)
            case ast.Compare(operator="<=" | "<" as operator, left=ast.Name(text=figure), right=right) if (
                figure in _COSTS
            ):
                costs.append(
                    Bound(figure, _cost(figure, right), operator == "<", tuple(m.text for m in claim.models))
                )
            case condition:
                what = _figure(condition.left if isinstance(condition, ast.Compare) else condition)[0]
                if what in ("peak", "in_flight", *_COSTS):
                    raise error(
                        "IL210",
                        f"`{what}` is bounded from above",
                        condition.span,
                        help=f"write `{what} <= ..`",
                    )
                if what not in _UNDECIDED:
                    known = ["peak", "in_flight", "bounded_stash", *_COSTS, *_UNDECIDED]
                    raise error(
                        "IL107",
                        f"`{what or 'this'}` is no figure that `require` knows",
                        condition.span,
                        "unknown",
                        suggest(what, known) or f"known: {list_names(known)}",
                    )
                undecided.append(
                    f"`require {what}` is decided by {_UNDECIDED[what]}, which this version lacks"
                )
    undecided += ["`prove` is decided by the `prove` command, which this version lacks"] * bool(
        schedule.proves
    )

    def given(table):
        return tuple(table) if any(x is not None for x in table) else None

    return Requirements(given(peak), given(in_flight), bounded, tuple(dict.fromkeys(undecided)), tuple(costs))


def empty_assumption(schedule: Elaborated) -> str:
    """Why the assumptions admit no instance; "" if they may."""
    for assumption in schedule.assumes:
        if assumption.low.value > assumption.high.value:
            return f"`assume {assumption.property}` admits no value: its lower end is above its upper end"
    return ""


def _figure(node) -> tuple[str, str]:
    """`peak`, `in_flight`, `in_flight(r)`: the figure and its rank variable."""
    match node:
        case ast.Name(text=text):
            return text, ""
        case ast.Call(function=function, arguments=(ast.Name(text=variable),)):
            return function.text, variable
    return "", ""


def _cost(figure: str, node: ast.Expr) -> Fraction | int:
    wants = (
        "a share, as in `bubble <= 12%`" if figure == "bubble" else f"a duration, as in `{figure} <= 200ms`"
    )
    if not isinstance(node, ast.Quantity) or node.dimension != _COSTS[figure] or node.per_image:
        raise error(
            "IL210",
            f"`{figure}` is compared with {wants.split(',', maxsplit=1)[0]}",
            node.span,
            help=f"write {wants}",
        )
    return Fraction(node.value, node.scale) if figure == "bubble" else node.value


def _limit(figure: str, node: ast.Expr, env: dict) -> int:
    if isinstance(node, ast.Quantity):
        if figure != "peak" or node.dimension != "bytes" or node.per_image:
            raise error(
                "IL210",
                f"`{figure}` is compared with {'bytes' if figure == 'peak' else 'a number of microbatches'}",
                node.span,
                help="write `peak <= 60GiB`, `in_flight <= 4`",
            )
        return node.value
    if figure == "peak":
        raise error(
            "IL210", "`peak` is compared with bytes", node.span, help="write a size, as in `peak <= 60GiB`"
        )
    return int(evaluate(node, env))
