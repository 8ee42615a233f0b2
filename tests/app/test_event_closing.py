"""Closing while events wait, are handled or are on their way to the disk: none is lost, none is handled twice."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path

import pytest

import headwater as hw
from headwater.core import doc_key
from headwater.errors import ClosedError
from headwater.host.async_opening import AsyncOpening
from headwater.runtime.event_service import CLOSE_MS
from headwater.runtime.options import Options
from tests.app.holding import SAFETY_S, disk_held
from tests.app.simulated import Lab, pause, sim_loop
from tests.app.timed import Timed
from tests.support.tickets import came_to


class Hall:
    """An app whose events wait for a value that has to be calm first; and a log that outlives it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        self.url = str(tmp_path / "hall.db")
        self.timed = Timed(monkeypatch)
        app = self.timed.app
        self.x = app.cell("x", 0)
        self.calm = app.computed(name="calm", debounce="2s")(lambda: self.x.value)
        self.stormy = app.computed(name="stormy", debounce="1h")(lambda: self.x.value)
        self.seen = app.cell("seen", list[str]())
        self.read = app.handler(name="read")(self._read)
        self.read_late = app.handler(name="read_late")(self._read_late)
        self.note = app.handler(name="note")(self._note)

    def open(self) -> hw.Space:
        return self.timed.open(self.url)

    def unsettle(self) -> None:
        """From now on, whoever reads the value has to wait."""
        assert (self.calm(), self.stormy()) == (self.x.value, self.x.value)
        self.x.value += 1

    def _note(self, text: str) -> str:
        self.seen.append(text)
        return text

    def _read(self, text: str) -> int:
        self._note(f"{text} {self.calm()}")
        return self.calm()

    def _read_late(self, text: str) -> int:
        self._note(f"{text} {self.stormy()}")
        return self.stormy()


@pytest.fixture
def hall(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Hall:
    return Hall(monkeypatch, tmp_path)


# --- plain code -------------------------------------------------------------------------------------------


def test_events_that_wait_for_a_moment_are_handled_before_the_space_is_closed(hall: Hall) -> None:
    with hall.open():
        hall.unsettle()
        began = hall.timed.time
        tickets = [hall.read.send("a"), hall.note.send("b")]
        assert [ticket.state for ticket in tickets] == ["queued", "queued"]
    assert [ticket.result() for ticket in tickets] == [1, "b"]
    assert 2000 <= hall.timed.time - began < CLOSE_MS
    with hall.open():
        assert hall.seen.value == ["a 1", "b"]


def test_events_that_wait_for_long_are_not_waited_for_and_are_handled_when_the_space_is_opened_again(
    hall: Hall, caplog: pytest.LogCaptureFixture
) -> None:
    with hall.open(), caplog.at_level(logging.WARNING):
        hall.unsettle()
        began = hall.timed.time
        tickets = [hall.read_late.send("a"), hall.note.send("b")]
    assert hall.timed.time - began < 1000
    assert [ticket.state for ticket in tickets] == ["queued", "queued"]
    assert "closed while 2 events wait; they are handled when the space is opened again" in caplog.text
    with hall.open() as space:
        assert hall.seen.value == ["a 1", "b"]
        assert space._opening.replica.read(doc_key("events:outbox")) == {}
        hall.note.send("c")
    with hall.open():
        assert hall.seen.value == ["a 1", "b", "c"]


def test_one_event_that_waits_is_told_of_as_one(hall: Hall, caplog: pytest.LogCaptureFixture) -> None:
    with hall.open(), caplog.at_level(logging.WARNING):
        hall.unsettle()
        hall.read_late.send("a")
    assert "closed while 1 event waits; it is handled when the space is opened again" in caplog.text


def test_events_that_wait_in_memory_are_told_to_be_lost(hall: Hall, caplog: pytest.LogCaptureFixture) -> None:
    hall.url = "memory:"
    for number, told in enumerate(["1 event waits; it is lost", "2 events wait; they are lost"], start=1):
        caplog.clear()
        with hall.open(), caplog.at_level(logging.WARNING):
            hall.unsettle()
            for _ in range(number):
                hall.read_late.send("a")
        assert f"closed while {told}, since the space was in memory" in caplog.text


def test_those_who_asked_are_told_once_that_the_space_was_closed_before(hall: Hall) -> None:
    heard: list[tuple[str, bool]] = []
    with hall.open():
        hall.unsettle()
        ticket = hall.read_late.send("a").on_commit(lambda ticket: heard.append((ticket.state, ticket.is_done)))
    assert heard == [("queued", False)]
    with pytest.raises(ClosedError, match="It is handled when the space is opened again"):
        ticket.result()
    with hall.open():
        assert hall.seen.value == ["a 1"]
    assert heard == [("queued", False)]


def test_event_with_a_name_of_its_own_that_was_left_is_handled_once_however_often_it_comes(hall: Hall) -> None:
    with hall.open():
        hall.unsettle()
        hall.read_late.once("17").send("a")
    with hall.open() as space:
        space.sync()
        again = hall.read_late.once("17").send("a")
        assert (again.result(), again.state, hall.seen.value) == (1, "refused", ["a 1"])


def test_what_a_transaction_has_sent_is_handled_after_a_crash(hall: Hall, tmp_path: Path) -> None:
    """A copy of the file, taken while the event waits, is what a crash would leave."""
    with hall.open() as space:
        hall.unsettle()
        with space.transaction():
            hall.read_late.send("a")
            hall.note.send("b")
        space.sync()
        copy = tmp_path / "copy.db"
        for suffix in ("", "-wal"):
            copy.with_name(copy.name + suffix).write_bytes(Path(hall.url + suffix).read_bytes())
    with hall.timed.open(str(copy)):
        assert hall.seen.value == ["a 1", "b"]


def test_interrupt_in_a_handler_reaches_the_sender_and_the_other_events_are_handled(hall: Hall) -> None:
    @hall.timed.app.handler
    def interrupted() -> None:
        hall.seen.append("interrupted")
        raise KeyboardInterrupt

    with hall.open() as space:
        with pytest.raises(KeyboardInterrupt), space.transaction():
            tickets = [hall.note.send("a"), interrupted.send(), hall.note.send("b")]
        assert came_to(*tickets) == ["handled", "failed", "queued"]
        assert tickets[1].reason == "it was interrupted by KeyboardInterrupt"
        hall.x.value = 5
        assert hall.seen.value == ["a", "b"]
    assert [error.facts["event"] for error in hall.timed.errors] == [tickets[1].id]


def test_program_that_is_interrupted_in_a_handler_handles_the_others_before_it_ends(hall: Hall) -> None:
    @hall.timed.app.handler
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), hall.open() as space, space.transaction():
        interrupted.send()
        ticket = hall.note.send("b")
    assert ticket.result() == "b"


