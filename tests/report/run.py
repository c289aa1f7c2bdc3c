"""A run over files of every kind of answer, for the tests of the formats."""

from __future__ import annotations

from collections.abc import Callable

from interlock.check.files import FileResult, check_file
from interlock.check.verdict import CaseResult
from interlock.load import Question
from interlock.report.outcome import Unread
from interlock.text.source import Sources


def two_ranks(name: str, first: str, second: str, more: str = "") -> str:
    return (
        f"schedule {name} {{\n  ranks 2\n  microbatches 2\n{more}  order transfers written {{\n    rank "
        f"0: {first} 0REDUCE\n    rank 1: {second} 1REDUCE\n  }}\n}}\n"
    )


SENDS_MEET = (
    "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1",
    "1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1",
)
GPIPE = (
    "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1",
    "1RECV_F0 1F0 1RECV_F1 1F1 1B0 1SEND_B0 1B1 1SEND_B1",
)
FILES = {
    "runs/deadlock.sched": two_ranks("sends_meet", *SENDS_MEET),
    "runs/wrong data.sched": two_ranks(
        "crossed", GPIPE[0], "1RECV_F1 1F1 1RECV_F0 1F0 1B0 1SEND_B0 1B1 1SEND_B1"
    ),
    "runs/memory.sched": "schedule too_much {\n  ranks 2\n  microbatches 8\n  model { layers llm[4] { "
    "activation 4GiB  output 1GiB  weights 1GiB } }\n"
    "  cut { decoder = llm : gpipe }\n  memory { capacity 20GiB }\n}\n",
    "runs/unknown.sched": two_ranks("open", *GPIPE, more="  require { bubble <= 12% }\n"),
    "runs/torn.sched": "schedule x {\n  ranks two\n}\n",
    "runs/expected.sched": two_ranks("hoped", *SENDS_MEET, more="  expect invalid IL402\n"),
    "runs/unmet.sched": two_ranks("unmet", *GPIPE, more="  expect invalid IL402\n"),
    "runs/refused.sched": "# expect: invalid IL101\nschedule x {\n  ranks two\n}\n",
    "runs/valid.sched": two_ranks("gpipe", *GPIPE),
}


def run(
    files: dict[str, str | bytes] = FILES, models: tuple[str, ...] = ("pair", "rank")
) -> list[FileResult]:
    return [
        check_file(path, data if isinstance(data, bytes) else data.encode(), Question(models))
        for path, data in files.items()
    ]


def given(
    results: list[FileResult], seconds: float = 0.25
) -> tuple[list[CaseResult], Callable[[str], Sources | None], dict]:
    """What a renderer wants: what was checked, the sources, and what else there is. Every schedule took
    `seconds`.
    """
    from dataclasses import replace

    checked = [replace(c, seconds=seconds) for r in results for c in r.checked]
    unread = [Unread(r.path, r.errors, r.as_expected) for r in results if r.errors]
    return (
        checked,
        {r.path: r.sources for r in results}.get,
        {"unread": unread, "paths": [r.path for r in results]},
    )
