"""The text of a profile to a Profile, strictly: the first thing that is wrong is an error with its place and
what to write instead.
"""

from __future__ import annotations

import re
import tomllib

from interlock.profile.data import (
    FORMAT,
    LOGITS,
    LONGEST_NAME,
    NAME,
    SIZES,
    TIMES,
    LayerProfile,
    Measured,
    Profile,
)
from interlock.profile.places import Path, Places, many_parts
from interlock.program.ir import Size
from interlock.text.codes import rule_of
from interlock.text.finding import Finding, InputError, Mark
from interlock.text.phrases import list_names, suggest
from interlock.text.quantities import LARGEST, PHRASE, WRITTEN_UNITS, NumberError, read_amount
from interlock.text.source import Source, Span

MAX_BYTES = 2 * 2**20
MAX_LAYERS = 100_000
TOP = ("format", "measured", "layer")
MEASURED = {"by": str, "device": str, "dtype": str, "torch": str, "warmup": int, "repeats": int}
LAYER = (
    "name",
    "count",
    *TIMES,
    *SIZES,
    *LOGITS,
    "modality",
    "frozen",
    "recompute",
    "inputs",
    "outputs",
    "spread",
)
_PER_IMAGE = " per image"
_TENSOR = re.compile(r"[a-z][a-z0-9_]*\[(?:[0-9]{1,18}(?:, [0-9]{1,18})*)?\]")


def read(source: Source) -> Profile:
    """Raises InputError: IL104 (size), IL114 (form), IL115 (figures)."""
    return _Reader(source).profile()


