"""Both forms of CSV, loaded and trained with by PyTorch's own runtime: gradients equal the single process's."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from interlock.interchange.torch_csv import CsvOptions
from interlock.lower.lowering import LoweringRefused
from interlock.program.ir import Kind
from torch_ranks import run_ranks

from ..runtime.support import lowered

RUN = Path(__file__).parent / "run_csv.py"
CHUNKS = {
    "gpipe": 1,
    "1f1b": 1,
    "eager": 1,
    "zb_h1": 1,
    "zb_h2": 1,
    "interleaved(chunks: 2)": 2,
    "interleaved_zb(chunks: 2)": 2,
    "zb_v": 2,
    "dualpipev": 2,
    "hanayo(chunks: 2)": 2,
}


def schedule(skeleton: str, ranks: int, microbatches: int, frozen=()) -> str:
    layers = ranks * CHUNKS[skeleton]
    freeze = f"freeze {', '.join(f'u[{s}]' for s in frozen)}" if frozen else ""
    return (
        f"schedule s {{ ranks {ranks} microbatches {microbatches} model {{ layers u[{layers}] {{ }} }} "
        f"cut {{ all = u : {skeleton} }} {freeze} }}"
    )


def job(
    folder: Path, number: int, ranks: int, skeleton: str, microbatches: int, form: str, frozen=()
) -> dict:
    found = lowered(schedule(skeleton, ranks, microbatches, frozen), "torch-csv", form=form)
    path = folder / f"{number}.csv"
    path.write_text(found.text)
    return {
        "csv": str(path),
        "form": form.replace("-", "_"),
        "frozen": list(frozen),
        "microbatches": microbatches,
        "placement": [s.rank for s in found.plan.program.stages],
        "name": f"{skeleton} P={ranks} M={microbatches} {form} frozen {list(frozen)} {found.plan.rewrites}",
    }


def run(jobs: list[dict], ranks: int, folder: Path, seconds: float) -> None:
    (folder / "jobs.json").write_text(json.dumps(jobs))
    arguments = [
        (r, ranks, folder / "store", folder / "jobs.json", folder / f"out-{r}.json") for r in range(ranks)
    ]
    for r, rank in enumerate(run_ranks(RUN, arguments, folder, seconds)):
        path = folder / f"out-{r}.json"
        found = json.loads(path.read_text()) if path.exists() else []
        assert rank.code == 0 and len(found) == len(jobs), (
            f"{jobs[min(len(found), len(jobs) - 1)]['name']}: {rank.out}"
        )
        for asked, far in zip(jobs, found):
            assert far <= 1e-9, (asked["name"], r, far)


@pytest.mark.usefixtures("torch")
def test_two_ranks_train_with_both_forms(tmp_path):
    cases = [
        ("1f1b", 4, "compute-only", ()),
        ("1f1b", 4, "compute-comms", ()),
        ("zb_v", 4, "compute-only", (0,)),
        ("zb_v", 4, "compute-comms", (0, 1)),
        ("dualpipev", 5, "compute-comms", (0,)),
        ("interleaved(chunks: 2)", 3, "compute-comms", (1, 2)),
        ("zb_h1", 5, "compute-only", (0,)),
    ]
    run(
        [
            job(tmp_path, n, 2, skeleton, m, form, frozen)
            for n, (skeleton, m, form, frozen) in enumerate(cases)
        ],
        2,
        tmp_path,
        60,
    )


@pytest.mark.thorough
@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("skeleton", CHUNKS)
def test_the_full_product(tmp_path, ranks, skeleton):
    stages = ranks * CHUNKS[skeleton]
    jobs = []
    for m, form, frozen in itertools.product(
        (ranks - 1, ranks, 2 * ranks + 1),
        ("compute-only", "compute-comms"),
        ((), (0,), (0, 1), (1,), tuple(range(stages - 1))),
    ):
        if (skeleton != "dualpipev" or m >= 2 * ranks - 1) and len(frozen) < stages:
            jobs.append(job(tmp_path, len(jobs), ranks, skeleton, m, form, frozen))
    run(jobs, ranks, tmp_path, 600)


def test_the_split_backward_of_the_first_trainable_stage_becomes_whole():
    found = lowered(schedule("zb_h1", 2, 3, (0,)), "torch-csv")
    assert found.plan.rewrites == ("placeholders", "whole_backward") and found.text.splitlines() == [
        "0F0,0F1,0B0,0F2,0B1,0B2",
        "1F0,1B0,1F1,1B1,1F2,1B2",
    ]


def test_a_csv_is_lowered_to_the_other_form_and_back():
    given = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"
    comms = lowered(given, "torch-csv", "a.csv", CsvOptions(), form="compute-comms")
    assert comms.text.splitlines()[1] == "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1REDUCE_GRAD,1SEND_B1"
    assert lowered(comms.text, "torch-csv", "b.csv", CsvOptions()).text == comms.text


@pytest.mark.parametrize(
    "text, why",
    [
        (
            "schedule s { ranks 2 microbatches 2 model { layer v { } layers u[2] { } } cut { e = v : "
            "transpose  b = u : 1f1b } }",
            "IL806",
        ),
        (
            "schedule s { ranks 2 microbatches 2 order transfers inserted { rank 0: 0F0 0F1 0B0 0B1 rank 1: "
            "1F1 1F0 1B0 1B1 } }",
            "IL801",
        ),
        (
            "schedule s { ranks 2 microbatches 1 place { rank 0: 0 } order transfers inserted { rank 0: 0F0 "
            "0B0  rank 1: } }",
            "rank 1 runs nothing",
        ),
    ],
)
def test_what_pytorch_cannot_run_is_refused(text, why):
    with pytest.raises(LoweringRefused) as refused:
        lowered(text, "torch-csv")
    assert refused.value.code == "IL844" and why in str(refused.value) and refused.value.exit == 1


def test_placeholders_of_a_written_order_come_with_their_transfers():
    text = """schedule s { ranks 2 microbatches 2 freeze stage 0
      order transfers written { rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 rank 1: 1RECV_F0 1F0 1RECV_F1 1F1 1I0 1W0 1B1 1REDUCE } }"""
    found = lowered(text, "torch-csv")
    assert found.text.splitlines() == [
        "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1",
        "1RECV_F0,1F0,1RECV_F1,1F1,1B0,1B1,1SEND_B0,1SEND_B1,1REDUCE_GRAD",
    ]
    assert not (found.plan.program.order.kind == Kind.STEP).any()
