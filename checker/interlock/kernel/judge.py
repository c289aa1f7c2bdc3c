"""The judge of certificates (spec/certificates.md). It trusts nothing but the plain program and its own code."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from .faults import faults
from .invariant import needs_something_absent
from .listing import view
from .memory import in_flight, peaks
from .waits import MODELS, covers, first_row, same, waits
from .wellformed import Malformed, View, integers, require

JUMPS = ("order", "block", "consume", "step")


@dataclass(frozen=True)
class Judgement:
    """Whether a claim is accepted, and in one sentence why or why not."""

    accepted: bool
    reason: str


def verify(document) -> list[Judgement]:
    """One judgement a claim of a certificate file; a file that is rejected as a whole has one judgement, and it is a rejection."""
    if type(document) is not dict or document.get("format") != "interlock.certificate/1":
        return [Judgement(False, "the file's format is not interlock.certificate/1")]
    claims = document.get("claims")
    if type(claims) is not list or not claims:
        return [Judgement(False, "the file makes no claims")]
    return judge_all(document.get("program"), claims)


def judge(program, claim) -> Judgement:
    """The judgement of one claim about a plain program."""
    return Judge(program).judge(claim)


def judge_all(program, claims: list) -> list[Judgement]:
    """One judgement a claim; the program is read once."""
    judge_of = Judge(program)
    return [judge_of.judge(claim) for claim in claims]


class Judge:
    """Judges claims about one plain program, any JSON at all. The program is read once, at the first claim."""

    def __init__(self, program):
        self.program = program

    def judge(self, claim) -> Judgement:
        """The judgement of one claim, any JSON at all."""
        v = self._reading
        return v if isinstance(v, Judgement) else _judge(v, claim)

    @cached_property
    def _reading(self) -> View | Judgement:
        """The program as read, or the rejection of every claim about it."""
        try:
            v = view(self.program)
        except Malformed as error:
            return Judgement(False, f"ill-formed program: {error}")
        v.clean = {}                              # model -> the first static fault, or None
        return v


def _judge(v: View, claim) -> Judgement:
    kind = claim.get("claim") if type(claim) is dict else None
    try:
        match kind:
            case "valid":
                return Judgement(True, _valid(v, claim, _model(claim)))
            case "invalid" if "walk" in claim and "fault" not in claim:
                return Judgement(True, _walk(v, claim["walk"], _model(claim)))
            case "invalid" if "fault" in claim and "walk" not in claim:
                return Judgement(True, _fault(v, claim["fault"], _model(claim)))
            case "invariant":
                return Judgement(True, _invariant(v, claim))
            case "peak":
                return Judgement(True, _peak(v, claim))
            case "in_flight":
                return Judgement(True, _in_flight(v, claim))
        return Judgement(False, "unknown claim")
    except Malformed as rejected:
        return Judgement(False, str(rejected))


def _model(claim: dict) -> str:
    model = claim.get("model")
    require(type(model) is str and model in MODELS, "unknown model")
    return model


def _valid(v: View, claim: dict, model: str) -> str:
    """No rule finds an error under the model, and every wait of its wait graph goes forward in time."""
    times = list(integers(claim.get("times"), None, None, "times", v.N))
    launches = claim.get("launches", {})
    require(type(launches) is dict and launches.keys() == {str(l) for l in v.groups}, "launches does not list the grouped launches")
    for l in v.groups:                            # in the order of the events N, N + 1, ..
        times += integers(launches[str(l)], None, None, "the times of a launch", 2)
    require(not v.inserted or not v.capacity or set(v.capacity) == {None},
            "the program has a capacity and its transfers are inserted: memory is judged with transfers written")
    if model not in v.clean:
        v.clean[model] = next(faults(v, model, timed=True), None)
    if v.clean[model]:
        code, rows = v.clean[model]
        raise Malformed(f"the program has an error {code}" + (f" at row {rows[0]}" if rows else ""))
    for a, b in same(v, model):
        if times[a] != times[b]:
            raise Malformed(f"rows {a} and {b} share an event and have two times")
    for a, name, b in waits(v, model):
        if times[a] >= times[b]:
            raise Malformed(f"the wait {_event(v, a)} -> {_event(v, b)} ({name}) does not go forward in time")
    return "no rule finds an error and every wait goes forward in time" + "; a fragment: what it lacks is not asked" * v.fragment


def _event(v: View, e: int) -> str:
    if e < v.N:
        return f"row {e}"
    return f"{('start', 'end')[(e - v.N) % 2]} of launch {list(v.groups)[(e - v.N) // 2]}"


def _read_event(v: View, event) -> int:
    require(type(event) is list and len(event) == 2 and type(event[1]) is int, "an event of the walk is not a pair of a word and a number")
    word, number = event
    if word == "op" and 0 <= number < v.N:
        return number
    require(word in ("start", "end") and number in v.groups, "an event of the walk does not exist")
    return v.N + 2 * v.groups[number] + (word == "end")


def _walk(v: View, walk, model: str) -> str:
    """A closed walk along waits, at least one of them not "same"."""
    require(type(walk) is list and walk, "the walk is empty")
    steps = []
    for step in walk:
        require(type(step) is list and len(step) == 3 and type(step[1]) is str, "a step of the walk is not an event, a reason and an event")
        steps.append((_read_event(v, step[0]), step[1], _read_event(v, step[2])))
    for (_, _, end), (begin, _, _) in zip(steps, steps[1:] + steps[:1]):
        require(end == begin, "a step of the walk does not begin where the one before it ends")
    require(any(name != "same" for _, name, _ in steps), "no step of the walk is a wait")
    if any(name == "same" for _, name, _ in steps):
        leader: dict = {}
        for a, b in same(v, model):
            leader[b] = leader[a] = a
        for a, name, b in steps:
            require(name != "same" or a != b and a in leader and leader[a] == leader.get(b), "two rows of the walk do not share an event")
    wanted = {step for step in steps if step[1] != "same"}
    sources = {a for a, _, _ in wanted}
    found, nearest = set(), {}                    # nearest[a, name, relation]: the first event waiting for a
    for a, name, b in waits(v, model):
        if a in sources:
            if (a, name, b) in wanted:
                found.add((a, name, b))
            if name in JUMPS:
                key = a, name, _relation(v, name, b)
                nearest[key] = min(b, nearest.get(key, b), key=lambda e: first_row(v, e))
    for a, name, b in wanted - found:
        near = nearest.get((a, name, _relation(v, name, b)))
        require(near is not None and covers(v, name, near, b), f"{_event(v, a)} has no such wait of the name {name[:20]!r}")
    return "every operation on the walk waits for itself"


def _relation(v: View, name: str, b: int) -> tuple | None:
    """What tells the waits of one name from one event apart: for consume the operation that waits."""
    return (v.kind[b], v.stage[b], v.mb[b], v.name[b]) if name == "consume" and b < v.N else None


def _fault(v: View, fault, model: str) -> str:
    """The kernel's own check of the rule finds an error with that code that touches these rows."""
    require(type(fault) is dict and type(fault.get("code")) is str, "the fault has no code")
    code, rows = fault["code"], set(integers(fault.get("rows"), 0, v.N, "the rows of the fault"))
    require(any(found == code and rows.issubset(touched) for found, touched in faults(v, model)), "the rule finds no such error")
    return f"{code} finds an error"


