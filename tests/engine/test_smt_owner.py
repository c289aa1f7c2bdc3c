"""Every owner map at once, against each of them."""

from dataclasses import replace
from itertools import product
from operator import itemgetter

import pytest

from agreement.lists import Operation, list_operations, replace_operations
from engine.programs import frozen_to, pipeline
from interlock.engine import graph, smt
from interlock.engine.smt import owner_maps as smt_owner
from interlock.engine.smt.query import Sat, Unsat
from interlock.engine.smt.solvers import decide
from interlock.program.build import OrderBuilder
from interlock.program.facts import Facts
from interlock.program.ir import Kind, Program
from interlock.program.transfers import insert
from interlock.rules.communication import Transfers
from interlock.rules.waits import MODELS, wait_graph


def with_owners(program: Program, owner) -> Program:
    """The same backbone; what a rank owns is encoded first and comes back last."""
    order = OrderBuilder()
    for r, ops in enumerate(list_operations(program)):
        mine = [m for m in range(program.microbatches) if owner[m] == r]
        for m in mine:
            order.op(Kind.F, 0, m)
        for x in ops:
            if x["stage"] > 0:
                order.op(x["kind"], x["stage"], x["mb"])
        for m in mine:
            order.op(Kind.B, 0, m)
        order.end_rank()
    stages = (replace(program.stages[0], owner=tuple(owner)), *program.stages[1:])
    return replace(program.with_order(order.build()), stages=stages)


FORWARD_SEAM = {
    (Kind.SEND_F, 0),
    (Kind.WAIT_F, 0),
    (Kind.RECV_F, 1),
}  # (kind, stage) of transfers at the region
BACKWARD_SEAM = {(Kind.SEND_B, 1), (Kind.WAIT_B, 1), (Kind.RECV_B, 0)}


def with_prefix(program: Program) -> Program:
    """Hand-overs between encodes and backbone, gradients after it; the backbone's own transfers as put in."""
    written = insert(program)
    return replace_operations(written, [order_prefix(ops) for ops in list_operations(written)])


def order_prefix(operations: list[Operation]) -> list[Operation]:
    encodes, forward, body, backward, rest = [], [], [], [], []
    for x in operations:
        at = (x["kind"], x["stage"])
        if at in FORWARD_SEAM:
            forward.append(x)
        elif at in BACKWARD_SEAM:
            backward.append(x)
        elif at == (Kind.F, 0):
            encodes.append(x)
        elif at == (Kind.B, 0) or x["kind"] in (Kind.REDUCE, Kind.STEP):
            rest.append(x)
        else:
            body.append(x)
    by_microbatch = itemgetter("mb")
    return [*encodes, *sorted(forward, key=by_microbatch), *body, *sorted(backward, key=by_microbatch), *rest]


@pytest.mark.parametrize("ranks, mbs", [(2, 3), (3, 3)])
@pytest.mark.parametrize("gpipe", [False, True])
def test_each_owner_map(ranks, mbs, gpipe):
    """The prefix program of every owner map waits in no cycle, under any model: what the one query says."""
    base = pipeline(ranks, mbs, encoder=True, gpipe=gpipe)
    assert smt.check_owner_maps(base, second=True) == smt.Holds(1)
    for owner in product(range(ranks), repeat=mbs):
        program = with_owners(base, owner)
        assert smt.check_owner_maps(program) == smt.Holds(1)
        written = with_prefix(program)
        facts = Facts(written)
        for model in MODELS:
            assert graph.solve(wait_graph(facts, Transfers(facts), model)).acyclic, (owner, model)


def test_frozen_and_text_only():
    assert smt.check_owner_maps(frozen_to(pipeline(3, 4, encoder=True), {0})) == smt.Holds(1)
    assert smt.check_owner_maps(pipeline(3, 4, encoder=True, text_only=(1,))) == smt.Holds(1)


def test_the_map_is_open():
    query = smt.build_owner_query(pipeline(3, 3, encoder=True))
    query.groups.pop("ask")
    for owner in ([2, 2, 2], [0, 1, 0]):
        query.groups["chosen"] = [f"(= owner.{m} {r})" for m, r in enumerate(owner)]
        assert isinstance(decide(query), Sat)
    query.groups["chosen"] = ["(= owner.0 3)"]
    assert isinstance(decide(query), Unsat)


@pytest.mark.parametrize(
    "symbol, value, owners",
    [
        ("encode.1", 0, "two encodes of one owner"),
        ("hand_over.0", 0, "a hand-over before its encode"),
        ("hand_back.1", 0, "a gradient before it is made"),
        ("decode.0", 99, "backwards out of turn"),
    ],
)
def test_wrong_times_are_found(symbol, value, owners):
    query = smt.build_owner_query(pipeline(2, 3, encoder=True))
    query.groups["time"] = [
        f"(= {symbol} {value})" if term.startswith(f"(= {symbol} ") else term for term in query.groups["time"]
    ]
    assert isinstance(decide(query), Sat), owners


def test_where_it_is_not_asked():
    for program in (pipeline(2, 2), insert(pipeline(2, 2, encoder=True))):
        answer = smt.check_owner_maps(program)
        assert isinstance(answer, smt.Unknown) and "Replicated region, which comes first" in answer.reason
    late = list_operations(pipeline(2, 2, encoder=True))
    late[1].insert(1, late[1].pop(0))  # rank 1 runs a forward of the backbone before its encode
    answer = smt.check_owner_maps(replace_operations(pipeline(2, 2, encoder=True), late))
    assert isinstance(answer, (smt.Unknown, smt.Fails))
    with pytest.raises(ValueError, match="owner maps are quantified"):
        smt.build_owner_query(pipeline(2, 2))


def test_a_cyclic_backbone_fails():
    lists = list_operations(pipeline(2, 2, encoder=True))
    at = [i for i, x in enumerate(lists[1]) if x["stage"] == 2]
    lists[1][at[0]], lists[1][at[1]] = lists[1][at[1]], lists[1][at[0]]
    answer = smt.check_owner_maps(replace_operations(pipeline(2, 2, encoder=True), lists))
    assert isinstance(answer, smt.Fails) and answer.code == "IL307"


def test_limits(monkeypatch):
    monkeypatch.setattr(smt_owner, "MAX_MICROBATCHES", 2)
    answer = smt.check_owner_maps(pipeline(2, 3, encoder=True))
    assert isinstance(answer, smt.Unknown) and "3 microbatches" in answer.reason
    assert isinstance(smt.check_owner_maps(pipeline(2, 2, encoder=True), timeout_ms=0), smt.Unknown)
