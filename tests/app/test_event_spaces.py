"""Events sent in a transaction of one space to an app that is open in another: they wait for what sent them."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import ClosedError, ConflictError, UsageError, WriteError
from tests.app.holding import SAFETY_S, disk_held, in_thread
from tests.app.shop import run
from tests.support.apart import overtake
from tests.support.tickets import came_to


class Towns:
    """Two apps, each with a cell and a handler that adds to it; the first one's may send on to the second one."""

    def __init__(self) -> None:
        self.near = hw.App("near")
        self.far = hw.App("far")
        self.here = self.near.cell("here", 0)
        self.there = self.far.cell("there", 0)
        self.add = self.far.handler(name="add")(self._add)
        self.pass_on = self.near.handler(name="pass_on")(self._pass_on)
        self.tickets: list[hw.Ticket[int]] = []
        self.errors: list[hw.UserCodeError] = []

    def _add(self, by: int) -> int:
        self.there.value += by
        return self.there.value

    def _pass_on(self, by: int, *, then_fail: bool = False) -> int:
        self.here.value += by
        self.tickets.append(self.add.send(by))
        if then_fail:
            raise ValueError
        return self.here.value

    def open_near(self, url: str = "memory:") -> hw.Space:
        return self.near.open(url, space="near", on_error=self.errors.append)

    def open_far(self, url: str = "memory:") -> hw.Space:
        return self.far.open(url, space="far", on_error=self.errors.append)


@pytest.fixture
def towns() -> Towns:
    return Towns()


# --- plain code -------------------------------------------------------------------------------------------


def test_event_is_handled_when_what_sent_it_is_confirmed_and_before_the_next_statement(towns: Towns) -> None:
    with towns.open_near() as near, towns.open_far():
        with near.transaction():
            towns.here.value = 1
            ticket = towns.add.send(5)
            assert (ticket.state, towns.there.peek()) == ("queued", 0)
        assert (came_to(ticket), towns.there.value, near.stats.pending) == (["handled"], 5, 0)
        assert ticket.result() == 5


def test_event_of_what_failed_is_refused_and_never_handled(towns: Towns) -> None:
    with towns.open_near() as near, towns.open_far() as far:
        with pytest.raises(KeyError), near.transaction():
            ticket = towns.add.send(5)
            raise KeyError
        assert (ticket.state, far.runs(towns.add)) == ("refused", 0)
        with pytest.raises(hw.EventRefusedError, match="a transaction was rolled back"):
            ticket.result()
        assert towns.add.send(1).result() == 1


def test_event_of_what_the_store_does_not_accept_is_refused_and_never_handled(towns: Towns, tmp_path: Path) -> None:
    url = str(tmp_path / "near.db")
    with towns.open_far() as far, towns.near.open(url) as near, towns.near.open(url) as other:
        mine, theirs = near.cell("near.here", int, default=0), other.cell("near.here", int, default=0)
        with near.transaction():
            mine.value += 1
            ticket = towns.add.send(5)
            overtake(other, theirs, 7)
        assert (ticket.state, far.runs(towns.add)) == ("refused", 0)
        with pytest.raises(ConflictError):
            near.sync()
        assert (mine.value, towns.there.value) == (7, 0)


def test_handler_may_send_to_another_space(towns: Towns) -> None:
    with towns.open_near(), towns.open_far():
        assert towns.pass_on.send(3).result() == 3
        assert (towns.here.value, towns.there.value) == (3, 3)
        assert towns.pass_on.send(3, then_fail=True).state == "failed"
        assert (towns.here.value, towns.there.value) == (3, 3)
        assert came_to(*towns.tickets) == ["handled", "refused"]
        assert towns.tickets[0].result() == 3


def test_result_cannot_be_waited_for_in_the_transaction_that_sends(towns: Towns) -> None:
    with towns.open_near() as near, towns.open_far():
        with near.transaction():
            first, second = towns.add.send(5), towns.add.send(6)
            for ticket in (first, second):
                with pytest.raises(UsageError, match="when the transaction around this code has ended"):
                    ticket.result()
        assert (first.result(), second.result()) == (5, 11)


def test_event_of_an_open_transaction_does_not_hold_up_events_that_are_sent_directly(towns: Towns) -> None:
    with towns.open_near() as near, towns.open_far() as far:
        with near.transaction():
            sent = towns.add.send(5)
            in_thread(lambda: towns.tickets.append(towns.add.send(6)))
            (ticket,) = towns.tickets
            assert (ticket.result(), sent.state) == (6, "queued")
        assert sent.result() == 11
        assert far.runs(towns.add) == 2


def test_event_that_nobody_asks_for_is_handled_at_the_latest_when_its_space_is_closed(
    towns: Towns, tmp_path: Path
) -> None:
    with towns.open_near(str(tmp_path / "near.db")) as near:
        with towns.open_far(str(tmp_path / "far.db")) as far:
            assert towns.there.value == 0
            with near.transaction():
                towns.add.send(0)
            with disk_held(far._opening), near.transaction():
                towns.add.send(5)
        with towns.open_far(str(tmp_path / "far.db")):
            assert towns.there.value == 5


