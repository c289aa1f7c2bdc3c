"""The group `mem` against rules/memory.py, the kernel, and enumeration of freezings."""

from collections.abc import Container
from dataclasses import replace
from itertools import combinations
from random import Random

import pytest

from agreement.generate import make_program, make_schedule
from agreement.mutants import make_sizes
from engine.programs import frozen_to, pipeline
from interlock.check.certificates import certificates
from interlock.check.files import check_file
from interlock.check.program import check_program
from interlock.check.verdict import Limits, Verdict
from interlock.engine import smt
from interlock.engine.smt import live
from interlock.engine.smt.live import Moment
from interlock.engine.smt.query import Sat, Unsat
from interlock.engine.smt.sizes import Bytes
from interlock.engine.smt.solvers import decide
from interlock.engine.smt.terms import sum_terms
from interlock.engine.smt.z3_solver import Session
from interlock.kernel import Judge
from interlock.kernel.memory import find_peaks
from interlock.load import Question
from interlock.program.facts import Facts
from interlock.program.ir import Memory, Program
from interlock.program.plain import plain_form
from interlock.program.transfers import insert
from interlock.rules import communication, dependency, footprint
from interlock.rules.usage import Usage


def give_sizes(program: Program, rng: Random, several: bool = True) -> Program:
    """`several`: microbatches have different numbers of images."""
    recompute = rng.random() < 0.5
    layers = tuple(make_sizes(layer, rng, until_weight=4, recompute=recompute) for layer in program.layers)
    images = tuple(rng.randint(0, 3) if several else 2 for _ in range(program.microbatches))
    memory = Memory((None,) * program.ranks, rng.choice(((1, 1), (1, 2))), (rng.randint(0, 3), 2))
    return replace(program, layers=layers, images=images, memory=memory)


def is_correct(program: Program) -> bool:
    facts = Facts(program)
    return not any(
        f.is_error
        for f in (
            *dependency.check(facts),
            *footprint.check(facts),
            *communication.check(facts, communication.Transfers(facts)),
        )
    )


def peaks(program: Program) -> list[int]:
    return Usage(Facts(program)).peaks


def test_ranks_over_their_limit_on_random_programs():
    asked = over = 0
    for seed in range(400):
        rng = Random(seed)
        program, _ = make_program(rng)
        if program.inserted or program.fragment or not is_correct(program):
            continue
        program = give_sizes(program, rng)
        found = peaks(program)
        assert found == find_peaks(Judge(plain_form(program)).matched)
        limits = [p - rng.choice((0, 0, 1)) for p in found]
        answer = smt.check_memory(program, limits=limits, second=seed % 5 == 0)
        expected = {r for r, (p, limit) in enumerate(zip(found, limits)) if p > limit}
        assert (set(answer.rows) if isinstance(answer, smt.Over) else set()) == expected, seed
        assert isinstance(answer, (smt.Fits, smt.Over))
        for rank, row in answer.rows.items() if expected else ():
            usage = Usage(Facts(program))
            assert (
                row < 0
                or program.rank_of(row) == rank
                and usage.static[rank] + usage.live[row] > limits[rank]
            )
        asked, over = asked + 1, over + bool(expected)
    assert asked > 60 and 20 < over < asked


def find_peaks_with(program: Program, property: str, layers: Container[int], value: int) -> list[int]:
    """The kernel's peaks where so many bytes are fixed of a property of each of the layers."""
    changed = list(program.layers)
    for l, layer in enumerate(program.layers):
        if l in layers:
            size = value if property == "weights" else replace(getattr(layer, property), fixed=value)
            changed[l] = replace(layer, **{property: size})
    return find_peaks(Judge(plain_form(replace(program, layers=tuple(changed)))).matched)


@pytest.mark.parametrize("property", ["activation", "until_weight", "output", "weights", "workspace"])
def test_the_largest_size_that_fits(property):
    """The kernel's peaks fit with it and not with one more byte, in those parameters that matter."""
    mattered = 0
    for seed in range(12):
        mattered += check_the_largest_size(property, seed)
    assert mattered or property == "until_weight"


def check_the_largest_size(property: str, seed: int) -> bool:
    """Whether there is one."""
    rng, layers = Random(seed), (0, 1, 2)
    program = give_sizes(insert(pipeline(2, 3, depth=2)), rng, several=bool(seed % 2))
    capacity = tuple(p + rng.randint(0, 30) for p in peaks(program))
    program = replace(program, memory=replace(program.memory, capacity=capacity))

    def fits(value: int) -> bool:
        found = find_peaks_with(program, property, layers, value)
        return all(peak <= limit for peak, limit in zip(found, capacity))

    parameter = smt.Parameter("x", property, layers)
    answer = smt.find_largest_size(program, parameter)
    if isinstance(answer, smt.Over):
        assert not fits(0), seed
        return False
    if answer.value is None:
        assert fits(10**9), seed
        return False
    assert fits(answer.value) and not fits(answer.value + 1), seed
    assert smt.check_memory(program, [parameter], {"x": (0, answer.value)}) == smt.Fits(1)
    over = smt.check_memory(program, [parameter], {"x": (0, answer.value + 1)})
    assert isinstance(over, smt.Over) and over.values == {"x": answer.value + 1}
    return True


