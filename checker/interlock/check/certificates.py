"""Certificate files: one JSON document a file, written whole or not at all."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from interlock.text.files import write_whole

LARGEST_FILE = 1 << 30


def read(path: Path):
    """The document of a file. Raises ValueError for what is no JSON, and OSError."""
    if path.stat().st_size > LARGEST_FILE:
        raise ValueError("larger than 1 GiB")
    try:
        return json.loads(path.read_bytes())
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"no certificate: {error}") from None


def write(folder: Path, results) -> list[Path]:
    """Writes the certificates of every answer: FILE.SCHEDULE.MODEL.cert, with a number where an answer has several."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for result in results:
        for checked in result.checked:
            for answer in checked.answers:
                for number, document in enumerate(answer.certificates):
                    parts = [_safe(result.path), _safe(checked.name), answer.model] + (
                        [str(number + 1)] if number else []
                    )
                    path = folder / (".".join(dict.fromkeys(parts)) + ".cert")
                    write_whole(path, json.dumps(document, separators=(",", ":")))
                    written.append(path)
    return written


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", os.path.normpath(name)).strip("._") or "schedule"
