"""`[tool.interlock]` of a pyproject.toml, or an interlock.toml: found, read, and refused with a place where
it says what it may not (IL908).
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from interlock.gate import globs, waivable
from interlock.text.codes import CODES
from interlock.text.finding import Finding, InputError, Mark
from interlock.text.phrases import list_names, suggest
from interlock.text.source import Source, Sources, Span

NAMES = ("interlock.toml", "pyproject.toml")  # in one folder the first wins
LARGEST_FILE = 4 * 2**20
SEVERITIES = ("error", "warning", "note", "off")
KEYS = ("allow", "capacity", "engine", "exclude", "format", "models", "paths", "severity", "targets")
ALLOW_KEYS = ("code", "path", "reason")
_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*')


@dataclass(frozen=True)
class Allow:
    """`[[tool.interlock.allow]]`: findings with this code in the files the pattern names. `span`: its place
    in the file's source.
    """

    code: str
    path: str
    reason: str
    span: Span


@dataclass(frozen=True)
class Config:
    """What a file says; None and () where it says nothing. `source`: its text. Patterns are taken from
    `folder`.
    """

    source: Source | None = None
    models: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    engine: str | None = None
    capacity: int | None = None  # bytes
    paths: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    severity: dict[str, str] = field(default_factory=dict)
    format: str | None = None
    allow: tuple[Allow, ...] = ()

    @property
    def folder(self) -> str:
        return os.path.dirname(os.path.abspath(self.source.name)) if self.source is not None else os.getcwd()

    def relative(self, path: str) -> str:
        """A path as its patterns are about it."""
        return os.path.relpath(os.path.abspath(path), self.folder).replace(os.sep, "/")

    def excludes(self, path: str) -> bool:
        return globs.any_of(self.relative(path), self.exclude)

    def files_and_folders(self) -> list[str]:
        """What `paths` names. Raises FileNotFoundError for a pattern that names nothing."""
        import glob

        out: list[str] = []
        for pattern in self.paths:
            found = sorted(glob.glob(pattern, root_dir=self.folder, recursive=True))
            if not found:
                raise FileNotFoundError(
                    f"{self.source.name}: `paths` names {pattern}, and there is no such file or folder"
                )
            out += (os.path.relpath(os.path.join(self.folder, p)) for p in found)
        return out


def candidates(paths: Sequence[str]) -> list[str]:
    """The names a configuration may have, upward from the paths' common folder, nearest first."""
    folders = [p if os.path.isdir(p) else os.path.dirname(p) for p in map(os.path.abspath, paths)] or [
        os.getcwd()
    ]
    try:
        folder = Path(os.path.commonpath(folders))
    except ValueError:  # on several drives
        folder = Path.cwd()
    return [str(place / name) for place in (folder, *folder.parents) for name in NAMES]


def find(paths: Sequence[str]) -> str | None:
    """The nearest configuration: an interlock.toml, or a pyproject.toml with a table for Interlock. Raises
    InputError for one that is no TOML, and OSError.
    """
    for path in map(Path, candidates(paths)):
        if path.is_file():
            shown = os.path.relpath(path)
            if (
                path.name == NAMES[0]
                or "interlock" in path.read_text(encoding="utf-8", errors="replace")
                and _table(shown, Sources()) is not None
            ):
                return shown
    return None


def read(path: str, sources: Sources) -> Config:
    """The configuration of a file. Raises InputError with everything that is wrong (IL908), and OSError."""
    found = _table(path, sources)
    source = sources.of(0)
    if found is None:
        raise InputError(
            Finding.of_input(
                "IL908",
                f"{path} has no table `[tool.interlock]`",
                (),
                "add one, or name another file",
                rule="R-GATE-3",
            )
        )
    return _Reader(source, os.path.basename(path) != NAMES[1]).config(found)


