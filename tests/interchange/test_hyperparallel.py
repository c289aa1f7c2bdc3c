"""HyperParallel step lists: every golden order is read and valid, the mapping step by step, every error with
its place.
"""

import json
from collections import Counter

import pytest

from command import interlock
from interlock.check.program import check_program
from interlock.check.verdict import Verdict
from interlock.interchange.hyperparallel import read
from interlock.interchange.importer import StepOptions
from interlock.language.unparse import to_sched
from interlock.program.kinds import COMPUTE, Kind
from interlock.rules.waits import MODELS
from interlock.text.source import Sources
from work import grows_linearly

from .. import hyperparallel as golden
from .reading import VALID, refused, verdicts


def as_text(ranks) -> str:
    return json.dumps({str(r): steps for r, steps in enumerate(ranks)})


def imported(ranks, **options):
    return read(Sources().add("orders.json", as_text(ranks)), StepOptions(**options))


def rows(ranks, **options) -> list[list[str]]:
    p = imported(ranks, **options).program
    start = p.order.start
    return [[p.show(i) for i in range(start[r], start[r + 1])] for r in range(p.ranks)]


# -- the golden orders
# ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chosen(pytestconfig) -> list[dict]:
    """Every 23rd golden order, with `--thorough` all of them."""
    return golden.cases() if pytestconfig.getoption("--thorough") else golden.cases()[::23]


def test_golden_orders_are_valid_under_every_model(chosen, pytestconfig):
    """HyperParallel's transfers are plain, one queue a pair of ranks; replayed with rendezvous, buffered and
    batched transfers nothing blocks. Here each is valid even
    under `rank` and `blocking`. The lists of one rank with V > 1 are among them: their stages hand over on
    the rank, which HyperParallel's runtime itself cannot do.
    """
    counts = Counter()
    for case in chosen:
        program = imported(golden.steps(case)).program
        mpipe = case["kind"] == "mpipe" and case["mode"] != "dataonly"
        assert (program.ranks, program.microbatches, len(program.stages)) == (
            case["P"],
            case["M"],
            case["P"] * case["V"] + mpipe,
        ), golden.shown(case)
        assert [s.rank for s in program.stages[mpipe:]] == [
            s % case["P"] for s in range(case["P"] * case["V"])
        ]
        assert (
            not mpipe
            or list(program.stages[0].owner) == case["owner"]
            and program.layers[0].trainable == (case["mode"] == "owner")
        )
        for answer in check_program(program, MODELS):
            assert answer.verdict is Verdict.VALID, (
                golden.shown(case),
                answer.model,
                [f.message for f in answer.errors],
            )
            counts[case["kind"]] += 1
    assert all(counts.values()) and sum(counts.values()) == 5 * len(chosen)
    assert len(chosen) == (3064 if pytestconfig.getoption("--thorough") else 134)


def test_data_steps_change_nothing(chosen):
    def key(c):
        return golden.shown({**c, "data": None})

    without = {key(c): c for c in golden.cases() if not c["data"]}
    for case in (c for c in chosen if c["data"]):
        assert rows(golden.steps(case)) == rows(golden.steps(without[key(case)])), golden.shown(case)


def test_what_is_written_out_is_the_program_again(chosen):
    for case in chosen[::9]:
        found = imported(golden.steps(case))
        text = to_sched(found.program, "a", comments=found.comments)
        assert verdicts(text) == VALID, golden.shown(case)


# -- step by step
# --------------------------------------------------------------------------------------------------------


def case(**wanted) -> list[list[str]]:
    return next(golden.steps(c) for c in golden.cases() if all(c.get(k) == v for k, v in wanted.items()))


MPIPE = dict(kind="mpipe", P=2, M=3, V=1, less_memory=False, overflow="full", data=True)