def test_event_of_a_transaction_in_another_thread_is_waited_for(towns: Towns) -> None:
    sent, go_on = threading.Event(), threading.Event()
    with towns.open_near() as near, towns.open_far():

        def work() -> None:
            with near.transaction():
                towns.tickets.append(towns.add.send(5))
                sent.set()
                assert go_on.wait(SAFETY_S)

        thread = threading.Thread(target=work)
        thread.start()
        assert sent.wait(SAFETY_S)
        (ticket,) = towns.tickets
        with pytest.raises(hw.EventTimeoutError, match="it is queued, and goes on"):
            ticket.result(timeout=0)
        go_on.set()
        assert ticket.result() == 5
        thread.join(SAFETY_S)


def test_spaces_whose_handlers_send_to_each_other_in_two_threads_do_not_wait_for_each_other(towns: Towns) -> None:
    one, two = towns.near, towns.far

    @two.handler
    def ping(left: int) -> int:
        towns.there.value += 1
        if left:
            pong.send(left - 1)
        return left

    @one.handler
    def pong(left: int) -> int:
        towns.here.value += 1
        if left:
            ping.send(left - 1)
        return left

    with towns.open_near() as near, towns.open_far() as far:
        threads = [
            threading.Thread(target=lambda: [ping.send(9).result() for _ in range(20)]),
            threading.Thread(target=lambda: [pong.send(9).result() for _ in range(20)]),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SAFETY_S)
        assert not any(thread.is_alive() for thread in threads)
        for _ in range(10):
            near.sync()
            far.sync()
            near.settle()
            far.settle()
        assert towns.here.value + towns.there.value == 400
    assert towns.errors == []


def test_sink_may_send_to_another_space_and_a_computed_may_not(towns: Towns) -> None:
    @towns.near.sink
    def report() -> None:
        if towns.here.value:
            towns.add.send(towns.here.value)

    @towns.near.computed
    def doubled() -> int:
        towns.add.send(1)
        return towns.here.value * 2

    with towns.open_near(), towns.open_far():
        towns.here.value = 4
        assert towns.there.value == 4
        with pytest.raises(WriteError, match=r"doubled\(\) only reads, and may not send to add\(\)"):
            doubled()


def test_event_for_a_space_that_is_closed_before_the_transaction_ends_is_handled_at_its_next_opening(
    towns: Towns, tmp_path: Path
) -> None:
    url = str(tmp_path / "far.db")
    with towns.open_near() as near:
        with near.transaction():
            towns.here.value = 1
            with towns.open_far(url):
                ticket = towns.add.send(5)
        assert (towns.here.value, ticket.state, near.stats.undelivered) == (1, "queued", 1)
        with pytest.raises(ClosedError, match="It is handled when the space is opened again"):
            ticket.result()
        with towns.open_far(url):
            assert towns.there.value == 5
            near.delivered()
        assert near.stats.undelivered == 0
    assert towns.errors == []


# --- event loops ------------------------------------------------------------------------------------------


def test_event_waits_for_confirmation_between_two_spaces_of_one_loop(towns: Towns) -> None:
    async def main() -> None:
        async with towns.near.aopen("memory:", space="near") as near, towns.far.aopen("memory:", space="far") as far:
            with near.transaction():
                ticket = towns.add.send(5)
                with pytest.raises(UsageError, match="when the transaction around this code has ended"):
                    await ticket
            assert ticket.state == "queued"
            assert await ticket == 5
            assert await towns.pass_on.send(2) == 2
            await near.settled()
            await far.settle()
            assert towns.there.value == 7
            with pytest.raises(KeyError), near.transaction():
                lost = towns.add.send(5)
                raise KeyError
            with pytest.raises(hw.EventRefusedError):
                await lost

    run(main())


def test_plain_space_may_send_to_one_of_a_loop_and_the_other_way_round(towns: Towns) -> None:
    async def to_the_loop() -> None:
        async with towns.far.aopen("memory:", space="far"):
            with towns.open_near() as near:
                with near.transaction():
                    ticket = towns.add.send(5)
                assert await ticket == 5

    async def from_the_loop() -> None:
        async with towns.near.aopen("memory:", space="near") as near:
            with towns.open_far():
                with near.transaction():
                    ticket = towns.add.send(5)
                assert ticket.result() == 5
                with near.transaction():
                    ticket = towns.add.send(6)
                await near.synced()
                assert ticket.state != "queued"

    run(to_the_loop())
    run(from_the_loop())


def test_async_handler_may_send_to_another_space_and_cannot_wait_there_for_what_it_has_sent(towns: Towns) -> None:
    @towns.near.handler
    async def ask(by: int) -> str:
        ticket = towns.add.send(by)
        await asyncio.sleep(0)
        try:
            await ticket
        except UsageError as error:
            return error.message
        return "answered"

    async def main() -> None:
        async with towns.near.aopen("memory:", space="near"), towns.far.aopen("memory:", space="far") as far:
            assert "is not available here" in await ask.send(4)
            await far.settle()
            assert towns.there.value == 4

    run(main())
