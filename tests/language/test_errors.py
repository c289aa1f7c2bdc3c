"""Errors of broken texts: code, line, column and message of each; one error neither hides the next nor causes
it.
"""

from __future__ import annotations

import pytest

from interlock.language.parse import read_header_expectations
from interlock.language.recovery import MAX_ERRORS
from language.support import FILES, HEAD, diagnostics, errors

GOLDEN = [
    ("schedule", [("IL101", 1, 9, "expected a name for the schedule after `schedule`")]),
    ("", [("IL106", 1, 1, "this file contains neither a schedule nor a skeleton")]),
    ("# later\n", [("IL106", 1, 1, "this file contains neither a schedule nor a skeleton")]),
    ('use "a.sched"\n', [("IL106", 1, 1, "this file contains neither a schedule nor a skeleton")]),
    (
        "schedule x {\n  ranks 2\n  microbatches 1\n",
        [("IL101", 1, 12, "the `{` of `schedule` is never closed")],
    ),
    (
        "schedule x {\n  microbatches 1\n}",
        [("IL101", 1, 10, "schedule `x` does not say how many ranks it has")],
    ),
    (
        "schedule x {\n  ranks 1\n}",
        [("IL101", 1, 10, "schedule `x` does not say how many microbatches it has")],
    ),
    (
        "schedule x {\n  ranks\n  microbatches 4\n  comm pear\n}",
        [
            ("IL101", 2, 8, "expected a whole number after `ranks`, not `microbatches`"),
            ("IL107", 4, 8, "unknown communication model `pear`"),
        ],
    ),
    (
        "skedule x { ranks 2 mikrobatches 4 }",
        [("IL101", 1, 1, "unknown word `skedule`"), ("IL101", 1, 21, "unknown word `mikrobatches`")],
    ),
    (
        HEAD + "  foo bar\n  Comm pair\n}",
        [("IL101", 4, 3, "`foo` cannot follow `4`"), ("IL101", 5, 3, "unknown word `Comm`")],
    ),
    (HEAD + "  layers a[2] { }\n}", [("IL101", 4, 3, "`layers` does not belong in `schedule`")]),
    (
        HEAD + "  model { layers a[2] { forward  weights 3mb  actvation 3MiB output 1.5 GiB } }\n}",
        [
            ("IL101", 4, 34, "expected a duration such as `1.6ms` after `forward`, not `weights`"),
            ("IL102", 4, 42, "unknown unit `mb` in `3mb`"),
            ("IL101", 4, 47, "unknown word `actvation`"),
            ("IL102", 4, 69, "expected a size such as `96MiB` after `output`, not `1.5`"),
            ("IL101", 4, 73, "the unit `GiB` stands apart from its number"),
        ],
    ),
    (
        HEAD + "  cut {\n    a = vit proj : transpose\n    b = llm 1f1b\n  }\n  expect valid undr pair\n}",
        [
            ("IL101", 5, 13, "expected `,` between `vit` and `proj`"),
            ("IL101", 6, 13, "expected `:`, `,` or `[` after `llm`, not `1f1b`"),
            ("IL101", 8, 16, "unknown word `undr`"),
        ],
    ),
    (
        HEAD + "  order transfers written {\n    rank 0: 0F0 ... 0F1 ) 0B0\n    rank 1 1F0\n  }\n}",
        [
            ("IL101", 5, 17, "`...` is not part of the language"),
            ("IL101", 5, 25, "`)` closes nothing"),
            ("IL101", 6, 12, "expected `:` after `1`, not `1F0`"),
        ],
    ),
    (
        HEAD + "  order transfers written {\n    rank 0: 0F0\n  expect valid\n}\n",
        [("IL101", 4, 27, "the `{` of `order` is never closed")],
    ),
    (
        "skeleton s(P M) {\n  rank r { F(i }\n  prove for P = 1 { }\n}\nschedule y {\n  ranks 4GiB\n  "
        "microbatches 1.5\n}",
        [
            ("IL101", 1, 14, "expected `,` between `P` and `M`"),
            ("IL101", 1, 17, "expected `replicated` or `sharded` after `)`, not `{`"),
            ("IL101", 2, 16, "expected `,` or `)` after `i`, not `}`"),
            ("IL101", 3, 15, "`=` compares nothing"),
            ("IL102", 6, 9, "`4GiB`: a whole number has no unit"),
            ("IL102", 7, 16, "`1.5` is no whole number"),
        ],
    ),
    (
        "skeleton s(P, M) sharded {\n  rank r {\n    for i in 0..M { F(i) }\n    for i in 0 ..< M/2 { }\n   "
        " if i = 0 { F(0, 0, 0) }\n    if 0 < r < 3 { }\n    let P = 2q\n  }\n}",
        [
            ("IL101", 3, 15, "a loop runs over a half-open range"),
            ("IL101", 4, 21, "`/` is no operator"),
            ("IL101", 5, 10, "`=` compares nothing"),
            ("IL101", 5, 16, "`F` takes 1 to 2 arguments, not 3"),
            ("IL101", 6, 14, "comparisons do not chain"),
            ("IL102", 7, 13, "unknown unit `q` in `2q`"),
        ],
    ),
    (
        "skeleton s(P) sharded {\n  rank r {\n    for i in P { }\n    if P { }\n    let x = P < 1\n    "
        "overlap { F(0) }\n    group { F(0) }\n    F(min(1))\n  }\n  prove { 3 }\n}",
        [
            ("IL101", 3, 14, "expected a range such as `0 ..< n`, or `owned(r)`, after `in`"),
            ("IL101", 4, 8, "expected a condition, not a number"),
            ("IL101", 5, 13, "expected a number, not a condition"),
            ("IL101", 6, 5, "an overlap has two halves: one F, and one of B, I, W"),
            ("IL101", 7, 5, "a group is one launch of transfers"),
            ("IL101", 8, 7, "`min` takes two arguments or more"),
            ("IL101", 10, 11, "expected a comparison, such as `peak <= 60GiB`"),
        ],
    ),
    (
        "schedule a {\n  ranks 2;\n  microbatches 4\n}\n}",
        [("IL101", 2, 10, "`;` is not part of the language"), ("IL101", 5, 1, "`}` closes nothing")],
    ),
    (
        "schedule a {\n  ranks 2\n  microbatches 4\n}\n} }\n}\nskedule",
        [
            ("IL101", 5, 1, "`}` closes nothing, and so do the 2 after it"),
            ("IL101", 7, 1, "unknown word `skedule`"),
            ("IL101", 7, 8, "expected a name for the schedule after `schedule`"),
        ],
    ),
    ("}" * 100_000, [("IL101", 1, 1, "`}` closes nothing, and so do the 99,999 after it")]),
    ("}\n}", [("IL101", 1, 1, "`}` closes nothing, and so does the one after it")]),
    ("schedule é { ranks 1 microbatches 1 }", [("IL101", 1, 10, "`é` is not part of the language")]),
    ('{"json": 1}', [("IL101", 1, 1, "`{` is no statement of the file")]),
    ("0,FORWARD,0\n", [("IL101", 1, 1, "`0` is no statement of the file")]),
    (
        HEAD + '  model "a.toml\n  comm pair\n}',
        [("IL101", 4, 9, "this text in quotes has no end on its line")],
    ),
    (
        HEAD
        + "  model { layer a { } }\n  cut { r = a : 1f1b }\n  order transfers inserted { }\n  place { }\n}",
        [
            ("IL101", 6, 3, "schedule `s` has a `cut` and an order written out"),
            ("IL101", 7, 3, "`place` stands beside an order written out, not beside a `cut`"),
        ],
    ),
    ("skeleton s(P) sharded { }", [("IL101", 1, 10, "skeleton `s` has no program")]),
    (
        HEAD + '  model { pattern "" { "ab" = m { frozen } } }\n}',
        [
            ("IL101", 4, 19, "this pattern has no letter"),
            ("IL101", 4, 24, '`"ab"`: a pattern has one letter for a layer'),
        ],
    ),
]


