"""A space of a server in an event loop: nothing there waits for the server, whatever state that is in."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

import pytest

import headwater as hw
from headwater.client import server_link as links
from headwater.client.server_link import ServerLink
from headwater.errors import HeadwaterError, NotReadyError, OfflineError
from tests.client.world import SPACE, Behind, behind
from tests.server.running import DEADLINE_S, ServeProcess, settle_in

P = ParamSpec("P")

PAUSE_MAX_S = 0.5
"""How long the loop may be held up. Who waits for a server that is stopped waits longer."""


def looped(test: Callable[P, Coroutine[object, object, None]]) -> Callable[P, None]:
    """A test that runs in a loop."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was waited for in a thread that has a loop."""
    found: list[str] = []

    def watch(name: str) -> None:
        wait: Callable[..., object] = getattr(ServerLink, name)

        def watched(self: ServerLink, *args: object, **options: object) -> object:
            try:
                asyncio.get_running_loop()
                found.append(name)
            except RuntimeError:
                pass
            return wait(self, *args, **options)

        monkeypatch.setattr(ServerLink, name, watched)

    for name in ("ask", "wait_until", "stop", "start"):
        watch(name)
    return found


class Ticker:
    """Looks at the clock all the time, in the loop."""

    def __init__(self) -> None:
        self.longest = 0.0
        self.count = 0

    async def run(self) -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            self.longest = max(self.longest, now - last)
            last = time.perf_counter()
            self.count += 1


@asynccontextmanager
async def ticking() -> AsyncIterator[Ticker]:
    ticker = Ticker()
    task = asyncio.create_task(ticker.run())
    try:
        yield ticker
    finally:
        task.cancel()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServeProcess]:
    settle_in(tmp_path, monkeypatch)
    with ServeProcess(tmp_path / "store") as process:
        yield process
        process.end(signal.SIGCONT)


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Behind]:
    settle_in(tmp_path, monkeypatch)
    with behind(tmp_path / "store") as world:
        yield world


async def until(is_so: Callable[[], object], what: str) -> None:
    end = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < end, what
        await asyncio.sleep(0.01)


@hw.pattern
def card(p: hw.Builder, who: str) -> dict[str, Any]:
    clicks = p.cell("clicks", 0)

    @p.computed
    def label() -> str:
        return f"{who} {clicks.value}"

    return {"label": label}


class Notes:
    """A program with a computed function, one with parameters, and documents that are linked to."""

    def __init__(self) -> None:
        app = self.app = hw.App("notes")
        number = self.number = app.cell("number", 1)
        seen = self.seen = list[int]()

        @app.computed
        def double() -> int:
            return number.value * 2

        @app.computed
        def times(by: int) -> int:
            return number.value * by

        @app.sink
        def show() -> None:
            seen.append(double() + times(3))

        @app.handler
        def add(by: int) -> int:
            number.value += by
            return number.value

        self.double, self.times, self.add = double, times, add


@looped
async def test_a_server_that_is_stopped_holds_up_no_loop(
    server: ServeProcess, monkeypatch: pytest.MonkeyPatch, waits: list[str]
) -> None:
    monkeypatch.setattr(links, "STALL_S", 1.0)
    url = f"{server.url}/{SPACE}"
    first = Notes()
    async with first.app.aopen(url, actor="ann") as space:
        first.times(4)
        space.start(card, "one", who="ann")
        await space.synced()
    notes = Notes()
    async with ticking() as ticker:
        opening = asyncio.ensure_future(_open(notes, url))
        await asyncio.sleep(0.02)
        server.end(signal.SIGSTOP)
        await asyncio.sleep(0.3)
        server.end(signal.SIGCONT)
        space = await opening
        assert notes.seen == [5]
        server.end(signal.SIGSTOP)
        # Not here: another app's. Nobody waits for it.
        with pytest.raises(NotReadyError):
            print(space.cell("elsewhere.thing", int, default=7).value)
        assert notes.times(4) == 4
        assert notes.times(5) == 5
        for key in ("one", "two"):
            # Whether anybody has clicked on it before, only the server knows.
            with pytest.raises(NotReadyError):
                space.start(card, key, who="ann").outputs["label"]()
        notes.number.value = 2
        ticket = notes.add.send(1)
        await until(lambda: notes.seen[-1] == 15, "the handler has run")
        with pytest.raises(OfflineError):
            await space.synced()
        server.end(signal.SIGCONT)
        assert await ticket == 3
        await space.synced()
        server.end(signal.SIGSTOP)
        notes.number.value = 5
        with pytest.raises(HeadwaterError):
            await space.close()
    assert not waits
    assert ticker.count > 100
    assert ticker.longest < PAUSE_MAX_S


