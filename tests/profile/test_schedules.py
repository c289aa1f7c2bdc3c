"""`model "profile.toml"` in a schedule: the same answers as the model written out, and errors at their place."""

from __future__ import annotations

import dataclasses
import re

import pytest

from command import interlock
from interlock.algebra.elaborate import elaborate
from interlock.check.certificates import certificates
from interlock.check.files import check_file
from interlock.language.parse import parse
from interlock.text.source import Sources
from profiles import HEAD, LAYER

MODEL = """model {
    layer embed { forward 1ms  backward_input 0ms  backward_weight 1ms  activation 4MiB until_weight 4MiB  output 1MiB  weights 8MiB }
    layers llm[6] { forward 3ms  backward_input 3ms  backward_weight 2.5ms  activation 40MiB until_weight 10MiB  output 1MiB  weights 80MiB }
    layer head { forward 1ms  backward_input 3ms  backward_weight 2.5ms  activation 40MiB until_weight 40MiB  output 4B  weights 80MiB  vocabulary 4096  tokens 100  modality text  recompute }
  }"""
PROFILE = (
    HEAD
    + """
[[layer]]
name = "embed"
forward = "1ms"
backward_input = 0
backward_weight = "1ms"
activation = "4MiB"
until_weight = "4MiB"
output = "1MiB"
weights = "8MiB"

[[layer]]
name = "llm"
count = 6
forward = "3ms"
backward_input = "3ms"
backward_weight = "2.5ms"
activation = "40MiB"
until_weight = "10MiB"
output = "1MiB"
weights = "80MiB"

[[layer]]
name = "head"
forward = "1ms"
backward_input = "3ms"
backward_weight = "2.5ms"
activation = "40MiB"
until_weight = "40MiB"
output = 4
weights = "80MiB"
vocabulary = 4096
tokens = 100
modality = "text"
recompute = true
"""
)
REST = """
  cut { all = embed, llm[0..5], head : 1f1b }
  memory { capacity 2GiB  optimizer 8 per weight byte  logits 4B per vocabulary entry }
  link { bandwidth 1GB/s }
  freeze embed
  tie embed, head
  assume llm[1].forward in [2ms, 3ms]
  for any freezing of embed, llm[0..2]
"""


def schedule(model: str, more: str = REST) -> str:
    return f"schedule s {{\n  ranks 4\n  microbatches 8\n  {model}{more}}}\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "p.toml").write_text(PROFILE)
    return tmp_path


def checked(folder, text: str):
    return check_file(str(folder / "s.sched"), text.encode())


def elaborated(folder, text: str):
    sources = Sources()
    [found] = elaborate(parse(sources.add(str(folder / "s.sched"), text)), sources)
    return found


def test_the_program_is_that_of_the_model_written_out(folder):
    one, other = elaborated(folder, schedule(MODEL)), elaborated(folder, schedule('model "p.toml"'))
    for field in dataclasses.fields(one.program):
        a, b = getattr(one.program, field.name), getattr(other.program, field.name)
        assert field.name == "order" or a == b, field.name
    for column in ("start", "kind", "stage", "mb"):
        assert (getattr(one.program.order, column) == getattr(other.program.order, column)).all()
    assert (
        one.times == other.times
        and one.freezing == other.freezing
        and [a.layers for a in one.assumes] == [a.layers for a in other.assumes]
    )


def test_verdict_memory_makespan(folder):
    def answers(model, more=""):
        [found] = checked(folder, schedule(model, REST + more)).checked
        return [(a.verdict, {f.code for f in a.errors}) for a in found.answers], found.figures

    for more in (
        "",
        "require { makespan <= 1s  peak <= 1GiB }",
        "require { makespan <= 100ms }",
        "require { peak <= 100MiB }",
    ):
        assert answers('model "p.toml"', more) == answers(MODEL, more)
    [(verdict, codes)], _ = answers('model "p.toml"', "require { makespan <= 100ms }")
    assert verdict.value == "invalid" and codes == {"IL705"}


def test_a_measured_backward_is_less_than_its_halves(tmp_path):
    text = LAYER + "backward = 7\nbackward_input = 5\nbackward_weight = 5\n"
    (tmp_path / "p.toml").write_text(HEAD + text + text.replace('"a"', '"b"'))
    found = elaborated(
        tmp_path,
        'schedule s { ranks 1 microbatches 1 model "p.toml" order transfers inserted { rank 0: 0F0 0B0 } }',
    )
    from interlock.timing.durations import compute_durations

    assert compute_durations(found.program, found.times).row.tolist() == [10, 5 + 7]  # the first pays W alone


def test_groups_with_others_between(tmp_path):
    names = ["mamba[0]", "attention", "mamba[1]"]
    (tmp_path / "p.toml").write_text(HEAD + "".join(LAYER.replace('"a"', f'"{n}"') for n in names))
    text = (
        'schedule s {{ ranks 3 microbatches 3 model "p.toml" cut {{ all = mamba[0], attention, mamba[1] '
        ": 1f1b }} for any freezing of {} }}"
    )
    assert elaborated(tmp_path, text.format("mamba")).freezing == (0, 2)
    assert [l.name for l in elaborated(tmp_path, text.format("mamba[1]")).program.layers] == names


