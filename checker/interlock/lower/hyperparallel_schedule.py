"""The adapter: a HyperParallel schedule whose `exec_order` is what `interlock lower --to hyperparallel`
wrote. Imports hyper_parallel when used.
"""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

PACKAGE = "hyper_parallel.core.pipeline_parallel"
STEP_TYPES = f"{PACKAGE}.mpipe.step_types"


def read_steps(path: str | Path) -> list[list]:
    """For each rank its steps. Raises ValueError for a file that is no such plan."""
    lists = json.loads(Path(path).read_text(encoding="utf-8"))
    if not isinstance(lists, dict) or sorted(lists) != sorted(map(str, range(len(lists)))):
        raise ValueError(f"{path} is no plan for hyperparallel: it wants an object of ranks")
    return [lists[str(r)] for r in range(len(lists))]


def schedule_class(path: str | Path, style: str = "loop"):
    """A schedule class filled from a plan: a subclass of ScheduleMPipeTranspose where the plan has an encoder
    in front, else of PipelineScheduleRuntime.

    It takes what its base takes. style: `loop` (stage s on rank s mod P), `v`. Raises ImportError without
    hyper_parallel, ValueError for steps it does not know.
    """
    ranks = read_steps(path)
    runtime = import_module(PACKAGE)
    scheduler = import_module(f"{PACKAGE}.scheduler")
    names = {
        _type(text)
        for steps in ranks
        for step in steps
        for text in (step[1:] if isinstance(step, list) else [step])
    }
    mpipe = any(n.startswith("MPIPE_") for n in names)
    types = {t.name: t for t in runtime.MetaStepType} | (
        {t.name: t for t in import_module(STEP_TYPES).MpipeStepType} if mpipe else {}
    )
    unknown = sorted((names | {s[0] for steps in ranks for s in steps if isinstance(s, list)}) - types.keys())
    if unknown:
        raise ValueError(f"this version of HyperParallel has no step {', '.join(unknown)}")
    base = runtime.ScheduleMPipeTranspose if mpipe else scheduler.PipelineScheduleRuntime

    def step(text):
        if isinstance(text, list):
            return runtime.MetaStep(None, types[text[0]], None, sub_steps=tuple(step(t) for t in text[1:]))
        kind, micro, stage = text.split(" ")
        return runtime.MetaStep(None if micro == "-" else int(micro), types[kind], int(stage))

    class PlannedSchedule(base):
        """exec_order is the plan's; what the base injects (FSDP, swap) it injects."""

        plan = str(path)

        def __init__(self, stages, micro_batch_num, *args, **kwargs):
            super().__init__(stages, micro_batch_num, *args, **kwargs)
            if self.real_stage_num != len(ranks):
                raise ValueError(
                    f"the plan {path} has {len(ranks)} ranks, and the schedule {self.real_stage_num}"
                )
            if not mpipe:  # ScheduleMPipeTranspose builds its order itself
                self.build_exec_order()
            self._refuse_silent_steps()

        def _build_stage_to_rank_index(self):
            count, P = self._stage_num, self.real_stage_num
            self._stage_to_rank_index = {
                s: s % P if style == "loop" or s < P else count - 1 - s for s in range(count)
            }

        def construct_exec_order(self):
            self.exec_order = {r: [step(text) for text in steps] for r, steps in enumerate(ranks)}

        def _refuse_silent_steps(self):
            """A type of one's own without a handler is skipped without a word."""
            own = {t for n, t in types.items() if n in names and n.startswith("MPIPE_")}
            if missing := sorted(t.name for t in own - set(self._custom_fn_map)):
                raise ValueError(
                    f"HyperParallel has no handler for {', '.join(missing)}, and would skip them"
                )

    return PlannedSchedule


def _type(text: str) -> str:
    return text.split(" ", maxsplit=1)[0]
