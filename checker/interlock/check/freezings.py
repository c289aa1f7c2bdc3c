"""Schedule invariance: one order for every freezing, found by z3 in one query and judged by the kernel (spec/footprint.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from interlock.check.verdict import Answer, Verdict
from interlock.kernel.judge import judge_all
from interlock.program.facts import Facts
from interlock.program.ir import Program
from interlock.program.linearise import compute_times
from interlock.program.plain import plain_form
from interlock.program.transfers import restrict
from interlock.rules.waits import MODELS
from interlock.text.finding import Finding, Severity


def check_invariance(
    trained: Program,
    layers: Sequence[int],
    *,
    placed: Program | None = None,
    under: Answer | None = None,
    peak: Sequence[int | None] | None = None,
    second: bool = False,
) -> Answer:
    """`trained`: a program in which each of `layers` is trainable. With its transfers inserted the answer does not depend on the model.

    `placed`: an inserted program with its transfers written and its bytes, if these are asked: no freezing may need more than the capacity or `peak`
    of a rank. `under`: of a program whose transfers are written, the valid answer under the one model that is asked; its times are the claim's.
    `second`: cvc5 is asked beside z3. Raises Disagreement.
    """
    from interlock.check.program import Disagreement
    from interlock.engine import smt

    model = under.model if under is not None else "any"
    if trained.fragment:
        return Answer(
            model,
            reason="invariance: a fragment lists a part of a program, and what a freezing leaves of it is not known",
        )
    if under is None:
        trained = replace(
            trained, memory=None
        )  # the claim is about the order; what the bytes rest on is `placed`
        plain, valid = plain_form(trained), {"times": compute_times(Facts(trained)).time.tolist()}
    else:
        trained, plain = under.program, under.certificates[0]["program"]
        valid = next(claim for claim in under.certificates[0]["claims"] if claim["claim"] == "valid")
    sized = trained if under is not None else placed
    bytes_asked = sized is not None and sized.memory is not None
    limits = least(sized.memory.capacity, peak) if bytes_asked and peak is not None else None
    try:
        found = smt.invariant(
            trained,
            layers,
            model=None if under is None else model,
            written=placed,
            limits=limits,
            second=second,
        )
    except smt.Contradiction as error:
        raise Disagreement(str(error)) from error
    if isinstance(found, smt.Unknown):
        return Answer(model, reason=f"invariance: {found.reason}")
    names = names_of(trained, layers)
    if isinstance(found, smt.Fails):
        return _failing(found, model, names, peak)
    claim = {**valid, "claim": "invariant", "bits": list(layers)}
    judgement = judge_all(plain, [claim])[0]
    if not judgement.accepted:
        raise Disagreement(f"the kernel rejects an invariance that z3 proved: {judgement.reason}")
    note = Finding(
        "IL607",
        "R-INV-1",
        f"holds for any freezing of {names}: all 2^{len(layers)} choices in one query{', memory included' * bytes_asked}",
        (),
        "",
        Severity.NOTE,
    )
    return Answer(
        model,
        Verdict.VALID,
        trained,
        (note,),
        "",
        ({"format": "interlock.certificate/1", "program": plain, "claims": [claim]},),
    )


def least(*limits: Sequence[int | None]) -> tuple[int | None, ...]:
    """For each rank the smallest of the limits that there are."""
    return tuple(min((x for x in mine if x is not None), default=None) for mine in zip(*limits))


def not_every(names: str, frozen: str, what: str, repair: str) -> Finding:
    """IL606, R-INV-1."""
    return Finding(
        "IL606",
        "R-INV-1",
        f"the order does not serve every freezing of {names}: with {frozen or 'none of them'} frozen, {what}",
        (),
        repair,
    )


def _failing(found, model: str, names: str, peak: Sequence[int | None] | None) -> Answer:
    """The freezing that fails, and with it, from the rules, what goes wrong there: its trace is that of the program that freezing leaves."""
    from interlock.check.program import Limits, check_program

    frozen = ", ".join(found.program.layers[l].name for l in found.bits)
    finding = not_every(
        names,
        frozen,
        found.what,
        "check the sizes, or raise the capacity"
        if found.code == "IL501"
        else "let the footprint decide which backward work exists",
    )
    layers = tuple(
        replace(l, trainable=l.trainable and i not in found.bits) for i, l in enumerate(found.program.layers)
    )
    left = restrict(found.program, layers)
    [there] = check_program(left, (model if model in MODELS else MODELS[0],), limits=Limits(peak))
    if there.verdict is Verdict.INVALID:
        return replace(there, model=model, findings=(finding, *there.findings))
    return Answer(model, Verdict.INVALID, left, (finding,))


def names_of(program: Program, layers: Sequence[int]) -> str:
    """Layer groups by name: `vit (24 layers), proj`."""
    counts: dict[str, int] = {}
    for l in layers:
        name = program.layers[l].name.split("[")[0]
        counts[name] = counts.get(name, 0) + 1
    return ", ".join(f"{name} ({n} layers)" if n > 1 else name for name, n in counts.items())
