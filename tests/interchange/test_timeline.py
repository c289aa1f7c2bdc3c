"""Measured timelines: what is written is what is read; what is no timeline is refused at its place."""

import json
import random

import numpy as np
import pytest

from interchange.reading import refused
from interlock.interchange.plan import describe_difference
from interlock.interchange.timeline import dumps, read
from interlock.load import load
from interlock.text.source import Sources
from interlock.timing.timeline import Timeline
from report_timeline.scenes import REGIONS, SPLIT, STUCK, pipeline, ran, subject

SMALL = ran(pipeline())


def back(text: str):
    return read(Sources().add("run.json", text))


@pytest.mark.parametrize(
    "text",
    [
        pipeline(),
        REGIONS,
        SPLIT.replace("SKELETON", "dualpipev"),
        pipeline(ranks=4, skeleton="interleaved(chunks: 2)"),
        STUCK,
    ],
)
def test_what_is_written_is_read(text):
    file = ran(text, "pair")
    found = back(file)
    assert dumps(found.name, found.timeline) == file and json.loads(file)["format"] == "interlock.timeline/1"
    program = subject(text, models=("pair",)).program
    assert describe_difference(program, found.timeline.program) == ""
    assert found.timeline.makespan == json.loads(file)["makespan"] > 0


def test_every_kind_of_operation_is_read():
    """Names as Program.show writes them: what an operation of each kind says comes back."""
    from interlock.program.build import OrderBuilder
    from interlock.program.ir import Communicator, Kind, Layer, Program, Stage, Tie

    b = OrderBuilder()
    launch = b.new_launch()
    for kind in Kind:
        match kind:
            case Kind.SEND | Kind.RECV:
                b.op(kind, peer=1, name=0, comm=1)
            case Kind.WAIT | Kind.FREE | Kind.REDUCE_DATA:
                b.op(kind, name=1)
            case Kind.COLL:
                b.op(kind, name=0, comm=1)
            case Kind.REDUCE_TIE:
                b.op(kind, name=2, comm=1)
            case Kind.INIT:
                b.op(kind, comm=1)
            case Kind.ZERO | Kind.STEP:
                b.op(kind)
            case Kind.REDUCE | Kind.UNSHARD | Kind.RESHARD:
                b.op(kind, 0)
            case Kind.SEND_F | Kind.RECV_F:
                b.op(kind, 0, 1, comm=1, launch=launch)
            case _:
                b.op(kind, 0, 1)
    b.end_rank()
    b.end_rank()
    program = Program(
        2,
        2,
        (Layer("a"), Layer("b")),
        (Stage("x", 0, 1, 0), Stage("x", 1, 2, 1)),
        b.build(),
        names=("a, b", "b0", "t"),
        communicators=(Communicator("default", (0, 1)), Communicator("side", (1, 0))),
        ties=(Tie("t", (0, 1), 1),),
    )
    time = np.arange(len(program.order)) * 10
    found = back(dumps("all", Timeline(program, "edge", time, time + 10)))
    assert (
        describe_difference(program, found.timeline.program) == ""
        and (found.timeline.start == time).all()
        and found.timeline.model == "edge"
    )


def cut(old: str, new: str, count: int = 1) -> str:
    assert old in SMALL, old
    return SMALL.replace(old, new, count)


