"""The queries of a text, as `interlock check --emit smt2` writes them."""

from __future__ import annotations

from interlock.check.queries import Text, queries
from interlock.load import Question, load


def queries_of(path: str, data: bytes, question: Question = Question()) -> list[Text]:
    loaded = load(path, data, question)
    assert not loaded.errors, loaded.errors
    return [query for case in loaded.cases for query in queries(case)]
