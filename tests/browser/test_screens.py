"""Every screen shows what the command line says."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Cli
from tests.browser.pages import WAYS, Screens, Wide, shots, texts

pytestmark = pytest.mark.slow


def key_of(page: Page) -> list[str]:
    """The keys of the rows of the table, from top to bottom."""
    return [str(each) for each in page.locator("main tbody [data-key]").evaluate_all("a => a.map(e => e.dataset.key)")]


def test_overview_lists_everything_that_waits_for_a_person(screens: Screens, page: Page, cli: Cli) -> None:
    screens.open(page, "overview")
    expect(page.locator(".wait > li").first).to_be_visible()
    shown = texts(page, ".wait > li .state")
    runs = cli("runs", "ls", "--waiting")
    assert shown.count("Approval") + shown.count("Reconciliation") == len(runs)
    assert shown.count("Failed event") == len(cli("events", "ls"))
    failing = {node["name"] for node in cli("graph")["nodes"] if node["error"] and node["kind"] != "handler"}
    assert failing <= set(texts(page, ".wait > li a.title"))
    assert {run["title"] for run in runs} <= set(texts(page, ".wait > li a.title"))
    seq = cli("stats")[0]["seq"] if "seq" in cli("stats")[0] else cli("graph")["seq"]
    expect(page.locator("#commit")).to_have_text(f"commit {seq}")


def test_graph_has_a_box_for_each_function_or_shares_one(screens: Screens, page: Page, cli: Cli) -> None:
    screens.open(page, "graph")
    expect(page.locator(".scene .node").first).to_be_visible()
    shown = " ".join(str(each) for each in page.locator(".scene .node").evaluate_all("a => a.map(e => e.ariaLabel)"))
    nodes = cli("graph")["nodes"]
    for node in nodes:
        assert node["name"].partition("(")[0] in shown, node["name"]
    counts = {text.split()[0]: int(text.split()[-1]) for text in texts(page, ".filters button")}
    assert sum(counts.values()) == len(nodes)
    assert counts["failed"] == sum(1 for node in nodes if node["error"])


def test_function_says_why_as_the_command_does(screens: Screens, page: Page, cli: Cli) -> None:
    node = next(node for node in cli("graph")["nodes"] if node["name"] == "revenue")
    screens.open(page, f"graph/{node['id']}")
    shown = texts(page, ".why li")
    words = cli("why", "revenue")[0]["words"]
    short = [re.sub(r":([a-z2-7]{5})[a-z2-7]{15,}", r":\1…", each) for each in words]
    assert shown == short
    expect(page.locator(".panel h2")).to_have_text("revenue")
    expect(page.locator(".scene .node.chosen")).to_have_attribute("data-box", re.compile("revenue"))


def test_table_of_functions_has_every_function(screens: Screens, page: Page, cli: Cli) -> None:
    screens.open(page, "graph?view=list")
    nodes = cli("graph")["nodes"]
    expect(page.locator(".listing tbody tr")).to_have_count(len(nodes))
    assert set(key_of(page)) == {node["id"] for node in nodes}


def test_documents_are_those_of_ls(screens: Screens, page: Page, cli: Cli) -> None:
    orders = cli("ls", "order:")
    screens.open(page, "documents?kind=order:")
    expect(page.locator(".docs tbody tr")).to_have_count(len(orders))
    assert set(key_of(page)) == {each["document"] for each in orders}


def test_document_shows_its_fields_with_their_types(screens: Screens, page: Page, cli: Cli) -> None:
    order = cli("ls", "order:")[0]["document"]
    value = cli("get", order)["value"]
    screens.open(page, f"documents/{order}")
    field = page.get_by_label("customer,")
    expect(field).to_have_value(value["customer"])
    expect(page.get_by_label("amount,")).to_have_value(str(value["amount"]))
    changes = cli("history", order)
    expect(page.locator(".past > li")).to_have_count(len(changes))


def test_past_is_read_only_and_what_get_at_says(screens: Screens, page: Page, cli: Cli) -> None:
    first = min(change["seq"] for change in cli("history", "shop.vat"))
    screens.open(page, f"documents/shop.vat?at={first}")
    expect(page.get_by_label("value,")).to_have_value(str(cli("get", "shop.vat", "--at", str(first))["value"]))
    expect(page.get_by_label("value,")).to_have_attribute("readonly", "")
    expect(page.locator("#commit")).to_have_text(f"commit {first}, read only")
    page.get_by_role("button", name="Now").first.click()
    expect(page.get_by_label("value,")).to_have_value(str(cli("get", "shop.vat")["value"]))


def test_runs_are_those_of_the_command(screens: Screens, page: Page, cli: Cli) -> None:
    runs = cli("runs", "ls")
    screens.open(page, "workflows")
    expect(page.locator("main tbody tr")).to_have_count(len(runs))
    assert key_of(page) == [str(run["id"]) for run in runs]
    flows = {flow["name"]: flow["sentence"] for flow in cli("workflow", "ls")}
    assert set(texts(page, ".flow h2")) == set(flows)
    assert set(texts(page, ".flow > p.quiet")) == set(flows.values())


def test_run_shows_its_plan_and_what_can_be_decided(screens: Screens, page: Page, cli: Cli) -> None:
    run = next(run for run in cli("runs", "ls") if run["status"] == "paused:approval")
    screens.open(page, f"workflows/{run['id']}")
    expect(page.locator("h1")).to_have_text(run["title"])
    assert texts(page, ".choice button.button") == ["Approve", "Reject"]
    expect(page.locator(".choice .cli code").first).to_contain_text(f"headwater approve {run['id']}")
    expect(page.get_by_label("Plan as JSON")).to_contain_text("order 4 of Eve")


def test_events_are_those_that_failed(screens: Screens, page: Page, cli: Cli) -> None:
    failed = cli("events", "ls")
    screens.open(page, "events")
    expect(page.locator("main tbody tr")).to_have_count(len(failed))
    assert set(key_of(page)) == {event["event"] for event in failed}
    screens.open(page, f"events/{failed[0]['event']}")
    expect(page.get_by_label("Traceback")).to_contain_text("ValueError")
    expect(page.locator("main")).to_contain_text(failed[0]["reason"])


def test_resources_have_their_state_and_last_error(screens: Screens, page: Page) -> None:
    screens.open(page, "resources")
    expect(page.locator("main tbody tr")).to_have_count(2)
    text = page.locator("main tbody").inner_text()
    assert "USD" in text
    assert "the bank does not answer" in text


def test_pieces_are_those_of_the_command(screens: Screens, page: Page, cli: Cli) -> None:
    pieces = cli("pieces", "ls")
    screens.open(page, "pieces")
    expect(page.locator("main tbody tr")).to_have_count(len(pieces))
    assert set(key_of(page)) == {piece["piece"] for piece in pieces}


def test_query_finds_what_the_values_say(screens: Screens, page: Page, cli: Cli) -> None:
    wanted = {row["document"] for row in cli("ls", "-l", "order:") if row["value"]["amount"] >= 2}
    screens.open(page, "query")
    page.get_by_label("Class or prefix").fill("order:")
    page.get_by_label("Where").fill("amount >= 2")
    page.get_by_role("button", name="Ask").click()
    expect(page.locator("main tbody tr")).to_have_count(len(wanted))
    assert set(key_of(page)) == wanted
    page.get_by_label("Where").fill("amount >=")
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_role("alert")).to_contain_text("amount")


def test_server_screen_of_a_file_says_how_to_serve(screens: Screens, page: Page) -> None:
    screens.open(page, "server")
    expect(page.locator("main")).to_contain_text("headwater serve")


def test_address_that_names_no_screen_says_so(screens: Screens, page: Page) -> None:
    screens.open(page, "nowhere")
    expect(page.locator("main")).to_contain_text('There is no screen "nowhere"')


def test_state_of_a_screen_is_in_its_address(screens: Screens, page: Page) -> None:
    screens.open(page, "graph")
    page.locator(".filters button", has_text="failed").click()
    expect(page).to_have_url(re.compile(r"#/graph\?tone=failed$"))
    page.keyboard.press("v")
    expect(page.locator(".listing tbody tr").first).to_be_visible()
    address = page.url.partition("#/")[2]
    with screens.page() as other:
        screens.open(other, address)
        expect(other.locator(".listing tbody tr")).to_have_count(page.locator(".listing tbody tr").count())
    page.go_back()
    expect(page.locator(".scene")).to_be_visible()


def test_keys_lead_to_every_screen(screens: Screens, page: Page) -> None:
    screens.open(page, "overview")
    for key, screen in dict(zip("ofdwerpqs", SCREENS, strict=True)).items():
        page.keyboard.press("g")
        page.keyboard.press(key)
        expect(page).to_have_url(re.compile(f"#/{screen}$"))
        expect(page.locator("main h1").first).to_be_attached()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Search")
    page.keyboard.press("Escape")
    theme = page.evaluate("document.documentElement.dataset.theme")
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") != theme


def test_search_finds_functions_and_documents(screens: Screens, page: Page) -> None:
    screens.open(page, "overview")
    page.keyboard.press("/")
    page.get_by_label("Search", exact=True).fill("reven")
    expect(page.locator(".found a").first).to_contain_text("revenue")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"#/(graph|documents)/.*revenue"))


SCREENS = ("overview", "graph", "documents", "workflows", "events", "resources", "pieces", "query", "server")
PICTURES = {
    **{name: name for name in SCREENS},
    "why": "graph/revenue#1",
    "table": "graph?view=list",
    "document": "documents/shop.vat",
    "past": "documents/shop.vat?at=160",
    "approval": "workflows/1",
    "inputs": "workflows?tab=inputs",
    "query": "query?prefix=order:&run=1&where=amount >= 2",
}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_no_screen_is_wider_than_the_window(screens: Screens, way: Wide) -> None:
    """And each is kept as a picture."""
    with screens.page(way) as page:
        for name, address in PICTURES.items():
            screens.open(page, address)
            shots(page, f"{name}-{way.name}")
            width = page.evaluate("document.documentElement.scrollWidth")
            assert width <= way.width, f"{name} is {width} wide"