def test_the_bound_of_a_parameter():
    program = give_sizes(insert(pipeline(2, 2)), Random(1))
    program = replace(program, memory=replace(program.memory, capacity=(10**6, None)))
    parameter = smt.Parameter("x", "activation", (0,))
    assert smt.find_largest_size(program, parameter, (0, 77)) == smt.Largest(77)
    with pytest.raises(ValueError, match="bounds of unknown parameters: y"):
        smt.check_memory(program, [parameter], {"y": (0, 1)})
    with pytest.raises(ValueError, match="there are weights"):
        smt.check_memory(program, [replace(parameter, property="time")])
    with pytest.raises(ValueError, match="insert them first"):
        smt.check_memory(pipeline(2, 2), limits=(1, 1))


def test_freezings_against_enumeration():
    """Limits near the peaks of the trained program: the smallest freezing over them; no peak rises."""
    failed = 0
    for seed in range(60):
        rng = Random(seed)
        program = give_sizes(make_schedule(rng), rng, several=seed % 3)
        if seed % 4 == 0:
            program = frozen_to(program, {i for i in range(len(program.layers)) if rng.random() < 0.3})
        trained = [i for i, l in enumerate(program.layers) if l.trainable]
        layers = rng.sample(trained, min(len(trained), 4))
        written = insert(program)
        most = peaks(written)
        limits = [p - rng.choice((0, 0, 1)) for p in most]
        least = None
        for number in range(len(layers) + 1):
            for frozen in combinations(layers, number):
                found = peaks(frozen_to(written, frozen))
                assert all(a <= b for a, b in zip(found, most)), seed
                if least is None and any(a > b for a, b in zip(found, limits)):
                    least = number
        answer = smt.check_freezings(program, layers, limits=limits)
        failed += least is not None
        if least is None:
            assert answer == smt.Holds(1), seed
        else:
            assert isinstance(answer, smt.Fails) and answer.code == "IL501" and len(answer.bits) == least, (
                seed
            )
    assert 10 < failed < 50


@pytest.mark.parametrize("extra", [{}, {"encoder": True}, {"encoder": True, "text_only": (1,)}, {"depth": 2}])
def test_no_freezing_raises_a_peak_whatever_the_sizes(extra):
    program = pipeline(2, 3, **extra)
    assert isinstance(decide(smt.build_peak_query(insert(program), range(len(program.layers)))), Unsat)


def add_to_bytes(patch: pytest.MonkeyPatch, term: str) -> None:
    """To every moment that is not of the fully trained program."""
    right = Bytes.sum_live

    def sum_more(self: Bytes, moment: Moment, trained: bool = False) -> str:
        return sum_terms((1, right(self, moment, trained)), (0 if trained else 1, term))

    patch.setattr(Bytes, "sum_live", sum_more)


def test_open_sizes_do_find_what_rises(monkeypatch):
    """A byte more as soon as anything is frozen, and the query is sat."""
    program = insert(pipeline(2, 2))
    with monkeypatch.context() as patch:
        add_to_bytes(patch, "(ite trainable.0 0 1)")
        assert isinstance(decide(smt.build_peak_query(program, [1])), Unsat)
    add_to_bytes(monkeypatch, "1")
    answer = smt.check_freezings(give_sizes(pipeline(2, 2), Random(0)), [0, 1])
    assert isinstance(answer, smt.Fails) and answer.code == "IL606" and answer.bits == ()


def test_groups_can_be_asked_apart():
    program = give_sizes(pipeline(2, 2), Random(0))
    session = Session(smt.build_invariance_query(program, [0, 1], limits=[0, 0]), 10_000)
    assert isinstance(session.check(["fails.mem"]), Sat)
    assert session.check(["fails.dep"]) == Unsat(("fails.dep",)) and session.check(["fails.foot"]) == Unsat(
        ("fails.foot",)
    )


def test_the_transfers_of_the_written_program_count():
    """Transfers put in after freezing may need more: what is asked is the program that derive restricts."""
    program = give_sizes(pipeline(3, 4, encoder=True), Random(3))
    written = insert(program)
    assert smt.check_freezings(program, range(4), written=written, limits=peaks(written)) == smt.Holds(1)
    assert isinstance(
        smt.check_freezings(program, range(4), written=written, limits=[p - 1 for p in peaks(written)]),
        smt.Fails,
    )


