"""The SMT-LIB files of proofs/smt: as generated, decided by both solvers, and not for want of a model."""

import importlib.util
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from interlock.engine.smt import cvc5_solver, z3_solver

FOLDER = Path(__file__).parents[2] / "proofs" / "smt"


def load(name: str):
    spec = importlib.util.spec_from_file_location(f"proofs_smt_{name}", FOLDER / f"{name}.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generate, decide = load("generate"), load("decide")
each = pytest.mark.parametrize("file", generate.build_files(), ids=lambda f: f.name)


def test_every_file_is_generated():
    assert {p.name for p in FOLDER.glob("*.smt2")} == {f.name for f in generate.build_files()}


@each
def test_committed_as_generated(file):
    assert (FOLDER / file.name).read_text(encoding="utf-8") == generate.write_text(file), (
        "run proofs/smt/generate.py"
    )


@each
def test_decided_by_both(file):
    if not cvc5_solver.is_installed():
        pytest.skip("cvc5 is not installed")
    row, good = decide.decide(FOLDER / file.name)
    assert good, row
    assert row.count(f"unsat x {len(file.lemmas)}") == 2 and file.theorem.split(",")[0] in row


@each
def test_what_is_assumed_can_hold(file):
    """Without its goal each part has a model."""
    assert z3_solver.decide_text(generate.write_text(file, goals=False), 5_000) == ["sat"] * len(file.lemmas)


@pytest.mark.parametrize(
    "name, old, new",
    [
        (
            "t3-footprint.smt2",
            "(define-fun wanted.2a () Bool (or weight.2a wanted.1))",
            "(define-fun wanted.2a () Bool weight.2a)",
        ),
        (
            "t3-refinement.smt2",
            "(define-fun slab.2 () Bool (or slab.1b trained.1c))",
            "(define-fun slab.2 () Bool (or slab.1 trained.1c))",
        ),
        (
            "t4-invariance.smt2",
            "(define-fun has.SEND_B.3 () Bool (or trained.1 trained.2))",
            "(define-fun has.SEND_B.3 () Bool (or trained.1 trained.2 trained.3))",
        ),
        ("t6-memory.smt2", "(ite (not g) 0", "(ite g 0"),
        (
            "t8-owner-maps.smt2",
            "(define-fun hand_over ((m Int)) Int (+ M m))",
            "(define-fun hand_over ((m Int)) Int m)",
        ),
        ("t4-invariance-any.smt2", "(ite (there i) 1 0)", "(ite (there i) 0 1)"),
        ("t3-footprint-any.smt2", "(and (<= 1 j) (<= j n)", "(and (<= 1 j) (< j n)"),
    ],
)
def test_a_wrong_statement_is_not_proved(tmp_path, name, old, new):
    text = (FOLDER / name).read_text(encoding="utf-8")
    assert old in text
    wrong = text.replace(old, new)
    assert set(z3_solver.decide_text(wrong, 2_000)) != {"unsat"}
    if cvc5_solver.is_installed():
        (tmp_path / name).write_text(wrong, encoding="utf-8")
        assert not decide.decide(tmp_path / name)[1]


def test_the_command_fails_if_a_query_is_not_unsat(tmp_path):
    if not cvc5_solver.is_installed():
        pytest.skip("cvc5 is not installed")
    fine = generate.write_text(
        replace(generate.build_files()[0], lemmas=generate.build_files()[0].lemmas[:1])
    )
    for text, code in (
        (fine, 0),
        (fine.replace("(assert (not", "(assert (or true"), 1),
        ("; T3, nothing\n", 1),
        ("; T3, wrong\n(check-sat", 1),
    ):
        (tmp_path / "a.smt2").write_text(text, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, FOLDER / "decide.py", tmp_path / "a.smt2"],
            capture_output=True,
            text=True,
            env={"PYTHONPATH": str(FOLDER.parents[1] / "checker"), "PATH": ""},
            timeout=60,
            check=False,
        )
        assert done.returncode == code, (text[:40], done.stdout, done.stderr)
        assert "a.smt2" in done.stdout
