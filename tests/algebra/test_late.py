"""Late gathers: what the algebra writes out, and what is safe on which communicator (spec/algebra.md, "Late
gathers").

Default runs take a sample of the owner maps of larger shapes; `--thorough` takes more of them.
"""

from __future__ import annotations

import itertools
from random import Random

import pytest

from interlock.check.files import check_file
from interlock.check.program import check_program
from interlock.check.verdict import Verdict
from interlock.load import Question
from interlock.program.facts import Facts
from interlock.program.footprint import with_trainable
from interlock.program.kinds import Kind
from interlock.program.transfers import insert, restrict
from interlock.rules.usage import Usage
from interlock.rules.waits import MODELS

from . import judging

OWN, ONE, BACKBONE = "", ", gather_on: seam, scatter_on: seam", ", gather_on: default, scatter_on: default"
UP_TO_RANK = MODELS[:4]


def text(P, M, owner, how=OWN, freeze="", *, backbone="1f1b", chunks=1, more="", gather="late"):
    seam = f"communicator seam = ranks 0..{P - 1}" if "seam" in how else ""
    return f"""schedule s {{ ranks {P} microbatches {M} {seam} {more}
      model {{ layer vit {{ modality vision }} layers llm[{P * chunks}] {{ }} }}
      cut {{ encoder = vit : transpose(owner: {list(owner)}, gather: {gather}{how})  backbone = llm : {backbone} }} {freeze} }}"""


def codes(program) -> dict[str, set[str]]:
    return judging.codes(Facts(program))


@pytest.fixture
def some(pytestconfig):
    """Owner maps of a shape: all, or a sample."""

    def maps(P: int, M: int, most: int = 9):
        every = list(itertools.product(range(P), repeat=M))
        most *= 25 if pytestconfig.getoption("--thorough") else 1
        return every if len(every) <= most else Random(100 * P + M).sample(every, most)

    return maps


def shapes(P=range(1, 5), M=range(1, 6)):
    return itertools.product(P, M)


def test_what_is_written(elaborated, rows):
    program = elaborated(text(2, 4, (0, 1, 0, 1))).program
    assert [c.name for c in program.communicators] == ["default", "gather", "scatter"]

    def waits(ops):
        return [o for o in ops if "WAIT" not in o]

    assert [" ".join(waits(ops)) for ops in rows(program)] == [
        "0F0 0F2 1F0 1SEND_F0 1RECV_F1@gather 1F1 1RECV_B0 1SEND_F1 1B0 1F2 1RECV_B1 1SEND_F2 1B1 "
        "1SEND_B1@scatter 1RECV_F3@gather 1F3 "
        "1RECV_B2 1SEND_F3 1B2 1RECV_B3 1B3 1SEND_B3@scatter 1REDUCE 0B0 0B2 0REDUCE STEP",
        "0F1 0SEND_F1@gather 0F3 0SEND_F3@gather 2RECV_F0 2F0 2B0 2SEND_B0 2RECV_F1 2F1 2B1 2SEND_B1 "
        "2RECV_F2 2F2 2B2 2SEND_B2 2RECV_F3 2F3 2B3 "
        "2REDUCE 2SEND_B3 0RECV_B1@scatter 0B1 0RECV_B3@scatter 0B3 0REDUCE STEP",
    ]


def test_early_posting_moves_the_forward_receives(elaborated, rows):
    late, early = (
        rows(elaborated(text(3, 5, (2, 0, 1, 2, 1), how)).program) for how in ("", ", post: early")
    )
    gathers = [o for o in late[0] if o.startswith("1RECV_F")]
    assert (
        early[0][:4]
        == gathers
        == ["1RECV_F0@gather", "1RECV_F2@gather", "1RECV_F3@gather", "1RECV_F4@gather"]
    )
    assert early[0][4:] == [o for o in late[0] if o not in gathers] and early[1:] == late[1:]


def test_the_compute_order_is_that_of_prefix(elaborated):
    for how, chunks in (("1f1b", 1), ("gpipe(chunks: 2)", 2), ("interleaved(chunks: 2)", 2), ("zb_h1", 1)):
        late, prefix = (
            elaborated(text(3, 5, (2, 0, 1, 2, 1), backbone=how, chunks=chunks, gather=g)).program
            for g in ("late", "prefix")
        )

        def compute(p):
            return [
                [
                    p.show(i)
                    for i in range(a, b)
                    if Kind(int(p.order.kind[i])) in (Kind.F, Kind.B, Kind.I, Kind.W)
                ]
                for a, b in zip(p.order.start, p.order.start[1:])
            ]

        assert compute(late) == compute(prefix) and not late.inserted and prefix.inserted


