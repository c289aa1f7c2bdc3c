"""A schedule of another system to the text of a `.sched` file: the one door of `interlock import`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from interlock.interchange.megatron import LayoutSizes
from interlock.text.source import Source, Sources

FORMATS = ("csv", "hyperparallel", "deepspeed", "octopipe")


def import_layout(
    sources: Sources, text: str, asked: LayoutSizes, name: str, microbatches: int | None, flags: bool = False
) -> str:
    """The schedule of a Megatron layout, or of the flags that place its layers. Raises InputError."""
    from interlock.interchange.megatron import read_layout, to_sched
    from interlock.interchange.megatron_flags import read_flags

    source = sources.add("flags" if flags else "layout", text)
    return to_sched((read_flags if flags else read_layout)(source, asked), name, microbatches)


def import_file(
    sources: Sources,
    path: str,
    data: bytes,
    form: str,
    name: str,
    csv=None,
    read: Callable[[str], bytes | None] = lambda path: None,
) -> str:
    """The schedule of a file in one of FORMATS.

    `csv`: CsvOptions, whose placement and microbatches count for every format. `read`: the contents of a file
    that belongs to it (OctoPipe's partition.txt and placement.txt, from its folder), None if there is none.
    Raises InputError.
    """
    from interlock.interchange.torch_csv import CsvOptions
    from interlock.language.unparse import to_sched

    csv = csv or CsvOptions()
    if form == "csv":
        from interlock.interchange import torch_csv

        return to_sched(torch_csv.read(sources.add(path, torch_csv.decode(data)), csv), name)
    from interlock.interchange.json_reader import decode
    from interlock.interchange.step_lists import StepOptions

    source, options = sources.add(path, decode(data)), StepOptions(csv.placement, csv.microbatches)
    match form:
        case "hyperparallel":
            from interlock.interchange.hyperparallel import read as reader

            imported = reader(source, options)
        case "deepspeed":
            from interlock.interchange.deepspeed import read as reader

            imported = reader(source, options)
        case _:
            from interlock.interchange.octopipe import read as reader

            imported = reader(source, options, *_beside(sources, path, read))
    return to_sched(imported.program, name, comments=imported.comments)


def _beside(sources: Sources, path: str, read: Callable[[str], bytes | None]) -> list[Source | None]:
    from interlock.interchange.json_reader import decode

    out: list[Source | None] = []
    for other in ("partition.txt", "placement.txt"):
        where = str(Path(path).parent / other)
        data = read(where) if Path(path).suffix == ".txt" and Path(path).name != other else None
        out.append(None if data is None else sources.add(where, decode(data)))
    return out
