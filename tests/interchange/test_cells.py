"""The cell grammar: the vectorised scanner against a regular expression written from spec/interchange.md."""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from interlock.interchange.bad_cell import explain, looks_cut_off
from interlock.interchange.cells import BAD, EMPTY, PAIR, WORDS, scan
from interlock.program.ir import Kind

N = "(0|[1-9][0-9]{0,8})"
COMPUTE = f"{N}([FBIW]){N}"
OPERATION = re.compile(f"{N}(F|B|I|W|SEND_F|RECV_F|SEND_B|RECV_B){N}|{N}(UNSHARD|RESHARD|REDUCE_GRAD)")
OVERLAP = re.compile(rf"\({COMPUTE};{COMPUTE}\)OVERLAP_F_B")


def one(cell: str):
    """(kind, stage, mb) of a cell, PAIR with its halves, EMPTY or BAD: by the scanner."""
    cells = scan(cell + "\n")
    assert len(cells.kind) == 1
    match int(cells.kind[0]):
        case 255:
            return (PAIR, *cells.halves[0].ravel().tolist())
        case 253 | 254 as kind:
            return kind
        case kind:
            return kind, int(cells.stage[0]), int(cells.mb[0])


def expected(cell: str):
    """The same by the expression."""
    cell = cell.strip(" \t")
    if not cell:
        return EMPTY
    if m := OPERATION.fullmatch(cell):
        s, word, mb, s2, word2 = m.groups()
        return (WORDS[word], int(s), int(mb)) if word else (WORDS[word2], int(s2), -1)
    if (m := OVERLAP.fullmatch(cell)) and (m[2] == "F") != (m[5] == "F"):
        return PAIR, Kind[m[2]], int(m[1]), int(m[3]), Kind[m[5]], int(m[4]), int(m[6])
    return BAD


GOOD = [
    "0F0",
    "12B345",
    "3I0",
    "3W10",
    "0SEND_F0",
    "1RECV_F1",
    "1SEND_B0",
    "0RECV_B12",
    "1UNSHARD",
    "10RESHARD",
    "0REDUCE_GRAD",
    "(0F7;7B3)OVERLAP_F_B",
    "(7B3;0F7)OVERLAP_F_B",
    "(0F7;7I3)OVERLAP_F_B",
    "(10F17;17W13)OVERLAP_F_B",
    " 0F0",
    "0F0 ",
    "\t0F0  ",
    "",
    "   ",
    "10000000F10000000",
]

# cell -> what the message says, and what the help says to write
WRONG = {
    "0F1xyz": ("`xyz` follows the operation `0F1`", "write `0F1`"),
    "0F1;0B0": ("holds 2 operations", "`0F1,0B0`"),
    "0F1 0F2": ("holds 2 operations", "`0F1,0F2`"),
    "0F1 0F2 0F3": ("holds 3 operations", "`0F1,0F2,0F3`"),
    "0F": ("names no microbatch", "`0F0`"),
    "0SEND_F": ("names no microbatch", "`0SEND_F0`"),
    "0BW1": ("an old notation of PyTorch", "write `0B1`"),
    "00F01": ("leading zeros", "write `0F1`"),
    "0F01": ("leading zeros", "write `0F1`"),
    "00UNSHARD": ("leading zeros", "write `0UNSHARD`"),
    "0F-1": ("a sign", "`0F1`"),
    "-1F0": ("a sign", "`1F0`"),
    "+1F0": ("a sign", "`1F0`"),
    "0f0": ("small letters", "write `0F0`"),
    "0X0": ("the type `X`", "F, B"),
    "0SEND0": ("the type `SEND`", "SEND_"),
    "0REDUCE": ("the type `REDUCE`", "`0REDUCE_GRAD`"),
    "0REDUCE_GRAD1": ("takes no microbatch", "write `0REDUCE_GRAD`"),
    "0UNSHARD3": ("takes no microbatch", "write `0UNSHARD`"),
    "0REDUCE_GRD": ("the type `REDUCE_GRD`", "`0REDUCE_GRAD`"),
    "F0": ("names no stage", "`0F0`"),
    "0": ("a number, not an operation", "`0F0`"),
    "idle": ("not an operation", "`2F0`"),
    '"0F0"': ("quoted", "`0F0` without quotes"),
    "'0F0'": ("quoted", "`0F0` without quotes"),
    "((0F7;7B3))OVERLAP_F_B": ("nests parentheses", "`(0F7;7B3)OVERLAP_F_B`"),
    "((0F7;7B3)OVERLAP_F_B;1F0)OVERLAP_F_B": ("nests parentheses", "`(0F7;7B3)OVERLAP_F_B`"),
    "(0F7;7F3)OVERLAP_F_B": ("not one forward and one backward", "pair one F"),
    "(0B7;7B3)OVERLAP_F_B": ("not one forward and one backward", "pair one F"),
    "(0F7;7B3;1F0)OVERLAP_F_B": ("holds 3 operations", "pair one F"),
    "(0F7)OVERLAP_F_B": ("not an overlap", "`(0F7;7B3)OVERLAP_F_B`"),
    "(0F7;7B3)": ("not written as an overlap", "write `(0F7;7B3)OVERLAP_F_B`"),
    "(2F1 3B0)OVERLAP_F_B": ("not written as an overlap", "write `(2F1;3B0)OVERLAP_F_B`"),
    "(0SEND_F7;7B3)OVERLAP_F_B": ("not one forward and one backward", "pair one F"),
    "(00F7;7B3)OVERLAP_F_B": ("not an overlap", "`(0F7;7B3)OVERLAP_F_B`"),
    "0 F0": ("not an operation", "`2F0`"),
    "0F0\x1b": ("cannot be seen", "delete it"),
    "0F0\xa0": ("cannot be seen", "delete it"),
    "0F٣": ("not an operation", "`2F0`"),
    "x" * 100: ("a cell of 100 characters", "by commas"),
}


