"""The judge of claims (spec/certificates.md). It trusts nothing but the plain program and its own code."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from interlock.kernel.faults import find_faults
from interlock.kernel.fields import Fields, Malformed, require
from interlock.kernel.invariant import find_unmet_need
from interlock.kernel.matching import Matched, match
from interlock.kernel.memory import count_in_flight, find_peaks
from interlock.kernel.placement import place
from interlock.kernel.waits import MODELS, WaitGraph
from interlock.kernel.walks import check_walk, describe_event
from interlock.kernel.wellformed import read


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether a claim is accepted, and in one sentence why or why not."""

    accepted: bool
    reason: str


def judge(program: object, claim: object) -> Judgement:
    """The judgement of one claim about a plain program."""
    return Judge(program).judge(claim)


def judge_all(program: object, claims: list[object]) -> list[Judgement]:
    """One judgement a claim; the program is read once."""
    of_program = Judge(program)
    return [of_program.judge(claim) for claim in claims]


class Judge:
    """Judges claims about one plain program, any JSON at all, which it reads once, at the first claim."""

    def __init__(self, program: object) -> None:
        self._plain = program
        self._first_faults: dict[str, tuple[str, tuple[int, ...]] | None] = {}  # by model

    def judge(self, claim: object) -> Judgement:
        """The judgement of one claim, any JSON at all."""
        try:
            return Judgement(True, self._check(Fields(claim, "the claim")))
        except Malformed as rejected:
            return Judgement(False, str(rejected))

    @property
    def matched(self) -> Matched:
        """The program as read. Raises Malformed."""
        if isinstance(self._reading, str):
            raise Malformed(self._reading)
        return self._reading

    @cached_property
    def _reading(self) -> Matched | str:
        try:
            return match(place(read(self._plain)))
        except Malformed as error:
            return f"ill-formed program: {error}"

    def _check(self, claim: Fields) -> str:
        """Why the claim holds. Raises Malformed if it does not."""
        matched, fields = self.matched, claim.values
        match fields.get("claim"):
            case "valid":
                return self._check_valid(claim, read_model(claim))
            case "invalid" if "walk" in fields and "fault" not in fields:
                check_walk(WaitGraph(matched, read_model(claim)), fields["walk"])
                return "every operation on the walk waits for itself"
            case "invalid" if "fault" in fields and "walk" not in fields:
                return _check_fault(matched, Fields(fields["fault"], "the fault"), read_model(claim))
            case "invariant":
                return self._check_invariant(claim)
            case "peak":
                return _check_peaks(matched, claim)
            case "in_flight":
                return _check_in_flight(matched, claim)
        raise Malformed("unknown claim")

    def _check_valid(self, claim: Fields, model: str) -> str:
        """No rule finds an error under the model, and every wait of its wait graph goes forward in time."""
        matched, order, program = self.matched, self.matched.order, self.matched.program
        times = list(claim.integers("times", length=len(order.kind)))
        launches = Fields(claim.values.get("launches", {}), "launches")
        listed = launches.is_object and launches.values.keys() == {str(launch) for launch in order.grouped}
        require(listed, "launches does not list the grouped launches")
        for launch in order.grouped:  # in the order of their events
            times += launches.integers(str(launch), length=2)
        limited = program.inserted and program.memory is not None and set(program.memory.capacity) != {None}
        require(not limited, "there is a capacity: memory is judged where transfers are written")
        if model not in self._first_faults:
            self._first_faults[model] = next(find_faults(matched, model, timed=True), None)
        if fault := self._first_faults[model]:
            code, rows = fault
            raise Malformed(f"the program has an error {code}" + (f" at row {rows[0]}" if rows else ""))
        graph = WaitGraph(matched, model)
        for a, b in graph.find_shared_events():
            if times[a] != times[b]:
                raise Malformed(f"rows {a} and {b} share an event and have two times")
        for name, waits in graph.list_relations():
            for a, b in waits:
                if times[a] >= times[b]:
                    wait = f"{describe_event(order, a)} -> {describe_event(order, b)} ({name})"
                    raise Malformed(f"the wait {wait} does not go forward in time")
        fragment = "; a fragment: what it lacks is not asked" if program.fragment else ""
        return "no rule finds an error and every wait goes forward in time" + fragment

    def _check_invariant(self, claim: Fields) -> str:
        """The fully trained program is valid, and for no choice of the bits a row needs an absent one."""
        program = self.matched.program
        bits = claim.integers("bits", 0, len(program.layers))
        trained = len(set(bits)) == len(bits) and all(program.layers[layer].trainable for layer in bits)
        require(trained, "bits lists a layer twice, or one that is not trainable")
        require(not program.fragment, "the program is a fragment: what a freezing leaves of it is not known")
        # where transfers are inserted the waits are the same under every model
        self._check_valid(claim, "buffered" if program.inserted else read_model(claim))
        found = find_unmet_need(self.matched, bits)
        require(not found, f"under some choice of the bits a row is there and one it needs is not: {found}")
        return "the order holds for every choice of the bits"


def read_model(claim: Fields) -> str:
    model = claim.values.get("model")
    if type(model) is not str or model not in MODELS:
        raise Malformed("unknown model")
    return model


def _check_fault(matched: Matched, fault: Fields, model: str) -> str:
    """The kernel's own check of the rule finds an error with that code that touches these rows."""
    code, rows = fault.text("code"), set(fault.integers("rows", 0, len(matched.order.kind)))
    found = any(code == one and rows.issubset(touched) for one, touched in find_faults(matched, model))
    require(found, "the rule finds no such error")
    return f"{code} finds an error"


def _check_peaks(matched: Matched, claim: Fields) -> str:
    """The kernel's own count along the rows gives exactly these peaks."""
    require("model" not in claim.values or read_model(claim), "unknown model")
    peaks = claim.integers("peaks", 0, length=matched.program.ranks)
    require(peaks == find_peaks(matched), "the peaks are others")
    return "the count along the rows gives these peaks"


def _check_in_flight(matched: Matched, claim: Fields) -> str:
    """The kernel's own count of the live stashes gives exactly these numbers."""
    require("model" not in claim.values or read_model(claim), "unknown model")
    counts = claim.integers("counts", 0, length=matched.program.ranks)
    require(counts == count_in_flight(matched.placed), "the counts are others")
    return "the count along the rows gives these numbers in flight"