def _invariant(v: View, claim: dict) -> str:
    """The fully trained program is valid, and for every choice of the bits nothing present needs something absent."""
    bits = integers(claim.get("bits"), 0, len(v.trainable), "bits")
    require(len(set(bits)) == len(bits) and all(v.trainable[l] for l in bits), "bits lists a layer twice, or one that is not trainable")
    require(not v.fragment, "the program is a fragment: what a freezing leaves of it is not known")
    _valid(v, claim, "buffered" if v.inserted else _model(claim))          # inserted: the same under every model
    found = needs_something_absent(v, bits)
    require(found is None, f"under some choice of the bits a row is there and one it needs is not: {found}")
    return "the order holds for every choice of the bits"


def _peak(v: View, claim: dict) -> str:
    """The kernel's own count along the rows gives exactly these peaks."""
    claimed = integers(claim.get("peaks"), 0, None, "peaks", v.P)
    require(v.capacity is not None, "the program carries no memory")
    require(not v.inserted, "peaks are counted where transfers are written")
    require(claimed == peaks(v), "the peaks are others")
    return "the count along the rows gives these peaks"


def _in_flight(v: View, claim: dict) -> str:
    """The kernel's own count of the live stashes gives exactly these numbers."""
    claimed = integers(claim.get("counts"), 0, None, "counts", v.P)
    require(claimed == in_flight(v), "the counts are others")
    return "the count along the rows gives these numbers in flight"
