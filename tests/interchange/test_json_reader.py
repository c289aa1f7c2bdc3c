"""The reader of JSON and flow lists: values with their places, and what it refuses."""

import json
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.interchange.json_reader import MAX_BYTES, Reader, Value, decode, read_json
from interlock.text.finding import InputError
from interlock.text.source import Source, Sources

from .reading import refused

DATA = st.recursive(
    st.none() | st.integers(-(10**6), 10**6) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


def plain(value: Value):
    match value.data:
        case list() as items:
            return [plain(v) for v in items]
        case dict() as entries:
            return {k: plain(v) for k, v in entries.items()}
    return value.data


def depth(data) -> int:
    return (
        1 + max(map(depth, data.values() if isinstance(data, dict) else data), default=0)
        if isinstance(data, dict | list)
        else 0
    )


@settings(max_examples=200)
@given(DATA.filter(lambda d: depth(d) < 8), st.booleans())
def test_what_json_writes_is_read_with_its_places(data, ascii):
    text = json.dumps(data, ensure_ascii=ascii)
    source = Source("x", text, 7)
    value = read_json(source)
    assert plain(value) == data and (value.span.at, value.span.width) == (7, len(text))
    if isinstance(value.data, list):
        assert [json.loads(text[v.span.at - 7 :][: v.span.width]) for v in value.data] == data


@settings(max_examples=200)
@given(st.text("[]{}()\",:01-.ab \\'\n", max_size=20))
def test_any_text_is_read_or_refused(text):
    for words in (False, True):
        try:
            Reader(Sources().add("x", text), words=words).value()
        except InputError as e:
            assert e.findings[0].code == "IL112" and e.findings[0].help


def test_decimals_and_words():
    assert read_json(Sources().add("x", "1.50")).data == Decimal("1.50")
    assert plain(Reader(Sources().add("x", "(f, [a_b, 2],)"), words=True).value()) == ["f", ["a_b", 2]]


@pytest.mark.parametrize(
    ("text", "at", "says"),
    [
        ("{", "{", "ends where a name"),
        ("[1,2", "2", "ends where `,` or `]`"),
        ('["a" "b"]', '"b"', "`,` or `]`"),
        ('{"a":1,"a":2}', '"a"', "twice"),
        ("['a']", "'", "single quotes"),
        ('["a\n"]', '"', "without its end"),
        ("[true]", "true", "a value"),
        ("[1] 2", "2", "the end of the file"),
        ("[" * 9 + "]" * 9, "[", "nested"),
        ("[1,]", "]", "a value"),
        ("[01]", "0", "a value"),
        ("[1e5]", "1", "a value"),
        ('["\\q"]', '"\\q"', "escape"),
        ('{"\\q": 1}', '"\\q"', "escape"),
        ("[(1)]", "(", "a value"),
    ],
)
def test_errors(text, at, says):
    code, pointed, said = refused(read_json, text)
    assert (code, pointed) == ("IL112", at) and says in said


@pytest.mark.parametrize(
    ("data", "code"),
    [(b"\xff\xfe[", "IL105"), (b"[\x00]", "IL105"), (b" \n", "IL106"), (b" " * (MAX_BYTES + 1), "IL104")],
)
def test_what_is_no_text(data, code):
    with pytest.raises(InputError) as caught:
        decode(data)
    assert caught.value.findings[0].code == code


def test_a_byte_order_mark_is_no_value():
    assert decode(b"\xef\xbb\xbf[]") == "[]"