def test_every_early_send_is_waited_for_once(elaborated):
    program = elaborated(text(3, 6, (2, 1, 1, 0, 2, 1))).program
    o = program.order
    sent, waited = (
        {(int(k), int(s), int(m)) for k, s, m in zip(o.kind, o.stage, o.mb) if k == kind}
        for kind in (Kind.SEND_F, Kind.WAIT_F)
    )
    assert {(s, m) for _, s, m in sent} == {(s, m) for _, s, m in waited}


def test_freezing_only_deletes(elaborated, rows):
    trained, frozen = (
        rows(elaborated(text(3, 5, (2, 0, 1, 2, 1), freeze=f)).program) for f in ("", "freeze vit")
    )

    def gone(o):
        return o.startswith("0B") or "@scatter" in o or o.startswith("1WAIT_B") or o == "0REDUCE"

    assert frozen == [[o for o in ops if not gone(o)] for ops in trained]


def test_every_freezing_of_single_layers_is_served(elaborated, some):
    """One order of written transfers: the restriction to each choice of bits is valid up to `rank`."""
    for P, M in ((2, 4), (3, 3)):
        for owner in some(P, M, 4):
            trained = elaborated(text(P, M, owner)).trained
            for bits in itertools.product((True, False), repeat=P + 1):
                found = codes(restrict(trained, with_trainable(trained.layers, bits)))
                assert all(not found[m] for m in UP_TO_RANK), (P, M, owner, bits)


# ---- claims: the table of the specification -------------------------------------------------------


@pytest.mark.parametrize("freeze", ["freeze vit", ""], ids=["frozen", "trained"])
@pytest.mark.parametrize("post", ["", ", post: early"], ids=["late", "early"])
def test_own_communicators_are_safe_up_to_rank(elaborated, some, freeze, post):
    stuck = 0
    for P, M in shapes():
        for owner in some(P, M):
            found = codes(elaborated(text(P, M, owner, post, freeze)).program)
            assert all(not found[m] for m in UP_TO_RANK), (P, M, owner)
            stuck += found["blocking"] == {"IL402"}
            assert not (freeze and post and found["blocking"]), (
                P,
                M,
                owner,
            )  # all encodes are handed over first
    assert bool(stuck) != bool(freeze and post)


@pytest.mark.parametrize(
    "backbone, chunks",
    [
        ("gpipe", 1),
        ("eager", 1),
        ("interleaved(chunks: 2)", 2),
        ("gpipe(chunks: 2)", 2),
        ("zb_h1", 1),
        ("zb_h2", 1),
        ("zb_v", 2),
        ("dualpipev", 2),
    ],
)
def test_own_communicators_are_safe_before_any_backbone(elaborated, some, backbone, chunks):
    """T8: every valid Sharded run, text-only microbatches included."""
    for P, M in ((2, 4), (2, 5), (3, 5), (3, 6)):
        for owner in some(P, M, 3):
            images = f"images {[(m + 1) % 3 for m in range(M)]}"
            for freeze in ("freeze vit", ""):
                found = codes(
                    elaborated(
                        text(P, M, owner, "", freeze, backbone=backbone, chunks=chunks, more=images)
                    ).program
                )
                assert all(not found[m] for m in UP_TO_RANK), (P, M, owner)


def test_one_communicator_serves_a_frozen_encoder(elaborated, some):
    for P, M in shapes(range(2, 5)):
        for owner in some(P, M, 8):
            found = codes(elaborated(text(P, M, owner, ONE, "freeze vit")).program)
            assert all(not found[m] for m in UP_TO_RANK), (P, M, owner)


def test_one_communicator_for_a_trained_encoder_deadlocks_from_three_microbatches(elaborated):
    failing = {}
    for P, M in ((2, 2), (2, 3), (2, 4), (3, 2), (3, 3), (3, 4)):
        failing[P, M] = [
            owner
            for owner in itertools.product(range(P), repeat=M)
            if codes(elaborated(text(P, M, owner, ONE)).program)["rank"]
        ]
    assert not failing[2, 2] and not failing[3, 2] and not failing[3, 3]
    assert failing[2, 3] == [(1, 0, 1), (1, 1, 1)] and (0, 1, 0, 1) in failing[2, 4] and failing[3, 4]
    for owner in failing[2, 3]:
        found = codes(elaborated(text(2, 3, owner, ONE)).program)
        assert (
            not found["buffered"]
            and not found["edge"]
            and found["pair"] == found["rank"] == found["blocking"] == {"IL402"}
        )


def expected_on_the_backbone(P: int, owner) -> dict[str, set[str]]:
    def owns(test):
        return any(r > 0 and test(r, m) for m, r in enumerate(owner))

    if owns(lambda r, m: r == 1 and m >= P):
        return dict.fromkeys(UP_TO_RANK, {"IL403"})
    pair, rank = owns(lambda r, m: r == 1 and m > 0), owns(lambda r, m: m > r or m == r == 1)
    return {
        "buffered": set(),
        "edge": set(),
        "pair": {"IL402"} if pair else set(),
        "rank": {"IL402"} if rank else set(),
    }


