"""Every list of skeletons over 1f1b, gpipe and transpose up to length 4, under every freezing of its regions
(spec/footprint.md).

What the footprint keeps is computed here by a recursion of its own. The last microbatch lacks the first
region's modality (a text-only one).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from interlock.check.certificates import certificates
from interlock.check.files import check_file
from interlock.check.freezings import check_invariance
from interlock.check.program import check_program
from interlock.check.verdict import Verdict
from interlock.engine import smt
from interlock.kernel import verify
from interlock.load import Question
from interlock.program.facts import Facts
from interlock.program.footprint import with_trainable
from interlock.program.ir import Kind, Memory, Program, Size
from interlock.program.plain import plain_form
from interlock.program.transfers import insert, restrict
from interlock.rules import footprint
from interlock.rules.usage import Usage
from interlock.rules.waits import MODELS
from interlock.text.finding import InputError

from .algebra import judging

M = 3
LISTS = [names for k in range(1, 5) for names in product(("1f1b", "gpipe", "transpose"), repeat=k)]
NORMAL = [names for names in LISTS if ("transpose", "transpose") not in zip(names, names[1:])]
REJECTED = [names for names in LISTS if names not in NORMAL]
of_all = pytest.mark.parametrize("names", NORMAL, ids=",".join)


def text(names, P: int) -> str:
    """Two layers for a Replicated region, one a stage for a Sharded one; the first region sees images where
    another one follows it.
    """
    layers = [2 if name == "transpose" else P for name in names]
    vision = "modality vision" if len(names) > 1 else ""
    model = "  ".join(f"layers u{i}[{n}] {{ {vision * (i == 0)} }}" for i, n in enumerate(layers))
    present = f"modality vision in microbatches 0..{M - 2}" if vision else ""
    cut = "  ".join(f"r{i} = u{i} : {name}" for i, name in enumerate(names))
    return f"schedule s {{ ranks {P} microbatches {M} model {{ {model} }} {present} cut {{ {cut} }} }}"


def trained(names) -> Program:
    return judging.schedule(text(names, ranks_of(names))).trained


def ranks_of(names) -> int:
    return 2 + (len(names) + names.count("gpipe")) % 2


def freezings(program: Program, names):
    """The program's layers under each choice of regions."""
    region = {f"r{i}": i for i in range(len(names))}
    of = [region[s.region] for s in program.stages for _ in range(s.first, s.last)]
    for bits in product((True, False), repeat=len(names)):
        yield bits, with_trainable(program.layers, [bits[r] for r in of])


# ---- the footprint, by recursion ------------------------------------------------------------------


def kept(program: Program) -> set[tuple]:
    """(kind, stage, microbatch) of every operation and transfer that reverse-mode differentiation of the
    chain needs.

    From the input to the loss: a layer's output needs a gradient iff its input does or the layer is trained.
    """
    out = set()
    for m in range(program.microbatches):

        def present(l):
            return l.modality is None or m in program.modalities[l.modality]

        path = [
            (s, [l for l in program.layers[x.first : x.last] if present(l)])
            for s, x in enumerate(program.stages)
        ]
        path = [(s, layers) for s, layers in path if layers]

        def rank(s):
            return program.stages[s].owner[m] if program.stages[s].replicated else program.stages[s].rank

        def down(at: int, needs: bool) -> None:
            if at == len(path):
                return
            s, layers = path[at]
            entered = needs
            for layer in layers:
                needs = needs or layer.trainable
            out.add((Kind.F, s, m))
            if needs:
                out.add((Kind.B if any(l.trainable for l in layers) else Kind.I, s, m))
            if at and rank(path[at - 1][0]) != rank(s):
                before = path[at - 1][0]
                out.update({(Kind.SEND_F, before, m), (Kind.WAIT_F, before, m), (Kind.RECV_F, s, m)})
                if entered:
                    out.update({(Kind.SEND_B, s, m), (Kind.WAIT_B, s, m), (Kind.RECV_B, before, m)})
            down(at + 1, needs)

        down(0, False)
    for s, stage in enumerate(program.stages):
        if any(l.trainable for l in program.layers[stage.first : stage.last]):
            out.add((Kind.REDUCE, s, -1))
    return out


def listed(program: Program) -> list[tuple]:
    o = program.order
    return [(Kind(int(k)), int(s), int(m)) for k, s, m in zip(o.kind, o.stage, o.mb) if k != Kind.STEP]


def forwards(program: Program) -> list[list[str]]:
    start, kind = program.order.start, program.order.kind
    return [
        [program.show(i) for i in range(start[r], start[r + 1]) if kind[i] == Kind.F]
        for r in range(program.ranks)
    ]


# ---- the lists ------------------------------------------------------------------------------------