WRONG = [
    ("[1, 2]", "IL112", "[1, 2]", "expected a timeline"),
    ("{}", "IL112", "{", "has no `format`"),
    (
        cut("timeline/1", "timeline/9"),
        "IL112",
        '"interlock.timeline/9"',
        "this version reads `interlock.timeline/1`",
    ),
    (cut('"model": "pair"', '"model": "fast"'), "IL112", '"fast"', "there is no communication model"),
    (SMALL.replace('"ranks":2,"micro', '"ranks":3,"micro'), "IL112", None, "this is no program"),
    (cut('"microbatches":4', '"microbatches":"4"'), "IL112", None, "microbatches is not an integer"),
    (cut('"fragment":false', '"fragment":0'), "IL112", None, "fragment is not true or false"),
    (cut('"rank":1}', '"rank":7}'), "IL112", None, "a stage's rank is not an integer in range"),
    (cut('["0F0",3,', '["0X0",3,'), "IL112", '"0X0"', "no operation of this program"),
    (cut('["0F0",3,', '["0F",3,'), "IL112", '"0F"', "no operation of this program"),
    (
        cut('["0F0",3,', '["send(1, nothing)",3,'),
        "IL112",
        '"send(1, nothing)"',
        "no operation of this program",
    ),
    (cut('["0F0",3,', '["0F0@side",3,'), "IL112", '"0F0@side"', "no operation of this program"),
    (cut('["0F0",3,', '["0F0",3.5,'), "IL112", "3.5", "expected nanoseconds"),
    (cut('["0F0",3,', '["0F0",null,'), "IL112", "null", "expected nanoseconds"),
    (cut('["0F0",3,', '["0F0",true,'), "IL112", "true", "expected nanoseconds"),
    (cut('["0F0",3,', '["0F0",-3,'), "IL113", "-3", "a time that no step has"),
    (cut('["0F0",3,', '["0F0",99999999999999999999,'), "IL113", None, "before it starts"),
    (cut('["0F0",3,', '["0F0",'), "IL112", None, "expected an operation"),
    (SMALL[: SMALL.rindex("],") + 2], "IL112", None, "the file ends where"),
    (
        '{"format": ' + '"interlock.timeline/1", "name": "a", "model": "pair", "program": [], "ranks": []}',
        "IL112",
        "[]",
        "expected the program of a plan",
    ),
    (
        '{"format": "interlock.timeline/1", "name": "a", "model": "pair", "program": {}, "ranks": []}',
        "IL112",
        "{}",
        "the program has no field",
    ),
]


@pytest.mark.parametrize("text, code, place, message", WRONG)
def test_what_is_no_timeline_is_refused_at_its_place(text, code, place, message):
    found, at, said = refused(read, text)
    assert found == code and message in said and (place is None or at == place)


def test_a_list_too_few_is_told():
    value = json.loads(SMALL)
    value["ranks"].append([])
    assert (
        refused(read, json.dumps(value))[:1] == ("IL113",)
        and "3 lists of operations for 2 ranks" in refused(read, json.dumps(value))[2]
    )


def test_a_rank_computes_one_thing_at_a_time():
    value = json.loads(SMALL)
    rows = {row[0]: row for row in value["ranks"][0]}
    rows["0F1"][1] = rows["0F0"][2] - 1
    code, at, said = refused(read, json.dumps(value))
    assert code == "IL113" and '"0F1"' in at and "0F0 and 0F1 at the same time" in said


def test_halves_of_an_overlap_share_their_time():
    value = json.loads(ran(SPLIT.replace("SKELETON", "dualpipev")))
    rank = value["ranks"][0]
    i = next(
        i
        for i, row in enumerate(rank)
        if len(row) == 4 and row[0].find("SEND") < 0 and row[0].find("RECV") < 0
    )
    rank[i][2] -= 5
    found = back(json.dumps(value)).timeline
    assert found.end[i] == found.end[i + 1] == rank[i + 1][2]


@pytest.mark.parametrize("seed", range(3))
def test_torn_and_changed_files_raise_nothing_else(seed):
    """Random edits of a good file: read, or refused with one error."""
    pick = random.Random(seed)
    seen = set()
    for _ in range(60):
        text = SMALL
        for _ in range(pick.randint(1, 3)):
            i = pick.randrange(len(text))
            text = (
                text[:i]
                + pick.choice(['"', "[", "]", "{", "null", "-1", "9" * 12, ",", "true", "F", ""])
                + text[i + pick.randint(0, 4) :]
            )
        found = load("run.json", text.encode())
        assert found.cases or (found.errors and all(f.message and f.help for f in found.errors))
        seen.add(found.errors[0].code if found.errors else "read")
    assert "IL112" in seen
