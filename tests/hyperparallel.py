"""The golden step lists of HyperParallel (tests/data/hyperparallel)."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

GOLDEN = Path(__file__).parent / "data" / "hyperparallel" / "golden.json.gz"


@cache
def _golden() -> dict:
    return json.loads(gzip.decompress(GOLDEN.read_bytes()))


def cases() -> list[dict]:
    return _golden()["cases"]


def steps(case: dict) -> list[list[str]]:
    """For each rank its steps, as `FWD 0 1`."""
    segments = _golden()["segments"]
    return [",".join(segments[i] for i in ids if segments[i]).split(",") for ids in case["ranks"]]


def shown(case: dict) -> str:
    return " ".join(
        f"{k}={case[k]}"
        for k in ("kind", "P", "M", "V", "less_memory", "mode", "overflow", "data")
        if k in case
    )


def compute(rank: Sequence[str]) -> list[tuple[str, int, int]]:
    """The forwards and backwards of a rank's body: ("F" or "B", microbatch, stage)."""
    return [
        ({"FWD": "F", "BWD": "B"}[kind], int(m), int(s))
        for kind, m, s in map(str.split, rank)
        if kind in ("FWD", "BWD")
    ]


def encodes(rank: Sequence[str]) -> list[int]:
    """The microbatches a rank encodes, in order."""
    return [int(m) for kind, m, _ in map(str.split, rank) if kind == "MPIPE_TRANSPOSE_FWD"]


def encoder_backwards(rank: Sequence[str]) -> list[int]:
    """The microbatches whose encoder backward a rank lists, in order."""
    return [
        int(m)
        for kind, m, _ in map(str.split, rank)
        if kind in ("MPIPE_GRAD_RECV_WITH_BACKWARD", "MPIPE_TRANSPOSE_BWD")
    ]
