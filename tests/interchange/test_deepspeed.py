"""DeepSpeed instruction lists: its training schedule in both forms, buffers that are filled too early, every
error with its place.
"""

import json
from pathlib import Path

import pytest

from command import interlock
from interlock.interchange.deepspeed import read
from interlock.language.unparse import to_sched
from interlock.program.ir import Kind
from interlock.text.finding import InputError
from interlock.text.source import Sources

from .reading import VALID, refused, verdicts

CLASHES = next(
    c["table"]
    for c in json.loads((Path(__file__).parents[1] / "data" / "cases.json").read_text())["cases"]
    if c["id"] == "slot-reused"
)


def train(
    stages: int, microbatches: int, stage: int, buffers: int = 0, receive_first: bool = False
) -> list[list[str]]:
    """The instructions of a stage, step by step: forwards on every second step, transfers of the step before.
    `buffers` 0: by microbatch.
    """

    def name(m):
        return f"(buffer_id={m % buffers})" if buffers else f"(micro_batch_id={m})"

    def there(m):
        return 0 <= m < microbatches

    before, out = -1, []
    for step in range(2 * (microbatches + stages - 1)):
        forward = step % 2 == stage % 2
        m = (step - stage) // 2 if forward else (step + stage + 1) // 2 - stages
        first, last = stage == 0, stage == stages - 1
        receive = (
            [("RecvActivation" if forward else "RecvGrad") + name(m)]
            if there(m) and not (first if forward else last)
            else []
        )
        send = (
            [("SendGrad" if forward else "SendActivation") + name(before)]
            if there(before) and not (first if forward else last)
            else []
        )
        commands = receive + send if forward == receive_first else send + receive
        if (first or last) and forward and there(m):
            commands.append("LoadMicroBatch" + name(m))
        if there(m):
            commands.append(("ForwardPass" if forward else "BackwardPass") + name(m))
        out.append(commands)
        before = m
    return [*out[:-1], [*out[-1], "ReduceTiedGrads()", "ReduceGrads()", "OptimizerStep()"]]


def schedule(
    stages: int, microbatches: int, slots=lambda S, s: S - s, receive_first=False, by_buffer=True
) -> str:
    return json.dumps(
        [
            train(
                stages,
                microbatches,
                s,
                max(2, min(slots(stages, s), microbatches)) if by_buffer else 0,
                receive_first,
            )
            for s in range(stages)
        ]
    )


def program(text):
    return read(Sources().add("steps.json", text)).program


@pytest.mark.parametrize(("stages", "microbatches"), [(1, 3), (2, 4), (3, 5), (4, 8), (4, 2), (8, 16)])
def test_the_training_schedule_is_valid_even_with_blocking_transfers(stages, microbatches):
    found = read(Sources().add("steps.json", schedule(stages, microbatches)))
    assert verdicts(to_sched(found.program, "a", comments=found.comments)) == VALID
    p = found.program
    assert (p.ranks, p.microbatches, [s.rank for s in p.stages]) == (
        stages,
        microbatches,
        list(range(stages)),
    )
    assert (
        p.reductions_inserted is False
        and p.order.kind[-1] == Kind.STEP
        and "ReduceTiedGrads" in found.comments[0]
    )
    other = program(schedule(stages, microbatches, by_buffer=False))
    assert [p.show(i) for i in range(len(p.order))] == [other.show(i) for i in range(len(other.order))]


@pytest.mark.parametrize(
    ("stages", "microbatches", "clashes"), [(4, 8, 11), (8, 16, 69), (4, 4, 3), (3, 5, 3), (2, 4, 0)]
)
def test_buffers_received_into_before_their_gradient_is_sent(stages, microbatches, clashes):
    """DeepSpeed #2862, the table of tests/data/cases.json: with exact slots the old order loses gradients,
    the new one none; with one slot more neither does.
    """
    assert f"({stages},{microbatches}) {clashes}" in CLASHES
    assert len(program(schedule(stages, microbatches)).order)
    assert len(program(schedule(stages, microbatches, lambda S, s: S - s + 1, receive_first=True)).order)
    old = schedule(stages, microbatches, receive_first=True)
    if not clashes:
        assert len(program(old).order)
        return
    with pytest.raises(InputError) as caught:
        program(old)
    found = caught.value.findings
    assert (
        {d.code for d in found} == {"IL113"}
        and len(found) == min(clashes, 20)
        and found[-1].detail == (f"{clashes} instructions of this file fill a buffer that is in use",)
    )
    assert (
        "`RecvActivation` fills buffer 0 of rank 1, which still holds microbatch 0: its gradient is not sent"
        in found[0].message
    )


def test_flat_lists_and_bare_names():
    p = program(
        '[["LoadMicroBatch(buffer_id = 0)", "ForwardPass(buffer_id=0)", "BackwardPass(buffer_id=0)", '
        '"ReduceGrads", "OptimizerStep"]]'
    )
    assert [p.show(i) for i in range(len(p.order))] == ["0F0", "0B0", "0REDUCE", "STEP"] and p.inserted


ERRORS = {
    "{}": ("IL112", "{}", "a list of instructions"),
    "[]": ("IL106", "[]", "no rank"),
    "[[]]": ("IL106", "", "no forward"),
    "[3]": ("IL112", "3", "a list of instructions"),
    "[[3]]": ("IL112", "3", "an instruction"),
    '[["ForwardPas(buffer_id=0)"]]': ("IL112", '"ForwardPas(buffer_id=0)"', "`ForwardPass` was meant"),
    '[["ForwardPass"]]': ("IL112", '"ForwardPass"', "neither a buffer"),
    '[["ForwardPass(0)"]]': ("IL112", '"ForwardPass(0)"', "no instruction"),
    '[["OptimizerStep(buffer_id=0)"]]': ("IL112", '"OptimizerStep(buffer_id=0)"', "no microbatch"),
    '[["ForwardPass(buffer_id=0)", "BackwardPass(micro_batch_id=0)"]]': (
        "IL112",
        '"BackwardPass(micro_batch_id=0)"',
        "one instruction gives",
    ),
    '[["ForwardPass(buffer_id=0)", "BackwardPass(buffer_id=0)"]]': (
        "IL113",
        '"ForwardPass(buffer_id=0)"',
        "holds nothing",
    ),
    '[["LoadMicroBatch(buffer_id=0)", "ForwardPass(buffer_id=0)"]]': (
        "IL113",
        '"ForwardPass(buffer_id=0)"',
        "inference",
    ),
    '[["ForwardPass(micro_batch_id=99999999)", "BackwardPass(micro_batch_id=0)"]]': (
        "IL104",
        '"ForwardPass(micro_batch_id=99999999)"',
        "10,000,000",
    ),
}


@pytest.mark.parametrize("text", ERRORS)
def test_errors(text):
    code, at, says = ERRORS[text]
    found = refused(read, text)
    assert found[:2] == (code, at) and says in found[2], found


def test_the_command(tmp_path):
    (tmp_path / "steps.json").write_text(schedule(3, 5))
    assert interlock("import", "steps.json", "--from", "deepspeed", "-o", "a.sched", cwd=tmp_path).code == 0
    assert interlock("check", "a.sched", cwd=tmp_path).code == 0
    (tmp_path / "steps.json").write_text(schedule(4, 8, receive_first=True))
    done = interlock("import", "steps.json", "--from", "deepspeed", cwd=tmp_path)
    assert done.code == 2 and done.err.count("error[IL113]") == 11 and not done.out
