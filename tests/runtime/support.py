"""Plans for the tests, and processes that run them."""

from __future__ import annotations

import json
import time
from pathlib import Path

from interlock.check.files import rulings
from interlock.interchange.torch_csv import CsvOptions
from interlock.load import Question, load
from interlock.lower import backends
from interlock.lower.lowering import lower
from torch_ranks import run_ranks

HERE = Path(__file__).parent
TEXT = (
    "layers vit[3] { modality vision } layer proj { modality vision } layer embed { } layers llm[6] { } "
    "layer head { }"
)
WHOLE = "all = vit, proj, embed, llm, head : "


def schedule(skeleton: str, ranks: int, microbatches: int, frozen=(), text_only=(), tied=False) -> str:
    """`skeleton`: one for the whole model, or `A / B` for the encoder and the rest; `transpose` is that in
    front of 1f1b.
    """
    encoder, _, rest = skeleton.partition(" / ")
    if rest or encoder.startswith("transpose"):
        cut = f"encoder = vit, proj : {encoder}  backbone = embed, llm, head : {rest or '1f1b'}"
    else:
        cut = WHOLE + skeleton
    images = [int(m not in text_only) for m in range(microbatches)]
    lines = [f"ranks {ranks}", f"microbatches {microbatches}", f"model {{ {TEXT} }}", f"cut {{ {cut} }}"]
    if text_only:
        lines.append(f"images [{', '.join(map(str, images))}]")
    if frozen:
        lines.append("freeze " + ", ".join(frozen))
    if tied:
        lines.append("tie words = embed, head")
    return "schedule s {\n" + "\n".join(lines) + "\n}\n"


def lowered(text: str, to: str = "torch", name: str = "s.sched", csv=None, **options):
    loaded = load(name, text.encode(), Question(csv=csv or CsvOptions()))
    assert not loaded.errors, loaded.errors
    [ruling] = rulings(loaded)
    return lower(ruling, backends.find(to), backends.LoweringOptions(**options))


def train(jobs: list[dict], ranks: int, folder: Path, seconds: float) -> list[list[dict]]:
    """For each job what every rank says."""
    path = folder / "jobs.json"
    path.write_text(json.dumps(jobs))
    store = folder / f"store-{time.monotonic_ns()}"
    arguments = [(r, ranks, store, path, folder / f"out-{r}.json") for r in range(ranks)]
    ended = run_ranks(HERE / "worker.py", arguments, folder, seconds)
    results = [
        json.loads((folder / f"out-{r}.json").read_text()) if (folder / f"out-{r}.json").exists() else []
        for r in range(ranks)
    ]
    for r, rank in enumerate(ended):
        assert rank.code == 0 and len(results[r]) == len(jobs), (
            f"rank {r} ended with {rank.code} after {len(results[r])} of {len(jobs)} "
            f"jobs:\n{rank.out}\n{results[r][-1:]}"
        )
    return [list(of_ranks) for of_ranks in zip(*results)]
