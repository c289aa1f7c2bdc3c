"""`package.module:attribute` or `path.py:attribute` to a chain of torch modules and what the first of them is
given.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from interlock.profile.data import NAME
from interlock.text.codes import rule_of
from interlock.text.finding import Finding, InputError

_WHERE = re.compile(r"(.+):([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)", re.S)


def measure_error(message: str, help: str) -> InputError:
    return InputError(Finding.of_input("IL117", message, (), help, rule=rule_of("IL117")))


@dataclass(frozen=True)
class Chain:
    """modules: (layer name, module), in order. inputs: positional arguments of the first; None where the
    attribute gives none.
    """

    modules: tuple[tuple[str, object], ...]
    inputs: tuple | None


def load_chain(where: str, nn) -> Chain:
    """`nn`: torch.nn. Runs the code of the module, and the attribute where it is a function. Raises
    InputError (IL117).
    """
    match = _WHERE.fullmatch(where)
    if match is None:
        raise measure_error(
            f"`{where}` names no attribute of a module",
            "write `package.module:attribute` or `path.py:attribute`",
        )
    found = _import(match[1])
    for part in match[2].split("."):
        if not hasattr(found, part):
            raise measure_error(
                f"`{match[1]}` has no attribute `{match[2]}`",
                f"it has {', '.join(sorted(n for n in dir(found) if n[0] != '_')[:12]) or 'none'}",
            )
        found = getattr(found, part)
    inputs = None
    if callable(found) and not isinstance(found, nn.Module):
        found = call_user_code(
            f"`{match[2]}`",
            found,
            help="a function is called without arguments, and returns the modules, or them and what the "
            "first is given",
        )
        if isinstance(found, tuple) and len(found) == 2 and not isinstance(found[1], nn.Module):
            found, inputs = found
            inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    return Chain(_named(match[2], found, nn), inputs)


def call_user_code(
    what: str,
    function,
    *arguments,
    help: str = "the modules run one after the other, each given what the one before it returned",
):
    """function(*arguments), where what it raises is the user's: IL117 with `what`."""
    try:
        return function(*arguments)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        said = " ".join(str(error).split())
        raise measure_error(
            f"{what} raised {type(error).__name__}{f': {said[:300]}' if said else ''}", help
        ) from error


def _import(name: str):
    if not name.endswith(".py"):
        sys.path.insert(0, os.getcwd())
        if not all(part.isidentifier() for part in name.split(".")):
            raise measure_error(
                f"`{name}` is no name of a module", "write `package.module:attribute` or `path.py:attribute`"
            )
        return call_user_code(
            f"importing `{name}`",
            importlib.import_module,
            name,
            help="modules are looked for in this folder and where Python is installed; or write "
            "`path.py:attribute`",
        )
    path = Path(name)
    if not path.is_file():
        raise measure_error(f"there is no file {name}", "write `path.py:attribute`")
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    call_user_code(
        f"importing {name}", spec.loader.exec_module, module, help="its code runs as `import` would run it"
    )
    return module


def _named(what: str, found, nn) -> tuple[tuple[str, object], ...]:
    if isinstance(found, (nn.Sequential, nn.ModuleList, nn.ModuleDict)):
        pairs = list(found.named_children())
    elif isinstance(found, Mapping):
        pairs = list(found.items())
    elif isinstance(found, Sequence) and not isinstance(found, str):
        pairs = [(str(i), module) for i, module in enumerate(found)]
    else:
        raise measure_error(
            f"`{what}` is a {type(found).__name__}, and no list of layers",
            "give a list of torch modules, an nn.Sequential, or a function that returns (modules, sample "
            "input)",
        )
    if not pairs:
        raise measure_error(f"`{what}` has no layer", "give a list of torch modules")
    for key, module in pairs:
        if not isinstance(module, nn.Module):
            raise measure_error(
                f"item {key} of `{what}` is a {type(module).__name__}, and no torch module",
                "wrap it into an nn.Module",
            )
    names = [f"layer[{key}]" if key.isdigit() else key for key in map(str, (key for key, _ in pairs))]
    for name in names:
        if NAME.fullmatch(name) is None:
            raise measure_error(
                f"`{name}` is no name of a layer",
                "letters, digits and `_`, not beginning with a digit; in a dict of modules `llm[0]`, "
                "`llm[1]` are the layers of a group",
            )
    return tuple(zip(names, (module for _, module in pairs)))
