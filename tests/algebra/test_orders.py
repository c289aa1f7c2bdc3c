"""Written orders and traces, and the errors of elaboration with their places."""

from __future__ import annotations

import pytest

from interlock.program.kinds import Kind


def test_an_order_as_written(elaborated, rows):
    e = elaborated(
        """schedule o {
      ranks 2
      microbatches 4
      place { rank 0: 0, 3   rank 1: 1, 2 }
      communicator up = ranks 0..1
      tie emb = stage 0, 3
      freeze stage 1
      order transfers written {
        rank 0: 0F0 0SEND_F0 { 0SEND_F1@up 3RECV_F0 } (3F0 3B0) .. (3F2 3B2) 0REDUCE STEP
        rank 1: overlap(2F1 1B0) 1F0..2 UNUSED
      } }""".replace("UNUSED", "")
    )
    p = e.program
    assert rows(p) == [
        [
            "0F0",
            "0SEND_F0",
            "0SEND_F1@up",
            "3RECV_F0",
            "3F0",
            "3B0",
            "3F1",
            "3B1",
            "3F2",
            "3B2",
            "0REDUCE",
            "STEP",
        ],
        ["2F1", "1B0", "1F0", "1F1", "1F2"],
    ]
    assert [s.rank for s in p.stages] == [0, 1, 1, 0] and [l.trainable for l in p.layers] == [
        True,
        False,
        True,
        True,
    ]
    assert p.order.launch.tolist() == [-1, -1, 0, 0] + [-1] * 8 + [1, 1] + [-1] * 3
    assert (p.inserted, p.reductions_inserted, p.fragment, e.trained) == (False, False, False, None)
    assert p.ties[0].stages == (0, 3) and p.ties[0].comm == 0


def test_every_row_of_an_order_has_its_place(elaborated):
    text = (
        "schedule o { ranks 2 microbatches 2 order transfers inserted { rank 0: 0F0..1 0B0 0B1\nrank 1: "
        "1F0 1B0 1F1 1B1 } }"
    )
    p = elaborated(text).program
    assert [text[a : a + w] for a, w in zip(p.order.at.tolist(), p.order.width.tolist())] == [
        "0F0..1",
        "0F0..1",
        "0B0",
        "0B1",
        "1F0",
        "1B0",
        "1F1",
        "1B1",
    ]
    assert p.inserted and p.reductions_inserted and [s.rank for s in p.stages] == [0, 1]


def test_a_trace_is_a_fragment(elaborated, rows):
    p = elaborated("""schedule t { ranks 2
      communicator emb = ranks 0, 1
      trace { rank 0: send(1, a0)@emb wait(a0) free(a0) coll(emb, grad) zero step
              rank 1: recv(0, a0)@emb coll(emb, grad) init(emb) reduce(data: w) } }""").program
    assert rows(p)[0] == ["send(1, a0)@emb", "wait(a0)", "free(a0)", "coll(emb, grad)", "ZERO", "STEP"]
    assert p.fragment and not p.inserted and not p.stages and p.names == ("a0", "grad", "w")
    assert p.order.kind[-1] == Kind.REDUCE_DATA and p.order.peer.tolist()[0] == 1


def test_a_model_is_spread_over_the_stages_of_an_order(elaborated):
    p = elaborated("""schedule o { ranks 2 microbatches 1 model { layers u[5] { weights 1KiB } }
      place { rank 0: 1   replicated 0: owner [1] }
      order transfers inserted { rank 0: 1F0 1B0 rank 1: 0F0 0B0 } }""").program
    assert [(s.first, s.last, s.rank, s.owner) for s in p.stages] == [(0, 3, None, (1,)), (3, 5, 0, None)]


MODEL = "model { layers vit[2] { modality vision } layers llm[4] { } }"
HEAD = f"schedule s {{\n ranks 2\n microbatches 4\n {MODEL}\n"
CUT = HEAD + " cut {\n"


def order(text, place=""):
    return f"schedule s {{ ranks 2 microbatches 2 {place}\n order transfers inserted {{\n{text}\n}} }}"


SKELETON = (
    "skeleton k(P, M) sharded ATTR {\n rank r {\n BODY\n } }\nschedule s { ranks 2 microbatches 4 "
    "model { layers llm[4] { } } cut { x = llm : k } }"
)


