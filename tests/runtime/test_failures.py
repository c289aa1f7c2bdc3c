"""A rank that dies, hangs or differs: every rank ends, within the time limit, and says what failed, where,
and where each rank stood.
"""

import json
import re

import pytest

from torch_ranks import run_ranks

from .support import HERE, lowered

pytestmark = pytest.mark.torch

SECONDS = 60
TEXT = (
    "schedule s {{ ranks {ranks} microbatches 4 model {{ layers u[{ranks}] {{ }} }} cut {{ all = u : "
    "{skeleton} }} }}"
)
TRANSPOSED = (
    "schedule s { ranks 3 microbatches 4 model { layer vit { } layers u[3] { } } cut { e = vit : "
    "transpose(gather: late)  b = u : 1f1b } }"
)


@pytest.fixture
def fail(tmp_path):
    def fail(
        ranks: int, *ways: str, schedule: str = "", to: str = "torch"
    ) -> list[tuple[int, str, list[str]]]:
        """Of each rank the exit code, what it printed, what it raised each time."""
        text = lowered(schedule or TEXT.format(ranks=ranks, skeleton="1f1b"), to).text
        (tmp_path / "s.plan").write_text(text)
        (tmp_path / "old.plan").write_text(text.replace("interlock.plan/1", "interlock.plan/0"))
        (tmp_path / "other.plan").write_text(lowered(TEXT.format(ranks=ranks, skeleton="gpipe")).text)
        store = tmp_path / "store"
        said = [tmp_path / f"out-{r}.json" for r in range(ranks)]
        arguments = [(r, ranks, store, said[r], tmp_path, *ways) for r in range(ranks)]
        ended = run_ranks(HERE / "failing.py", arguments, tmp_path, SECONDS)
        return [
            (rank.code, rank.out, json.loads(said[r].read_text()) if said[r].exists() else [])
            for r, rank in enumerate(ended)
        ]

    return fail


def test_what_differs_is_said_at_the_start_on_every_rank(fail):
    ways = ("version", "binary", "other", "stages", "frozen")
    ranks = fail(2, *ways)
    assert all(code == 7 for code, _, _ in ranks), ranks
    for i, (way, expected) in enumerate(
        zip(
            ways,
            (
                r"RunError: rank 1: the plan is of the format 'interlock.plan/0', and this version reads 'interlock.plan/1'.*\[IL845\]",
                r"RunError: rank 1: .*binary.plan: no text.*\[IL845\]",
                r"ranks 0 and 1 run different plans: s \(.*s.plan, \w{12}\) and s \(.*other.plan, \w{12}\).*\[IL846\]",
                r"rank 1: rank 1 was given the stages \[7\], and the plan places \[1\] there.*\[IL849\]",
                r"rank 1: stage 1: the module has none, and the plan trains it.*\[IL849\]",
            ),
        )
    ):
        for _, _text, said in ranks:
            assert re.search(expected, said[i], re.S), (way, said[i])


@pytest.mark.parametrize(
    "way, expected",
    [
        (
            "shape",
            r"rank 1 in 1SEND_F1 \(.*s.plan:\d+\): sends \(float32\[3, 2\]\), and sent \(float32\[3, 4\]\) before.*\[IL847\]",
        ),
        ("raises", r"rank 1 failed in 1F1 \(.*s.plan:\d+\): ValueError: no such token.*\[IL848\]"),
        ("killed", r"rank 1 is gone.*rank 0: .*\(.*s.plan:\d+\).*rank 1: last seen, it .*\[IL848\]"),
        (
            "hangs",
            r"has been in one operation for 3 s.*rank 1: runs 1F1 \(.*s.plan:\d+\), for [2-9]\.\d s.*\[IL848\]",
        ),
        (
            "host",
            r"(rank 0 is gone|the store of the process group cannot be reached).*rank 0: (last seen, it )?.*\[IL848\]",
        ),
    ],
    ids=["shape", "raises", "killed", "hangs", "host"],
)
def test_what_fails_in_a_step_ends_every_rank(fail, way, expected):
    ranks = fail(3, way)
    for r, (code, text, said) in enumerate(ranks):
        if (way, r) in (("killed", 1), ("host", 0)):
            assert code == -9
        elif way == "hangs" and r == 1:
            assert (
                code == 70
                and re.search("rank 1 does not come back from 1F1", text)
                and re.search(expected, text, re.S)
            ), text
        else:
            assert code == 7 and said and re.search(expected, said[0], re.S), (r, code, text, said)


