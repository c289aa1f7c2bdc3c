"""What a file may name beyond itself: skeletons of its own, of the files it uses and of spec/std, and
profiles.
"""

from __future__ import annotations

import os

from interlock.language import ast
from interlock.language.parse import LARGEST_FILE, parse
from interlock.profile import read as profiles
from interlock.profile.data import Profile
from interlock.text import resources
from interlock.text.finding import Finding, InputError, Mark, error
from interlock.text.phrases import list_names, suggest
from interlock.text.source import Sources

STDIN = "stdin.sched"  # the name of standard input where the command line gives none


class Library:
    """Looks skeletons up by name: the file's own first, then used files in order, then spec/std/NAME.sched.

    A standard file is read when its name is first asked for, and holds the skeleton it is named after.
    """

    def __init__(self, file: ast.File, sources: Sources):
        self._sources = sources
        self._known: dict[str, ast.Skeleton] = {}
        self._standard: dict[str, ast.Skeleton] = {}
        self._profiles: dict[str, Profile] = {}
        source = sources.of(file.span.at)
        self._name = source.name if source else ""
        self._collect(file, self._name, [_identity(self._name)], set())

    def find(self, name: ast.Word) -> ast.Skeleton:
        """The skeleton called `name`. Raises IL203."""
        found = self._known.get(name.text) or self._standard.get(name.text)
        if found is None and name.text in standard_names():
            found = self._read_standard(name.text)
        if found is None:
            names = self.names()
            raise error(
                "IL203",
                f"no skeleton is called `{name}`",
                name.span,
                "unknown",
                " ".join(filter(None, (suggest(name.text, names), f"known skeletons: {list_names(names)}"))),
            )
        return found

    def names(self) -> list[str]:
        return sorted({*self._known, *standard_names()})

    def profile(self, model: ast.Model) -> Profile:
        """The profile that `model "PATH"` names, from the folder of the file. Raises IL107 where it cannot be
        read, and what its reader raises.
        """
        shown = model.profile if len(model.profile) <= 80 else model.profile[:77] + "..."
        if self._name == STDIN and not os.path.exists(STDIN):
            raise error(
                "IL107",
                f"standard input lies in no folder that `{shown}` could be taken from",
                model.span,
                help="say which file it is: `--stdin-filename schedules/vlm.sched`",
            )
        path = os.path.normpath(os.path.join(os.path.dirname(self._name), model.profile))
        if path not in self._profiles:
            text, reason = _text(path, profiles.MAX_BYTES)
            if reason:
                raise error(
                    "IL107",
                    f"cannot read the profile `{shown}`: {reason}",
                    model.span,
                    help="the path is taken from the folder of the schedule; `interlock profile MODULE` "
                    "writes a profile",
                )
            self._profiles[path] = profiles.read(self._sources.add(path, text))
        return self._profiles[path]

    def _read_standard(self, name: str) -> ast.Skeleton:
        path = f"spec/std/{name}.sched"
        file = parse(self._sources.add(path, resources.read_text(path)))
        for skeleton in file.skeletons:
            if skeleton.name.text == name:
                self._standard[name] = skeleton
                return skeleton
        raise error("IL203", f"the standard file `{path}` holds no skeleton `{name}`", file.span)

    def _collect(self, file: ast.File, name: str, chain: list[str], seen: set[str]) -> None:
        for skeleton in file.skeletons:
            self._add(skeleton)
        for use in file.uses:
            path = os.path.normpath(os.path.join(os.path.dirname(name), use.path))
            identity = _identity(path)
            if identity in chain:
                circle = " -> ".join(
                    [os.path.basename(p) for p in chain[chain.index(identity) :]] + [os.path.basename(path)]
                )
                raise error(
                    "IL208",
                    f"the files use each other in a circle: {circle}",
                    use.span,
                    "closes the circle",
                    "move the skeletons that both need to a file of their own",
                )
            if identity in seen:
                continue
            seen.add(identity)
            self._collect(self._read(path, use), path, chain + [identity], seen)

    def _read(self, path: str, use: ast.Use) -> ast.File:
        text, reason = _text(path, LARGEST_FILE)
        if reason:
            shown = use.path if len(use.path) <= 80 else use.path[:77] + "..."
            raise error(
                "IL203",
                f"cannot read `{shown}`: {reason}",
                use.span,
                help="the path is taken from the folder of the file that uses it",
            )
        return parse(self._sources.add(path, text))

    def _add(self, skeleton: ast.Skeleton) -> None:
        other = self._known.setdefault(skeleton.name.text, skeleton)
        if other is not skeleton:
            raise InputError(
                Finding.of_input(
                    "IL103",
                    f"two skeletons are called `{skeleton.name}`",
                    (Mark(skeleton.name.span, "this one"), Mark(other.name.span, "and this one")),
                    "rename one of them",
                )
            )


def standard_names() -> list[str]:
    return sorted(p.stem for p in (resources.find_folder() / "spec" / "std").glob("*.sched"))


def _text(path: str, limit: int) -> tuple[str, str]:
    """The text of a file, and why it cannot be read, "" if it can."""
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            return "", "it is no file"  # a device or a pipe may have no end
        with open(path, "rb") as f:
            data = f.read(limit + 1)
        if len(data) > limit:
            return "", f"it is larger than {limit >> 20} MiB"
        return data.decode("utf-8-sig"), ""
    except (OSError, UnicodeDecodeError) as e:
        return "", e.strerror if isinstance(e, OSError) else "it is not UTF-8 text"
    except ValueError as e:  # a NUL in the name
        return "", str(e)


def _identity(path: str) -> str:
    return os.path.realpath(path)
