"""The parser, run so that every error of a text is found in one go.

The grammar knows no lines; recovery does: after an error the parser gives up the statement it is in, goes back to the
block around it, and reads on at the next line, the next keyword of that block, or its closing brace. Where one word is
missing or misspelled it is put right and nothing is given up.
"""

from __future__ import annotations

import functools
import re
from copy import copy

from interlock.language import ast, wording
from interlock.language.build import Builder
from interlock.text import resources
from interlock.text.finding import Finding, Mark
from interlock.text.source import Source, Span

MAX_ERRORS = 30  # what a user reads at once

_WORD = re.compile(r'"[^"\n]*"|[0-9]*[A-Za-z_][A-Za-z0-9_]*|[0-9][0-9_.]*\w*|\.{1,3}<?|[<>=!]=|&&|\|\||\S')
_SKIPPED = re.compile(r'#[^\n]*|"[^"\n]*"|\n[ \t\r\f]*|[{}()\[\]]|[0-9]*[A-Za-z_][A-Za-z0-9_]*')
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
_BLOCKS = {
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


@functools.cache
def _grammar():
    """The parser, its builder, and the words of the grammar: word -> terminal."""
    import lark
    from lark.lexer import PatternRE

    builder, keywords = Builder(), {}

    def whole_words(terminal):
        text = terminal.pattern.value
        if terminal.pattern.type == "str" and text.isidentifier():
            keywords[text] = terminal.name
            terminal.pattern, terminal.priority = PatternRE(rf"{text}(?![A-Za-z0-9_])"), 2
        elif terminal.name == "PROPERTY":
            terminal.pattern = PatternRE(rf"(?:{text})(?![A-Za-z0-9_])")

    parser = lark.Lark(
        resources.read_text("grammar/sched.lark"),
        parser="lalr",
        lexer="contextual",
        keep_all_tokens=True,
        maybe_placeholders=False,
        transformer=builder,
        edit_terminals=whole_words,
    )
    return parser, builder, keywords


class Run:
    """One run of the parser over one text."""

    def __init__(self, source: Source):
        self.source, self.text, self.base = source, source.text, source.base
        self.parser, self.builder, self.keywords = _grammar()
        self.builder.reset(source.base)
        self.errors: list[Finding] = []
        self.resumed = -1  # where reading went on after the last error
        self.last = None  # the token fed last

    def go(self) -> tuple[ast.File | None, list[Finding], list[Finding]]:
        from lark.exceptions import UnexpectedCharacters, UnexpectedInput
        from lark.lexer import Token
        from lark.parsers.lalr_analysis import Shift

        self.shift = Shift
        self.interactive = self.parser.parse_interactive(self.text)
        self.state, self.lexer = self.interactive.parser_state, self.interactive.lexer_thread
        self.states = self.state.parse_conf.states
        while True:
            try:
                at = self._feed_all()
            except UnexpectedInput as e:
                at = e.pos_in_stream if isinstance(e, UnexpectedCharacters) else e.token.start_pos
            if at < 0:
                end = Token("$END", "", len(self.text), end_pos=len(self.text))
                return self.state.feed_token(end, is_end=True), self.errors, self.builder.errors
            try:
                goes_on = self._recover(at)
            except UnexpectedInput:  # a repair that does not fit: what was found so far stands
                goes_on = False
            if not goes_on:
                if not self.errors:
                    self._report(
                        Span(self.base + at, 1),
                        "this cannot be read",
                        "",
                        "see spec/language.md for the form of each statement",
                    )
                return None, self.errors, self.builder.errors

    def _feed_all(self) -> int:
        """Feeds words as far as they fit: the place of the first that does not, -1 at a good end."""
        feed, fits = self.state.feed_token, self._fits
        for token in self.lexer.lex(self.state):
            if not fits(token.type):
                return token.start_pos
            feed(token)
            self.last = token
        return -1 if fits("$END") else len(self.text)

    def _fits(self, terminal: str) -> bool:
        """Whether the parser can go on with a terminal; asked first, as it would reduce before it finds that it cannot."""
        stack = self.state.state_stack
        action = self.states[stack[-1]].get(terminal)
        if action is None or action[0] is self.shift:
            return action is not None
        stack = stack[:]
        while action is not None and action[0] is not self.shift:
            if length := len(action[1].expansion):
                del stack[-length:]
            stack.append(self.states[stack[-1]][action[1].origin.name][1])
            if terminal == "$END" and stack[-1] == self.state.parse_conf.end_state:
                return True
            action = self.states[stack[-1]].get(terminal)
        return action is not None

    # ---- where the parser stands ----------------------------------------------------------------

    def _shifts(self, state, terminal: str) -> bool:
        return self.states[state].get(terminal, (None,))[0] is self.shift

    def _block_depth(self, below: int) -> int:
        """How much of the stack (its first `below` states) is the innermost block and what is complete in it."""
        stack = self.state.state_stack
        for i in range(below - 1, 0, -1):
            if self._shifts(stack[i], "RBRACE"):
                return i + 1
        return 2 if below > 1 and self._shifts(stack[1], "SCHEDULE") else 1

    def _first_word(self, depth: int) -> tuple[str, int]:
        """First word and place of the statement that begins above `depth` states; "" if none has begun."""
        if len(self.state.value_stack) < depth:
            return "", -1
        value = self.state.value_stack[depth - 1]
        if hasattr(value, "start_pos"):
            return str(value), value.start_pos
        at = value.span.at - self.base if hasattr(value, "span") else -1
        match = _WORD.match(self.text, at) if at >= 0 else None
        return (match.group() if match else ""), at

    def _block(self, depth: int) -> tuple[str, int]:
        """The keyword of the block that `depth` states reach into, and the place of its `{`."""
        for i in range(depth - 2, -1, -1):
            if getattr(self.state.value_stack[i], "type", "") == "LBRACE":
                word = self._first_word(self._block_depth(i + 1))[0]
                if word == "fragment":
                    word = "order"
                return word, self.state.value_stack[i].start_pos
        return "file", -1

    def _outer(self, depth: int, found: str) -> int:
        """How much of the stack is the nearest block around this one that has `found` as a statement; 0: none."""
        while (
            opens := max(
                (i for i in range(depth - 1) if getattr(self.state.value_stack[i], "type", "") == "LBRACE"),
                default=-1,
            )
        ) >= 0:
            depth = self._block_depth(opens + 1)
            if found in wording.STATEMENTS.get(self._block(depth)[0], {}):
                return depth
        return 0

    # ---- recovery -------------------------------------------------------------------------------

    def _recover(self, at: int) -> bool:
        """Reports what stands at `at` and puts parser and lexer where reading goes on. False: nowhere."""
        if len(self.errors) >= MAX_ERRORS:
            return False
        match = _WORD.match(self.text, at)
        found = match.group() if match and at < len(self.text) else ""
        accepts = frozenset(self.interactive.accepts())
        complete = bool(accepts & {"RBRACE", "SCHEDULE"})
        fitting = {w: t for w, t in self.keywords.items() if t in accepts}
        if word := wording.near_keyword(
            found, [*fitting, *(wording.PROPERTIES if "PROPERTY" in accepts else ())]
        ):
            self._report(
                self._span(at, found), f"unknown word `{wording.shown(found)}`", "", f"did you mean `{word}`?"
            )
            self._feed(fitting.get(word, "PROPERTY"), word, at, at + len(found))
            return self._resume(at + len(found))
        if complete and self.last is not None and self.last.type == "RBRACE":
            self._finish_statement(accepts)
            accepts = frozenset(self.interactive.accepts())
        depth = self._block_depth(len(self.state.state_stack))
        first, begins = self._first_word(depth)
        block, brace = self._block(depth)
        trouble = wording.Trouble(
            found, str(self.last) if self.last else "", first, block, accepts, fitting, complete
        )

        if self._block_left_open(at, found, begins, first, depth, block, brace):
            return True
        if not found:
            self._report_end(trouble, block, brace)
            return False
        if complete and not first and self._block_closed_early(at, found):
            return True
        if (
            "COMMA" in accepts
            and found not in fitting
            and not self._starts_line(at)
            and self._follows_comma(found)
        ):
            self._report(
                self._span(at, found),
                f"expected `,` between `{wording.shown(trouble.before)}` and `{wording.shown(found)}`",
                "",
                "the parts of a list are separated by commas",
            )
            self._feed("COMMA", ",", at, at)
            return self._resume(at)
        if "OPS" in accepts:
            return self._recover_operation(at, trouble)
        message, help = wording.explain(trouble)
        if (
            block == "file"
            and complete
            and found == "}"
            and (run := re.compile(r"\}(?:\s*\})+").match(self.text, at))
        ):
            more = run.group().count("}") - 1
            self._report(
                self._span(at, found),
                f"{message}, and so {f'do the {more:,}' if more > 1 else 'does the one'} after it",
                "",
                help,
            )
            return self._resume(run.end())
        self._report(self._place(at, found, complete), message, "", help)

        header = "" if complete else wording.header(block, first)
        if (
            header
            and "\n" not in self.text[begins:at]
            and (opens := re.compile(r'[^\n{}#"]*\{').match(self.text, at))
        ):
            self._cut(depth)
            self._feed_words(header, at)
            return self._resume(opens.end())
        if header and "LBRACE" in accepts and found[0].isalpha():
            self._feed("LBRACE", "{", at, at)
            return self._resume(at)
        if complete:
            if first:
                self._finish_statement(accepts)
            return self._skip(at, at, found)
        self._cut(depth)
        return (
            self._resume(at)
            if found == "}" and at != self.resumed
            else self._skip(at, begins if begins >= 0 else at, found)
        )

    def _follows_comma(self, found: str) -> bool:
        """Whether the word would fit behind a comma."""
        from lark.lexer import Token

        quoted = len(found) > 1 and found[0] == '"'
        kind = (
            "NAME" if found.isidentifier() else "NUMBER" if found.isdecimal() else "STRING" if quoted else ""
        )
        trial = self.interactive.copy(deepcopy_values=False)
        trial.parser_state.parse_conf = copy(self.state.parse_conf)
        trial.parser_state.parse_conf.callbacks = {}
        trial.feed_token(Token("COMMA", ","))
        return kind in trial.accepts()

    def _block_left_open(
        self, at: int, found: str, begins: int, first: str, depth: int, block: str, brace: int
    ) -> bool:
        """A line that begins with a statement of an outer block: this one was not closed. Goes on in the outer one."""
        if found == "else" and block == "if":
            self._report(
                Span(self.base + brace, 1),
                "the `{` of `if` is never closed",
                "opened here",
                "close it with `}` before `else`",
            )
            if "RBRACE" not in self.interactive.accepts():
                self._cut(depth)
            self._feed("RBRACE", "}", at, at)
            return self._resume(at)
        for word, place in ((found, at), (first, begins)):
            if (
                place <= self.resumed
                or word in wording.STATEMENTS.get(block, {})
                or not self._starts_line(place)
            ):
                continue
            if outer := self._outer(depth, word):
                self._report(
                    Span(self.base + brace, 1),
                    f"the `{{` of `{block}` is never closed",
                    "opened here",
                    f"close it with `}}` before `{word}`",
                )
                self._cut(outer)
                return self._resume(place)
        return False

    def _block_closed_early(self, at: int, found: str) -> bool:
        """A statement of the block that was just closed: there is a brace too many. Goes on as if it were still open."""
        value = self.state.value_stack[-1] if self.state.value_stack else None
        node = value.children[-1] if getattr(value, "children", None) else None
        block = node.form if isinstance(node, ast.Order) else _BLOCKS.get(type(node), "")
        operation = block in ("order", "trace") and found[0].isdigit()
        region = block == "cut" and re.compile(r"\w+[ \t]*=").match(self.text, at)
        if not (found in wording.STATEMENTS.get(block, {}) or operation or region):
            return False
        self._report(
            self._span(at, found),
            f"`{wording.shown(found)}` stands behind the end of `{block}`",
            "",
            "a brace before it closes too much: delete it",
        )
        value.children.pop()
        self._feed_words(wording.header(*_HOMES[block]) + (" rank 0 :" if operation else ""), at)
        return self._resume(at)

    def _recover_operation(self, at: int, trouble) -> bool:
        bad = re.compile(r"[^\s{}()#]+(?:\([^(){}\n]*\))?|.").match(self.text, at).group()
        message, help = (
            wording.explain(trouble)
            if trouble.found in ("...", ";", '"') or not trouble.found.isascii() or bad[0] in ")]"
            else (
                f"`{wording.shown(bad)}` is no operation",
                "operations are written `0F3`, `1SEND_F0@seam`, `0REDUCE`, `send(1, a0)`, `step`, `{ .. }`, `0F0..3`",
            )
        )
        self._report(self._span(at, bad), message, "", help)
        return len(self.errors) < MAX_ERRORS and self._resume(at + len(bad))

    def _finish_statement(self, accepts) -> None:
        """Reduces the complete statement on the stack, by the token that may follow it."""
        closing = "RBRACE" if "RBRACE" in accepts else "SCHEDULE"
        self._feed(closing, "", 0, 0)
        self.state.state_stack.pop()
        self.state.value_stack.pop()

    def _feed_words(self, words: str, at: int) -> None:
        """Feeds a header of wording.py as if it stood at `at`."""
        skeleton = words.startswith("skeleton")
        for text in words.split():
            kind = self.keywords.get(text) or _SIGNS.get(text) or ("SKELETON_NAME" if skeleton else "NAME")
            self._feed(kind, text, at, at)

    def _cut(self, depth: int) -> None:
        del self.state.state_stack[depth:]
        del self.state.value_stack[depth - 1 :]

    def _feed(self, kind: str, text: str, at: int, end: int) -> None:
        from lark.lexer import Token

        self.last = token = Token(kind, text, at, end_pos=end)
        self.state.feed_token(token)

    def _skip(self, at: int, begins: int, found: str) -> bool:
        """Goes on where the next statement of the block can begin: at a line no deeper than this one, at a keyword, at its `}`."""
        accepts = self.interactive.accepts()
        here = {w for w, t in self.keywords.items() if t in accepts} | set(
            wording.PROPERTIES if "PROPERTY" in accepts else ()
        )
        margin = self._column(begins)
        if (
            at > begins
            and at != self.resumed
            and (found in here or self._starts_line(at) and self._column(at) <= margin)
        ):
            return self._resume(at)
        depth = 0
        for match in _SKIPPED.finditer(self.text, at + (len(found) if found not in "{}()[]" else 0)):
            sign = match.group()
            if sign == "{":
                depth += 1
            elif sign == "}":
                if depth == 0 and match.start() > at:
                    return self._resume(match.start())
                depth = max(depth - 1, 0)
            elif depth == 0 and sign in here:
                return self._resume(match.start())
            elif (
                depth == 0
                and sign[0] == "\n"
                and len(sign) - 1 <= margin
                and self.text[match.end() : match.end() + 1] not in ("", "\n", "#", "}")
            ):
                return self._resume(match.end())
        return self._resume(len(self.text))

    def _resume(self, at: int) -> bool:
        self.resumed = at
        self.lexer.state.line_ctr.char_pos = at
        return True

    # ---- places ---------------------------------------------------------------------------------

    def _column(self, at: int) -> int:
        """Indentation of the line that `at` is on."""
        start = self.text.rfind("\n", 0, at) + 1
        return re.compile(r"[ \t]*").match(self.text, start).end() - start

    def _starts_line(self, at: int) -> bool:
        return not self.text[self.text.rfind("\n", 0, at) + 1 : at].strip()

    def _span(self, at: int, found: str) -> Span:
        return Span(self.base + at, max(len(found), 1))

    def _place(self, at: int, found: str, complete: bool) -> Span:
        """The word itself, or, where something is missing at the end of a line, the place behind that."""
        if not complete and self.last is not None and "\n" in self.text[self.last.end_pos : at]:
            return Span(self.base + self.last.end_pos, 1)
        return self._span(at, found)

    def _report(self, span: Span, message: str, label: str, help: str) -> None:
        self.errors.append(Finding.of_input("IL101", message, (Mark(span, label),), help))

    def _report_end(self, trouble, block: str, brace: int) -> None:
        if trouble.complete and brace >= 0:
            self._report(
                Span(self.base + brace, 1),
                f"the `{{` of `{block}` is never closed",
                "opened here",
                "close it with `}`",
            )
        else:
            message, help = wording.explain(trouble)
            self._report(
                Span(self.base + (self.last.end_pos if self.last is not None else 0), 1), message, "", help
            )