def test_a_frozen_encoder():
    found = imported(case(**MPIPE, mode="frozen"))
    p = found.program
    first, second = rows(case(**MPIPE, mode="frozen"))
    assert first[:4] == ["0F0", "0F2", "1RECV_F1", "1F0"] and second[:5] == [
        "0F1",
        "0SEND_F1",
        "2RECV_F0",
        "2F0",
        "2RECV_F1",
    ]
    assert (
        not p.layers[0].trainable and p.reductions_inserted and not p.inserted and len(p.communicators) == 1
    )
    assert len(found.comments) == 1


def test_an_encoder_trained_on_its_owners():
    found = imported(case(**MPIPE, mode="owner"))
    first, second = rows(case(**MPIPE, mode="owner"))
    assert first[0] == "coll(replicas, params)"
    assert first[1:] == [
        "0F0",
        "0F2",
        "1RECV_F1",
        "1F0",
        "1SEND_F0",
        "1F1",
        "1SEND_F1",
        "1RECV_B0",
        "1F2",
        "1SEND_F2",
        "1B0",
        "0B0",
        "1RECV_B1",
        "1B1",
        "1RECV_B2",
        "1B2",
        "0B2",
        "1SEND_B1",
        "1REDUCE",
        "0REDUCE",
    ]
    assert second[-4:] == ["0RECV_B1", "0B1", "2REDUCE", "0REDUCE"]
    assert found.program.layers[0].trainable and not found.program.reductions_inserted


def test_an_encoder_trained_on_the_first_rank():
    found = imported(case(**MPIPE, mode="central"))
    first, second = rows(case(**MPIPE, mode="central"))
    assert first[:6] == ["coll(replicas, params)", "0F0", "0F2", "1RECV_F1", "recv(1, graph1)", "1F0"]
    assert first[first.index("1B1") + 1] == "wait(graph1)" and first.count("wait(graph1)") == 1
    assert second[:4] == ["coll(replicas, params)", "0F1", "0SEND_F1", "send(0, graph1)"]
    assert not found.program.layers[0].trainable and len(found.comments) == 2


def test_composites_and_halves():
    found = imported(
        [
            [
                ["BATCH_SEND_RECV", "FWD_RECV 0 0"],
                "-",
                None,
                "FWD 0 0",
                "FWD 1 0",
                ["OVERLAP_F_B", "FWD 2 0", "BWD_INPUT 0 0"],
                "BWD_WEIGHT 0 0",
                ["BATCH_SEND_RECV", "FWD_SEND 1 0", "DATA_SEND 1 0", "BWD_RECV 1 0"],
                ["OVERLAP_B_F", "BWD 1 0", "FWD 3 0"],
                "FSDP_UNSHARD - 0",
                "FSDP_RESHARD 3 0",
                "FSDP_REDUCE_GRAD - 0",
                "SWAP_WAIT_LOAD 0 0",
            ]
        ]
    )
    p = found.program
    assert [p.show(i) for i in range(len(p.order))] == [
        "0RECV_F0",
        "0F0",
        "0F1",
        "0F2",
        "0I0",
        "0W0",
        "0SEND_F1",
        "0RECV_B1",
        "0B1",
        "0F3",
        "0UNSHARD",
        "0RESHARD",
        "0REDUCE",
    ]
    assert p.order.launch.tolist() == [-1, -1, -1, 0, 0, -1, 1, 1, 2, 2, -1, -1, -1]
    assert (
        not p.reductions_inserted
        and "overlap(0F2 0I0)" in to_sched(p, "a")
        and "{ 0SEND_F1 0RECV_B1 }" in to_sched(p, "a")
    )


def test_without_transfers_they_are_inserted():
    p = imported([["FWD 0 0", "BWD 0 0"], ["FWD 0 1", "BWD 0 1"]]).program
    assert (
        p.inserted
        and p.reductions_inserted
        and all(a.verdict is Verdict.VALID for a in check_program(p, MODELS))
    )


