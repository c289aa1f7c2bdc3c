"""Lowering to HyperParallel: its own golden orders step by step, plans from the algebra, and the adapter with
a stand-in of the classes it touches.
"""

from __future__ import annotations

import enum
import json
import sys
import types
from collections import Counter

import pytest

from interlock.check.files import Ruling
from interlock.check.program import check_program
from interlock.check.verdict import CaseResult
from interlock.load import case_of
from interlock.lower import backends, hyperparallel
from interlock.lower.hyperparallel_schedule import schedule_class
from interlock.lower.lowering import LoweringRefused, lower

from .. import hyperparallel as golden
from ..interchange.test_hyperparallel import imported
from ..runtime.support import lowered

BACKEND = backends.find("hyperparallel")


def again(case: dict) -> dict[str, list[str]]:
    program = imported(golden.steps(case)).program
    return json.loads(
        lower(
            Ruling(case_of(program), CaseResult("golden.json", "golden", check_program(program, ("pair",)))),
            BACKEND,
        ).text
    )


def test_the_golden_orders_come_back_step_by_step(request):
    """Read, checked, lowered: equal to HyperParallel's own lists but for DATA steps and bubbles. What it
    cannot run (one rank with several stages), and the encoder's backward
    recomputed on rank 0, are refused."""
    thorough = request.config.getoption("--thorough")
    cases = golden.cases() if thorough else golden.cases()[::23]
    counts = Counter()
    for case in cases:
        theirs = {
            str(r): [s for s in rank if s.split()[0] not in ("DATA_LOAD", "DATA_SEND", "DATA_RECV", "-")]
            for r, rank in enumerate(golden.steps(case))
        }
        try:
            ours = again(case)
        except LoweringRefused as refused:
            alone = case["P"] == 1 and case["V"] > 1
            assert refused.code == "IL844" and (
                alone and "IL826" in str(refused) or case.get("mode") == "central"
            ), (golden.shown(case), str(refused))
            counts["alone" if alone else "central"] += 1
            continue
        assert ours == theirs, golden.shown(case)
        counts[case["kind"], case.get("mode")] += 1
    assert sum(v for k, v in counts.items() if isinstance(k, tuple)) > len(cases) // 2 and len(counts) >= 8, (
        counts
    )
    assert not thorough or counts == {
        ("gpipe", None): 70,
        ("1f1b", None): 70,
        ("interleaved1f1b", None): 348,
        ("mpipe", "dataonly"): 80,
        ("mpipe", "frozen"): 696,
        ("mpipe", "owner"): 696,
        "central": 696,
        "alone": 408,
    }, counts


TEXT = (
    "schedule s {{ ranks {P} microbatches {M} model {{ layer enc {{ }} layers u[{n}] {{ }} }} cut {{ "
    "{cut} }} {more} }}"
)


@pytest.mark.parametrize(
    "skeleton, chunks", [("1f1b", 1), ("interleaved(chunks: 2)", 2), ("gpipe", 1), ("zb_h1", 1)]
)
@pytest.mark.parametrize("P, M", [(2, 1), (2, 5), (4, 3), (3, 8)])
@pytest.mark.parametrize("frozen", [True, False])
def test_plans_of_the_algebra(skeleton, chunks, P, M, frozen):
    found = lowered(
        TEXT.format(
            P=P,
            M=M,
            n=P * chunks,
            cut=f"e = enc : transpose  b = u : {skeleton}",
            more="freeze enc" if frozen else "",
        ),
        "hyperparallel",
    )
    lists = json.loads(found.text)
    for _r, steps in lists.items():
        kinds = [s.split()[0] for s in steps]
        body = [i for i, k in enumerate(kinds) if not k.startswith("MPIPE_")]
        if body:
            assert body == list(range(body[0], body[-1] + 1)), (
                "the encoder's steps stand before and after the body"
            )
        assert (
            kinds.count("MPIPE_PARAM_BROADCAST") == kinds.count("MPIPE_GRAD_REDUCE") == (0 if frozen else 1)
        )
    everywhere = Counter(s.split()[0] for steps in lists.values() for s in steps)
    assert everywhere["MPIPE_TRANSPOSE_FWD"] == M and everywhere["FWD"] == M * P * chunks
    assert everywhere["MPIPE_FWD_SEND"] == everywhere["MPIPE_FWD_RECV"] == sum(m % P != 0 for m in range(M))
    assert (
        everywhere["MPIPE_GRAD_SEND"]
        == everywhere["MPIPE_GRAD_RECV_WITH_BACKWARD"]
        == (0 if frozen else sum(m % P != 0 for m in range(M)))
    )


