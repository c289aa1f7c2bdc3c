"""Megatron layouts and layer-split flags: the tables of tests/data/cases.json, the published layouts, every
error with its place.
"""

import contextlib
import json
from pathlib import Path

import pytest

from command import interlock
from interlock.check.files import check_file
from interlock.interchange import importing
from interlock.interchange.megatron import LayoutSizes, read_layout, to_sched
from interlock.interchange.megatron_flags import read_flags
from interlock.language.format import format
from interlock.text.finding import InputError
from interlock.text.source import Sources
from work import count_lines, grows_linearly

from .reading import refused, verdicts

TABLES = {
    c["id"]: c["table"]
    for c in json.loads((Path(__file__).parents[1] / "data" / "cases.json").read_text())["cases"]
    if "table" in c
}
# an 8-layer layout under the name of 7 layers: right without a number of layers
EIGHT = "E | tttttt | t | tL"


def layout(text, **asked):
    return read_layout(Sources().add("layout", text), LayoutSizes(**asked))


def flags(text, **asked):
    return read_flags(Sources().add("flags", text), LayoutSizes(**asked))


# -- what Megatron takes
# -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "ranks", "chunks", "t", "m"),
    [
        ("Et*3|(tt|)*29,m|L", 16, 2, 61, 1),
        ("Et|(tt|)*30L", 16, 2, 61, 0),
        ("Et*2|(tt|)*22t|(tt|)*7mL", 8, 4, 61, 1),
        ("Et*2|(t*2|)*34,t*3|(t*2|)*3,tL", 8, 5, 80, 0),
        ("Et*11|t*11|t*11|t*10mL", 4, 1, 43, 1),
        ("E(|tt)*30,|mL", 16, 2, 60, 1),
        ("Ett|(tt|)*6mL", 8, 1, 14, 1),
    ],
)
def test_published_layouts_become_valid_schedules(text, ranks, chunks, t, m):
    found = layout(text, ranks=ranks, layers=t, mtp=m)
    assert (found.chunks, found.count("t"), found.count("m"), found.notes) == (chunks, t, m, ())
    sched = to_sched(found, "a")
    assert format(sched) == sched
    result = check_file("a.sched", sched.encode())
    [answer] = result.checked[0].answers
    assert answer.verdict.value == "valid" and not result.checked[0].warnings
    stages = answer.program.stages
    assert [s.rank for s in stages] == [i % ranks for i in range(ranks * chunks)]
    assert [s.last - s.first for s in stages] == [len(items) for items in found.stages]
    assert ("interleaved" in sched) == (chunks > 1)


def test_the_file_that_is_written():
    assert (
        to_sched(layout("E t | tttt | t | tL", ranks=2, layers=7), "a-b", 4)
        == """\
# Megatron-LM, --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout "Et|t*4|t|tL"
schedule a_b {
  ranks 2
  microbatches 4

  model {
    layer embed { }
    layers decoder[7] { }
    layer loss { }
  }

  cut {
    pipeline = embed, decoder, loss : interleaved(chunks: 2, partition: [2, 4, 1, 2])
  }
}
"""
    )


def test_the_comment_is_the_same_layout():
    for text in ("Et*3|(tt|)*29,m|L", "Et*2|(t*2|)*34,t*3|(t*2|)*3,tL", "E(|tt)*30,|mL", "E|t|t|t|L"):
        found = layout(text)
        again = to_sched(found, "a", 2 * found.ranks).split('"')[1]
        assert layout(again) == found, again


def test_the_table_of_layouts():
    for text, expected in TABLES["layout-strings"]["pp2_L7"]:
        if text == EIGHT:
            assert layout(text, ranks=2).count("t") == 8
            assert refused(read_layout, text, LayoutSizes(2, 7))[2].startswith(
                "the layout has 8 decoder layers, and 7 are asked"
            )
        elif expected.startswith("ok"):
            found = layout(text, ranks=2, layers=7)
            assert len(found.notes) == ("one stage empty" in expected), text
        else:
            code, _, said = refused(read_layout, text, LayoutSizes(2, 7))
            assert (
                code == "IL214"
                and {
                    "error: no E": "no embedding",
                    "error: no L": "no loss",
                    "error: three stages for two ranks": "3 stages, and 2 ranks",
                }[expected]
                in said
            )
    for text, expected in TABLES["layout-strings"]["others"]:
        if "error" in expected:
            assert (
                "58 decoder layers, and 61 are asked" in refused(read_layout, text, LayoutSizes(layers=61))[2]
            )
        else:
            assert f"{layout(text).count('t')} layers" in expected and layout(text).count("m") == (
                "one m" in expected
            )