async def _open(notes: Notes, url: str) -> hw.AsyncSpace:
    return await notes.app.aopen(url, actor="ann").__aenter__()


@looped
async def test_a_run_that_meets_a_document_which_is_not_here_is_repeated_when_it_comes(at: Behind) -> None:
    other = hw.App("other")
    thing = other.cell("thing", 0)
    with other.open(at.straight, actor="bob"):
        thing.value = 42
    app = hw.App("notes")
    seen: list[int] = []
    async with app.aopen(at.url, token=at.token, actor="ann") as space:
        cell = space.cell("other.thing", int, default=-1)

        @app.sink
        def show() -> None:
            seen.append(cell.value)

        await until(lambda: seen, "it has come")
        assert seen == [42]
        with other.open(at.straight, actor="bob"):
            thing.value = 43
        await until(lambda: seen[-1] == 43, "it is watched")
        assert seen == [42, 43]


@looped
async def test_what_is_kept_of_runs_is_taken_over_in_a_loop(at: Behind) -> None:
    first, again = Notes(), Notes()
    async with first.app.aopen(at.url, token=at.token, actor="ann") as space:
        await space.settled()
        assert space.runs(first.double) == 1
    async with again.app.aopen(at.url, token=at.token, actor="ann") as space:
        await space.settled()
        assert again.seen == [5]
        assert space.runs(again.double) == 0, space.explain_resume()


@looped
async def test_who_gives_up_opening_leaves_nothing_open(at: Behind) -> None:
    notes = Notes()
    at.proxy.freeze(True)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            async with notes.app.aopen(at.url, token=at.token, actor="ann"):
                pytest.fail("it cannot be open")
    at.proxy.freeze(False)
    assert not notes.app._homes
    async with notes.app.aopen(at.url, token=at.token, actor="ann"):
        assert notes.number.value == 1


@looped
async def test_changes_of_the_connection_are_told_in_the_loop(at: Behind) -> None:
    notes = Notes()
    told: list[tuple[str, object]] = []
    async with notes.app.aopen(at.url, token=at.token, actor="ann") as space:
        space.on_connection(lambda each: told.append((each.state, asyncio.get_running_loop())))
        at.proxy.cut()
        await until(lambda: told and told[-1][0] == "live" and len(told) > 1, "it is back")
        loop = asyncio.get_running_loop()
        assert {each for _, each in told} == {loop}


@looped
async def test_the_status_of_a_cell_is_followed_in_a_loop_by_plain_and_async_functions(at: Behind) -> None:
    app = hw.App("seats")
    seat = app.cell("seat", "")
    plain: list[str] = []
    slow: list[str] = []

    @app.sink
    def show() -> None:
        plain.append(f"{seat.value!r} {hw.status(seat)}")

    @app.sink
    async def show_slowly() -> None:
        shown = f"{seat.value!r} {hw.status(seat)}"
        await asyncio.sleep(0)
        slow.append(shown)

    expected = ["'' confirmed", "'ann' pending", "'ann' confirmed"]
    async with app.aopen(at.url, token=at.token, actor="ann") as space:
        at.proxy.freeze(True)
        seat.value = "ann"
        await until(lambda: plain == expected[:2] == slow, "it is shown as pending")
        at.proxy.freeze(False)
        await space.synced()
        await until(lambda: plain == expected == slow, "it is shown as confirmed")
