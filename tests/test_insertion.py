"""Transfers and reductions that the algebra puts in, where there is little or something odd to put in: idle
ranks, short paths, ties.
"""

from __future__ import annotations

import pytest

from interlock.check.program import check_program
from interlock.check.subject import write_transfers
from interlock.check.verdict import Verdict
from interlock.program.facts import Facts
from interlock.rules.waits import MODELS

from .algebra import judging


def put_in(text: str):
    """(operations of each rank, the written program) of a schedule, valid as a whole under the models it has
    to be.
    """
    schedule = judging.schedule(text)
    program = (
        schedule.program
        if not schedule.program.inserted
        else write_transfers(schedule.program, schedule.trained, schedule.comm_of)
    )
    late = not schedule.program.inserted
    models = MODELS[:4] if late else MODELS
    found = judging.codes(Facts(program))
    assert not any(found[m] for m in models), found
    assert all(a.verdict is Verdict.VALID for a in check_program(program, models))
    return judging.rows(program), program


def tail(ops: list[str]) -> list[str]:
    """What comes after the last operation of a microbatch."""
    last = max(i for i, o in enumerate(ops) if any(k in o for k in "FBIW") and o[-1].isdigit())
    return ops[last + 1 :]


MODEL = "model { layers vit[1] { modality vision } layers llm[3] { } layer head { } }"
PIPE = "cut { encoder = vit : transpose(owner: OWNER, gather: GATHER)  backbone = llm, head : 1f1b }"


def vlm(owner="[0, 1, 2]", gather="prefix", more="", P=3, M=3):
    return (
        f"schedule s {{ ranks {P} microbatches {M} {MODEL} "
        f"{PIPE.replace('OWNER', owner).replace('GATHER', gather)} {more} }}"
    )


@pytest.mark.parametrize("gather", ["prefix", "late"])
def test_ranks_that_own_nothing_still_reduce(gather):
    ops, _ = put_in(vlm("[1, 1, 1]", gather))
    assert [o.count("0REDUCE") for o in ops] == [1, 1, 1]
    assert not [o for r in (0, 2) for o in ops[r] if o.startswith(("0F", "0B"))]
    frozen, _ = put_in(vlm("[1, 1, 1]", gather, "freeze vit"))
    assert [o.count("0REDUCE") for o in frozen] == [0, 0, 0]


@pytest.mark.parametrize("gather", ["prefix", "late"])
@pytest.mark.parametrize("images", ["[0, 1, 0]", "[0, 0, 1]", "[0, 0, 0]"])
def test_microbatches_that_skip_the_encoder(gather, images):
    for freeze in ("", "freeze vit", "freeze llm, head", "freeze vit, llm"):
        ops, program = put_in(vlm("[1, 2, 1]", gather, f"images {images} {freeze}"))
        seen = {o[-1] for rank in ops for o in rank if o.startswith("0F")}
        assert seen == {str(m) for m, n in enumerate(eval(images)) if n}
        assert all(o.count("0REDUCE") == ("vit" not in freeze) for o in ops)  # adds zero


def test_a_microbatch_that_visits_one_stage():
    """Only the last layer is there in microbatch 1: no transfer, a backward of its own, a loss."""
    ops, program = (
        put_in("""schedule s { ranks 3 microbatches 3 model { layers a[1] { modality x } layers b[1] { modality x } layer c { } }
      modality x in microbatches 0, 2  cut { all = a, b, c : 1f1b } }""")
    )
    assert ops[2] == [
        "2RECV_F0",
        "2F0",
        "2B0",
        "2SEND_B0",
        "2WAIT_B0",
        "2F1",
        "2B1",
        "2RECV_F2",
        "2F2",
        "2B2",
        "2REDUCE",
        "2SEND_B2",
        "2WAIT_B2",
        "STEP",
    ]
    assert not [o for rank in ops[:2] for o in rank if o.endswith("1") and not o.startswith("1")]


def test_a_path_that_leaps_over_stages():
    """The middle stage is absent in microbatch 1: rank 0 sends to rank 2."""
    for freeze in ("", "freeze a"):
        ops, program = (
            put_in(f"""schedule s {{ ranks 3 microbatches 3 model {{ layer a {{ }} layer b {{ modality x }} layer c {{ }} }}
          modality x in microbatches 0, 2  cut {{ all = a, b, c : 1f1b }} {freeze} }}""")
        )
        assert "0SEND_F1" in ops[0] and "2RECV_F1" in ops[2] and not [o for o in ops[1] if o[-1] == "1"]
        assert ("2SEND_B1" in ops[2]) == ("0RECV_B1" in ops[0]) == (not freeze)


# ---- ties -----------------------------------------------------------------------------------------


def test_a_tie_is_reduced_before_the_data_parallel_sum():
    ops, program = put_in(
        "schedule s { ranks 3 microbatches 2 model { layers llm[3] { } layer head { } } tie emb = llm[0], "
        "head cut { all = llm, head : 1f1b } }"
    )
    assert [c.name for c in program.communicators] == ["default", "emb"] and program.communicators[
        1
    ].ranks == (0, 2)
    assert tail(ops[0]) == ["reduce(tie: emb)@emb", "0REDUCE", "STEP"] and ops[1].count("1REDUCE") == 1
    assert tail(ops[2]) == ["reduce(tie: emb)@emb", "2REDUCE", "STEP"] and not [
        o for o in ops[1] if "tie" in o
    ]


@pytest.mark.parametrize(
    "freeze, ties",
    [
        ("", 2),
        ("freeze head", 2),
        ("freeze llm[0]", 2),
        ("freeze llm[0], head", 0),
        ("freeze llm", 2),
        ("freeze llm, head", 0),
    ],
)
def test_a_tie_goes_when_none_of_its_stages_trains(freeze, ties):
    """It is entered by both ranks while one of them trains."""
    ops, _ = put_in(
        f"schedule s {{ ranks 3 microbatches 2 model {{ layers llm[3] {{ }} layer head {{ }} }} tie emb = "
        "llm[0], head "
        f"cut {{ all = llm, head : 1f1b(partition: [1, 2, 1]) }} {freeze} }}"
    )
    assert sum("tie" in o for rank in ops for o in rank) == ties


def test_a_tie_on_one_rank_is_no_collective():
    ops, program = put_in(
        "schedule s { ranks 2 microbatches 2 model { layers llm[4] { } } tie llm[0], llm[2] cut { a = llm : "
        "interleaved(chunks: 2) } }"
    )
    assert [t.stages for t in program.ties] == [(0, 2)] and not [
        o for rank in ops for o in rank if "tie" in o
    ]
    assert ops[0][-3:] == ["0REDUCE", "2REDUCE", "STEP"]  # tied: both at the end


@pytest.mark.parametrize("gather", ["prefix", "late"])
def test_a_tie_with_a_replicated_stage_spans_all_ranks(gather):
    ops, program = put_in(vlm(gather=gather, more="tie both = vit, head"))
    assert program.ties[0].comm == 0
    for rank in ops:
        assert tail(rank)[0] == "reduce(tie: both)" and rank.index("reduce(tie: both)") < rank.index(
            "0REDUCE"
        ) < rank.index("STEP")


def test_several_ties_come_in_one_order():
    ops, _ = put_in("""schedule s { ranks 2 microbatches 2 model { layers a[2] { } layers b[2] { } }
      tie one = a[0], b[1]  tie two = a[1], b[0]  cut { all = a, b : 1f1b } }""")
    for r, rank in enumerate(ops):
        assert tail(rank) == ["reduce(tie: one)", "reduce(tie: two)", f"{r}REDUCE", "STEP"]
