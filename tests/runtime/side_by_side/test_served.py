"""Two, four and eight runtimes of one program at a server, over real sockets: what one change costs all of them."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import headwater as hw
from headwater.client.remote_storage import RemoteStorage
from headwater.server.server import Server, Serving
from headwater.sync.frames import Ping
from tests.runtime.side_by_side.program import COMPUTED, ROWS, SINKS, WAIT_S, Shop, rows_of

COUNTS = [2, 4, 8]
CHANGES = 3


@contextmanager
def runtimes(server: Server, count: int) -> Iterator[list[Shop]]:
    """All of them have run once, and what they know of each other is the same."""
    shops = [Shop() for _ in range(count)]
    with ExitStack() as stack:
        for shop in shops:
            stack.enter_context(shop.open(f"{server.url}/shop"))
        shops[0].price.value = 2
        all_settle(shops, 2)
        yield shops


def all_settle(shops: list[Shop], price: int) -> None:
    """Each in a thread of its own, as fast as it can."""
    threads = [threading.Thread(target=shop.settle_until, args=(price,)) for shop in shops]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for shop in shops:
        assert shop.is_right(price)
        shop.opened.sync()


def wait_for(shop: Shop, seq: int) -> None:
    """What the log holds has arrived; it is not taken in yet."""
    storage = shop.opened._opening._lease.storage
    assert isinstance(storage, RemoteStorage)
    end = time.monotonic() + WAIT_S
    while storage.link.session.seq < seq:
        assert time.monotonic() < end
        threading.Event().wait(0.002)
    # What came before the answer was handed over before it.
    storage.link.ask(Ping(0))


def runs(shops: list[Shop]) -> dict[str, int]:
    """Of each function, by all of them."""
    counted = [shop.runs() for shop in shops]
    return {name: sum(each[name] for each in counted) for name in (*COMPUTED, *SINKS)}


def sent(shops: list[Shop]) -> int:
    """Commits that they had decided."""
    return sum(shop.opened.stats.commits for shop in shops)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(Serving(store=tmp_path, port=0)) as server:
        yield server


@pytest.mark.parametrize("count", COUNTS)
def test_peers_that_are_slower_run_nothing_but_their_sinks(server: Server, count: int) -> None:
    with runtimes(server, count) as shops:
        for price in range(10, 10 + CHANGES):
            rows, before, adopted = rows_of(server), runs(shops), sum(shop.adopted() for shop in shops)
            shops[0].price.value = price
            shops[0].opened.sync()
            for shop in shops[1:]:
                wait_for(shop, rows_of(server))
            all_settle(shops, price)
            assert rows_of(server) - rows == ROWS, "as many as for one runtime"
            after = runs(shops)
            assert {name: after[name] - before[name] for name in COMPUTED} == dict.fromkeys(COMPUTED, 1)
            assert {name: after[name] - before[name] for name in SINKS} == dict.fromkeys(SINKS, count)
            assert sum(shop.adopted() for shop in shops) - adopted == len(COMPUTED) * (count - 1)


@pytest.mark.parametrize("count", COUNTS)
def test_runtimes_that_all_run_at_once_take_no_more_places_in_the_log(server: Server, count: int) -> None:
    writer = hw.App("office")
    with runtimes(server, count) as shops, writer.open(f"{server.url}/shop") as office:
        # Whoever changes the input has none of the functions: all the others hear of it at once.
        price = office.cell("shop.price", int)
        for value in range(20, 20 + CHANGES):
            rows, before, commits = rows_of(server), runs(shops), sent(shops)
            price.value = value
            office.sync()
            for shop in shops:
                wait_for(shop, rows + 1)
            all_settle(shops, value)
            assert rows_of(server) - rows == ROWS
            after = runs(shops)
            for name in (*COMPUTED, *SINKS):
                assert after[name] - before[name] <= count + 1, name
            # The first of each result took its place; the others were elided, or never sent.
            assert sent(shops) - commits <= len(COMPUTED) * count


def test_one_runtime_that_is_late_by_many_changes_runs_nothing_but_its_sinks(server: Server) -> None:
    with runtimes(server, 3) as shops:
        late = shops.pop()
        before = late.runs()
        for price in range(30, 36):
            shops[0].price.value = price
            all_settle(shops, price)
        wait_for(late, rows_of(server))
        late.settle_until(35)
        after = late.runs()
        assert [after[name] - before[name] for name in COMPUTED] == [0] * len(COMPUTED)
        assert [after[name] - before[name] for name in SINKS] == [1, 1]
        assert "adopted" in hw.why(next(each for each in late.opened.nodes if getattr(each, "name", "") == "both"))


class Process:
    """One runtime in a process of its own."""

    def __init__(self, url: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.runtime.side_by_side.program", url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def hear(self) -> dict[str, dict[str, int]]:
        assert self._process.stdout is not None
        found: dict[str, dict[str, int]] = json.loads(self._process.stdout.readline())
        return found

    def end(self) -> None:
        with self._process:
            try:
                self.say("end")
                assert self._process.wait(WAIT_S) == 0
            finally:
                self._process.kill()


@pytest.mark.slow
def test_processes_share_the_work_and_the_log_is_as_of_one(server: Server) -> None:
    with ExitStack() as stack:
        processes = [Process(f"{server.url}/shop") for _ in range(4)]
        for each in processes:
            stack.callback(each.end)
        for each in processes:
            each.hear()

        def change(price: int) -> dict[str, int]:
            processes[0].say(f"set {price}")
            for each in processes[1:]:
                each.say(f"see {price}")
            told = [each.hear()["runs"] for each in processes]
            return {name: sum(each[name] for each in told) for name in COMPUTED}

        before = change(5)
        for price in (6, 7, 8):
            rows = rows_of(server)
            after = change(price)
            assert rows_of(server) - rows == ROWS
            for name in COMPUTED:
                assert after[name] - before[name] <= len(processes) + 1
            before = after
