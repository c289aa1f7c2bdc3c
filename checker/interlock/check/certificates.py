"""Certificates: what an answer claims, with the obligations it covers, for the kernel to judge again
(spec/certificates.md).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from interlock.check.files import FileResult
from interlock.check.verdict import Answer, CaseResult, Limits, Verdict
from interlock.text.files import write_whole

FORMAT = "interlock.certificate/1"
LARGEST_FILE = 1 << 30


def certificates(
    answer: Answer, limits: Limits = Limits(), source: dict[str, str] | None = None
) -> list[dict[str, Any]]:
    """The documents of an answer, one for each program that its claims are about; none of an answer that no
    claim supports.

    Each states the verdict, the models, the limits, and of every obligation which claims cover it, in this
    document or in
    which `part`; (), None: it is judged by the rules alone.
    """
    if answer.verdict not in (Verdict.VALID, Verdict.INVALID):
        return []
    parts: dict[int, list[dict[str, Any]]] = {}
    programs: dict[int, dict[str, Any]] = {}
    place: dict[int, tuple[int, int]] = {}  # a claim -> the part and its number there
    for claim in answer.claims:
        key = id(claim.program)
        programs[key] = claim.program
        claims = parts.setdefault(key, [])
        place[id(claim)] = (list(parts).index(key) + 1, len(claims))
        claims.append(claim.statement)
    return [
        {
            "format": FORMAT,
            "verdict": answer.verdict.value,
            "models": [answer.model],
            "limits": limits.statement(),
            "obligations": list(_coverage(answer, place, number)),
            "part": number,
            "parts": len(parts),
            **({"source": source} if source else {}),
            "program": programs[key],
            "claims": claims,
        }
        for number, (key, claims) in enumerate(parts.items(), 1)
    ]


def _coverage(answer: Answer, place: dict[int, tuple[int, int]], part: int) -> Iterable[dict[str, Any]]:
    """Of each obligation, the claims in this part that cover it, and the first part that holds any."""
    for entry in answer.obligations:
        if entry.outcome.moot or entry.outcome.verdict is not answer.verdict:
            continue
        found = [place[id(c)] for c in entry.outcome.claims if id(c) in place]
        here = [number for at, number in found if at == part]
        yield {
            "obligation": entry.obligation,
            "claims": here,
            "part": part if here else min((at for at, _ in found), default=None),
        }


def text_of(document: dict[str, Any]) -> str:
    """As it is written to a file."""
    return json.dumps(document, separators=(",", ":"))


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def read(path: Path) -> Any:
    """The document of a file. Raises ValueError for what is no JSON, and OSError."""
    if path.stat().st_size > LARGEST_FILE:
        raise ValueError("larger than 1 GiB")
    try:
        return json.loads(path.read_bytes())
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"no certificate: {error}") from None


def write(folder: Path, results: Iterable[FileResult]) -> list[Path]:
    """Writes the certificates of every answer: FILE.SCHEDULE.MODEL.cert, with a number where an answer has
    several.
    """
    folder.mkdir(parents=True, exist_ok=True)
    return [
        _write(folder, result, checked, answer.model, number, document)
        for result in results
        for checked in result.checked
        for answer in checked.answers
        for number, document in enumerate(certificates(answer, checked.limits, checked.source))
    ]


def _write(
    folder: Path, result: FileResult, checked: CaseResult, model: str, number: int, document: dict[str, Any]
) -> Path:
    parts = [_safe(result.path), _safe(checked.name), model] + ([str(number + 1)] if number else [])
    path = folder / (".".join(dict.fromkeys(parts)) + ".cert")
    write_whole(path, text_of(document))
    return path


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", os.path.normpath(name)).strip("._") or "schedule"
