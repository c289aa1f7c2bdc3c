"""The stored parse table against the one that lark computes, and the automaton against lark's own parser."""

import json

import pytest

from interlock.language import parse_table
from interlock.language.automaton import Automaton, Misfit, Token
from interlock.language.parse_table import build_table, load_table, table_to_json
from interlock.text.resources import find_folder, read_text

GRAMMAR = read_text(parse_table.GRAMMAR)


@pytest.fixture
def loaded_anew():
    load_table.cache_clear()
    yield
    load_table.cache_clear()


def test_the_stored_table_is_that_of_the_grammar():
    assert read_text(parse_table.STORED) == table_to_json(GRAMMAR), (
        "the grammar has changed: python -m interlock.language.parse_table"
    )


def test_what_is_stored_is_what_lark_computes():
    assert load_table() == build_table(GRAMMAR)


@pytest.mark.parametrize("stored", [None, "{", json.dumps({"grammar": 0})], ids=["missing", "torn", "stale"])
def test_another_table_is_not_used(stored, loaded_anew, tmp_path, monkeypatch):
    (tmp_path / "grammar").mkdir()
    (tmp_path / parse_table.GRAMMAR).write_text(GRAMMAR, encoding="utf-8")
    if stored is not None:
        (tmp_path / parse_table.STORED).write_text(stored, encoding="utf-8")
    monkeypatch.setattr("interlock.text.resources.find_folder", lambda: tmp_path)
    assert load_table() == build_table(GRAMMAR)


def test_the_table_is_written_where_the_grammar_is(tmp_path, monkeypatch):
    (tmp_path / "grammar").mkdir()
    monkeypatch.setattr(parse_table, "find_folder", lambda: tmp_path)
    parse_table.main()
    assert (tmp_path / parse_table.STORED).read_bytes() == (find_folder() / parse_table.STORED).read_bytes()


class Shapes:
    """A builder that keeps the name of every rule beside its parts."""

    def __getattr__(self, rule):
        if rule.startswith("_"):
            raise AttributeError(rule)
        return lambda parts: (rule, *parts)


def test_a_token_that_does_not_fit():
    automaton = Automaton(Shapes(), "schedule 7")
    automaton.feed(automaton.read())
    assert automaton.read() is None and automaton.position == len("schedule ")
    assert (
        automaton.accepts() == {"NAME"}
        and not automaton.fits("NUMBER")
        and not automaton.fits("NAME", "NAME")
    )
    for feed in (lambda: automaton.feed(Token("NUMBER", "7", 9, 10)), automaton.finish):
        with pytest.raises(Misfit):
            feed()
