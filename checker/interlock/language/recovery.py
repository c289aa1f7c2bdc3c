"""The parser, run so that every error of a text is found in one go.

The grammar knows no lines; recovery does: after an error the parser gives up the statement it is in, goes
back to the
block around it, and reads on at the next line, the next keyword of that block, or its closing brace. Where
one word is
missing or misspelled it is put right and nothing is given up.
"""

from __future__ import annotations

import re
from typing import NamedTuple, cast

from interlock.language import ast, wording
from interlock.language.automaton import Automaton, Misfit, Token
from interlock.language.build import Builder
from interlock.language.parse_table import END
from interlock.language.wording import Trouble
from interlock.text.finding import Finding, Mark
from interlock.text.phrases import shorten
from interlock.text.source import Source, Span

MAX_ERRORS = 30  # what a user reads at once

_WORD = re.compile(r'"[^"\n]*"|[0-9]*[A-Za-z_][A-Za-z0-9_]*|[0-9][0-9_.]*\w*|\.{1,3}<?|[<>=!]=|&&|\|\||\S')
_SKIPPED = re.compile(r'#[^\n]*|"[^"\n]*"|\n[ \t\r\f]*|[{}()\[\]]|[0-9]*[A-Za-z_][A-Za-z0-9_]*')
_INDENTATION = re.compile(r"[ \t]*")
_OPERATION = re.compile(r"[^\s{}()#]+(?:\([^(){}\n]*\))?|.")
_TO_BRACE = re.compile(r'[^\n{}#"]*\{')
_REGION = re.compile(r"\w+[ \t]*=")
_CLOSING_BRACES = re.compile(r"\}(?:\s*\})+")
_SIGNS = {
    "{": "LBRACE",
    "(": "LPAR",
    ")": "RPAR",
    "[": "LSQB",
    "]": "RSQB",
    ":": "COLON",
    "0": "NUMBER",
    "1": "NUMBER",
    "..<": "HALF_OPEN",
}
_BLOCKS: dict[type, str] = {
    ast.Schedule: "schedule",
    ast.Skeleton: "skeleton",
    ast.Model: "model",
    ast.Cut: "cut",
    ast.Place: "place",
    ast.RankProgram: "rank",
}
_HOMES = {
    "schedule": ("file", "schedule"),
    "skeleton": ("file", "skeleton"),
    "rank": ("skeleton", "rank"),
} | {block: ("schedule", block) for block in ("model", "cut", "place", "order", "trace")}


class Reading(NamedTuple):
    """file: None where the text could not be read to its end. unreadable: what does not fit the grammar;
    mistakes: what
    the builder found wrong in the parts that do."""

    file: ast.File | None
    unreadable: list[Finding]
    mistakes: list[Finding]


class Block(NamedTuple):
    """An open block: its keyword (`file` at the top), the place of its `{` (-1 there), and how many states of
    the stack
    it takes with the statements that are complete in it."""

    keyword: str
    brace: int
    depth: int


class Statement(NamedTuple):
    """The statement that is being read: its first word, "" where none has begun, and its place."""

    first: str
    begins: int


