"""What commands share: files found and read, lines written."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import traceback
from pathlib import Path

SUFFIXES = (".sched", ".csv")
LARGEST_FILE = 64 * 2**20


def write(text: str) -> None:
    """To standard output, now. A reader that has gone changes no exit code. Raises OSError."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes again at its end
        if not isinstance(error, BrokenPipeError):
            raise OSError(error.errno, error.strerror, "standard output") from None


def report_usage(message: str) -> int:
    print(f"interlock: {message}", file=sys.stderr)
    return 2


def describe_error(error: BaseException) -> str:
    """An internal error in one line: what, and where in the program."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


def report_internal_error(what: str, path: str = "") -> int:
    """Never a verdict, never silent."""
    about = f" for {path}" if path else ""
    print(
        f"internal error[IL902]: {what}; no verdict was reached{about}. Please report it with the input.",
        file=sys.stderr,
    )
    return 101


def find_files(paths, suffixes=SUFFIXES) -> list[str]:
    """The files named, and those with a fitting ending below the folders named, in order. Raises
    FileNotFoundError.
    """
    out: list[str] = []
    for path in paths:
        if path != "-" and os.path.isdir(path):
            found = sorted(
                str(p)
                for p in Path(path).rglob("*")
                if p.suffix in suffixes
                and p.is_file()
                and not any(part.startswith(".") for part in p.relative_to(path).parts)
            )
            if not found:
                raise FileNotFoundError(f"there is no {' or '.join(suffixes)} file in {path}")
            out += found
        elif path != "-" and not os.path.isfile(path):
            raise FileNotFoundError(f"there is no file {path}")
        else:
            out.append(path)
    return list(dict.fromkeys(out))


def read(path: str, limit: int = LARGEST_FILE) -> bytes:
    """At most limit + 1 bytes: one more than a file may have is enough to refuse it. Raises OSError."""
    if path != "-":
        with open(path, "rb") as file:
            return file.read(limit + 1)
    try:
        if sys.stdin is None:
            raise OSError(errno.EBADF, "it is closed")
        return sys.stdin.buffer.read(limit + 1)
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard input") from None


def terminal_of(stream) -> dict:
    """Colour, width and box drawing for text on a stream."""
    from interlock.report.style import can_encode_boxes, use_color

    width = shutil.get_terminal_size((100, 24)).columns if stream.isatty() else 100
    return {"color": use_color(stream), "width": width, "box": can_encode_boxes(stream)}


def show_errors(path: str, sources, diagnostics, stream) -> None:
    from interlock.report import text
    from interlock.report.outcome import Unread

    stream.write(
        text.render((), {path: sources}.get, unread=(Unread(path, diagnostics),), **terminal_of(stream))
    )
