"""The shop with 100,000 orders in `examples/orders`: a real service, its process killed, and its page in a browser."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.chromium import FOUND, Chromium
from tests.docs.service import Service

FINISHED = Path(__file__).resolve().parents[2] / "examples" / "orders"
FEW = "5000"

RECOUNT = """
import json
from orders import FILE, Order, app, orders
with app.open(FILE):
    found = {}
    for state, cents in orders.scan().values(Order.state, Order.cents):
        total = found.setdefault(state, {"count": 0, "cents": 0})
        total["count"] += 1
        total["cents"] += cents
    numbers = sorted(orders.values(Order.number))
    print(json.dumps([found, numbers == list(range(1, len(numbers) + 1))]))
"""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a few orders."""
    folder = tmp_path_factory.mktemp("filled") / "orders"
    shutil.copytree(FINISHED, folder)
    environment = {**os.environ, "ORDERS_COUNT": FEW}
    subprocess.run([sys.executable, "orders.py"], cwd=folder, env=environment, check=True)
    return folder


@pytest.fixture
def start(tmp_path: Path, filled: Path) -> Iterator[Callable[..., Service]]:
    """Start the service in one folder, again and again. With a few orders, they are there already."""
    shutil.copytree(FINISHED, tmp_path / "orders")
    services: list[Service] = []

    def started(count: str = FEW) -> Service:
        if count == FEW and not services:
            shutil.copy(filled / "orders.db", tmp_path / "orders")
        options = ("--timeout-graceful-shutdown", "1")
        services.append(Service(tmp_path / "orders", *options, web="orders_web:web", ORDERS_COUNT=count))
        return services[-1]

    yield started
    for service in services:
        service.end(signal.SIGKILL)


def got(service: Service, path: str, method: str = "GET") -> Any:
    answer = service.ask(path, method)
    body = json.load(answer)
    assert answer.status == 200, body
    return body