def test_how_many():
    assert (len(LISTS), len(NORMAL), len(REJECTED)) == (120, 93, 27)
    assert sum(2 ** len(names) for names in NORMAL) == 1174


@pytest.mark.parametrize("names", REJECTED, ids=",".join)
def test_out_of_normal_form(names):
    """IL202, and what normalising would give: that list is derived."""
    with pytest.raises(InputError) as caught:
        judging.schedule(text(names, 2))
    [said] = caught.value.findings
    assert said.code == "IL202" and "in normal form the cut is: " in said.help
    normal = said.help.split("the cut is: ")[1].rstrip(".")
    cut = normal.replace(", r", "  r")
    source = text(names, 2)
    whole = judging.schedule(source[: source.index("cut {")] + f"cut {{ {cut} }} }}")
    regions = [s.region for s in whole.program.stages]
    assert len(dict.fromkeys(regions)) == sum(
        1 for a, b in zip(("", *names), names) if (a, b) != ("transpose", "transpose")
    )


@of_all
def test_every_freezing(names):
    """Operations are those of the footprint, forwards stay where they were, the program is valid, no peak
    rises.
    """
    program = trained(names)
    sizes = tuple(
        replace(
            l,
            weights=3 + i,
            activation=Size(5 + i),
            until_weight=Size(2),
            output=Size(1 + i % 3),
            recompute=i % 3 == 1,
        )
        for i, l in enumerate(program.layers)
    )
    program = replace(program, layers=sizes, memory=Memory((None,) * program.ranks, (1, 1), (2, 1)))
    written, order = insert(program), forwards(program)
    most = Usage(Facts(written)).peaks
    for bits, layers in freezings(program, names):
        for base in (program, written):
            left = restrict(base, layers)
            have, want = listed(left), kept(left)
            if base is program:
                want = {o for o in want if o[0] in (Kind.F, Kind.B, Kind.I)}
            at_once = [o for o in have if o[0] != Kind.REDUCE]
            assert set(have) == want and len(set(at_once)) == len(at_once), bits
            assert forwards(left) == order, bits
        assert judging.codes(Facts(left)) == dict.fromkeys(MODELS, set()), bits
        assert all(now <= then for now, then in zip(Usage(Facts(left)).peaks, most)), bits


