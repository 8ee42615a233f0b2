"""The page of a server: a person logs in with a token, and sees what the server has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from headwater.server.server import Server
from tests.browser.pages import shots
from tests.server.running import client, settle_in, token_for, write
from tests.studio.pages import studio_served

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle_in(tmp_path, monkeypatch)


def log_in(page: Page, server: Server, token: str) -> None:
    page.goto(f"{server.url.replace('ws', 'http', 1)}/studio/")
    page.get_by_label("Token", exact=True).fill(token)
    page.get_by_role("button", name="Open").click()


def test_owner_creates_and_revokes_a_token_on_the_screen_of_the_server(tmp_path: Path, browser: Browser) -> None:
    with studio_served(tmp_path / "spaces") as server, client(server.url, "home") as replica:
        write(replica, "note", 1)
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        page = context.new_page()
        log_in(page, server, token_for(server, "*", "own", "root"))
        expect(page.locator("#connection")).to_have_text("Live")
        page.get_by_role("link", name="Server").click()
        expect(page.get_by_label("Clients").locator("tbody tr")).to_have_count(1)
        shots(page, "served-clients")
        page.get_by_role("link", name="Tokens").click()
        rows = page.locator("main tbody tr")
        expect(rows.first).to_be_visible()
        before = rows.count()
        page.get_by_role("button", name="Create a token").click()
        page.get_by_label("Actor").fill("ann")
        page.get_by_role("dialog").last.get_by_role("button", name="Create", exact=True).click()
        page.locator("dialog:has(#dialog-title) button.main").click()
        secret = page.get_by_label("Secret").inner_text()
        assert secret.startswith("hw")
        page.get_by_role("button", name="Close").click()
        expect(page.get_by_label("Secret")).to_have_count(0)
        expect(rows).to_have_count(before + 1)
        assert secret not in page.content()
        shots(page, "served-tokens")
        other = context.browser.new_context().new_page() if context.browser else page
        log_in(other, server, secret)
        expect(other.locator("#connection")).to_have_text("Live")
        rows.filter(has_text="ann").get_by_role("button", name="Revoke").click()
        page.locator("dialog:has(#dialog-title) button.risky").click()
        expect(other.get_by_role("heading", name="Headwater Studio")).to_be_visible()
        page.get_by_role("link", name="Audit log").click()
        expect(page.locator("main")).to_contain_text("chain verified")
        shots(page, "served-audit")
        other.context.close()
        context.close()


def test_token_that_is_not_known_is_refused_and_not_kept(tmp_path: Path, browser: Browser) -> None:
    with studio_served(tmp_path / "spaces") as server:
        context = browser.new_context()
        page = context.new_page()
        log_in(page, server, "hw_not_a_token")
        expect(page.get_by_role("alert")).to_have_text(re.compile(r"\w"))
        assert page.evaluate("[sessionStorage.length, localStorage.length, document.cookie]") == [0, 0, ""]
        context.close()
