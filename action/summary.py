"""The summary of a run in Markdown: a table of the verdicts, and what is wrong as `interlock check` tells it,
pictures of the faults included.

Reads REPORT (JSON), TEXT and EXIT_CODE. The standard library only.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

MOST_ROWS, MOST_TEXT = 200, 200_000  # of a table, and characters of the text; GitHub takes 1 MiB
WORDS = {
    "0": "passed",
    "1": "failed",
    "2": "could not read its input",
    "3": "was left without an answer",
    "101": "met an internal error",
}
PASSING = ("valid", "invalid as expected", "vacuous as expected", "refused as expected")


def cell(text: str) -> str:
    """A text that is only text in a table."""
    return re.sub(r"([\\`*_\[\]<>|~#&])", r"\\\1", " ".join(text.split()))


def rows(report: dict) -> Iterator[tuple[str, str, str, str]]:
    """(file, schedule, outcome, what was found), those that fail first."""
    found = []
    for file in report["files"]:
        if file["errors"]:
            found.append(
                (
                    file["path"],
                    "",
                    "refused as expected" if file.get("as_expected") else "not readable",
                    codes(file["errors"]),
                )
            )
        for schedule in file["schedules"]:
            findings = [
                f for answer in schedule["answers"] for f in answer["findings"] if f["severity"] != "note"
            ]
            outcome = f"{schedule['outcome']} (known)" if schedule.get("excused") else schedule["outcome"]
            found.append((file["path"], schedule["name"], outcome, codes([*findings, *schedule["warnings"]])))
    yield from sorted(found, key=lambda row: row[2] in PASSING)


def codes(items: list[dict]) -> str:
    return ", ".join(sorted({item["code"] for item in items}))


def table(report: dict) -> Iterator[str]:
    found = list(rows(report))
    yield from ("| file | schedule | verdict | found |", "| --- | --- | --- | --- |")
    for row in found[:MOST_ROWS]:
        yield f"| {' | '.join(map(cell, row))} |"
    if len(found) > MOST_ROWS:
        yield f"\n... and {len(found) - MOST_ROWS} more"


def fenced(text: str) -> str:
    """A code block that nothing in the text can end."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return f"{fence}text\n{text.rstrip()}\n{fence}"


def main() -> int:
    sys.stdout.reconfigure(encoding="utf-8")
    code = os.environ.get("EXIT_CODE") or "101"
    print(f"## Interlock {WORDS.get(code, 'failed')}\n")
    if not os.environ.get("REPORT"):
        print(
            "No schedule was checked." if code == "0" else "There is no report: the log of the step says why."
        )
        return 0
    print("\n".join(table(json.loads(Path(os.environ["REPORT"]).read_text(encoding="utf-8")))))
    if code != "0":
        text = Path(os.environ["TEXT"]).read_text(encoding="utf-8")
        cut = "" if len(text) <= MOST_TEXT else "\n... the rest is in the log"
        print(f"\n{fenced(text[:MOST_TEXT] + cut)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
