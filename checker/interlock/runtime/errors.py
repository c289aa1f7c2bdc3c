"""What ends a run."""

from __future__ import annotations


class RunError(RuntimeError):
    """A step that cannot end, on every rank: what failed, where, and where each rank is.

    `code`: IL846 to IL849.
    """

    def __init__(self, code: str, message: str):
        super().__init__(f"{message} [{code}]")
        self.code = code