def test_a_placement_and_a_number_of_microbatches_may_be_declared():
    steps = [["FWD 0 0", "FWD 0 3", "BWD 0 3", "BWD 0 0"], ["FWD 0 1", "FWD 0 2", "BWD 0 2", "BWD 0 1"]]
    assert (
        [s.rank for s in imported(steps).program.stages]
        == [s.rank for s in imported(steps, placement="vee").program.stages]
        == [0, 1, 1, 0]
    )
    assert imported(steps, microbatches=4).program.microbatches == 4
    assert [s.rank for s in imported(case(**MPIPE, mode="frozen"), placement=(1, 0)).program.stages] == [
        None,
        1,
        0,
    ]
    assert refused(read, as_text(case(**MPIPE, mode="frozen")), StepOptions("loop"))[0] == "IL113"


def test_every_row_has_its_place():
    text = as_text(case(**MPIPE, mode="owner"))
    sources = Sources()
    sources.add("before", "x" * 17)
    source = sources.add("orders.json", text)
    o = read(source).program.order
    for row in range(len(o)):
        shown = text[o.at[row] - source.base :][: o.width[row]] if o.at[row] >= 0 else ""
        assert o.kind[row] == Kind.REDUCE or shown.startswith('"') and shown.endswith('"')
        assert o.kind[row] not in COMPUTE or any(word in shown for word in ("FWD", "BWD", "BACKWARD"))


# -- errors
# --------------------------------------------------------------------------------------------------------------

ONE = '{"0": [%s]}'
ERRORS = {
    "[]": ("IL112", "[]", "an object of ranks"),
    "{}": ("IL106", "{}", "no rank"),
    '{"0": []}': ("IL106", "", "no forward"),
    '{"a": []}': ("IL112", "[]", "`a` is no rank"),
    '{"1": []}': ("IL112", '{"1": []}', "rank 0 has no list"),
    '{"0": 3}': ("IL112", "3", "a list of steps"),
    ONE % "3": ("IL112", "3", "a step"),
    ONE % '"FWD 0"': ("IL112", '"FWD 0"', "not a step"),
    ONE % '"FWD  0 0"': ("IL112", '"FWD  0 0"', "not a step"),
    ONE % '"BWDX 0 0"': ("IL112", '"BWDX 0 0"', "`BWD` was meant"),
    ONE % '"FWD 00 0"': ("IL112", '"FWD 00 0"', "not a step"),
    ONE % '"FWD - 0"': ("IL112", '"FWD - 0"', "no microbatch"),
    ONE % '"FWD 0 -1"': ("IL112", '"FWD 0 -1"', "no stage"),
    ONE % '"FWD 99999999 0"': ("IL104", '"FWD 99999999 0"', "10,000,000"),
    ONE % '"FWD 0 200000"': ("IL204", '"FWD 0 200000"', "stages 0 to"),
    ONE % '"OVERLAP_F_B - -"': ("IL112", '"OVERLAP_F_B - -"', "no steps of its own"),
    ONE % "[]": ("IL112", "[]", "begins with nothing"),
    ONE % '["FWD 0 0"]': ("IL112", '["FWD 0 0"]', "is no step"),
    ONE % '["OVERLAP_F_B", "BWD 0 0", "FWD 1 0"]': (
        "IL112",
        '["OVERLAP_F_B", "BWD 0 0", "FWD 1 0"]',
        "in this order",
    ),
    ONE % '["BATCH_SEND_RECV", "FWD 0 0"]': ("IL112", '"FWD 0 0"', "is none"),
    ONE % '["BATCH_SEND_RECV"]': ("IL112", '["BATCH_SEND_RECV"]', "empty"),
    ONE % '"MPIPE_TRANSPOSE_FWD 0 0"': ("IL112", '"MPIPE_TRANSPOSE_FWD 0 0"', "stage -1"),
    ONE % '"MPIPE_GRAD_SEND 0 1"': ("IL112", '"MPIPE_GRAD_SEND 0 1"', "stage 0"),
    ONE % '"MPIPE_GRAD_SEND 0 0", "FWD 0 0"': ("IL113", '"MPIPE_GRAD_SEND 0 0"', "without an encoder"),
    ONE % '"MPIPE_TRANSPOSE_FWD 1 -1", "FWD 0 0", "FWD 1 0"': (
        "IL113",
        '"MPIPE_TRANSPOSE_FWD 1 -1"',
        "no rank encodes microbatch 0",
    ),
    ONE % '"MPIPE_TRANSPOSE_FWD 0 -1", "FWD 0 0", "FWD 1 0"': ("IL113", "", "no rank encodes microbatch 1"),
    ONE % '"MPIPE_TRANSPOSE_FWD 0 -1", "FWD 0 0", "MPIPE_TRANSPOSE_BWD 0 -1", "BWD 0 0"': (
        "IL113",
        '"MPIPE_TRANSPOSE_BWD 0 -1"',
        "before its gradient",
    ),
    ONE
    % '"MPIPE_TRANSPOSE_FWD 0 -1", "FWD 0 0", "BWD 0 0", "MPIPE_TRANSPOSE_BWD 0 -1", "MPIPE_TRANSPOSE_BWD 0 '
    '-1"': (
        "IL113",
        '"MPIPE_TRANSPOSE_BWD 0 -1"',
        "twice",
    ),
    ONE
    % '"MPIPE_TRANSPOSE_FWD 0 -1", "FWD 0 0", "BWD 0 0", "MPIPE_TRANSPOSE_BWD 0 -1", "MPIPE_GRAD_REDUCE - '
    '0"': (
        "IL113",
        '"MPIPE_TRANSPOSE_BWD 0 -1"',
        "both recomputed",
    ),
    ONE % '"MPIPE_TRANSPOSE_FWD 0 -1", "MPIPE_GRAPH_RECV 0 -1", "FWD 0 0", "BWD 0 0"': (
        "IL113",
        '"BWD 0 0"',
        "is missing",
    ),
    '{"0": ["MPIPE_TRANSPOSE_FWD 0 -1", "FWD 0 0", "BWD 0 0"], "1": ["MPIPE_TRANSPOSE_BWD 0 -1"]}': (
        "IL113",
        '"MPIPE_TRANSPOSE_BWD 0 -1"',
        "on rank 1",
    ),
}


