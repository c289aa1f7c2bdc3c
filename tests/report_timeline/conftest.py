import shutil
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"
CHROMIUM = "/usr/bin/chromium"
ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@pytest.fixture
def golden(request):
    """Compares a text with a file of golden/; `pytest tests/report_timeline --update-golden` rewrites it."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")

    return compare


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium, from Debian: nothing is downloaded. Without it these tests fail, they are not left out."""
    if shutil.which(CHROMIUM) is None:
        pytest.fail(
            "the page is tested in a real browser: apt-get install --no-install-recommends chromium",
            pytrace=False,
        )
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        yield browser
        browser.close()
