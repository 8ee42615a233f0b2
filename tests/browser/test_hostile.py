"""Texts of a space are shown as texts, whatever is in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import HERE, headwater, opened, studio
from tests.browser.hostile import TEXTS
from tests.browser.pages import Screens, shots

pytestmark = pytest.mark.slow


def test_markup_scripts_and_control_characters_are_text_on_every_screen(tmp_path: Path, browser: Browser) -> None:
    file = tmp_path / "hostile.db"
    with opened(HERE / "hostile.py", file), studio(file, browser) as screens, screens.page() as page:
        event = json.loads(headwater("events", "ls", "--json", file=file))[0]["event"]
        addresses = (
            *("overview", "graph", "graph?view=list", "graph/show#1", "documents/hostile.notes"),
            *(
                "documents/hostile.table",
                "workflows",
                "workflows/1",
                "events",
                f"events/{event}",
                "resources",
                "pieces",
            ),
            *("query?run=1&columns=x", "server", "documents/<img src=x onerror=alert(5)>", "graph/<b>x</b>"),
        )
        for address in addresses:
            screens.open(page, address)
            scripts = page.evaluate("[...document.querySelectorAll('script')].map(e => e.src)")
            assert len(scripts) == 1, f"{address}: only ours"
            images = page.evaluate("[...document.querySelectorAll('img')].map(e => new URL(e.src).pathname)")
            assert all(each.endswith("/icon.svg") for each in images), address
            links = page.evaluate("[...document.querySelectorAll('[href]')].map(e => e.getAttribute('href'))")
            assert all(each.startswith(("#", "/studio/")) for each in links), address
            assert page.evaluate(
                "[...document.querySelectorAll('*')].every(e => ![...e.attributes].some(a => a.name.startsWith('on')))"
            )
        screens.open(page, "documents/hostile.notes")
        expect(page.locator("main")).to_contain_text("<img src=x onerror=alert(1)>")
        text = page.locator("main").inner_text()
        assert "\u202e" not in text
        assert "\x00" not in text
        assert "\x1b" not in text
        shots(page, "hostile")
        assert len(TEXTS) == 8


def test_policy_of_the_page_refuses_markup_from_a_script(screens: Screens, page: Page) -> None:
    screens.open(page, "overview")
    refused = page.evaluate(
        """() => {
            try { document.body.innerHTML = "<b>x</b>"; return "" } catch (error) { return error.name }
        }"""
    )
    assert refused == "TypeError"
    screens.wrong.clear()  # the browser has said so, too


def test_number_that_a_browser_would_round_is_shown_and_stored_as_it_is(tmp_path: Path, browser: Browser) -> None:
    file = tmp_path / "hostile.db"
    with opened(HERE / "hostile.py", file), studio(file, browser) as screens, screens.page() as page:
        headwater("set", "exact", '{"big": 9007199254740993, "float": 1.0}', "--create", file=file)
        screens.open(page, "documents/exact")
        expect(page.get_by_label("big,")).to_have_value("9007199254740993")
        expect(page.get_by_label("float,")).to_have_value("1.0")
        page.get_by_label("big,").fill("9007199254740995")
        page.get_by_role("button", name="Save").click()
        page.get_by_role("dialog").get_by_role("button", name="Store", exact=True).click()
        expect(page.locator(".toast-done")).to_be_visible()
        assert "9007199254740995" in headwater("get", "exact", file=file)
        assert "1.0" in headwater("get", "exact", file=file)
