"""`interlock lower`: one file to one plan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from interlock.check.verdict import Checked, Verdict
from interlock.interchange.plan import certificate_text
from interlock.lower import backends
from interlock.lower.lowering import Lowered, LoweringRefused, Source, lower
from interlock.lower.sources import sources_of
from interlock.report import diagnostics, text
from interlock.report.outcome import Unread
from interlock.report.style import Paint
from interlock.text.files import write_whole
from interlock.text.finding import Finding


def run(
    name: str,
    data: bytes,
    check_options,
    to: str,
    options: backends.LoweringOptions,
    schedule: str | None,
    output: Path | None,
    certificates: Path | None,
    say: Callable[[str], None],
    complain: Callable[[str], None],
    terminal: dict,
) -> int:
    """The exit code. `say` gets a plan without `output`; `complain` everything else. Raises OSError, Disagreement."""
    try:
        backend = backends.find(to)
    except KeyError:
        complain(f"interlock: there is no back end {to!r}; there are {', '.join(backends.names())}\n")
        return 2
    except Exception as error:  # a registered back end of somebody else's
        complain(f"interlock: the back end {to!r} cannot be loaded: {type(error).__name__}: {error}\n")
        return 2
    chosen = prepare(name, data, check_options, backend, options, schedule, complain, terminal)
    if isinstance(chosen, int):
        return chosen
    source, lowered = chosen
    for note in lowered.notes:
        complain(f"note: {note}\n")
    if certificates is not None:
        certificates.mkdir(parents=True, exist_ok=True)
        for model, document in lowered.certificates.items():
            path = certificates / f"{source.checked.name}.{to}.{model}.cert"
            write_whole(path, certificate_text(document))
            complain(f"wrote {path}\n")
    if output is None:
        say(lowered.text)
    else:
        write_whole(output, lowered.text)
        shown = ", ".join(f"{m} {d[:12]}" for m, d in sorted(lowered.plan.certificates.items()))
        complain(f"wrote {output}: {source.checked.name} for {to}, checked again (certificate {shown})\n")
    return 0


def prepare(
    name: str,
    data: bytes,
    check_options,
    backend,
    options: backends.LoweringOptions,
    schedule: str | None,
    complain: Callable[[str], None],
    terminal: dict,
) -> tuple[Source, Lowered] | int:
    """One schedule of a file, checked and lowered, or the exit code of what was complained about."""
    result, sources = sources_of(name, data, check_options)
    lookup = {name: result.sources}.get
    if result.errors:
        complain(text.render((), lookup, unread=(Unread(name, result.errors),), **terminal))
        return 2
    wanted = [s for s in sources if schedule in (None, s.checked.name)]
    if len(wanted) != 1:
        names = ", ".join(s.checked.name for s in sources)
        what = f"{name} has no schedule {schedule!r}" if not wanted else f"{name} has several schedules"
        complain(f"interlock: {what}: name one with --schedule ({names or 'there is none'})\n")
        return 2
    [source] = wanted
    try:
        return source, lower(source, backend, options)
    except LoweringRefused as refused:
        found = _what_was_found(source.checked, refused)
        if found is not None:
            complain(text.render((found,), lookup, **terminal) + "\n")
        paint = Paint(terminal.get("color", False))
        complain(
            "\n".join(
                diagnostics.render(
                    Finding.of_input(refused.code, refused.args[0], help=refused.help),
                    None,
                    name,
                    width=terminal.get("width", 100),
                    paint=paint,
                )
            )
            + "\n"
        )
        return refused.exit


def _what_was_found(checked: Checked, refused: LoweringRefused) -> Checked | None:
    """What to show beside the refusal: the check's findings, or those in the plan."""
    if refused.answers:
        return Checked(checked.path, f"{checked.name}, lowered", refused.answers)
    return checked if refused.code == "IL843" and checked.verdict is not Verdict.VALID else None
