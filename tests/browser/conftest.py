"""A real browser, and the Studio of a small shop that a program has open.

The browser is the distribution's Chromium; nothing is downloaded. Without one these tests are skipped, and the summary
says so; HEADWATER_BROWSER=required makes that a failure.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.browser.finding import BROWSER, missing
from tests.browser.pages import SESSION, Screens, Wide, shots

HERE = Path(__file__).parent
SECONDS_MAX = 90
"""No wait is this long unless something is wrong."""

expect.set_options(timeout=SECONDS_MAX * 1000)


@pytest.fixture(scope="module")  # it has an event loop running in this thread, and other tests run loops of their own
def browser() -> Iterator[Browser]:
    if BROWSER is None:
        missing()
    with sync_playwright() as playwright:
        # As root Chromium cannot have its sandbox; the pages are ours.
        options = ["--no-sandbox", "--disable-dev-shm-usage", "--no-proxy-server"]
        found = playwright.chromium.launch(executable_path=BROWSER, args=options)
        yield found
        found.close()


class Program:
    """A program that has a file open."""

    def __init__(self, script: Path, file: Path) -> None:
        self.file = file
        self.log = file.with_suffix(".txt")
        command = [sys.executable, str(script), str(file)]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=file.parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line == "ready\n", self.log.read_text(encoding="utf-8")

    def kill(self) -> None:
        """End it, as a machine that loses its power ends it."""
        self._process.send_signal(signal.SIGKILL)
        if self._process.stdout is not None and not self._process.stdout.closed:
            self._process.communicate()


def headwater(*words: str, file: Path | str) -> str:
    """What a command prints."""
    command = [sys.executable, "-m", "headwater", *words, "--url", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


Cli = Callable[..., Any]


@contextmanager
def opened(script: Path, file: Path) -> Iterator[Program]:
    """A program, until the block ends."""
    program = Program(script, file)
    try:
        yield program
    finally:
        program.kill()


@contextmanager
def studio(url: Path | str, browser: Browser, *options: str) -> Iterator[Screens]:
    """`headwater studio`, and pages that are logged in to it."""
    command = [sys.executable, "-m", "headwater", "studio", str(url), "--no-browser", *options]
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
    try:
        assert process.stdout is not None
        lines = []
        link = ""
        for line in process.stdout:
            lines.append(line)
            link = next((word for word in line.split() if "/studio/#c=" in word), "")
            if link:
                break
        assert link, "".join(lines)
        yield Screens(browser, link)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=SECONDS_MAX)


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """Read by many tests: none of them changes it."""
    with opened(HERE / "shop.py", tmp_path_factory.mktemp("shop") / "shop.db") as program:
        yield program


@pytest.fixture(scope="session")
def cli(shop: Program) -> Cli:
    """What a command says about the shop, as JSON."""
    return lambda *words: json.loads(headwater(*words, "--json", file=shop.file))


@pytest.fixture(scope="module")
def screens(shop: Program, browser: Browser) -> Iterator[Screens]:
    with studio(shop.file, browser) as found:
        yield found


@pytest.fixture
def page(screens: Screens) -> Iterator[Page]:
    """A wide page of the shop, in light."""
    with screens.page() as found:
        yield found


__all__ = ["SESSION", "BrowserContext", "Wide", "shots"]