def test_the_check_asks_the_solvers_for_bytes(monkeypatch):
    program = give_sizes(insert(pipeline(2, 3)), Random(2))
    found = peaks(program)
    fine = replace(program, memory=replace(program.memory, capacity=tuple(found)))
    over = replace(program, memory=replace(program.memory, capacity=(found[0] - 1, None)))
    for engine in ("smt", "both"):
        assert check_program(fine, engine=engine)[0].verdict is Verdict.VALID
        assert {f.code for f in check_program(over, engine=engine)[0].errors} == {"IL501"}
        assert {
            f.code
            for f in check_program(fine, engine=engine, limits=Limits(peak=(None, found[1] - 1)))[0].errors
        } == {"IL701"}
    monkeypatch.setattr(live, "MAX_ROWS", 3)
    answer = check_program(fine, engine="smt")[0]
    assert answer.verdict is Verdict.UNKNOWN and "put to a solver" in answer.reason


def test_limits_are_unknown_with_a_reason(monkeypatch):
    program = give_sizes(pipeline(2, 3), Random(2))
    for limit, value in (("MAX_ROWS", 3), ("MAX_CELLS", 3), ("MAX_MOMENTS", 1)):
        with monkeypatch.context() as patch:
            patch.setattr(live, limit, value)
            for answer in (
                smt.check_memory(insert(program), limits=[1, 1]),
                smt.check_freezings(program, [0]),
                smt.find_largest_size(insert(program), smt.Parameter("x", "output", (0,)), limits=[99, 99]),
            ):
                assert isinstance(answer, smt.Unknown) and (
                    "put to a solver" in answer.reason or "too many to compare" in answer.reason
                )
    assert isinstance(smt.check_memory(insert(program), limits=[1, 1], timeout_ms=0), smt.Unknown)


def test_the_query_does_not_grow_with_microbatches():
    small, large = (
        smt.build_memory_query(
            give_sizes(insert(pipeline(4, m)), Random(1), several=False), limits=[1] * 4
        ).groups
        for m in (16, 400)
    )
    assert {g: len(t) for g, t in small.items()} == {g: len(t) for g, t in large.items()}


SCHED = """schedule vlm {
  ranks 2
  microbatches 3
  model {
    layers vit[2] { activation 1MiB  output 1MiB  weights 3MiB  frozen }
    layers llm[4] { activation 3MiB  until_weight 1MiB  output 1MiB  weights 10MiB }
  }
  cut {
    encoder  = vit : transpose
    backbone = llm : 1f1b
  }
  memory { capacity CAPACITY  optimizer 1.5 per weight byte }
  for any freezing of vit, llm
}
"""


def checked(capacity: str, engine="graph"):
    return (
        check_file("a.sched", SCHED.replace("CAPACITY", capacity).encode(), Question(engine=engine))
        .checked[0]
        .answers[0]
    )


@pytest.mark.parametrize("engine", ["graph", "smt", "both"])
def test_for_any_freezing_rests_on_the_query(monkeypatch, engine):
    """As declared, with the encoder frozen, rank 0 needs 91 MiB; with it trained 110 MiB."""
    fits = checked("1GiB", engine)
    note = next(f for f in fits.findings if f.code == "IL607")
    assert fits.verdict is Verdict.VALID and note.message.endswith(
        "all 2^6 choices in one query, memory included"
    )
    trained = max(c["peaks"][0] for d in certificates(fits) for c in d["claims"] if c["claim"] == "peak")
    declared = min(c["peaks"][0] for d in certificates(fits) for c in d["claims"] if c["claim"] == "peak")
    assert declared < trained
    assert checked(f"{trained}B", engine).verdict is Verdict.VALID
    over = checked(f"{trained - 1}B", engine)
    assert over.verdict is Verdict.INVALID and {f.code for f in over.errors} == {"IL501", "IL606"}
    assert "with none of them frozen" in over.errors[0].message
    monkeypatch.setattr(live, "MAX_MOMENTS", 1)
    answer = checked("1GiB", engine)
    assert answer.verdict is Verdict.UNKNOWN and "put to a solver" in answer.reason


def test_a_query_that_fails_is_never_valid(monkeypatch):
    add_to_bytes(monkeypatch, "1")
    answer = checked("1GiB")
    assert answer.verdict is Verdict.INVALID and {f.code for f in answer.errors} == {"IL606"}
    assert "than with all of them trained" in answer.errors[0].message


def test_eight_groups_at_ten_thousand_operations():
    program = give_sizes(pipeline(8, 150, encoder=True), Random(1))
    assert len(insert(program).order) > 9_000
    assert smt.check_freezings(program, range(8)) == smt.Holds(1)
