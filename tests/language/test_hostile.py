"""Input made to hurt: bounded time and memory, a diagnostic and never another exception."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.language.format import format
from interlock.language.parse import LARGEST_FILE, decode, parse
from interlock.language.recovery import MAX_ERRORS
from interlock.text.finding import InputError
from interlock.text.source import Sources
from language.support import FILES, HEAD, codes, diagnostics, read
from work import grows_linearly

MEGA = 10**6


@pytest.mark.parametrize(
    "text, code",
    [
        ("{" * 100_000, "IL104"),
        ("(" * MEGA, "IL104"),
        ("[{(" * 100_000, "IL104"),
        ("}" * MEGA, "IL101"),
        ("{}" * MEGA, "IL101"),
        ("schedule s " + "{" * 65 + "}" * 65, "IL104"),
        ("a" * MEGA, "IL101"),
        ("1" * MEGA, "IL101"),
        ("schedule " + "a" * MEGA + " { ranks 1 microbatches 1 }", "IL104"),
        ("schedule s { ranks " + "1" * MEGA + " microbatches 1 }", "IL104"),
        ('"' * MEGA, "IL101"),
        ('"\n' * MEGA, "IL101"),
        ("#" * MEGA, "IL106"),
        ("\n" * MEGA, "IL106"),
        (" " * MEGA, "IL106"),
        ("0F0 " * 100_000, "IL101"),
        ("....." * 100_000, "IL101"),
        ("schedule " * 100_000, "IL101"),
        ("é" * MEGA, "IL101"),
        (HEAD + "order transfers inserted { rank 0: " + "0F0.. " * 100_000, "IL101"),
        (HEAD + "comm " + "pair " * 50_000 + "}", "IL101"),
        (HEAD + "ranks 1 " * 20_000 + "}", "IL103"),
        (HEAD + "model { " + "layer a { } " * 20_000 + "} }", "IL103"),
        ("skeleton s(P) sharded { rank r { let x = " + "1 + " * 50_000 + "1 } }", "IL104"),
        ("skeleton s(P) sharded { rank r { let x = " + "-" * 50_000 + "1 } }", "IL104"),
        ("skeleton s(P) sharded { rank r { if " + "not " * 50_000 + "1 < 2 { } } }", "IL104"),
        ("skeleton s(P) sharded { rank r { " + "let x = y " * 20_000 + "} }", "IL107"),
        ("skeleton s(P) sharded { rank r { " + "G(0) " * 20_000 + "} }", "IL107"),
        (HEAD + "order transfers inserted { rank 0: 0F0..999999999 }\n}", "IL104"),
        (HEAD + "communicator c = ranks 0..999999999999999999999\n}", "IL104"),
        ("a" * (LARGEST_FILE + 1), "IL104"),
        ("é" * (LARGEST_FILE // 2 + 1), "IL104"),
        ("schedule s { ranks\0 1 }", "IL105"),
        ("# \ud800", "IL105"),
        ("# �", "IL105"),
    ],
    ids=range(35),
)
def test_hostile_texts_have_short_diagnostics(text, code):
    found, _ = diagnostics(text)
    assert found[0].code == code and len(found) <= MAX_ERRORS
    assert all(len(d.message) < 300 and len(d.help) < 400 for d in found)


@pytest.mark.parametrize(
    "text",
    [
        "skeleton s(P) sharded { rank r { let x = " + "(" * 60 + "1" + ")" * 60 + " } }",
        "skeleton s(P) sharded { rank r { " + "if P == 1 { " * 60 + "}" * 60 + " } }",
        "skeleton s(P) sharded { rank r { let x = " + " + ".join("1" * 90) + " } }",
        "skeleton s(P) sharded { rank r { if P == 1 { }" + " else if P == 1 { }" * 3000 + " } }",
        "skeleton s(P) sharded { rank r { let a0 = 1 "
        + " ".join(f"let a{i + 1} = a{i}" for i in range(3000))
        + " } }",
        HEAD + "communicator c = ranks 0..9007199254740992\n}",
    ],
)
def test_large_but_legal(text):
    assert repr(read(text))


@pytest.mark.parametrize("blank", [" ", "\n"], ids=["blank", "line"])
def test_the_work_grows_with_the_order(blank):
    def read_order(size: int):
        text = blank.join(f"{i % 8}F{i}" for i in range(size))
        order = read(f"{HEAD}order transfers inserted {{ rank 0: {text} }}\n}}").schedules[0].order
        assert len(order.ranks[0].items) == size

    read_order(20_000)
    assert grows_linearly(read_order, 500)


def test_bytes_that_are_no_text():
    assert decode("f", "a é".encode()) == "a é" and decode("f", b"\xef\xbb\xbfa") == "a"
    for data, code in (
        (b"\xff\xfe\0", "IL105"),
        (bytes(range(256)), "IL105"),
        (b"a" * (LARGEST_FILE + 1), "IL104"),
    ):
        with pytest.raises(InputError) as e:
            decode("f", data)
        assert e.value.findings[0].code == code


def outcome(text: str):
    try:
        return parse(Sources().add("t", text))
    except InputError as e:
        assert e.findings and all(d.code.startswith("IL10") and d.message for d in e.findings)
        for d in e.findings:
            for label in d.marks:
                assert 0 <= label.span.at <= len(text) and label.span.width >= 1


@given(st.text(max_size=80))
def test_any_text(text):
    outcome(text)


@given(st.binary(max_size=80))
def test_any_bytes(data):
    try:
        text = decode("f", data)
    except InputError:
        return
    outcome(text)


def broken(text: str, seed: int) -> str:
    """The text with up to three of its words deleted, doubled or swapped for others of it."""
    rng = random.Random(seed)
    words = text.split(" ")
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(words))
        match rng.randrange(4):
            case 0:
                del words[at]
            case 1:
                words.insert(at, rng.choice(words))
            case 2:
                words[at] = rng.choice(words)
            case _:
                words[at] = words[at][:-1]
    return " ".join(words)


@settings(max_examples=150)
@given(st.sampled_from(FILES), st.integers(0, 2**32))
def test_broken_files(path, seed):
    text = broken(path.read_text(), seed)
    outcome(text)
    assert format(format(text)) == format(text)


def test_an_error_does_not_cause_others():
    """Over many broken files, about one error for each thing broken."""
    errors = 0
    for seed in range(200):
        try:
            read(broken(FILES[seed % len(FILES)].read_text(), seed))
        except InputError as e:
            errors += len(e.findings)
    assert errors < 200 * 2.5


def test_parsers_of_several_threads_do_not_meet():
    from concurrent.futures import ThreadPoolExecutor

    texts = [f"schedule s{i} {{ ranks {i + 1} microbatches 1 comm pear }}" for i in range(40)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(codes, texts)) == [["IL107"]] * 40
