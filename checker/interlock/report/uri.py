"""Paths as other programs want them: relative to the folder Interlock runs in, with forward slashes, as
URIs where asked.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path, PurePath
from urllib.parse import quote


def relative(path: str) -> str:
    """The path from the current folder, with forward slashes; one that lies elsewhere as it is."""
    if os.path.isabs(path):
        with contextlib.suppress(ValueError, OSError):
            path = str(PurePath(path).relative_to(Path.cwd()))
    return os.path.normpath(path).replace(os.sep, "/")


def uri(path: str) -> str:
    """A relative reference, percent-encoded (RFC 3986); `file:` for a path outside the current folder."""
    path = relative(path)
    encoded = quote(os.fsencode(path), safe="/-._~")
    return (
        f"file://{encoded if encoded.startswith('/') else f'/{encoded}'}" if os.path.isabs(path) else encoded
    )
