"""`profile.toml` read and written: what it may say, and the place and the repair of everything else."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.profile import read as reading
from interlock.profile.data import LayerProfile, Measured, Profile
from interlock.profile.places import Places
from interlock.profile.write import to_toml
from interlock.program.ir import Size
from interlock.text.source import Sources
from profiles import HEAD, LAYER, read, wrong


def test_units_counts_and_groups():
    profile = read(
        HEAD
        + """
[measured]
device = "H"
repeats = 3

[[layer]]
name = "vit[0]"
forward = "1.0000001ms"            # rounded up
backward_input = "40us per image"
modality = "vision"
frozen = true

[[layer]]
name = "llm"
count = 3
forward = 412_000
backward = 9
backward_weight = 7
activation = "2KiB"
weights = "1KB"
recompute = true
spread = { forward = 4 }
inputs = ["float32[4, 16]", "int64[]"]

[[layer]]
name = "vit[1]"
forward = 0
"""
    )
    vit, llm, last = profile.layers
    assert vit.times == {"forward": Size(1_000_001), "backward_input": Size(0, 40_000)} and (
        vit.modality,
        vit.frozen,
        vit.group,
    ) == ("vision", True, "vit")
    assert llm.times == {
        "forward": Size(412_000),
        "backward": Size(9),
        "backward_weight": Size(7),
    } and llm.sizes == {"activation": Size(2048), "weights": Size(1000)}
    assert (llm.count, llm.recompute, llm.spread, llm.inputs) == (
        3,
        True,
        {"forward": 4},
        ("float32[4, 16]", "int64[]"),
    )
    assert last.name == "vit[1]" and profile.measured == Measured(device="H", repeats=3)
    assert profile.unsized() == (vit, "activation")


WRONG = {
    # form
    "no TOML": (HEAD + "x = = 3\n", "IL114", 2, 5),
    "empty": ("", "IL114", 1, 1),
    "no format": (LAYER, "IL114", 1, 1),
    "another version": (HEAD.replace("/1", "/2") + LAYER, "IL114", 1, 10),
    "no layer": (HEAD, "IL114", 1, 1),
    "layers are no tables": (HEAD + "layer = 3\n", "IL114", 2, 9),
    "unknown table": (HEAD + LAYER + "[layers]\n", "IL114", 5, 1),
    "unknown key": (HEAD + LAYER + "forwards = 3\n", "IL114", 5, 1),
    "unknown key of the second": (HEAD + LAYER + LAYER.replace('"a"', '"b"') + "colour = 1\n", "IL114", 8, 1),
    "unknown key of measured": (HEAD + '[measured]\ngpu = "H"\n' + LAYER, "IL114", 3, 1),
    "measured is a number": (HEAD + "measured = 3\n" + LAYER, "IL114", 2, 12),
    "a key twice": (HEAD + LAYER + "forward = 6\n", "IL114", 5, 12),
    "repeats are text": (HEAD + '[measured]\nrepeats = "20"\n' + LAYER, "IL114", 3, 11),
    "no name": (HEAD + "[[layer]]\nforward = 5\n", "IL114", 2, 1),
    "a name of signs": (HEAD + LAYER.replace('"a"', '"a.b"'), "IL114", 3, 8),
    "a long name": (HEAD + LAYER.replace('"a"', f'"{"a" * 200}"'), "IL114", 3, 8),
    "two of a name": (HEAD + LAYER + LAYER, "IL114", 6, 8),
    "two of a layer": (HEAD + 2 * LAYER.replace('"a"', '"a[0]"'), "IL114", 6, 8),
    "a layer left out": (HEAD + LAYER.replace('"a"', '"a[1]"'), "IL114", 3, 8),
    "a layer of no group": (HEAD + LAYER + LAYER.replace('"a"', '"a[0]"'), "IL114", 6, 8),
    "count of one of a group": (HEAD + LAYER.replace('"a"', '"a[0]"') + "count = 2\n", "IL114", 5, 9),
    "count of nothing": (HEAD + LAYER + "count = 0\n", "IL114", 5, 9),
    "count is true": (HEAD + LAYER + "count = true\n", "IL114", 5, 9),
    "frozen is text": (HEAD + LAYER + 'frozen = "yes"\n', "IL114", 5, 10),
    "modality is a list": (HEAD + LAYER + "modality = []\n", "IL114", 5, 12),
    "inputs are text": (HEAD + LAYER + 'inputs = "x"\n', "IL114", 5, 10),
    "spread of what is no time": (HEAD + LAYER + "[layer.spread]\nbackward = 3\n", "IL114", 6, 1),
    # figures
    "no forward": (HEAD + LAYER.replace("forward = 5\n", ""), "IL115", 2, 1),
    "negative": (HEAD + LAYER + "activation = -4\n", "IL115", 5, 14),
    "negative text": (HEAD + LAYER + 'backward = "-4ms"\n', "IL115", 5, 12),
    "a fraction": (HEAD + LAYER.replace("5", "5.5"), "IL115", 4, 11),
    "true": (HEAD + LAYER.replace("5", "true"), "IL115", 4, 11),
    "a date": (HEAD + LAYER.replace("5", "2024-01-01"), "IL115", 4, 11),
    "no unit": (HEAD + LAYER.replace("5", '"5"'), "IL115", 4, 11),
    "bytes for a time": (HEAD + LAYER.replace("5", '"5MiB"'), "IL115", 4, 11),
    "a time for bytes": (HEAD + LAYER + 'output = "5ms"\n', "IL115", 5, 10),
    "an unknown unit": (HEAD + LAYER.replace("5", '"5parsecs"'), "IL115", 4, 11),
    "a word": (HEAD + LAYER.replace("5", '"long"'), "IL115", 4, 11),
    "weights of an image": (HEAD + LAYER + 'weights = "5MiB per image"\n', "IL115", 5, 11),
    "too large": (HEAD + LAYER.replace("5", str(2**53 + 1)), "IL115", 4, 11),
    "a spread per image": (HEAD + LAYER + 'spread = { forward = "1ns per image" }\n', "IL115", 5, 10),
    "negative spread": (HEAD + LAYER + "spread = { forward = -1 }\n", "IL115", 5, 10),
    "until_weight above activation": (HEAD + LAYER + "activation = 4\nuntil_weight = 5\n", "IL115", 6, 16),
    "until_weight without activation": (HEAD + LAYER + "until_weight = 5\n", "IL115", 5, 16),
    "a number with a unit": (HEAD + LAYER + 'vocabulary = "5MiB"\ntokens = 3\n', "IL115", 5, 14),
    "a part of a token": (HEAD + LAYER + 'vocabulary = 5\ntokens = "0.5 per image"\n', "IL115", 6, 10),
    "a vocabulary of an image": (HEAD + LAYER + 'vocabulary = "5 per image"\ntokens = 3\n', "IL115", 5, 14),
    "a vocabulary without tokens": (HEAD + LAYER + "vocabulary = 5\n", "IL115", 5, 14),
    # limits
    "many equal layers": (
        HEAD + LAYER + "count = 60_000\n" + LAYER.replace('"a"', '"b"') + "count = 60_000\n",
        "IL104",
        7,
        8,
    ),
    "a large file": (HEAD + LAYER + "#" * (4 << 20), "IL104", 1, 1),
    "a number of many digits": (HEAD + LAYER.replace("5", "9" * 5000), "IL114", None, None),
    "a key of many parts": (HEAD + LAYER + "a." * 200_000 + "a = 1\n", "IL114", 5, 1),
    "a table of many parts": (HEAD + 'x = """a"""" # \\\n[' + '"=".' * 200_000 + "a]\n", "IL114", None, None),
    "a deep nest": (HEAD + "measured = " + "[" * 5000 + "]" * 5000 + "\n", "IL114", None, None),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_has_a_place_and_a_repair(name):
    content, code, line, column = WRONG[name]
    found = wrong(content)
    assert found[0] == code and all(found[3:]) and len(found[3]) < 300
    assert line is None or found[1:3] == (line, column), found


def test_what_was_meant():
    assert "`forward`" in wrong(HEAD + LAYER + "forwards = 3\n")[4]
    assert wrong(HEAD + 2 * LAYER.replace('"a"', '"a[0]"'))[4] == "write `a[1]`"
    assert "KiB MiB" in wrong(HEAD + LAYER + 'output = "5ms"\n')[4]


def test_places_in_any_dress():
    content = HEAD + '"layer" = [{ name = "a", forward = -1 }]\n'
    assert wrong(content)[:3] == ("IL115", 2, 11)  # in braces: the whole
    source = Sources().add(
        "x",
        'a = """\n[b]\nc = 1"""  # d = 3\n"e".f = [1,\n  2]\n[[g]]\n[g.h]\ni = 5\n[[g]]\ni = { j = "k=l" }\n',
    )
    places = Places(source)

    def at(span):
        return (*source.line_column(span.at), source.text[span.at : span.at + span.width])

    assert at(places.key("e", "f")) == (4, 1, '"e".f') and at(places.value("e", "f")) == (4, 9, "[1,\n  2]")
    assert (
        at(places.value("g", 0, "h", "i")) == (8, 5, "5")
        and at(places.key("g", 1, "i", "j")) == (10, 1, "i")
        and at(places.key("g", 1)) == (9, 1, "[[g]]")
    )
    assert at(places.key("c")) == (1, 1, "a")  # within a text: no key


names = st.from_regex(r"[a-z_][a-z0-9_]{0,9}", fullmatch=True)
sizes = st.builds(Size, st.integers(0, 2**53)) | st.builds(Size, st.just(0), st.integers(1, 2**53))


@st.composite
def profiles(draw) -> Profile:
    layers = []
    for group in draw(st.lists(names, min_size=1, max_size=4, unique=True)):
        indexed = draw(st.integers(0, 3))
        for i in range(max(indexed, 1)):
            times = {"forward": draw(sizes)} | draw(
                st.dictionaries(st.sampled_from(("backward", "backward_input", "backward_weight")), sizes)
            )
            held = draw(
                st.dictionaries(st.sampled_from(("activation", "output", "workspace")), sizes)
            ) | draw(st.dictionaries(st.just("weights"), st.builds(Size, st.integers(0, 2**53))))
            if draw(st.booleans()):
                held |= {"vocabulary": Size(draw(st.integers(1, 2**53))), "tokens": draw(sizes)}
            if "activation" in held and draw(st.booleans()):
                held["until_weight"] = held["activation"]
            layers.append(
                LayerProfile(
                    f"{group}[{i}]" if indexed else group,
                    times,
                    held,
                    1 if indexed else draw(st.integers(1, 9)),
                    draw(st.none() | names),
                    draw(st.booleans()),
                    draw(st.booleans()),
                    draw(st.sampled_from(((), ("float32[4, 16]",)))),
                    (),
                    draw(st.dictionaries(st.sampled_from(sorted(times)), st.integers(0, 2**53))),
                )
            )
    said = st.none() | st.text(st.characters(exclude_categories=("C", "Z")), max_size=20)
    return Profile(
        tuple(layers),
        Measured(*(draw(said) for _ in range(4)), *(draw(st.none() | st.integers(0, 99)) for _ in range(2))),
    )


@given(profiles())
@settings(max_examples=60)
def test_what_is_written_is_read_back(profile):
    written = to_toml(profile, ("a note",))
    assert read(written) == profile
    assert to_toml(read(written), ("a note",)) == written


@given(st.data())
@settings(max_examples=150)
def test_a_torn_profile_is_read_or_refused(data):
    """One change of a character anywhere: a profile, or one error whose place lies in the text."""
    whole = HEAD + "[measured]\nrepeats = 3\n" + LAYER + 'activation = "2KiB"\nspread = { forward = 4 }\n'
    at, new = (
        data.draw(st.integers(0, len(whole) - 1)),
        data.draw(st.sampled_from(['"', "[", "]", "=", "\n", "#", "\\", "-", "{", "x", "", "'''"])),
    )
    content = whole[:at] + new + whole[at + 1 :]
    source = Sources().add("p.toml", content)
    try:
        assert reading.read(source).layers
    except Exception as refused:
        [d] = refused.findings
        assert d.help and 0 <= d.marks[0].span.at <= len(content) and re.fullmatch(r"IL1(04|14|15)", d.code)
