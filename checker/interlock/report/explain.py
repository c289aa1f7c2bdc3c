"""The rule behind a code, as text for a terminal: the sections `## IL402 · R-COM-3 · no deadlock` of the
pages in spec/.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from interlock.text import resources
from interlock.text.codes import CODES, FAMILIES

WIDTH = 96
_LABELS = {"fails": "Fails", "warns": "Warns", "holds": "Holds"}
_HEADING = re.compile(r"## (IL\d{3}) · (?:(.+) · )?(.+)")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, what it shows (`fails`, `warns`, `holds`; "" if it is no example), its
    text.
    """

    language: str
    shows: str
    text: str


@dataclass(frozen=True)
class Section:
    """One code's section.

    `parts` are paragraphs and blocks in the order of the page, which is named without its folder.
    """

    code: str
    rule: str
    title: str
    page: str
    parts: tuple[str | Block, ...]

    @property
    def examples(self) -> tuple[Block, ...]:
        return tuple(p for p in self.parts if isinstance(p, Block) and p.shows)


def sections() -> tuple[Section, ...]:
    """The sections of all pages, by code. Raises FileNotFoundError where the pages are not installed."""
    pages = sorted((resources.find_folder() / "spec").glob("*.md"))
    if not pages:
        raise FileNotFoundError("the specification is not installed")
    found = (s for page in pages for s in _of_page(page.name, page.read_text(encoding="utf-8")))
    return tuple(sorted(found, key=lambda s: s.code))


def section(code: str) -> str | None:
    """The section of a code, upper or lower case, without Markdown; None if there is no such code."""
    wanted = code.strip().upper()
    return next((to_text(s) for s in sections() if s.code == wanted), None)


def listing() -> str:
    """Every code and its title, by family."""
    lines: list[str] = []
    for family, codes in groupby(CODES.values(), attrgetter("family")):
        lines += [""] * bool(lines) + [f"IL{family}xx  {FAMILIES[family]}"]
        lines += [f"  {c.code}  {c.heading}" for c in codes]
    return "\n".join([*lines, "", "`interlock explain IL402` gives the rule, an example and its repair."])


def _of_page(name: str, text: str) -> Iterator[Section]:
    heading, body, fenced = None, [], False
    for line in [*text.splitlines(), "# end"]:
        if line.startswith("```"):
            fenced = not fenced
        if fenced or not re.match(r"##? ", line):
            body.append(line)
            continue
        if heading:
            yield Section(heading[1], heading[2] or "", heading[3], name, tuple(_parts(body)))
        heading, body = _HEADING.fullmatch(line), []


def _parts(lines: list[str]) -> Iterator[str | Block]:
    paragraph: list[str] = []
    block: list[str] | None = None
    info = ""
    for line in [*lines, ""]:
        if line.startswith("```"):
            if block is None:
                if paragraph:
                    yield "\n".join(paragraph)
                paragraph, block, info = [], [], line[3:].strip()
            else:
                language, _, shows = info.partition(" ")
                yield Block(language, shows if shows in _LABELS else "", "".join(f"{l}\n" for l in block))
                block = None
        elif block is not None:
            block.append(line)
        elif line.strip():
            paragraph.append(line)
        elif paragraph:
            yield "\n".join(paragraph)
            paragraph = []


def to_text(s: Section) -> str:
    """A section as text."""
    rule = f"Rule {s.rule}, " if s.rule else "In "
    return "\n\n".join(
        [f"{s.code}: {strip_markdown(s.title)}", f"{rule}spec/{s.page}", *map(_part_text, s.parts)]
    )


def to_markdown(s: Section) -> str:
    """A section as Markdown, as it stands in its page; links to other pages without their target."""
    rule = f"Rule {s.rule}, " if s.rule else "In "
    return "\n\n".join([f"{rule}spec/{s.page}", *map(_part_markdown, s.parts)])


def _part_markdown(part: str | Block) -> str:
    if isinstance(part, str):
        return re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", part)
    head = f"{_LABELS[part.shows]}:\n\n" if part.shows else ""
    return f"{head}```{part.language}\n{part.text}```"


def _part_text(part: str | Block) -> str:
    if isinstance(part, Block):
        body = textwrap.indent(part.text.rstrip("\n"), "  ")
        if not part.shows:
            return body
        what = " (PyTorch CSV)" if part.language == "csv" else ""
        return f"{_LABELS[part.shows]}{what}:\n\n{body}"
    if re.match(r" *([*|-]|\d+\.) ", part):  # a list or a table: its lines as they are
        return "\n".join(strip_markdown(line) for line in part.splitlines())
    return textwrap.fill(
        " ".join(strip_markdown(part).splitlines()), WIDTH, break_long_words=False, break_on_hyphens=False
    )


def strip_markdown(text: str) -> str:
    """Without the marks of links and emphasis; what stands in backticks stays, backticks included."""
    pieces = re.split(r"(`[^`]*`)", text)
    for i in range(0, len(pieces), 2):
        pieces[i] = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", pieces[i])
        pieces[i] = re.sub(r"(?<![\w*])(\*{1,2})(?=\w)(.+?)(?<=\w)\1(?![\w*])", r"\2", pieces[i])
    return "".join(pieces)
