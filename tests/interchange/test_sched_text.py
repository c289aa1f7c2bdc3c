"""The `.sched` text of an imported program."""

from pathlib import Path

import lark
import pytest

from interlock.interchange.torch_csv import CsvOptions, read
from interlock.language.unparse import UnparseError, to_sched
from interlock.program.build import OrderBuilder
from interlock.program.ir import Kind
from interlock.text.source import Sources

GRAMMAR = Path(__file__).parents[2] / "grammar" / "sched.lark"


def program(text, **options):
    return read(Sources().add("run.csv", text), CsvOptions(**options))


def test_inserted():
    p = program(
        "0F0,0F1,(0F2;0B0)OVERLAP_F_B,0B1,0B2\n1F0,1B0,1F1,1I1,1W1,2F0,2B0,3F0\n", frozen=frozenset({0, 1, 2})
    )
    assert (
        to_sched(p, "a-1.csv", expect="invalid IL302")
        == """\
schedule a_1_csv {
  ranks 2
  microbatches 3

  place {
    rank 0: 0
    rank 1: 1..3
  }
  freeze stage 0..2

  order transfers inserted {
    rank 0: 0F0..1 overlap(0F2 0B0) 0B1..2
    rank 1: 1F0 1B0 1F1 1I1 1W1 2F0 2B0 3F0
  }

  expect invalid IL302
}
"""
    )


def test_written():
    p = program(
        "0UNSHARD,0F0,0SEND_F0,0F1,0RECV_B0,0B0,0B1,0REDUCE_GRAD,0RESHARD\n1RECV_F0,1F0,1B0,1SEND_B0\n"
    )
    assert (
        to_sched(p, "1F1B")
        == """\
schedule schedule_1F1B {
  ranks 2
  microbatches 2

  place {
    rank 0: 0
    rank 1: 1
  }

  order transfers written {
    rank 0: 0UNSHARD 0F0 0SEND_F0 0F1 0RECV_B0 0B0..1 0REDUCE 0RESHARD
    rank 1: 1RECV_F0 1F0 1B0 1SEND_B0
  }
}
"""
    )


def test_lines_are_short_and_the_grammar_takes_them(cases, corpus):
    grammar = lark.Lark(GRAMMAR.read_text(), parser="lalr", lexer="contextual")
    taken = (
        [t for n, t in cases.items() if "c14" not in n and "c22" not in n]
        + [t for t in corpus.values() if len(t) < 3000]
        + [",,0F0\n,\n"]
    )
    assert len(taken) > 150
    for text in taken:
        out = to_sched(program(text, frozen=frozenset({0})), "1 file.csv", expect="valid under buffered")
        grammar.parse(out)
        assert max(map(len, out.splitlines())) <= 100


def test_what_is_not_written_out():
    b = OrderBuilder()
    b.op(Kind.ZERO)
    b.end_rank()
    with pytest.raises(UnparseError, match="ZERO"):
        to_sched(program("0F0\n").with_order(b.build()), "x")
