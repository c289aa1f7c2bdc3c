"""A schedule that lists nothing is vacuous, never valid."""

from interlock.check.files import check_file
from interlock.check.verdict import Verdict


def test_an_empty_order_and_an_empty_trace_are_vacuous():
    for body in ("microbatches 1 order transfers written { rank 0: rank 1: }", "trace { rank 0: rank 1: }"):
        result = check_file("a.sched", f"schedule a {{ ranks 2 {body} }}".encode())
        assert [c.verdict for c in result.checked] == [Verdict.VACUOUS]
        assert "nothing to check" in result.checked[0].answers[0].reason
