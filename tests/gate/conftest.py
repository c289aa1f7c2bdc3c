"""A scratch folder, and the command line run in it."""

from __future__ import annotations

import pytest

from gate.scratch import Result
from interlock import cli


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Writes files by name and runs the command line in this process: `run(*args, {name: text})`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("INTERLOCK_OUTPUT_FORMAT", raising=False)

    def go(*args) -> Result:
        for files in (a for a in args if isinstance(a, dict)):
            for name, text in files.items():
                (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / name).write_text(text, encoding="utf-8")
        try:
            code = cli.main([str(a) for a in args if not isinstance(a, dict)])
        except SystemExit as stopped:
            code = stopped.code
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return go
