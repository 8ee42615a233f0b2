"""Threads and several openings: every event is counted once, and nobody waits for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import headwater as hw
from headwater.core import doc_key
from headwater.runtime.opening import Opening
from tests.app.holding import SAFETY_S, in_thread
from tests.app.workbench import Bench
from tests.support.tickets import came_to


class Counter(Bench):
    """A cell that a handler counts up, and what each event returned."""

    def __init__(self) -> None:
        super().__init__()
        self.count = self.app.cell("count", 0)
        self.add = self.app.handler(name="add")(self._add)

    def _add(self) -> int:
        self.count.value += 1
        return self.count.value


@pytest.fixture
def counter() -> Counter:
    return Counter()


def all_at_once(*work: Callable[[], object]) -> list[object]:
    """Each in a thread of its own, begun together; what they return."""
    start = threading.Barrier(len(work))

    def begin(one: Callable[[], object]) -> object:
        start.wait(SAFETY_S)
        return one()

    with ThreadPoolExecutor(len(work)) as pool:
        return [each.result(SAFETY_S * 3) for each in [pool.submit(begin, one) for one in work]]


# --- one opening ------------------------------------------------------------------------------------------


def test_events_of_eight_threads_are_each_handled_once_and_those_of_a_thread_in_their_order(counter: Counter) -> None:
    def work() -> list[int]:
        tickets = [counter.add.send() for _ in range(500)]
        return [ticket.result() for ticket in tickets]

    with counter.open() as space:
        results = all_at_once(*[work] * 8)
        assert (counter.count.value, space.runs(counter.add)) == (4000, 4000)
    assert all(result == sorted(result) for result in results)  # type: ignore[type-var, call-overload]
    assert sorted(number for result in results for number in result) == list(range(1, 4001))  # type: ignore[attr-defined]
    assert counter.errors == []


def test_event_of_a_thread_is_handled_before_its_next_statement(counter: Counter) -> None:
    mine = counter.app.cell("mine", dict[str, int]())

    @counter.app.handler
    def count_mine(name: str) -> None:
        mine.key(name).value = mine.value.get(name, 0) + 1

    def work(name: str) -> None:
        for number in range(100):
            count_mine.send(name)
            assert mine.value[name] == number + 1

    with counter.open():
        all_at_once(lambda: work("ann"), lambda: work("bob"))
        assert mine.value == {"ann": 100, "bob": 100}


def test_transactions_of_threads_send_with_what_they_write(counter: Counter) -> None:
    sums = counter.app.cell("sums", 0)

    @counter.app.handler
    def book(amount: int) -> None:
        sums.value += amount

    def work() -> int:
        lost = 0
        for number in range(100):
            try:
                with space.transaction():
                    book.send(1)
                    if number % 3 == 0:
                        raise LookupError
            except LookupError:
                lost += 1
        return lost

    with counter.open() as space:
        assert all_at_once(work, work, work) == [34, 34, 34]
        space.sync()
        assert (sums.value, space.runs(book)) == (198, 198)


def test_event_is_not_handled_while_what_sent_it_is_being_taken_back(counter: Counter) -> None:
    """A pass of another thread may come between the end of a transaction and what follows from it."""
    with counter.open() as space:
        with pytest.raises(LookupError), space.transaction() as tx:
            tx.follow(lambda _: in_thread(space.settle), lambda: None)
            lost = counter.add.send()
            raise LookupError
        assert (lost.state, space.runs(counter.add)) == ("refused", 0)
        assert (counter.add.send().result(), space.scheduler.lanes.waiting) == (1, 0)


def test_event_that_another_thread_found_too_early_is_handled_when_its_transaction_has_ended(counter: Counter) -> None:
    with counter.open() as space:
        with space.transaction():
            ticket = counter.add.send()
            in_thread(space.settle)
            assert counter.count.value == 0
        assert (came_to(ticket), counter.count.value) == (["handled"], 1)


def test_event_behind_one_that_is_taken_back_is_handled_with_the_next_write(counter: Counter) -> None:
    tickets: list[hw.Ticket[int]] = []
    other = counter.app.cell("other", 0)
    with counter.open() as space:
        with pytest.raises(LookupError), space.transaction():
            lost = counter.add.send()
            in_thread(lambda: tickets.append(counter.add.send()))
            assert tickets[0].state == "queued"
            raise LookupError
        other.value = 1
        assert (came_to(lost, tickets[0]), counter.count.value) == (["refused", "handled"], 1)


def test_everyone_who_asks_is_told_once_however_threads_meet(counter: Counter) -> None:
    heard: list[int] = []

    def work(first: int) -> None:
        for number in range(first, first + 200):
            counter.add.send().on_commit(lambda _, number=number: heard.append(number))  # type: ignore[misc]

    with counter.open() as space:
        all_at_once(lambda: work(0), lambda: work(1000))
        space.sync()
        space.settle()
    assert sorted(heard) == [*range(200), *range(1000, 1200)]


def test_one_ticket_may_be_asked_by_several_threads(counter: Counter) -> None:
    with counter.open():
        tickets = [counter.add.send() for _ in range(50)]
        results = all_at_once(*[lambda: [ticket.result() for ticket in tickets]] * 4)
    assert results == [list(range(1, 51))] * 4


def test_handler_runs_in_the_thread_that_sends_with_its_own_space_around_it(counter: Counter) -> None:
    @counter.app.handler
    def where() -> int:
        return threading.get_ident()

    with counter.open():
        assert where.send().result() == threading.get_ident()
        (other,) = all_at_once(lambda: [where.send().result(), threading.get_ident()])
    assert isinstance(other, list)
    assert other[0] == other[1]


# --- several openings -------------------------------------------------------------------------------------


def counted_in(space: Opening, counter: Counter, times: int) -> list[int]:
    """Send so many there, and wait for all."""
    with space.transaction():
        tickets = [counter.add.send() for _ in range(times // 2)]
    for _ in range(times - times // 2):
        with space.transaction():
            tickets.append(counter.add.send())
    return [ticket.result() for ticket in tickets]


def test_two_openings_that_fight_over_one_cell_count_every_event_once(counter: Counter, tmp_path: Path) -> None:
    url = tmp_path / "counter.db"
    with counter.app.open(url) as one:
        counter.add.send().result()
        with counter.app.open(url) as two:
            results = all_at_once(
                lambda: counted_in(one._opening, counter, 200), lambda: counted_in(two._opening, counter, 200)
            )
            for space in (one, two):
                space.sync()
                assert space.cell("bench.count", int).value == 401
            assert one._opening.replica.read(doc_key("events:outbox")) == {}
    numbers = [number for result in results for number in result]  # type: ignore[attr-defined]
    assert sorted(numbers) == list(range(2, 402))
    with counter.app.open(url):
        assert counter.count.value == 401


def test_event_that_both_openings_are_sent_is_handled_once(counter: Counter, tmp_path: Path) -> None:
    url = tmp_path / "counter.db"

    def work(space: hw.Space) -> list[int]:
        with space:
            return [counter.add.once(str(number), by="hook").send().result() for number in range(100)]

    with counter.app.open(url) as one:
        assert counter.count.value == 0
        two = counter.app.open(url)
        results = all_at_once(lambda: work(two), lambda: work(one))
    assert results[0] == results[1]
    with counter.app.open(url):
        assert counter.count.value == 100
    assert counter.errors == []


def test_sender_that_reads_the_replica_has_it_before_its_turn(tmp_path: Path) -> None:
    """A commit that stops a piece has the replica, and asks for the turn: in the other order both wait."""
    app = hw.App("counter")
    count = app.cell("count", 0)

    @app.handler
    def add(by: int) -> None:
        count.value += by

    with app.open(tmp_path / "a.db") as space:
        runtime = space._opening
        first: list[bool] = []

        class Turn:
            def __enter__(self) -> None:
                first.append(runtime.replica.lock._is_owned())  # type: ignore[attr-defined]  # of an RLock

            def __exit__(self, *_: object) -> None:
                pass

        runtime.events._lock = Turn()  # type: ignore[assignment]
        with space.transaction():
            add.send(1)
        add.once("a", by="b").send(1)
        assert first == [True, True]
