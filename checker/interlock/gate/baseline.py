"""A baseline: the findings a project knows, so that a gate fails on new ones only. A known invalid schedule
stays invalid (spec/gate.md).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from interlock.check.verdict import Answer, CaseResult, Expectation, Verdict
from interlock.program.ir import Program
from interlock.report.outcome import FAILING, concerns, is_expected, outcome
from interlock.text.files import write_whole
from interlock.text.finding import Finding

FORMAT = "interlock.baseline/1"
LARGEST_FILE = 1 << 28
UNMET = "expectation"  # stands where a code would: an expectation that is not met
WARNING, EXPECTED = "warning", "expected"  # slots


@dataclass(frozen=True, order=True)
class Fingerprint:
    """A finding without its place: what is known of it when lines move. `path` from the baseline's folder;
    `hash` of message and operations.
    """

    path: str
    schedule: str
    model: str
    code: str
    hash: str
    message: str = ""  # for people: the hash decides

    @property
    def key(self) -> tuple:
        return (self.path, self.schedule, self.model, self.code, self.hash)


@dataclass(frozen=True)
class Applied:
    """The results with what is known marked, and the fingerprints that were not found again."""

    results: list
    not_found: tuple[Fingerprint, ...]


def read(path: Path) -> tuple[Fingerprint, ...]:
    """Raises ValueError with what is wrong with the file, and OSError."""
    if path.stat().st_size > LARGEST_FILE:
        raise ValueError(f"larger than {LARGEST_FILE >> 20} MiB")
    try:
        document = json.loads(path.read_bytes())
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"no baseline: {error}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(
            f"no baseline of this version of Interlock: its `format` is not {FORMAT}; write it again with "
            "--write-baseline"
        )
    fields = set(Fingerprint.__dataclass_fields__)
    findings = document.get("findings")
    if not isinstance(findings, list) or not all(
        isinstance(f, dict) and set(f) == fields and all(isinstance(v, str) for v in f.values())
        for f in findings
    ):
        raise ValueError("no baseline: `findings` is torn; write it again with --write-baseline")
    return tuple(Fingerprint(**f) for f in findings)


def write(path: Path, results: Sequence) -> int:
    """Writes what is found now, whole or not at all; says how much that is. Raises OSError."""
    found = sorted(
        print_
        for r in results
        for c in r.checked
        for print_, _ in _fingerprints(c, _relative_to(path, c.path))
    )
    write_whole(
        path,
        json.dumps({"format": FORMAT, "findings": [asdict(f) for f in found]}, indent=1, ensure_ascii=False)
        + "\n",
    )
    return len(found)


def apply(known: Sequence[Fingerprint], results: Sequence, path: Path) -> Applied:
    """Marks what is known. `path`: of the baseline, from whose folder its paths are."""
    left = Counter(f.key for f in known)
    out = [
        replace(r, checked=tuple(_mark(c, left, _relative_to(path, c.path)) for c in r.checked))
        for r in results
    ]
    asked = {
        (_relative_to(path, c.path), c.name, a.model) for r in results for c in r.checked for a in c.answers
    }
    read_ = {_relative_to(path, r.path) for r in results if r.checked}
    schedules = {(p, s) for p, s, _ in asked}
    not_found = []
    for f in known:
        again = f.path in read_ and (
            (f.path, f.schedule) not in schedules or not f.model or (f.path, f.schedule, f.model) in asked
        )
        if left[f.key] and (again or not (path.parent / f.path).exists()):
            left[f.key] -= 1
            not_found.append(f)
    return Applied(out, tuple(not_found))


def _relative_to(baseline: Path, path: str) -> str:
    return os.path.relpath(path, baseline.parent).replace(os.sep, "/")


def _fingerprints(c: CaseResult, path: str) -> Iterator[tuple[Fingerprint, tuple]]:
    """The fingerprints of a schedule, each with its slot: (answer, finding), (WARNING, number) or (EXPECTED,
    number).
    """
    for i, a in enumerate(c.answers):
        for j, f in enumerate(a.findings):
            if f.code != "IL901":  # the reason of an unknown, which no baseline excuses
                yield (
                    Fingerprint(
                        path, c.name, a.model, f.code, _hash(f.message, *_operations(f, a.program)), f.message
                    ),
                    (i, j),
                )
    for i, d in enumerate(c.warnings):
        yield Fingerprint(path, c.name, "", d.code, _hash(d.message), d.message), (WARNING, i)
    for i, e in enumerate(c.expectations):
        if not e.met:
            message = _describe_unmet(c, e)
            yield Fingerprint(path, c.name, "", UNMET, _hash(message), message), (EXPECTED, i)


def _operations(f: Finding, program: Program | None) -> list[str]:
    return [f"{program.rank_of(m.row)}:{program.show(m.row)}" for m in f.marks] if program is not None else []


def _describe_unmet(c: CaseResult, e: Expectation) -> str:
    found = [
        f"{a.verdict.value} under "
        f"{a.model}{''.join(f' {code}' for code in sorted({f.code for f in a.errors}))}"
        for a in c.answers
        if concerns(e, a)
    ]
    return (
        f"expected {e.verdict.value} {e.code or ''} under {', '.join(e.models) or 'every model'}, found "
        f"{', '.join(found) or 'nothing'}"
    )


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _mark(c: CaseResult, left: Counter, path: str) -> CaseResult:
    known: set[tuple] = set()
    for print_, slot in _fingerprints(c, path):
        if left[print_.key]:
            left[print_.key] -= 1
            known.add(slot)
    answers = tuple(
        replace(a, findings=tuple(replace(f, known=(i, j) in known) for j, f in enumerate(a.findings)))
        for i, a in enumerate(c.answers)
    )
    warnings = tuple(replace(d, known=(WARNING, i) in known) for i, d in enumerate(c.warnings))
    marked = replace(c, answers=answers, warnings=warnings)
    return replace(marked, excused=outcome(c) in FAILING and _is_excused(marked, known))


def _is_excused(c: CaseResult, known: set[tuple]) -> bool:
    """Whether everything that fails the schedule is known. What was not decided never is."""
    if any(
        not e.met and (e.verdict is Verdict.UNKNOWN or (EXPECTED, i) not in known)
        for i, e in enumerate(c.expectations)
    ):
        return False
    return not any(d.is_error and not d.known for d in c.warnings) and all(
        _is_answer_excused(c, a) for a in c.answers
    )


def _is_answer_excused(c: CaseResult, a: Answer) -> bool:
    if any(f.raised and not f.known for f in a.findings):
        return False
    if a.verdict is Verdict.VALID or is_expected(c, a):
        return True
    return a.verdict is Verdict.INVALID and bool(a.errors) and all(f.known for f in a.errors)
