"""The layout: a fixed point, every word and comment kept, the tree unchanged."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.language.format import format
from language.support import FILES, bare, read

TEXTS = [path.read_text() for path in FILES]
WORDS = sorted({word for text in TEXTS for word in re.findall(r"#.*|\w+|[^\w\s]+", text)})
soup = st.lists(
    st.tuples(
        st.sampled_from(WORDS + ['"', "# a  comment\t", "{", "}", "(", ")", "[", "]", ",", "#"]),
        st.sampled_from(["", " ", "  ", "\t", "\n", "\n\n\n", " \r\n"]),
    ),
    max_size=80,
).map(lambda t: "".join(a + b for a, b in t))


def comments(text: str) -> list[str]:
    return [m.group().rstrip() for m in re.finditer(r'"[^"\n]*"|#[^\n]*', text) if m.group().startswith("#")]


@pytest.mark.parametrize("text", TEXTS, ids=[p.stem for p in FILES])
def test_formatting_never_changes_the_tree(text):
    assert bare(read(format(text))) == bare(read(text))


@given(
    st.sampled_from(TEXTS),
    st.lists(
        st.tuples(
            st.integers(0, 400), st.sampled_from([" ", "   ", "\n", "\n\n\n", "  # note, {  x }\n", "\t"])
        ),
        max_size=12,
    ),
)
def test_formatting_a_valid_file(text, changes):
    gaps = [m.span() for m in re.finditer(r'#.*|"[^"]*"|[ \n]+', text) if m.group().isspace()]
    for index, gap in sorted(changes, reverse=True):
        start, end = gaps[index % len(gaps)]
        if "#" not in text[text.rfind("\n", 0, start) + 1 : start]:
            text = text[:start] + gap + text[end:]
    try:
        tree = bare(read(text))
    except Exception:
        tree = None
    once = format(text)
    assert format(once) == once and comments(once) == comments(text)
    assert tree is None or bare(read(once)) == tree


@given(soup)
def test_formatting_any_words(text):
    once = format(text)
    assert format(once) == once
    assert "".join(once.split()) == "".join(text.split())
    assert comments(once) == comments(text)
    assert "\n\n\n" not in once and not re.search(r"[ \t\r]\n", once)


@given(st.text(max_size=60))
def test_formatting_any_text(text):
    once = format(text)
    assert format(once) == once
    blank = " \t\f\v\r\n"
    assert [c for c in once if c not in blank] == [c for c in text if c not in blank]


@pytest.mark.parametrize(
    "before, after",
    [
        ("", ""),
        ("\n\n", ""),
        ("a\n\n\n\nb", "a\n\nb\n"),
        ("a { \n\n b }", "a {\n\n  b }\n"),
        ("schedule s{\nranks   4\n}", "schedule s {\n  ranks  4\n}\n"),
        ("f( a ,b )", "f(a, b)\n"),
        ("x [ 1,2 ]", "x [1, 2]\n"),
        ("{F(0)}", "{ F(0) }\n"),
        ("a { b {\nc\n} }", "a { b {\n  c\n} }\n"),
        ("a {\nb\n}\n}\nc", "a {\n  b\n}\n}\nc\n"),
        ("x 1     y 2", "x 1  y 2\n"),
        ("a 1 # x\nbbb 2   # y", "a 1    # x\nbbb 2  # y\n"),
        ("f   { a }\nlong { b }", "f    { a }\nlong { b }\n"),
        ("f { a }\nlong { b }", "f { a }\nlong { b }\n"),
        ("ab   = 1\nabcd = 2\n\na = 3", "ab   = 1\nabcd = 2\n\na = 3\n"),
        ('p "a  {b" {', 'p "a  {b" {\n'),
        ("# a\n   #  b  ", "# a\n#  b\n"),
        ("a {\n# b\n}", "a {\n  # b\n}\n"),
    ],
)
def test_layout(before, after):
    assert format(before) == after


def test_a_line_that_goes_on_stands_below_what_it_goes_on_with():
    text = """schedule a {
  model {
    layers vit[2]  { forward 1ms
      weights 1MiB }
    layer head {
      forward 1ms
    }
  }
  order transfers inserted {
    rank 0: 0F0 0F1
      0B0 0B1
    rank 1: 1F0
  }
}
"""
    assert (
        format(text)
        == """schedule a {
  model {
    layers vit[2] { forward 1ms
                    weights 1MiB }
    layer head {
      forward 1ms
    }
  }
  order transfers inserted {
    rank 0: 0F0 0F1
            0B0 0B1
    rank 1: 1F0
  }
}
"""
    )


def test_the_project_s_own_files_are_formatted():
    root = Path(__file__).parents[2]
    files = [
        f
        for folder in ("examples", "spec/std", "tests/cases")
        for f in sorted((root / folder).glob("*.sched"))
    ]
    assert len(files) > 40
    assert [f.name for f in files if format(f.read_text()) != f.read_text()] == []
