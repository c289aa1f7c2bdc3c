import json

from interlock.check.verdict import Expectation, Verdict
from interlock.report.json import render
from report.sample import TWO_RANKS
from report.test_text import checked


def test_golden(golden):
    c, sources = checked(TWO_RANKS, ("edge", "pair"), Expectation(Verdict.VALID, None, ("edge",), True))
    text = render([c], lambda path: sources)
    golden("two_ranks.json", text)
    report = json.loads(text)
    edge, pair = report["files"][0]["schedules"][0]["answers"]
    assert (edge["verdict"], edge["as_expected"], pair["verdict"], report["exit_code"]) == (
        "valid",
        True,
        "invalid",
        1,
    )
    place = pair["findings"][0]["places"][0]
    line = TWO_RANKS.splitlines()[place["line"] - 1]
    assert line[place["column"] - 1 : place["end_column"] - 1] == place["operation"] == "0SEND_F1"


def test_the_same_twice():
    once, again = (render([c], lambda path: s) for c, s in (checked(TWO_RANKS, ("pair",)) for _ in range(2)))
    assert once == again
