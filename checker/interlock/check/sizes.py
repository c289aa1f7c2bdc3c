"""`assume` over sizes: no value in the intervals needs more bytes than the upper ends (spec/memory.md, "Sizes within intervals")."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from interlock.algebra.elaborate import SIZED, Assumption, Elaborated
from interlock.check.freezings import least
from interlock.check.runs import named
from interlock.check.verdict import Answer, Verdict
from interlock.program.facts import Facts
from interlock.program.ir import Layer, Program, Size
from interlock.rules.memory import MOMENT, Usage, show_bytes
from interlock.text.finding import Finding

CODES = ("IL501", "IL701")


def sized(schedule: Elaborated) -> list[Assumption]:
    return [a for a in schedule.assumes if a.property in SIZED]


def fullest(schedule: Elaborated) -> Elaborated:
    """The schedule with every assumed size at the upper end of its interval."""
    assumes = sized(schedule)
    if not assumes:
        return schedule
    layers = at(schedule, schedule.program.layers, {a: a.high.value for a in assumes})
    trained = schedule.trained
    if trained is not None:
        trained = replace(
            trained, layers=tuple(replace(l, trainable=t.trainable) for l, t in zip(layers, trained.layers))
        )
    return replace(schedule, program=replace(schedule.program, layers=layers), trained=trained)


def at(schedule: Elaborated, layers: Sequence[Layer], values: dict[Assumption, int]) -> tuple[Layer, ...]:
    """The layers with these values of assumed sizes. What logits add to an activation stays."""
    out = list(layers)
    for a, value in values.items():
        for l in a.layers:
            size = Size(0, value) if a.high.per_image else Size(value)
            if a.property == "activation":
                more = schedule.chain.logits[l]
                size = Size(size.fixed + more.fixed, size.per_image + more.per_image)
            out[l] = replace(out[l], **{a.property: value if a.property == "weights" else size})
    return tuple(out)


def told(
    schedule: Elaborated, answers: Iterable[Answer], peak: Sequence[int | None] | None
) -> tuple[Answer, ...]:
    """Answers in which a finding about bytes says at which sizes it holds, and, of one assumption, from which on."""
    assumes = sized(schedule)

    def say(finding: Finding, program: Program) -> Finding:
        if finding.code not in CODES:
            return finding
        excess, _, moment = finding.message.partition(MOMENT)
        return replace(
            finding,
            message=f"{excess} {_where(schedule, program, assumes, peak, finding)}{MOMENT if moment else ''}{moment}",
        )

    return (
        tuple(replace(a, findings=tuple(say(f, a.program) for f in a.findings)) for a in answers)
        if assumes
        else tuple(answers)
    )


def _where(schedule: Elaborated, program: Program, assumes: list[Assumption], peak, finding) -> str:
    limits = program.memory.capacity if finding.code == "IL501" else peak

    def breaks(value: int) -> bool:
        layers = at(schedule, program.layers, {assumes[0]: value})
        peaks = Usage(Facts(replace(program, layers=layers))).peaks
        return any(limit is not None and used > limit for used, limit in zip(peaks, limits))

    where = f"at {shown(schedule, assumes)}"
    if len(assumes) > 1:
        return where
    low, high = assumes[0].low.value, assumes[0].high.value
    if breaks(low):
        return f"{where}, and at every smaller value assumed" if low < high else where
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if breaks(middle) else (middle, high)
    return f"{where} (it breaks from {show_bytes(high)} on)"


def shown(schedule: Elaborated, assumes: Sequence[Assumption]) -> str:
    """`vit.activation = 3 MiB`: what is assumed at the upper ends."""
    return ", ".join(
        f"{named(schedule.program, a)} = {show_bytes(a.high.value)}{' per image' * a.high.per_image}"
        for a in assumes
    )


def decided_anew(
    schedule: Elaborated, answers: Iterable[Answer], peak: Sequence[int | None] | None
) -> tuple[Answer, ...]:
    """For the SMT engine: valid only where the solver finds no sizes in the intervals, each layer's its own, that need too many bytes.

    Sizes for each image stay at their upper ends. Raises Disagreement.
    """
    from interlock.check.program import Disagreement
    from interlock.engine import smt

    assumes = [a for a in sized(schedule) if not a.high.per_image]
    if not assumes:
        return tuple(answers)
    names = {(a, l): f"assumed.{a.property}.l{l}" for a in assumes for l in a.layers}
    parameters = [smt.Parameter(name, a.property, (l,)) for (a, l), name in names.items()]
    bounds = {name: (a.low.value, a.high.value) for (a, _), name in names.items()}
    out = []
    for answer in answers:
        p = answer.program
        if answer.verdict is Verdict.VALID and p is not None and p.memory is not None and not p.inserted:
            limits = least(p.memory.capacity, peak or p.memory.capacity)
            found = smt.fits(p, parameters, bounds, limits) if any(x is not None for x in limits) else None
            if isinstance(found, smt.Over):
                raise Disagreement(
                    f"z3 finds sizes within what is assumed that need more bytes than the upper ends: {found.values}"
                )
            if isinstance(found, smt.Unknown):
                answer = replace(
                    answer, verdict=Verdict.UNKNOWN, reason=f"sizes within their intervals: {found.reason}"
                )
        out.append(answer)
    return tuple(out)
