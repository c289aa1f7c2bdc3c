"""`interlock check --emit smt2`: what a solver is asked, with the answer that the rules and the graph engine
give.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from command import ROOT, interlock
from emitted import queries_of
from interlock.engine.smt import live
from interlock.engine.smt.z3_solver import decide_text
from interlock.load import Question

LARGE = ("dense_llm", "moe_mtp")  # more operations than a solver decides in seconds
EXAMPLES = sorted(
    p for p in (ROOT / "examples").iterdir() if p.suffix in (".sched", ".csv") and p.stem not in LARGE
)
FREEZING = """schedule vlm {
  ranks 2
  microbatches 3
  model {
    layers vit[2] { activation 1MiB  output 1MiB  weights 3MiB }
    layers llm[4] { activation 3MiB  until_weight 1MiB  output 1MiB  weights 10MiB }
  }
  cut {
    encoder  = vit : transpose
    backbone = llm : 1f1b
  }
  memory { capacity 1GiB  optimizer 1.5 per weight byte }
  for any freezing of vit, llm
  require { peak <= 900MiB }
}
"""


def status(text: str) -> list[str]:
    return re.findall(r"^\(set-info :status (\w+)\)$", text, re.M)


def emitted(text: str) -> dict[str, str]:
    return {q.name: q.text for q in queries_of("a.sched", text.encode())}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.name)
def test_the_stated_answer_is_given(path):
    found = list(queries_of(str(path), path.read_bytes()))
    assert {q.name.split(".")[1].split("-")[0] for q in found} >= {"dep", "foot"}
    for query in found:
        assert status(query.text) == decide_text(query.text), query.name


def test_what_a_freezing_is_asked():
    found = emitted(FREEZING)
    assert list(found) == ["vlm.dep-pair", "vlm.foot", "vlm.mem", "vlm.invariance", "vlm.owners"]
    assert {n: status(t) for n, t in found.items()} == {n: ["sat" if "dep" in n else "unsat"] for n in found}
    for text in found.values():
        assert text.startswith("; a.sched, schedule vlm: ") and decide_text(text) == status(text)
    for group in ("dep", "foot", "mem", "size"):
        assert (
            f"\n; {group}: " in found["vlm.invariance"] and f"\n; group {group}\n" in found["vlm.invariance"]
        )
    assert "(declare-fun owner (Int) Int)" in found["vlm.owners"]
    over = emitted(FREEZING.replace("900MiB", "60MiB"))
    assert status(over["vlm.mem"]) == decide_text(over["vlm.mem"]) == ["sat"]


def test_models_that_are_asked():
    text = (ROOT / "examples" / "deadlock.sched").read_bytes()
    names = [q.name for q in queries_of("a.sched", text, Question(models=("edge",)))]
    assert len([n for n in names if ".dep-" in n]) == len(set(names)) - 1 >= 1


def test_a_query_that_is_too_large_says_so(monkeypatch):
    monkeypatch.setattr(live, "MAX_ROWS", 5)
    found = emitted(FREEZING)
    assert "; not written: " in found["vlm.mem"] and "(check-sat)" not in found["vlm.mem"]
    assert "(check-sat)" in found["vlm.dep-pair"]


def test_the_command(tmp_path):
    (tmp_path / "a.sched").write_text(FREEZING, encoding="utf-8")
    done = interlock("check", "a.sched", "--emit", "smt2", cwd=tmp_path)
    assert (done.code, done.err) == (0, "") and done.out.count("(reset)") == 4
    assert decide_text(done.out) == ["sat", "unsat", "unsat", "unsat", "unsat"]
    done = interlock("check", "a.sched", "--emit", "smt2", "-o", "out", cwd=tmp_path)
    assert done.code == 0 and done.out.splitlines()[0] == f"wrote {Path('out') / 'a.vlm.dep-pair.smt2'}"
    assert len(list((tmp_path / "out").glob("a.vlm.*.smt2"))) == 5


def test_the_command_with_wrong_input(tmp_path):
    (tmp_path / "a.sched").write_text("schedule x { ranks }\n", encoding="utf-8")
    done = interlock("check", "a.sched", "--emit", "smt2", cwd=tmp_path)
    assert done.code == 2 and done.out == "" and "error[IL101]" in done.err
    done = interlock("check", "a.sched", "-o", "out", cwd=tmp_path)
    assert done.code == 2 and "-o is for --emit" in done.err
