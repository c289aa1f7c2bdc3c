"""Hostile and broken input, through the command line: one clear error with its place, exit 2, bounded time
and memory, nothing half-written.

At the end: example files mutated at random, which the checker answers or refuses and never trips over.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from random import Random

import pytest

from command import ROOT, Done, interlock, start_interlock
from interlock.check.certificates import certificates
from interlock.check.files import FileResult, check_file
from interlock.load import Question

SECONDS = 20
HUGE = 1_000_000_000_000
NOISE = bytes(Random(0).randrange(256) for _ in range(4096))


def derived(
    ranks: object = 2,
    microbatches: object = 4,
    layers: str = "x[4]",
    costs: str = "forward 1ms backward 2ms",
    cut: str = "a = x : 1f1b",
    more: str = "",
) -> str:
    return (
        f"schedule s {{\n  ranks {ranks}\n  microbatches {microbatches}\n  model {{ layers {layers} {{ "
        f"{costs} }} }}\n"
        f"  cut {{ {cut} }}\n{more}}}\n"
    )


def written(first: str = "0F0..3 0B0..3", microbatches: object = 4, more: str = "", rank: object = 1) -> str:
    return (
        f"schedule s {{\n  ranks 2\n  microbatches {microbatches}\n  place {{ rank 0: 0  rank 1: 1 "
        f"}}\n{more}  order transfers inserted {{\n"
        f"    rank 0: {first}\n    rank {rank}: 1F0..3 1B0..3\n  }}\n}}\n"
    )


def skeleton(body: str) -> str:
    return derived(cut="a = x : k") + f"skeleton k(P, M) sharded {{ rank r {{ {body} }} }}\n"


GOOD = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"
F, B = "for i in 0 ..< M { F(i) B(i) }", HUGE

# name: (text or bytes, code, line and column of the error: None, where it is about the file as a whole)
FILES: dict[str, tuple[str | bytes, str, str | None]] = {
    # not text at all
    "empty.sched": ("", "IL106", "1:1"),
    "blank.sched": ("\n\n   \n", "IL106", "1:1"),
    "comments.sched": ("# nothing\n# here\n", "IL106", "1:1"),
    "nul.sched": (b"schedule s {\n ranks 2\0\n}\n", "IL105", "2:9"),
    "zeros.sched": (bytes(10_000), "IL105", "1:1"),
    "noise.sched": (NOISE, "IL105", None),
    "latin1.sched": (b"# caf\xe9\nschedule s {}\n", "IL105", None),
    "utf16.sched": ("schedule s {}".encode("utf-16"), "IL105", None),
    "empty.csv": ("", "IL106", None),
    "blank.csv": ("\n\n\n", "IL106", None),
    "commas.csv": (",,,\n,,\n", "IL106", None),
    "nul.csv": (b"0F0\0,0B0\n", "IL105", "1:4"),
    "noise.csv": (NOISE, "IL105", None),
    "latin1.csv": (b"0F0,\xe9\n", "IL105", None),
    # deep
    **{
        f"deep_{name}.sched": ("schedule s { " + sign * 100_000, "IL104", "1:77")
        for name, sign in (("brace", "{"), ("parenthesis", "("), ("bracket", "["))
    },
    "closing.sched": ("}" * 100_000, "IL101", "1:1"),
    "deep_if.sched": (
        "skeleton k(P, M) sharded { rank r { " + "if 1 == 1 { " * 100_000 + "}" * 100_000 + " } }",
        "IL104",
        "1:791",
    ),
    "deep_expression.sched": (
        "skeleton k(P, M) sharded { rank r { let x = " + "(" * 100_000 + "1" + ")" * 100_000 + " } }",
        "IL104",
        "1:107",
    ),
    "deep_minus.sched": (
        "skeleton k(P, M) sharded { rank r { let x = " + "-" * 100_000 + "1 F(0) B(0) } }",
        "IL104",
        "1:99944",
    ),
    "long_sum.sched": (
        "skeleton k(P, M) sharded { rank r { let x = " + "1 + " * 100_000 + "1 F(0) B(0) } }",
        "IL104",
        "1:45",
    ),
    "deep.csv": ("(" * 100_000 + "0F0", "IL108", "1:1"),
    # large
    "huge_range.sched": (written(f"0F0..{B}"), "IL104", "6:13"),
    "huge_repeat.sched": (written("(0F0 0B0) .. (0F2000000000 0B2000000000)"), "IL104", "5:3"),
    "huge_index.sched": (written(f"0F{B}"), "IL104", "6:13"),
    "huge_stage.sched": (written(f"{B}F0"), "IL104", "6:13"),
    "many_digits.sched": (written("0F" + "9" * 5000), "IL104", "6:13"),
    "many_digits_of_ranks.sched": (derived(ranks="9" * 5000), "IL104", "2:9"),
    "huge_loop.sched": (skeleton(f"for i in 0 ..< {B} {{ F(i) B(i) }}"), "IL104", "7:37"),
    "huge_idle_loop.sched": (skeleton(f"for i in 0 ..< {B} {{ let x = i }} {F}"), "IL104", "7:37"),
    "huge_idle_loops.sched": (
        skeleton("for i in 0 ..< 100000 { for j in 0 ..< 100000 { if j > i + 1000000 { F(i) } } }"),
        "IL104",
        "7:61",
    ),
    "huge_layers.sched": (derived(layers=f"x[{B}]"), "IL104", "4:11"),
    "huge_microbatches.sched": (derived(microbatches=B), "IL104", "3:16"),
    "huge_ranks.sched": (derived(ranks=B), "IL104", "2:9"),
    "huge_product.sched": (
        derived(4096, 1_000_000, "x[4096]", "forward 1ms per image backward 2ms"),
        "IL104",
        "8:31",
    ),
    "microbatches_unused.sched": (written("0F0", 10_000_000), "IL104", "1:10"),
    "huge_microbatches_of_order.sched": (written(microbatches=B), "IL104", "3:16"),
    "huge_communicator.sched": (derived(more=f"  communicator c = ranks 0..{B}\n"), "IL204", "6:26"),
    "huge_freeze.sched": (derived(more=f"  freeze x[0..{B}]\n"), "IL107", "6:12"),
    "huge_freeze_stage.sched": (written(more=f"  freeze stage 0..{B}\n"), "IL204", "5:16"),
    "huge_place.sched": (written().replace("rank 0: 0 ", f"rank 0: 0..{B} "), "IL104", "4:19"),
    "huge_rank_of_place.sched": (written().replace("rank 0: 0 ", f"rank {B}: 0 "), "IL204", "4:16"),
    "huge_rank_of_order.sched": (written(rank=B), "IL204", "7:10"),
    "huge_chunks.sched": (derived(cut=f"a = x : interleaved(chunks: {B})"), "IL205", "5:9"),
    "huge_partition.sched": (derived(cut=f"a = x : 1f1b(partition: [{B}, {B}])"), "IL210", "5:22"),
    "huge_power.sched": (skeleton(f"let a = {B} let b = a * a let c = b * b " + F), "IL213", None),
    "huge_index.csv": (f"0F0,0F{B},0B0\n", "IL104", "1:5"),
    "huge_stage.csv": (f"{B}F0\n", "IL104", "1:1"),
    "many_digits.csv": ("0F" + "9" * 5000 + "\n", "IL108", "1:1"),
    "far_stage.csv": ("0F0,9999999F0\n", "IL204", "1:5"),
    "many_ranks.csv": ("0F0,0B0\n" * 5000, "IL104", "4097:1"),
    "many_pairs.csv": (
        ",".join([f"0F{m}" for m in range(50_000)] + [f"{s}F0" for s in range(1, 50_000)]) + "\n",
        "IL104",
        "1:1",
    ),
    # numbers
    "unknown_unit.sched": (derived(costs="forward 1parsec backward 2ms"), "IL102", "4:33"),
    "wrong_unit.sched": (derived(costs="forward 1GiB backward 2ms"), "IL102", "4:33"),
    "exponent.sched": (derived(costs="forward 1e400ms backward 2ms"), "IL102", "4:33"),
    "large_time.sched": (derived(costs=f"forward {'9' * 400}ms backward 2ms"), "IL104", "4:33"),
    "zero_ranks.sched": (derived(ranks=0), "IL102", "2:9"),
    "zero_microbatches.sched": (derived(microbatches=0), "IL102", "3:16"),
    "negative_ranks.sched": (derived(ranks=-1), "IL101", "2:9"),
    "half_a_rank.sched": (derived(ranks=2.5), "IL102", "2:9"),
    "more_stages_than_layers.sched": (derived(ranks=8), "IL205", "5:9"),
    "too_few_images.sched": (derived(more="  images [1, 2]\n"), "IL206", "6:3"),
    "division_by_zero.sched": (skeleton("let a = M div r " + F), "IL213", "7:51"),
    # names
    "two_schedules.sched": (derived() + derived(), "IL103", "7:10"),
    "two_regions.sched": (derived(cut="a = x[0..1] : 1f1b  a = x[2..3] : 1f1b"), "IL103", "5:29"),
    "two_layers.sched": (derived(layers="x[2] { forward 1ms backward 2ms } layers x[2]"), "IL103", "4:59"),
    "two_communicators.sched": (derived(more="  communicator c = ranks 0..1\n" * 2), "IL103", "7:16"),
    "two_skeletons.sched": (
        derived() + "skeleton k(P, M) sharded { rank r { F(0) } }\n" * 2,
        "IL103",
        "8:10",
    ),
    "two_numbers_of_ranks.sched": (derived(more="  ranks 3\n"), "IL103", "6:3"),
    "unknown_skeleton.sched": (derived(cut="a = x : 1f2b"), "IL203", "5:17"),
    "unknown_argument.sched": (derived(cut="a = x : 1f1b(colour: red)"), "IL210", "5:22"),
    "unknown_layer.sched": (derived(cut="a = y : 1f1b"), "IL107", "5:13"),
    "unknown_model.sched": (derived(more="  comm pairs\n"), "IL107", "6:8"),
    "unknown_model_expected.sched": (derived(more="  expect invalid IL402 under pears\n"), "IL107", "6:30"),
    "unknown_modality.sched": (derived(more="  modality smell in microbatches 0\n"), "IL107", "6:12"),
    "unknown_statement.sched": (derived(more="  frobnicate 3\n"), "IL101", "6:3"),
    "unknown_kind.sched": (written("0Q0 0F0"), "IL107", "6:13"),
    "unknown_peer.sched": (
        "schedule s {\n  ranks 2\n  trace { rank 0: send(9, a)  rank 1: step }\n  microbatches 1\n}\n",
        "IL204",
        "3:19",
    ),
    "unread_profile.sched": (
        'schedule s {\n ranks 2\n microbatches 2\n model "none.toml"\n cut { a = x : 1f1b }\n}\n',
        "IL107",
        "4:2",
    ),
    "nothing_said.sched": ("schedule s {}\n", "IL101", "1:10"),
    # files that use files
    "circle.sched": ('use "circle2.sched"\n' + derived(), "IL208", None),
    "circle2.sched": ('use "circle.sched"\nskeleton k(P, M) sharded { rank r { F(0) } }\n', "IL208", None),
    "itself.sched": ('use "itself.sched"\n' + derived(), "IL208", "1:1"),
    "uses_nothing.sched": ('use "nothing.sched"\n' + derived(), "IL203", "1:1"),
    "uses_a_folder.sched": ('use "."\n' + derived(), "IL203", "1:1"),
    "uses_a_device.sched": ('use "/dev/zero"\n' + derived(), "IL203", "1:1"),
    "uses_noise.sched": ('use "noise.sched"\n' + derived(), "IL203", "1:1"),
    "uses_a_long_name.sched": (f'use "{"a" * 5000}"\n' + derived(), "IL203", "1:1"),
    # CSVs
    "comment.csv": ("# hello\n" + GOOD, "IL109", "1:1"),
    "header.csv": ("rank0,rank1\n" + GOOD, "IL109", "1:1"),
    "torn.csv": (GOOD[:-3], "IL110", "2:13"),
    "torn_line.csv": (GOOD + "0F", "IL110", "3:1"),
    "blank_line.csv": (GOOD.replace("\n", "\n\n"), "IL110", "2:1"),
    "quotes.csv": ('"0F0","0B0"\n', "IL108", "1:1"),
    "empty_cell.csv": (
        "0F0,0SEND_F0,,0RECV_B0,0B0,0REDUCE_GRAD\n1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD\n",
        "IL110",
        "1:14",
    ),
}


def clean(done: Done) -> None:
    assert "Traceback" not in done.text and "internal error" not in done.text and "IL902" not in done.text, (
        done.text[-2000:]
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("bad")
    for name, (content, _, _) in FILES.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


@pytest.mark.parametrize("name", FILES)
def test_a_broken_file(folder, name):
    _, code, place = FILES[name]
    before = sorted(os.listdir(folder))
    done = interlock("check", name, cwd=folder, seconds=SECONDS)
    clean(done)
    assert done.code == 2, done.text[-2000:]
    first = re.match(r"error\[(IL\d{3})\]: (.+)\n +--> ([^\n:]+)(?::(\d+:\d+))?\n", done.out)
    assert first and done.err == "", done.text[:500]
    assert first[1] == code and len(first[2]) < 200
    if place is not None:
        assert first[4] == place
    if place is None and FILES[name][1] in ("IL105", "IL106"):
        assert first[3] == name
    assert len(done.out) < 30_000 and sorted(os.listdir(folder)) == before


def test_all_broken_files_in_one_run(folder):
    done = interlock(
        "check",
        *(n for n in sorted(FILES) if len(FILES[n][0]) < 5_000 and "huge_product" not in n),
        "--format",
        "json",
        cwd=folder,
        seconds=4 * SECONDS,
    )
    report = json.loads(done.out)
    assert done.code == report["exit_code"] == 2
    for file in report["files"]:
        assert (
            file["errors"] and file["errors"][0]["code"] == FILES[file["path"]][1] and not file["schedules"]
        ), file["path"]


@pytest.mark.parametrize("suffix", ["sched", "csv"])
@pytest.mark.parametrize(
    "pattern",
    [b"\0", b"0F0,", b"0F0\n", b"x", b"{", b"\xff", b"schedule s { ranks 2 }\n"],
    ids=["nul", "cells", "lines", "letters", "braces", "ff", "schedules"],
)
def test_a_hundred_megabytes(tmp_path, suffix, pattern):
    path = tmp_path / f"large.{suffix}"
    size = 100 * 2**20
    try:
        with open(path, "wb") as file:
            for _ in range(100):
                file.write(pattern * (2**20 // len(pattern)))
        assert path.stat().st_size > 0.99 * size
        done = interlock("check", path, seconds=SECONDS)
    finally:
        path.unlink()
    clean(done)
    assert done.code == 2 and done.out.startswith("error[IL104]"), done.text[:500]


# ---- what is no file, and wrong usage --------------------------------------------------------------


def test_what_is_not_there(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("x")
    for args, said in (
        (["check", "no.sched"], "no.sched"),
        (["check", "empty"], "empty"),
        (["check", "."], ".sched or .csv"),
        (["fmt", "no.sched"], "no.sched"),
        (["import", "no.csv"], "no.csv"),
        (["import", "empty"], "empty"),
        (["verify", "no.cert"], "no.cert"),
        (["verify", "empty"], "empty"),
        (["explain", "IL000"], "IL000"),
        (["check", ""], "no file"),
    ):
        done = interlock(*args, cwd=tmp_path)
        clean(done)
        assert done.code == 2 and said in done.err and done.out == "" and done.err.count("\n") == 1, (
            args,
            done,
        )


def test_streams_that_cannot_be_used(tmp_path):
    (tmp_path / "a.csv").write_text(GOOD)
    closed = ("sh", "-c", 'exec "$@" <&-', "sh")
    for args in (["check", "-"], ["fmt", "-"], ["import", "-"]):
        with open(tmp_path / "only_written", "wb") as stream:
            for done in (
                start_interlock(*args, cwd=tmp_path, stdin=stream.fileno()),
                start_interlock(*args, cwd=tmp_path, before=closed),
            ):
                clean(done)
                assert (
                    done.code == 2
                    and done.err.startswith("interlock: standard input: ")
                    and done.err.count("\n") == 1
                ), (args, done)
    full = start_interlock("check", "a.csv", cwd=tmp_path, before=("sh", "-c", 'exec "$@" >/dev/full', "sh"))
    assert (full.code, full.err) == (2, "interlock: standard output: No space left on device\n")
    gone = start_interlock("check", "a.csv", cwd=tmp_path, before=("sh", "-c", 'exec "$@" >&-', "sh"))
    assert (gone.code, gone.err) == (2, "interlock: standard output is closed\n")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read(tmp_path):
    secret = tmp_path / "secret.sched"
    secret.write_text(derived())
    secret.chmod(0)
    done = interlock("check", secret)
    assert done.code == 2 and "Permission denied" in done.err


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["frobnicate"],
        ["check"],
        ["check", "a.csv", "--comm", "pears"],
        ["check", "a.csv", "--engine", "magic"],
        ["check", "a.csv", "--format", "xml"],
        ["check", "a.csv", "--placement", "nowhere"],
        ["check", "a.csv", "--placement", "0,x"],
        ["check", "a.csv", "--microbatches", "many"],
        ["check", "a.csv", "--microbatches", "0"],
        ["check", "a.csv", "--microbatches", "-3"],
        ["check", "a.csv", "--microbatches", "99999999999999999999"],
        ["check", "a.csv", "--frozen", "0..x"],
        ["check", "a.csv", "--frozen", "7"],
        ["check", "a.csv", "--frozen", "0..99999999999999"],
        ["check", "a.csv", "--placement", "0"],
        ["check", "a.csv", "--placement", "0,9"],
        ["check", "a.csv", "--placement", "0,-1"],
        ["check", "a.csv", "--certificate", "a.csv"],
        ["check", "a.csv", "--certificate", "/proc/nothing"],
        ["fmt"],
        ["verify"],
        ["import"],
        ["import", "a.csv", "-o", "/nowhere/a.sched"],
        ["import", "a.csv", "-o", "."],
        ["check", "--unknown", "a.csv"],
    ],
    ids=" ".join,
)
def test_wrong_usage(tmp_path, args):
    (tmp_path / "a.csv").write_text(GOOD)
    done = interlock(*args, cwd=tmp_path)
    clean(done)
    assert done.code == 2, done
    assert (
        done.text.strip() and os.listdir(tmp_path) == ["a.csv"] and (tmp_path / "a.csv").read_text() == GOOD
    )


# ---- certificates -----------------------------------------------------------------------------------


CERTIFICATES = {
    "empty": b"",
    "noise": NOISE,
    "no_json": b"{not json",
    "text": b'"a certificate"',
    "number": b"3",
    "null": b"null",
    "list": b"[]",
    "object": b"{}",
    "nothing_claimed": b'{"format": "interlock.certificate/1", "program": {}, "claims": []}',
    "claims_of_text": b'{"format": "interlock.certificate/1", "program": {}, "claims": "all"}',
    "program_of_text": b'{"format": "interlock.certificate/1", "program": "p", "claims": [{"claim": "valid"}]}',
    "deep_lists": b"[" * 100_000,
    "deep_lists_closed": b"[" * 100_000 + b"]" * 100_000,
    "deep_objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "huge_integer": b'{"format": "interlock.certificate/1", "program": {"ranks": '
    + b"9" * 5000
    + b'}, "claims": [{}]}',
    "huge_number": b'{"format": "interlock.certificate/1", "program": {"ranks": 1e999}, "claims": [{}]}',
    "nan": b'{"format": "interlock.certificate/1", "program": {"ranks": NaN}, "claims": [{}]}',
    "surrogates": b'{"format": "\\ud800", "program": {}, "claims": [{"claim": "\\udfff"}]}',
    "binary": b'{"format": "interlock.certificate/1"}\xff\xfe',
}


@pytest.mark.parametrize("name", CERTIFICATES)
def test_a_broken_certificate(tmp_path, name):
    path = tmp_path / "broken.cert"
    path.write_bytes(CERTIFICATES[name])
    done = interlock("verify", path, seconds=SECONDS)
    clean(done)
    assert done.code in (1, 2) and done.text.strip() and "accepted" not in done.text, done
    assert done.code == 2 or "REJECTED" in done.out


@pytest.mark.parametrize(
    "change",
    [
        {"ranks": 10**12},
        {"ranks": 10**30},
        {"ranks": 0},
        {"ranks": -1},
        {"ranks": True},
        {"ranks": 2.0},
        {"ranks": "2"},
        {"ranks": None},
        {"microbatches": 10**12},
        {"microbatches": 0},
        {"layers": []},
        {"stages": []},
        {"order": {}},
        {"communicators": []},
        {"images": [10**30]},
    ],
    ids=str,
)
def test_a_certificate_of_an_ill_formed_program(tmp_path, change):
    document = certificates(check_file("a.csv", GOOD.encode()).checked[0].answers[0])[0]
    path = tmp_path / "changed.cert"
    path.write_text(json.dumps({**document, "program": {**document["program"], **change}}))
    done = interlock("verify", path, seconds=SECONDS)
    clean(done)
    assert done.code == 1 and "REJECTED" in done.out and "accepted" not in done.out, done


# ---- mutated at random --------------------------------------------------------------------------------

TOKENS = (
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "..",
    "..<",
    ",",
    ":",
    "=",
    "@",
    "-",
    "0",
    "1",
    "7",
    "999999",
    "F",
    "B",
    "0F0",
    "1B2",
    "2SEND_F0",
    "0RECV_B1",
    "0REDUCE",
    "STEP",
    "rank",
    "ranks",
    "schedule",
    "skeleton",
    "for",
    "if",
    "else",
    "let",
    "order",
    "place",
    "cut",
    "model",
    "layers",
    "frozen",
    "expect",
    "valid",
    "invalid",
    "under",
    "pair",
    "comm",
    "send(1, x)",
    "overlap(0F0 0B0)",
    "1f1b",
    "transpose",
    "per",
    "image",
    "3ms",
    "GiB",
    "%",
    "\n",
    "#",
    '"',
    "\0",
    "\u00e9",
    "\U0001f600",
    ";",
)


def mutate(random: Random, data: bytes) -> bytes:
    """A few edits: bytes changed, cut out or doubled; words dropped, doubled, exchanged or put in; lines
    moved.
    """
    for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
        words = re.findall(rb"\s+|\w+|.", data, re.S)
        if not words:
            return data
        match random.randrange(8):
            case 0:
                at = random.randrange(len(data))
                data = data[:at] + bytes([random.randrange(256)]) + data[at + 1 :]
            case 1:
                at = random.randrange(len(data))
                data = data[:at] + data[at + random.randrange(1, 40) :]
            case 2:
                data = data[: random.randrange(len(data))]
            case 3:
                del words[random.randrange(len(words))]
                data = b"".join(words)
            case 4:
                words.insert(random.randrange(len(words)), words[random.randrange(len(words))])
                data = b"".join(words)
            case 5:
                words[random.randrange(len(words))] = random.choice(TOKENS).encode()
                data = b"".join(words)
            case 6:
                a, b = random.randrange(len(words)), random.randrange(len(words))
                words[a], words[b] = words[b], words[a]
                data = b"".join(words)
            case 7:
                numbers = [i for i, w in enumerate(words) if w.isdigit()]
                if numbers:
                    words[random.choice(numbers)] = str(
                        random.choice((0, 1, 2, 3, 5, 17, 10**6, 10**12))
                    ).encode()
                data = b"".join(words)
    return data


def seeds() -> list[tuple[str, bytes]]:
    paths = sorted(
        p
        for f in ("examples", "spec/std", "tests/data/torch/cases")
        for p in (ROOT / f).iterdir()
        if p.suffix in (".sched", ".csv")
    )
    return [(str(p), p.read_bytes()) for p in paths]


def test_mutated_examples_are_answered_or_refused(pytestconfig):
    from interlock.report import json as as_json
    from interlock.report import text as as_text
    from interlock.report.outcome import Unread

    examples, refused, answered = seeds(), 0, 0
    total = 6_000 if pytestconfig.getoption("--thorough") else 300
    assert len(examples) >= 36
    for seed in range(total):
        random = Random(seed)
        path, data = random.choice(examples)
        changed = mutate(random, data)
        try:
            result = check_file(path, changed, Question(("pair", "rank")))
            assert isinstance(result, FileResult) and bool(result.errors) != bool(result.checked)
            unread = [Unread(result.path, result.errors, result.as_expected)] if result.errors else []
            as_text.render(result.checked, {path: result.sources}.get, unread=unread, verbose=seed % 2 == 0)
            as_json.render(result.checked, {path: result.sources}.get, unread=unread)
        except Exception as error:
            raise AssertionError(
                f"seed {seed}, from {path}: {type(error).__name__}: {error}\n{changed[:3000]!r}"
            ) from error
        refused += bool(result.errors)
        answered += bool(result.checked)
    assert refused > total // 5 and answered > total // 10
