"""Reading and writing PyTorch CSVs: every file of PyTorch's own, every hand-made one, every input error with
its place.
"""

import pytest

from interlock.interchange import csv_faults, placement
from interlock.interchange.torch_csv import CsvOptions, NotExpressible, decode, read, write
from interlock.program.build import OrderBuilder
from interlock.program.ir import Kind
from interlock.text.finding import InputError
from interlock.text.source import Sources

GOOD = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"


def program(text, **options):
    return read(Sources().add("run.csv", text), CsvOptions(**options))


def errors(text, **options):
    """(code, line, column, width) of every error; the diagnostics."""
    source = Sources().add("run.csv", text)
    with pytest.raises(InputError) as caught:
        read(source, CsvOptions(**options))
    found = caught.value.findings
    assert all(d.message and d.help for d in found)
    return [
        (d.code, *source.line_column(d.marks[0].span.at), d.marks[0].span.width) if d.marks else (d.code,)
        for d in found
    ], found


def cells(text):
    """The cells of a CSV without its bubbles, line by line."""
    return [[c.strip() for c in line.split(",") if c.strip()] for line in text.splitlines()]


# -- PyTorch's own files
# -----------------------------------------------------------------------------------------------


def test_every_corpus_file_comes_back_as_it_was(corpus, corpus_index):
    assert len(corpus) == 436
    for name, text in corpus.items():
        file, form, _ = name.rsplit(".", 2)
        entry = corpus_index[file]
        p = program(text)
        assert cells(write(p)) == cells(text), name
        assert p.inserted == p.reductions_inserted == (form == "compute_only"), name
        assert (p.ranks, len(p.stages), p.microbatches) == (
            entry["pp"],
            entry["num_stages"],
            entry["microbatches"],
        ), name
        assert [s.rank for s in p.stages] == (entry.get("stage_to_rank") or list(range(entry["pp"]))), name


def test_the_place_of_every_row_is_its_cell(corpus):
    for name in ("DualPipeV_pp4_n2_mb8.compute_only.csv", "ZBVZeroBubble_pp4_n2_mb8.compute_comms.csv"):
        sources = Sources()
        sources.add("before", "x" * 17)
        source = sources.add(name, corpus[name])
        p = read(source)
        for row in range(len(p.order)):
            cell = source.text[p.order.at[row] - source.base :][: p.order.width[row]]
            written = p.show(row).replace("REDUCE", "REDUCE_GRAD")
            assert (
                cell == written
                if p.order.launch[row] < 0
                else written in cell and cell.endswith("OVERLAP_F_B")
            )
        assert p.rank_of(0) == 0 and p.rank_of(len(p.order) - 1) == p.ranks - 1


def test_hand_made_files(cases):
    assert len(cases) == 31
    refused = {
        "c14_typo_suffix.compute_only.csv": [("IL108", 1, 5, 6)],
        "c22_header.compute_only.csv": [("IL109", 1, 1, 11)],
    }
    for name, text in cases.items():
        if name in refused:
            assert errors(text)[0] == refused[name]
            continue
        p = program(text)
        assert cells(write(p)) == cells(text), name
        assert (p.ranks, p.microbatches, p.placeholders, p.fragment) == (2, 4, True, False), name
        assert p.inserted == p.reductions_inserted == ("compute_only" in name), name


# -- what is inferred, and what is declared
# ----------------------------------------------------------------------------


def test_an_index_out_of_range_is_not_one_more_microbatch(cases):
    p = program(cases["c07_mb_out_of_range.compute_only.csv"])
    assert p.microbatches == 4 and p.order.mb.max() == 9
    assert program(cases["c07_mb_out_of_range.compute_only.csv"], microbatches=10).microbatches == 10
    assert program("0B0,0B1\n").microbatches == 2 and program("0REDUCE_GRAD\n").microbatches == 1


def test_a_stage_is_where_most_of_its_work_is():
    assert [s.rank for s in program("0F0,1F0,1B0\n1F1,1RECV_B1,1SEND_B1,1UNSHARD\n").stages] == [0, 0]
    assert [s.rank for s in program("0F0,1F0\n1F1\n").stages] == [0, 0]  # a tie: the lowest rank
    assert [s.rank for s in program("0F0\n1RECV_F0\n").stages] == [
        0,
        1,
    ]  # no work at all: where it is mentioned


@pytest.mark.parametrize(
    "placement, expected",
    [("loop", [0, 1, 0, 1]), ("vee", [0, 1, 1, 0]), ((1, 1, 0, 0), [1, 1, 0, 0]), (None, [0, 1, 1, 0])],
)
def test_placement(cases, placement, expected):
    p = program(cases["c20_wrong_placement.compute_only.csv"], placement=placement)
    assert [s.rank for s in p.stages] == expected


