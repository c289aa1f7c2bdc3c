"""What the parser says of text it cannot read: the words of the grammar's terminals, the form of every
statement.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from interlock.text.phrases import shorten
from interlock.text.quantities import DIMENSION, PHRASE, UNITS

PROPERTIES = (
    "forward",
    "backward",
    "backward_input",
    "backward_weight",
    "activation",
    "until_weight",
    "output",
    "weights",
    "parameters",
    "workspace",
    "vocabulary",
    "tokens",
    "flops",
    "hbm_bytes",
)
_LAYER = {
    p: f"{p} {PHRASE[DIMENSION[p]].split('`')[1]}" if "`" in PHRASE[DIMENSION[p]] else f"{p} 4096"
    for p in PROPERTIES
} | {"modality": "modality vision", "frozen": "frozen", "recompute": "recompute"}
_CLAIMS = {"": "FIGURE <= BOUND"}
_STEPS = {
    "": "F(i)",
    "let": "let n = EXPRESSION",
    "for": "for i in 0 ..< n { .. }",
    "if": "if CONDITION { .. } else { .. }",
    "overlap": "overlap { F(i)  B(j) }",
    "group": "group { SEND_F(i)  RECV_B(j) }",
    "body": "body",
}

# block -> statement -> its form; "" is a statement without a keyword
STATEMENTS: dict[str, dict[str, str]] = {
    "file": {
        "schedule": "schedule NAME { .. }",
        "skeleton": "skeleton NAME(P, M) sharded { .. }",
        "use": 'use "other.sched"',
    },
    "schedule": {
        "ranks": "ranks 4",
        "microbatches": "microbatches 64",
        "comm": "comm pair",
        "model": 'model { .. }` or `model "profile.toml"',
        "images": "images [1, 0, 2]",
        "modality": "modality vision in microbatches 0, 2..5",
        "cut": "cut { NAME = LAYERS : SKELETON(..) }",
        "communicator": "communicator seam = ranks 0..3",
        "memory": "memory { capacity 64GiB }",
        "link": "link { latency 20us  bandwidth 200GB/s }",
        "device": "device { peak_flops 989TFLOP/s  hbm_bandwidth 3.3TB/s }",
        "replicas": "replicas 8 { latency 5us  bandwidth 100GB/s }",
        "freeze": "freeze vit[0..11]` or `freeze stage 0",
        "tie": "tie embed, head",
        "assume": "assume vit.forward in [2ms, 9ms]",
        "for": "for any freezing of vit",
        "require": "require { peak <= 60GiB }",
        "place": "place { rank 0: 0, 3 }",
        "fragment": "fragment order transfers written { .. }",
        "order": "order transfers written { rank 0: 0F0 .. }",
        "trace": "trace { rank 0: send(1, a0) .. }",
        "expect": "expect valid` or `expect invalid IL402 under pair",
        "prove": "prove { deadlock_free under blocking }",
    },
    "model": {
        "layers": "layers vit[24] { .. }",
        "layer": "layer head { .. }",
        "kind": "kind mamba { .. }",
        "pattern": 'pattern "M-M-" { "M" = mamba  "-" = mlp }',
        "attach": "attach head to llm",
    },
    "layers": _LAYER,
    "layer": _LAYER,
    "kind": _LAYER,
    "pattern": {"": '"M" = mamba'},
    "cut": {"": "NAME = LAYERS : SKELETON(..)"},
    "memory": {
        "capacity": "capacity 64GiB",
        "weights": "weights 2B per parameter",
        "gradient": "gradient 1 per weight byte",
        "master": "master 4B per parameter",
        "optimizer": "optimizer 8 per weight byte",
        "logits": "logits 4B per vocabulary entry",
    },
    "link": {"latency": "latency 20us", "bandwidth": "bandwidth 200GB/s"},
    "replicas": {"latency": "latency 5us", "bandwidth": "bandwidth 100GB/s", "blocking": "blocking"},
    "device": {
        "peak_flops": "peak_flops 989TFLOP/s",
        "hbm_bandwidth": "hbm_bandwidth 3.3TB/s",
        "overhead": "overhead 5us",
        "speed": "speed 0.8 on ranks 2, 3",
        "overlap": "overlap 3ms on stages 0, 7",
    },
    "place": {"rank": "rank 0: 0, 3", "replicated": "replicated 4: owner [0, 1]"},
    "order": {"rank": "rank 0: 0F0 0B0"},
    "trace": {"rank": "rank 0: send(1, a0)"},
    "require": _CLAIMS,
    "prove": _CLAIMS,
    "skeleton": {"rank": "rank r { .. }", "prove": "prove for P >= 1, M >= 1 { .. }"},
    "rank": _STEPS,
    "for": _STEPS,
    "if": _STEPS,
    "overlap": {"": "F(i)"},
    "group": {"": "SEND_F(i)"},
}

_HEADERS: dict[str, str] = {
    "schedule": "schedule _ {",
    "skeleton": "skeleton _ ( ) sharded {",
    "model": "model {",
    "layers": "layers _ [ 1 ] {",
    "layer": "layer _ {",
    "kind": "kind _ {",
    "cut": "cut {",
    "memory": "memory {",
    "link": "link {",
    "replicas": "replicas 1 {",
    "device": "device {",
    "place": "place {",
    "require": "require {",
    "order": "order transfers written {",
    "trace": "trace {",
    "fragment": "trace {",
    "prove": "prove {",
    "rank": "rank _ {",
    "for": "for _ in 0 ..< 1 {",
    "if": "if _ {",
    "overlap": "overlap {",
    "group": "group {",
}

GRAMMAR_WORDS = frozenset(word for forms in STATEMENTS.values() for word in forms)

_TERMINALS = {
    "NAME": "a name",
    "SKELETON_NAME": "the name of a skeleton",
    "NUMBER": "a number",
    "STRING": 'text in quotes, such as `"profile.toml"`',
    "LBRACE": "`{`",
    "RBRACE": "`}`",
    "LPAR": "`(`",
    "RPAR": "`)`",
    "LSQB": "`[`",
    "RSQB": "`]`",
    "COLON": "`:`",
    "COMMA": "`,`",
    "EQUAL": "`=`",
    "DOT": "`.`",
    "DOTS": "`..`",
    "AT": "`@`",
    "HALF_OPEN": "`..<`",
    "COMPARE": "a comparison such as `<=`",
    "PROPERTY": "a property such as `forward`",
}
_OPERATORS = frozenset(["PLUS", "MINUS", "TIMES", "DIV", "MOD", "COMPARE", "AND", "OR", "LPAR"])
_NUMBER_AFTER = {
    **{f: PHRASE[d] for f, d in DIMENSION.items()},
    **dict.fromkeys(("gradient", "master", "optimizer"), "a number, or a size for each parameter"),
    "logits": PHRASE["bytes"],
    "ranks": "whole numbers or a range such as `0..3`",
    "rank": "the number of a rank",
    "microbatches": "a whole number",
}
_NAME_AFTER = {
    "schedule": "a name for the schedule",
    "skeleton": "a name for the skeleton",
    "comm": "a communication model, such as `pair`,",
    "under": "a communication model, such as `pair`,",
    "layer": "a name for the layer",
    "layers": "a name for the layers",
    "of": "the name of a layer group or region",
    "freeze": "layers such as `vit[0..11]`, or stages,",
    "@": "the name of a communicator",
    "let": "a name",
    "for": "the name of the loop's variable",
    "attach": "the name of a layer",
    "place": "`loop`, `vee` or `map(r, c) = ..`",
    "into": "the name of a skeleton",
}
_CHARACTERS = {
    "≤": "<=",
    "≥": ">=",
    "≠": "!=",
    "×": "*",
    "–": "-",
    "—": "-",
    "−": "-",
    "“": '"',
    "”": '"',
    "：": ":",
    "，": ",",
    "（": "(",
    "）": ")",
    "…": "all of it",
    "→": ":",
    "&&": "and",
    "||": "or",
    "!": "not",
    "&": "and",
    "|": "or",
    "'": '"',
}


@dataclass(frozen=True)
class Trouble:
    """The text that does not fit and what stands around it."""

    found: str  # the word or sign; "" at the end of the file
    before: str  # the token before it
    first: str  # the first word of the statement it is in; "" between statements
    block: str  # the keyword of the block around that: a key of STATEMENTS
    accepts: frozenset[str]  # terminals that would fit
    keywords: dict[str, str]  # of these, the words: word -> terminal
    complete: bool  # the statement before it could end here


def header(block: str, statement: str) -> str:
    """A header that stands in for a broken one, so that the rest of its block is read; "" for a statement
    without a block.
    """
    if statement not in STATEMENTS[block] or (block, statement) in (
        ("schedule", "for"),
        ("order", "rank"),
        ("trace", "rank"),
        ("place", "rank"),
    ):
        return ""
    return _HEADERS.get(statement, "")


def near_keyword(found: str, words: list[str]) -> str | None:
    """The word the user meant, if one of those that fit is spelled alike."""
    if not found[:1].isalpha() or found in GRAMMAR_WORDS:
        return None
    lower = found.lower()
    return (
        lower if lower in words else next(iter(difflib.get_close_matches(lower[:60], words, 1, 0.74)), None)
    )


def explain(t: Trouble) -> tuple[str, str]:  # noqa: C901, PLR0911
    """Message and help."""
    found = shorten(t.found)
    forms = STATEMENTS.get(t.block, {})
    form = forms.get(t.first) or forms.get("")
    written = f"{f'`{t.first}`' if t.first in forms else 'this'} is written `{form}`" if form else ""
    if t.found.startswith("..."):
        return (
            "`...` is not part of the language",
            "write out what it stands for; operations may be repeated: `0F0..3`, `(1F4 1B0) .. (1F15 1B11)`",
        )
    if t.found == '"':
        return "this text in quotes has no end on its line", 'close it with `"`'
    if t.found == "/":
        return "`/` is no operator", "division is written `div`, and rounds down; the remainder is `mod`"
    if t.found == ";":
        return "`;` is not part of the language", "statements end at the line's end or at a closing brace"
    if t.found == "=" and "COMPARE" in t.accepts:
        return "`=` compares nothing", "write `==`"
    if t.found == ".." and "HALF_OPEN" in t.accepts:
        return "a loop runs over a half-open range", "write `..<`: `0 ..< n` runs from 0 to n - 1"
    if t.found in ("<", "<=", ">", ">=", "==", "!=") and "AND" in t.accepts and "COMPARE" not in t.accepts:
        return "comparisons do not chain", "write `0 <= i and i < n`"
    if t.found in _CHARACTERS:
        return f"`{found}` is not part of the language", f"write `{_CHARACTERS[t.found]}`"
    if not t.found.isascii():
        return f"`{found}` is not part of the language", "names are made of ASCII letters, digits and `_`"
    if t.found and t.found in UNITS and t.before.replace("_", "").replace(".", "").isdigit():
        return f"the unit `{found}` stands apart from its number", f"write `{t.before}{t.found}`"
    if (
        t.found in (")", "]", "}")
        and t.found not in [p.strip("`") for p in map(_TERMINALS.get, t.accepts) if p]
        and (t.complete or t.first == "")
    ):
        return f"`{found}` closes nothing", "delete it, or open it where it should begin"
    if t.complete or not t.first:
        return _no_statement(t, found)
    return _expected(t, found), written


def _no_statement(t: Trouble, found: str) -> tuple[str, str]:
    forms = STATEMENTS.get(t.block, {})
    where = "the file" if t.block == "file" else f"`{t.block}`"
    elsewhere = [b for b, words in STATEMENTS.items() if t.found in words and b != t.block]
    if t.first and t.first in forms and not elsewhere:
        return f"`{found}` cannot follow `{shorten(t.before)}`", f"`{t.first}` is written `{forms[t.first]}`"
    if elsewhere:
        owner = "at the top of the file" if elsewhere[0] == "file" else f"in `{elsewhere[0]} {{ .. }}`"
        return f"`{found}` does not belong in {where}", f"it stands {owner}"
    words = [w for w in forms if w]
    if not words:
        return (
            f"`{found}` cannot stand in {where}",
            f"its statements are written `{forms['']}`" if "" in forms else "",
        )
    return f"`{found}` is no statement of {where}", "statements: " + ", ".join(words)


def _expected(t: Trouble, found: str) -> str:
    after = f" after `{shorten(t.before)}`" if t.before else ""
    got = f", not `{found}`" if t.found else ""
    if {"NUMBER", "NAME", "LPAR", "MINUS"} <= t.accepts:
        return (
            "expected "
            f"{'a condition' if t.before in ('if', 'where', 'and', 'or', 'not') else 'an expression'}{after}{got}"  # noqa: E501
        )
    phrases = []
    operators = (
        _OPERATORS if "PLUS" in t.accepts else frozenset()
    )  # any expression could go on; name what would end it
    for terminal in sorted(t.accepts - operators, key=lambda a: (a not in ("NAME", "NUMBER"), a)):
        word = next((w for w, name in t.keywords.items() if name == terminal), None)
        if terminal == "NUMBER":
            phrases.append(
                "a whole number"
                if t.before == t.first == "ranks"
                else _NUMBER_AFTER.get(t.before, "a whole number")
            )
        elif terminal in ("NAME", "SKELETON_NAME"):
            phrases.append(_NAME_AFTER.get(t.before, _TERMINALS[terminal]))
        else:
            phrases.append(f"`{word}`" if word else _TERMINALS.get(terminal, ""))
    phrases = [p for p in dict.fromkeys(phrases) if p]
    if not 1 <= len(phrases) <= 3:
        return f"`{found}` cannot stand{after}" if t.found else f"the file ends{after}"
    listed = " or ".join(filter(None, (", ".join(p.rstrip(",") for p in phrases[:-1]), phrases[-1])))
    return f"expected {listed.rstrip(',')}{',' if listed.endswith(',') and after else ''}{after}{got}"
