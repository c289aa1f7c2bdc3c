"""Finds or installs the browser in which the page of `interlock show` is tested."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
INSTALL_SECONDS = 600


def find() -> str | None:
    """The first Chrome or Chromium on the path, else the one that playwright has downloaded."""
    for name in NAMES:
        if found := shutil.which(name):
            return found
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
    return own if os.access(own, os.X_OK) else None


def install(folder: Path) -> str | None:
    """Debian's Chromium, installed by apt where this user may; `folder` holds a lock."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return None
    with open(folder / "browser.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if found := find():
            return found
        for arguments in (["update"], ["install", "-y", "--no-install-recommends", "chromium"]):
            try:
                subprocess.run(
                    ["apt-get", "-qq", *arguments],
                    check=True,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    timeout=INSTALL_SECONDS,
                    env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
                )
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
                return None
        return find()