@pytest.mark.parametrize("text, expected", GOLDEN, ids=range(len(GOLDEN)))
def test_golden(text, expected):
    assert errors(text) == expected


QWEN, ORDERS, SKELETONS = (
    (FILES[0].parent / f"{name}.sched").read_text() for name in ("qwen_vl", "orders", "skeletons")
)


@pytest.mark.parametrize(
    "text, old, new, message",
    [
        (QWEN, "layers vit", "layer vit", "expected `{` after `vit`, not `[`"),
        (QWEN, "  model {", "  mdl {", "unknown word `mdl`"),
        (QWEN, "  cut {", "  cut", "expected `{` after `cut`, not `encoder`"),
        (QWEN, "    encoder  =", "    } encoder  =", "`encoder` stands behind the end of `cut`"),
        (QWEN, "  images", "  }\n  images", "`images` stands behind the end of `schedule`"),
        (QWEN, "per image  backward_input", "per imge  backward_input", "unknown word `imge`"),
        (QWEN, "frozen }", "frozen", "the `{` of `layers` is never closed"),
        (ORDERS, "place {", "place", "expected `{` after `place`, not `rank`"),
        (ORDERS, "0F1 {", "0F1", "`3F0` stands behind the end of `order`"),
        (ORDERS, "fragment trace {", "fragment {", "expected `order` or `trace` after `fragment`, not `{`"),
        (
            ORDERS,
            "schedule traced {",
            "schedule {",
            "expected a name for the schedule after `schedule`, not `{`",
        ),
        (SKELETONS, "rank r {\n    let warm", "rank r\n    let warm", "expected `{` after `r`, not `let`"),
        (SKELETONS, "else  ", "els  ", "unknown word `els`"),
        (SKELETONS, "B(q, 1) }", "B(q, 1)", "the `{` of `if` is never closed"),
        (SKELETONS, "let q =", "let q", "expected `=` after `q`, not `P`"),
        (SKELETONS, "F(P + i, 1)", "F(P + , 1)", "expected an expression after `+`, not `,`"),
        (SKELETONS, "where M", "wher M", "unknown word `wher`"),
        (SKELETONS, "..< warm ", "..> warm ", "a loop runs over a half-open range"),
    ],
)
def test_one_mistake_gives_one_error(text, old, new, message):
    assert old in text
    found, _ = diagnostics(text.replace(old, new, 1))
    assert [d.message for d in found] == [message]


