"""The report for programs that read line by line: an object a line, each complete in itself, with its
`kind`. Schema: spec/report.schema.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from interlock import __version__
from interlock.check.verdict import CaseResult
from interlock.report.items import SourcesOf, group_by_file
from interlock.report.json import (
    encode_answer,
    encode_expectation,
    encode_finding,
    encode_input_finding,
    encode_outcome,
    encode_summary,
    to_json_values,
)
from interlock.report.outcome import Unread, exit_code

FORMAT = "interlock.report-lines/1"


def render(
    checked: Sequence[CaseResult],
    sources_of: SourcesOf,
    *,
    unread: Sequence[Unread] = (),
    paths: Sequence[str] = (),
    internal: bool = False,
) -> str:
    return "".join(
        json.dumps(to_json_values(line), ensure_ascii=True, allow_nan=False) + "\n"
        for line in lines(checked, sources_of, unread, paths, internal)
    )


def lines(
    checked: Sequence[CaseResult],
    sources_of: SourcesOf,
    unread: Sequence[Unread] = (),
    paths: Sequence[str] = (),
    internal: bool = False,
) -> Iterator[dict]:
    """`run`; of each file its `error`s, or of each schedule `warning`, `answer` and its `finding`s,
    `expectation`, `schedule`; at last `summary`.
    """
    yield {"kind": "run", "format": FORMAT, "interlock": __version__}
    number = 0
    for number, (path, refused, schedules) in enumerate(group_by_file(checked, unread, paths), 1):  # noqa: B007
        sources = sources_of(path)
        for u in refused:
            yield from (
                {"kind": "error", "path": path, "as_expected": u.as_expected}
                | encode_input_finding(d, sources, path)
                for d in u.findings
            )
        for c in schedules:
            about = {"path": path, "schedule": c.name}
            yield from (
                {"kind": "warning"} | about | encode_input_finding(d, sources, path) for d in c.warnings
            )
            for a in c.answers:
                found = encode_answer(c, a, sources)
                under = {key: found[key] for key in ("model", "target") if key in found}
                del found["findings"]
                yield {"kind": "answer"} | about | found
                yield from (
                    {"kind": "finding"} | about | under | encode_finding(f, a.program, sources, path)
                    for f in a.findings
                )
            yield from ({"kind": "expectation"} | about | encode_expectation(e) for e in c.expectations)
            yield {"kind": "schedule"} | about | encode_outcome(c, sources)
    yield (
        {"kind": "summary"}
        | encode_summary(checked, unread, number)
        | {"exit_code": exit_code(checked, unread, internal)}
    )