def test_frozen_stages():
    assert [l.trainable for l in program(GOOD, frozen=frozenset({0})).layers] == [False, True]
    found, (d,) = errors(GOOD, frozen=frozenset({2}))
    assert found == [("IL204",)] and "stages 0 to 1" in d.message


@pytest.mark.parametrize(
    "cell, comms",
    [
        ("0F1", False),
        ("(0F1;0B0)OVERLAP_F_B", False),
        ("0SEND_F0", True),
        ("0UNSHARD", True),
        ("0RESHARD", True),
        ("0REDUCE_GRAD", True),
    ],
)
def test_the_format_shows_in_the_cells(cell, comms):
    p = program(f"0F0,{cell}\n")
    assert p.inserted is p.reductions_inserted is not comms
    assert program("0F0\n", format="compute-comms").inserted is False


def test_overlap_bubbles_and_line_ends():
    p = program("\ufeff, 0F0 ,(0F1;0B0)OVERLAP_F_B,,(0B1;0F2)OVERLAP_F_B\r\n,\r\n0W0,\t0I0\r\n\r\n  \n")
    o = p.order
    assert o.start.tolist() == [0, 5, 5, 7]
    assert [Kind(k).name for k in o.kind] == list("FFBBFWI")
    assert (o.stage == 0).all() and o.mb.tolist() == [0, 1, 0, 1, 2, 0, 0]
    assert o.launch.tolist() == [-1, 0, 0, 1, 1, -1, -1]
    assert o.at.tolist() == [3, 8, 8, 30, 30, 55, 60] and o.width.tolist() == [3, 20, 20, 20, 20, 3, 3]
    assert {c: getattr(o, c).dtype for c in ("start", "kind", "stage", "at", "width")} == {
        c: getattr(OrderBuilder().build(), c).dtype for c in ("start", "kind", "stage", "at", "width")
    }
    assert write(p) == "0F0,(0F1;0B0)OVERLAP_F_B,(0B1;0F2)OVERLAP_F_B\n\n0W0,0I0\n"


def test_no_newline_at_the_end():
    assert write(program(GOOD)) == write(program(GOOD.rstrip("\n"))) == GOOD


# -- input errors, each with its place
# ---------------------------------------------------------------------------------

