"""What is wrong with a cell that is no operation, and what to write instead."""

from __future__ import annotations

import re
from difflib import get_close_matches

from interlock.interchange.cells import OVERLAP, WORDS

_NUMBER = "(?:0|[1-9][0-9]*)"
_MB = "F|B|I|W|SEND_F|RECV_F|SEND_B|RECV_B"
_NO_MB = "UNSHARD|RESHARD|REDUCE_GRAD"
_OPERATION = re.compile(f"{_NUMBER}(?:(?:{_NO_MB})|(?:{_MB}){_NUMBER})")
_SHAPE = re.compile("([0-9]+)([A-Za-z_]+)([0-9]*)")
_LONG = 64  # characters of a cell that a message shows


def _prefix(*parts: str) -> str:
    """A pattern for every prefix of the parts, in full parts: `a`, `ab`, `abc`."""
    return f"(?:{parts[0]}{_prefix(*parts[1:])})?" if parts else ""


_WORD_PREFIX = (
    "(?:"
    + "|".join(sorted({w[:n] for w in WORDS for n in range(1, len(w) + 1)}, key=len, reverse=True))
    + ")"
)
_TORN = re.compile(_NUMBER + _prefix(_WORD_PREFIX))
_TORN_OVERLAP = re.compile(
    r"\("
    + _prefix(_NUMBER, "[FBIW]", _NUMBER, ";", _NUMBER, "[FBIW]", _NUMBER, *(re.escape(c) for c in OVERLAP))
)


def looks_like_operation(cell: str) -> bool:
    """A stage number and a word, perhaps damaged: what no header has."""
    return re.match(r"""["']?[-+(]*[0-9]+[A-Za-z_]""", cell) is not None


def looks_cut_off(cell: str) -> bool:
    """The beginning of an operation, without its end."""
    return len(cell) < _LONG and bool(_TORN.fullmatch(cell) or _TORN_OVERLAP.fullmatch(cell))


def find_large_index(cell: str, limit: int) -> int | None:
    """An index above `limit` in a cell that is an operation or an overlap but for that."""
    if not re.fullmatch(
        rf"{_OPERATION.pattern}|\({_OPERATION.pattern};{_OPERATION.pattern}\){OVERLAP[1:]}", cell
    ):
        return None
    return next(
        (
            number
            for digits in re.findall("[0-9]+", cell)
            if len(digits) < 4000 and (number := int(digits)) > limit
        ),
        None,
    )


def explain(cell: str) -> tuple[str, str]:  # noqa: PLR0911
    """The cause and the repair, for IL108."""
    if len(cell) > _LONG:
        return (
            f"a cell of {len(cell)} characters is not an operation",
            "separate the operations of a rank by commas",
        )
    if not cell.isprintable():
        return (
            f"the cell {ascii(cell)} holds a character that cannot be seen",
            "delete it: a cell holds letters, digits and `_`",
        )
    if '"' in cell or "'" in cell:
        bare = cell.strip("\"'")
        return (
            f"the cell `{cell}` is quoted",
            f"write `{bare}` without quotes: no operation holds a comma" if bare else "delete the quotes",
        )
    if "(" in cell or ")" in cell or OVERLAP[1:] in cell:
        return _explain_overlap(cell)
    several = _OPERATION.findall(cell)
    if len(several) > 1 and re.fullmatch(f"{_OPERATION.pattern}(?:[ \t;|/+&-]+{_OPERATION.pattern})+", cell):
        return (
            f"the cell `{cell}` holds {len(several)} operations",
            f"separate them by commas: `{','.join(several)}`",
        )
    if re.match("[-+]", cell) or re.fullmatch("[0-9]+[A-Za-z_]+[-+][0-9]+", cell):
        plain = _OPERATION.search(re.sub("[-+]", "", cell))
        return (
            f"the cell `{cell}` holds a sign",
            f"stages and microbatches count from 0: write `{plain[0]}`, say"
            if plain
            else "stages and microbatches count from 0",
        )
    if shape := _SHAPE.fullmatch(cell):
        return _explain_operation(cell, *shape.groups())
    if first := _OPERATION.match(cell):
        return (
            f"`{cell[first.end() :]}` follows the operation `{first[0]}` in one cell",
            f"write `{first[0]}`, and further operations in cells of their own",
        )
    if re.fullmatch("[0-9]+", cell):
        return (
            f"the cell `{cell}` is a number, not an operation",
            f"write an operation, such as `{int(cell)}F0`; the place of the line in the file is the rank, "
            "it is not written down",
        )
    if cell.rstrip("0123456789") in WORDS:
        return f"the cell `{cell}` names no stage", f"put the stage in front: `0{cell}`"
    return (
        f"the cell `{cell}` is not an operation",
        "an operation is a stage, a type and a microbatch: `2F0` is the forward of microbatch 0 on stage 2",
    )


