"""Every owner map of a late gather, against each of them (spec/algebra.md, "Every owner map")."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, product

import pytest

from algebra import judging
from interlock.engine import graph, owner_maps
from interlock.program.facts import Facts
from interlock.program.ir import Program
from interlock.rules.communication import Transfers
from interlock.rules.waits import MODELS, wait_graph

OWN, ONE = "", ", gather_on: seam, scatter_on: seam"
BACKWARDS = """skeleton backwards(P, M) sharded place map(r, c) = P - 1 - r {
  rank r { for i in 0 ..< min(M, r) { F(i) }  for i in 0 ..< M { if i + r < M { F(i + r) } B(i) } } }
"""  # 1F1B, its first stage on the last rank


LATE = """schedule s {{ ranks {P} microbatches {M} communicator seam = ranks 0..{last} {images}
  model {{ layer vit {{ modality vision }} layers llm[{P}] {{ }} }}
  cut {{ encoder = vit : transpose(owner: {owner}, gather: late{how})
        backbone = llm : {body} }} {freeze} }}"""


@dataclass(frozen=True)
class Shape:
    """A schedule with late gathers but for its owner map; `images`: of each microbatch, () for one each."""

    P: int
    M: int
    images: tuple[int, ...]
    body: str

    def list_visits(self) -> list[int]:
        return [m for m in range(self.M) if not self.images or self.images[m]]


@lru_cache(maxsize=1024)
def derive(shape: Shape, how: str, freeze: str, owner: tuple[int, ...]) -> Program:
    images = f"images {list(shape.images)}" if shape.images else ""
    text = LATE.format(
        P=shape.P,
        M=shape.M,
        last=shape.P - 1,
        images=images,
        owner=list(owner),
        how=how,
        body=shape.body,
        freeze=freeze,
    )
    return judging.schedule(BACKWARDS + text).program


SHAPES = [
    Shape(2, 4, (1, 0, 2, 1), "zb_h1"),
    Shape(2, 4, (), "1f1b"),
    Shape(3, 3, (), "backwards"),
    Shape(3, 3, (), "gpipe"),
    Shape(3, 3, (), "1f1b"),
    Shape(3, 4, (1, 2, 0, 1), "1f1b"),
    Shape(4, 3, (), "zb_h2"),
]


@pytest.mark.parametrize("how", [OWN, ONE, OWN + ", post: early"], ids=["own", "one", "early"])
@pytest.mark.parametrize("freeze", ["freeze vit", ""], ids=["frozen", "trained"])
def test_each_owner_map(pytestconfig, how, freeze):
    """Times that serve the few maps serve every map, wait for wait, and are found wherever no map fails."""
    for shape in SHAPES if pytestconfig.getoption("--thorough") else SHAPES[:3]:
        check_each_owner_map(how, freeze, shape)


def check_each_owner_map(how: str, freeze: str, shape: Shape) -> None:
    own = [m % shape.P for m in range(shape.M)]
    beside = {derive(shape, how, freeze, tuple(own)).stages[1].rank}
    few = dict.fromkeys(owner_maps.list_covering_maps(own, shape.list_visits(), shape.P, beside))
    programs = [derive(shape, how, freeze, owner) for owner in few]
    for model in MODELS:
        times = owner_maps.find_common_times(programs, model)
        fails = False
        for owner in list_all_maps(shape, own):
            facts = Facts(derive(shape, how, freeze, owner))
            waits = wait_graph(facts, Transfers(facts), model)
            if times is None:
                fails = fails or not graph.solve(waits).acyclic
            else:
                number = owner_maps.number_events(facts, waits)
                pairs = zip(number[waits.src].tolist(), number[waits.dst].tolist())
                assert all(times[a] < times[b] for a, b in pairs), (shape, model, owner)
        assert (times is None) == fails, (shape, model)
        if how != ONE and model != "blocking":
            assert times is not None  # T8


def list_all_maps(shape: Shape, own: list[int]) -> Iterator[tuple[int, ...]]:
    visits = shape.list_visits()
    for owners in product(range(shape.P), repeat=len(visits)):
        chosen = list(own)
        for m, rank in zip(visits, owners):
            chosen[m] = rank
        yield tuple(chosen)


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
