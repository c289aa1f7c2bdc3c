"""The schedules of a file, checked, with what lowering needs beside the verdict."""

from __future__ import annotations

from pathlib import PurePath

from interlock.check.pipeline import FileResult, Options, check_file
from interlock.lower.lowering import Source
from interlock.text.source import Sources


def sources_of(path: str, data: bytes, options: Options) -> tuple[FileResult, list[Source]]:
    """Raises Disagreement only; input errors are in the result."""
    result = check_file(path, data, options)
    if result.errors or PurePath(path).suffix.lower() == ".csv":
        return result, [Source(c) for c in result.checked]
    from interlock.algebra.elaborate import elaborate
    from interlock.algebra.requirements import requirements
    from interlock.check.program import Limits
    from interlock.language.parse import decode, parse

    sources = Sources()
    file = parse(sources.add(path, decode(path, data)))
    elaborated = {s.name: s for s in elaborate(file, sources)} if file.schedules else {}

    def source(checked) -> Source:
        schedule = elaborated.get(checked.name)
        if schedule is None:
            return Source(checked)
        asked = requirements(schedule)
        return Source(
            checked, schedule.trained, schedule.comm_of, Limits(asked.peak, asked.in_flight), schedule
        )

    return result, [source(c) for c in result.checked]
