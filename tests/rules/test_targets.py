"""The rules of runtimes: cases, PyTorch's corpus, what PyTorch 2.13.0 itself does, and how a target is asked
for and reported.
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from command import interlock
from interlock.check.certificates import certificates
from interlock.check.files import check_file
from interlock.check.verdict import Verdict
from interlock.interchange import torch_csv
from interlock.interchange.torch_csv import CsvOptions
from interlock.language import build_base
from interlock.load import Question
from interlock.program.facts import Facts
from interlock.program.transfers import insert
from interlock.report import text
from interlock.rules.communication import Transfers
from interlock.rules.targets import TARGETS, Context, check
from interlock.rules.targets.torch import torch_peaks
from interlock.text.source import Sources

DATA = Path(__file__).parents[1] / "data"
CASES = DATA / "torch" / "cases"
FROZEN_0 = CsvOptions(frozen=frozenset({0}))


def ask(
    source: str | Path,
    *targets: str,
    csv: CsvOptions | None = None,
    name: str = "case.sched",
    models: tuple[str, ...] = (),
):
    if isinstance(source, Path):
        source, name = source.read_text(), source.name
    result = check_file(name, source.encode(), Question(models, csv=csv or CsvOptions(), targets=targets))
    assert not result.errors, [d.message for d in result.errors]
    return result.checked[0]


def for_target(checked, target: str = "torch"):
    [answer] = [a for a in checked.answers if a.target and a.model == target]
    return answer


def codes(answer) -> list[str]:
    return sorted({f.code for f in answer.errors})


def case(name: str) -> Path:
    [path] = CASES.glob(f"{name}_*")
    return path


def findings(program, target: str, context: Context = Context()) -> list:
    facts = Facts(program)
    return list(check(facts, Transfers(facts), target, context))


# ---- the cases ------------------------------------------------------------------------------------

ZBV = case("c20")  # ZB-V with I and W everywhere


@pytest.mark.parametrize(
    "path, csv, wrong, says",
    [
        (case("n01"), None, ["IL801"], "the last stage runs 1F1 before 1F0"),
        (case("f01"), FROZEN_0, [], ""),
        (
            case("n02"),
            FROZEN_0,
            ["IL803"],
            r"0B0 is missing: stage 0 is frozen .* \(and 3 more of the stage\)",
        ),
        (
            case("n04"),
            CsvOptions(frozen="all"),
            ["IL803"],
            "asks for a backward of every stage and microbatch all the same",
        ),
        (ZBV, FROZEN_0, ["IL802"], "stage 1 is the first trainable stage"),
        (ZBV, CsvOptions(frozen=frozenset({0, 1})), ["IL802"], "stage 2 is the first trainable stage"),
        (ZBV, CsvOptions(frozen=frozenset({2})), [], ""),
        (
            ZBV,
            CsvOptions(placement="loop"),
            ["IL800", "IL806"],
            "2F0 is on rank 1, and the stage object lies on rank 0",
        ),
        (case("c00"), None, [], ""),
        (case("c19"), None, [], ""),
        (case("n08"), None, [], ""),
        (case("m22"), None, [], ""),
        (case("m07"), None, ["IL800"], "invalid under `pair`"),
        (case("m08"), None, ["IL800"], "IL308"),
    ],
    ids=lambda x: x.stem.split("_")[0] if isinstance(x, Path) else "",
)
def test_cases_for_torch(path, csv, wrong, says):
    answer = for_target(ask(path, "torch", csv=csv))
    assert codes(answer) == wrong and answer.verdict is (Verdict.INVALID if wrong else Verdict.VALID)
    assert re.search(says, "\n".join(f.message for f in answer.findings))
    assert not certificates(answer) and answer.replay is None
    assert all(f.marks or f.code == "IL800" for f in answer.findings)


def test_the_models_do_not_see_the_target():
    plain, asked = ask(case("n01")), ask(case("n01"), "torch")
    assert [(a.model, a.verdict, a.findings) for a in plain.answers] == [
        (a.model, a.verdict, a.findings) for a in asked.answers if not a.target
    ]
    assert asked.verdict is Verdict.INVALID and plain.verdict is Verdict.VALID


def test_a_placeholder_is_fine_for_torch_and_an_error_for_hyperparallel():
    checked = ask(case("f01"), "torch", "hyperparallel", csv=FROZEN_0)
    assert not for_target(checked).findings
    assert {"IL821", "IL828"} <= set(codes(for_target(checked, "hyperparallel")))


@pytest.mark.parametrize("csv, wrong", [(None, ["IL813"]), (CsvOptions(placement="vee"), [])])
def test_torchtitan_takes_the_placement_from_a_name(csv, wrong):
    assert codes(for_target(ask(ZBV, "torchtitan", csv=csv), "torchtitan")) == wrong


def test_torchtitan_asks_what_torch_asks():
    assert codes(for_target(ask(case("n01"), "torchtitan"), "torchtitan")) == ["IL801"]
    assert codes(for_target(ask(case("c19"), "torchtitan"), "torchtitan")) == ["IL812"]
    assert {"IL811"} <= set(codes(for_target(ask(case("m22"), "torchtitan"), "torchtitan")))


# ---- PyTorch's own schedules ----------------------------------------------------------------------


def test_what_pytorch_schedules_is_valid_for_it(pytestconfig):
    """Also what it lowers them to; in a loop or a V, so for torchtitan too."""
    index = {
        e["file"]: e
        for e in json.loads((DATA / "torch" / "corpus" / "index.json").read_text())["entries"]
        if e["status"] == "ok"
    }
    most = 10**9 if pytestconfig.getoption("--thorough") else 1_000
    seen = dict.fromkeys(("compute_only", "compute_comms"), 0)
    with tarfile.open(DATA / "torch" / "corpus" / "schedules.tar.gz") as tar:
        for member in tar:
            name, form = (member.name.split(".") + [""])[:2]
            if member.isfile() and name in index and index[name]["n_compute"] <= most:
                program = torch_csv.read(Sources().add(member.name, tar.extractfile(member).read().decode()))
                seen[form] += 1
                assert not findings(program, "torch"), member.name
                vee = Context("vee" if index[name]["cls"] in ("ZBVZeroBubble", "DualPipeV") else None)
                wrong = {f.code for f in findings(program, "torchtitan", vee) if f.is_error}
                assert wrong <= ({"IL811"} if form == "compute_comms" else set()), member.name
    assert seen["compute_only"] >= 100 and seen["compute_comms"] >= 100, seen


# ---- what PyTorch does ----------------------------------------------------------------------------


def test_pytorch_finds_a_loss_by_its_position(torch):
    """IL801: microbatch 1 run first leaves its loss where that of microbatch 0 is looked for."""
    from torch.distributed.pipelining import schedules

    runtime = object.__new__(schedules._PipelineScheduleRuntime)
    runtime._loss_fn, runtime._internal_losses = (lambda output, target: output * target), []
    runtime._has_backward = True
    last = type("Stage", (), {"is_last": True})()
    targets = [torch.tensor(10.0), torch.tensor(20.0)]
    for m in (1, 0):
        runtime._maybe_compute_loss(last, torch.tensor(1.0), targets, m)
    assert [float(runtime._maybe_get_loss(last, m)) for m in (0, 1)] == [20.0, 10.0]


@pytest.mark.parametrize("input_trains", [False, True])
def test_pytorch_loses_the_weights_of_the_first_trainable_stage(torch, input_trains):
    """IL802: without an input that needs a gradient, I leaves W nothing to do."""
    from torch.distributed.pipelining._backward import stage_backward_input, stage_backward_weight

    stage = torch.nn.Linear(3, 3)
    x = torch.randn(2, 3, requires_grad=input_trains)
    _, groups = stage_backward_input([stage(x).sum()], None, [x], stage.parameters())
    stage_backward_weight(stage.parameters(), groups)
    assert (stage.weight.grad is not None) == input_trains


@pytest.mark.parametrize(
    "name, loads", [("n01", True), ("f01", True), ("c20", True), ("n02", False), ("n04", False)]
)
@pytest.mark.usefixtures("torch")
def test_pytorchs_loader(name, loads):
    """IL803 is what the loader refuses; it takes what IL801 and IL802 find, and what is valid."""
    from torch.distributed.pipelining import schedules

    runtime = object.__new__(schedules._PipelineScheduleRuntime)
    runtime._stages, runtime.pipeline_order, runtime._defer_pp_recv = [], {}, False
    runtime.pp_group_size, runtime._n_microbatches = 2, 4
    runtime._num_stages = 4 if name in ("f01", "c20") else 2
    try:
        runtime._load_csv(str(case(name)), format="compute_only")
    except AssertionError as error:
        assert not loads and "Invalid backward microbatches for stage" in str(error)
    else:
        assert loads


def train(path: Path, frozen: str, tmp_path: Path) -> dict[int, float | None]:
    """For each trainable stage how far its gradients are from the reference's; None: it has none."""
    script = Path(__file__).parent / "run_torch.py"
    ranks = [
        subprocess.Popen(
            [sys.executable, str(script), str(r), "2", str(tmp_path / "store"), str(path), "4", frozen],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for r in range(2)
    ]
    far: dict[int, float | None] = {}
    for rank in ranks:
        out, _ = rank.communicate(timeout=120)
        assert rank.returncode == 0, out
        far |= {int(s): d for s, d in json.loads(out.split("FAR ")[1].splitlines()[0]).items()}
    return far


@pytest.mark.thorough
@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize(
    "name, frozen, lost, other",
    [("c00", "", [], []), ("n01", "", [], [0]), ("c20", "0", [1], []), ("f01", "0", [], [])],
)
def test_pytorch_trains_with_it(tmp_path, name, frozen, lost, other):
    """Two processes on gloo, one step, against a single process: what the target rules find is silently
    wrong, what they pass is right.

    n01: the last stage sums the same gradients in another order; the stage before gets them for the wrong
    microbatches.
    """
    far = train(case(name), frozen, tmp_path)
    assert [s for s, d in sorted(far.items()) if d is None] == lost
    assert [s for s, d in sorted(far.items()) if d is not None and d > 1e-5] == other
    answer = for_target(ask(case(name), "torch", csv=FROZEN_0 if frozen else None))
    assert (answer.verdict is Verdict.VALID) == (not lost and not other)


# ---- PyTorch's memory -----------------------------------------------------------------------------

BYTES = """schedule s {{ ranks 2 microbatches {M}
  model {{ layers llm[2] {{ weights 100B activation 8B output 1B }} }}
  {freeze}
  memory {{ capacity {capacity}B gradient 1 per weight byte }}
  cut {{ backbone = llm : 1f1b }} }}"""


@pytest.mark.parametrize(
    "freeze, M, expected",
    [
        # rank 0: weights and gradients 200, M buffers for gradients; at the last forward of the warmup 2
        # stashes, outputs sent so far; at the
        # last backward 1 stash and every output. rank 1: M buffers for activations, 1 stash, every gradient
        # sent.
        ("", 4, (200 + 4 + max(2 * 8 + 2, 2 * 8 + 4), 200 + 4 + 8 + 4)),
        ("", 8, (200 + 8 + 2 * 8 + 8, 200 + 8 + 8 + 8)),
        # nothing crosses back: rank 0 keeps no stash, has no gradient buffer, and sends its outputs
        ("freeze llm[0]", 8, (100 + 8, 200 + 8 + 8)),
    ],
)
def test_peaks_of_pytorch(freeze, M, expected):
    checked = ask(BYTES.format(M=M, freeze=freeze, capacity=10**6), "torch")
    program = for_target(checked).program
    assert program.inserted and torch_peaks(Facts(program)) == list(expected)
    assert torch_peaks(Facts(insert(program))) == list(expected)  # written waits do not count
    fits = ask(BYTES.format(M=M, freeze=freeze, capacity=max(expected)), "torch")
    assert for_target(fits).verdict is Verdict.VALID
    short = for_target(ask(BYTES.format(M=M, freeze=freeze, capacity=max(expected) - 1), "torch"))
    [finding] = [f for f in short.errors if f.code == "IL809"]
    rank = max(range(2), key=lambda r: expected[r])
    assert (
        finding.data["peak"] == max(expected)
        and f"rank {rank} needs {max(expected)} B, 1 B more than its capacity" in finding.message
    )
    assert "receive buffer" in finding.message


# ---- HyperParallel --------------------------------------------------------------------------------


def test_hyperparallels_own_orders_are_valid_for_it():
    cases = json.loads(gzip.decompress((DATA / "hyperparallel" / "interleaved.json.gz").read_bytes()))[
        "cases"
    ]
    for c in cases:
        csv = "".join(",".join(rank) + "\n" for rank in c["ranks"])
        assert codes(for_target(ask(csv, "hyperparallel", name="interleaved.csv"), "hyperparallel")) == [], (
            c["P"],
            c["M"],
            c["V"],
        )


@pytest.mark.parametrize("frozen", ["", "frozen"])
@pytest.mark.parametrize(
    "owner", ["[0, 1, 2, 0, 1]", "[2, 2, 2, 2, 2]", "[0, 0, 0, 0, 0]", "[1, 0, 0, 2, 1]"]
)
def test_mpipe_is_valid_for_hyperparallel_with_every_owner_map(owner, frozen):
    checked = ask(
        f"""schedule s {{ ranks 3 microbatches 5 model {{ layer vit {{ {frozen} }} layers llm[6] {{ }} }}
      cut {{ encoder = vit : transpose(owner: {owner})  backbone = llm : interleaved(chunks: 2) }} }}""",
        "hyperparallel",
        "torch",
        "torchtitan",
    )
    assert for_target(checked, "hyperparallel").verdict is Verdict.VALID
    assert codes(for_target(checked)) == codes(for_target(checked, "torchtitan")) == ["IL806"]


def test_what_rank_0_owns_may_be_encoded_late():
    late = """schedule s {{ ranks 2 microbatches 2 freeze stage 0
      place {{ replicated 0: owner [0, {owner}]  rank 0: 1  rank 1: 2 }}
      order transfers inserted {{ rank 0: 0F0 1F0 {here} 1F1 1B0 1B1
        rank 1: 2F0 {there} 2F1 2B0 2B1 }} }}"""
    assert (
        codes(for_target(ask(late.format(owner=0, here="0F1", there=""), "hyperparallel"), "hyperparallel"))
        == []
    )
    assert codes(
        for_target(ask(late.format(owner=1, here="", there="0F1"), "hyperparallel"), "hyperparallel")
    ) == ["IL825"]


def test_a_written_gather_comes_before_the_body():
    gather = """schedule s {{ ranks 2 microbatches 2 freeze stage 0
      communicator seam = ranks 0, 1
      place {{ replicated 0: owner [0, 1]  rank 0: 1  rank 1: 2 }}
      order transfers written {{ rank 0: 0F0 {early} 1F0 1SEND_F0 {late} 1F1 1SEND_F1 1RECV_B0 1B0 1RECV_B1 1B1 1REDUCE
        rank 1: 0F1 0SEND_F1@seam 2RECV_F0 2F0 2RECV_F1 2B0 2SEND_B0 2F1 2B1 2SEND_B1 2REDUCE }} }}"""
    early = ask(gather.format(early="1RECV_F1@seam", late=""), "hyperparallel")
    assert for_target(early, "hyperparallel").verdict is Verdict.VALID
    late = ask(gather.format(early="", late="1RECV_F1@seam"), "hyperparallel")
    assert codes(for_target(late, "hyperparallel")) == ["IL825"]
    assert "1RECV_F1@seam comes after 1F0" in for_target(late, "hyperparallel").errors[0].message


# ---- how a target is asked for --------------------------------------------------------------------

WRITTEN = """schedule s {{ ranks 2 microbatches 2 {more}
  order transfers inserted {{ rank 0: 0F0 0F1 0B0 0B1
    rank 1: 1F1 1F0 1B0 1B1 }} }}"""


def test_the_names_of_targets_are_the_same_everywhere():
    assert TARGETS == build_base.TARGETS


def test_an_expectation_names_a_target_and_thereby_asks_for_it():
    checked = ask(
        WRITTEN.format(more="expect valid\n expect invalid IL801 under torch\n expect valid under npu")
    )
    assert [(a.model, a.target) for a in checked.answers] == [("pair", False), ("torch", True), ("npu", True)]
    assert checked.as_expected
    wrong = ask(WRITTEN.format(more="expect valid under torch"))
    assert not wrong.as_expected


def test_an_expectation_without_a_name_is_not_about_targets():
    checked = ask(WRITTEN.format(more="expect valid"), "torch")
    assert checked.as_expected and checked.verdict is Verdict.INVALID


def test_the_models_of_the_transport_are_asked():
    checked = ask(WRITTEN.format(more="comm edge"), "npu")
    assert [a.model for a in checked.answers] == ["edge", "pair", "npu"]


def test_a_claim_is_under_models_only():
    result = check_file(
        "s.sched", WRITTEN.format(more="require { peak <= 1GiB under torch }").encode(), Question()
    )
    assert [d.code for d in result.errors] == ["IL107"]


@pytest.mark.parametrize(
    "source, target, verdict",
    [
        (
            "schedule s { ranks 2 fragment trace { rank 0: send(1, a)\n rank 1: recv(0, a) } }",
            "torch",
            "unknown",
        ),
        ("schedule s { ranks 2 fragment trace { rank 0: send(1, a)\n rank 1: recv(0, a) } }", "npu", "valid"),
        (
            "schedule s { ranks 2 microbatches 2 model { layers l[2] { } } cut { a = l : 1f1b } for any "
            "freezing of l[0] }",
            "torch",
            "unknown",
        ),
        (
            "schedule s { ranks 2 microbatches 2 model { layers l[2] { } } cut { a = l : 1f1b } require { "
            "bubble <= 1% } }",
            "torch",
            "unknown",
        ),
    ],
)
def test_what_is_not_decided_is_unknown(source, target, verdict):
    answer = for_target(ask(source, target), target)
    assert answer.verdict.value == verdict and (answer.reason or verdict == "valid")


def test_a_tie_across_ranks_has_no_action_in_pytorch():
    source = (
        "schedule s { ranks 2 microbatches 2 model { layer emb { } layer mid { } layer head { } } cut "
        "{ a = emb, mid, head : 1f1b(partition: [1, 2]) } tie emb, head }"
    )
    assert codes(for_target(ask(source, "torch"))) == ["IL807"]


@pytest.mark.parametrize(
    "operation, says", [("{ 0SEND_F0 }", "grouped launch"), ("0SEND_F0@own", "a communicator of its own")]
)
def test_what_has_no_cell(operation, says):
    other = operation.replace("0SEND", "1RECV")
    answer = for_target(
        ask(
            f"""schedule s {{ ranks 2 microbatches 1 communicator own = ranks 0, 1
      order transfers written {{ rank 0: 0F0 {operation} 0RECV_B0 0B0 0REDUCE STEP
        rank 1: {other} 1F0 1B0 1SEND_B0 1REDUCE STEP }} }}""",
            "torch",
        )
    )
    assert codes(answer) == ["IL807"] and says in answer.errors[0].message


def test_the_report_names_the_target():
    checked = ask(case("n01"), "torch", "torchtitan", "npu")
    report = text.render((checked,), lambda _: None, width=100)
    assert (
        "valid under pair (certificate checked by the kernel); invalid for the targets torch and "
        "torchtitan: IL801; valid for the target npu" in report
    )
    assert report.count("error[IL801]") == 1 and "note: for the targets torch and torchtitan" in report
    model_finding = text.render((ask(case("c02"), "torch"),), lambda _: None, width=100)
    assert "only under" not in model_finding and "invalid for the target torch: IL800" in model_finding


def test_the_command():
    path = case("n01")
    done = interlock("check", path, "--target", "torch", "--target", "npu,torch", "--format", "json")
    [schedule] = json.loads(done.out)["files"][0]["schedules"]
    assert done.code == 1 and [
        (a.get("model"), a.get("target"), a["verdict"]) for a in schedule["answers"]
    ] == [("pair", None, "valid"), (None, "torch", "invalid"), (None, "npu", "valid")]
    wrong = interlock("check", path, "--target", "tpu")
    assert (
        wrong.code == 2
        and "there is no target 'tpu'; there are torch, torchtitan, hyperparallel, npu" in wrong.err
    )