@pytest.mark.parametrize(
    ("text", "ranks", "says"),
    [
        ("Ett|ttL|", 3, "the last stage is empty: the loss is in stage 1, on rank 1, not on the last rank"),
        ("E | ttttttt |  | L", 2, "stage 2 is empty"),
        ("Et*3|(tt|)*29|L", 16, "stage 30 is empty"),
    ],
)
def test_an_empty_stage_is_read_and_not_written(text, ranks, says):
    found = layout(text, ranks=ranks)
    assert len(found.notes) == 1 and found.notes[0].code == "IL205" and says in found.notes[0].message
    with pytest.raises(InputError) as caught:
        to_sched(found, "a")
    assert caught.value.findings == found.notes


# -- flags
# ---------------------------------------------------------------------------------------------------------------


def as_flags(n, pp, vpp=None, embedding=False, loss=False, first=None, last=None) -> str:
    values = {
        "num-layers": n,
        "pipeline-model-parallel-size": pp,
        "num-virtual-stages-per-pipeline-rank": vpp,
        "decoder-first-pipeline-num-layers": first,
        "decoder-last-pipeline-num-layers": last,
    }
    return " ".join(
        [f"--{k} {v}" for k, v in values.items() if v is not None]
        + ["--account-for-embedding-in-pipeline-split"] * embedding
        + ["--account-for-loss-in-pipeline-split"] * loss
    )


def test_the_oracle_of_layer_splits():
    rows = TABLES["layer-split-oracle"]["rows"]
    assert len(rows) == 9
    for *row, expected in rows:
        n, pp, vpp, embedding, loss, first, last = row
        if expected == "error":
            assert refused(read_flags, as_flags(*row))[0] == "IL215"
            continue
        found = flags(as_flags(*row))
        per_rank = [
            sum(found.stages[s].count("t") for s in range(r, len(found.stages), pp)) for r in range(pp)
        ]
        assert sum(per_rank) == n and found.chunks == (vpp or 1) and found.count("E") == found.count("L") == 1
        assert first in (None, per_rank[0]) and last in (None, per_rank[-1])
        inner = {
            k + e
            for r, k in enumerate(per_rank)
            if not (r == 0 and first is not None or r == pp - 1 and last is not None)
            for e in [(embedding and r == 0) + (loss and r == pp - 1)]
        }
        assert len(inner) == 1, per_rank
        assert verdicts(to_sched(found, "a"), ("pair",)) == {"pair": "valid"}


@pytest.mark.parametrize(("row", "built"), [((80, 16, 2), 64), ((30, 4), 28), ((40, 16), 32)])
def test_layers_that_would_be_lost(row, built):
    assert f"{row[0]} layers" in TABLES["layers-lost"] and f"-> {built}" in TABLES["layers-lost"]
    code, at, said = refused(read_flags, as_flags(*row))
    assert (
        code == "IL215"
        and said.startswith(f"{row[0]} layers are asked, {built} built")
        and at.startswith("--num-")
    )


def test_layers_a_virtual_stage():
    assert flags(
        "--num-layers 64 --pipeline-model-parallel-size=4 --num-layers-per-virtual-pipeline-stage 4"
    ) == flags(as_flags(64, 4, 4))
    assert (
        "60 built"
        in refused(
            read_flags,
            "--num-layers 64 --pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 3",
        )[2]
    )


def test_a_layout_among_flags():
    text = (
        "--pipeline-model-parallel-size 16 --pipeline-model-parallel-layout 'Et*3|(tt|)*29,m|L' "
        "--num-layers {} --mtp-num-layers 1"
    )
    assert flags(text.format(61)).stages == layout("Et*3|(tt|)*29,m|L", ranks=16).stages
    assert refused(read_flags, text.format(60))[:2] == ("IL214", "Et*3|(tt|)*29,m|L")
    assert refused(read_flags, text.format(61).replace(" --mtp-num-layers 1", ""))[0] == "IL214"


