"""Files that belong to the project but are no Python: `grammar/` and `spec/`, in a wheel and in a checkout
alike.
"""

from __future__ import annotations

from pathlib import Path


def find_folder() -> Path:
    """The folder that holds `grammar/` and `spec/`: package data of a wheel, the repository's root in a
    checkout.
    """
    packed = Path(__file__).parents[1] / "_data"
    return packed if packed.is_dir() else Path(__file__).parents[3]


def read_text(name: str) -> str:
    """The text of a file by its path from there, such as `grammar/sched.lark`. Raises FileNotFoundError."""
    return (find_folder() / name).read_text(encoding="utf-8")
