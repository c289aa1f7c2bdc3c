"""A schedule of another system to the text of a `.sched` file: the one door of `interlock import`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from interlock.interchange import megatron
from interlock.interchange.importer import CsvOptions, Importer
from interlock.interchange.json_reader import decode
from interlock.interchange.megatron import LayoutSizes
from interlock.interchange.megatron_flags import read_flags
from interlock.language.unparse import to_sched
from interlock.text.source import Source, Sources

IMPORTERS = {  # a format -> the module here whose IMPORTER reads it
    "csv": "torch_csv",
    "hyperparallel": "hyperparallel",
    "deepspeed": "deepspeed",
    "octopipe": "octopipe",
}
FORMATS = tuple(IMPORTERS)


def find_importer(form: str) -> Importer:
    """Raises KeyError for an unknown format."""
    return import_module(f"{__package__}.{IMPORTERS[form]}").IMPORTER


def import_layout(
    sources: Sources, text: str, sizes: LayoutSizes, name: str, microbatches: int | None, flags: bool = False
) -> str:
    """The schedule of a Megatron layout, or of the flags that place its layers. Raises InputError."""
    read = read_flags if flags else megatron.read_layout
    source = sources.add("flags" if flags else "layout", text)
    return megatron.to_sched(read(source, sizes), name, microbatches)


def _read_nothing(path: str) -> bytes | None:
    return None


def import_file(
    sources: Sources,
    path: str,
    data: bytes,
    form: str,
    name: str,
    csv: CsvOptions | None = None,
    read: Callable[[str], bytes | None] = _read_nothing,
) -> str:
    """The schedule of a file in one of FORMATS.

    `csv`: its placement and microbatches count for every format. `read`: the contents of a file that belongs
    to
    it (OctoPipe's partition.txt and placement.txt, from its folder), None if there is none. Raises
    InputError.
    """
    importer = find_importer(form)
    source = sources.add(path, importer.decode(data))
    companions = [_read_companion(sources, path, other, read) for other in importer.companions]
    imported = importer.read(source, csv or CsvOptions(), companions)
    return to_sched(imported.program, name, comments=imported.comments)


def _read_companion(
    sources: Sources, path: str, name: str, read: Callable[[str], bytes | None]
) -> Source | None:
    """A text file beside the text file at `path`."""
    where = str(Path(path).parent / name)
    data = read(where) if Path(path).suffix == ".txt" and Path(path).name != name else None
    return None if data is None else sources.add(where, decode(data))
