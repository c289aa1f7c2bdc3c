"""Failures somebody met in public, made small (tests/data/cases.json), and what Interlock says of them.

Every case with operations is a file of tests/cases/. Cases that are tables are built here, from .sched text
with the standard
skeletons. The reports in tests/cases/golden/ are as a person reads them; `pytest tests/test_cases.py
--update-golden` rewrites them.
"""

import json
import re
from fractions import Fraction
from pathlib import Path

import pytest

from interlock.check import certificates as certificate_files
from interlock.check.certificates import certificates
from interlock.check.files import check_file
from interlock.check.verdict import Verdict
from interlock.kernel import verify
from interlock.load import Question
from interlock.program.ir import Kind
from interlock.report import text
from interlock.rules.waits import MODELS

HERE = Path(__file__).parent
FILES = sorted((HERE / "cases").glob("*.sched"))
CASES = {c["id"]: c for c in json.loads((HERE / "data" / "cases.json").read_text(encoding="utf-8"))["cases"]}

# what a message must make clear (`say` of the case), as patterns on the primary finding: message, marks, help
SAY = {
    "crossed-at-two-ranks": [
        "wrong data",
        "nothing stops",
        "with two ranks the previous and the next peer are the same",
        "activations and gradients share one channel",
    ],
    "lazy-communicators": [
        "orders of creation form a cycle: c01, c03, c23, c12",
        "although every two ranks",
        "eagerly, in one order",
    ],
    "both-send-first": [
        "deadlock under `pair`",
        "ranks 0 and 1 wait for each other",
        "rank 0 sends a0; rank 1 receives it only after",
        "one launch",
    ],
    "published-list-1": [
        "wait for each other",
        "rank 0 sends 0F1; rank 1 receives it only after",
        "1SEND_F0: this, which rank 0 receives only after its own send",
    ],
    "published-list-2": [
        "0SEND_F2: rank 0 sends 0F2; rank 1 receives it only after",
        "3SEND_B0: this, which rank 0 receives only after its own send",
        "put 2RECV_B0 before 0SEND_F2 on rank 0",
    ],
    "slot-reused": [
        "slot0 is received into on rank 1 before anything waits for send",
        "still under way",
        r"add wait\(slot0\)",
    ],
    "mixed-orders": [
        "wait for each other",
        "rank 0 sends a1; rank 1 receives it only after",
        "this, which rank 0 receives only after its own send",
    ],
    "two-gradients-awaited": [
        "g_rope",
        "rank 0 waits for 2 transfers from rank 1, which sends 1",
        "only a payload with a gradient has one",
    ],
    "frozen-encoder-text-only": [
        "stage 0 is frozen and nothing before it trains",
        "no gradient edge from stage 1 to stage 0",
        "0RECV_B0 must not exist",
    ],
    "frozen-edge-half-dropped": ["1SEND_B0 must not exist", "both ends of the boundary"],
    "rank-skips-grad-norm": [
        "rank 1 never enters",
        "rank 1 owns nothing trainable, but the communicator spans it",
    ],
    "W-without-split": ["0W0 is listed, but the backward of microbatch 0 .* was not split"],
    "split-never-finished": ["0W0 is missing before the step", "microbatch 0"],
    "tied-in-set-order": ["members of communicator t issue its collectives in different orders"],
    "partial-sums-added": [
        "partial sums",
        "added across the pipeline",
        "shards of different meaning",
        "reduce the tie first",
    ],
    "W-after-reduction": ["0W0 comes after 0REDUCE, the reduction of its parameters"],
    "warmup-per-module": [
        "cyclic wait",
        "stage 1 does 1B0 after 1 forward, and 2 more stages follow",
        "count the warmup along the whole chain",
    ],
    "text-only-rank-skips": [
        r"rank 1 skips coll\(dp, vision\)",
        "the rest pair with the wrong one",
        "no image",
    ],
    "stage-without-moe": ["rank 0 never enters", "8 members .* are needed, 7 come"],
    "seam-scatter-on-the-gather-communicator": [
        "rank 0 sends ge1; rank 1 receives it only after",
        r"send\(0, e3\)@seam: this",
        "a communicator of its own",
    ],
    "seam-on-the-backbone-communicator": [
        "wrong data",
        "0SEND_F2 on rank 1 is received by 1RECV_B0",
        "an activation and a gradient",
        "its own communicator",
    ],
    "encodes-in-another-order": ["wrong data", "0SEND_F0 on rank 1 is received by 1RECV_F1 on rank 0"],
    "group-one-node": ["one end grouped, the other not"],
    "missing-transfer": [
        "stages 0 and 1 are on ranks 0 and 1 and nothing carries the output of 0F0",
        "1F0: nothing carries what this stage needs",
    ],
}
# what only the whole report says, since it is about several models
REPORTED = {
    "both-send-first": ["valid under buffered, edge", "deadlock under `pair`, `rank` and `blocking`"],
    "frozen-encoder-text-only": ["rank 0 waits for 1 transfer from rank 1, which sends 0"],
    "group-one-node": ["valid under buffered, edge, rank, blocking", "only under `pair`"],
}
# cases without a file: the tests below that decide them
TABLES = {
    "footprint-table",
    "frozen-tower-keeps-nothing",
    "first-rank-highest",
    "interleaved-peak",
    "max-not-mean",
    "W-stash-grows",
    "warmup-deeper-than-M",
    "megatron-fused-1f1b",
}
# cases decided elsewhere, and where
ELSEWHERE = {
    "layout-strings": "tests/interchange/test_megatron.py",
    "layer-split-oracle": "tests/interchange/test_megatron.py",
    "layers-lost": "tests/interchange/test_megatron.py",
    "scale-per-stage": "the runtime's gradients, tests/runtime",
}