def test_another_thread_that_closes_waits_for_the_handler_that_is_at_work(hall: Hall) -> None:
    at_work, go_on = threading.Event(), threading.Event()

    @hall.timed.app.handler
    def slow() -> str:
        at_work.set()
        assert go_on.wait(SAFETY_S)
        hall.seen.append("slow")
        return "done"

    tickets: list[hw.Ticket[str]] = []
    space = hall.open()
    sender = threading.Thread(target=lambda: tickets.append(slow.send()))
    sender.start()
    assert at_work.wait(SAFETY_S)
    closer = threading.Thread(target=space.close)
    closer.start()
    go_on.set()
    sender.join(SAFETY_S)
    closer.join(SAFETY_S)
    assert (space.closed, tickets[0].result()) == (True, "done")
    with hall.open():
        assert hall.seen.value == ["slow"]


def test_second_opening_of_a_file_does_not_handle_what_the_first_one_has_to(hall: Hall) -> None:
    """What waits there is in its hands; if it is closed while the other is open, it waits for the next opening."""
    with hall.open() as first:
        hall.unsettle()
        with first.transaction():
            ticket = hall.read_late.send("a")
        first.sync()
        with hall.open() as second:
            assert second.runs(hall.read_late) == 0
            assert ticket.state == "queued"
    with hall.open():
        assert hall.seen.value == ["a 1"]


def test_sending_to_a_closed_space_is_refused(hall: Hall) -> None:
    space = hall.open()
    with space:
        pass
    with pytest.raises(ClosedError, match="was closed; open it again"):
        space._opening.send("timed.note", {})


def test_pending_events_are_confirmed_by_closing(hall: Hall) -> None:
    with hall.open() as space:
        assert hall.seen.value == []
        with disk_held(space._opening):
            ticket = hall.note.send("a")
            states = [ticket.state]
    assert [*states, ticket.state] == ["pending", "confirmed"]


# --- event loops ------------------------------------------------------------------------------------------


class LateLab(Lab):
    """With a file, for what is left there."""

    def __init__(self, tmp_path: Path) -> None:
        super().__init__()
        self.url = str(tmp_path / "lab.db")
        self.x = self.app.cell("x", 0)

    def reopen(self) -> AsyncOpening:
        return self.app.aopen_with(self.url, Options(now=sim_loop().now_ms, on_error=self.errors.append))