# -- errors
# --------------------------------------------------------------------------------------------------------------

LAYOUTS = {
    "E((t|)*2t|)*2L": ("IL111", "(", "a group within a group"),
    "Et*0|L": ("IL111", "t*0", "0 times"),
    "Et|(tt|)*0L": ("IL111", "(tt|)*0", "0 times"),
    "": ("IL106", "", "empty"),
    " ,\t": ("IL106", "", "empty"),
    "Ex|L": ("IL111", "x", "no item"),
    "ET|L": ("IL111", "T", "`t` was meant"),
    "Et**3L": ("IL111", "*", "without a number"),
    "Et*|L": ("IL111", "*", "without a number"),
    "Et*2*3L": ("IL111", "*3", "a count after a count"),
    "E(tt": ("IL111", "(", "without its end"),
    "E)L": ("IL111", ")", "closes no group"),
    "E()*3L": ("IL111", "()", "empty group"),
    "E(t)L": ("IL111", "(t)", "without a count"),
    "*3EL": ("IL111", "*3", "nothing before it"),
    "E|*3L": ("IL111", "*3", "nothing before it"),
    "Et3L": ("IL111", "3", "stands alone"),
    "Et*2,9L": ("IL111", "9", "reads `29`"),
    "Et\x00L": ("IL111", "\x00", "no item"),
    "Et*99999999999L": ("IL104", "*99999999999", "100,000"),
    "E(t*9999|)*9999L": ("IL104", "|", "100,000"),
    "EE|L": ("IL214", "EE", "2 `E`"),
    "E|LL": ("IL214", "LL", "2 `L`"),
    "t|L": ("IL214", "t", "no embedding"),
    "Et|t": ("IL214", "t", "no loss"),
    "tE|L": ("IL214", "tE", "before the embedding"),
    "E|Lt": ("IL214", "Lt", "after the loss"),
    "Et|m|t|L": ("IL214", "t", "after an MTP layer"),
    "Et|m|mL": ("IL214", "mL", "stages 1 and 2"),
    "EtmL": ("IL214", "EtmL", "on the first rank"),
}


@pytest.mark.parametrize("text", LAYOUTS)
def test_layouts_refused(text):
    code, at, says = LAYOUTS[text]
    found = refused(read_layout, text)
    assert found[:2] == (code, at) and says in found[2]


@pytest.mark.parametrize(
    ("text", "asked", "says"),
    [
        (
            "Et|t|m|L",
            dict(ranks=2),
            "stage 2, which is on the first rank | put them into a later stage of the last chunk: stage 3",
        ),
        ("Et|m||L", dict(ranks=2), "stage 1, which is chunk 0 of rank 1"),
        ("Et|tL", dict(mtp=1), "0 MTP layers, and 1 are asked | add 1 `m`"),
        ("Et|t|tL", dict(ranks=2), "3 stages, and 2 ranks take a multiple of 2 | write 2 or 4 stages"),
        ("EtL", dict(ranks=0), "0 ranks"),
        ("EtL", dict(ranks=4), "1 stages, and 4 ranks"),
    ],
)
def test_layouts_that_do_not_fit(text, asked, says):
    assert says in refused(read_layout, text, LayoutSizes(**asked))[2]


FLAGS = {
    "": ("IL106", ""),
    "--num-layers": ("IL111", "--num-layers"),
    "--num-layers x --pipeline-model-parallel-size 1": ("IL111", "x"),
    "--num-layers 3": ("IL111", "--num-layers 3"),
    "--pipeline-model-parallel-size 3": ("IL111", "--pipeline-model-parallel-size 3"),
    "--num-layer 3": ("IL111", "--num-layer"),
    "--num-layers 4 --num-layers 4": ("IL111", "--num-layers"),
    "--num-layers 4 --pipeline-model-parallel-size 0": ("IL104", "--pipeline-model-parallel-size 0"),
    "--num-layers 4 --pipeline-model-parallel-size 99999999": (
        "IL104",
        "--pipeline-model-parallel-size 99999999",
    ),
    as_flags(4, 2, 0): ("IL111", "--num-virtual-stages-per-pipeline-rank 0"),
    as_flags(4, 2, first=5): ("IL215", "--num-layers 4"),
    as_flags(4, 1, first=3): ("IL215", "--decoder-first-pipeline-num-layers 3"),
    as_flags(4, 2, first=3, last=2): ("IL215", "--decoder-first-pipeline-num-layers 3"),
    as_flags(4, 4, 2): ("IL215", "--num-virtual-stages-per-pipeline-rank 2"),
    as_flags(60, 5, first=4, embedding=True): ("IL111", "--account-for-embedding-in-pipeline-split"),
    as_flags(60, 5, 2) + " --num-layers-per-virtual-pipeline-stage 2": (
        "IL111",
        "--num-virtual-stages-per-pipeline-rank 2",
    ),
    "4 --num-layers": ("IL111", "4"),
    "= 3": ("IL111", "="),
}