def check(source: str, name: str = "case.sched", models=MODELS):
    result = check_file(name, source.encode(), Question(models=tuple(models)))
    assert not result.errors, [d.message for d in result.errors]
    return result.checked[0]


def refused(source: str) -> set[str]:
    return {d.code for d in check_file("case.sched", source.encode(), Question(models=MODELS)).errors}


def verdicts(checked) -> dict[str, str]:
    return {a.model: a.verdict.value for a in checked.answers}


def codes(checked) -> set[str]:
    return {f.code for a in checked.answers for f in a.findings}


def errors(checked) -> set[str]:
    return {f.code for a in checked.answers for f in a.errors}


ALL_VALID = dict.fromkeys(MODELS, "valid")
ALL_INVALID = dict.fromkeys(MODELS, "invalid")


# ---- the files ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def results():
    return {f.stem: check_file(f.name, f.read_bytes(), Question(models=MODELS)) for f in FILES}


each_file = pytest.mark.parametrize("id", [f.stem for f in FILES])


def test_every_case_is_decided_somewhere():
    files = {f.stem for f in FILES}
    assert set(CASES) <= files | TABLES | set(ELSEWHERE)
    assert not (TABLES | set(ELSEWHERE)) & files
    assert {id for id, c in CASES.items() if c["ranks"]} <= files


@each_file
def test_as_expected(results, id):
    result = results[id]
    assert not result.errors
    [checked] = result.checked
    assert checked.as_expected and not checked.warnings
    named = [m for e in checked.expectations for m in e.models]
    assert sorted(named) == sorted(MODELS)  # each model is covered, once
    assert all(e.code for e in checked.expectations if e.verdict is Verdict.INVALID)
    for answer in checked.answers:
        assert (answer.replay is None) == (answer.verdict is Verdict.VALID)


@pytest.mark.parametrize("id", [id for id in CASES if CASES[id]["ranks"]])
def test_the_verdict_is_the_published_one(results, id):
    expect = CASES[id]["expect"]
    assert verdicts(results[id].checked[0]) == {m: expect.get(m) or expect["all"] for m in MODELS}


@each_file
def test_certificates_verify(results, id, tmp_path):
    paths = certificate_files.write(tmp_path, [results[id]])
    assert len(paths) == len(MODELS)
    for path in paths:
        judged = verify(certificate_files.read(path))
        assert judged and all(j.accepted for j in judged), judged


