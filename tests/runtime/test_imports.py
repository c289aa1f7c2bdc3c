"""torch is imported where plans run and where modules are measured, and by nothing that lowers."""

import ast
import subprocess
import sys

from ..command import ROOT

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
        capture_output=True,
        text=True,
        timeout=60,
        env={"PYTHONPATH": str(ROOT / "checker")},
    )
    assert done.returncode == 0 and '"format": "interlock.plan/1"' in done.stdout, done.stderr
