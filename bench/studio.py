"""Table `studio`: the page of the Studio: its bytes, what is in it, and from a write of a program to its pixels.

Counts first: they are exact. Times are those of a browser without a graphics card, on this machine.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, Page, sync_playwright

import headwater as hw
from bench.table import Table
from headwater.studio.local_server import Studio
from headwater.studio.static_files import static_files

WRITES: Final = 60
TOUCHED: Final = 37
BYTES_MAX: Final = 150 * 1024
ELEMENTS_MAX: Final = 4_000
DOCUMENTS: Final = 100_000
FEW_MS, MANY_MS, FIRST_MS, SCREEN_MS = 20, 25, 250, 1000

# The time at which a changed box has been painted, on the clock of the machine.
PAINTED: Final = """() => { window.painted = new Promise(done => {
  const fact = document.querySelector('.node.chosen .fact');
  const changes = new MutationObserver(() => { changes.disconnect();
    requestAnimationFrame(() => setTimeout(() => done(performance.timeOrigin + performance.now()))); });
  changes.observe(fact, {childList: true, characterData: true, subtree: true}); }); }"""


class Note(hw.Doc):
    """One of many documents."""

    text: str


def measure(table: Table) -> None:
    """All rows."""
    files = static_files()
    size = sum(len(file.body) for file in files.by_path.values()) + len(files.index.body)
    table.add("all files as served", f"{size:,} bytes", f"< {BYTES_MAX:,}", size < BYTES_MAX)
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        table.add("in a browser", "NOT MEASURED: no chromium on PATH")
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--no-proxy-server"])
        _writes(table, browser, 200, FEW_MS)
        _writes(table, browser, 2_000, MANY_MS)
        _large_graph(table, browser)
        _many_documents(table, browser)
        browser.close()


def _program(nodes: int) -> tuple[hw.App, hw.Cell[int]]:
    """A cell that `TOUCHED` functions read, among as many nodes as are wanted."""
    app = hw.App("bench")
    cell, other = app.cell("n", 0), app.cell("other", 0)

    def read(number: int) -> int:
        return cell.value + number

    def row(number: int) -> int:
        return other.value + number

    reads, rows = app.computed(read), app.computed(row)

    @app.computed
    def watched() -> int:
        return cell.value

    @app.sink
    def show() -> None:
        watched(), [reads(number) for number in range(TOUCHED - 2)]

    @app.sink
    def rest() -> None:
        _ = [rows(number) for number in range(nodes - TOUCHED - 1)]

    return app, cell


@contextmanager
def _page(browser: Browser, studio: Studio) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.goto(studio.url)
    page.locator("#connection", has_text="Live").wait_for()
    yield page
    context.close()


def _writes(table: Table, browser: Browser, nodes: int, limit: float) -> None:
    app, cell = _program(nodes)
    with tempfile.TemporaryDirectory() as folder, app.open(Path(folder) / "b.db") as space, Studio(space) as studio:
        with _page(browser, studio) as page:
            if nodes == 200:
                first = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0")
                table.add("first paint", f"{first:.0f} ms", f"< {FIRST_MS}", first < FIRST_MS)
            page.evaluate("location.hash = '#/graph/watched%231'")
            page.locator(".node.chosen .fact").wait_for()
            elements = page.evaluate("document.querySelectorAll('*').length")
            table.add(
                f"elements in the page, {nodes:,} nodes",
                f"{elements:,}",
                f"< {ELEMENTS_MAX:,}",
                elements < ELEMENTS_MAX,
            )
            times = []
            for number in range(WRITES):
                page.evaluate(PAINTED)
                time.sleep(0.05 + number % 7 / 300)  # at every phase of the screen
                began = time.time()
                cell.value += 1
                times.append(page.evaluate("window.painted") - began * 1000)
        times.sort()
        median = statistics.median(times)
        figure = f"{median:.1f} ms, quickest {times[0]:.1f} ms, p95 {times[int(len(times) * 0.95)]:.1f} ms"
        table.add(f"write to pixel, {nodes:,} nodes, {TOUCHED} touched", figure, f"p50 < {limit:.0f}", median < limit)


def _large_graph(table: Table, browser: Browser) -> None:
    app, _ = _program(20_000)
    with (
        tempfile.TemporaryDirectory() as folder,
        app.open(Path(folder) / "b.db") as space,
        Studio(space) as studio,
        _page(browser, studio) as page,
    ):
        took = _screen(page, "graph", ".scene .node")
        table.add("graph of 20,000 nodes", f"{took:.0f} ms", f"< {SCREEN_MS}", took < SCREEN_MS)


def _many_documents(table: Table, browser: Browser) -> None:
    app = hw.App("bench")
    notes = app.collection(Note)
    with tempfile.TemporaryDirectory() as folder, app.open(Path(folder) / "b.db") as space:
        notes.insert_many({"text": f"note {number}"} for number in range(DOCUMENTS))
        with Studio(space) as studio, _page(browser, studio) as page:
            took = _screen(page, "documents?kind=note:", ".docs tbody tr")
            table.add(f"first page of {DOCUMENTS:,} documents", f"{took:.0f} ms", f"< {SCREEN_MS}", took < SCREEN_MS)


def _screen(page: Page, address: str, selector: str) -> float:
    """Milliseconds from asking for a screen until its first part is there."""
    began = time.perf_counter()
    page.evaluate("address => { location.hash = `#/${address}` }", address)
    page.locator(selector).first.wait_for()
    return (time.perf_counter() - began) * 1000
