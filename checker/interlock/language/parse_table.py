"""The LALR(1) table of `grammar/sched.lark`: the one module that knows lark, which computes the table from
the grammar.

That takes half a second, so the table is kept in `grammar/sched.table.json`; one that belongs to another text
of the
grammar is not used. After a change of the grammar: `python -m interlock.language.parse_table`.
"""

from __future__ import annotations

import json
import zlib
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

from interlock.text.resources import find_folder, read_text

GRAMMAR = "grammar/sched.lark"
STORED = "grammar/sched.table.json"
END = "$END"  # the terminal behind the last token of a text
_WORD_END = "(?![A-Za-z0-9_])"


class Rule(NamedTuple):
    """A rule as the automaton reduces by it.

    callback: the name of the rule, "" for one whose parts become parts of the rule around it.
    spliced: which of its `length` parts are such lists of parts.
    """

    nonterminal: int
    length: int
    callback: str
    spliced: tuple[int, ...]


class ParseTable(NamedTuple):
    """`actions[state][terminal]` is the state to shift to, or `~rule` to reduce by;
    `gotos[state][nonterminal]` a state.

    State 0 is the first; `end` is the state in which a whole text has been read. keywords: word -> terminal.
    terminals: (name, regular expression) of the others, where several match the first is meant.
    skipped: the regular expression of what stands between tokens.
    """

    keywords: dict[str, str]
    terminals: list[tuple[str, str]]
    skipped: str
    rules: list[Rule]
    actions: list[dict[str, int]]
    gotos: list[dict[int, int]]
    end: int


@cache
def load_table() -> ParseTable:
    """The table of the grammar: as stored, where that is of this grammar, else computed."""
    grammar = read_text(GRAMMAR)
    try:
        stored = json.loads(read_text(STORED))
    except (FileNotFoundError, ValueError):
        return build_table(grammar)
    return _from_json(stored) if stored["grammar"] == _fingerprint(grammar) else build_table(grammar)


def _fingerprint(grammar: str) -> int:
    return zlib.crc32(grammar.encode())


# ---- the stored table ---------------------------------------------------------------------------------


def _from_json(stored: dict[str, Any]) -> ParseTable:
    names = stored["names"]
    return ParseTable(
        stored["keywords"],
        [(name, pattern) for name, pattern in stored["terminals"]],
        stored["skipped"],
        [
            Rule(origin, length, callback, tuple(spliced))
            for origin, length, callback, spliced in stored["rules"]
        ],
        [dict(zip([names[t] for t in row[::2]], row[1::2])) for row in stored["actions"]],
        [dict(zip(row[::2], row[1::2])) for row in stored["gotos"]],
        stored["end"],
    )


def table_to_json(grammar: str) -> str:
    """The text of the stored table for a grammar, the same in every run; a state takes one line."""
    table = build_table(grammar)
    names = sorted({terminal for row in table.actions for terminal in row})
    number = {name: n for n, name in enumerate(names)}
    document = {
        "grammar": _fingerprint(grammar),
        "keywords": table.keywords,
        "terminals": table.terminals,
        "skipped": table.skipped,
        "rules": table.rules,
        "names": names,
        "actions": [
            list(chain(*((number[t], action) for t, action in row.items()))) for row in table.actions
        ],
        "gotos": [list(chain(*row.items())) for row in table.gotos],
        "end": table.end,
    }
    return "{\n" + ",\n".join(f'"{key}": {_lines(value)}' for key, value in document.items()) + "\n}\n"


def _lines(value: object) -> str:
    if not isinstance(value, list) or not isinstance(value[0], list | tuple):
        return json.dumps(value)
    return "[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in value) + "\n]"


# ---- computed by lark ---------------------------------------------------------------------------------


def build_table(grammar: str) -> ParseTable:
    """The table that lark computes, its states and rules numbered in an order that depends on the grammar
    alone.
    """
    from lark import Lark
    from lark.lexer import PatternRE

    keywords: dict[str, str] = {}

    def match_whole_words(terminal: Any) -> None:
        text = terminal.pattern.value
        if terminal.pattern.type == "str" and text.isidentifier():
            keywords[text] = terminal.name
            terminal.pattern, terminal.priority = PatternRE(text + _WORD_END), 2
        elif terminal.name == "PROPERTY":
            terminal.pattern = PatternRE(f"(?:{text}){_WORD_END}")

    parser: Any = Lark(
        grammar,
        parser="lalr",
        lexer="contextual",
        keep_all_tokens=True,
        maybe_placeholders=False,
        edit_terminals=match_whole_words,
    )
    lalr = parser.parser.parser._parse_table
    lexer = parser.parser.lexer.root_lexer
    return ParseTable(
        dict(sorted(keywords.items())),
        [
            (t.name, t.pattern.to_regexp())
            for t in lexer.terminals
            if t.name not in lexer.ignore_types and t.name not in keywords.values()
        ],
        f"(?:{'|'.join(t.pattern.to_regexp() for t in lexer.terminals if t.name in lexer.ignore_types)})*",
        *_number(lalr),
    )


def _number(lalr: Any) -> tuple[list[Rule], list[dict[str, int]], list[dict[int, int]], int]:
    """Rules, actions, gotos and end of lark's table, whose own numbers differ from run to run."""
    [start], [end] = lalr.start_states.values(), lalr.end_states.values()
    order = _reachable(lalr.states, start)
    number = {state: n for n, state in enumerate(order)}
    found = {arg for row in lalr.states.values() for action, arg in row.values() if action.name == "Reduce"}
    rules = sorted(
        found, key=lambda rule: (rule.origin.name, [s.name for s in rule.expansion], rule.alias or "")
    )
    rule_number = {rule: n for n, rule in enumerate(rules)}
    nonterminals = {name: n for n, name in enumerate(sorted({rule.origin.name for rule in rules}))}
    actions: list[dict[str, int]] = []
    gotos: list[dict[int, int]] = []
    for state in order:
        row = sorted(lalr.states[state].items())
        actions.append(
            {
                symbol: number[arg] if action.name == "Shift" else ~rule_number[arg]
                for symbol, (action, arg) in row
                if symbol not in nonterminals
            }
        )
        gotos.append({nonterminals[s]: number[arg] for s, (_, arg) in row if s in nonterminals})
    return [_rule(rule, nonterminals) for rule in rules], actions, gotos, number[end]


def _rule(rule: Any, nonterminals: dict[str, int]) -> Rule:
    origin, parts = rule.origin.name, [symbol.name for symbol in rule.expansion]
    return Rule(
        nonterminals[origin],
        len(parts),
        "" if origin.startswith("_") else rule.alias or str(origin),
        tuple(n for n, part in enumerate(parts) if part in nonterminals and part.startswith("_")),
    )


def _reachable(states: dict[int, dict[str, tuple[Any, Any]]], start: int) -> list[int]:
    """The states in the order in which a search by symbols from the first one meets them."""
    order, seen = [start], {start}
    for state in order:
        for _, (action, target) in sorted(states[state].items()):
            if action.name == "Shift" and target not in seen:
                seen.add(target)
                order.append(target)
    return order


def main() -> None:
    """Computes the table anew and stores it."""
    (find_folder() / STORED).write_text(table_to_json(read_text(GRAMMAR)), encoding="utf-8")


if __name__ == "__main__":
    main()