WRONG = {
    "unknown layer": (
        schedule('model "p.toml"', "\n  cut { all = lm : 1f1b }\n"),
        PROFILE,
        "IL107",
        "s.sched:5:15",
    ),
    "unknown layer of a group": (
        schedule('model "p.toml"', "\n  cut { all = llm[3..6] : 1f1b }\n"),
        PROFILE,
        "IL107",
        "s.sched:5:19",
    ),
    "frozen and unknown": (
        schedule('model "p.toml"', REST + "  freeze proj\n"),
        PROFILE,
        "IL107",
        "s.sched:12:10",
    ),
    "not there": (schedule('model "q.toml"'), PROFILE, "IL107", "s.sched:4:3"),
    "a folder": (schedule('model "."'), PROFILE, "IL107", "s.sched:4:3"),
    "a device": (schedule('model "/dev/zero"'), PROFILE, "IL107", "s.sched:4:3"),
    "a long name": (schedule(f'model "{"a" * 5000}"'), PROFILE, "IL107", "s.sched:4:3"),
    "not text": (schedule('model "p.toml"'), b"\xff\xfe", "IL107", "s.sched:4:3"),
    "too large": (schedule('model "p.toml"'), PROFILE + "#" * (4 << 20), "IL107", "s.sched:4:3"),
    "torn": (schedule('model "p.toml"'), PROFILE[:-5], "IL114", "p.toml:36:12"),
    "negative": (
        schedule('model "p.toml"'),
        PROFILE.replace("output = 4", "output = -4"),
        "IL115",
        "p.toml:31:10",
    ),
    "no sizes for memory": (
        schedule('model "p.toml"'),
        PROFILE.replace('weights = "80MiB"\nvoc', "voc"),
        "IL115",
        "s.sched:6:3",
    ),
    "no sizes for a peak": (
        schedule('model "p.toml"', "\n  cut { all = embed, llm, head : 1f1b }\n  require { peak <= 1GiB }\n"),
        PROFILE.replace("output = 4", ""),
        "IL115",
        "s.sched:6:13",
    ),
    "no sizes for a link": (
        schedule('model "p.toml"', "\n  cut { all = embed, llm, head : 1f1b }\n  link { bandwidth 1GB/s }\n"),
        PROFILE.replace("output = 4", ""),
        "IL115",
        "s.sched:6:3",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_at_its_place(name, folder):
    text, profile, code, place = WRONG[name]
    (folder / "p.toml").write_bytes(profile if isinstance(profile, bytes) else profile.encode())
    result = checked(folder, text)
    [d] = result.errors
    source = result.sources.of(d.marks[0].span.at)
    line, column = source.line_column(d.marks[0].span.at)
    assert (d.code, f"{source.name.rsplit('/', 1)[1]}:{line}:{column}") == (code, place)
    assert d.help and len(d.message) < 300


def test_without_sizes_what_counts_no_bytes_is_answered(tmp_path):
    (tmp_path / "p.toml").write_text(
        HEAD
        + LAYER
        + "backward = 5\n"
        + LAYER.replace('"a"', '"b"')
        + "backward_input = 5\nbackward_weight = 5\n"
    )
    text = schedule(
        'model "p.toml"', "\n  cut { all = a, b : 1f1b }\n  require { makespan <= 1ms }\n"
    ).replace("ranks 4", "ranks 2")
    [found] = checked(tmp_path, text).checked
    assert found.verdict.value == "valid"


def test_the_command_line(folder):
    """check and show, from another folder, and from standard input."""
    (folder / "s.sched").write_text(
        schedule('model "p.toml"', REST + "  require { makespan <= 1s  peak <= 2GiB }\n")
    )
    (folder / "elsewhere").mkdir()
    done = interlock("check", "../s.sched", cwd=folder / "elsewhere")
    assert (done.code, done.out.splitlines()[-1]) == (0, "1 file: 1 valid"), done.text
    done = interlock("show", "s.sched", cwd=folder)
    assert done.code == 0 and re.search(r"makespan .*peak memory .* of 2 GiB", done.out)
    text = (folder / "s.sched").read_bytes()
    refused = interlock("check", "-", stdin=text, cwd=folder)
    assert (
        refused.code == 2
        and "error[IL107]: standard input lies in no folder" in refused.out
        and "--> stdin.sched:4:3" in refused.out
    )
    assert interlock("check", "-", "--stdin-filename", "other.sched", stdin=text, cwd=folder).code == 0


def test_certificates_notice_a_changed_profile(folder):
    def certify():
        [found] = checked(folder, schedule('model "p.toml"')).checked
        return [document for a in found.answers for document in certificates(a)]

    before = certify()
    assert before and before == certify()
    (folder / "p.toml").write_text(PROFILE.replace('activation = "4MiB"', 'activation = "5MiB"'))
    assert certify() != before
