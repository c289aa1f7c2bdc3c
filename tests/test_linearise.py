"""The two ways to the times of a program with inserted transfers agree: a walk along each rank, and a wave
over all of them.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from agreement.generate import make_schedule
from agreement.mutants import mutate
from interlock.algebra.standard import elaborate_text
from interlock.program import linearise
from interlock.program.facts import Facts


def both(program, monkeypatch) -> tuple[linearise.Times, linearise.Times]:
    monkeypatch.setattr(linearise, "MANY_RANKS", 10**9)
    walk = linearise.compute_times(Facts(program))
    monkeypatch.setattr(linearise, "MANY_RANKS", 1)
    monkeypatch.setattr(linearise, "FEW", 0)
    return walk, linearise.compute_times(Facts(program))


def equal(a: linearise.Times, b: linearise.Times) -> bool:
    return np.array_equal(a.time, b.time) and a.stuck == b.stuck


def test_random_orders_and_where_they_stop(monkeypatch, request):
    stops = 0
    for seed in range(2000 if request.config.getoption("--thorough") else 200):
        rng = Random(seed)
        program = make_schedule(rng)
        for p in (program, mutate(program, rng)[0]):
            if p.inserted:
                walk, wave = both(p, monkeypatch)
                assert equal(walk, wave), seed
                stops += not walk.complete
    assert stops > 5


@pytest.mark.parametrize("few", [0, 10**6])
@pytest.mark.parametrize("microbatches", [1, 40])
def test_many_ranks(monkeypatch, few, microbatches):
    """Also where the wave gives up, since few ranks go on at a time."""
    text = (
        f"schedule s {{ ranks 130 microbatches {microbatches} model {{ layers l[130] {{ forward 1ms }} "
        f"}} cut {{ d = l : gpipe }} }}"
    )
    program = elaborate_text(text).program
    walk, wave = both(program, monkeypatch)
    monkeypatch.setattr(linearise, "FEW", few)
    assert equal(walk, wave) and equal(walk, linearise.compute_times(Facts(program)))