class RecoveringParser:
    """One run of the parser over one text. Places here are counted from the beginning of the text."""

    def __init__(self, source: Source):
        self._text, self._base = source.text, source.base
        self._builder = Builder(source.base)
        self._automaton = Automaton(self._builder, source.text)
        self._keywords = self._automaton.table.keywords
        self._errors: list[Finding] = []
        self._resumed = -1  # where reading went on after the last error
        self._last: Token | None = None  # the token fed last

    def read(self) -> Reading:
        while (at := self._feed_all()) >= 0:
            try:
                goes_on = self._recover(at)
            except Misfit:  # a repair that does not fit: what was found so far stands
                goes_on = False
            if not goes_on:
                if not self._errors:
                    help = "see spec/language.md for the form of each statement"
                    self._report(at, 1, "this cannot be read", help)
                return Reading(None, self._errors, self._builder.errors)
        return Reading(cast(ast.File, self._automaton.finish()), self._errors, self._builder.errors)

    def _feed_all(self) -> int:
        """Feeds tokens as far as they fit: the place of the first that does not, -1 at a good end."""
        automaton = self._automaton
        while (token := automaton.read()) is not None and automaton.fits(token.type):
            if token.type == END:
                return -1
            automaton.feed(token)
            self._last = token
        return automaton.position if token is None else token.start_pos

    # ---- where the parser stands ----------------------------------------------------------------

    def _block_depth(self, below: int) -> int:
        """How much of the stack (its first `below` states) is the innermost block and what is
        complete in it.
        """
        states = self._automaton.states
        for i in range(below - 1, 0, -1):
            if self._automaton.shifts(states[i], "RBRACE"):
                return i + 1
        return 2 if below > 1 and self._automaton.shifts(states[1], "SCHEDULE") else 1

    def _statement(self, depth: int) -> Statement:
        """The statement that begins above `depth` states."""
        if len(self._automaton.values) < depth:
            return Statement("", -1)
        value = self._automaton.values[depth - 1]
        if isinstance(value, Token):
            return Statement(str(value), value.start_pos)
        span: Span | None = getattr(value, "span", None)
        if span is None:
            return Statement("", -1)
        at = span.at - self._base
        match = _WORD.match(self._text, at) if at >= 0 else None
        return Statement(match.group() if match else "", at)

    def _innermost_brace(self, below: int) -> int:
        """The place in the stack of the last `{` among its first `below` values; -1: none is open."""
        values = self._automaton.values
        return max((i for i in range(below) if getattr(values[i], "type", "") == "LBRACE"), default=-1)

    def _block(self, depth: int) -> Block:
        """The block that `depth` states reach into."""
        opens = self._innermost_brace(depth - 1)
        if opens < 0:
            return Block("file", -1, depth)
        word = self._statement(self._block_depth(opens + 1)).first
        brace = cast(Token, self._automaton.values[opens])
        return Block("order" if word == "fragment" else word, brace.start_pos, depth)

    def _outer_block(self, depth: int, word: str) -> int:
        """How much of the stack is the nearest block around this one that has `word` as a
        statement; 0: none.
        """
        while (opens := self._innermost_brace(depth - 1)) >= 0:
            depth = self._block_depth(opens + 1)
            if word in wording.STATEMENTS.get(self._block(depth).keyword, {}):
                return depth
        return 0

    # ---- recovery -------------------------------------------------------------------------------

    def _recover(self, at: int) -> bool:
        """Reports what stands at `at` and puts the automaton where reading goes on. False: nowhere."""
        if len(self._errors) >= MAX_ERRORS:
            return False
        match = _WORD.match(self._text, at)
        found = match.group() if match and at < len(self._text) else ""
        accepts = self._automaton.accepts()
        fitting = {word: terminal for word, terminal in self._keywords.items() if terminal in accepts}
        if self._correct_word(at, found, fitting, "PROPERTY" in accepts):
            return True
        complete = bool(accepts & {"RBRACE", "SCHEDULE"})
        if complete and self._last is not None and self._last.type == "RBRACE":
            self._finish_statement()
            accepts = self._automaton.accepts()
        block = self._block(self._block_depth(len(self._automaton.states)))
        statement = self._statement(block.depth)
        trouble = Trouble(
            found, str(self._last or ""), statement.first, block.keyword, accepts, fitting, complete
        )
        if self._leave_open_block(at, found, statement, block):
            return True
        if not found:
            self._report_end(trouble, block)
            return False
        if self._reopen_block(at, trouble) or self._insert_comma(at, trouble):
            return True
        if "OPS" in accepts:
            return self._skip_operation(at, trouble)
        if self._skip_closing_braces(at, trouble):
            return True
        message, help = wording.explain(trouble)
        self._report(*self._place_of(found, at, complete), message, help)
        return self._complete_header(at, trouble, statement, block) or self._skip_statement(
            at, trouble, statement, block
        )

    def _correct_word(self, at: int, found: str, fitting: dict[str, str], properties: bool) -> bool:
        """A keyword that is misspelled is read as what was meant."""
        word = wording.near_keyword(found, [*fitting, *(wording.PROPERTIES if properties else ())])
        if word is None:
            return False
        self._report(at, len(found), f"unknown word `{shorten(found)}`", f"did you mean `{word}`?")
        self._feed(fitting.get(word, "PROPERTY"), word, at, at + len(found))
        return self._resume(at + len(found))

    def _leave_open_block(self, at: int, found: str, statement: Statement, block: Block) -> bool:
        """A line that begins with a statement of an outer block: this one was not closed. Goes on in the
        outer one.
        """
        if found == "else" and block.keyword == "if":
            self._report_open(block, "close it with `}` before `else`")
            if not self._automaton.fits("RBRACE"):
                self._cut(block.depth)
            self._feed("RBRACE", "}", at, at)
            return self._resume(at)
        for word, place in ((found, at), (statement.first, statement.begins)):
            if (
                place > self._resumed
                and word not in wording.STATEMENTS.get(block.keyword, {})
                and self._starts_line(place)
                and (outer := self._outer_block(block.depth, word))
            ):
                self._report_open(block, f"close it with `}}` before `{word}`")
                self._cut(outer)
                return self._resume(place)
        return False

    def _reopen_block(self, at: int, trouble: Trouble) -> bool:
        """A statement of the block that was just closed: there is a brace too many. Goes on as if it were
        still open.
        """
        if not trouble.complete or trouble.first:
            return False
        statements = self._automaton.values[-1] if self._automaton.values else None
        if not isinstance(statements, list) or not statements:
            return False
        node = statements[-1]
        block = node.form if isinstance(node, ast.Order) else _BLOCKS.get(type(node), "")
        operation = block in ("order", "trace") and trouble.found[0].isdigit()
        region = block == "cut" and _REGION.match(self._text, at)
        if not (trouble.found in wording.STATEMENTS.get(block, {}) or operation or region):
            return False
        self._report(
            at,
            len(trouble.found),
            f"`{shorten(trouble.found)}` stands behind the end of `{block}`",
            "a brace before it closes too much: delete it",
        )
        statements.pop()
        self._feed_words(wording.header(*_HOMES[block]) + (" rank 0 :" if operation else ""), at)
        return self._resume(at)

    def _insert_comma(self, at: int, trouble: Trouble) -> bool:
        """A word that goes on with a list behind a missing comma."""
        found = trouble.found
        if "COMMA" not in trouble.accepts or found in trouble.keywords or self._starts_line(at):
            return False
        quoted = len(found) > 1 and found[0] == '"'
        kind = (
            "NAME" if found.isidentifier() else "NUMBER" if found.isdecimal() else "STRING" if quoted else ""
        )
        if not self._automaton.fits("COMMA", kind):
            return False
        self._report(
            at,
            len(found),
            f"expected `,` between `{shorten(trouble.before)}` and `{shorten(found)}`",
            "the parts of a list are separated by commas",
        )
        self._feed("COMMA", ",", at, at)
        return self._resume(at)

    def _skip_operation(self, at: int, trouble: Trouble) -> bool:
        """Something among operations that is none: it alone is left out."""
        match = _OPERATION.match(self._text, at)
        bad = match.group() if match else ""
        if trouble.found in ("...", ";", '"') or not trouble.found.isascii() or bad[0] in ")]":
            message, help = wording.explain(trouble)
        else:
            message = f"`{shorten(bad)}` is no operation"
            help = (
                "operations are written `0F3`, `1SEND_F0@seam`, `0REDUCE`, `send(1, a0)`, `step`, `{ .. "
                "}`, `0F0..3`"
            )
        self._report(at, len(bad), message, help)
        return len(self._errors) < MAX_ERRORS and self._resume(at + len(bad))

    def _skip_closing_braces(self, at: int, trouble: Trouble) -> bool:
        """Several braces that close nothing are reported once."""
        if trouble.block != "file" or not trouble.complete or trouble.found != "}":
            return False
        braces = _CLOSING_BRACES.match(self._text, at)
        if braces is None:
            return False
        message, help = wording.explain(trouble)
        more = braces.group().count("}") - 1
        those = f"do the {more:,}" if more > 1 else "does the one"
        self._report(at, 1, f"{message}, and so {those} after it", help)
        return self._resume(braces.end())

    def _complete_header(self, at: int, trouble: Trouble, statement: Statement, block: Block) -> bool:
        """A broken header of a block: one that is whole stands in for it, so that the block is read."""
        header = "" if trouble.complete else wording.header(block.keyword, statement.first)
        if not header:
            return False
        if "\n" not in self._text[statement.begins : at] and (opens := _TO_BRACE.match(self._text, at)):
            self._cut(block.depth)
            self._feed_words(header, at)
            return self._resume(opens.end())
        if "LBRACE" in trouble.accepts and trouble.found[0].isalpha():
            self._feed("LBRACE", "{", at, at)
            return self._resume(at)
        return False

    def _skip_statement(self, at: int, trouble: Trouble, statement: Statement, block: Block) -> bool:
        if trouble.complete:
            if statement.first:
                self._finish_statement()
            return self._skip(at, at, trouble.found)
        self._cut(block.depth)
        if trouble.found == "}" and at != self._resumed:
            return self._resume(at)
        return self._skip(at, statement.begins if statement.begins >= 0 else at, trouble.found)

    def _skip(self, at: int, begins: int, found: str) -> bool:
        """Goes on where the next statement of the block can begin: at a line no deeper than this one, at a
        keyword, at
        its `}`."""
        accepts = self._automaton.accepts()
        here = {word for word, terminal in self._keywords.items() if terminal in accepts}
        if "PROPERTY" in accepts:
            here.update(wording.PROPERTIES)
        margin = self._indentation(begins)
        begins_here = found in here or self._starts_line(at) and self._indentation(at) <= margin
        if at > begins and at != self._resumed and begins_here:
            return self._resume(at)
        depth = 0
        for match in _SKIPPED.finditer(self._text, at + (len(found) if found not in "{}()[]" else 0)):
            sign = match.group()
            if sign == "{":
                depth += 1
            elif sign == "}":
                if depth == 0 and match.start() > at:
                    return self._resume(match.start())
                depth = max(depth - 1, 0)
            elif depth == 0 and sign in here:
                return self._resume(match.start())
            elif depth == 0 and sign[0] == "\n" and len(sign) - 1 <= margin and self._has_words(match.end()):
                return self._resume(match.end())
        return self._resume(len(self._text))

    # ---- the automaton --------------------------------------------------------------------------

    def _finish_statement(self) -> None:
        """Reduces the complete statement on the stack, by the token that may follow it."""
        closing = "RBRACE" if self._automaton.fits("RBRACE") else "SCHEDULE"
        self._feed(closing, "", 0, 0)
        self._automaton.states.pop()
        self._automaton.values.pop()

    def _feed_words(self, words: str, at: int) -> None:
        """Feeds a header of wording.py as if it stood at `at`."""
        name = "SKELETON_NAME" if words.startswith("skeleton") else "NAME"
        for text in words.split():
            self._feed(self._keywords.get(text) or _SIGNS.get(text) or name, text, at, at)

    def _feed(self, terminal: str, text: str, start: int, end: int) -> None:
        self._last = token = Token(terminal, text, start, end)
        self._automaton.feed(token)

    def _cut(self, depth: int) -> None:
        del self._automaton.states[depth:]
        del self._automaton.values[depth - 1 :]

    def _resume(self, at: int) -> bool:
        self._resumed = self._automaton.position = at
        return True

    # ---- places ---------------------------------------------------------------------------------

    def _indentation(self, at: int) -> int:
        """Of the line that `at` is on."""
        start = self._text.rfind("\n", 0, at) + 1
        match = _INDENTATION.match(self._text, start)
        return match.end() - start if match else 0

    def _starts_line(self, at: int) -> bool:
        return not self._text[self._text.rfind("\n", 0, at) + 1 : at].strip()

    def _has_words(self, at: int) -> bool:
        """Whether something other than a comment or a closing brace stands at the place, which is behind an
        indentation.
        """
        return self._text[at : at + 1] not in ("", "\n", "#", "}")

    def _place_of(self, found: str, at: int, complete: bool) -> tuple[int, int]:
        """Place and width of the word, or, where something is missing at the end of a line, of the place
        behind that.
        """
        if not complete and self._last is not None and "\n" in self._text[self._last.end_pos : at]:
            return self._last.end_pos, 1
        return at, len(found)

    def _report(self, at: int, width: int, message: str, help: str, label: str = "") -> None:
        span = Span(self._base + at, max(width, 1))
        self._errors.append(Finding.of_input("IL101", message, (Mark(span, label),), help))

    def _report_open(self, block: Block, help: str) -> None:
        self._report(block.brace, 1, f"the `{{` of `{block.keyword}` is never closed", help, "opened here")

    def _report_end(self, trouble: Trouble, block: Block) -> None:
        if trouble.complete and block.brace >= 0:
            self._report_open(block, "close it with `}`")
        else:
            message, help = wording.explain(trouble)
            self._report(self._last.end_pos if self._last is not None else 0, 1, message, help)
