"""Operations of orders and traces: what they become, their shape, and repeats written out."""

from __future__ import annotations

import itertools

import pytest

from interlock.language import ast
from interlock.language.expand import count_operations, expand
from interlock.text.finding import InputError
from interlock.text.source import Span
from language.support import codes, diagnostics, schedule

COMMS = "communicator c = ranks 0, 1 "


def items(text: str) -> tuple[ast.Item, ...]:
    return schedule(f"{COMMS} order transfers written {{ rank 0: {text} }}").order.ranks[0].items


def short(op) -> str:
    if not isinstance(op, ast.Op):
        return type(op).__name__ + "[" + " ".join(map(short, op.items)) + "]"
    parts = [
        op.stage if op.stage >= 0 else "",
        op.kind,
        op.mb if op.mb >= 0 else "",
        f"({op.peer})" if op.peer >= 0 else "",
        f":{op.name}" if op.name else "",
        f"@{op.comm}" if op.comm else "",
    ]
    return "".join(map(str, parts))


def written_out(text: str) -> str:
    return " ".join(map(short, expand(items(text))))


@pytest.mark.parametrize(
    "text, expected",
    [
        ("2F0 2B0 2I0 2W0 2LOSS0", "2F0 2B0 2I0 2W0 2LOSS0"),
        ("1RECV_F0 1RECV_B12 2SEND_F1@c 2SEND_B3", "1RECV_F0 1RECV_B12 2SEND_F1@c 2SEND_B3"),
        ("0WAIT_F0 0WAIT_B0 0REDUCE 0UNSHARD 0RESHARD", "0WAIT_F0 0WAIT_B0 0REDUCE 0UNSHARD 0RESHARD"),
        ("STEP ZERO step zero", "STEP ZERO STEP ZERO"),
        ("send(1, a0)@c recv(0, a0) wait(a0) free(a0)", "SEND(1):a0@c RECV(0):a0 WAIT:a0 FREE:a0"),
        ("coll(c, grad) init(c)", "COLL:grad@c INIT@c"),
        (
            "reduce(data: emb) reduce(tie: emb) reduce(tie: emb)@c",
            "REDUCE_DATA:emb REDUCE_TIE:emb REDUCE_TIE:emb@c",
        ),
        (
            "{ 0SEND_F1 3RECV_F0 } overlap(0F3 3B3) overlap(3W3 0F3)",
            "Launch[0SEND_F1 3RECV_F0] Overlap[0F3 3B3] Overlap[3W3 0F3]",
        ),
        ("{ 0SEND_F1..2 }", "Launch[0SEND_F1 0SEND_F2]"),
        ("0F0..3 0W1..1", "0F0 0F1 0F2 0F3 0W1"),
        ("0SEND_F0..1@c", "0SEND_F0@c 0SEND_F1@c"),
        ("(1F4 1B0) .. (1F6 1B2)", "1F4 1B0 1F5 1B1 1F6 1B2"),
        ("(0F0 0F5)..(2F0 0F5)", "0F0 0F5 1F0 0F5 2F0 0F5"),
        (
            "({ 0SEND_F0 } overlap(0F1 1B0)) .. ({ 0SEND_F1 } overlap(0F2 1B1))",
            "Launch[0SEND_F0] Overlap[0F1 1B0] Launch[0SEND_F1] Overlap[0F2 1B1]",
        ),
        ("(0F1 0B1) .. (0F1 0B1)", "0F1 0B1"),
        ("0F0\n0F1 # said\n\t0F2", "0F0 0F1 0F2"),
    ],
)
def test_operations(text, expected):
    assert written_out(text) == expected


@pytest.mark.parametrize(
    "text, message",
    [
        ("0F", "`0F` names no microbatch"),
        ("0REDUCE3", "`REDUCE` is of a stage as a whole"),
        ("0STEP", "`STEP` is of a rank as a whole"),
        ("0f3", "`f` is written in capitals"),
        ("0F3@c", "`F` uses no communicator"),
        ("0F3x", "`0F3x` is no operation"),
        ("F3", "`F3` is no operation"),
        ("...", "`...` is not part of the language"),
        ("0F5..2", "`0F5..2` counts down"),
        ("0REDUCE..3", "`0REDUCE..3` is no repeat of an operation"),
        ("send(1)", "`send` is not used in this way"),
        ("send(a, 1)", "`send` is not used in this way"),
        ("coll(c, a)@c", "`coll` is not used in this way"),
        ("reduce(emb)", "`reduce` is not used in this way"),
        ("reduce(group: emb)", "`reduce` is not used in this way"),
        ("step(1)", "`step` is not used in this way"),
        ("{ 0F0 }", "a grouped launch holds transfers, not `F`"),
        ("{ coll(c, a) }", "a grouped launch holds transfers, not `COLL`"),
        ("{ }", "an empty launch"),
        ("{ { 0SEND_F0 } }", "a grouped launch inside another, or an overlap in one"),
        ("overlap(0F0)", "an overlap has two halves: one F, and one of B, I, W"),
        ("overlap(0F0 1F1)", "an overlap has two halves: one F, and one of B, I, W"),
        ("(0F0 0F1) .. (0F2)", "the first group of this repeat has 2 operations, the last one 1"),
        ("(0F0) .. (0B2)", "the groups of this repeat differ here"),
        ("(0F0 0B0) .. (0F2 0B3)", "the indices of this repeat advance by 2 and by 3"),
        ("(0F3) .. (0F1)", "this repeat counts down"),
        ("() .. ()", "a repeat of nothing"),
        ("(0F0..1) .. (0F2..3)", "a repeat inside a repeat"),
        ("(send(1, a)) .. (send(2, b))", "the groups of this repeat differ here"),
    ],
)
def test_operations_refused(text, message):
    found, _ = diagnostics(
        f"schedule s {{ ranks 1 microbatches 1 {COMMS} order transfers written {{ rank 0: {text} }} }}"
    )
    assert [(d.code, d.message) for d in found] == [("IL101", message)]


def test_indices_fit_in_the_columns_of_a_program():
    assert items("2147483647F2147483647")[0].mb == 2**31 - 1
    for text in ("2147483648F0", "0F2147483648", "send(2147483648, a)", "0F0..2147483648"):
        assert codes(
            f"schedule s {{ ranks 1 microbatches 1 order transfers written {{ rank 0: {text} }} }}"
        ) == ["IL104"]


def test_each_operation_has_its_place():
    text = "schedule s { ranks 1 microbatches 1 order transfers written { rank 0: 0F0  0F1..3 step } }"
    first, repeat, step = schedule_items = schedule(text[text.index("order") : -2]).order.ranks[0].items
    assert [item.span.width for item in schedule_items] == [3, 6, 4]
    assert repeat.first[0].span == repeat.span


def test_repeats_are_written_out_lazily():
    def op(mb):
        return ast.Op("F", Span(0), 0, mb)

    repeat = ast.Repeat((op(0),), (op(19_999_999),), 20_000_000, Span(0))
    assert count_operations((repeat,)) == 20_000_000
    assert [o.mb for o in itertools.islice(expand((repeat,)), 3)] == [0, 1, 2]


def test_too_many_operations_are_refused_before_the_first():
    def op(mb):
        return ast.Op("F", Span(0), 0, mb)

    repeat = ast.Repeat((op(0),), (op(10**12),), 10**12, Span(0))
    with pytest.raises(InputError) as e:
        expand((op(0), repeat))
    assert e.value.findings[0].code == "IL104"