@pytest.mark.parametrize("cell", GOOD)
def test_good_cells_are_read(cell):
    assert one(cell) == expected(cell) != BAD


@pytest.mark.parametrize("cell", WRONG)
def test_wrong_cells_are_refused_with_cause_and_repair(cell):
    assert one(cell) == expected(cell) == BAD
    cause, repair = explain(cell)
    assert WRONG[cell][0] in cause and WRONG[cell][1] in repair


parts = st.sampled_from(
    [
        "0",
        "1",
        "7",
        "12",
        "00",
        "F",
        "B",
        "I",
        "W",
        "SEND_F",
        "RECV_B",
        "UNSHARD",
        "REDUCE_GRAD",
        "(",
        ";",
        ")",
        ")OVERLAP_F_B",
        " ",
        "_",
        "x",
        "-",
        "é",
        "٣",
        "日",
        '"',
    ]
)


@settings(max_examples=400)
@given(
    st.lists(st.one_of(st.lists(parts, max_size=9).map("".join), st.sampled_from(GOOD)), max_size=8),
    st.sampled_from(["", "\n", "\r\n"]),
)
@example(["(0F0", "0B0)OVERLAP_F_B", "(0F0;0B0)OVERLAP_F_B"], "\n")
@example(["0F0" + " " * 200, " " * 200 + "0B0", " " * 300], "\r\n")
def test_scanner_and_expression_agree(row, end):
    text = ",".join(row) + end
    cells = scan(text)
    halves = iter(cells.halves.reshape(-1, 6).tolist())
    assert len(cells.kind) == max(len(row), 1)
    for cell, kind, stage, mb, start, stop in zip(
        row, cells.kind, cells.stage, cells.mb, cells.start, cells.end
    ):
        want = expected(cell)
        assert text[start:stop] == cell.strip(" \t")
        assert want == (
            (PAIR, *next(halves))
            if kind == PAIR
            else int(kind)
            if kind in (BAD, EMPTY)
            else (kind, stage, mb)
        )


@settings(max_examples=200)
@given(st.lists(parts, max_size=9).map("".join))
def test_every_wrong_cell_has_an_explanation(cell):
    if expected(cell) == BAD:
        cause, repair = explain(cell.strip())
        assert cause and repair


@pytest.mark.parametrize("cell", ["0F0", "12SEND_F1", "1UNSHARD", "(0F7;7B3)OVERLAP_F_B"])
def test_every_beginning_of_a_cell_is_one_or_looks_cut_off(cell):
    for n in range(1, len(cell)):
        assert one(cell[:n]) != BAD or looks_cut_off(cell[:n]), cell[:n]


def test_several_lines_and_places():
    cells = scan("\ufeff0F0, 1B2 ,\r\n\n2W0")
    assert cells.line.tolist() == [0, 3, 4, 5]
    assert list(zip(cells.start.tolist(), cells.end.tolist())) == [
        (1, 4),
        (6, 9),
        (11, 11),
        (13, 13),
        (14, 17),
    ]
    assert cells.kind.tolist() == [Kind.F, Kind.B, EMPTY, EMPTY, Kind.W]