def test_frozen_on_the_backbones_communicator(elaborated, some):
    """Exactly when it fails under each model."""
    for P, M in shapes(range(2, 5)):
        for owner in some(P, M):
            found = codes(elaborated(text(P, M, owner, BACKBONE, "freeze vit")).program)
            assert {m: found[m] for m in UP_TO_RANK} == expected_on_the_backbone(P, owner), (P, M, owner)


def test_trained_on_the_backbones_communicator(elaborated, some):
    """What fails frozen fails trained."""
    more = 0
    for P, M in shapes(range(2, 5), range(1, 5)):
        for owner in some(P, M, 8):
            found = codes(elaborated(text(P, M, owner, BACKBONE)).program)
            expected = expected_on_the_backbone(P, owner)
            assert all(found[m] for m in UP_TO_RANK if expected[m]), (P, M, owner)
            more += any(found[m] for m in UP_TO_RANK if not expected[m])
    assert more


def test_microbatch_two_on_rank_two_passes_along_the_linearisation_only():
    """`rank` and owner(m) = m = r = 2: a deadlock if each rank sends before its next receive, none along the
    linearisation.
    """
    order = """schedule s {{ ranks 3 microbatches 3 place {{ replicated 0: owner [0, 0, 2]  rank 0: 1  rank 1: 2  rank 2: 3 }} freeze stage 0..3
      order transfers written {{
        rank 0: 0F0 0F1 1F0 1SEND_F0 1F1 1SEND_F1 1RECV_F2 1F2 1SEND_F2
        rank 1: 2RECV_F0 2F0 {rest}
        rank 2: 0F2 0SEND_F2 3RECV_F0 3F0 3RECV_F1 3F1 3RECV_F2 3F2 }} }}"""
    for rest, verdict in (
        ("2SEND_F0 2RECV_F1 2F1 2SEND_F1 2RECV_F2 2F2 2SEND_F2", "invalid"),
        ("2RECV_F1 2SEND_F0 2F1 2RECV_F2 2SEND_F1 2F2 2SEND_F2", "valid"),
    ):
        result = check_file("t.sched", order.format(rest=rest).encode(), Question(models=("rank",)))
        assert result.checked[0].answers[0].verdict.value == verdict, rest


@pytest.mark.parametrize("freeze", ["freeze vit", ""], ids=["frozen", "trained"])
def test_hand_overs_along_one_linearisation_are_safe_under_every_model(elaborated, some, freeze):
    """`gather: prefix`: every owner map."""
    for P, M in shapes():
        for owner in some(P, M, 8):
            schedule = elaborated(text(P, M, owner, "", freeze, gather="prefix"))
            assert not any(
                codes(
                    schedule.program if not schedule.program.inserted else insert(schedule.program)
                ).values()
            ), (P, M, owner)


# ---- the published cases, from the algebra --------------------------------------------------------


def answers(source: str):
    result = check_file("t.sched", source.encode(), Question(models=MODELS))
    assert not result.errors, result.errors
    return {a.model: (a.verdict.value, {f.code for f in a.errors}) for a in result.checked[0].answers}


def test_case_seam_on_the_backbone_communicator():
    assert answers(text(2, 3, (0, 0, 1), BACKBONE, "freeze vit")) == dict.fromkeys(
        MODELS, ("invalid", {"IL403"})
    )
    repaired = answers(text(2, 3, (0, 0, 1), OWN, "freeze vit"))
    assert repaired == dict.fromkeys(UP_TO_RANK, ("valid", set())) | {"blocking": ("invalid", {"IL402"})}


def test_case_seam_scatter_on_the_gather_communicator():
    found = answers(text(2, 4, (0, 1, 0, 1), ONE))
    assert found == {"buffered": ("valid", set()), "edge": ("valid", set())} | dict.fromkeys(
        ("pair", "rank", "blocking"), ("invalid", {"IL402"})
    )
    repaired = answers(text(2, 4, (0, 1, 0, 1), OWN))
    assert repaired == dict.fromkeys(UP_TO_RANK, ("valid", set())) | {"blocking": ("invalid", {"IL402"})}


BACKWARDS = """skeleton backwards(P, M) sharded { rank r {
  for i in 0 ..< M { F(M - 1 - i) }
  for i in 0 ..< M { B(M - 1 - i) } } }
skeleton ascending(P, M) replicated { rank r {
  for i in 0 ..< M { if i mod P == r { F(i) } }
  body
  for i in owned(r) { B(i) } } }
"""