@of_all
def test_checked(names):
    """The whole check, kernel included, on the first, a middle and the last freezing."""
    program = trained(names)
    every = list(freezings(program, names))
    for bits, layers in {every[0], every[len(every) // 2], every[-1]}:
        answers = check_program(restrict(program, layers), ("pair", "blocking"), trained=program)
        assert [a.verdict for a in answers] == [Verdict.VALID] * 2, bits


@of_all
def test_one_query(names):
    """z3 covers every freezing of single layers, and the kernel accepts it; without one backward z3 and the
    enumeration both object.
    """
    program = trained(names)
    answer = check_invariance(program, range(len(program.layers)))
    assert answer.verdict is Verdict.VALID and [f.code for f in answer.findings] == ["IL607"]

    row = int((program.order.kind == Kind.B).nonzero()[0][len(names) % 3])
    keep = [i != row for i in range(len(program.order))]
    start = program.order.start - (program.order.start > row)
    columns = {
        c: getattr(program.order, c)[keep]
        for c in ("kind", "stage", "mb", "peer", "name", "comm", "launch", "at", "width")
    }
    lame = program.with_order(replace(program.order, start=start, **columns))
    found = smt.check_freezings(lame, range(len(program.layers)))
    assert isinstance(found, smt.Fails) and found.code == "IL601"
    missing = [
        bits
        for bits, layers in freezings(lame, names)
        if {f.code for f in footprint.check(Facts(restrict(lame, layers))) if f.is_error} == {"IL601"}
    ]
    stage, m = int(program.order.stage[row]), int(program.order.mb[row])
    expected = [
        bits
        for bits, layers in freezings(program, names)
        if {(Kind.B, stage, m), (Kind.I, stage, m)} & kept(replace(program, layers=layers))
    ]
    assert missing == expected != []


def test_freezing_in_the_text_is_restriction():
    for names in (
        ("transpose", "1f1b"),
        ("1f1b", "transpose", "gpipe"),
        ("gpipe", "1f1b", "transpose", "1f1b"),
    ):
        program = trained(names)
        for bits, layers in freezings(program, names):
            frozen = ", ".join(f"u{i}" for i, bit in enumerate(bits) if not bit)
            source = text(names, ranks_of(names))
            one = judging.schedule(source[:-1] + (f"freeze {frozen} }}" if frozen else "}"))
            assert plain_form(one.program) == plain_form(restrict(program, layers))


# ---- written transfers ----------------------------------------------------------------------------

LATE = """schedule late {{ ranks 2  microbatches 4  {images} communicator seam = ranks 0..1
  model {{ layer vit {{ modality vision  weights 3MiB  activation 2MiB  output 1MiB }} layers llm[2] {{ weights 5MiB  activation 4MiB  output 1MiB }} }}
  cut {{ encoder = vit : transpose(gather: late{how})  backbone = llm : 1f1b }}
  {more}
  for any freezing of vit, llm }}"""
ONE = ", gather_on: seam, scatter_on: seam"


def checked(models=MODELS, engine="graph", how="", images="", more=""):
    result = check_file(
        "late.sched",
        LATE.format(how=how, images=images, more=more).encode(),
        Question(models=models, engine=engine),
    )
    assert not result.errors, result.errors
    return {a.model: a for a in result.checked[0].answers}


@pytest.mark.parametrize("engine", ["graph", "smt", "both"])
def test_late_gathers(engine):
    answers = checked(MODELS[:4], engine, more="freeze vit")
    for model, answer in answers.items():
        assert answer.verdict is Verdict.VALID and "IL607" in {f.code for f in answer.findings}
        claims = [c for d in certificates(answer) for c in d["claims"]]
        assert [(c["claim"], c["model"]) for c in claims] == [
            ("valid", model),
            ("valid", model),
            ("invariant", model),
        ]
        assert all(j.accepted for d in certificates(answer) for j in verify(d))


def test_a_frozen_encoder_that_must_stay_frozen():
    """On one communicator: valid as declared, and a deadlock under `pair` and `rank` with nothing frozen,
    which is replayed.
    """
    answers = checked(MODELS, how=ONE + ", post: early", more="freeze vit")
    assert answers["edge"].verdict is Verdict.VALID
    answers = checked(MODELS[:4], how=ONE, more="freeze vit")
    assert [answers[m].verdict for m in MODELS[:4]] == [Verdict.VALID] * 2 + [Verdict.INVALID] * 2
    for model in ("pair", "rank"):
        answer = answers[model]
        assert [f.code for f in answer.errors] == [
            "IL606",
            "IL402",
        ] and "of vit, llm (2 layers): with none of them frozen" in answer.errors[0].message
        assert answer.replay is not None and not answer.replay.finished
        assert all(j.accepted for d in certificates(answer) for j in verify(d))
    bare = checked(MODELS[:4], how=ONE)  # declared as it is trained: the deadlock says all
    assert [f.code for f in bare["pair"].errors] == ["IL402"]


def test_late_gathers_with_bytes():
    """The most that a rank holds is with nothing frozen: one byte less than that does not serve every
    freezing.
    """

    def peaks(answer):
        return [c["peaks"] for d in certificates(answer) for c in d["claims"] if c["claim"] == "peak"]

    fits = checked(("pair",), more="freeze vit  memory { capacity 1GiB }", images="images [1, 0, 2, 1]")[
        "pair"
    ]
    assert next(f.message for f in fits.findings if f.code == "IL607").endswith(
        "all 2^3 choices in one query, memory included"
    )
    declared, trained = peaks(fits)
    assert all(a <= b for a, b in zip(declared, trained)) and declared != trained
    over = checked(
        ("pair",), more=f"freeze vit  memory {{ capacity {max(trained) - 1}B }}", images="images [1, 0, 2, 1]"
    )["pair"]
    assert [f.code for f in over.errors] == ["IL606", "IL501"]


def test_a_text_only_batch():
    """No microbatch visits the encoder: its freezing changes what is reduced, and nothing else."""
    answer = checked(("rank",), images="images [0, 0, 0, 0]")["rank"]
    assert answer.verdict is Verdict.VALID


ORDER = """schedule s { ranks 2 microbatches 1 place { rank 0: 0 rank 1: 1 } FROZEN
  order transfers written reductions inserted { rank 0: 0F0 0SEND_F0 0RECV_B0 0B0  rank 1: 1RECV_F0 1F0 1B0 1SEND_B0 }
  model { layers a[1] { } layers b[1] { } } for any freezing of a, b }"""


def test_written_orders():
    """What is listed is the fully trained program: it is not to be declared frozen."""
    for model in MODELS:
        [answer] = (
            check_file("s.sched", ORDER.replace("FROZEN", "").encode(), Question(models=(model,)))
            .checked[0]
            .answers
        )
        assert answer.verdict is Verdict.VALID and "IL607" in {f.code for f in answer.findings}
    [answer] = check_file("s.sched", ORDER.replace("FROZEN", "freeze a").encode()).checked[0].answers
    assert {f.code for f in answer.errors} == {"IL602"}
    [answer] = (
        check_file("s.sched", ORDER.replace("FROZEN", "").replace("order ", "fragment order ").encode())
        .checked[0]
        .answers
    )
    assert answer.verdict is Verdict.UNKNOWN and "fragment" in answer.reason