@pytest.mark.parametrize("text", ERRORS)
def test_errors(text):
    code, at, says = ERRORS[text]
    found = refused(read, text)
    assert found[:2] == (code, at) and says in found[2], found


def test_the_work_grows_with_the_file(pytestconfig):
    def read_microbatches(M: int):
        text = as_text([[f"{kind} {m} {r}" for m in range(M) for kind in ("FWD", "BWD")] for r in range(2)])
        assert len(read(Sources().add("x", text)).program.order) == 4 * M

    read_microbatches(50_000 if pytestconfig.getoption("--thorough") else 5_000)
    assert grows_linearly(read_microbatches, 500)


def test_the_command(tmp_path):
    (tmp_path / "orders.json").write_text(as_text(case(**MPIPE, mode="owner")))
    done = interlock("import", "orders.json", "--from", "hyperparallel", "-o", "a.sched", cwd=tmp_path)
    assert (done.code, done.text) == (0, "")
    assert interlock("check", "a.sched", "--comm", "all", cwd=tmp_path).code == 0
    text = (tmp_path / "a.sched").read_text()
    assert (
        text.startswith("# Stage 0 is the transposed encoder")
        and max(map(len, text.splitlines())) <= 100
        and "schedule orders {" in text
    )
    (tmp_path / "orders.json").write_text('{"0": ["FWD 0 0", "BWDX 0 0"]}')
    done = interlock("import", "orders.json", "--from", "hyperparallel", cwd=tmp_path)
    assert done.code == 2 and " --> orders.json:1:19" in done.err