def test_what_it_cannot_run_is_refused():
    with pytest.raises(LoweringRefused) as refused:
        lowered(
            TEXT.format(P=2, M=3, n=2, cut="b = enc, u[0] : 1f1b  e = u[1] : transpose", more=""),
            "hyperparallel",
        )
    assert refused.value.code == "IL844" and "IL822" in str(refused.value)


@pytest.mark.parametrize("images, first", [("[0, 0]", 0), ("[1, 0]", 1)])
def test_a_microbatch_that_does_not_visit_the_encoder_is_refused(images, first):
    text = TEXT.format(
        P=2, M=2, n=2, cut="e = enc : transpose  b = u : 1f1b", more=f"images {images}"
    ).replace("layer enc { }", "layer enc { modality vision }")
    with pytest.raises(LoweringRefused, match=f"microbatch {first} does not visit the encoder") as refused:
        lowered(text, "hyperparallel")
    assert refused.value.code == "IL844"


@pytest.mark.parametrize(
    "change",
    [
        lambda steps: steps + ["MPIPE_GRAD_REDUCE - 0"],
        lambda steps: [s for s in steps if s != "MPIPE_GRAD_REDUCE - 0"],
    ],
    ids=["twice", "missing"],
)
def test_the_encoders_reduction_stands_once_on_every_rank(monkeypatch, change):
    write = hyperparallel.HyperParallel.write

    def changed(self, plan, program):
        value = json.loads(write(self, plan, program))
        value["1"] = change(value["1"])
        return json.dumps(value)

    text = TEXT.format(P=2, M=3, n=2, cut="e = enc : transpose  b = u : 1f1b", more="")
    assert lowered(text, "hyperparallel").text.count("MPIPE_GRAD_REDUCE") == 2
    monkeypatch.setattr(hyperparallel.HyperParallel, "write", changed)
    with pytest.raises(LoweringRefused) as refused:
        lowered(text, "hyperparallel")
    assert refused.value.code == "IL841"


# ---- the adapter
# ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def stand_in(monkeypatch):
    """The classes that the adapter touches, as facts of HyperParallel at 0e81ad83: what they do is recorded."""

    class MetaStep:
        def __init__(self, micro_index, meta_type, stage_index, sub_steps=None, boundary_p2p=None):
            self.micro_index, self.type, self.stage_index, self.sub_steps = (
                micro_index,
                meta_type,
                stage_index,
                sub_steps,
            )

        def text(self):
            if self.sub_steps:
                return [self.type.name, *(s.text() for s in self.sub_steps)]
            return (
                f"{self.type.name} {'-' if self.micro_index is None else self.micro_index} {self.stage_index}"
            )

    MetaStepType = enum.Enum(
        "MetaStepType",
        "DATA_LOAD DATA_SEND DATA_RECV FWD BWD BWD_INPUT BWD_WEIGHT FWD_RECV FWD_SEND BWD_RECV BWD_SEND "
        "BATCH_SEND_RECV OVERLAP_F_B "
        "OVERLAP_B_F FSDP_UNSHARD FSDP_RESHARD FSDP_REDUCE_GRAD",
    )
    MpipeStepType = enum.Enum(
        "MpipeStepType",
        "MPIPE_PARAM_BROADCAST MPIPE_TRANSPOSE_FWD MPIPE_FWD_SEND MPIPE_FWD_RECV MPIPE_GRAPH_SEND "
        "MPIPE_GRAPH_RECV MPIPE_TRANSPOSE_BWD "
        "MPIPE_GRAD_SEND MPIPE_GRAD_RECV_WITH_BACKWARD MPIPE_GRAD_REDUCE",
    )

    class PipelineScheduleRuntime:
        def __init__(self, stages, micro_batch_num, p2p_transport="auto"):
            self.stages, self.micro_batch_num = stages, micro_batch_num
            self.real_stage_num, self._stage_num = len(stages), stages[0]
            self._custom_fn_map, self.calls = {}, []
            self._build_stage_to_rank_index()

        def build_exec_order(self):
            self.calls.append("build_exec_order")
            self.construct_exec_order()

    class ScheduleMPipeTranspose(PipelineScheduleRuntime):
        def __init__(self, stages, micro_batch_num, preprocess_module=None, handlers=MpipeStepType, **kwargs):
            super().__init__(stages, micro_batch_num, **kwargs)
            self.preprocess = preprocess_module
            self._custom_fn_map = {t: print for t in handlers}
            self.build_exec_order()

    package = types.ModuleType("hyper_parallel.core.pipeline_parallel")
    package.MetaStep, package.MetaStepType, package.ScheduleMPipeTranspose = (
        MetaStep,
        MetaStepType,
        ScheduleMPipeTranspose,
    )
    scheduler, mpipe = (
        types.ModuleType(f"{package.__name__}.scheduler"),
        types.ModuleType(f"{package.__name__}.mpipe.step_types"),
    )
    scheduler.PipelineScheduleRuntime, mpipe.MpipeStepType = PipelineScheduleRuntime, MpipeStepType
    for name, module in (
        ("hyper_parallel", types.ModuleType("hyper_parallel")),
        ("hyper_parallel.core", types.ModuleType("hyper_parallel.core")),
        (package.__name__, package),
        (scheduler.__name__, scheduler),
        (f"{package.__name__}.mpipe", types.ModuleType(f"{package.__name__}.mpipe")),
        (mpipe.__name__, mpipe),
    ):
        monkeypatch.setitem(sys.modules, name, module)
    return types.SimpleNamespace(
        base=PipelineScheduleRuntime,
        mpipe=ScheduleMPipeTranspose,
        mpipe_types=MpipeStepType,
        types=MetaStepType,
    )


