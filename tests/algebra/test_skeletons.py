"""The standard skeletons against re-statements written here and HyperParallel's; the library of files.
PyTorch's: test_std_goldens.py.
"""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

from interlock.program.facts import Facts
from interlock.program.kinds import Kind
from interlock.program.linearise import compute_times
from interlock.text import resources

DATA = Path(__file__).parents[1] / "data"
LIBRARY = sorted(
    f.name.removesuffix(".sched")
    for f in (resources.find_folder() / "spec" / "std").iterdir()
    if f.name.endswith(".sched")
)
GRID = [(P, M) for P in (1, 2, 3, 4, 5, 8) for M in (1, 2, 3, 5, 8, 13)]


@pytest.mark.parametrize("P, M", GRID)
def test_1f1b_is_warmup_then_one_and_one(single, rows, P, M):
    expected = []
    for r in range(P):
        warm = min(M, P - 1 - r)
        ops = [f"{r}F{m}" for m in range(warm)]
        for m in range(warm, M):
            ops += [f"{r}F{m}", f"{r}B{m - warm}"]
        expected.append(ops + [f"{r}B{m}" for m in range(M - warm, M)])
    assert rows(single("1f1b", P, M)) == expected


def test_gpipe_with_chunks_runs_forwards_chunk_by_chunk_and_backwards_from_the_last(single, rows):
    assert rows(single("gpipe(chunks: 2)", 2, 2, 2))[1] == [
        "1F0",
        "1F1",
        "3F0",
        "3F1",
        "3B0",
        "3B1",
        "1B0",
        "1B1",
    ]


@pytest.mark.parametrize("P, M", GRID)
@pytest.mark.parametrize("V", (1, 2, 3))
def test_interleaved_is_rounds_of_microbatches_through_the_chunks(single, rows, P, M, V):
    k = max(1, M // P)
    rounds, m = [], 0
    for j in range(k):
        size = M // k + (M % k if j == 0 else 0)
        rounds.append(range(m, m + size))
        m += size
    expected = []
    for r in range(P):
        forward = [f"{c * P + r}F{m}" for ms in rounds for c in range(V) for m in ms]
        backward = [f"{c * P + r}B{m}" for ms in rounds for c in reversed(range(V)) for m in ms]
        warm = min(M * V, (V - 1) * len(rounds[0]) + 2 * (P - 1 - r))
        ops = forward[:warm]
        for f, b in zip(forward[warm:], backward):
            ops += [f, b]
        expected.append(ops + backward[M * V - warm :])
    assert rows(single(f"interleaved(chunks: {V})", P, M, V)) == expected


def test_uneven_rounds_are_those_of_hyperparallel(single, rows):
    cases = json.loads(gzip.decompress((DATA / "hyperparallel" / "interleaved.json.gz").read_bytes()))[
        "cases"
    ]
    assert any(c["M"] % c["P"] for c in cases)
    for c in cases:
        assert rows(single(f"interleaved(chunks: {c['V']})", c["P"], c["M"], c["V"])) == c["ranks"], (
            c["P"],
            c["M"],
            c["V"],
        )


@pytest.mark.parametrize(
    "skeleton, V",
    [
        ("1f1b", 1),
        ("gpipe", 1),
        ("gpipe(chunks: 3)", 3),
        ("eager", 1),
        ("interleaved(chunks: 2)", 2),
        ("interleaved(chunks: 3)", 3),
    ],
)
def test_no_cyclic_wait(single, skeleton, V):
    for P, M in GRID:
        assert compute_times(Facts(single(skeleton, P, M, V))).complete, (P, M)


def test_neighbouring_regions_are_woven(elaborated, single, rows):
    text = (
        "schedule s { ranks 3 microbatches 7 model { layers u[9] {} } cut { a = u[0..2] : 1f1b  b = "
        "u[3..5] : 1f1b  c = u[6..8] : 1f1b } }"
    )
    woven = elaborated(text)
    assert rows(woven.program) == rows(single("interleaved(chunks: 3)", 3, 7, 3))
    assert [s.region for s in woven.program.stages] == list("aaabbbccc")
    assert [(s.left, s.right, s.forward, s.backward) for s in woven.seams] == [
        ("a", "b", "Send", "RecvGrad"),
        ("b", "c", "Send", "RecvGrad"),
    ]
    assert not woven.warnings
    gpipe = elaborated(text.replace("1f1b", "gpipe"))
    assert rows(gpipe.program) == rows(single("gpipe(chunks: 3)", 3, 7, 3))


def test_every_row_points_at_its_operation_in_the_skeleton(single):
    program = single("1f1b", 4, 6)
    text = resources.read_text("spec/std/1f1b.sched")
    base = len("schedule s { ranks 4 microbatches 6 model { layers u[4] {} }\ncut { x = u : 1f1b } }") + 1
    for row in range(len(program.order)):
        at = int(program.order.at[row]) - base
        assert (
            text[at] == Kind(int(program.order.kind[row])).name
            and text[at + program.order.width[row] - 1] == ")"
        )


def test_without_its_file_exactly_gpipe_is_gone(single, refused, tmp_path, monkeypatch):
    for part in ("grammar", "spec"):
        shutil.copytree(resources.find_folder() / part, tmp_path / part)
    (tmp_path / "spec" / "std" / "gpipe.sched").unlink()
    monkeypatch.setattr(resources, "find_folder", lambda: tmp_path)
    code, _, message = refused(
        "schedule s { ranks 2 microbatches 2 model { layers u[2] {} } cut { x = u : gpipe } }"
    )
    known = message.split("known skeletons:")[1]
    assert code == "IL203" and known.count("`") == 2 * (len(LIBRARY) - 1) and "`gpipe`" not in known
    for name, operations in (("1f1b", 8), ("eager", 8), ("interleaved", 8), ("transpose", 4)):
        assert len(single(name, 2, 2).order) == operations


def test_no_python_file_names_a_skeleton():
    package = Path(resources.__file__).parent / "algebra"
    for file in package.glob("*.py"):
        text = file.read_text()
        assert not [n for n in LIBRARY if f'"{n}"' in text or f"'{n}'" in text], file


def test_a_large_schedule(single):
    assert len(single("1f1b", 512, 4096).order) == 512 * 4096 * 2
