"""A rank that dies, hangs or differs: every rank ends, within the time limit, and says what failed, where, and where each rank stood."""

import json
import re
import time

import pytest

from .support import HERE, finish, lowered, start

SECONDS = 30                     # imports included
TEXT = "schedule s {{ ranks {ranks} microbatches 4 model {{ layers u[{ranks}] {{ }} }} cut {{ all = u : {skeleton} }} }}"


def fail(folder, ranks: int, *ways: str) -> list[tuple[int, str, list[str]]]:
    """Of each rank the exit code, what it printed, what it raised each time."""
    text = lowered(TEXT.format(ranks=ranks, skeleton="1f1b")).text
    (folder / "s.plan").write_text(text)
    (folder / "old.plan").write_text(text.replace("interlock.plan/1", "interlock.plan/0"))
    (folder / "other.plan").write_text(lowered(TEXT.format(ranks=ranks, skeleton="gpipe")).text)
    began = time.monotonic()
    ended = finish(start(HERE / "failing.py", ranks, folder / "out-{rank}.json", folder, *ways, folder=folder), SECONDS)
    assert time.monotonic() - began < SECONDS, ended
    out = [folder / f"out-{r}.json" for r in range(ranks)]
    return [(code, text, json.loads(path.read_text()) if path.exists() else []) for (code, text), path in zip(ended, out)]


def test_what_differs_is_said_at_the_start_on_every_rank(tmp_path):
    ways = ("version", "other", "stages", "frozen")
    ranks = fail(tmp_path, 2, *ways)
    assert all(code == 7 for code, _, _ in ranks), ranks
    for i, (way, expected) in enumerate(zip(ways, (
            r"PlanError|RunError: rank 1: the plan is of the format 'interlock.plan/0', and this version reads 'interlock.plan/1'.*\[IL845\]",
            r"ranks 0 and 1 run different plans: s \(.*s.plan, \w{12}\) and s \(.*other.plan, \w{12}\).*\[IL846\]",
            r"rank 1: rank 1 was given the stages \[7\], and the plan places \[1\] there.*\[IL849\]",
            r"rank 1: stage 1: the module has none, and the plan trains it.*\[IL849\]"))):
        for _, text, said in ranks:
            assert re.search(expected, said[i], re.S), (way, said[i])


@pytest.mark.parametrize("way, expected", [
    ("shape", r"rank 1 in 1SEND_F1 \(.*s.plan:\d+\): sends \(float32\[3, 2\]\), and sent \(float32\[3, 4\]\) before.*\[IL847\]"),
    ("raises", r"rank 1 failed in 1F1 \(.*s.plan:\d+\): ValueError: no such token.*\[IL848\]"),
    ("killed", r"rank 1 is gone.*rank 0: .*\(.*s.plan:\d+\).*rank 1: last seen, it .*\[IL848\]"),
    ("hangs", r"has been in one operation for 3 s.*rank 1: runs 1F1 \(.*s.plan:\d+\), for [2-9]\.\d s.*\[IL848\]"),
    ("host", r"(rank 0 is gone|the store of the process group cannot be reached).*rank 0: (last seen, it )?.*\[IL848\]"),
], ids=["shape", "raises", "killed", "hangs", "host"])
def test_what_fails_in_a_step_ends_every_rank(tmp_path, way, expected):
    ranks = fail(tmp_path, 3, way)
    for r, (code, text, said) in enumerate(ranks):
        if (way, r) in (("killed", 1), ("host", 0)):
            assert code == -9
        elif way == "hangs" and r == 1:
            assert code == 70 and re.search("rank 1 does not come back from 1F1", text) and re.search(expected, text, re.S), text
        else:
            assert code == 7 and said and re.search(expected, said[0], re.S), (r, code, text, said)
