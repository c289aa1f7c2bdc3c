"""Plans for the tests, and processes that run them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from interlock.check.files import rulings
from interlock.interchange.torch_csv import CsvOptions
from interlock.load import Question, load
from interlock.lower import backends
from interlock.lower.lowering import lower

HERE = Path(__file__).parent
TEXT = "layers vit[3] { modality vision } layer proj { modality vision } layer embed { } layers llm[6] { } layer head { }"
WHOLE = "all = vit, proj, embed, llm, head : "


def schedule(skeleton: str, ranks: int, microbatches: int, frozen=(), text_only=(), tied=False) -> str:
    """`skeleton`: one for the whole model, or `A / B` for the encoder and the rest; `transpose` is that in front of 1f1b."""
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


def environment() -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": f"{HERE.parents[1] / 'checker'}:{HERE}",
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
    }


def start(script: Path, ranks: int, *args, folder: Path) -> list[subprocess.Popen]:
    """A process a rank, with a store of their own: `script RANK RANKS STORE args..`."""
    store = folder / f"store-{time.monotonic_ns()}"
    return [
        subprocess.Popen(
            [sys.executable, script, str(r), str(ranks), store, *(str(a).format(rank=r) for a in args)],
            env=environment(),
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for r in range(ranks)
    ]


def finish(processes: list[subprocess.Popen], seconds: float) -> list[tuple[int, str]]:
    """(exit code, output) of each; kills what has not ended in time."""
    deadline = time.monotonic() + seconds
    out = []
    for p in processes:
        try:
            text, _ = p.communicate(timeout=max(deadline - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            for q in processes:
                q.kill()
            text, _ = p.communicate()
            text += "\n(did not end in time)"
        out.append((p.returncode, text))
    return out


def train(jobs: list[dict], ranks: int, folder: Path, seconds: float) -> list[list[dict]]:
    """For each job what every rank says."""
    path = folder / "jobs.json"
    path.write_text(json.dumps(jobs))
    ended = finish(start(HERE / "worker.py", ranks, path, folder / "out-{rank}.json", folder=folder), seconds)
    results = [
        json.loads((folder / f"out-{r}.json").read_text()) if (folder / f"out-{r}.json").exists() else []
        for r in range(ranks)
    ]
    for r, (code, text) in enumerate(ended):
        assert code == 0 and len(results[r]) == len(jobs), (
            f"rank {r} ended with {code} after {len(results[r])} of {len(jobs)} jobs:\n{text}\n{results[r][-1:]}"
        )
    return [list(of_ranks) for of_ranks in zip(*results)]
