"""Every owner map of a late gather, against each of them (spec/algebra.md, "Every owner map")."""

from functools import cache
from itertools import combinations, product

import pytest

from algebra import judging
from interlock.engine import graph, owner_maps
from interlock.program.facts import Facts
from interlock.rules.communication import Transfers
from interlock.rules.waits import MODELS, wait_graph

OWN, ONE = "", ", gather_on: seam, scatter_on: seam"
SHAPES = [
    (2, 4, (1, 0, 2, 1), "zb_h1"),
    (2, 4, (), "1f1b"),
    (3, 3, (), "backwards"),
    (3, 3, (), "gpipe"),
    (3, 3, (), "1f1b"),
    (3, 4, (1, 2, 0, 1), "1f1b"),
    (4, 3, (), "zb_h2"),
]

BACKWARDS = """skeleton backwards(P, M) sharded place map(r, c) = P - 1 - r {
  rank r { for i in 0 ..< min(M, r) { F(i) }  for i in 0 ..< M { if i + r < M { F(i + r) } B(i) } } }
"""  # 1F1B, its first stage on the last rank


def late(P: int, M: int, how: str, freeze: str, images=(), body="1f1b"):
    """owner map -> program."""
    more = f"images {list(images)}" if images else ""
    return cache(
        lambda owner: (
            judging.schedule(
                BACKWARDS
                + f"""schedule s {{ ranks {P} microbatches {M} communicator seam = ranks 0..{P - 1} {more}
      model {{ layer vit {{ modality vision }} layers llm[{P}] {{ }} }}
      cut {{ encoder = vit : transpose(owner: {list(owner)}, gather: late{how})  backbone = llm : {body} }} {freeze} }}"""
            ).program
        )
    )


@pytest.mark.parametrize("how", [OWN, ONE, OWN + ", post: early"], ids=["own", "one", "early"])
@pytest.mark.parametrize("freeze", ["freeze vit", ""], ids=["frozen", "trained"])
def test_each_owner_map(pytestconfig, how, freeze):
    """Where one set of times serves the few maps it serves every map, wait for wait; and it is found wherever no map fails."""
    for shape in SHAPES if pytestconfig.getoption("--thorough") else SHAPES[:3]:
        each_owner_map(how, freeze, *shape)


def each_owner_map(how, freeze, P, M, images, body):
    program = late(P, M, how, freeze, images, body)
    visits = [m for m in range(M) if not images or images[m]]
    own = [m % P for m in range(M)]
    few = list(
        dict.fromkeys(owner_maps.list_covering_maps(own, visits, P, {program(tuple(own)).stages[1].rank}))
    )
    maps = [program(owner) for owner in few]
    for model in MODELS:
        times = owner_maps.find_common_times(maps, model)
        fails = False
        for owner in product(range(P), repeat=len(visits)):
            whole = list(own)
            for m, r in zip(visits, owner):
                whole[m] = r
            facts = Facts(program(tuple(whole)))
            waits = wait_graph(facts, Transfers(facts), model)
            if times is None:
                fails = fails or not graph.solve(waits).acyclic
            else:
                name = owner_maps.number_events(facts, waits).tolist()
                assert all(
                    times[name[a]] < times[name[b]] for a, b in zip(waits.src.tolist(), waits.dst.tolist())
                ), (P, M, model, whole)
        assert (times is None) == fails, (P, M, model)
        if how != ONE and model != "blocking":
            assert times is not None  # T8


def test_the_maps_cover_every_two_microbatches():
    for M in range(1, 12):
        maps = list(owner_maps.list_covering_maps([0] * M, range(M), 3, {1}))
        for a, b in combinations(range(M), 2):
            seen = {(owner[a], owner[b]) for owner in maps}
            assert (
                {(0, 0), (1, 1), (2, 2)} <= seen
                and any(x == 1 != y for x, y in seen)
                and any(x != 1 == y for x, y in seen)
            )


def test_microbatches_that_do_not_visit_keep_their_owner():
    assert all(owner[1] == 7 for owner in owner_maps.list_covering_maps([0, 7, 0], [0, 2], 2, {0}))
    assert list(owner_maps.list_covering_maps([0, 0], [0, 1], 1, {0})) == [(0, 0)]
