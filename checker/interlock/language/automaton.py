"""The automaton of the parse table over one text: a stack of states, fed with one token after the other."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from interlock.language.parse_table import END, ParseTable, Rule, load_table

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Misfit(Exception):
    """A token that cannot stand where it was fed."""


class Token(str):
    """A word of a text with the name of its terminal; its place is counted from the beginning of the text."""

    __slots__ = ("end_pos", "start_pos", "type")

    type: str
    start_pos: int
    end_pos: int

    def __new__(cls, terminal: str, text: str, start: int, end: int) -> Token:
        token = super().__new__(cls, text)
        token.type, token.start_pos, token.end_pos = terminal, start, end
        return token


@cache
def _compile(pattern: str) -> Callable[[str, int], re.Match[str] | None]:
    return re.compile(pattern).match


class Automaton:
    """`values[i]` is what was read between `states[i]` and `states[i + 1]`: a token, what the builder made of
    a rule,
    or, of a rule whose parts become parts of the rule around it, the list of them.

    builder: its methods, by the names of the rules, make a value of the list of a rule's parts.
    position: of the text, where the next token is looked for.
    """

    def __init__(self, builder: object, text: str):
        self.table: ParseTable = load_table()
        self.text, self.position = text, 0
        self.states = [0]
        self.values: list[object] = []
        self._builder = builder
        self._skip = _compile(self.table.skipped)
        self._patterns: dict[int, list[tuple[str, Callable[[str, int], re.Match[str] | None]]]] = {}

    # ---- tokens -----------------------------------------------------------------------------------

    def read(self) -> Token | None:
        """The next token of a kind that the state knows; END at the end of the text, None where there is no
        such token.
        """
        skipped = self._skip(self.text, self.position)
        at = self.position = skipped.end() if skipped else self.position
        if at == len(self.text):
            return Token(END, "", at, at)
        state = self.states[-1]
        word = _WORD.match(self.text, at)
        if word and (terminal := self.table.keywords.get(word[0])) in self.table.actions[state]:
            return self._token(terminal, word)
        for terminal, match in self._patterns_of(state):
            if found := match(self.text, at):
                return self._token(terminal, found)
        return None

    def _token(self, terminal: str, match: re.Match[str]) -> Token:
        self.position = match.end()
        return Token(terminal, match[0], match.start(), match.end())

    def _patterns_of(self, state: int) -> list[tuple[str, Callable[[str, int], re.Match[str] | None]]]:
        if state not in self._patterns:
            actions = self.table.actions[state]
            self._patterns[state] = [(t, _compile(p)) for t, p in self.table.terminals if t in actions]
        return self._patterns[state]

    # ---- states -----------------------------------------------------------------------------------

    def shifts(self, state: int, terminal: str) -> bool:
        """Whether a token of this kind is read in the state, with nothing to be reduced before it."""
        return self.table.actions[state].get(terminal, -1) >= 0

    def fits(self, *terminals: str) -> bool:
        """Whether tokens of these kinds can be fed next, one after the other. Changes nothing."""
        states = self.states
        for terminal in terminals:
            after = self._states_after(states, terminal)
            if after is None:
                return False
            states = after
        return True

    def accepts(self) -> frozenset[str]:
        """The kinds of token that can be fed next; END is none of them."""
        return frozenset(t for t in self.table.actions[self.states[-1]] if t != END and self.fits(t))

    def _states_after(self, states: list[int], terminal: str) -> list[int] | None:
        actions, gotos, rules = self.table.actions, self.table.gotos, self.table.rules
        action = actions[states[-1]].get(terminal)
        if action is None:
            return None
        states = states[:]
        while action < 0:
            rule = rules[~action]
            if rule.length:
                del states[-rule.length :]
            states.append(gotos[states[-1]][rule.nonterminal])
            if terminal == END and states[-1] == self.table.end:
                return states
            action = actions[states[-1]].get(terminal)
            if action is None:
                return None
        states.append(action)
        return states

    def feed(self, token: Token) -> None:
        """Reduces what is complete before the token, and shifts it. Raises Misfit."""
        actions = self.table.actions
        while True:
            action = actions[self.states[-1]].get(token.type)
            if action is None:
                raise Misfit
            if action >= 0:
                self.states.append(action)
                self.values.append(token)
                return
            self._reduce(self.table.rules[~action])

    def finish(self) -> object:
        """What the builder made of the whole text. Raises Misfit where that is not complete."""
        while self.states[-1] != self.table.end:
            action = self.table.actions[self.states[-1]].get(END, 0)
            if action >= 0:
                raise Misfit
            self._reduce(self.table.rules[~action])
        return self.values[-1]

    def _reduce(self, rule: Rule) -> None:
        depth = len(self.values) - rule.length
        parts = self.values[depth:]
        del self.values[depth:], self.states[depth + 1 :]
        if rule.spliced:
            parts = _splice(parts, rule.spliced)
        self.values.append(getattr(self._builder, rule.callback)(parts) if rule.callback else parts)
        self.states.append(self.table.gotos[self.states[-1]][rule.nonterminal])


def _splice(parts: list, spliced: tuple[int, ...]) -> list:
    """The parts, with those at the places `spliced`, which are lists, taken apart; a list at the beginning is
    extended,
    not copied, so that a long list read from left to right takes linear time."""
    if spliced[0] == 0:
        result, rest = parts[0], 1
    else:
        result, rest = [], 0
    for n in range(rest, len(parts)):
        if n in spliced:
            result.extend(parts[n])
        else:
            result.append(parts[n])
    return result
