"""Text to syntax tree, with every error of the text in one run."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import islice

from interlock.language import ast
from interlock.language.recovery import MAX_ERRORS, RecoveringParser
from interlock.language.validate import validate
from interlock.text.codes import rule_of
from interlock.text.finding import InputError, error
from interlock.text.source import Source, Span

LARGEST_FILE = 8 * 2**20  # bytes
DEEPEST = 64  # braces, parentheses, brackets

_BRACKETS = re.compile(r'#[^\n]*|"[^"\n]*"|[{}()\[\]]')
_EXPECT = re.compile(
    r"#\s*expect:\s*(valid|invalid|unknown|vacuous)((?:[ \t,]+IL[0-9]{3})*)"
    r"(?:[ \t]+under[ \t]+([a-z]+(?:[ \t]*,[ \t]*[a-z]+)*))?[ \t\r]*"
)
_WORD = re.compile(r"\w+")


def parse(source: Source) -> ast.File:
    """The syntax tree of a text. Raises InputError with every IL1xx diagnostic found (spec/language.md)."""
    try:
        _check_text(source)
        file, syntax, mistakes = RecoveringParser(source).read()
        places = [d.marks[0].span.at for d in syntax]
        found = syntax + [m for m in mistakes if not any(_inside(at, m.marks[0].span) for at in places)]
        if not syntax:
            found += islice(validate(file), MAX_ERRORS)
        if found:
            found = sorted(found, key=lambda d: d.marks[0].span.at)[:MAX_ERRORS]
            if len(found) == MAX_ERRORS:
                found[-1] = replace(
                    found[-1],
                    help=f"{found[-1].help}; repair these {MAX_ERRORS} first: what may follow is not shown",
                )
            raise InputError(*found)
    except InputError as e:
        raise InputError(*(replace(d, rule=rule_of(d.code)) for d in e.findings)) from None
    return file


def _inside(at: int, span: Span) -> bool:
    """A mistake around an unreadable place may come from that place alone."""
    return span.at < at < span.at + span.width


def decode(name: str, data: bytes) -> str:
    """The text of a file's bytes. Raises InputError (IL104, IL105)."""
    if len(data) > LARGEST_FILE:
        raise error(
            "IL104",
            f"{name} has {len(data):,} bytes; the most is {LARGEST_FILE:,}",
            help="use a skeleton, or repeats such as `0F0..3`",
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise error(
            "IL105", f"{name} is not text: byte {e.start} is not UTF-8", help="a `.sched` file is UTF-8 text"
        ) from None


def read_header_expectations(text: str, base: int = 0) -> tuple[ast.Expect, ...]:
    """`# expect: invalid IL101` in the comments a text begins with; read without parsing it."""
    found = []
    at = 0
    for line in text.split("\n"):
        if line.strip() and not line.lstrip().startswith("#"):
            break
        start = at + len(line) - len(line.lstrip())
        if match := _EXPECT.fullmatch(line.strip()):
            codes, models = (_read_words(match, group, base + start) for group in (2, 3))
            found.append(ast.Expect(match[1], codes, models, Span(base + start, len(match.group()))))
        at += len(line) + 1
    return tuple(found)


def _read_words(match: re.Match[str], group: int, at: int) -> tuple[ast.Word, ...]:
    """The words of a group of a match that begins at `at`, each with its place."""
    words = _WORD.finditer(match.string, *match.span(group)) if match[group] else ()
    return tuple(ast.Word(w.group(), Span(at + w.start(), len(w.group()))) for w in words)


def _check_text(source: Source) -> None:
    text, base = source.text, source.base
    if (
        len(text) > LARGEST_FILE
        or len(text) > LARGEST_FILE // 4
        and len(text.encode("utf-8", "surrogatepass")) > LARGEST_FILE
    ):
        raise error(
            "IL104",
            f"{source.name} is larger than {LARGEST_FILE // 2**20} MiB",
            Span(base, 1),
            help="use a skeleton, or repeats such as `0F0..3`",
        )
    if bad := re.search("[\0\ud800-\udfff\ufffd]", text):
        raise error(
            "IL105",
            f"{source.name} is not text",
            Span(base + bad.start(), 1),
            "not a character",
            "a `.sched` file is UTF-8 text",
        )
    depth = 0
    for match in _BRACKETS.finditer(text):
        sign = match.group()
        if sign in "{([":
            depth += 1
            if depth > DEEPEST:
                raise error(
                    "IL104",
                    f"nesting deeper than {DEEPEST}",
                    Span(base + match.start(), 1),
                    "here",
                    "name parts with `let`, or close what is open",
                )
        elif sign in "})]" and depth:
            depth -= 1
