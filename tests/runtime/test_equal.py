"""Losses and every gradient of the runtime equal the single process's, for a small vision-language model,
skeleton by skeleton.

A few processes run many plans one after the other. `--thorough` runs the full product.
"""

from __future__ import annotations

import itertools

import pytest

from .support import lowered, schedule, train
from .vlm import FROZEN

pytestmark = pytest.mark.torch

SKELETONS = (
    "gpipe",
    "1f1b",
    "interleaved(chunks: 2)",
    "zb_h1",
    "zb_v",
    "dualpipev",
    "transpose",
    "transpose(gather: late)",
)
OTHERS = (
    "eager",
    "breadth_first(chunks: 2)",
    "zb_h2",
    "interleaved_zb(chunks: 2)",
    "hanayo(chunks: 2)",
    "v_min",
    "transpose(gather: late, post: early)",
    "transpose(place: deadline)",
    "transpose(owner: balanced)",
    "transpose / zb_v",
    "transpose / dualpipev",
    "transpose / interleaved(chunks: 2)",
    "1f1b / 1f1b",
    "gpipe / zb_h1",
)
CLOSE = {"float64": 1e-12, "float32": 1e-5}


def job(
    folder,
    number: int,
    ranks: int,
    skeleton: str,
    microbatches: int,
    frozen: str = "trained",
    text_only=(),
    tied: bool = False,
    dtype: str = "float64",
    steps: int = 1,
    dynamic: bool = False,
    **options,
) -> dict:
    found = lowered(schedule(skeleton, ranks, microbatches, FROZEN[frozen], text_only, tied), **options)
    path = folder / f"{number}.plan"
    path.write_text(found.text)
    return {
        "plan": str(path),
        "dtype": dtype,
        "frozen": FROZEN[frozen],
        "tied": tied,
        "text_only": list(text_only),
        "steps": steps,
        "dynamic": dynamic,
        "name": f"{skeleton} P={ranks} M={microbatches} {frozen} {dtype} text only "
        f"{list(text_only)}{' tied' * tied} {options}",
    }


def exists(ranks: int, skeleton: str, microbatches: int) -> bool:
    return "dualpipev" not in skeleton or microbatches >= 2 * ranks - 1


def run(jobs: list[dict], ranks: int, folder, seconds: float) -> dict[str, float]:
    """The largest distance of each type. Every one is within its bound; every gradient of the single process
    was compared, wherever its layer lies.
    """
    worst = dict.fromkeys(CLOSE, 0.0)
    wrong = []
    for asked, found in zip(jobs, train(jobs, ranks, folder, seconds), strict=True):
        far = max((f["far"] for f in found), key=lambda x: (x != x, x))
        worst[asked["dtype"]] = max(worst[asked["dtype"]], far)
        if not far <= CLOSE[asked["dtype"]] or any(f["compared"] != f["there"] for f in found):
            wrong.append((asked["name"], found))
    assert not wrong, f"{len(wrong)} of {len(jobs)} cases: {wrong[:5]}"
    return worst


def test_two_ranks(tmp_path):
    run(
        [
            job(tmp_path, n, 2, *args, **more)
            for n, (args, more) in enumerate(
                [
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
                    (("transpose", 4, "trained", (1,)), {"steps": 3, "dynamic": True}),
                ]
            )
        ],
        2,
        tmp_path,
        300,
    )


def test_four_ranks(tmp_path):
    run(
        [
            job(tmp_path, n, 4, *args, **more)
            for n, (args, more) in enumerate(
                [
                    (("1f1b", 6, "trained", (2,), True), {}),
                    (("interleaved(chunks: 2)", 4, "frozen"), {}),
                    (("zb_v", 3, "trained", (1,)), {}),
                    (("dualpipev", 8, "projector"), {}),
                    (("transpose", 7, "trained", (0, 5)), {"steps": 2}),
                    (("transpose(gather: late)", 5, "frozen", (3,), True), {}),
                ]
            )
        ]
        + [
            job(tmp_path, 9, 2, "transpose", 3, "trained", (1,), True, steps=2)
            | {"pipelines": [[0, 2], [1, 3]], "name": "two pipelines of two ranks"}
        ],
        4,
        tmp_path,
        300,
    )


def text_only(which: str, microbatches: int) -> tuple[int, ...]:
    return {"none": (), "some": tuple(range(0, microbatches, 3)), "all": tuple(range(microbatches))}[which]


def product(ranks: int):
    """(skeleton, M, freezing, text only, tied, dtype, options of the lowering)."""
    below, sizes = ranks - 1, (ranks - 1, ranks, 2 * ranks, 2 * ranks + 3)
    yield from itertools.product(SKELETONS, sizes, FROZEN, ("none", "some"), (False, True), CLOSE, ({},))
    yield from itertools.product(
        OTHERS, (below, 2 * ranks + 1), FROZEN, ("some",), (True,), ("float64",), ({},)
    )
    yield from itertools.product(
        SKELETONS, (below, ranks + 1), FROZEN, ("all",), (True,), ("float64",), ({},)
    )
    yield from itertools.product(
        SKELETONS,
        (ranks + 1,),
        FROZEN,
        ("some",),
        (True,),
        ("float64",),
        ({"grouped": True}, {"transfers": "inserted"}, {"to": "json"}),
    )


@pytest.mark.thorough
@pytest.mark.parametrize("ranks", [2, 4])
def test_the_full_product(tmp_path, ranks):
    cases = [c for c in product(ranks) if exists(ranks, c[0], c[1])]
    jobs = [
        job(tmp_path, n, ranks, skeleton, m, frozen, text_only(text, m), tied, dtype, **options)
        for n, (skeleton, m, frozen, text, tied, dtype, options) in enumerate(cases)
    ]
    if ranks == 4:
        for skeleton, frozen in itertools.product(SKELETONS, FROZEN):
            two = job(tmp_path, len(jobs), 2, skeleton, 3, frozen, (0,), True, steps=2)
            jobs.append(two | {"pipelines": [[0, 2], [1, 3]], "name": f"{two['name']}, two pipelines"})
    jobs += [
        job(tmp_path, len(jobs) + n, ranks, skeleton, 2 * ranks, "trained", (1,), steps=3, dynamic=True)
        for n, skeleton in enumerate(SKELETONS)
    ]
    worst = run(jobs, ranks, tmp_path, 3600)
    assert len(jobs) == {2: 926, 4: 938}[ranks]
    print(f"{ranks} ranks: {len(jobs)} cases, the largest relative distance {worst}")