def skeleton(body, attributes="", head="k(P, M)"):
    return SKELETON.replace("BODY", body).replace("ATTR", attributes).replace("k(P, M)", head)


ERRORS = {
    "no region": (CUT + "} }", "IL201", 5, "no region"),
    "layers left over": (CUT + "a = vit : transpose\n } }", "IL201", 5, "`llm[0]` is in no region"),
    "layers taken twice": (
        CUT + "a = vit, llm : 1f1b\nb = llm[2..3] : 1f1b } }",
        "IL201",
        7,
        "lies in the cut already",
    ),
    "wrong order": (CUT + "a = llm : 1f1b\nb = vit : 1f1b } }", "IL201", 6, "leaves out layer `vit[0]`"),
    "a gap within a region": (CUT + "a = vit, llm[1..3] : 1f1b } }", "IL201", 6, "leaves out layer `llm[0]`"),
    "a cut through an attach": (
        CUT.replace("llm[4] { }", "llm[4] { } attach vit to llm") + "a = vit : transpose\nb = llm : 1f1b } }",
        "IL201",
        6,
        "glues",
    ),
    "neither cut nor order": (HEAD + "}", "IL201", 1, "no cut and no order"),
    "not in normal form": (
        CUT + "a = vit[0] : transpose\nb = vit[1] : transpose\nc = llm : 1f1b } }",
        "IL202",
        7,
        "a = vit : transpose, c = llm : 1f1b",
    ),
    "unknown skeleton": (CUT + "a = vit, llm : interleved } }", "IL203", 6, "`interleaved`"),
    "a file that is not there": (
        'use "nowhere.sched"\n' + CUT + "a = vit, llm : 1f1b } }",
        "IL203",
        1,
        "cannot read",
    ),
    "more stages than layers": (
        CUT + "a = vit : transpose\nb = llm : interleaved(chunks: 3) } }",
        "IL205",
        7,
        "6 stages and 4 layers",
    ),
    "nothing to visit": (
        CUT.replace("llm[4] { }", "llm[4] { modality vision }").replace("cut", "images [1, 0, 1, 1] cut")
        + "a = vit, llm : 1f1b } }",
        "IL205",
        6,
        "microbatch 1",
    ),
    "a microbatch that is none": (
        CUT.replace("cut", "modality vision in microbatches 0..4\n cut") + "a = vit, llm : 1f1b } }",
        "IL206",
        5,
        "no microbatch 4",
    ),
    "too few images": (
        CUT.replace("cut", "images [1]\n cut") + "a = vit, llm : 1f1b } }",
        "IL206",
        5,
        "1 entries for 4",
    ),
    "a condition": (skeleton("F(0)", "where M >= 2*P + 1 and M > 1"), "IL207", 5, "M >= 2*P + 1 and M > 1"),
    "no chunks": (CUT + "a = vit, llm : interleaved(chunks: 0) } }", "IL207", 6, "`chunks` is 0"),
    "an owner that does not exist": (
        CUT + "a = vit : transpose(owner: [0, 1,\n 2, 0])\nb = llm : 1f1b } }",
        "IL209",
        7,
        "rank 2",
    ),
    "too few owners": (
        CUT + "a = vit : transpose(owner: [0, 1])\nb = llm : 1f1b } }",
        "IL209",
        6,
        "2 entries for 4",
    ),
    "an unknown owner map": (
        CUT + "a = vit : transpose(owner: gredy)\nb = llm : 1f1b } }",
        "IL209",
        6,
        "`greedy`",
    ),
    "an unknown argument": (CUT + "a = vit, llm : 1f1b(partitoin: even) } }", "IL210", 6, "`partition`"),
    "an argument by place": (CUT + "a = vit, llm : 1f1b(2) } }", "IL210", 6, "no further argument"),
    "chunks of 1f1b": (CUT + "a = vit, llm : 1f1b(chunks: 2) } }", "IL210", 6, "interleaved(chunks: ..)"),
    "a partition of another sum": (
        CUT + "a = vit, llm : 1f1b(partition: [3, 4]) } }",
        "IL210",
        6,
        "7 layers and the region has 6",
    ),
    "a partition of another length": (
        CUT + "a = vit, llm : 1f1b(partition: [3, 2, 1]) } }",
        "IL210",
        6,
        "3 entries for 2",
    ),
    "a partition with an empty stage": (
        CUT + "a = vit, llm : 1f1b(partition: [6, 0]) } }",
        "IL210",
        6,
        "empty",
    ),
    "a partition through an attach": (
        CUT.replace("llm[4] { }", "llm[4] { } attach vit to llm")
        + "a = vit, llm : 1f1b(partition: [2, 4]) } }",
        "IL210",
        6,
        "glues",
    ),
    "encodes elsewhere": (
        CUT + "a = vit : transpose(place: suffix)\nb = llm : 1f1b } }",
        "IL210",
        6,
        "prefix",
    ),
    "a parameter without a value": (skeleton("F(lag)", head="k(P, M, lag)"), "IL210", 5, "`lag`"),
    "microbatch M": (skeleton("for i in 0 ..< M {\n F(i + 1) }"), "IL212", 4, "`F(4)`"),
    "a chunk too many": (skeleton("F(0, 1)"), "IL212", 3, "the only chunk is 0"),
    "on one rank only": (skeleton("F(r - 1)"), "IL212", 3, "rank 0, P = 2, M = 4"),
    "owned in a sharded one": (skeleton("for m in owned(r) { F(m) }"), "IL212", 3, "replicated"),
    "body in a sharded one": (skeleton("F(0) body"), "IL212", 1, "`body`"),
    "division by zero": (skeleton("F(0)\nfor i in 0 ..< M { F(M div (i - 2)) }"), "IL213", 4, "zero"),
    "a huge number": (skeleton("let a = 9007199254740992 * 9007199254740992\n F(0)"), "IL213", 3, "2^60"),
    "a huge loop": (skeleton("for i in 0 ..< 9007199254740992 { F(0) }"), "IL104", 3, "20,000,000"),
    "huge nested loops": (
        skeleton("for i in 0 ..< 100000 { for j in 0 ..< 100000 { let k = 1 } }"),
        "IL104",
        3,
        "20,000,000",
    ),
    "a map that misses a stage": (skeleton("F(0)", "place map(a, c) = a div 2"), "IL204", 1, "stage 0 twice"),
    "an order with a gap": (order("rank 0: 0F0\nrank 1: 2F0"), "IL204", 4, "stage 1"),
    "a stage placed twice": (order("rank 0: 0F0", "place { rank 0: 0\nrank 1: 0 }"), "IL204", 2, "twice"),
    "a stage not placed": (order("rank 0: 0F0", "place { rank 0: 0, 2 }"), "IL204", 1, "stage 1"),
    "a rank that does not exist": (order("rank 0: 0F0\nrank 2: 1F0"), "IL204", 4, "no rank 2"),
    "owners of a written stage": (
        order("rank 0: 0F0", "place { replicated 0: owner [0, 1, 0] }"),
        "IL209",
        1,
        "3 entries for 2",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_have_code_and_place(refused, name):
    text, code, line, words = ERRORS[name]
    assert refused(text)[:2] == (code, line)
    assert words in refused(text)[2]


@pytest.mark.parametrize("asked", [{"ranks": 0}, {"microbatches": 0}, {"ranks": -1}])
def test_numbers_below_one(refused, asked):
    assert refused(CUT + "a = vit, llm : 1f1b } }", **asked)[0] == "IL206"


def test_files_that_use_each_other(refused, elaborated, tmp_path):
    (tmp_path / "a.sched").write_text(
        'use "b.sched"\nskeleton one(P, M) sharded { rank r { for i in 0 ..< M { F(i) B(i) } } }'
    )
    (tmp_path / "b.sched").write_text(
        'use "a.sched"\nskeleton two(P, M) sharded { rank r { for i in 0 ..< M { F(i) B(i) } } }'
    )
    text = 'use "a.sched"\nschedule s { ranks 1 microbatches 1 model { layer u { } } cut { x = u : two } }'
    code, _, message = refused(text, str(tmp_path / "main.sched"))
    assert code == "IL208" and "a.sched -> b.sched -> a.sched" in message
    (tmp_path / "b.sched").write_text(
        "skeleton two(P, M) sharded { rank r { for i in 0 ..< M { F(i) B(i) } } }"
    )
    assert len(elaborated(text, str(tmp_path / "main.sched")).program.order) == 2
