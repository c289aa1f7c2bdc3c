"""Losses and every gradient of the runtime equal the single process's, for a small vision-language model, skeleton by skeleton.

A few processes run many plans one after the other. `--thorough` runs the full product.
"""

from __future__ import annotations

import itertools

import pytest

from .support import lowered, schedule, train
from .vlm import FROZEN

SKELETONS = ("gpipe", "1f1b", "interleaved(chunks: 2)", "zb_h1", "zb_v", "dualpipev", "transpose", "transpose(gather: late)")
CLOSE = {"float64": 1e-12, "float32": 1e-5}


def job(folder, number: int, ranks: int, skeleton: str, microbatches: int, frozen: str = "trained", text_only=(), tied: bool = False, dtype: str = "float64",
        steps: int = 1, **options) -> dict:
    found = lowered(schedule(skeleton, ranks, microbatches, FROZEN[frozen], text_only, tied), **options)
    path = folder / f"{number}.plan"
    path.write_text(found.text)
    return {"plan": str(path), "dtype": dtype, "frozen": FROZEN[frozen], "tied": tied, "text_only": list(text_only), "steps": steps,
            "name": f"{skeleton} P={ranks} M={microbatches} {frozen} {dtype} text only {list(text_only)}{' tied' * tied} {options}"}


def exists(ranks: int, skeleton: str, microbatches: int) -> bool:
    return skeleton != "dualpipev" or microbatches >= 2 * ranks - 1


def run(jobs: list[dict], ranks: int, folder, seconds: float) -> None:
    """Every rank's distance is within the bound of the type; every parameter that trains was compared somewhere."""
    for asked, found in zip(jobs, train(jobs, ranks, folder, seconds)):
        assert all(f["far"] <= CLOSE[asked["dtype"]] for f in found), (asked["name"], found)
        assert sum(f["compared"] for f in found) > 0, asked["name"]


def test_two_ranks(tmp_path):
    run([job(tmp_path, n, 2, *args, **more) for n, (args, more) in enumerate([
        (("gpipe", 3), {"steps": 2}),
        (("1f1b", 4, "frozen", (1,)), {}),
        (("1f1b", 1, "trained", (), True), {"steps": 2}),
        (("interleaved(chunks: 2)", 2, "projector", (0,)), {}),
        (("zb_h1", 5, "frozen"), {"steps": 2}),
        (("zb_v", 4, "frozen", (0, 2), True), {}),
        (("dualpipev", 6, "frozen"), {"dtype": "float32"}),
        (("transpose", 5, "trained", (1,), True), {"steps": 2}),
        (("transpose", 3, "projector", (2,)), {"grouped": True}),
        (("transpose(gather: late)", 4, "trained"), {"transfers": "inserted"}),
        (("1f1b", 6), {"to": "json", "dtype": "float32"}),
    ])], 2, tmp_path, 60)


def test_four_ranks(tmp_path):
    run([job(tmp_path, n, 4, *args, **more) for n, (args, more) in enumerate([
        (("1f1b", 6, "trained", (2,), True), {}),
        (("interleaved(chunks: 2)", 4, "frozen"), {}),
        (("zb_v", 3, "trained", (1,)), {}),
        (("dualpipev", 8, "projector"), {}),
        (("transpose", 7, "trained", (0, 5)), {"steps": 2}),
        (("transpose(gather: late)", 5, "frozen", (3,), True), {}),
    ])] + [job(tmp_path, 9, 2, "transpose", 3, "trained", (1,), True, steps=2) | {"pipelines": [[0, 2], [1, 3]], "name": "two pipelines of two ranks"}], 4, tmp_path, 60)


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("skeleton", SKELETONS)
def test_the_full_product(tmp_path, request, ranks, skeleton):
    if not request.config.getoption("--thorough"):
        pytest.skip("only with --thorough")
    jobs = []
    for m, frozen, text, tied, dtype in itertools.product((ranks - 1, ranks, 2 * ranks, 2 * ranks + 3), FROZEN, ((), (0, 1)), (False, True), CLOSE):
        if exists(ranks, skeleton, m) and not (text and m <= 2):
            jobs.append(job(tmp_path, len(jobs), ranks, skeleton, m, frozen, text, tied, dtype))
    run(jobs, ranks, tmp_path, 900)