def test_case_encodes_in_another_order():
    """A Replicated skeleton that does not ask `owned(r)` for the order: wrong data, which transfers along one
    linearisation would not be.
    """
    wrong = BACKWARDS + text(2, 4, (0, 1, 0, 1), "", "freeze vit", backbone="backwards").replace(
        "transpose", "ascending"
    )
    assert answers(wrong) == dict.fromkeys(MODELS, ("invalid", {"IL403"}))
    right = BACKWARDS + text(2, 4, (0, 1, 0, 1), "", "freeze vit", backbone="backwards")
    assert all(answers(right)[m] == ("valid", set()) for m in UP_TO_RANK)
    assert all(
        a == ("valid", set()) for a in answers(wrong.replace("gather: late", "gather: prefix")).values()
    )


# ---- memory, seams, errors ------------------------------------------------------------------------


def test_early_sends_hold_their_payload_until_the_wait(elaborated):
    def sized(how):
        return text(2, 4, (1, 1, 1, 1), how, "freeze vit", more="memory { capacity 1GiB }").replace(
            "layer vit { ", "layer vit { output 1KiB "
        )

    late, early, prefix = (
        Usage(Facts(p)).peaks
        for p in (
            elaborated(sized("")).program,
            elaborated(sized(", post: early")).program,
            insert(elaborated(sized("").replace("gather: late", "gather: prefix")).program),
        )
    )
    # rank 1 encodes all four before the first is taken; rank 0 takes them one by one, or posts four receives
    # at once
    assert late == [1024, 4096] and early == [4096, 4096] and prefix == [1024, 2048]


def test_nothing_is_handed_over_on_one_rank(elaborated, rows):
    assert not [o for o in rows(elaborated(text(1, 3, (0, 0, 0))).program)[0] if "@" in o]


def test_a_rank_that_owns_nothing_and_one_that_owns_all(elaborated, rows):
    program = elaborated(text(3, 4, (2, 2, 2, 2))).program
    assert not [o for r in (0, 1) for o in rows(program)[r] if o.startswith(("0F", "0B"))]
    assert [ops.count("0REDUCE") for ops in rows(program)] == [1, 1, 1]  # R-RANK: it adds zero
    assert all(a.verdict is Verdict.VALID for a in check_program(program, UP_TO_RANK))


def test_a_text_only_batch_needs_no_seam(elaborated, rows):
    program = elaborated(text(2, 3, (0, 1, 1), more="images [0, 0, 0]")).program
    assert not [o for ops in rows(program) for o in ops if "@" in o or o.startswith(("0F", "0B"))]
    assert all(a.verdict is Verdict.VALID for a in check_program(program, MODELS))


def test_names_of_the_own_communicators(elaborated):
    def names(more, how=""):
        return [c.name for c in elaborated(text(2, 2, (0, 1), how, more=more)).program.communicators]

    assert names("communicator gather = ranks 0..1") == ["default", "gather", "encoder_gather", "scatter"]
    assert names("communicator a = ranks 0..1", ", gather_on: a") == ["default", "a", "scatter"]
    assert names("tie llm[0], llm[1]") == ["default", "gather", "scatter"]


@pytest.mark.parametrize(
    "arguments, code, says",
    [
        ("gather: laet", "IL210", "did you mean `late`?"),
        ("gather: 3", "IL210", "`gather` is `prefix` or `late`"),
        ("gather: late, post: soon", "IL210", "`post` is `late` or `early`"),
        ("post: early", "IL210", "`post` says something of late gathers"),
        ("gather: prefix, scatter_on: default", "IL210", "`scatter_on` says something of late gathers"),
        ("gather: late, gather_on: [1]", "IL210", "wants the name of a communicator"),
        ("gather: late, scatter_on: gather", "IL107", "no communicator is called `gather`"),
    ],
)
def test_errors(refused, arguments, code, says):
    found = refused(
        f"schedule s {{ ranks 2 microbatches 2 model {{ layer vit {{}} layers llm[2] {{}} }} cut {{ a = vit "
        f": transpose({arguments}) b = llm : 1f1b }} }}"
    )
    assert found[0] == code and says in found[2]


@pytest.mark.parametrize(
    "cut",
    [
        "a = u[0..1] : 1f1b  b = u[2] : transpose(gather: late)",
        "a = u : transpose(gather: late)",
        "a = u[0] : transpose(gather: late)  b = u[1..2] : 1f1b  c = u[3..4] : gpipe",
        "a = u[0] : transpose(gather: late)  b = u[1..2] : 1f1b  c = u[3] : transpose",
    ],
)
def test_late_gathers_lead_to_one_sharded_run(refused, cut):
    code, _, says = refused(
        f"schedule s {{ ranks 2 microbatches 2 model {{ layers "
        f"u[{3 if 'u[2]' in cut else 5 if 'gpipe' in cut else 4}] {{}} }} cut {{ {cut} }} }}"
    )
    assert code == "IL210" and "cannot come late" in says
