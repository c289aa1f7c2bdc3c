"""What a run comes to: the outcome of each schedule, the counts, the exit code. Spec: verdicts.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from interlock.check.verdict import Answer, CaseResult, Expectation, Verdict
from interlock.program.ir import Program
from interlock.report.style import count
from interlock.rules.waits import MODELS
from interlock.text.finding import Finding

OUTCOMES = (
    "valid",
    "invalid as expected",
    "vacuous as expected",
    "invalid",
    "not as expected",
    "not allowed",
    "vacuous",
    "unknown",
)
FAILING = {"invalid": 1, "not as expected": 1, "not allowed": 1, "vacuous": 3, "unknown": 3}


@dataclass(frozen=True)
class Unread:
    """A file that could not be checked: the findings of its InputError.

    `as_expected`: its header comment asks for them.
    """

    path: str
    findings: tuple[Finding, ...]
    as_expected: bool = False


def concerns(expectation: Expectation, answer: Answer) -> bool:
    return answer.model in expectation.models if expectation.models else not answer.target


def is_expected(checked: CaseResult, answer: Answer) -> bool:
    """Whether an expectation that was met names this verdict under this model.

    An unknown is never expected.
    """
    return answer.verdict is not Verdict.UNKNOWN and any(
        e.met and e.verdict is answer.verdict and concerns(e, answer) for e in checked.expectations
    )


def raised_codes(checked: CaseResult) -> list[str]:
    """The codes of warnings and notes that the configuration makes errors."""
    return sorted(
        {f.code for a in checked.answers for f in a.findings if f.raised}
        | {d.code for d in checked.warnings if d.is_error}
    )


def outcome(checked: CaseResult) -> str:
    """One of OUTCOMES: the first that holds of not as expected, invalid, unknown, vacuous, and of those
    that pass.
    """
    if any(not e.met and e.verdict is not Verdict.UNKNOWN for e in checked.expectations):
        return "not as expected"
    loose = {a.verdict for a in checked.answers if not is_expected(checked, a)}
    if Verdict.INVALID in loose:
        return "invalid"
    if raised_codes(checked):
        return "not allowed"
    if Verdict.UNKNOWN in loose or not checked.answers:
        return "unknown"
    if any(not e.met for e in checked.expectations):
        return "not as expected"
    if Verdict.VACUOUS in loose:
        return "vacuous"
    found = {a.verdict for a in checked.answers}
    return next((f"{v.value} as expected" for v in (Verdict.INVALID, Verdict.VACUOUS) if v in found), "valid")


def exit_code(checked: Sequence[CaseResult], unread: Sequence[Unread] = (), internal: bool = False) -> int:
    """The first that applies of 101, 2, 1, 3; 0 only if something was checked (or refused as expected) and
    all of it passed, or is known.
    """
    if internal:
        return 101
    if any(not u.as_expected for u in unread) or not (checked or unread):
        return 2
    codes = {FAILING.get(outcome(c), 0) for c in checked if not c.excused}
    return next((code for code in (1, 3) if code in codes), 0)


def counts(checked: Iterable[CaseResult]) -> Counter:
    return Counter(outcome(c) for c in checked)


def summary(checked: Sequence[CaseResult], unread: Sequence[Unread] = ()) -> str:
    """`12 files: 10 valid, 1 invalid as expected, 1 unknown`."""
    files = len({c.path for c in checked} | {u.path for u in unread})
    schedules = f", {count(len(checked), 'schedule')}" if len(checked) > files - len(unread) else ""
    found = counts(checked)
    refused = Counter("refused as expected" if u.as_expected else "not readable" for u in unread)
    known = Counter(outcome(c) for c in checked if c.excused)
    parts = [
        f"{found[o]} {o}" + (f" ({known[o]} known)" if known[o] else "") for o in OUTCOMES if found[o]
    ] + [f"{n} {what}" for what, n in sorted(refused.items(), reverse=True)]
    waived = sum(len(c.waived) for c in checked)
    more = f"; {waived} waived" if waived else ""
    if any(c.excused is not None for c in checked):
        new = sum(not c.excused and FAILING.get(outcome(c), 0) == 1 for c in checked)
        more += f"; {'nothing' if not new else count(new, 'schedule')} new against the baseline"
    return f"{count(files, 'file')}{schedules}: {', '.join(parts) or 'nothing checked'}{more}"


@dataclass(frozen=True)
class MergedFinding:
    """A finding with the models it holds under, or the targets that ask for it, and the first answer that
    has it.
    """

    finding: Finding
    answer: Answer
    models: tuple[str, ...]

    @property
    def program(self) -> Program | None:
        return self.answer.program


def merge_findings(checked: CaseResult, *, every: bool = False) -> list[MergedFinding]:
    """Each finding once.

    A deadlock under one model is one under every stronger model too: only the weakest one's is told, unless
    `every`.
    """
    merged: dict[tuple, tuple[Finding, Answer, list[str]]] = {}
    strength = {m: i for i, m in enumerate(MODELS)}
    for answer in sorted(checked.answers, key=lambda a: strength.get(a.model, len(strength))):
        for f in answer.findings:
            key = _merge_key(f, every)
            merged.setdefault(key, (f, answer, []))[2].append(answer.model)
    return [MergedFinding(f, a, tuple(dict.fromkeys(models))) for f, a, models in merged.values()]


def _merge_key(f: Finding, every: bool) -> tuple:
    marks = tuple(m.place for m in f.marks)
    if f.code == "IL402":
        return (f.code, f.known, *((f.data.get("cause"), marks) if every else ()))
    return (f.code, f.message, marks, f.severity, f.known)
