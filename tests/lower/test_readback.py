"""What a back end writes says the program it was given: PyTorch's corpus comes back cell by cell,
HyperParallel's golden orders as plans, and no changed text is taken.
"""

from __future__ import annotations

import json
from collections import Counter
from random import Random

import pytest

from interlock.check.files import Ruling
from interlock.check.program import check_program
from interlock.check.verdict import CaseResult
from interlock.interchange import plan as plans
from interlock.interchange.torch_csv import CsvOptions
from interlock.load import case_of
from interlock.lower import backends
from interlock.lower.lowering import LoweringRefused, lower

from .. import hyperparallel as golden
from ..agreement.generate import freeze, make_schedule
from ..interchange.conftest import corpus, corpus_index  # noqa: F401  fixtures
from ..interchange.test_hyperparallel import imported
from ..runtime.support import lowered


def source(program) -> Ruling:
    return Ruling(case_of(program), CaseResult("a.sched", "a", check_program(program, ("pair",))))


def cells(text: str) -> list[list[str]]:
    return [[c.strip() for c in line.split(",") if c.strip()] for line in text.splitlines()]


def test_pytorchs_corpus_comes_back_cell_by_cell(request, corpus, corpus_index):  # noqa: F811
    """`1F1B` is PyTorch's own malformed order, which is not lowered."""
    thorough = request.config.getoption("--thorough")
    counts = Counter()
    for name, text in sorted(corpus.items()):
        file, form, *_ = name.split("/")[-1].split(".")
        if (
            file not in corpus_index
            or not thorough
            and (corpus_index[file]["n_compute"] > 60 or corpus_index[file]["microbatches"] % 4)
        ):
            continue
        if corpus_index[file]["cls"] == "1F1B":
            with pytest.raises(LoweringRefused, match="IL302, IL306"):
                lowered(text, "torch-csv", name.split("/")[-1], CsvOptions())
            counts["malformed"] += 1
            continue
        found = lowered(text, "torch-csv", name.split("/")[-1], CsvOptions(), form=form.replace("_", "-"))
        assert cells(found.text) == cells(text), name
        for to in ("torch", "json"):
            plan = lowered(text, to, name.split("/")[-1], CsvOptions())
            assert plans.describe_difference(plans.loads(plan.text).program, plan.plan.program) == "", (
                name,
                to,
            )
        counts[form] += 1
    assert (
        sum(counts.values()) == 436
        if thorough
        else counts == {"compute_only": 9, "compute_comms": 9, "malformed": 3}
    ), counts


def test_every_golden_order_becomes_a_plan(request):
    """Those too that HyperParallel cannot run, or runs with an encoder's backward recomputed on rank 0, which
    no Runner has an action for.
    """
    counts = Counter()
    for case in golden.cases() if request.config.getoption("--thorough") else golden.cases()[::61]:
        given = source(imported(golden.steps(case)).program)
        for to in ("json", "torch"):
            try:
                found = lower(given, backends.find(to))
            except LoweringRefused as refused:
                assert (to, refused.code) == ("torch", "IL844"), (golden.shown(case), to, str(refused))
                counts["refused", case.get("mode"), str(refused)] += 1
                continue
            assert plans.describe_difference(plans.loads(found.text).program, found.plan.program) == "", (
                golden.shown(case)
            )
            counts[to] += 1
    print(dict(counts))
    assert (
        counts["json"] == len(golden.cases())
        if request.config.getoption("--thorough")
        else counts["json"] > 40 and counts["torch"] > 20
    ), counts


# ---- texts that were changed
# ---------------------------------------------------------------------------------------------


class Changed:
    """A back end whose text is another: a cell, step or operation moved past its neighbour, taken out,
    written twice, or with another number.
    """

    def __init__(self, backend, rng: Random):
        self.backend, self.rng, self.what = backend, rng, ""

    def __getattr__(self, name):
        return getattr(self.backend, name)

    def write(self, plan, program) -> str:
        text = self.backend.write(plan, program)
        if self.backend.name == "torch-csv":
            ranks = cells(text)
            self._change(ranks)
            return "".join(",".join(rank) + "\n" for rank in ranks)
        value = json.loads(text)
        ranks = value["ranks"] if "ranks" in value else list(value.values())
        self._change(ranks)
        return json.dumps(value)

    def _change(self, ranks: list[list]) -> None:
        rank = self.rng.choice([r for r in ranks if r])
        i = self.rng.randrange(len(rank))
        j = next((j for j in range(i + 1, len(rank)) if rank[j] != rank[i]), None)
        self.what = self.rng.choice(
            ["moved", "gone", "twice", "number"] if j is not None else ["gone", "twice", "number"]
        )
        match self.what:
            case "moved":
                rank[j - 1], rank[j] = rank[j], rank[j - 1]
            case "gone":
                del rank[i]
            case "twice":
                rank.insert(i, rank[i])
            case "number":
                rank[i] = other_number(rank[i])


def other_number(cell):
    """The first number raised by one: of the stage in a CSV, the microbatch of a step, the stage or
    microbatch of an operation; else the kind is another.
    """
    if isinstance(cell, dict):
        key = next((k for k in ("mb", "stage", "name") if k in cell), "do")
        return {**cell, key: cell[key] + 1 if isinstance(cell[key], int) else f"{cell[key]}X"}
    if isinstance(cell, list):
        return [cell[0], other_number(cell[1]), *cell[2:]]
    digits = next((i for i, c in enumerate(cell) if c.isdigit()), None)
    return f"{cell}X" if digits is None else cell[:digits] + str(int(cell[digits]) + 1) + cell[digits + 1 :]


def test_a_changed_text_is_not_taken(request):
    counts = Counter()
    for seed in range(1000 if request.config.getoption("--thorough") else 40):
        rng = Random(seed)
        program = make_schedule(rng)
        given = source(freeze(program, rng) if seed % 3 == 0 else program)
        for name in backends.BUILT_IN:
            try:
                lower(given, backends.find(name))
            except LoweringRefused as refused:
                assert refused.code in ("IL842", "IL843", "IL844"), (seed, name, str(refused))
                continue
            changed = Changed(backends.find(name), rng)
            with pytest.raises(LoweringRefused) as refused:
                lower(given, changed)
            assert (refused.value.code, refused.value.exit) == ("IL841", 101), (
                seed,
                name,
                changed.what,
                str(refused.value),
            )
            counts[name] += 1
    print(dict(counts))
    assert all(counts[name] > 2 for name in backends.BUILT_IN), counts
