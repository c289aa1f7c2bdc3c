"""Options and fixtures of the whole suite, and what is left out where a browser or PyTorch is missing."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings

import browsers

# How long an example takes says more of the machine than of the code.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

REQUIRED = os.environ.get("CI") == "true"
WITHOUT_TORCH = not REQUIRED and importlib.util.find_spec("torch") is None
NO_TORCH = "PyTorch is not installed (make test installs it)"
NO_BROWSER = "no Chrome or Chromium is installed, and none can be set up here"
ONLY_THOROUGH = "only with --thorough"
TORCH_MODULE = re.compile(r"^pytestmark = pytest\.mark\.torch$", re.M)


def pytest_addoption(parser):
    parser.addoption("--thorough", action="store_true", help="run the long property tests at full length")
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "torch: a module whose tests need PyTorch; left out without it, except in CI"
    )
    config.addinivalue_line("markers", "thorough: runs only with --thorough")


class ModuleWithoutTorch(pytest.Module):
    """A module whose tests all need PyTorch, where it is missing: its imports would fail."""

    def collect(self):
        pytest.skip(NO_TORCH, allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent):
    if WITHOUT_TORCH and TORCH_MODULE.search(module_path.read_text(encoding="utf-8")):
        return ModuleWithoutTorch.from_parent(parent, path=module_path)
    return None


def pytest_collection_modifyitems(config, items):
    for item in items:
        if item.get_closest_marker("thorough") and not config.getoption("--thorough"):
            item.add_marker(pytest.mark.skip(reason=ONLY_THOROUGH))


def pytest_terminal_summary(terminalreporter):
    """One line for each reason why tests or modules were left out."""
    skipped = {r.nodeid: r.longrepr[2] for r in terminalreporter.stats.get("skipped", ())}
    for reason, count in sorted(Counter(skipped.values()).items()):
        terminalreporter.write_line(f"left out: {count:3} x {reason.removeprefix('Skipped: ')}")


@pytest.fixture
def golden(request):
    """Compares a text with a file of the folder golden/ beside the test: `golden(name, text)`.

    `pytest --update-golden` rewrites the file first.
    """

    def compare(name: str | Path, text: str) -> None:
        path = request.path.parent / "golden" / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")

    return compare


@pytest.fixture(scope="session")
def torch():
    """PyTorch; without it the test is left out, except in CI."""
    if WITHOUT_TORCH:
        pytest.skip(NO_TORCH)
    return importlib.import_module("torch")


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """A headless Chrome or Chromium; without one these tests are left out, except in CI."""
    executable = browsers.find() or browsers.install(tmp_path_factory.getbasetemp().parent)
    if executable is None:
        (pytest.fail if REQUIRED else pytest.skip)(NO_BROWSER)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=browsers.ARGUMENTS)
        yield browser
        browser.close()