class _Reader:
    def __init__(self, source: Source):
        self.source = source
        if len(source.text) > MAX_BYTES:
            raise self.error(
                "IL104",
                f"{source.name} is larger than {MAX_BYTES >> 20} MiB",
                Span(source.base),
                "write equal layers once, with `count`",
            )
        if span := many_parts(source):
            raise self.error(
                "IL114", "a line with many dots", span, "keys have one part, or two as `spread.forward`"
            )
        self.table = self._toml()
        self.places = Places(source)

    def profile(self) -> Profile:
        self._keys(self.table, TOP, (), "a profile")
        if self.table.get("format") != FORMAT:
            there = "format" in self.table
            raise self.form(
                ("format",),
                f"this version reads profiles of format `{FORMAT}`"
                + ("" if there else ", and the file names none"),
                f'write `format = "{FORMAT}"`',
                there,
            )
        layers = self.table.get("layer")
        if not isinstance(layers, list) or not layers or not all(isinstance(l, dict) for l in layers):
            raise self.form(
                ("layer",),
                "a profile lists layers",
                'write a table `[[layer]]` for each, with `name = ".."` and `forward = ..`',
            )
        measured = self._measured(self.table.get("measured", {}))
        found = tuple(self._layer(n, table) for n, table in enumerate(layers))
        self._names(found)
        return Profile(found, measured)

    # ---- errors -------------------------------------------------------------------------------

    def error(self, code: str, message: str, span: Span, help: str) -> InputError:
        return InputError(
            Finding.of_input(
                code,
                message,
                (Mark(span),),
                help,
                rule=rule_of(code),
            )
        )

    def form(self, path: Path, message: str, help: str, value: bool = True) -> InputError:
        return self.error(
            "IL114", message, self.places.value(*path) if value else self.places.key(*path), help
        )

    def figure(self, path: Path, message: str, help: str) -> InputError:
        return self.error("IL115", message, self.places.value(*path), help)

    # ---- form ---------------------------------------------------------------------------------

    def _toml(self) -> dict:
        text = self.source.text
        try:
            return tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
            message, _, where = str(error).partition(" (at ")
            place = re.match(r"line (\d+), column (\d+)", where)
            at = (
                sum(len(l) + 1 for l in text.split("\n")[: int(place[1]) - 1]) + int(place[2]) - 1
                if place
                else len(text.rstrip())
            )
            twice = message.startswith(("Cannot overwrite", "Cannot declare", "Cannot redefine"))
            why = (
                "a key or table that stands once is given twice"
                if twice
                else f"this is no TOML: {message[:1].lower()}{message[1:]}"
            )
            raise self.error(
                "IL114",
                why,
                Span(self.source.base + min(at, max(len(text) - 1, 0))),
                "delete one of them"
                if twice
                else "texts stand in double quotes, each `key = value` on a line of its own",
            ) from None

    def _keys(self, table: dict, known, path: Path, what: str) -> None:
        for key in table:
            if key not in known:
                raise self.form(
                    (*path, key),
                    f"{what} has no key `{_shown(key)}`",
                    suggest(key[:60], known) or f"there are {list_names(known)}",
                    value=False,
                )

    def _measured(self, table) -> Measured:
        if not isinstance(table, dict):
            raise self.form(("measured",), "`measured` is a table", "write `[measured]`")
        self._keys(table, MEASURED, ("measured",), "`measured`")
        for key, value in table.items():
            if MEASURED[key] is str and not (
                isinstance(value, str) and value.isprintable() and len(value) <= 500
            ):
                raise self.form(("measured", key), f"`{key}` is a text of one line", f'write `{key} = ".."`')
            if MEASURED[key] is int and not (type(value) is int and 0 <= value <= LARGEST):
                raise self.form(("measured", key), f"`{key}` is a whole number", f"write `{key} = 20`")
        return Measured(**table)

    def _layer(self, n: int, table: dict) -> LayerProfile:
        path: Path = ("layer", n)
        self._keys(table, LAYER, path, "a layer")
        name = table.get("name")
        if name is None:
            raise self.form(path, "this layer has no name", 'write `name = "llm[0]"`')
        match = NAME.fullmatch(name) if isinstance(name, str) and len(name) <= LONGEST_NAME else None
        if match is None:
            raise self.form(
                (*path, "name"),
                f"{_value(name)} is no name of a layer",
                "letters, digits and `_`, not beginning with a digit, and an index where it is one of a "
                "group: `llm[3]`",
            )
        self._count(path, match, table.get("count", 1))
        self._words(path, table)
        times = {k: self._amount((*path, k), table[k], "time") for k in TIMES if k in table}
        sizes = {k: self._amount((*path, k), table[k], "bytes") for k in SIZES if k in table}
        sizes |= {k: self._amount((*path, k), table[k], "number") for k in LOGITS if k in table}
        if "forward" not in times:
            raise self.figure(
                path,
                f"layer `{name}` has no `forward` time",
                'write `forward = 412_000` (ns), or `forward = "0.412ms"`',
            )
        self._sizes(path, name, sizes)
        plain = {k: table[k] for k in ("count", "modality", "frozen", "recompute") if k in table}
        tensors = {k: tuple(table[k]) for k in ("inputs", "outputs") if k in table}
        spread = self._spread((*path, "spread"), table.get("spread", {}), times)
        return LayerProfile(
            name, times, sizes, spread=spread, span=self.places.value(*path, "name"), **plain, **tensors
        )

    def _count(self, path: Path, name: re.Match, count) -> None:
        if type(count) is not int or not 1 <= count <= MAX_LAYERS:
            raise self.form(
                (*path, "count"),
                f"{_value(count)} is no number of equal layers",
                f"write a whole number from 1 to {MAX_LAYERS:,}",
            )
        if count > 1 and name[2] is not None:
            raise self.form(
                (*path, "count"),
                f"`{name[0]}` is one layer",
                f'write `name = "{name[1]}"` and `count = 24` for 24 equal layers',
            )

    def _words(self, path: Path, table: dict) -> None:
        """What a layer says besides its name and figures."""
        modality = table.get("modality", "any")
        if (
            not isinstance(modality, str)
            or len(modality) > LONGEST_NAME
            or not NAME.fullmatch(modality)
            or modality[-1] == "]"
        ):
            raise self.form(
                (*path, "modality"),
                f"{_value(modality)} is no name of a modality",
                'write `modality = "vision"`',
            )
        for key in ("frozen", "recompute"):
            if not isinstance(table.get(key, False), bool):
                raise self.form(
                    (*path, key), f"`{key}` is true or false", f"write `{key} = true`, or leave it out"
                )
        for key in ("inputs", "outputs"):
            value = table.get(key, [])
            if not isinstance(value, list) or not all(
                isinstance(t, str) and _TENSOR.fullmatch(t) for t in value
            ):
                raise self.form(
                    (*path, key), f"`{key}` is a list of tensors", f'write `{key} = ["float32[4, 16]"]`'
                )

    def _names(self, layers: tuple[LayerProfile, ...]) -> None:
        """A group is one table, or tables `llm[0]`, `llm[1]` and so on in the order of the chain."""
        known: dict[str, int | None] = {}  # the index that comes next; None: a name without index
        total = 0
        for n, layer in enumerate(layers):
            total += layer.count
            if total > MAX_LAYERS:
                raise self.error(
                    "IL104",
                    f"the model has more than {MAX_LAYERS:,} layers",
                    layer.span,
                    "a layer may stand for several: measure whole blocks",
                )
            _, index = NAME.fullmatch(layer.name).groups()
            expected = known.get(layer.group, 0)
            if index is None and layer.group in known:
                raise self.form(
                    ("layer", n, "name"),
                    f"the layer group `{layer.group}` is there already",
                    "rename one of them, or number the layers of a group: `llm[0]`, `llm[1]`",
                )
            if index is not None and (expected is None or int(index) != expected):
                why = (
                    "is a layer of its own already"
                    if expected is None
                    else f"has {expected} layers before this one"
                )
                raise self.form(
                    ("layer", n, "name"),
                    f"`{layer.name}`: `{layer.group}` {why}",
                    f"write `{layer.group}[{expected or 0}]`"
                    if expected is not None
                    else "rename one of them",
                )
            known[layer.group] = None if index is None else expected + 1

    # ---- figures ------------------------------------------------------------------------------

    def _amount(self, path: Path, value, dimension: str) -> Size:
        key, base = path[-1], {"time": "ns", "bytes": "bytes", "number": ""}[dimension]
        example = {
            "time": f'`{key} = 412_000` (ns), or `{key} = "0.412ms"`',
            "bytes": f'`{key} = 65_536` (bytes), or `{key} = "96MiB"`',
            "number": f"`{key} = 4_096`",
        }[dimension]
        if type(value) is int and 0 <= value <= LARGEST:
            return Size(value)
        if type(value) is int or isinstance(value, str) and value.lstrip().startswith("-"):
            raise self.figure(
                path,
                f"`{key}` is {'too large' if type(value) is int and value > 0 else 'negative'}",
                f"write {example}; the largest value is 2^53 {base}".rstrip(),
            )
        if not isinstance(value, str):
            raise self.figure(
                path,
                f"{_value(value)}: a figure is a whole "
                f"number{f' of {base}, or text with its unit' * bool(base)}",
                f"write {example}",
            )
        number, image = value.removesuffix(_PER_IMAGE), value.endswith(_PER_IMAGE)
        if not re.match(r"[0-9]", number) or image and key in ("weights", "vocabulary"):
            raise self.figure(
                path, f"expected {PHRASE[dimension]} for `{key}`, not `{_shown(value)}`", f"write {example}"
            )
        try:
            amount = read_amount(number)
        except NumberError as wrong:
            raise self.figure(path, wrong.message, wrong.help) from None
        if amount.dimension != dimension or amount.scale != 1:
            raise self.figure(
                path,
                f"expected {PHRASE[dimension]} for `{key}`, not `{_shown(value)}`",
                f"units: {WRITTEN_UNITS[dimension]}" if base else f"write {example}",
            )
        return Size(0, amount.value) if image else Size(amount.value)

    def _sizes(self, path: Path, name: str, sizes: dict[str, Size]) -> None:
        part, whole = sizes.get("until_weight"), sizes.get("activation")
        if part is not None and (
            whole is None or part.per_image > whole.per_image or part.fixed > whole.fixed
        ):
            said = "is not given" if whole is None else "is smaller"
            raise self.figure(
                (*path, "until_weight"),
                f"layer `{name}`: `until_weight` is a part of `activation`, which {said}",
                "write `activation` so that it holds both parts",
            )

        if ("vocabulary" in sizes) != ("tokens" in sizes):
            there, lacks = ("vocabulary", "tokens") if "vocabulary" in sizes else ("tokens", "vocabulary")
            raise self.figure(
                (*path, there),
                f"layer `{name}` has `{there}` and no `{lacks}`: logits are their product",
                f"write `{lacks} = 4_096` too",
            )

    def _spread(self, path: Path, table, times: dict[str, Size]) -> dict[str, int]:
        if not isinstance(table, dict):
            raise self.form(path, "`spread` is a table", "write `spread = { forward = 1_200 }` (ns)")
        for key in table:
            if key not in times:
                raise self.form(
                    (*path, key),
                    f"`spread` of `{_shown(key)}`, which is no time of this layer",
                    suggest(key[:60], times) or f"there are {list_names(times)}",
                    value=False,
                )
        out = {key: self._amount((*path, key), value, "time") for key, value in table.items()}
        if image := next((key for key, value in out.items() if value.per_image), None):
            raise self.figure(
                (*path, image),
                f"the spread of `{image}` is a time, not one per image",
                f"write `{image} = 1_200` (ns)",
            )
        return {key: value.fixed for key, value in out.items()}


def _shown(text: str) -> str:
    text = text if text.isprintable() else ascii(text)[1:-1]
    return text if len(text) <= 40 else text[:37] + "..."


def _value(value) -> str:
    match value:
        case str():
            return f"`{_shown(value)}`"
        case bool():
            return f"`{str(value).lower()}`"
        case int() | float():
            return f"`{_shown(str(value)) if not isinstance(value, int) or abs(value) < 10**30 else 'a number of many digits'}`"  # noqa: E501
        case list():
            return "a list"
        case dict():
            return "a table"
    return "a date or time"
