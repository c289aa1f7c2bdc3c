"""A file to its answers: load, discharge what is asked of every case, fold, compare with what is expected."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from interlock.check.obligations import discharge_case, limits_of
from interlock.check.verdict import Answer, CaseResult, Expectation, Verdict
from interlock.language import ast
from interlock.load import DEFAULT_MODEL, Case, Family, Loaded, Question, load
from interlock.text.finding import Finding
from interlock.text.source import Sources


@dataclass(frozen=True)
class FileResult:
    """One file: its schedules, or the input errors that kept it from being checked (`as_expected`: its header
    asked for them).
    """

    path: str
    sources: Sources
    checked: tuple[CaseResult, ...] = ()
    errors: tuple[Finding, ...] = ()
    as_expected: bool = False


@dataclass(frozen=True)
class Ruling:
    """A case and what its check came to."""

    case: Case
    result: CaseResult


def check_file(path: str, data: bytes, question: Question = Question()) -> FileResult:
    """Checks the contents of a `.sched` file, or of a PyTorch CSV if the name ends in `.csv`. Raises
    Disagreement only.
    """
    return check_loaded(load(path, data, question))


def check_loaded(loaded: Loaded) -> FileResult:
    """Raises Disagreement."""
    results = tuple(check_case(case) for case in loaded.cases)
    return FileResult(loaded.path, loaded.sources, results, loaded.errors, loaded.as_expected)


def check_case(case: Case | Family) -> CaseResult:
    """One schedule under each model asked and for each target. Raises Disagreement."""
    if isinstance(case, Family):
        return _check_family(case)
    began = time.perf_counter()
    record = discharge_case(case)
    answers = (
        *(record.answer(model) for model in case.models),
        *(record.answer(target, target=True) for target in case.targets),
    )
    return CaseResult(
        case.path,
        case.name,
        answers,
        tuple(_compare(expect, answers) for expect in case.expects),
        case.warnings,
        case.at,
        case.width,
        case.seconds + time.perf_counter() - began,
        record.figures(),
        source={"name": case.path, "sha256": case.digest},
        limits=limits_of(case),
    )


def _check_family(family: Family) -> CaseResult:
    reason = (
        "a skeleton is a program for all P and M: `prove` decides it, which this version lacks; "
        "check a schedule that uses it"
    )
    answer = Answer(DEFAULT_MODEL, reason=reason)
    return CaseResult(family.path, family.name, (answer,), at=family.at, width=family.width)


def _compare(expect: ast.Expect, answers: Sequence[Answer]) -> Expectation:
    """Whether the answers are what a line of a file expects."""
    verdict, codes = Verdict(expect.verdict), {c.text for c in expect.codes}
    models = tuple(m.text for m in expect.models)
    concerned = [a for a in answers if (a.model in models if models else not a.target)]
    met = bool(concerned) and all(
        a.verdict is verdict and codes <= {f.code for f in a.findings} for a in concerned
    )
    return Expectation(verdict, expect.codes[0].text if expect.codes else None, models, met)


def rulings(loaded: Loaded) -> list[Ruling]:
    """Of the schedules of a file. Raises Disagreement."""
    return [Ruling(case, check_case(case)) for case in loaded.cases if isinstance(case, Case)]