@each_file
def test_the_message_says_what_is_wrong(results, id):
    [checked] = results[id].checked
    wrong = [a for a in checked.answers if a.verdict is Verdict.INVALID]
    if not CASES.get(id, {}).get("say"):
        return
    finding = wrong[0].errors[0]
    said = "\n".join(
        [
            finding.message,
            *(f"{wrong[0].program.show(m.row)}: {m.label}" for m in finding.marks),
            finding.help,
        ]
    )
    for pattern in SAY[id]:
        assert re.search(pattern, said), said
    for pattern in REPORTED.get(id, ()):
        assert re.search(pattern, rendered(results[id]))


def rendered(result) -> str:
    return text.render(result.checked, lambda _: result.sources, width=100)


@each_file
def test_golden(results, id, golden):
    golden(HERE / "cases" / "golden" / f"{id}.txt", rendered(results[id]))


# ---- which backward work exists -------------------------------------------------------------------


def frozen(trainable: str) -> str:
    stages = [str(s) for s, bit in enumerate(trainable) if bit == "0"]
    return f"freeze stage {', '.join(stages)}" if stages else ""


def cut(
    ranks: int,
    microbatches: int,
    skeleton: str,
    *,
    layers: int = 0,
    freeze: str = "",
    more: str = "",
    skeletons: str = "",
) -> str:
    return f"""{skeletons}
    schedule case {{
      ranks {ranks}
      microbatches {microbatches}
      model {{ layers l[{layers or ranks}] {{ activation 1KiB }} }}
      {freeze}
      cut {{ backbone = l : {skeleton} }}
      {more}
    }}"""


def frozen_layers(trainable: str) -> str:
    layers = [f"l[{s}]" for s, bit in enumerate(trainable) if bit == "0"]
    return f"freeze {', '.join(layers)}" if layers else ""


@pytest.mark.parametrize("row", CASES["footprint-table"]["table"], ids=lambda row: row["trainable"])
def test_footprint_table(row):
    """What derive keeps is what autograd does: backwards, weight halves, gradients that cross."""
    checked = check(
        cut(4, 2, "1f1b", freeze=frozen_layers(row["trainable"]), more="memory { capacity 1GiB }")
    )
    assert verdicts(checked) == ALL_VALID
    order = checked.answers[0].program.order

    def stages(*kinds):
        return "".join(sorted({str(s) for k, s in zip(order.kind, order.stage) if k in kinds}))

    assert stages(Kind.B, Kind.I) == row["backward"]
    assert stages(Kind.B, Kind.W) == row["W"]
    crossing = " ".join(f"{s}>{int(s) - 1}" for s in stages(Kind.SEND_B))
    assert crossing == row["edges"]
    assert " ".join(f"{int(s) + 1}>{s}" for s in stages(Kind.RECV_B)) == row["edges"]
    assert ("IL604" in codes(checked)) == ("1" not in row["trainable"])


def forward_and(ranks: dict[int, str], trainable: str) -> str:
    lines = "\n".join(f"rank {s}: {s}F0 {ops}" for s, ops in ranks.items())
    return (
        f"schedule case {{ ranks 4 microbatches 1 {frozen(trainable)}\n order transfers inserted {{ "
        f"{lines}\n }} }}"
    )


@pytest.mark.parametrize("row", CASES["footprint-table"]["table"], ids=lambda row: row["trainable"])
def test_footprint_table_by_hand(row):
    """The operations of the table are valid; each one left out is IL601, each one added is IL602 or an idle
    W.
    """

    def halves(s):
        return (f"{s}I0 " if str(s) in row["backward"] else "") + (f"{s}W0" if str(s) in row["W"] else "")

    right = {s: halves(s) for s in range(4)}
    assert verdicts(check(forward_and(right, row["trainable"]))) == ALL_VALID
    for s in range(4):
        if str(s) in row["backward"]:
            assert errors(check(forward_and(right | {s: ""}, row["trainable"]))) == {"IL601"}
        else:
            assert errors(check(forward_and(right | {s: f"{s}B0"}, row["trainable"]))) == {"IL602"}
        if str(s) in row["W"]:
            assert errors(check(forward_and(right | {s: f"{s}I0"}, row["trainable"]))) == {"IL601"}
        elif str(s) in row["backward"]:
            idle = check(forward_and(right | {s: f"{s}B0"}, row["trainable"]))
            assert verdicts(idle) == ALL_VALID and codes(idle) == {"IL603"}


