"""A page follows the program: changes come by themselves, and the end of the program is said."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import HERE, headwater, opened, studio
from tests.browser.pages import Screens, shots

pytestmark = pytest.mark.slow


def test_write_of_a_command_is_shown_without_a_reload(tmp_path: Path, browser: Browser) -> None:
    with (
        opened(HERE / "shop.py", tmp_path / "shop.db") as program,
        studio(program.file, browser) as screens,
        screens.page() as page,
    ):
        nodes = json.loads(headwater("graph", "--json", file=program.file))["nodes"]
        tax = next(node["id"] for node in nodes if node["name"] == "tax")
        screens.open(page, f"graph/{tax}")
        runs = page.locator(".facts dt:has-text('Runs') + dd")
        expect(runs).to_have_text("21")
        headwater("set", "shop.vat", "7", file=program.file)
        expect(runs).to_have_text("22")
        expect(page.locator(".scene .node.chosen .fact")).to_contain_text("22 runs")
        screens.open(page, "documents?kind=order:")
        before = page.locator(".docs tbody tr").count()
        headwater("send", "shop.place", "customer=Zoe", "product=7", "amount=1", file=program.file)
        expect(page.locator(".docs tbody tr")).to_have_count(before + 1)


def test_program_that_is_killed_leaves_the_last_picture_and_comes_back_by_itself(
    tmp_path: Path, browser: Browser
) -> None:
    file = tmp_path / "shop.db"
    with opened(HERE / "shop.py", file) as program, studio(file, browser) as screens, screens.page() as page:
        screens.open(page, "graph")
        boxes = page.locator(".scene .node").count()
        expect(page.locator("#connection")).to_have_text("Live")
        program.kill()
        expect(page.locator("#connection")).to_have_text("Ended")
        assert page.locator(".scene .node").count() == boxes
        with opened(HERE / "shop.py", file):
            expect(page.locator("#connection")).to_have_text("Live")


def test_file_that_nobody_has_open_is_shown_as_of_its_closing(tmp_path: Path, browser: Browser) -> None:
    file = tmp_path / "shop.db"
    with opened(HERE / "shop.py", file):
        pass
    with studio(file, browser) as screens, screens.page() as page:
        screens.open(page, "documents/shop.vat")
        expect(page.get_by_label("value,")).to_have_value("19")
        expect(page.locator("#connection")).to_have_text("Closed")
        expect(page.locator("#commit")).to_contain_text("as of")
        with opened(HERE / "shop.py", file):
            expect(page.locator("#connection")).to_have_text("Live")


def test_studio_that_ends_is_said_and_its_buttons_wait(tmp_path: Path, browser: Browser) -> None:
    file = tmp_path / "shop.db"
    with opened(HERE / "shop.py", file):
        with studio(file, browser) as screens:
            context = browser.new_context()
            page = context.new_page()
            page.add_init_script(f"sessionStorage.setItem('headwater-studio-session', '{screens.session}')")
            screens.open(page, "overview")
            expect(page.locator("#connection")).to_have_text("Live")
        expect(page.locator(".lost")).to_contain_text("Connection lost")
        expect(page.locator("#connection")).to_have_text("Connection lost")
        context.close()


def test_link_works_once_and_its_code_is_taken_out_of_the_address(screens: Screens, browser: Browser) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(screens.link)
    expect(page.get_by_role("alert")).to_contain_text("not valid")
    assert "c=" not in page.url
    assert page.evaluate("document.cookie") == ""
    context.close()


def test_change_is_followed_from_the_write_to_the_last_function(tmp_path: Path, browser: Browser) -> None:
    with (
        opened(HERE / "shop.py", tmp_path / "shop.db") as program,
        studio(program.file, browser) as screens,
        screens.page() as page,
    ):
        screens.open(page, "graph")
        page.get_by_role("button", name="Record").click()
        expect(page.get_by_role("button", name="End recording")).to_be_visible()
        headwater("set", "shop.vat", "7", file=program.file)
        page.get_by_role("button", name="Follow it").click()
        expect(page).to_have_url(re.compile(r"pass=\d+"))
        steps = page.get_by_label("Step", exact=True)
        expect(steps).to_be_visible()
        said = []
        last = int(steps.get_attribute("max") or 0)
        for number in range(last + 1):
            expect(page.locator(".player > .num")).to_have_text(f"{number + 1} of {last + 1}")
            said.append(page.locator(".player .said").inner_text())
            if number < last:
                page.get_by_role("button", name="Next step").click()
        whole = "\n".join(said)
        assert "tax" in whole
        assert "dashboard" in whole
        lit = page.locator(".scene .node:not(.faded)").evaluate_all("all => all.map(e => e.ariaLabel.split(' ')[0])")
        assert {"tax", "dashboard"} <= set(lit)
        assert "stock_alert" not in lit
        shots(page, "follow")