def _explain_operation(cell: str, stage: str, word: str, mb: str) -> tuple[str, str]:
    s, m = _canonical(stage), _canonical(mb)
    if word in WORDS:
        if (s, m) != (stage, mb):
            return f"a number in `{cell}` has leading zeros", f"write `{s}{word}{m}`"
        if word in _NO_MB.split("|"):
            return f"`{word}` takes no microbatch, and `{cell}` gives one", f"write `{s}{word}`"
        return f"`{cell}` names no microbatch", f"add it: `{s}{word}0` for microbatch 0"
    if word.upper() in WORDS:
        return f"`{word}` in `{cell}` is in small letters", f"write `{s}{word.upper()}{m}`"
    if word == "BW":
        return (
            f"`{cell}` is in an old notation of PyTorch, where `BW` is the whole backward and `B` its input "
            "half",
            f"write `{s}B{m}` here, and `I` for what was `B`",
        )
    if word == "REDUCE":
        return f"the type `REDUCE` in `{cell}` does not exist in a CSV", f"write `{s}REDUCE_GRAD`"
    prefix = max((w for w in WORDS if word.startswith(w)), key=len, default="")
    if near := get_close_matches(word.upper(), WORDS, n=1, cutoff=0.7):
        return (
            f"the type `{word}` in `{cell}` does not exist",
            f"`{near[0]}` was meant, perhaps: `{s}{near[0]}{m}`",
        )
    if prefix:
        return (
            f"`{word[len(prefix) :]}` follows the type `{prefix}` in `{cell}`",
            f"write `{s}{prefix}{'' if prefix in _NO_MB.split('|') else m or '0'}`",
        )
    return (
        f"the type `{word}` in `{cell}` does not exist",
        "the types of work are F, B (or I and W), such as `2F0`; a rank that waits has an empty cell",
    )


def _explain_overlap(cell: str) -> tuple[str, str]:
    parts = _OPERATION.findall(cell)
    shown = f"({parts[0]};{parts[1]}){OVERLAP[1:]}" if len(parts) == 2 else "(0F7;7B3)OVERLAP_F_B"
    if cell.count("(") > 1 or cell.count(")") > 1:
        return f"`{cell}` nests parentheses", f"an overlap holds two operations: `{shown}`"
    if cell.endswith(OVERLAP) and len(parts) == 2 and cell == shown:
        return (
            f"the overlap `{cell}` is not one forward and one backward",
            "pair one F with one B, I or W: `(0F7;7B3)OVERLAP_F_B`",
        )
    if cell.endswith(OVERLAP) and len(parts) > 2:
        return (
            f"the overlap `{cell}` holds {len(parts)} operations",
            "pair one F with one B, I or W: `(0F7;7B3)OVERLAP_F_B`",
        )
    if len(parts) == 2 and re.fullmatch(
        rf"\({_OPERATION.pattern}[;|, ]+{_OPERATION.pattern}\)[A-Za-z_]*", cell
    ):
        return f"`{cell}` is not written as an overlap", f"write `{shown}`"
    return f"`{cell}` is not an overlap", "an overlap is two operations: `(0F7;7B3)OVERLAP_F_B`"


def _canonical(number: str) -> str:
    return number.lstrip("0") or number[:1]
