import pytest

from interlock.check.verdict import Answer, CaseResult, Expectation, Verdict
from interlock.report.outcome import Unread, exit_code, outcome, summary

V, I, U, N = Verdict.VALID, Verdict.INVALID, Verdict.UNKNOWN, Verdict.VACUOUS


def of(verdicts, *expectations, path="a"):
    answers = tuple(Answer(m, v) for m, v in zip(("pair", "rank"), verdicts))
    return CaseResult(
        path, "s", answers, tuple(Expectation(v, None, models, met) for v, models, met in expectations)
    )


@pytest.mark.parametrize(
    "checked, what, code",
    [
        (of([V]), "valid", 0),
        (of([V, I]), "invalid", 1),
        (of([U]), "unknown", 3),
        (of([]), "unknown", 3),
        (of([N]), "vacuous", 3),
        (of([I, U]), "invalid", 1),
        (of([I], (I, (), True)), "invalid as expected", 0),
        (of([V, I], (V, ("pair",), True), (I, ("rank",), True)), "invalid as expected", 0),
        (of([I, I], (I, ("pair",), True)), "invalid", 1),  # nothing is said about rank
        (of([V], (I, (), False)), "not as expected", 1),
        (of([U], (I, (), False)), "not as expected", 1),
        (of([U], (U, (), True)), "unknown", 3),  # an unknown never passes
        (of([V], (U, (), False)), "not as expected", 1),
        (of([N], (N, (), True)), "vacuous as expected", 0),
    ],
)
def test_outcomes(checked, what, code):
    assert outcome(checked) == what and exit_code([checked]) == code


def test_the_first_code_that_applies():
    some = [of([V]), of([U])]
    assert exit_code(some) == 3
    assert exit_code([*some, of([I])]) == 1
    assert exit_code([*some, of([I])], [Unread("a.sched", ())]) == 2
    assert exit_code(some, [Unread("a.sched", ())], internal=True) == 101
    assert exit_code([], [Unread("a.sched", (), as_expected=True)]) == 0
    assert exit_code([]) == 2  # a gate that checked nothing has not passed


def test_summary():
    checked = [of([V], path=str(i)) for i in range(10)] + [
        of([I], (I, (), True), path="x"),
        of([U], path="y"),
    ]
    assert summary(checked) == "12 files: 10 valid, 1 invalid as expected, 1 unknown"
    assert (
        summary([of([V]), of([I])], [Unread("b", ())])
        == "2 files, 2 schedules: 1 valid, 1 invalid, 1 not readable"
    )
