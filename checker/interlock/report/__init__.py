"""Renderers of what was checked, one module a format; outcome.py says what counts and which exit code follows."""

from .outcome import exit_code
from .style import use_color

__all__ = ["exit_code", "use_color"]
