"""Each answer says what the command line says about the same space, while a program has it open and afterwards."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

import headwater as hw
from tests.studio.locally import command, local_page
from tests.studio.pages import PageClient
from tests.studio.shop import ROWS, ignore, make_shop


class Place:
    """A file, and a tab of its Studio."""

    def __init__(self, file: str, page: PageClient, *, is_closed: bool) -> None:
        self.file = file
        self.is_closed = is_closed
        self.page = page


def _work(shop_file: str) -> hw.Space:
    shop = make_shop()
    space = shop.app.open(shop_file, on_error=ignore)
    for number in range(2, 5):
        shop.counted.value = number
    for amount in (200, 300):
        with pytest.raises(hw.EventFailedError):
            shop.add.send(amount).result()
    shop.add.send(10).result()
    space.sync()
    return space


@pytest.fixture(scope="module", params=["open", "closed"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    file = str(tmp_path_factory.mktemp("studio") / "shop.db")
    space = _work(file)
    if request.param == "closed":
        space.close()
    with local_page(file) as page:
        yield Place(file, page, is_closed=request.param == "closed")
    space.close()


def test_documents_are_those_of_ls_with_their_values(place: Place) -> None:
    told = command("ls", "--long", "--url", place.file)
    found = place.page.ask("documents")
    assert [(row["address"], row["seq"], json.loads(row["value"]["text"])) for row in found["documents"]] == [
        (row["document"], row["seq"], row["value"]) for row in told
    ]
    assert found["hidden"] > 0


def test_pages_of_documents_are_the_whole_list_in_order(place: Place) -> None:
    whole = [row["address"] for row in place.page.ask("documents")["documents"]]
    paged, after = [], ""
    while True:
        page = place.page.ask("documents", limit=2, after=after)
        assert len(page["documents"]) <= 2
        paged += [row["address"] for row in page["documents"]]
        if not (after := page["next"]):
            break
    assert paged == whole


def test_a_document_is_what_get_prints_now_and_then(place: Place) -> None:
    address = "shop.count"
    found = place.page.ask("document", address=address)
    told = command("get", address, "--url", place.file)
    assert json.loads(found["value"]["text"]) == told["value"]
    history = place.page.ask("history", address=address)["changes"]
    told_history = command("history", address, "--url", place.file)
    assert [(row["seq"], row["session"], row["change"]) for row in history] == [
        (row["seq"], row["session"], row["change"]) for row in told_history
    ]
    first = place.page.ask("document", address=address, at=history[-1]["seq"])
    then = command("get", address, "--at", history[-1]["seq"], "--url", place.file)
    assert json.loads(first["value"]["text"]) == then["value"]
    assert not first["may_edit"]
    assert "commit" in first["why_not"]


def test_a_document_has_the_type_that_the_app_declares(place: Place) -> None:
    assert place.page.ask("document", address="shop.count")["type"] == "int"
    assert place.page.ask("document", address="shop.double")["type"] == ""


def test_a_history_is_paged_newest_first(place: Place) -> None:
    whole = [row["seq"] for row in place.page.ask("history", address="shop.count")["changes"]]
    assert whole == sorted(whole, reverse=True)
    assert len(whole) > 2
    first = place.page.ask("history", address="shop.count", limit=2)
    second = place.page.ask("history", address="shop.count", limit=2, before=first["next"])
    assert [row["seq"] for row in (*first["changes"], *second["changes"])] == whole[:4]


def test_a_document_that_does_not_exist_says_what_get_says(place: Place) -> None:
    found = place.page.ask("document", address="shop.cout")
    assert not found["exists"]
    assert "did you mean shop.count or shop.double?" in found["why_not"]


def test_a_result_is_not_edited_and_names_its_function(place: Place) -> None:
    found = place.page.ask("document", address="shop.double")
    assert found["writer_name"] == "double"
    assert not found["may_edit"]
    readers = [part["text"] for part in place.page.ask("document", address="shop.count")["readers"]]
    assert "double" in readers


def test_a_difference_is_that_of_diff(place: Place) -> None:
    seqs = [row["seq"] for row in place.page.ask("history", address="shop.count")["changes"]]
    older, newer = seqs[-1], seqs[0]
    found = place.page.ask("difference", older=older, newer=newer)["lines"]
    counted = next(line for line in found if line["address"] == "shop.count")
    assert counted["op"] == "changed"
    for side, seq in (("older", older), ("newer", newer)):
        then = command("get", "shop.count", "--at", seq, "--url", place.file)
        assert json.loads(counted[side]["text"]) == then["value"]
    if place.is_closed:
        # The command opens the file itself.
        told = command("diff", older, newer, "--url", place.file)
        assert [(line["address"], line["op"]) for line in found if not line["path"]] == [
            (line["address"], line["change"]) for line in told if "/" not in line["address"]
        ]


def test_commits_are_paged_and_name_their_documents(place: Place) -> None:
    found = place.page.ask("commits", limit=1000)
    assert found["next"] == 0
    paged, before = [], 0
    while True:
        page = place.page.ask("commits", limit=4, before=before)
        paged += page["commits"]
        if not (before := page["next"]):
            break
    assert paged == found["commits"]
    seq = place.page.ask("history", address="shop.count")["changes"][0]["seq"]
    assert "shop.count" in next(row for row in found["commits"] if row["seq"] == seq)["documents"]


def test_branches_are_those_of_branches(place: Place) -> None:
    found = place.page.ask("branches")["branches"]
    assert [row["name"] for row in found] == [row["branch"] for row in command("branches", "--url", place.file)]


def test_the_graph_has_a_box_for_each_function_and_one_for_many(place: Place) -> None:
    graph = place.page.ask("graph")
    boxes = {box[1]: box for box in graph["boxes"]}
    assert {"double", "is_big", "broken", "show", "chart", "add"} <= boxes.keys()
    shared = boxes[f"row x {ROWS}"]
    assert shared[3] == ROWS
    states = {graph["boxes"][state[0]][1]: state for state in graph["states"]}
    assert states["broken"][1] == "failed"
    assert "ZeroDivisionError" in states["broken"][4]
    assert states["double"][1] == "clean"
    assert graph["folded"] == ROWS
    for source, target, _kind, points, _course in graph["routes"]:
        assert 0 <= source < len(graph["boxes"])
        assert 0 <= target < len(graph["boxes"])
        assert len(points) % 2 == 0


def test_boxes_do_not_overlap(place: Place) -> None:
    boxes = place.page.ask("graph")["boxes"]
    for at, box in enumerate(boxes):
        x, y, width, height = box[4:8]
        for other in boxes[:at]:
            left, top, wide, high = other[4:8]
            assert x + width <= left or left + wide <= x or y + height <= top or top + high <= y


def test_the_runs_of_functions_are_those_of_top(place: Place) -> None:
    told = {row["function"]: row["runs"] for row in command("top", "--once", "--url", place.file)}
    rows = place.page.ask("functions")["functions"]
    found: dict[str, int] = {}
    for row in rows:
        name = row["name"].partition("(")[0]
        found[name] = found.get(name, 0) + row["runs"]
    assert {name.partition("(")[0].rpartition(".")[2]: runs for name, runs in told.items()} == found


def test_the_table_filters_sorts_and_pages(place: Place) -> None:
    whole = place.page.ask("functions", sort="runs")
    runs = [row["runs"] for row in whole["functions"]]
    assert runs == sorted(runs, reverse=True)
    assert {row["name"] for row in place.page.ask("functions", tone="failed")["functions"]} >= {"broken"}
    shared = next(box for box in place.page.ask("graph")["boxes"] if box[3] == ROWS)
    members = place.page.ask("functions", box=shared[0], limit=4)
    rest = place.page.ask("functions", box=shared[0], limit=4, after=members["next"])
    assert (members["total"], len(members["functions"]), len(rest["functions"])) == (ROWS, 4, ROWS - 4)
    assert all(row["box"] == shared[0] for row in members["functions"])
    assert place.page.ask("functions", search="DOUB")["total"] == 1


def test_a_function_says_what_why_says(place: Place) -> None:
    found = place.page.ask("function", node="double#1")
    said = "\n".join("".join(part["text"] for part in sentence) for sentence in found["why"])
    told = command("why", "double", "--url", place.file)
    text = json.dumps(told)
    for line in said.split("\n")[:1]:
        assert json.dumps(line)[1:-1] in text
    assert found["reads"] == ["shop.count"]
    linked = [part for sentence in found["why"] for part in sentence if part["kind"] == "document"]
    assert any(part["target"] == "shop.count" for part in linked)
    assert {part["text"] for part in found["readers"]} >= {"is_big"}


def test_around_a_function_is_only_what_is_near(place: Place) -> None:
    node = place.page.ask("functions", search="broken")["functions"][0]["id"]
    near = place.page.ask("graph", around=node, hops=1)
    whole = place.page.ask("graph")
    assert 0 < len(near["boxes"]) < len(whole["boxes"])
    assert place.page.ask("graph", around="nothing#9")["code"] == "HW106"


def test_failed_events_are_those_of_events_ls_by_reason(place: Place) -> None:
    told = command("events", "ls", "--url", place.file)
    found = place.page.ask("events")
    assert {row["event"] for row in found["events"]} == {row["event"] for row in told}
    assert found["total"] == found["counts"]["failed"] == 2
    assert sorted(group["reason"] for group in found["groups"]) == [
        "ValueError: 200 is too many, asked",
        "ValueError: 300 is too many, asked",
    ]
    one = place.page.ask("events", reason=found["groups"][0]["reason"])
    assert one["total"] == 1
    first = place.page.ask("events", limit=1)
    second = place.page.ask("events", limit=1, after=first["next"])
    assert [*first["events"], *second["events"]] == found["events"]


def test_an_event_has_its_payload_and_traceback(place: Place) -> None:
    event = place.page.ask("events")["events"][0]["event"]
    found = place.page.ask("event", event=event)
    told = command("events", "show", event, "--url", place.file)
    assert json.loads(found["event"]["payload"]) == told["payload"]
    assert "too many" in found["event"]["traceback"]
    assert found["may_drop"]


def test_workflows_runs_and_inputs_are_empty_lists_where_there_are_none(place: Place) -> None:
    assert place.page.ask("workflows") == {"workflows": []}
    assert place.page.ask("runs") == {"runs": [], "next": 0}
    assert place.page.ask("inputs") == {"inputs": [], "next": 0}
    assert place.page.ask("run", number=7)["code"] == "HW106"
    assert place.page.ask("pieces")["total"] == 0
    assert place.page.ask("resources")["total"] == 0
    assert place.page.ask("collections") == {"collections": []}


def test_the_overview_counts_what_waits(place: Place) -> None:
    found = place.page.ask("overview")
    kinds = [each["kind"] for each in found["waits"]]
    assert kinds.count("event") == 2
    assert "function" in kinds
    assert found["counts"]["events"] == 2
    assert found["waits_count"] == len(found["waits"])
    totals = {counter["name"]: counter["total"] for counter in found["counters"]}
    assert totals["events"] == 3
    assert totals["commits"] > 0
    assert sum(found["tones"].values()) == len(place.page.ask("functions")["functions"])


def test_kinds_have_the_counts_of_ls(place: Place) -> None:
    told = command("ls", "--url", place.file)
    found = place.page.ask("kinds")
    assert found["total"] == len(told)


def test_a_query_selects_sorts_and_pages(place: Place) -> None:
    assert place.page.ask("query", prefix="shop.", where="exists")["code"] == "HW100"
    rows = place.page.ask("query", prefix="shop.")
    assert rows["found"] == rows["scanned"] == len(command("ls", "shop.", "--url", place.file))
    assert rows["complete"]
    assert rows["command"].startswith("headwater ls")


def test_a_search_finds_functions_and_documents(place: Place) -> None:
    targets = {row["target"] for row in place.page.ask("search", text="double")["rows"]}
    assert "graph/double#1" in targets
    assert "documents/shop.count" in {row["target"] for row in place.page.ask("search", text="shop.co")["rows"]}


def test_an_answer_with_the_same_mark_is_not_sent_again(place: Place) -> None:
    page = place.page
    page.number += 1
    page.send(t="ask", n=page.number, q={"type": "documents"})
    first = page.frame()
    page.number += 1
    page.send(t="ask", n=page.number, q={"type": "documents"}, mark=first["mark"])
    second = page.frame()
    if first.get("live", "live") == "live":
        assert second["same"]
        assert "record" not in second