# ---- memory ---------------------------------------------------------------------------------------


def peaks(checked) -> list[int]:
    """Of every rank, in KiB, as the kernel counted them."""
    assert verdicts(checked) == ALL_VALID
    [claim] = [c for c in certificates(checked.answers[0])[0]["claims"] if c["claim"] == "peak"]
    return [Fraction(b, 1024) for b in claim["peaks"]]


def test_frozen_tower_keeps_nothing():
    assert peaks(check(cut(4, 8, "1f1b", freeze=frozen_layers("0111"), more="memory { capacity 1GiB }"))) == [
        0,
        3,
        2,
        1,
    ]


@pytest.mark.parametrize("M", [8, 9, 16])
def test_first_rank_highest(M):
    assert peaks(
        check(cut(8, M, "1f1b", more="memory { capacity 1GiB }\n require { in_flight(r) <= 8 - r }"))
    ) == [8, 7, 6, 5, 4, 3, 2, 1]
    short = check(cut(8, M, "1f1b", more="require { in_flight(r) <= 7 - r }"))
    assert verdicts(short) == ALL_INVALID and errors(short) == {"IL702"}
    assert [f.rank for f in short.answers[0].errors] == list(range(8))


@pytest.mark.parametrize("v, ratio", [(2, "1.375"), (5, "1.15"), (10, "1.075")])
def test_interleaved_peak(v, ratio):
    more = "memory { capacity 1GiB }"
    plain = peaks(check(cut(4, 16, "1f1b", layers=4 * v, more=more)))
    woven = peaks(check(cut(4, 16, f"interleaved(chunks: {v})", layers=4 * v, more=more)))
    assert woven[0] / plain[0] == Fraction(ratio) == 1 + Fraction(3, 4 * v)


def test_memory_is_judged_by_the_fullest_rank():
    """max-not-mean: 8 layers as [1, 2, 2, 3] in stages, capacity for the mean."""
    source = """schedule case {{ ranks 4 microbatches 1
      model {{ layers l[8] {{ weights 1MiB }} }}
      cut {{ backbone = l : 1f1b(partition: [{}]) }}
      memory {{ capacity 6MiB gradient 1 per weight byte optimizer 1 per weight byte }} }}"""
    even = check(source.format("2, 2, 2, 2"))
    assert verdicts(even) == ALL_VALID
    uneven = check(source.format("1, 2, 2, 3"))
    assert verdicts(uneven) == ALL_INVALID
    [finding] = uneven.answers[0].errors
    assert (finding.code, finding.rank) == (
        "IL501",
        3,
    ) and "rank 3 needs 9 MiB, 3 MiB more" in finding.message
    assert "the fullest rank counts, not the mean" in finding.help


W_LAST = """skeleton late(P, M) sharded { rank r {
  let warm = min(P - 1 - r, M)
  for i in 0 ..< warm     { F(i) }
  for i in 0 ..< M - warm { F(warm + i)  I(i) }
  for i in M - warm ..< M { I(i) }
  for i in 0 ..< M        { W(i) }
} }"""
W_SOON = """skeleton soon(P, M) sharded { rank r {
  let warm = min(P - 1 - r, M)
  for i in 0 ..< warm     { F(i) }
  for i in 0 ..< M - warm { F(warm + i)  I(i)  W(i) }
  for i in M - warm ..< M { I(i)  W(i) }
} }"""
BOUNDED = "require { bounded_stash }"


