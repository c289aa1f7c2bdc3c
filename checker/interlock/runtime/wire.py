"""Transfers of a plan: payloads of one or more tensors, each described once by who sends it, posted in the
order of its queue.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
import torch.distributed as dist

from interlock.runtime.control import Control
from interlock.runtime.errors import RunError

SENDS = ("SEND_F", "SEND_B")


@dataclass
class Leg:
    """One transfer: key names its payload, (F or B, sending stage, microbatch); tensors: what is sent, or
    received, None where there is none.
    """

    index: int
    action: dict
    key: tuple[str, int, int]
    peer: int
    tensors: list[torch.Tensor | None] | None = None
    meta: list | None = None

    @property
    def sends(self) -> bool:
        return self.action["do"] in SENDS


@dataclass
class Unit:
    """A plain transfer or a grouped launch. `works` once it is posted."""

    legs: list[Leg]
    queues: frozenset
    grouped: bool
    comm: int
    works: list | None = None
    done: bool = False
    held: list = field(default_factory=list)


def key_of(action: dict) -> tuple[str, int, int]:
    do, s, m = action["do"], action["stage"], action["mb"]
    return (do[-1], s if do in SENDS else action["other"], m)


def meta_of(tensors: Sequence[torch.Tensor | None]) -> list:
    return [
        None if t is None else [str(t.dtype).removeprefix("torch."), list(t.shape), t.requires_grad]
        for t in tensors
    ]


class Wire:
    """`groups[c]`: the process group of communicator c; `world[r]`: the global rank of the plan's rank r."""

    def __init__(
        self,
        control: Control,
        groups,
        world: Sequence[int],
        device: torch.device,
        dynamic: bool,
        host_waits: bool,
    ):
        self.control, self.groups, self.world, self.device, self.dynamic, self.host_waits = (
            control,
            groups,
            world,
            device,
            dynamic,
            host_waits,
        )
        self.known: dict[tuple, list] = {}  # payload -> what it is made of, as its first sender said
        self.pending: list[Unit] = []  # units that stand behind one whose description has not come
        self.sent: dict[tuple, Unit] = {}
        self.coming: dict[tuple, tuple[Unit, Leg]] = {}
        self.step = 0
        control.progress = self.progress  # what another queue holds up is posted whatever this rank waits for

    def start_step(self) -> None:
        self.step += 1
        self.sent.clear()
        self.coming.clear()
        if self.dynamic:
            self.known.clear()

    def post(self, legs: list[Leg], grouped: bool) -> None:
        """Puts a unit into its queues. Raises RunError (IL847) if a payload is not what it was before."""
        comm = legs[0].action.get("comm", 0)
        queues = frozenset([(comm, leg.peer) for leg in legs] + [("group", comm)] * grouped)
        unit = Unit(legs, queues, grouped, comm)
        for leg in legs:
            if leg.sends:
                self._describe(leg)
                self.sent[leg.action["do"], leg.action["stage"], leg.action["mb"]] = unit
            else:
                self.coming[leg.key] = (unit, leg)
        self.pending.append(unit)
        self.progress()

    def receive(
        self, action: dict, expected: Sequence[torch.Tensor] | None = None
    ) -> tuple[list[torch.Tensor | None], list]:
        """Waits for the payload that a RECV asked for, with what its sender said of it.

        `expected`: tensors whose gradients it must fit.
        """
        key = (action["do"][-1], action["other"], action["mb"])
        if key not in self.coming:
            raise RuntimeError(f"no receive was posted for {key}")
        unit, leg = self.coming.pop(key)
        self._end(unit, f"waits for rank {leg.peer} in")
        if expected is not None:
            self._fits(leg, expected)
        return [_from_wire(t, entry) for t, entry in zip(leg.tensors, leg.meta)], leg.meta

    def end_send(self, kind: str, stage: int, mb: int) -> None:
        unit = self.sent.pop((kind, stage, mb), None)
        if unit is not None:
            self._end(unit, f"waits for rank {unit.legs[0].peer} to receive, in")

    def end_all(self) -> None:
        for name in list(self.sent):
            self.end_send(*name)
        while self.pending:
            self.control.until(
                lambda: self.progress() or not self.pending, "waits for the description of a payload in"
            )

    def progress(self) -> bool:
        """Posts every unit that no earlier one of its queues holds up."""
        held: set = set()
        left = []
        for unit in self.pending:
            if unit.queues & held or not self._described(unit):
                held |= unit.queues
                left.append(unit)
            else:
                self._start(unit)
        self.pending = left
        return not left

    # ---- within
    # ---------------------------------------------------------------------------------------------------------  # noqa: E501

    def _name(self, key: tuple) -> str:
        return f"payload/{self.step if self.dynamic else 0}/{key[0]}/{key[1]}/{key[2]}"

    def _describe(self, leg: Leg) -> None:
        """Says once what the payload is made of, and holds every later one to it."""
        leg.meta = meta_of(leg.tensors)
        known = self.known.get(leg.key)
        if known is None:
            self.known[leg.key] = leg.meta
            with self.control._lock:
                self.control.store.set(self._name(leg.key), json.dumps(leg.meta))
        elif known != leg.meta:
            raise RunError(
                "IL847",
                f"sends {show(leg.meta)}, and sent {show(known)} before: give the Runner "
                "dynamic_shapes=True if shapes vary from step to step",
            )

    def _described(self, unit: Unit) -> bool:
        for leg in unit.legs:
            if leg.sends or leg.meta is not None:
                continue
            if leg.key not in self.known:
                with self.control._lock:
                    if not self.control.store.check([self._name(leg.key)]):
                        return False
                    self.known[leg.key] = json.loads(self.control.store.get(self._name(leg.key)))
            leg.meta = self.known[leg.key]
        return True

    def _start(self, unit: Unit) -> None:
        group = self.groups[unit.comm]
        operations = []
        for leg in unit.legs:
            if not leg.sends:
                leg.tensors = [
                    None
                    if e is None
                    else torch.empty(e[1], dtype=_wire_type(getattr(torch, e[0])), device=self.device)
                    for e in leg.meta
                ]
            for t in leg.tensors:
                if t is not None:
                    t = _to_wire(t) if leg.sends else t
                    unit.held.append(t)
                    operations.append((dist.isend if leg.sends else dist.irecv, t, self.world[leg.peer]))
        if unit.grouped and operations:
            unit.works = list(
                self.control.begin(
                    lambda: dist.batch_isend_irecv(
                        [dist.P2POp(f, t, peer, group=group) for f, t, peer in operations]
                    )
                )
            )
        else:
            unit.works = self.control.begin(lambda: [f(t, peer, group=group) for f, t, peer in operations])

    def _end(self, unit: Unit, state: str) -> None:
        if unit.done:
            return
        if unit.works is None:
            self.control.until(lambda: self.progress() or unit.works is not None, state)
        for work in unit.works:
            if self.host_waits:
                self.control.wait(work.wait, state)
            else:
                self.control.begin(work.wait)
        unit.done, unit.works = True, []
        unit.held.clear()
        for leg in unit.legs:
            if leg.sends:
                leg.tensors = None

    def _fits(self, leg: Leg, outputs: Sequence[torch.Tensor]) -> None:
        asked = meta_of(outputs)
        wrong = len(asked) != len(leg.meta) or any(
            g is not None and (g[:2] != o[:2] or not o[2]) for g, o in zip(leg.meta, asked)
        )
        if wrong:
            raise RunError(
                "IL847", f"receives gradients {show(leg.meta)} from rank {leg.peer} for outputs {show(asked)}"
            )


def show(meta: list) -> str:
    return "(" + ", ".join("nothing" if e is None else f"{e[0]}{e[1]}" for e in meta) + ")"


def _wire_type(dtype: torch.dtype) -> torch.dtype:
    return torch.uint8 if dtype is torch.bool else dtype  # HCCL sends no bool


def _to_wire(t: torch.Tensor) -> torch.Tensor:
    t = t.detach().contiguous()
    return t.view(torch.uint8) if t.dtype is torch.bool else t


def _from_wire(t: torch.Tensor | None, entry: list | None) -> torch.Tensor | None:
    return t.view(torch.bool) if t is not None and entry[0] == "bool" else t