def _table(path: str, sources: Sources) -> dict | None:
    with open(path, "rb") as file:
        data = file.read(LARGEST_FILE + 1)
    source = sources.add(path, data.decode("utf-8", "replace"))
    help = "--no-config leaves it out"
    if len(data) > LARGEST_FILE:
        raise InputError(
            Finding.of_input(
                "IL908", f"{path} is larger than {LARGEST_FILE >> 20} MiB", (), help, rule="R-GATE-3"
            )
        )
    try:
        table = tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise InputError(
            Finding.of_input("IL908", f"{path} is not UTF-8 text", (), help, rule="R-GATE-3")
        ) from None
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        message, _, where = str(error).partition(" (at ")
        place = re.match(r"line (\d+), column (\d+)", where)
        at = (
            sum(len(l) + 1 for l in source.text.split("\n")[: int(place[1]) - 1]) + int(place[2]) - 1
            if place
            else len(source.text.rstrip())
        )
        raise InputError(
            Finding.of_input(
                "IL908",
                f"this is no TOML: {message[:1].lower()}{message[1:]}",
                (Mark(Span(min(at, max(len(source.text) - 1, 0)), 1), ""),),
                help,
                rule="R-GATE-3",
            )
        ) from None
    if os.path.basename(path) != NAMES[1]:
        return table
    tool = table.get("tool")
    return tool.get("interlock") if isinstance(tool, dict) else None


