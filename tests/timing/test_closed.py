"""Closed forms: those of the papers come out, nothing is claimed that fails, and every claim holds at points
outside its grid.
"""

from __future__ import annotations

import random

import pytest
import sympy

from interlock.algebra.closed_forms import SKELETONS, B, F, I, M, P, V, W, close, measure, r

SMALL = dict(most_ranks=4, most=9)
EXPECTED = {
    ("1f1b", "makespan"): (M + P - 1) * (F + B),
    ("1f1b", "span bubble"): (P - 1) * (F + B),
    ("1f1b", "in flight"): P - r,
    ("gpipe", "makespan"): (M * V + P - 1) * (F + B),
    ("interleaved", "makespan"): (M * V + P - 1) * (F + B),
    ("zb_h1", "span bubble"): (P - 1) * (F + I - W),
    ("zb_h1", "makespan"): M * (F + I + W) + (P - 1) * (F + I - W),  # arXiv 2401.10241, table 2
    ("zb_h2", "span bubble"): (P - 1) * (F + I - 2 * W),
    ("zb_v", "span bubble"): sympy.Integer(0),
    ("zb_h1", "in flight until W"): P,
    ("dualpipev", "in flight"): 2 * P + 1,
}


@pytest.mark.parametrize("name, figure", EXPECTED)
def test_the_forms_of_the_papers(name, figure):
    form = close(name, figure, **SMALL)
    assert form.expression is not None and sympy.expand(form.expression - EXPECTED[name, figure]) == 0, str(
        form
    )
    assert form.checked > 20 and str(form).startswith(f"{name}: {figure} = ")


def test_where_none_holds_none_is_claimed():
    form = close("v_min", "makespan", **SMALL)
    assert form.expression is None and str(form) == "v_min: makespan: none is claimed"


def test_claims_hold_outside_the_grid():
    pick = random.Random(3)
    for name in ("1f1b", "interleaved", "zb_h1"):
        form = close(name, "makespan", **SMALL)
        for _ in range(4):
            p, v = pick.randint(5, 7), pick.choice(SKELETONS[name])
            m, w = pick.randint(15, 25), pick.randint(1, 4)
            f, i = w + pick.randint(0, 5), w + pick.randint(0, 5)
            at = {P: p, M: m, V: v, F: f, I: i, W: w, B: i + w}
            assert form.expression.subs(at) == measure(name, p, m, v, f, i, w)[0]