@pytest.mark.parametrize("M", [4, 8])
def test_w_stash_grows(M):
    grows = check(cut(2, M, "late", skeletons=W_LAST))
    assert verdicts(grows) == ALL_VALID
    [warning] = [f for f in grows.answers[0].findings if f.severity.value == "warning"]
    assert (
        warning.code == "IL502"
        and "weight-gradient stashes of rank 0 grow with the number of microbatches" in warning.message
    )
    required = check(cut(2, M, "late", skeletons=W_LAST, more=BOUNDED))
    assert verdicts(required) == ALL_INVALID and errors(required) == {"IL502"}
    bounded = check(cut(2, M, "soon", skeletons=W_SOON))
    assert verdicts(bounded) == ALL_VALID and "IL502" not in codes(bounded)
    # no growth seen is no proof for every M: asked for, it stays open until the prover answers
    assert set(verdicts(check(cut(2, M, "soon", skeletons=W_SOON, more=BOUNDED))).values()) == {"unknown"}


# ---- warmup ---------------------------------------------------------------------------------------

DEEP = """skeleton deep(P, M) sharded { rank r {
  let warm = P - 1 - r
  for i in 0 ..< warm     { F(i) }
  for i in 0 ..< M - warm { F(warm + i)  B(i) }
  for i in M - warm ..< M { B(i) }
} }"""


@pytest.mark.parametrize("P", [2, 4, 8])
@pytest.mark.parametrize(
    "M",
    [lambda P: 1, lambda P: P - 1, lambda P: P, lambda P: P + 1, lambda P: 2 * P],
    ids=["1", "P-1", "P", "P+1", "2P"],
)
def test_warmup_deeper_than_m(P, M):
    """P-1-r forwards ahead need P-1 microbatches: with M = P-1 they are just there, and there is no steady
    phase on rank 0.
    """
    M = M(P)
    assert verdicts(check(cut(P, M, "1f1b"))) == ALL_VALID
    if M < P - 1:
        assert refused(cut(P, M, "deep", skeletons=DEEP)) == {"IL212"}
    else:
        assert verdicts(check(cut(P, M, "deep", skeletons=DEEP))) == ALL_VALID


def megatron(P: int, M: int, fused: bool) -> str:
    """Megatron-LM's 1F1B without interleaving, its transfers written, the steady pairs in one launch each or
    one after the other.
    """
    pair = (
        (lambda *ops: f"{{ {' '.join(ops)} }}" if len(ops) > 1 else " ".join(ops))
        if fused
        else lambda *ops: " ".join(ops)
    )
    lines = []
    for r in range(P):
        first, last = r == 0, r == P - 1

        def recv_f(m):
            return [f"{r}RECV_F{m}"] * (not first)

        def send_f(m):
            return [f"{r}SEND_F{m}"] * (not last)

        def recv_b(m):
            return [f"{r}RECV_B{m}"] * (not last)

        def send_b(m):
            return [f"{r}SEND_B{m}"] * (not first)

        warm = min(P - 1 - r, M)
        ops = []
        for m in range(warm):
            ops += [*recv_f(m), f"{r}F{m}", *send_f(m)]
        if warm < M:
            ops += recv_f(warm)
        for i in range(M - warm):
            m = warm + i
            ops += [f"{r}F{m}", pair(*send_f(m), *recv_b(i)), f"{r}B{i}"]
            ops += [pair(*send_b(i), *recv_f(m + 1))] if m + 1 < M else send_b(i)
        for m in range(M - warm, M):
            ops += [*recv_b(m), f"{r}B{m}", *send_b(m)]
        lines.append(f"rank {r}: {' '.join(ops)} {r}REDUCE STEP")
    orders = "\n    ".join(lines)
    return (
        f"schedule case {{\n  ranks {P}\n  microbatches {M}\n  order transfers written {{\n    "
        f"{orders}\n  }}\n}}"
    )


@pytest.mark.parametrize("P", range(1, 6))
def test_megatron_fused_1f1b(P):
    for M in range(1, 7):
        assert verdicts(check(megatron(P, M, fused=True))) == ALL_VALID, M
        apart = check(megatron(P, M, fused=False), models=("blocking",))
        if P >= 2 and M >= 2:
            assert verdicts(apart) == {"blocking": "invalid"} and errors(apart) == {"IL402"}, M
        else:
            assert verdicts(apart) == {"blocking": "valid"}, M