class _Reader:
    """Reads a table strictly. tomllib gives no places: a word is looked for in the text, after the words it
    stands under.
    """

    def __init__(self, source: Source, whole_file: bool):
        self.source = source
        self.text = _COMMENT.sub(lambda m: m[0] if m[0][0] != "#" else " " * len(m[0]), source.text)
        self.whole_file = whole_file
        self.wrong: list[Finding] = []

    def config(self, table) -> Config:
        from interlock.check.program import ENGINES
        from interlock.report import FORMATS
        from interlock.rules.targets import TARGETS
        from interlock.rules.waits import MODELS

        if not isinstance(table, dict):
            self.say("`interlock` is no table", ("interlock",), "write `[tool.interlock]`")
            table = {}
        for key in table:
            if key not in KEYS:
                self.say(
                    f"there is no key `{key}` for Interlock",
                    (key,),
                    suggest(key, KEYS) or f"there are {list_names(KEYS)}",
                )
        models = (
            MODELS
            if table.get("models") == "all"
            else self.names(table, "models", "communication model", MODELS)
        )
        out = Config(
            self.source,
            tuple(models),
            self.names(table, "targets", "target", TARGETS),
            self.one(table, "engine", "engine", ENGINES),
            self.capacity(table),
            self.texts(table, "paths"),
            self.texts(table, "exclude"),
            self.severities(table.get("severity", {})),
            self.one(table, "format", "format", tuple(FORMATS)),
            tuple(self.allows(table.get("allow", []))),
        )
        if self.wrong:
            raise InputError(*self.wrong)
        return out

    def say(self, message: str, words: Iterable[str], help: str = "", start: int = 0) -> None:
        self.wrong.append(
            Finding.of_input("IL908", message, (Mark(self.place(words, start), ""),), help, rule="R-GATE-3")
        )

    def place(self, words: Iterable[str], start: int = 0) -> Span:
        """Of the last of these words that is found, each looked for after the one before."""
        at, width = start, 0
        if not self.whole_file and not start:
            header = re.search(r"^\s*\[+\s*tool\s*\.\s*\"?interlock\b", self.text, re.M)
            at = header.end() if header else 0
        for word in words:
            found = re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])").search(self.text, at)
            if found:
                at, width = found.start(), len(word)
        return Span(self.source.base + at, width or 1)

    def texts(self, table: dict, key: str) -> tuple[str, ...]:
        value = table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(v, str) and v for v in value):
            self.say(
                f"`{key}` wants a list of texts",
                (key,),
                f'write `{key} = ["schedules"]`' if key in ("paths", "exclude") else "",
            )
            return ()
        return tuple(dict.fromkeys(value))

    def names(self, table: dict, key: str, what: str, known: Sequence[str]) -> tuple[str, ...]:
        found = self.texts(table, key)
        for name in found:
            if name not in known:
                self.say(
                    f"there is no {what} `{name}`",
                    (key, name),
                    suggest(name, known) or f"there are {list_names(known)}",
                )
        return found

    def one(self, table: dict, key: str, what: str, known: Sequence[str]) -> str | None:
        value = table.get(key)
        if value is not None and value not in known:
            shown = value if isinstance(value, str) else repr(value)
            self.say(
                f"there is no {what} `{shown}`",
                (key, shown),
                suggest(shown, known) or f"there are {list_names(known)}",
            )
            return None
        return value

    def capacity(self, table: dict) -> int | None:
        from interlock.text.quantities import NumberError, read_amount

        value = table.get("capacity")
        if value is None:
            return None
        message, help = "`capacity` wants a size", 'write `capacity = "80GiB"`'
        if isinstance(value, str) and re.fullmatch(r"[0-9].*", value):
            try:
                amount = read_amount(value)
                if amount.dimension == "bytes":
                    return amount.value
            except NumberError as error:
                message, help = error.message, error.help
        self.say(message, ("capacity", str(value)), help)
        return None

    def severities(self, table) -> dict[str, str]:
        if not isinstance(table, dict):
            self.say(
                "`severity` wants a table",
                ("severity",),
                'write `[tool.interlock.severity]` and below it `IL502 = "error"`',
            )
            return {}
        for code, value in table.items():
            if self.known(code, ("severity", code)) and value not in SEVERITIES:
                self.say(
                    f"there is no severity `{value}`",
                    ("severity", code, str(value)),
                    suggest(str(value), SEVERITIES) or f"there are {list_names(SEVERITIES)}",
                )
            elif code in CODES and not waivable.is_waivable(code) and value != "error":
                self.say(waivable.explain_refusal(code), ("severity", code), waivable.suggest_instead(code))
        return dict(table)

    def known(self, code: str, words: Iterable[str], start: int = 0) -> bool:
        if code in CODES:
            return True
        self.say(f"there is no code `{code}`", words, "`interlock explain` lists the codes", start)
        return False

    def allows(self, entries) -> Iterable[Allow]:
        if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
            self.say(
                "`allow` wants tables",
                ("allow",),
                "write `[[tool.interlock.allow]]` and below it code, path and reason",
            )
            return
        headers = [m.end() for m in re.finditer(r"^\s*\[\[[^\]\n]*\ballow\s*\]\]", self.text, re.M)] or [
            m.start() + 1 for m in re.finditer(r"\{[^}]*\bcode\b", self.text)
        ]
        for number, entry in enumerate(entries):
            start = headers[number] if number < len(headers) else 0
            before = len(self.wrong)
            for key in entry:
                if key not in ALLOW_KEYS:
                    self.say(
                        f"there is no key `{key}` for a waiver",
                        (key,),
                        suggest(key, ALLOW_KEYS) or f"there are {list_names(ALLOW_KEYS)}",
                        start,
                    )
            for key in ALLOW_KEYS:
                if not isinstance(entry.get(key), str) or not entry[key].strip():
                    self.say(
                        f"this waiver has no {key}",
                        (key,) if key in entry else (),
                        f'write `{key} = ".."`',
                        start,
                    )
            if len(self.wrong) > before:
                continue
            code = entry["code"]
            if self.known(code, ("code", code), start) and not waivable.is_waivable(code):
                self.say(
                    waivable.explain_refusal(code), ("code", code), waivable.suggest_instead(code), start
                )
            yield Allow(code, entry["path"], entry["reason"], self.place(("code", code), start))


def first_given(given, configured, default):
    """The command line wins over the configuration, and that over the default. Empty is not given."""
    return next((value for value in (given, configured) if value not in (None, (), [])), default)
