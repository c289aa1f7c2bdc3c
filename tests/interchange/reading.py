"""What the tests of importers share."""

from __future__ import annotations

import pytest

from interlock.check.files import check_file
from interlock.load import Question
from interlock.rules.waits import MODELS
from interlock.text.finding import InputError
from interlock.text.source import Sources


def refused(read, text: str, *args, **more) -> tuple[str, str, str]:
    """(code, the text pointed at, message and help) of the first error; every error has a help."""
    sources = Sources()
    source = sources.add("file", text)
    with pytest.raises(InputError) as caught:
        read(source, *args, **more)
    found = caught.value.findings
    assert len(found) <= 20 and all(d.message and d.help for d in found)
    if not found[0].marks:
        return found[0].code, "", f"{found[0].message} | {found[0].help}"
    span = found[0].marks[0].span
    at = span.at - sources.of(span.at).base
    return (
        found[0].code,
        sources.of(span.at).text[at : at + span.width],
        f"{found[0].message} | {found[0].help}",
    )


def verdicts(text: str, models=tuple(MODELS)) -> dict[str, str]:
    """The verdict of a `.sched` text under each model."""
    result = check_file("x.sched", text.encode(), Question(models=models))
    assert not result.errors, result.errors
    [checked] = result.checked
    return {a.model: a.verdict.value for a in checked.answers}


VALID = {model: "valid" for model in MODELS}