def plan(folder, cut: str, P: int, M: int, n: int, more: str = ""):
    path = folder / "hyper.json"
    path.write_text(lowered(TEXT.format(P=P, M=M, n=n, cut=cut, more=more), "hyperparallel").text)
    return path


def shown(schedule) -> dict[str, list]:
    return {str(r): [s.text() for s in steps] for r, steps in schedule.exec_order.items()}


def test_a_plan_fills_the_order_of_the_base_class(tmp_path, stand_in):
    path = plan(tmp_path, "b = enc, u : interleaved(chunks: 2)", 2, 4, 3)
    schedule = schedule_class(path)([4, 4], 4, p2p_transport="plain")
    assert isinstance(schedule, stand_in.base) and not isinstance(schedule, stand_in.mpipe)
    assert shown(schedule) == json.loads(path.read_text()) and schedule.calls == ["build_exec_order"]
    assert schedule._stage_to_rank_index == {0: 0, 1: 1, 2: 0, 3: 1}
    assert schedule_class(path, "v")([4, 4], 4)._stage_to_rank_index == {0: 0, 1: 1, 2: 1, 3: 0}


def test_a_plan_with_an_encoder_fills_that_of_mpipe(tmp_path, stand_in):
    path = plan(tmp_path, "e = enc : transpose  b = u : 1f1b", 2, 4, 2)
    schedule = schedule_class(path)([2, 2], 4, preprocess_module="vit")
    assert (
        isinstance(schedule, stand_in.mpipe)
        and schedule.preprocess == "vit"
        and schedule.calls == ["build_exec_order"]
    )
    assert shown(schedule) == json.loads(path.read_text())
    assert all(
        s.type in (*stand_in.types, *stand_in.mpipe_types)
        for steps in schedule.exec_order.values()
        for s in steps
    )


def test_steps_that_would_be_skipped_are_refused(tmp_path, stand_in):
    path = plan(tmp_path, "e = enc : transpose  b = u : 1f1b", 2, 4, 2)
    with pytest.raises(ValueError, match="no handler for MPIPE_GRAD_REDUCE"):
        schedule_class(path)(
            [2, 2], 4, handlers=[t for t in stand_in.mpipe_types if t.name != "MPIPE_GRAD_REDUCE"]
        )
    with pytest.raises(ValueError, match="has 2 ranks, and the schedule 3"):
        schedule_class(path)([3, 3, 3], 4)
    path.write_text(path.read_text().replace("FWD_SEND", "FWD_SENT"))
    with pytest.raises(ValueError, match="no step FWD_SENT, MPIPE_FWD_SENT"):
        schedule_class(path)


def test_overlaps_are_composites(tmp_path, stand_in):
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"0": [["OVERLAP_F_B", "FWD 1 0", "BWD 0 0"]]}))
    [step] = schedule_class(path)([1], 2).exec_order[0]
    assert (
        step.text() == ["OVERLAP_F_B", "FWD 1 0", "BWD 0 0"]
        and step.micro_index is None
        and step.stage_index is None
    )


def test_without_hyperparallel(tmp_path):
    path = plan(tmp_path, "b = enc, u : 1f1b", 2, 4, 1)
    with pytest.raises(ImportError):
        schedule_class(path)