@pytest.mark.parametrize(
    "way, expected",
    [
        (
            "gather",
            r"rank 1 is gone.*rank 0: \w+.*rank 1: last seen, it .*rank 2: waits for rank 1 in 3F0 \(.*s.plan:\d+\)",
        ),
        (
            "reduction",
            r"rank 1 is gone.*rank 0: waits for the other ranks in 0REDUCE \(.*s.plan:\d+\).*rank 1: last seen, it ",
        ),
        pytest.param(
            "groups",
            r"rank 1 is gone.*rank 0: makes process groups.*rank 1: last seen, it .*rank 2: makes process "
            r"groups",
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            "sync",
            r"rank 1 is gone.*rank 0: waits for the parameters of rank 0.*rank 1: last seen, it ",
            marks=pytest.mark.thorough,
        ),
    ],
    ids=["gather", "reduction", "groups", "sync"],
)
def test_a_rank_is_killed_where_others_wait_for_it(fail, way, expected):
    """In mid-gather, with more underway than a socket holds; in a reduction; before the first step."""
    for r, (code, text, said) in enumerate(fail(3, way, schedule=TRANSPOSED)):
        if r == 1:
            assert code == -9
        else:
            assert code == 7 and re.search(rf"RunError: {expected}.*\[IL848\]", said[0], re.S), (
                r,
                code,
                text,
                said,
            )


def test_what_does_not_fit_is_said_by_every_rank(fail):
    for _, text, said in fail(3, "gate", "gradient", "type", schedule=TRANSPOSED):
        for found, expected in zip(
            said,
            (
                r"rank 0 in 0F0 \(.*s.plan:\d+\): stage 0 gives outputs without a gradient, and by the plan it has one.*\[IL849\]",
                r"rank 0 in 1B0 \(.*s.plan:\d+\): receives gradients \(float32\[2, 4\]\) from rank 1 for outputs \(float32\[3, 4\]\).*\[IL847\]",
                r"rank 1 in 2SEND_F1 \(.*s.plan:\d+\): sends \(float16\[3, 4\]\), and sent \(float32\[3, 4\]\) before.*\[IL847\]",
            ),
            strict=True,
        ):
            assert re.search(expected, found, re.S), (found, text)


@pytest.mark.thorough
def test_a_peer_that_makes_no_runner(fail):
    expected = r"rank [02] has been in one operation for 3 s.*rank 0: waits for the other ranks to start.*rank 1: never seen.*\[IL848\]"
    for r, (code, text, said) in enumerate(fail(3, "unbuilt")):
        assert code == 7 and (r == 1 or re.search(expected, said[0], re.S)), (r, code, text, said)


def test_a_receive_is_posted_while_the_rank_waits_for_another_queue(fail):
    """Rank 0 asks for 1F1 before rank 1 has said what it is made of, and then waits for rank 2 to take 2F0,
    which it does only after rank 1 has sent 1F1.
    """

    def forwards(s, ms):
        return " ".join(f"{s}RECV_F{m} {s}F{m} {s}SEND_F{m} {s}WAIT_F{m}" for m in ms)

    def backwards(s):
        return " ".join(f"{s}RECV_B{m} {s}B{m} {s}SEND_B{m}" for m in range(3))

    ranks = fail(
        3,
        "late",
        schedule=f"""schedule s {{ ranks 3 microbatches 3 order transfers written reductions inserted {{
      rank 0: 2RECV_F0 2F0 2RECV_F1 2SEND_F0 2WAIT_F0 2F1 2SEND_F1 2RECV_F2 2F2 2SEND_F2 {backwards(2)}
      rank 1: {forwards(1, range(3))} {backwards(1)}
      rank 2: {" ".join(f"0F{m} 0SEND_F{m} 0WAIT_F{m}" for m in range(3))} {" ".join(f"3RECV_F{m} 3F{m}" for m in range(3))}
              {" ".join(f"3B{m} 3SEND_B{m}" for m in range(3))} {" ".join(f"0RECV_B{m} 0B{m}" for m in range(3))} }} }}""",
        to="json",
    )
    assert all((code, said) == (7, ["nothing was raised"]) for code, _, said in ranks), ranks
