"""No rule of axe is broken on any screen, in light, dark and narrow; and a decision can be made with keys alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import HERE, opened, studio
from tests.browser.pages import WAYS, Screens, Wide
from tests.browser.test_screens import PICTURES

pytestmark = pytest.mark.slow

AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text(encoding="utf-8")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_no_rule_of_axe_is_broken(screens: Screens, way: Wide) -> None:
    found = []
    with screens.page(way) as page:
        for name, address in PICTURES.items():
            screens.open(page, address)
            page.evaluate(AXE)
            result = page.evaluate("rules => axe.run({runOnly: {type: 'tag', values: rules}})", RULES)
            found += [
                f"{name}: {each['id']}: {each['help']}: {node['html'][:160]} {node['failureSummary']}"
                for each in result["violations"]
                for node in each["nodes"][:3]
            ]
    assert not found, "\n".join(found)


def test_approval_needs_no_mouse(tmp_path: Path, browser: Browser) -> None:
    with (
        opened(HERE / "shop.py", tmp_path / "shop.db") as program,
        studio(program.file, browser) as screens,
        screens.page() as page,
    ):
        screens.open(page, "overview")
        page.keyboard.press("g")
        page.keyboard.press("w")
        expect(page.locator("main tbody tr").last).to_be_visible()
        page.keyboard.press("k")
        expect(page.locator("main tbody tr").last.locator("a.title")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile("#/workflows/1"))
        approve = page.locator(".choice").get_by_role("button", name="Approve", exact=True)
        expect(approve).to_be_visible()
        for _ in range(60):
            if approve.evaluate("e => e === document.activeElement"):
                break
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.locator(".toast-done")).to_be_visible()


def test_arrows_walk_along_the_edges_of_the_graph(screens: Screens) -> None:
    with screens.page() as page:
        screens.open(page, "graph/revenue#1")
        expect(page.locator(".scene .node.chosen")).to_have_attribute("aria-label", re.compile("^revenue"))
        page.keyboard.press("ArrowRight")
        expect(page.locator(".scene .node.chosen")).not_to_have_attribute("aria-label", re.compile("^revenue"))
        page.keyboard.press("ArrowLeft")
        expect(page.locator(".scene .node.chosen")).to_have_attribute("aria-label", re.compile("^revenue"))


def test_reduced_motion_steps_and_does_not_play(screens: Screens) -> None:
    with screens.page() as page:
        page.emulate_media(reduced_motion="reduce")
        screens.open(page, "overview")
        assert page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--calm').trim()") == "0ms"
