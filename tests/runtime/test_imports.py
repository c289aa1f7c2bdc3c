"""torch is imported where plans run and where modules are measured, and by nothing that lowers."""

import ast
import subprocess
import sys

from command import ROOT

CHECKER = ROOT / "checker" / "interlock"


def test_torch_is_imported_where_it_runs():
    found = set()
    for path in CHECKER.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = (
                [a.name for a in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom) and not node.level
                else []
            )
            if any(n.split(".")[0] in ("torch", "torch_npu", "hyper_parallel") for n in names):
                found.add(
                    path.relative_to(CHECKER).as_posix()
                    if path.parent.name == "profile"
                    else path.relative_to(CHECKER).parts[0]
                )
    assert found == {"runtime", "profile/measure.py"}


def test_lowering_needs_no_torch():
    code = (
        "import sys; sys.modules['torch'] = None\nfrom interlock.cli import main\n"
        f"raise SystemExit(main(['lower', r'{ROOT / 'examples' / 'vlm.sched'}', '--to', 'torch']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env={"PYTHONPATH": str(ROOT / "checker")},
    )
    assert done.returncode == 0 and '"format": "interlock.plan/1"' in done.stdout, done.stderr


def test_an_emulation_without_torch_says_what_to_install(tmp_path):
    path = tmp_path / "s.sched"
    path.write_text(
        "schedule s { ranks 2 microbatches 2 cut { all = u : 1f1b }"
        " model { layers u[2] { forward 1ms backward 1ms output 8B } } }"
    )
    code = (
        "import sys; sys.modules['torch'] = None\nfrom interlock.cli import main\n"
        f"raise SystemExit(main(['run', r'{path}', '--emulate']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env={"PYTHONPATH": str(ROOT / "checker")},
    )
    expected = "interlock: the emulation: PyTorch is not installed: `pip install torch` installs it\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", expected)
