"""The Studio of a server in a browser: logging in with a token, and the Server screen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from headwater.host.space_files import open_space
from headwater.server.server import Server
from tests.server.running import client, settle_in, token_for, write
from tests.studio.pages import studio_served

pytestmark = pytest.mark.slow


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    settle_in(tmp_path, monkeypatch)
    with studio_served(tmp_path / "spaces") as server:
        with client(server.url, "home") as replica:
            write(replica, "note", 1)
        yield server


@contextmanager
def logged_in(browser: Browser, server: Server, token: str) -> Iterator[Page]:
    """A page after the login."""
    context = browser.new_context(accept_downloads=True)
    try:
        page = context.new_page()
        page.goto(f"{address(server)}/studio/")
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Open", exact=True).click()
        yield page
    finally:
        context.close()


def address(server: Server) -> str:
    return server.url.replace("ws", "http", 1)


def test_a_wrong_token_is_refused_in_words(browser: Browser, server: Server) -> None:
    with logged_in(browser, server, "hw_" + "A" * 43) as page:
        expect(page.locator("body")).to_contain_text("the token is not known here")


def test_a_token_opens_the_studio_and_is_not_kept_in_the_page(browser: Browser, server: Server) -> None:
    token = token_for(server, "home", "read", "ann")
    with logged_in(browser, server, token) as page:
        expect(page.locator("main")).to_contain_text("1 document")
        kept = page.evaluate("JSON.stringify([{...sessionStorage}, {...localStorage}, document.cookie, location.href])")
        assert token not in kept
        assert token not in page.content()
        page.reload()
        expect(page.locator("main")).to_contain_text("1 document")


def test_the_server_screen_makes_a_token_shows_it_once_and_revokes_it(browser: Browser, server: Server) -> None:
    with logged_in(browser, server, token_for(server, "*", "own")) as page:
        expect(page.locator("main")).to_contain_text("1 document")
        page.goto(f"{address(server)}/studio/#/server?tab=tokens")
        page.get_by_role("button", name="Create a token").click()
        page.get_by_label("Actor").fill("zoe")
        page.get_by_role("button", name="Create", exact=True).click()
        sentence = "Create a token that can read the space home as zoe; it expires after 30d"
        expect(page.get_by_role("dialog").last).to_contain_text(sentence)
        page.get_by_role("dialog").last.get_by_role("button", name="Create token").click()
        expect(page.get_by_role("dialog").last).to_contain_text("Copy it now")
        made = next(each for each in server.access.ls() if each.actor == "zoe")
        secret = page.locator("body").inner_text().partition("hw_")[2][:43]
        assert server.access.with_token(f"hw_{secret}") == made
        page.reload()
        expect(page.locator("main")).to_contain_text("zoe")
        assert "hw_" not in page.locator("body").inner_text()
        row = page.get_by_role("row").filter(has_text="zoe")
        row.get_by_role("button", name="Revoke").click()
        page.get_by_role("dialog").get_by_role("button", name=f"Revoke {made.id}", exact=True).click()
        expect(page.locator("main")).not_to_contain_text("zoe")
        assert made not in server.access.ls()


def test_the_audit_log_is_shown_with_its_verification(browser: Browser, server: Server) -> None:
    with logged_in(browser, server, token_for(server, "*", "own")) as page:
        expect(page.locator("main")).to_contain_text("1 document")
        page.goto(f"{address(server)}/studio/#/server?tab=audit")
        expect(page.locator("main")).to_contain_text("The log is sound")
        expect(page.locator("main")).to_contain_text("studio login")


def test_a_backup_is_downloaded_and_opens(browser: Browser, server: Server, tmp_path: Path) -> None:
    with logged_in(browser, server, token_for(server, "home", "own")) as page:
        expect(page.locator("main")).to_contain_text("1 document")
        page.goto(f"{address(server)}/studio/#/server")
        with page.expect_download() as download:
            page.get_by_role("button", name="Download backup").click()
            page.get_by_role("dialog").get_by_role("button", name="Download", exact=True).click()
        download.value.save_as(tmp_path / "copy.db")
        assert download.value.suggested_filename == "home.db"
    with open_space(str(tmp_path / "copy.db"), create=False) as storage:
        assert storage.name == "home"


def test_a_revoked_token_leads_back_to_the_login(browser: Browser, server: Server) -> None:
    with logged_in(browser, server, token_for(server, "home", "read", "ann")) as page:
        expect(page.locator("main")).to_contain_text("1 document")
        server.access.revoke(server.access.ls()[0].id)
        expect(page.get_by_label("Token")).to_be_visible()
