"""`interlock verify`: the kernel judges certificates again."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from interlock.check.certificates import read
from interlock.cli.terminal import report_usage, write
from interlock.kernel import Judgement, verify


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "The kernel judges every claim of a certificate, and says what its obligations rest on."
    )
    parser.add_argument("paths", nargs="+", metavar="FILE.cert", type=Path)
    parser.add_argument(
        "--source",
        metavar="FILE",
        type=Path,
        help="the file that the certificates must have been made from: by its SHA-256",
    )


def run(args: argparse.Namespace) -> int:
    """Exit code: 1 if something is rejected, 2 if a file is no certificate. Raises OSError."""
    worst = 0
    for path in args.paths:
        try:
            document = read(path)
            expected = hashlib.sha256(args.source.read_bytes()).hexdigest() if args.source else None
        except (OSError, ValueError) as error:
            return report_usage(f"{path}: {getattr(error, 'strerror', None) or error}")
        judgements = verify(document)
        lines = [*_judgements(document, judgements)]
        accepted = all(j.accepted for j in judgements)
        if expected is not None:
            line, fits = _source(document, str(args.source), expected)
            lines.append(line)
            accepted = accepted and fits
        if accepted:
            lines += _coverage(document)
        write("".join(f"{path}: {line}\n" for line in lines))
        worst = max(worst, 0 if accepted else 1)
    return worst


def _judgements(document: Any, judgements: list[Judgement]) -> Iterator[str]:
    """One line a claim, and one of what the certificate states as a whole."""
    claims = document.get("claims") if isinstance(document, dict) else None
    for number, judgement in enumerate(judgements):
        word = "accepted" if judgement.accepted else "REJECTED"
        what = "a claim"
        if judgement.accepted and isinstance(claims, list):
            what = _name(claims[number]) if number < len(claims) else f"the verdict {document['verdict']}"
        yield f"{word}: {what}: {judgement.reason}"


def _name(claim: dict[str, Any]) -> str:
    """Of an accepted claim, whose fields the kernel has checked."""
    model = f" under {claim['model']}" if claim.get("model") else ""
    return f"{claim['claim']}{model}"


def _source(document: Any, name: str, expected: str) -> tuple[str, bool]:
    source = document.get("source") if isinstance(document, dict) else None
    made_from = source.get("sha256") if isinstance(source, dict) else None
    if made_from is None:
        return f"REJECTED: source: it does not say what it was made from, so not that it was {name}", False
    if made_from != expected:
        return f"REJECTED: source: it was made from another file than {name}", False
    return f"accepted: source: it was made from {name}", True


def _coverage(document: dict[str, Any]) -> Iterator[str]:
    """What each obligation of the verdict rests on."""
    for entry in document.get("obligations", ()):
        rests = "judged by the rules alone"
        if entry["claims"]:
            rests = "its claims cover it"
        elif entry["part"] is not None:
            rests = f"covered by part {entry['part']} of {document['parts']}"
        yield f"  {entry['obligation']}: {rests}"
