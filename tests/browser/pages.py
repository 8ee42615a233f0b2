"""Pages of a Studio: logged in, in light or dark, wide or narrow, and without anything that should not be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect

SESSION: Final = "headwater-studio-session"

SHOTS: Final = Path(__file__).parents[2] / ".shots"
"""Pictures of every screen: left behind for people to look at."""


class Wide(msgspec.Struct, frozen=True):
    """How a page is looked at."""

    name: str
    width: int = 1440
    height: int = 900
    theme: str = "light"


WAYS: Final = (Wide("light"), Wide("dark", theme="dark"), Wide("narrow", width=390, height=844))


class Screens:
    """One Studio. Its link works once: the first page has it, the others have the session of the first."""

    def __init__(self, browser: Browser, link: str) -> None:
        self._browser = browser
        self.base = link.partition("#")[0]
        self.link = link
        self.wrong: list[str] = []
        """What pages complained about."""
        with self._context(Wide("first")) as page:
            page.goto(link)
            expect(page.locator("#connection")).not_to_have_text("Connecting")
            assert "#c=" not in page.url, "the code is taken out of the address"
            self.session = str(page.evaluate(f"sessionStorage.getItem('{SESSION}')"))

    @contextmanager
    def _context(self, way: Wide) -> Iterator[Page]:
        context = self._browser.new_context(
            viewport={"width": way.width, "height": way.height}, color_scheme="dark" if way.theme == "dark" else "light"
        )
        try:
            page = context.new_page()
            page.on("console", self._said)
            page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
            page.on("dialog", lambda found: self.wrong.append(f"dialog: {found.message}"))
            page.on("request", self._asked)
            yield page
        finally:
            context.close()

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.wrong.append(f"{message.type}: {message.text}")

    def _asked(self, request: Request) -> None:
        if not request.url.startswith(self.base.rpartition("/studio/")[0]):
            self.wrong.append(f"a request to {request.url}")

    @contextmanager
    def page(self, way: Wide = WAYS[0]) -> Iterator[Page]:
        """A page with a session. At its end, nothing was complained about."""
        with self._context(way) as page:
            page.add_init_script(f"sessionStorage.setItem('{SESSION}', '{self.session}')")
            yield page
        wrong, self.wrong = self.wrong, []
        assert not wrong, wrong

    def open(self, page: Page, address: str) -> None:
        """Show a screen, and wait until it has its first answer."""
        page.goto(f"{self.base}#/{address}")
        expect(page.locator("#connection")).not_to_have_text("Connecting")
        expect(page.locator("main")).to_have_attribute("data-shown", str(page.evaluate("location.hash")))
        expect(page.locator("main [aria-busy]")).to_have_count(0)
        # Once more, as it is painted: drawing waits for the next frame.
        page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def shots(page: Page, name: str) -> None:
    """Keep a picture."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.png")


def texts(page: Page, selector: str) -> list[str]:
    """The texts of all elements."""
    return [text.strip() for text in page.locator(selector).all_inner_texts()]


Record = dict[str, Any]