@pytest.mark.parametrize("text", FLAGS)
def test_flags_refused(text):
    assert refused(read_flags, text)[:2] == FLAGS[text]


def test_what_no_schedule_can_be():
    for text, ranks, microbatches, says in (
        ("Et|tL", 1, None, "2 stages on one rank"),
        ("Et|t|t|tL", 2, 3, "ask for 2 or 4"),
        ("Et|tL", 2, 0, "0 microbatches"),
    ):
        with pytest.raises(InputError) as caught:
            to_sched(layout(text, ranks=ranks), "a", microbatches)
        assert says in f"{caught.value} {caught.value.findings[0].help}"


def read_or_refuse(text: str) -> None:
    with contextlib.suppress(InputError):
        layout(text)


@pytest.mark.parametrize(
    "start, repeated, end, most",
    [
        ("", "(", "", 100_000),
        ("E", "t|", "tE", 49_000),
        ("E", "|t", "LL", 49_000),
        ("E", "(t|)*2", "L", 20_000),
        ("", "t*2,", "", 100_000),
        ("", "x", "", 2 << 20),
    ],
)
def test_the_work_grows_with_the_text(start, repeated, end, most):
    read_or_refuse(start + repeated * most + end)
    assert grows_linearly(lambda size: read_or_refuse(start + repeated * size + end), 1_000)


def test_a_large_product_is_not_written_out():
    assert count_lines(lambda: read_or_refuse("E" + "(" + "|" * 999 + ")*99999")) < 1_000_000


# -- the command
# ---------------------------------------------------------------------------------------------------------


def test_the_command(tmp_path):
    done = interlock(
        "import",
        "--megatron",
        "Et*3|(tt|)*29,m|L",
        "--ranks",
        "16",
        "--layers",
        "61",
        "-o",
        "a.sched",
        cwd=tmp_path,
    )
    assert (done.code, done.text) == (0, "") and interlock("check", "a.sched", cwd=tmp_path).code == 0
    done = interlock(
        "import", "--megatron-flags", as_flags(60, 5, first=4), "--microbatches", "8", cwd=tmp_path
    )
    assert (
        done.code == 0 and "1f1b(partition: [5, 14, 14, 14, 15])" in done.out and "microbatches 8" in done.out
    )
    done = interlock("import", "--megatron", "Et*0|L", cwd=tmp_path)
    assert (
        done.code == 2
        and "error[IL111]" in done.err
        and " --> layout:1:2" in done.err
        and " ^^^" in done.err
        and not done.out
    )


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((), "wants a file"),
        (("a.csv", "--megatron", "EL"), "one of them only"),
        (("--megatron", "EL", "--megatron-flags", "--x 1"), "one of them only"),
        (("a.json",), "add --from"),
        (("a.csv", "--layers", "3"), "--layers is for --megatron"),
        (("--megatron", "EL", "--frozen", "0"), "--frozen is for PyTorch"),
        (("--megatron", "EL", "--placement", "vee"), "--placement is for files"),
        (("--megatron", "EL", "--from", "csv"), "--from is for files"),
        (("a.json", "--from", "deepspeed", "--csv-format", "compute-only"), "--csv-format is for PyTorch"),
        (("nowhere.csv",), "nowhere.csv: "),
    ],
)
def test_usage(tmp_path, args, says):
    done = interlock("import", *args, cwd=tmp_path)
    assert done.code == 2 and says in done.err and not done.out


def test_one_door():
    assert (
        importing.import_layout(Sources(), "EtL", LayoutSizes(), "x", 1).startswith("# Megatron-LM")
        and importing.FORMATS[0] == "csv"
    )
