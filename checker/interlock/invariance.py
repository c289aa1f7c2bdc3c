"""Schedule invariance: one order for every freezing, found by z3 in one query and judged by the kernel (spec/footprint.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .kernel.judge import judge_all
from .program.facts import Facts
from .program.ir import Program
from .program.linearise import compute_times
from .rules.finding import Finding, Severity
from .verdict import Answer, Verdict


def check_invariance(trained: Program, layers: Sequence[int], *, placed: Program | None = None, peak: Sequence[int | None] | None = None,
                     second: bool = False) -> Answer:
    """`trained`: a program with inserted transfers in which each of `layers` is trainable. The answer does not depend on the model.

    `placed`: the same with its transfers written and its bytes, if these are asked: no freezing may need more than the capacity or `peak`
    of a rank. `second`: cvc5 is asked beside z3. Raises Disagreement.
    """
    from .check import Disagreement
    from .engine import smt
    trained = replace(trained, memory=None)              # the claim is about the order; what the bytes rest on is `placed`
    if not trained.inserted:
        return Answer("any", reason="`for any freezing` is decided for schedules with inserted transfers")
    limits = None
    if placed is not None and placed.memory is not None and peak is not None:
        limits = tuple(min((x for x in both if x is not None), default=None) for both in zip(placed.memory.capacity, peak))
    try:
        found = smt.invariant(trained, layers, written=placed, limits=limits, second=second)
    except smt.Contradiction as error:
        raise Disagreement(str(error)) from error
    if isinstance(found, smt.Unknown):
        return Answer("any", reason=f"invariance: {found.reason}")
    names = _names(trained, layers)
    if isinstance(found, smt.Fails):
        frozen = ", ".join(trained.layers[l].name for l in found.bits) or "nothing"
        finding = Finding("IL606", "R-INV-1", f"the order does not serve every freezing of {names}: with {frozen} frozen, {found.what}", (),
                          "check the sizes, or raise the capacity" if found.code == "IL501" else "let the footprint decide which backward work exists")
        return Answer("any", Verdict.INVALID, trained, (finding,))
    claim = {"claim": "invariant", "bits": list(layers), "times": compute_times(Facts(trained)).time.tolist()}
    plain = trained.plain()
    judgement = judge_all(plain, [claim])[0]
    if not judgement.accepted:
        raise Disagreement(f"the kernel rejects an invariance that z3 proved: {judgement.reason}")
    bytes_ = ", memory included" if placed is not None and placed.memory is not None else ""
    note = Finding("IL607", "R-INV-1", f"holds for any freezing of {names}: all 2^{len(layers)} choices in one query{bytes_}", (), "", Severity.NOTE)
    return Answer("any", Verdict.VALID, trained, (note,), "", ({"format": "interlock.certificate/1", "program": plain, "claims": [claim]},))


def _names(program: Program, layers: Sequence[int]) -> str:
    """Layer groups by name: `vit (24 layers), proj`."""
    counts: dict[str, int] = {}
    for l in layers:
        name = program.layers[l].name.split("[")[0]
        counts[name] = counts.get(name, 0) + 1
    return ", ".join(f"{name} ({n} layers)" if n > 1 else name for name, n in counts.items())