ERRORS = {
    "a bad cell": ("0F0,0F1xyz,0B0\n", {}, [("IL108", 1, 5, 6)]),
    "several": ("0F0, 0F ,0B0\n1F0,1BW1\n", {}, [("IL108", 1, 6, 2), ("IL108", 2, 5, 4)]),
    "quotes": ('"0F0","0B0"\n', {}, [("IL108", 1, 1, 5), ("IL108", 1, 7, 5)]),
    "small letters are no header": ("0f0,0b0\n", {}, [("IL108", 1, 1, 3), ("IL108", 1, 5, 3)]),
    "a row number in front": ("0,0F0,0B0\n", {}, [("IL108", 1, 1, 1)]),
    "an old line end": ("0F0,0B0\r1F0,1B0\n", {}, [("IL108", 1, 5, 7)]),
    "a transfer in compute-only": (
        "0F0,0SEND_F0\n1F0,1UNSHARD,1REDUCE_GRAD\n",
        {"format": "compute-only"},
        [("IL108", 1, 5, 8), ("IL108", 2, 5, 8), ("IL108", 2, 14, 12)],
    ),
    "a header": ("rank0,rank1\n" + GOOD, {}, [("IL109", 1, 1, 11)]),
    "step numbers": ("0,1,2,3\n" + GOOD, {}, [("IL109", 1, 1, 7)]),
    "a comment": (GOOD + "# made by hand, twice\n", {}, [("IL109", 3, 1, 21)]),
    "prose": ("0F0\nidle\n1F0\n", {}, [("IL109", 2, 1, 4)]),
    "an empty line": ("0F0,0B0\n\n1F0,1B0\n", {}, [("IL110", 2, 1, 1)]),
    "an empty first line": (" \r\n0F0,0B0\n", {}, [("IL110", 1, 1, 1)]),
    "a torn line": ("0F0,0B0\n1F0,1B", {}, [("IL110", 2, 5, 2)]),
    "a torn line of one cell": ("0F0,0B0\n1", {}, [("IL110", 2, 1, 1)]),
    "a torn overlap": ("0F0,0B0\n1F0,(1F1;1B0)OVER", {}, [("IL110", 2, 5, 13)]),
    "a whole line that is wrong": ("0F0,0B0\n1F0,1B\n", {}, [("IL108", 2, 5, 2)]),
    "an empty cell among transfers": (
        "0F0,,0SEND_F0,,\n1RECV_F0,1F0\n",
        {},
        [("IL110", 1, 5, 1), ("IL110", 1, 15, 1)],
    ),
    "empty cells, declared": (",,0F0\n", {"format": "compute-comms"}, [("IL110", 1, 1, 1)]),
    "an index": ("0F0,0F10000001\n", {}, [("IL104", 1, 5, 10)]),
    "an index in an overlap": ("(0F0;10000001B0)OVERLAP_F_B\n", {}, [("IL104", 1, 1, 27)]),
    "a long index": (f"0F0,{'9' * 30}F0\n", {}, [("IL104", 1, 5, 32)]),
    "too many ranks": ("0F0\n" * 4097, {}, [("IL104", 4097, 1, 3)]),
    "a NUL": ("0F0,\0\n", {}, [("IL105", 1, 5, 1)]),
    "no text": ("", {}, [("IL106",)]),
    "only commas": (",,\n\n , \n", {}, [("IL106",)]),
    "a stage nobody has": ("0F0,5F0\n1F0,2F0\n", {}, [("IL204", 1, 5, 3)]),
    "a placement too short": (GOOD, {"placement": (0,)}, [("IL204",)]),
    "a placement on no rank": (GOOD, {"placement": (0, 2)}, [("IL204",)]),
    "no microbatch": (GOOD, {"microbatches": 0}, [("IL104",)]),
    "in order of place": (
        "0F0,x,\n\n1SEND_F0,20000000F0\nhead,er\n",
        {},
        [
            ("IL108", 1, 5, 1),
            ("IL110", 1, 7, 1),
            ("IL110", 2, 1, 1),
            ("IL104", 3, 10, 10),
            ("IL109", 4, 1, 7),
        ],
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_input_errors(name):
    text, options, expected = ERRORS[name]
    assert errors(text, **options)[0] == expected


def test_messages():
    def message(text, **options):
        return (lambda d: f"{d.message} | {d.help}")(errors(text, **options)[1][0])

    assert "line 1 is a header" in message("rank0,rank1\n" + GOOD)
    assert "looks cut off" in message("0F0,0SEND_")
    assert "stages 3 to 4" in message("0F0,5F0\n1F0,2F0\n") and "up to stage 5" in message(
        "0F0,5F0\n1F0,2F0\n"
    )
    assert "2 empty cells" in message("0SEND_F0,,\n") and "at the end of the line" in message("0SEND_F0,,\n")
    assert "put in by the runtime" in message("0SEND_F0\n", format="compute-only")
    assert "10000001 is above 10,000,000" in message("0F10000001\n")


def test_twenty_errors_are_shown():
    found, diagnostics = errors(",".join(["0F0x"] * 20))
    assert len(found) == 20 and not diagnostics[-1].detail
    found, diagnostics = errors(",".join(["0F0x"] * 21))
    assert len(found) == 20 and "more errors" in diagnostics[-1].detail[0]


def test_limits(monkeypatch):
    monkeypatch.setattr(csv_faults, "MAX_CELLS", 8)
    assert write(program(GOOD)) == GOOD
    assert errors(GOOD + ",")[0] == [("IL104",)]
    monkeypatch.setattr(placement, "MAX_STAGES", 1)
    assert errors("0F0\n1F0\n")[0] == [("IL104", 2, 1, 3)]
    monkeypatch.setattr(csv_faults, "MAX_BYTES", len(GOOD) - 1)
    assert errors(GOOD)[0] == [("IL104",)]
    with pytest.raises(InputError, match="larger than"):
        decode(GOOD.encode())


def test_decode():
    assert write(program(decode(b"\xef\xbb\xbf" + GOOD.encode()))) == GOOD
    for data in (b"0F0\n\xff", "0F0,0B0".encode("utf-16")):
        with pytest.raises(InputError, match="not UTF-8") as caught:
            decode(data)
        assert caught.value.findings[0].code == "IL105"
    with pytest.raises(InputError, match="in line 2"):
        decode(b"0F0\n\xff")


def test_what_a_csv_has_no_cell_for():
    def with_rows(fill):
        b = OrderBuilder()
        fill(b)
        b.end_rank()
        b.end_rank()
        return program(GOOD).with_order(b.build())

    for fill in (
        lambda b: b.op(Kind.STEP),
        lambda b: b.op(Kind.F, 0, 0, comm=1),
        lambda b: b.op(Kind.LOSS, 1, 0),
        lambda b: (b.op(Kind.SEND_F, 0, 0, launch=0), b.op(Kind.RECV_B, 0, 0, launch=0)),
    ):
        p = with_rows(fill)
        object.__setattr__(p, "communicators", p.communicators * 2)
        with pytest.raises(NotExpressible) as caught:
            write(p)
        assert caught.value.row == 0
