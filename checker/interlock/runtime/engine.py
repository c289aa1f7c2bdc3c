"""The engine: one process a rank executes its list of the plan, operation by operation."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from importlib import import_module
from pathlib import Path

import torch
import torch.distributed as dist

from interlock.interchange.plan import Plan, PlanError, loads
from interlock.interchange.plan_actions import list_actions
from interlock.lower.executable import without_action
from interlock.program.kinds import PIPELINE
from interlock.runtime.control import GRACE, Control, store_of
from interlock.runtime.errors import RunError
from interlock.runtime.reductions import Accumulation, Reducer
from interlock.runtime.stages import StageRunner
from interlock.runtime.wire import Leg, Wire, key_of

_NUMBER = itertools.count()
_TRANSFERS = frozenset(kind.name for kind in PIPELINE)
_DONE_ELSEWHERE = (
    "INIT",
    "UNSHARD",
    "RESHARD",
)  # communicators are made at the start; FSDP is not the runtime's


class Runner:
    """Executes a plan's list of this rank.

    plan        a Plan, or the path of one
    stages      module of each stage that lies here: this rank's Sharded ones and every Replicated one
    loss_fn     loss_fn(output, target) -> a scalar, on the last stage of a microbatch's path
    device      where tensors are; with gloo `cpu`
    pipelines   global ranks of ranks 0 .. P-1 of each pipeline that runs this plan on its share of the data
                (default: one, 0 .. P-1); the same on every process.
                Gradients are averaged over the pipelines (data_average=False: summed)
    ties        for each tie of the plan, this rank's parameters of it
    optimizer   called at the plan's STEP and ZERO; without one these are the training loop's
    dynamic_shapes  shapes may differ from step to step; else each payload must stay what it was in the first
                    step
    timeout     seconds that one operation may take; then every rank ends with a report
    sync        Replicated stages start with the parameters of rank 0

    Raises RunError (IL846: ranks with different plans; IL849: stages that are not the plan's), PlanError
    (IL845).
    """

    def __init__(
        self,
        plan: Plan | str | Path,
        stages: Mapping[int, torch.nn.Module],
        loss_fn: Callable | None = None,
        *,
        device: str | torch.device = "cpu",
        pipelines: Sequence[Sequence[int]] | None = None,
        data_average: bool = True,
        ties: Mapping[str, Sequence[torch.nn.Parameter]] | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        dynamic_shapes: bool = False,
        timeout: float = 600.0,
        sync: bool = True,
        exit_when_stuck: bool = True,
    ):
        self.file = str(plan) if not isinstance(plan, Plan) else f"{plan.name}.plan"
        wrong: PlanError | None = None
        try:
            self.plan = plan if isinstance(plan, Plan) else loads(Path(plan).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, PlanError) as error:
            wrong = (
                error
                if isinstance(error, PlanError)
                else PlanError(f"{self.file}: {error.strerror if isinstance(error, OSError) else 'no text'}")
            )
        self.pipelines = (
            [list(p) for p in pipelines]
            if pipelines is not None
            else [list(range(self.plan.program.ranks if wrong is None else dist.get_world_size()))]
        )
        self.world = next((p for p in self.pipelines if dist.get_rank() in p), None)
        if self.world is None:
            raise RunError(
                "IL849",
                f"the process of global rank {dist.get_rank()} is in none of the pipelines {self.pipelines}",
            )
        self.rank = self.world.index(dist.get_rank())
        if str(device).startswith("npu"):
            import_module("torch_npu")  # makes the device known, and HCCL
        self.device = torch.device(device)
        self.host_waits = self.device.type == "cpu"
        self.broken = False
        name = f"interlock/{min(self.world)}/{next(_NUMBER)}"
        self._describe_from: list[str] = []
        self.control = Control(
            store_of(dist.distributed_c10d._get_default_store(), name, timeout),
            self.rank,
            len(self.world),
            lambda i: self._describe_from[i] if 0 <= i < len(self._describe_from) else "the start",
            timeout,
            exit_when_stuck,
        )
        try:
            self._start(
                wrong, stages, loss_fn, timeout, ties or {}, data_average, optimizer, dynamic_shapes, sync
            )
        except Exception as error:
            raise self._told(error) from (None if isinstance(error, (RunError, PlanError)) else error)

    def _start(self, wrong, stages, loss_fn, timeout, ties, average, optimizer, dynamic, sync) -> None:
        if wrong is not None:
            raise wrong
        program = self.plan.program
        if any(len(p) != program.ranks for p in self.pipelines) or sorted(
            r for p in self.pipelines for r in p
        ) != list(range(dist.get_world_size())):
            raise RunError(
                "IL849",
                f"the plan {self.file} has {program.ranks} ranks, and {dist.get_world_size()} processes run "
                f"it in the pipelines {self.pipelines}",
            )
        if odd := without_action(program):
            raise RunError("IL849", odd)
        self.actions = list_actions(program)[self.rank]
        lines = self.plan.lines[self.rank]
        first = int(program.order.start[self.rank])
        self._describe_from = [
            f"{program.show(first + i)} ({self.file}:{line})" for i, line in enumerate(lines)
        ]
        self._agree()
        self.loss_fn, self.optimizer, self.ties = loss_fn, optimizer, ties
        here = [s for s, stage in enumerate(program.stages) if stage.replicated or stage.rank == self.rank]
        if sorted(stages) != here:
            raise RunError(
                "IL849",
                f"rank {self.rank} was given the stages {sorted(stages)}, and the plan places {here} there",
            )
        trainable = [any(program.layers[l].trainable for l in range(s.first, s.last)) for s in program.stages]
        self.stages = {s: StageRunner(s, stages[s], trainable[s]) for s in here}
        for tie in program.ties:
            if (
                any(s in here for s in tie.stages)
                and any(a["do"] == "REDUCE_TIE" and a["name"] == tie.name for a in self.actions)
                and not ties.get(tie.name)
            ):
                raise RunError(
                    "IL849",
                    f"the plan ties {tie.name} over ranks: give the Runner ties={{{tie.name!r}: [parameters "
                    f"of rank {self.rank}]}}",
                )
        self._meet("ready")
        groups, data = self.control.begin(lambda: self._groups(timeout))
        self.wire = Wire(self.control, groups, self.world, self.device, dynamic, self.host_waits)
        self.reducer = Reducer(self.control, groups, data, average, self.host_waits)
        if sync and program.ranks > 1:
            for s in here:
                if program.stages[s].replicated and isinstance(stages[s], torch.nn.Module):
                    for t in (*stages[s].parameters(), *stages[s].buffers()):
                        work = self.control.begin(
                            lambda t=t: dist.broadcast(
                                t.detach(), self.world[0], group=groups[0], async_op=True
                            )
                        )
                        self.control.wait(
                            work.wait, "waits for the parameters of rank 0"
                        ) if self.host_waits else self.control.begin(work.wait)
        self.control.at(-1, "is between steps")

    def _agree(self) -> None:
        """IL846: every rank runs the same plan.

        Before any group is made, since those are made by the plan.
        """
        mine = self.plan.sha256
        seen = self._meet("plan", f"{mine} {self.file} {self.plan.name}")
        other = next((r for r in sorted(seen) if seen[r].split()[0] != mine), None)
        if other is not None:
            first, second = (
                "{2} ({1}, {0:.12})".format(*seen[r].split(" ", 2)) for r in sorted((self.rank, other))
            )
            raise RunError(
                "IL846",
                f"ranks {min(self.rank, other)} and {max(self.rank, other)} run different plans: {first} "
                f"and {second}",
            )

    def _meet(self, what: str, say: str = "") -> dict[int, str]:
        """Waits until every rank has come here, through the store alone; what each says."""
        control, seen = self.control, {}
        with control._lock:
            control.store.set(f"{what}/{self.rank}", say)

        def all_there() -> bool:
            for r in range(len(self.world)):
                with control._lock:
                    if r not in seen and control.store.check([f"{what}/{r}"]):
                        seen[r] = control.store.get(f"{what}/{r}").decode()
            return len(seen) == len(self.world)

        control.until(all_there, "waits for the other ranks to start")
        return seen

    def _groups(self, timeout: float) -> tuple[list, object]:
        """A process group for each communicator of the plan (None where this rank is no member), and that of
        the replicas of this rank's stages.

        Every process makes every group, in one order: the names that `use_local_synchronization` gives differ
        between processes with other groups.
        """
        self.control.at(-1, "makes process groups")
        limit = timedelta(seconds=max(timeout, 10))
        made: list = []
        for pipeline in self.pipelines:
            own = [
                dist.new_group([pipeline[r] for r in c.ranks], timeout=limit) if len(c.ranks) > 1 else None
                for c in self.plan.program.communicators
            ]
            everyone = dist.new_group(pipeline, timeout=limit, backend="gloo")
            if pipeline is self.world:
                made = [
                    group if self.rank in c.ranks else None
                    for group, c in zip(own, self.plan.program.communicators)
                ]
                self.everyone = everyone
        data = None
        for replicas in zip(*self.pipelines) if len(self.pipelines) > 1 else ():
            group = dist.new_group(list(replicas), timeout=limit)
            data = group if dist.get_rank() in replicas else data
        return made, data

    # ---- a step
    # ----------------------------------------------------------------------------------------------------------  # noqa: E501

    def step(self, inputs: Sequence, targets: Sequence | None = None) -> torch.Tensor:
        """The loss of each microbatch, the same on every rank; gradients are added to `.grad`: those of the
        sum of the losses.

        inputs[m]: what the stages of microbatch m read from the batch: a tensor or tuple for the first stage
        of its path, or a dictionary: by the name of a region (for its first stage) or of a layer or group of
        layers (for the stage with the first of them), a tensor or tuple, given after the payload, or a
        dictionary, given as keywords. targets[m] goes to loss_fn. Raises RunError.
        """
        if self.broken:
            raise RunError(
                "IL848", "a step of this Runner failed: its communicators are gone, start the processes again"
            )
        program = self.plan.program
        if len(inputs) != program.microbatches or (
            targets is not None and len(targets) != program.microbatches
        ):
            raise ValueError(
                f"the plan has {program.microbatches} microbatches; inputs are {len(inputs)}, targets "
                f"{len(targets) if targets is not None else 'none'}"
            )
        self.inputs, self.targets = inputs, targets
        self.losses = torch.zeros(program.microbatches, dtype=torch.float64)
        self.payloads: dict[
            tuple[str, int, int], list
        ] = {}  # outputs and input gradients, for a neighbour here or to be sent
        self.receives: dict[tuple[str, int, int], dict] = {}
        self.wire.start_step()
        self.accumulation = Accumulation(lambda: [p for s in self.stages.values() for p in s.parameters])
        try:
            i = 0
            while i < len(self.actions):
                i = self._execute(i)
            self.wire.end_all()
            self._finish()
        except Exception as error:
            raise self._told(error) from error
        self.control.at(-1, "is between steps")
        return self.losses

    def _told(self, error: Exception) -> RunError | PlanError:
        """The failure as all ranks raise it."""
        self.broken = True
        told = self._tell(error)
        self._unblock()
        return told

    def _unblock(self) -> None:
        """A wait of gloo ends with its communicator only, and one time limit that passes closes that: else a
        thread would be left inside at the process's end.
        """
        deadline = time.monotonic() + GRACE
        while (
            self.control.waiting and self.host_waits and hasattr(self, "wire") and time.monotonic() < deadline
        ):
            for group in [
                g for g in (*self.wire.groups, self.everyone, self.reducer.data_group) if g is not None
            ]:
                peer = next((r for r in dist.get_process_group_ranks(group) if r != dist.get_rank()), None)
                try:
                    if peer is not None:
                        dist.irecv(torch.zeros(1), peer, group=group).wait(timedelta(milliseconds=1))
                except Exception:
                    pass
            time.sleep(0.05)

    def _tell(self, error: Exception) -> RunError | PlanError:
        if self.control._raised and isinstance(error, RunError):
            return error
        index = self.control.now[0]
        where = (
            f" in {self._describe_from[index]}"
            if 0 <= index < len(self._describe_from) and hasattr(self, "wire")
            else ""
        )
        if isinstance(error, (RunError, PlanError)):
            return self.control.fail(
                error.code, f"rank {self.rank}{where}: {error.args[0].removesuffix(f' [{error.code}]')}"
            )
        return self.control.fail("IL848", f"rank {self.rank} failed{where}: {type(error).__name__}: {error}")

    def _finish(self) -> None:
        """Losses to every rank; the step ends together."""
        self.accumulation.restore()
        self.control.at(len(self.actions) - 1, "has ended its list, after")
        if not self.host_waits:
            done = torch.get_device_module(self.device).Event()
            done.record()
            self.control.until(done.query, "waits for its device after")
        if len(self.world) > 1:
            work = self.control.begin(
                lambda: dist.all_reduce(self.losses, group=self.everyone, async_op=True)
            )
            self.control.wait(work.wait, "has ended its list, after")

    def _execute(self, i: int) -> int:  # noqa: C901, PLR0912
        """Operation i, with the others of its launch; the next one's number."""
        a = self.actions[i]
        self.control.at(i)
        self.control.check()
        do = a["do"]
        if do in _TRANSFERS:
            j = i + 1
            while "launch" in a and j < len(self.actions) and self.actions[j].get("launch") == a["launch"]:
                j += 1
            legs = [self._leg(k) for k in range(i, j) if not self.actions[k].get("empty")]
            if legs:
                self.wire.post(legs, "launch" in a)
            return j
        match do:
            case "F":
                self._forward(a)
            case "B" | "I":
                self._backward(a)
            case "W":
                if a["back"]:  # else a placeholder
                    self.stages[a["stage"]].backward_weight(a)
            case "LOSS":
                self._loss(a)
            case "WAIT_F" | "WAIT_B":
                self.wire.end_send(f"SEND_{do[-1]}", a["stage"], a["mb"])
            case "REDUCE":
                stage = self.plan.program.stages[a["stage"]]
                self.reducer.stage(self.stages[a["stage"]].parameters, stage.replicated, a.get("comm", 0))
            case "REDUCE_TIE":
                self.reducer.tie(self.ties[a["name"]], a.get("comm", 0))
            case "ZERO":
                if self.optimizer is not None:
                    self.accumulation.forget()
            case "STEP":
                if self.optimizer is not None:
                    self.accumulation.restore()
                    self.optimizer.step()
            case _ if do not in _DONE_ELSEWHERE:
                raise RunError("IL849", f"the runtime has no action for {do}")
        return i + 1

    def _leg(self, i: int) -> Leg:
        a = self.actions[i]
        leg = Leg(i, a, key_of(a), a["peer"])
        if leg.sends:
            leg.tensors = self.payloads.pop((a["do"][-1], a["stage"], a["mb"]))
        else:
            self.receives[a["do"][-1], a["stage"], a["mb"]] = a
        return leg

    def _forward(self, a: dict) -> None:
        s, m = a["stage"], a["mb"]
        if a["from"] == "wire":
            payload, meta = self.wire.receive(self.receives.pop(("F", s, m)))
            tracked = [e[2] for e in meta]
            self.control.at(self.control.now[0])
        elif a["from"] == "local":
            payload = self.payloads.pop(("F", a["prev"], m))
            tracked = [t.requires_grad for t in payload]
        else:
            payload, tracked = (), ()
        args, kwargs = self._batch(s, m, a["prev"])
        outputs = self.stages[s].forward(a, payload, tracked, args, kwargs)
        if a["to"] != "loss":
            self.payloads["F", s, m] = outputs
        elif a.get("loss") != "later":
            self._loss(a)
        if not a["back"]:
            self.stages[s].forget(m)

    def _batch(self, s: int, m: int, before: int) -> tuple[Sequence, dict]:
        """What stage s reads of the batch itself: as the first stage of the path or of its region, or for a
        layer it holds.
        """
        program, given = self.plan.program, self.inputs[m]
        stage = program.stages[s]
        if not isinstance(given, Mapping):
            return (given if isinstance(given, (tuple, list)) else (given,), {}) if before < 0 else ((), {})
        names = [l.name for l in program.layers[stage.first : stage.last]]
        wanted = dict.fromkeys([*names, *(n.split("[")[0] for n in names if n.endswith("[0]"))])
        if before < 0 or program.stages[before].region != stage.region:
            wanted = {stage.region: None, **wanted}
        args, kwargs = [], {}
        for name in wanted:
            value = given.get(name, ())
            if isinstance(value, Mapping):
                kwargs |= value
            else:
                args += value if isinstance(value, (tuple, list)) else (value,)
        return args, kwargs

    def _loss(self, a: dict) -> None:
        if self.loss_fn is None:
            raise RunError("IL849", "the Runner was given no loss_fn, and this rank runs the last stage")
        loss = self.stages[a["stage"]].loss(
            a, self.loss_fn, self.targets[a["mb"]] if self.targets is not None else None
        )
        self.losses[a["mb"]] = loss.detach()

    def _backward(self, a: dict) -> None:
        s, m = a["stage"], a["mb"]
        stage = self.stages[s]
        if not a["back"]:
            stage.forget(m)  # a placeholder: it computes nothing
            return
        gradients = None
        if a["from"] == "wire":
            gradients, _ = self.wire.receive(self.receives.pop(("B", s, m)), stage.stashes[m].outputs)
            self.control.at(self.control.now[0])
        elif a["from"] == "local":
            gradients = self.payloads.pop(("B", a["next"], m))
        found = stage.backward(a, gradients) if a["do"] == "B" else stage.backward_input(a, gradients)
        if a["to"] != "nothing":
            self.payloads["B", s, m] = found

    def close(self) -> None:
        """Ends the threads of this Runner.

        Its process groups stay: torch gives a new group of the same ranks the name of one that was destroyed,
        and with it what that one left in the store.
        """
        self.control.at(-1, "has ended")
        with contextlib.suppress(Exception):
            self.control._publish()
        self.control.close()


__all__ = ["Runner"]
