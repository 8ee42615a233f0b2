"""Every screen opens in a real browser, with nothing that it complains about. The other tests here are in the rest."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.browser.pages import Screens

TITLES = {
    "overview": "shop",
    "graph": "Functions",
    "documents": "Documents",
    "workflows": "Workflows",
    "events": "Events",
    "resources": "Resources",
    "pieces": "Pieces",
    "query": "Query",
    "server": "Server",
}


def test_every_screen_opens(screens: Screens, page: Page) -> None:
    for screen, title in TITLES.items():
        screens.open(page, screen)
        expect(page.locator("main h1")).to_have_text(title)
        expect(page.locator("main")).not_to_contain_text("This cannot be answered now")
    assert page.evaluate("document.cookie") == ""
