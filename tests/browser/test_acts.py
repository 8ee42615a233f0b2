"""What a person does on a page happens in the space: each act is asked of the file afterwards."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import HERE, Program, headwater, opened, studio
from tests.browser.pages import Screens

pytestmark = pytest.mark.slow


class Acting:
    """A shop of its own, with a page."""

    def __init__(self, program: Program, screens: Screens, page: Page) -> None:
        self.program = program
        self.screens = screens
        self.page = page

    def ask(self, *words: str) -> Any:
        """What a command says."""
        return json.loads(headwater(*words, "--json", file=self.program.file))

    def open(self, address: str) -> None:
        """Show a screen."""
        self.screens.open(self.page, address)

    def done(self, sentence: str = "") -> None:
        """The page has said what it did."""
        expect(self.page.locator(".toast-done")).to_contain_text(sentence)

    def agree(self, button: str) -> None:
        """Press the button of the dialog, after its sentence."""
        dialog = self.page.locator("dialog:has(#dialog-title)").last  # not the one with fields
        expect(dialog.locator("p").first).not_to_be_empty()
        dialog.get_by_role("button", name=button, exact=True).click()


@pytest.fixture
def acting(tmp_path: Path, browser: Browser) -> Iterator[Acting]:
    with (
        opened(HERE / "shop.py", tmp_path / "shop.db") as program,
        studio(program.file, browser) as screens,
        screens.page() as page,
    ):
        yield Acting(program, screens, page)


def test_value_that_is_typed_is_set_and_functions_run(acting: Acting) -> None:
    acting.open("documents/shop.vat")
    acting.page.get_by_label("value,").fill("25")
    acting.page.get_by_role("button", name="Save").click()
    acting.agree("Store")
    acting.done()
    assert acting.ask("get", "shop.vat")["value"] == 25
    revenue = acting.ask("get", "shop.revenue")["value"]
    assert acting.ask("get", "shop.tax")["value"] == revenue * 25 // 100
    expect(acting.page.locator(".past > li")).to_have_count(3)


def test_value_of_a_wrong_type_is_refused_with_its_reason_and_nothing_is_written(acting: Acting) -> None:
    before = acting.ask("get", "shop.vat")
    acting.open("documents/shop.vat")
    field = acting.page.get_by_label("value,")
    field.fill("nineteen")
    acting.page.get_by_role("button", name="Save").click()
    expect(acting.page.get_by_role("alert")).to_contain_text("no JSON")
    field.fill('"19"')
    acting.page.get_by_role("button", name="Save").click()
    acting.agree("Store")
    expect(acting.page.get_by_role("dialog")).to_contain_text("Nothing was done")
    assert acting.ask("get", "shop.vat") == before


def test_write_that_came_between_is_a_conflict(acting: Acting) -> None:
    acting.open("documents/shop.vat")
    acting.page.get_by_label("value,").fill("30")
    headwater("set", "shop.vat", "21", file=acting.program.file)
    expect(acting.page.locator(".notice")).to_contain_text("while you were typing")
    assert acting.ask("get", "shop.vat")["value"] == 21
    acting.page.get_by_role("button", name="Show the new value").click()
    expect(acting.page.get_by_label("value,")).to_have_value("21")


def test_old_value_is_put_back(acting: Acting) -> None:
    acting.open("documents/shop.vat")
    acting.page.locator(".past > li summary").last.click()
    first = acting.ask("history", "shop.vat")[-1]["seq"]
    acting.page.locator(".past > li").last.get_by_role("button", name="Put this value back").click()
    acting.agree("Put back")
    acting.done()
    assert acting.ask("get", "shop.vat")["value"] == acting.ask("get", "shop.vat", "--at", str(first))["value"] == 20


def test_document_is_deleted_after_a_question_whose_focus_is_on_cancel(acting: Acting) -> None:
    order = acting.ask("ls", "order:")[0]["document"]
    acting.open(f"documents/{order}")
    acting.page.get_by_role("button", name="Delete", exact=True).click()
    expect(acting.page.get_by_role("dialog").get_by_role("button", name="Cancel")).to_be_focused()
    acting.page.keyboard.press("Enter")
    assert order in {row["document"] for row in acting.ask("ls", "order:")}
    acting.page.get_by_role("button", name="Delete", exact=True).click()
    acting.agree("Delete")
    acting.done()
    assert order not in {row["document"] for row in acting.ask("ls", "order:")}


def test_plan_is_approved_and_another_page_sees_it(acting: Acting) -> None:
    run = next(run for run in acting.ask("runs", "ls") if run["status"] == "paused:approval")
    with acting.screens.page() as other:
        acting.screens.open(other, f"workflows/{run['id']}")
        acting.open(f"workflows/{run['id']}")
        acting.page.locator(".choice").get_by_role("button", name="Approve", exact=True).click()
        acting.done()
        decisions = acting.ask("runs", "show", str(run["id"]))["decisions"]
        assert [each["verb"] for each in decisions] == ["approve"]
        expect(other.locator(".choice").get_by_role("button", name="Approve", exact=True)).to_have_count(0)


def test_plan_is_rejected_with_a_reason(acting: Acting) -> None:
    run = next(run for run in acting.ask("runs", "ls") if run["status"] == "paused:approval")
    acting.open(f"workflows/{run['id']}")
    acting.page.locator(".choice").get_by_role("button", name="Reject", exact=True).click()
    acting.page.get_by_label("Reason").fill("too much")
    acting.page.get_by_role("dialog").last.get_by_role("button", name="Reject", exact=True).click()
    acting.agree("Reject")
    acting.done()
    decisions = acting.ask("runs", "show", str(run["id"]))["decisions"]
    assert [(each["verb"], each["reason"]) for each in decisions] == [("reject", "too much")]


def test_outcome_of_a_call_is_told(acting: Acting) -> None:
    run = next(run for run in acting.ask("runs", "ls") if run["status"] == "paused:reconciliation")
    acting.open(f"workflows/{run['id']}")
    acting.page.locator(".choice").get_by_role("button", name="It happened", exact=True).click()
    acting.page.get_by_label("Result of the call").fill('"booked by hand"')
    acting.page.get_by_role("dialog").last.get_by_role("button", name="It happened", exact=True).click()
    acting.agree("It happened")
    acting.done()
    assert acting.ask("runs", "show", str(run["id"]))["decisions"][0]["verb"] == "applied"


def test_workflow_is_paused_and_resumed(acting: Acting) -> None:
    acting.open("workflows?workflow=shop.letters")
    acting.page.get_by_role("button", name="Pause").click()
    acting.agree("Pause")
    acting.done()
    expect(acting.page.locator(".flow .state")).to_have_text("Stopped")
    acting.page.get_by_role("button", name="Resume").click()
    acting.agree("Resume")
    expect(acting.page.locator(".flow .state")).not_to_have_text("Stopped")


def test_failed_event_is_sent_again_with_changes_and_dropped(acting: Acting) -> None:
    event = next(each for each in acting.ask("events", "ls") if each["stream"] == "shop.place")
    orders = len(acting.ask("ls", "order:"))
    acting.open(f"events/{event['event']}")
    acting.page.get_by_role("button", name="Send again with changes").click()
    acting.page.get_by_label("Payload as JSON").fill('{"customer": "Ann", "product": 2, "amount": 1}')
    acting.page.get_by_role("dialog").last.get_by_role("button", name="Send", exact=True).click()
    acting.agree("Send again with changes")
    acting.done()
    assert len(acting.ask("ls", "order:")) == orders + 1
    acting.page.get_by_role("button", name="Drop", exact=True).click()
    acting.agree("Drop")
    acting.done()
    assert event["event"] not in {each["event"] for each in acting.ask("events", "ls")}


def test_event_is_sent_to_a_handler(acting: Acting) -> None:
    acting.open("events")
    acting.page.get_by_role("button", name="Send an event").click()
    acting.page.get_by_label("Handler").select_option("pay")
    acting.page.get_by_label("Payload as JSON").fill('{"number": 3}')
    acting.page.get_by_role("dialog").last.get_by_role("button", name="Send", exact=True).click()
    acting.agree("Send")
    acting.done()
    paid = [row["value"]["paid"] for row in acting.ask("ls", "-l", "order:")]
    assert paid.count(True) == 5


def test_branch_is_forked_and_merged(acting: Acting) -> None:
    acting.open("documents")
    acting.page.get_by_role("button", name="Fork here").click()
    acting.page.get_by_label("Name of the branch").fill("trial")
    acting.page.get_by_role("dialog").last.get_by_role("button", name="Go on", exact=True).click()
    acting.agree("Fork")
    acting.done()
    expect(acting.page.get_by_label("Branch", exact=True)).to_be_visible()
    acting.open("documents/shop.goal?branch=trial")
    acting.page.get_by_label("value,").fill("1000")
    acting.page.get_by_role("button", name="Save").click()
    acting.agree("Store")
    acting.done()
    assert acting.ask("get", "shop.goal")["value"] == 200_000
    acting.open("documents?branch=trial")
    acting.page.get_by_role("button", name="Merge into main").click()
    expect(acting.page.get_by_role("dialog")).to_contain_text("1000")
    acting.agree("Go on to merge into main")
    acting.agree("Merge")
    acting.done()
    assert acting.ask("get", "shop.goal")["value"] == 1000
    acting.program.kill()
    assert {each["branch"] for each in acting.ask("branches")} == {"main", "trial"}


def test_page_that_may_not_write_has_no_button_that_can_be_pressed(tmp_path: Path, browser: Browser) -> None:
    with (
        opened(HERE / "shop.py", tmp_path / "shop.db") as program,
        studio(program.file, browser, "--read-only") as screens,
        screens.page() as page,
    ):
        screens.open(page, "workflows/1")
        button = page.locator(".choice").get_by_role("button", name="Approve", exact=True)
        expect(button).to_be_disabled()
        expect(button).to_have_attribute("title", "This page is read-only.")
        screens.open(page, "documents/shop.vat")
        expect(page.get_by_label("value,")).to_have_attribute("readonly", "")
