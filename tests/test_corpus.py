"""Every schedule that PyTorch's own classes wrote, and PyTorch's lowering of it, gets the verdict it must
get.

By default those of at most 1,500 operations as lowered and a large one; with `--thorough` all.
"""

from __future__ import annotations

import json
import os
import tarfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from interlock.check.certificates import certificates
from interlock.check.program import check_program
from interlock.check.verdict import Verdict
from interlock.interchange import torch_csv
from interlock.program.ir import Program
from interlock.program.transfers import insert
from interlock.rules.waits import MODELS
from interlock.text.source import Sources

CORPUS = Path(__file__).parent / "data" / "torch" / "corpus"
SMALL = 1_500  # operations of the lowered schedule
LARGE = ("InterleavedZeroBubble_pp16_n3_mb128",)


def entries() -> list[dict]:
    return json.loads((CORPUS / "index.json").read_text())["entries"]


def texts() -> dict[str, str]:
    with tarfile.open(CORPUS / "schedules.tar.gz") as tar:
        return {m.name: tar.extractfile(m).read().decode() for m in tar if m.isfile()}


@pytest.fixture(scope="module")
def jobs(pytestconfig) -> list[tuple[dict, str, str | None]]:
    """(entry, its compute-only text, its compute-comms text), the largest first."""
    found, everything = texts(), pytestconfig.getoption("--thorough")
    out = [
        (e, found[f"{e['file']}.compute_only.csv"], found.get(f"{e['file']}.compute_comms.csv"))
        for e in entries()
        if f"{e['file']}.compute_only.csv" in found
    ]

    def size(e):
        return e.get("n_comms", 3 * e["n_compute"])

    return sorted(
        (j for j in out if everything or size(j[0]) <= SMALL or j[0]["file"] in LARGE),
        key=lambda j: -size(j[0]),
    )


def program_of(name: str, text: str) -> Program:
    return torch_csv.read(Sources().add(name, text))


def valid(name: str, program: Program, wrong: list) -> Counter:
    """Valid under every model, each time with a certificate of that claim (`check_program` has the kernel
    accept it, or raises).
    """
    counts: Counter = Counter(operations=len(program.order))
    for answer in check_program(program, MODELS):
        claims = [claim["claim"] for document in certificates(answer) for claim in document["claims"]]
        counts["verdicts"] += 1
        counts["certificates"] += claims == ["valid"]
        if answer.verdict is not Verdict.VALID or claims != ["valid"]:
            wrong.append((name, answer.model, answer.verdict, [f.message for f in answer.errors], claims))
    return counts


def check_right(job) -> tuple[Counter, list]:
    entry, compute_only, compute_comms = job
    name, wrong = entry["file"], []
    program = program_of(f"{name}.compute_only.csv", compute_only)
    assert program.inserted and len(program.order) == entry["n_compute"] + compute_only.count("OVERLAP"), name
    counts = Counter(compute_only=1) + valid(f"{name}.compute_only", program, wrong)
    written = insert(program)
    assert not written.inserted, name
    counts += Counter(materialised=1) + valid(f"{name}, transfers written by Interlock", written, wrong)
    if compute_comms is not None:
        counts += Counter(compute_comms=1) + valid(
            f"{name}.compute_comms", program_of(f"{name}.compute_comms.csv", compute_comms), wrong
        )
    return counts, wrong


def check_malformed(job) -> tuple[Counter, list]:
    """PyTorch's own 1F1B: the last rank never runs microbatch 0, and runs one that does not exist."""
    entry, text, _ = job
    program, wrong = program_of(entry["file"], text), []
    last, m = entry["pp"] - 1, entry["microbatches"]
    for answer in check_program(program, MODELS):
        said = sorted(
            (f.code, f.message, *(program.show(mark.row) for mark in f.marks)) for f in answer.errors
        )
        must = [
            (
                "IL302",
                f"{last}F0 is missing: stage {last} never runs the forward of microbatch 0",
                f"{last}F1",
            ),
            ("IL306", f"{last}F{m} uses microbatch {m} where 0 to {m - 1} are asked", f"{last}F{m}"),
        ]
        if answer.verdict is not Verdict.INVALID or said != must or not certificates(answer):
            wrong.append((entry["file"], answer.model, answer.verdict, said))
    return Counter(malformed=1, verdicts=len(MODELS)), wrong


def run(check, jobs) -> Counter:
    total, wrong = Counter(), []
    with ProcessPoolExecutor(os.cpu_count() or 1, mp_context=get_context("spawn")) as pool:
        for counts, some in pool.map(check, jobs):
            total += counts
            wrong += some
    print(dict(total))
    assert not wrong, wrong[:5]
    return total


def test_the_corpus_is_whole():
    found, index = texts(), entries()
    named = {f"{e['file']}.{form}.csv" for e in index for form in ("compute_only", "compute_comms")}
    assert set(found) <= named and len(found) == 436 and len(index) == 247
    assert Counter((e["status"], f"{e['file']}.compute_only.csv" in found) for e in index) == {
        ("ok", True): 215,
        ("ok", False): 2,
        ("comms_error", True): 17,
        ("comms_error", False): 1,
        ("constructor_error", False): 12,
    }
    assert {e["cls"] for e in index if e["status"] == "comms_error"} == {"1F1B"}


def test_what_pytorch_schedules_is_valid_under_every_model(jobs, pytestconfig):
    right = [j for j in jobs if j[0]["status"] == "ok"]
    assert {j[0]["cls"] for j in right} == {
        "1F1B_repaired",
        "DualPipeV",
        "GPipe",
        "Interleaved1F1B",
        "InterleavedZeroBubble",
        "LoopedBFS",
        "ZBVZeroBubble",
    }
    counts = run(check_right, right)
    compute_only, compute_comms = (215, 204) if pytestconfig.getoption("--thorough") else (113, 113)
    assert (counts["compute_only"], counts["materialised"], counts["compute_comms"]) == (
        compute_only,
        compute_only,
        compute_comms,
    )
    assert counts["verdicts"] == counts["certificates"] == len(MODELS) * (2 * compute_only + compute_comms)


def test_what_pytorch_gets_wrong_is_rejected_for_the_right_reason(jobs, pytestconfig):
    wrong = [j for j in jobs if j[0]["status"] == "comms_error"]
    counts = run(check_malformed, wrong)
    assert counts["malformed"] == (17 if pytestconfig.getoption("--thorough") else 10)
