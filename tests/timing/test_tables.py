"""The published tables that benchmarks/tables.py prints; the quick ones here, the whole by --thorough."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "benchmarks" / "tables.py"


@pytest.fixture(scope="module")
def tables():
    spec = importlib.util.spec_from_file_location("tables", FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["tables"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["tables"]


@pytest.fixture(scope="module")
def published(tables):
    return json.loads(tables.PUBLISHED.read_text())


def agree(lines) -> int:
    lines = list(lines)
    assert [l for l in lines if l.must and not l.agrees] == []
    return sum(l.must and l.published is not None for l in lines)


def test_zero_bubble(tables, published, request):
    rows = slice(None) if request.config.getoption("--thorough") else slice(0, 3)
    data = dict(published["zero_bubble"])
    for key in ("bubble_table5", "inputs_table9", "bubble_table8", "chunk_inputs_table8_us"):
        data[key] = data[key][rows]
    assert agree(tables.zero_bubble({"zero_bubble": data})) == 4 * (
        len(data["bubble_table5"]) + len(data["bubble_table8"])
    )


def test_dualpipe(tables, published):
    assert agree(tables.dualpipe(published)) == 4


def test_nemotron(tables, published):
    assert agree(tables.nemotron(published)) == 5


def test_v_min(tables, published):
    published = {"controllable_memory": {"finite": published["controllable_memory"]["finite"][:2]}}
    assert agree(tables.controllable_memory(published)) == 6


def test_transpose(tables, published):
    assert agree(tables.transpose(published)) >= 3


def test_a_difference_is_a_failure(tables, published, tmp_path, monkeypatch, capsys):
    wrong = json.loads(json.dumps(published))
    wrong["dualpipe"]["total"] = 67
    (tmp_path / "t.json").write_text(json.dumps(wrong))
    monkeypatch.setattr(tables, "TABLES", (tables.dualpipe,))
    monkeypatch.setattr(sys, "argv", ["tables.py", "--tables", str(tmp_path / "t.json")])
    assert tables.main() == 1 and "DIFFERS" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["tables.py"])
    assert tables.main() == 0