@pytest.mark.parametrize(("debounce", "closed_at", "handled_at"), [("2s", 2000, 2000), ("1h", 0, 0)])
def test_async_space_waits_a_moment_for_parked_events_and_leaves_the_others(
    tmp_path: Path, debounce: str, closed_at: int, handled_at: int
) -> None:
    lab = LateLab(tmp_path)

    @lab.app.computed(debounce=debounce)
    def calm() -> int:
        return lab.x.value

    @lab.app.handler
    def read() -> int:
        lab.note("read", calm())
        return calm()

    async def main() -> None:
        async with lab.reopen():
            assert calm() == 0
            lab.x.value = 1
            read.send()
        lab.note("closed")
        assert lab.taken()[-1] == (closed_at, "closed")
        async with lab.reopen():
            pass

    lab.run(main)
    assert lab.taken() == ([] if handled_at else [(0, "read", 1)])


def test_async_handler_that_is_under_way_is_waited_for_a_moment(tmp_path: Path) -> None:
    lab = LateLab(tmp_path)

    @lab.app.handler
    async def slow(ms: int) -> int:
        lab.note("begun", ms)
        await pause(ms)
        lab.x.value += ms
        return ms

    async def main() -> None:
        async with lab.reopen():
            quick = slow.send(1000)
        assert (quick.state, lab.taken()) == ("confirmed", [(0, "begun", 1000)])
        async with lab.reopen():
            too_slow, behind = slow.send(3_600_000), slow.send(1)
        assert (too_slow.state, behind.state) == ("queued", "queued")
        lab.note("closed")
        assert lab.taken() == [(1000, "begun", 3_600_000), (6000, "closed")]
        async with lab.reopen() as space:
            assert lab.x.value == 1000  # it can be used while that goes on
            await space.settle()
            assert lab.x.value == 3_601_001
        assert lab.taken() == [(6000, "begun", 3_600_000), (3_606_000, "begun", 1)]

    lab.run(main)


def test_who_awaits_a_ticket_while_the_space_is_closed_is_told(tmp_path: Path) -> None:
    lab = LateLab(tmp_path)

    @lab.app.computed(debounce="1h")
    def calm() -> int:
        return lab.x.value

    @lab.app.handler
    def read() -> int:
        return calm()

    async def wait_for(ticket: hw.Ticket[int]) -> str:
        try:
            await ticket
        except ClosedError as error:
            return error.message
        return "answered"

    async def main() -> str:
        async with lab.reopen():
            assert calm() == 0
            lab.x.value = 1
            waiting = asyncio.create_task(wait_for(read.send()))
            await pause(1)
        return await waiting

    assert "was closed before its turn" in lab.run(main)


def test_thread_that_waits_for_a_ticket_while_the_space_is_closed_is_told(tmp_path: Path) -> None:
    app = hw.App("lab")
    x = app.cell("x", 0)
    told: list[str] = []
    sent = threading.Event()

    @app.computed(debounce="1h")
    def calm() -> int:
        return x.value

    @app.handler
    def read() -> int:
        return calm()

    def work() -> None:
        ticket = read.send()
        sent.set()
        try:
            ticket.result()
        except ClosedError as error:
            told.append(error.message)

    async def main() -> None:
        thread = threading.Thread(target=work)
        async with app.aopen(tmp_path / "lab.db"):
            assert calm() == 0
            x.value = 1
            thread.start()
            assert await asyncio.to_thread(sent.wait, SAFETY_S)
        await asyncio.to_thread(thread.join, SAFETY_S)

    asyncio.run(main())
    assert "was closed before its turn" in told[0]


def test_async_space_that_is_closed_by_its_handler_says_why_not(tmp_path: Path) -> None:
    lab = LateLab(tmp_path)
    spaces: list[hw.AsyncSpace] = []

    @lab.app.handler
    async def stop() -> None:
        await spaces[0].close()

    async def main() -> None:
        async with lab.reopen() as space:
            spaces.append(space)
            with pytest.raises(hw.EventFailedError, match="an async function cannot close the space that it runs in"):
                await stop.send()

    lab.run(main)


def test_event_that_is_sent_while_the_space_is_closed_does_not_overtake_those_that_wait(tmp_path: Path) -> None:
    app = hw.App("counter")
    order = app.cell("order", type=list[int], default=[])

    @app.handler
    def add(number: int) -> None:
        order.append(number)

    with app.open(tmp_path / "a.db") as space:
        space._opening.is_sole = True
        space._opening.events.leave()
        for number in (1, 2):
            add.send(number)
            space.settle()
        assert order.value == []
    with app.open(tmp_path / "a.db"):
        assert order.value == [1, 2]