def test_messages_are_the_users():
    """No terminal of the grammar, no "Expected one of", nothing empty."""
    for text, _ in GOLDEN:
        for d in diagnostics(text)[0]:
            for words in (d.message, d.help):
                assert "one of:" not in words and "__" not in words and "``" not in words
                assert not any(
                    word.strip("`,.:").isupper()
                    and word.strip("`,.:") in ("LBRACE", "NUMBER", "NAME", "OPS", "CAPITALS")
                    for word in d.message.split()
                )


@pytest.mark.parametrize(
    "text, expected",
    [
        ("# expect: invalid IL101\n{{{", [("invalid", ["IL101"], [])]),
        (
            "\n#expect: invalid IL101, IL102 under pair, rank\n# expect: valid\n# and a word\nschedule s "
            "{\n# expect: unknown\n",
            [("invalid", ["IL101", "IL102"], ["pair", "rank"]), ("valid", [], [])],
        ),
        ("  # expect: vacuous  \r\n", [("vacuous", [], [])]),
        ("# expect: perhaps\n# expect invalid IL101\nx", []),
    ],
)
def test_header_expectations(text, expected):
    found = read_header_expectations(text, 1000)
    assert [(e.verdict, [str(c) for c in e.codes], [str(m) for m in e.models]) for e in found] == expected
    for e in found:
        assert text[e.span.at - 1000 :][:8].startswith("#") and all(
            text[c.span.at - 1000 :][:5] == c.text for c in e.codes
        )


def test_the_last_of_the_errors_shown_says_that_there_may_be_more():
    found, _ = diagnostics(HEAD + "  order transfers written {\n    rank 0: " + "x " * 40 + "\n  }\n}")
    assert (
        len(found) == MAX_ERRORS
        and "what may follow is not shown" in found[-1].help
        and "shown" not in found[-2].help
    )