def recounted(folder: Path) -> dict[str, dict[str, int]]:
    """The totals, from all documents of the file. Their numbers go from 1 on, each once."""
    command = [sys.executable, "-c", RECOUNT]
    done = subprocess.run(command, cwd=folder / "orders", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found, is_whole = json.loads(done.stdout)
    assert is_whole
    return dict(found)


def newest_of(service: Service, state: str, count: int) -> list[int]:
    return [row["number"] for row in got(service, f"/orders?state={state}")["rows"][:count]]


@pytest.mark.slow
def test_hundred_thousand_orders_are_inserted_once_and_their_totals_survive_a_kill(
    start: Callable[..., Service], tmp_path: Path
) -> None:
    service = start("100000")
    first, second = newest_of(service, "open", 2)
    before = got(service, "/totals")
    assert sum(total["count"] for total in before.values()) == 100_000
    paid = got(service, f"/orders/{first}/pay", "POST")
    service.end(signal.SIGKILL)
    service = start("100000")
    shipped = got(service, f"/orders/{first}/ship", "POST")
    got(service, f"/orders/{second}/pay", "POST")
    totals = got(service, "/totals")
    assert (paid["state"], shipped["state"]) == ("paid", "shipped")
    assert totals["open"]["count"] == before["open"]["count"] - 2
    assert totals["shipped"]["cents"] == before["shipped"]["cents"] + shipped["cents"]
    service.end(signal.SIGKILL)
    assert recounted(tmp_path) == totals


@pytest.mark.slow
def test_an_insertion_that_is_killed_is_continued_without_a_gap(start: Callable[..., Service], tmp_path: Path) -> None:
    folder = tmp_path / "orders"
    with subprocess.Popen([sys.executable, "orders.py"], cwd=folder) as inserting:
        file = folder / "orders.db"
        while inserting.poll() is None and not (file.exists() and file.stat().st_size > 1 << 19):
            threading.Event().wait(0.01)
        inserting.kill()
    service = start("12000")
    totals = got(service, "/totals")
    service.end(signal.SIGKILL)
    assert recounted(tmp_path) == totals
    assert sum(total["count"] for total in totals.values()) >= 12_000


@pytest.mark.slow
def test_pages_have_every_order_of_a_state_once_and_cursors_are_checked(start: Callable[..., Service]) -> None:
    service = start()
    rows, after = [], None
    while True:
        page = got(service, "/orders?state=paid" + ("" if after is None else f"&after={after}"))
        rows += page["rows"]
        after = page["next"]
        if after is None:
            break
        cursor = after
    assert [row["state"] for row in rows] == ["paid"] * got(service, "/totals")["paid"]["count"]
    assert [row["created"] for row in rows] == sorted({row["created"] for row in rows}, reverse=True)
    for wrong in (f"state=open&after={cursor}", f"state=paid&after={cursor[:-1]}", "customer=order:none", "state=lost"):
        assert service.ask(f"/orders?{wrong}").status in {400, 422}


@pytest.mark.slow
def test_customers_are_found_by_the_beginning_of_their_names(start: Callable[..., Service]) -> None:
    service = start()
    found = got(service, "/customers?begins=Greta%20N")
    assert [each["name"] for each in found] == ["Greta Novak"]
    rows: list[dict[str, Any]] = []
    after: str | None = ""
    while after is not None:
        page = got(service, f"/orders?customer={found[0]['id']}{after}")
        rows += page["rows"]
        after = None if page["next"] is None else f"&after={page['next']}"
    assert {row["customer"] for row in rows} == {"Greta Novak"}
    assert len(rows) == found[0]["orders"] > 0
    assert got(service, "/customers?begins=Zz") == []


@pytest.mark.slow
def test_of_two_payments_at_one_time_one_is_refused(start: Callable[..., Service], tmp_path: Path) -> None:
    service = start()
    numbers = newest_of(service, "open", 6)
    before = got(service, "/totals")
    answers: list[tuple[int, int]] = []

    def pay(number: int) -> None:
        answers.append((number, service.ask(f"/orders/{number}/pay", "POST").status))

    threads = [threading.Thread(target=pay, args=(number,)) for number in numbers for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == sorted((number, status) for number in numbers for status in (200, 409))
    totals = got(service, "/totals")
    assert totals["paid"]["count"] == before["paid"]["count"] + len(numbers)
    refused = service.ask("/orders/999999/pay", "POST")
    assert (refused.status, json.load(refused)) == (409, {"detail": "there is no order 999999"})
    assert service.ask(f"/orders/{10**26}/pay", "POST").status == 400
    service.end(signal.SIGKILL)
    assert recounted(tmp_path) == totals


@pytest.mark.slow
def test_orders_that_are_placed_at_one_time_have_different_numbers(start: Callable[..., Service]) -> None:
    service = start()
    placed: list[dict[str, Any]] = []
    threads = [
        threading.Thread(target=lambda: placed.append(got(service, "/orders?name=Zoe&cents=250", "POST")))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(row["number"] for row in placed) == list(range(5001, 5007))
    assert [each["orders"] for each in got(service, "/customers?begins=Zoe")] == [6]


def event(page: Any) -> Any:
    line = page.readline()
    assert page.readline() == b"\n"
    return json.loads(line.removeprefix(b"data: "))


@pytest.mark.slow
def test_open_pages_get_the_totals_and_the_newest_orders_of_each_change(start: Callable[..., Service]) -> None:
    service = start()
    page = service.ask("/live")
    before = event(page)
    placed = got(service, "/orders?name=Ann%20Abbott&cents=1990", "POST")
    after = event(page)
    assert after["totals"]["open"]["count"] == before["totals"]["open"]["count"] + 1
    (rows, _), (rows_before, _) = after["newest"]["open"], before["newest"]["open"]
    assert rows == [placed, *rows_before[:-1]]
    assert after["newest"]["shipped"] == before["newest"]["shipped"]


@pytest.mark.slow
@pytest.mark.skipif(FOUND is None, reason="needs Chromium: apt-get install chromium")
def test_browser_shows_pages_and_changes_of_others(start: Callable[..., Service], tmp_path: Path) -> None:
    service = start()
    profile = tmp_path / "profile"
    profile.mkdir()
    totals = got(service, "/totals")
    is_paid = f"text === '{totals['paid']['count'] + 1:,}'"
    with Chromium(profile) as browser:
        left, right = (browser.open(f"http://127.0.0.1:{service.port}/") for _ in range(2))
        newest = left.text("#rows tr:first-child td", "text")
        left.text("[data-state=open] b", f"text === '{totals['open']['count']:,}'")
        right.text("#rows tr:first-child td", f"text === '{newest}'")
        left.run("document.querySelector('#rows button').click()")
        for page in (left, right):
            page.text("[data-state=paid] b", is_paid)
            page.text("#rows tr:first-child td", f"text !== '{newest}'")
        page_begins = left.run("document.querySelector('#rows td').textContent")
        last = left.run("document.querySelector('#rows tr:last-child td').textContent")
        left.run("document.querySelector('#next').click()")
        assert int(left.text("#rows tr:first-child td", f"text !== '{page_begins}'")) < int(last)
        right.run("at = document.querySelector('#search'); at.value = 'Greta N'; at.dispatchEvent(new Event('input'))")
        assert right.text("#found", "text").startswith("Greta Novak")
        right.run("document.querySelector('#found button').click()")
        assert right.text("#rows tr:last-child td:nth-child(2)", "text === 'Greta Novak'")
