"""IL103: a name given twice; IL107: a name nobody has given."""

from __future__ import annotations

import pytest

from language.support import HEAD, codes, diagnostics, read, skeleton

CUT = "model { layers a[2] { } layer b { } } cut { r = a, b : 1f1b }"
ORDER = "order transfers written { rank 0: 0F0 }"


@pytest.mark.parametrize(
    "statements, again",
    [
        ("ranks 3", "ranks 3"),
        ("microbatches 3", "microbatches 3"),
        ("comm pair comm edge", "comm edge"),
        ("memory { } memory { }", "memory { }"),
        ("device { } device { }", "device { }"),
        ("images [1] images [1]", "images [1]"),
        (f"{ORDER} trace {{ }}", "trace { }"),
        ("place { } place { }", "place { }"),
        ("model { } model { }", "model { }"),
        ("communicator c = ranks 0 communicator c = ranks 1", "c"),
        ("model { layer a { } layers a[2] { } }", "a"),
        ("model { layer a { forward 1ms forward 2ms } }", "forward 2ms"),
        ("model { layer a { backward 1ms backward_input 2ms } }", "backward_input 2ms"),
        ("model { layer a { } } cut { r = a : 1f1b r = a : 1f1b }", "r"),
        ("model { layer a { } } cut { r = a : 1f1b(chunks: 1, chunks: 2) }", "chunks: 2"),
        ("order transfers written { rank 0: 0F0 rank 0: }", "0"),
        ("place { rank 1: 0 rank 1: 1 }", "1"),
        ("memory { capacity 1B capacity 2B }", "capacity 2B"),
        ("memory { gradient 1 per weight byte gradient 2 per weight byte }", "gradient 2 per weight byte"),
        ("link { latency 1us latency 2us }", "latency 2us"),
        ('model { kind m { } pattern "M" { "M" = m { forward 1ms } } }', '"M" = m { forward 1ms }'),
        ('model { kind m { } pattern "M" { "M" = m "M" = m } }', '"M" = m'),
    ],
)
def test_given_twice_in_a_schedule(statements, again):
    found, source = diagnostics(f"{HEAD}{statements}\n}}")
    assert [d.code for d in found] == ["IL103"]
    (second, first) = found[0].marks[:2]

    def text(label):
        return source.text[label.span.at :][: label.span.width]

    assert text(second) == again and first.span.at < second.span.at


@pytest.mark.parametrize(
    "text",
    [
        "schedule a { ranks 1 microbatches 1 } schedule a { ranks 1 microbatches 1 }",
        "skeleton a(P) sharded { rank r { } } skeleton a(P) sharded { rank r { } }",
        "skeleton a(P, P) sharded { rank r { } }",
        "skeleton a(P) sharded { rank P { } }",
        "skeleton a(P) sharded chunks 2 chunks 3 { rank r { } }",
        "skeleton a(P) sharded { rank r { } rank q { } }",
        "skeleton a(P) sharded { rank r { let x = 1 let x = 2 } }",
        "skeleton a(P) sharded { rank r { for i in 0 ..< P { let i = 2 } } }",
        "skeleton a(P) sharded { rank r { let x = 1 for i in 0 ..< P { for x in 0 ..< P { } } } }",
    ],
)
def test_given_twice(text):
    assert codes(text) == ["IL103"]


def test_a_name_may_be_taken_again_after_its_block():
    assert skeleton("for i in 0 ..< P { let x = i } for i in 0 ..< P { let x = 2*i } let x = 1")


@pytest.mark.parametrize(
    "statements, message, help",
    [
        (
            f"{CUT} comm pear",
            "unknown communication model `pear`",
            "models: buffered, edge, pair, rank, blocking",
        ),
        (
            f"{CUT} expect valid under pair, rnk",
            "unknown communication model `rnk`",
            "models: buffered, edge, pair, rank, blocking; targets: torch, torchtitan, hyperparallel, npu",
        ),
        (
            f"{CUT} expect invalid IL42",
            "`IL42` is no diagnostic code",
            "codes are IL101 to IL999: `expect invalid IL402`",
        ),
        (f"{CUT} freeze aa", "unknown layer group `aa`", "did you mean `a`?"),
        (f"{CUT} freeze a[1..2]", "`a` has no layer 2", "it has 2: `a[0..1]`"),
        (f"{CUT} freeze b[1]", "`b` has no layer 1", "it is one layer: write `b`"),
        (f"{CUT} for any freezing of r, q", "unknown layer group `q`", "known here: a, b"),
        (f"{CUT} tie a, b @c", "unknown communicator `c`", "declare it: `communicator NAME = ranks 0, 1`"),
        (
            "cut { r = a : 1f1b }",
            "unknown layer group `a`: the schedule has no model",
            "add `model { .. }`; without one, stages are frozen and tied by number: `freeze stage 0`",
        ),
        (
            'model { pattern "M-" { "M" = m { frozen } } }',
            "the pattern's letter `-` stands for nothing",
            'add `"-" = NAME` to its braces',
        ),
        ('model { pattern "M" { "M" = m } }', "unknown kind `m`", "describe it: `kind m { forward 1ms .. }`"),
        (
            "communicator seam = ranks 0 order transfers written { rank 0: 0SEND_F0@seem }",
            "unknown communicator `seem`",
            "did you mean `seam`?",
        ),
        (
            "order transfers written { rank 0: { 0SEND_F0..2@c } }",
            "unknown communicator `c`",
            "declare it: `communicator NAME = ranks 0, 1`",
        ),
        (
            "trace { rank 0: coll(emb, grad) }",
            "unknown communicator `emb`",
            "declare it: `communicator NAME = ranks 0, 1`",
        ),
        (
            "order transfers written { rank 0: 0REDUCE_GRAD }",
            "unknown kind of operation `REDUCE_GRAD`",
            "did you mean `REDUCE`?",
        ),
    ],
)
def test_unknown_in_a_schedule(statements, message, help):
    (found,), _ = diagnostics(f"{HEAD}{statements}\n}}")
    assert (found.code, found.message, found.help) == ("IL107", message, help)


@pytest.mark.parametrize(
    "steps, message",
    [
        ("F(j)", "unknown name `j`"),
        ("let x = x", "unknown name `x`"),
        ("for i in 0 ..< i { }", "unknown name `i`"),
        ("for i in 0 ..< P { } F(i)", "unknown name `i`"),
        ("if q == 0 { }", "unknown name `q`"),
        ("F(mxn(1, 2))", "unknown function `mxn`"),
        ("G(1)", "unknown kind of operation `G`"),
        ("for m in owned(q) { }", "unknown name `q`"),
    ],
)
def test_unknown_in_a_skeleton(steps, message):
    (found,), _ = diagnostics(f"skeleton s(P, M) sharded {{ rank r {{ {steps} }} }}")
    assert (found.code, found.message) == ("IL107", message)


@pytest.mark.parametrize(
    "header",
    [
        "s(P) sharded chunks V",
        "s(P) sharded where M >= 1",
        "s(P) sharded place spiral",
        "s(P) sharded place map(r, c) = c*M",
    ],
)
def test_unknown_in_the_header_of_a_skeleton(header):
    assert codes(f"skeleton {header} {{ rank q {{ }} }}") == ["IL107"]


def test_figures_of_claims_are_not_the_parsers_affair():
    assert read("skeleton s(P) sharded { rank r { } prove { anything(r) <= whatever under pair } }")
