"""The standard skeletons give PyTorch's schedules operation by operation: those of the corpus, and those its
classes make now.
"""

from __future__ import annotations

import csv
import io
import json
import tarfile
from collections import Counter
from pathlib import Path

import pytest

CORPUS = Path(__file__).parents[1] / "data" / "torch" / "corpus"
NAMED = {
    "GPipe": "gpipe",
    "1F1B_repaired": "1f1b",
    "Interleaved1F1B": "interleaved(chunks: {V})",
    "LoopedBFS": "breadth_first(chunks: {V})",
    "InterleavedZeroBubble": "interleaved_zb(chunks: {V})",
    "ZBVZeroBubble": "zb_v",
    "DualPipeV": "dualpipev",
}


@pytest.fixture
def cells(rows):
    """The operations of every rank as PyTorch writes them: an overlap is one cell."""

    def run(program):
        launch, out = program.order.launch, []
        for r, row in enumerate(rows(program)):
            line, at = [], int(program.order.start[r])
            for i, text in enumerate(row):
                if i and launch[at + i] >= 0 and launch[at + i] == launch[at + i - 1]:
                    line[-1] = f"({line[-1]};{text})OVERLAP_F_B"
                else:
                    line.append(text)
            out.append(line)
        return out

    return run


def test_every_schedule_of_the_corpus(single, cells):
    equal = Counter()
    with tarfile.open(CORPUS / "schedules.tar.gz") as archive:
        there = set(archive.getnames())
        for e in json.loads((CORPUS / "index.json").read_text())["entries"]:
            file, V = e["file"] + ".compute_only.csv", e["stages_per_rank"]
            if e["cls"] not in NAMED or e["status"] != "ok" or file not in there:
                continue
            golden = [
                [c for c in line if c]
                for line in csv.reader(io.TextIOWrapper(archive.extractfile(file), "utf-8"))
            ]
            assert cells(single(NAMED[e["cls"]].format(V=V), e["pp"], e["microbatches"], V)) == golden, file
            equal[e["cls"]] += 1
    assert equal == {
        "GPipe": 14,
        "1F1B_repaired": 24,
        "Interleaved1F1B": 49,
        "LoopedBFS": 50,
        "InterleavedZeroBubble": 47,
        "ZBVZeroBubble": 20,
        "DualPipeV": 11,
    }


# class, skeleton, the sizes it takes. A one-chunk InterleavedZeroBubble is ZB-H1.
LIVE = {
    "ScheduleLoopedBFS": ("breadth_first(chunks: {V})", (2, 3), lambda P, M: True),
    "ScheduleInterleavedZeroBubble": (
        "interleaved_zb(chunks: {V})",
        (2, 3),
        lambda P, M: M % max(1, M // P) == 0,
    ),
    "ZB-H1": ("zb_h1", (1,), lambda P, M: M % max(1, M // P) == 0),
    "ScheduleZBVZeroBubble": ("zb_v", (2,), lambda P, M: True),
    "ScheduleDualPipeV": ("dualpipev", (2,), lambda P, M: M >= 2 * P),
}


def made_by_torch(name: str, P: int, M: int, V: int) -> list[list[str]]:
    """What the class computes for each rank: its own method, on an instance without process group and model."""
    from torch.distributed.pipelining import schedules

    made = object.__new__(getattr(schedules, "ScheduleInterleavedZeroBubble" if name == "ZB-H1" else name))
    made.__dict__.update(
        pp_group_size=P,
        _n_microbatches=M,
        n_local_stages=V,
        num_stages=P * V,
        _num_stages=P * V,
        _stages=[None] * V,
        microbatches_per_round=M // max(1, M // P),
    )
    return [[str(a) for a in made._calculate_single_rank_operations(r) if a is not None] for r in range(P)]


@pytest.mark.parametrize("name", LIVE)
def test_the_classes_of_pytorch_on_a_grid(torch, single, cells, name, pytestconfig):
    if not torch.__version__.startswith("2.13."):
        pytest.skip("the private method is that of torch 2.13")
    text, chunks, takes = LIVE[name]
    thorough = pytestconfig.getoption("--thorough")
    for P in range(1, 9):
        for M in range(1, 25) if thorough else (1, 2, 3, 5, 6, 8, 9, 12, 15, 16, 20, 24):
            for V in chunks:
                if takes(P, M):
                    assert cells(single(text.format(V=V), P, M, V)) == made_by_torch(name, P, M, V), (P, M, V)
