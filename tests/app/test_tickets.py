"""Tickets in plain code: how far an event has come, its result, and where that can be asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import ClosedError, HeadwaterError, UsageError
from tests.app.holding import disk_held
from tests.app.timed import Timed
from tests.app.workbench import Bench
from tests.support.tickets import came_to


class Till(Bench):
    """A cell, a handler that adds to it, one that raises, and one that does what a test says."""

    def __init__(self) -> None:
        super().__init__()
        self.x = self.app.cell("x", 0)
        self.add = self.app.handler(name="add")(self._add)
        self.fail = self.app.handler(name="fail")(self._fail)
        self.does: Callable[[], object] = lambda: None
        self.do = self.app.handler(name="do")(lambda: self.does())  # noqa: PLW0108  # what it does then

    def _add(self, by: int = 1) -> int:
        self.x.value += by
        return self.x.value

    @contextmanager
    def held(self) -> Iterator[hw.Space]:
        """Open, and nothing is decided; what is read meanwhile has been read before."""
        with self.open() as space:
            assert self.x.value == 0
            with space.transaction():
                self.do.send()
            space.sync()
            with disk_held(space._opening):
                yield space

    def _fail(self, why: str) -> int:
        self.x.value = 99
        raise ValueError(why)


@pytest.fixture
def till() -> Till:
    return Till()


def outcome(ask: Callable[[], object]) -> object:
    """What it returns, or raises."""
    try:
        return ask()
    except HeadwaterError as error:
        return error


# --- how far it has come ----------------------------------------------------------------------------------


def test_event_is_queued_then_running_then_pending_then_confirmed(till: Till) -> None:
    states: list[str] = []
    with till.held() as space:
        with space.transaction():
            ticket = till.do.send()
            till.does = lambda: states.append(ticket.state)
            states.append(ticket.state)
        states.append(ticket.state)
        assert not ticket.is_done
    states.append(ticket.state)
    assert states == ["queued", "running", "pending", "confirmed"]
    assert (ticket.is_done, ticket.reason) == (True, "")


def test_event_of_a_handler_that_raises_has_failed(till: Till) -> None:
    with till.open():
        ticket = till.fail.send("no")
        assert (ticket.state, ticket.reason, ticket.is_done, till.x.value) == ("failed", "ValueError: no", True, 0)


def test_event_of_a_transaction_that_did_not_come_to_be_is_refused(till: Till) -> None:
    with till.open() as space:
        with pytest.raises(KeyError), space.transaction():
            ticket = till.add.send()
            raise KeyError
        assert (ticket.state, ticket.is_done, till.x.value) == ("refused", True, 0)
        assert ticket.reason == "a transaction was rolled back, and the event with it"
        with pytest.raises(
            hw.EventRefusedError, match="a transaction was rolled back, and the event with it"
        ) as refused:
            ticket.result()
        assert refused.value.facts == {"event": ticket.id}
    assert till.errors == []


def test_event_of_a_part_of_a_transaction_that_failed_alone_is_refused_and_the_others_are_handled(till: Till) -> None:
    with till.open() as space:
        with space.transaction():
            first = till.add.send(1)
            with pytest.raises(KeyError), space.transaction():
                second = till.add.send(10)
                raise KeyError
            third = till.add.send(100)
        assert came_to(first, second, third) == ["handled", "refused", "handled"]
        assert till.x.value == 101


def test_ticket_says_what_it_is_of(till: Till) -> None:
    with till.open():
        ticket = till.add.send()
        assert repr(ticket) == f"<Ticket {ticket.id} for add(): pending>"
        ticket.result()
        assert repr(ticket) == f"<Ticket {ticket.id} for add(): confirmed>"
    assert repr(ticket) == f"<Ticket {ticket.id} for add(): confirmed>"
    assert ticket.id.startswith("event:")


# --- its result -------------------------------------------------------------------------------------------


def test_result_is_there_when_it_is_on_disk_and_as_often_as_it_is_asked_for(till: Till, tmp_path: Path) -> None:
    with till.app.open(tmp_path / "till.db"):
        ticket = till.add.send(3)
        assert (ticket.result(), ticket.state, ticket.result(timeout=0)) == (3, "confirmed", 3)
    assert ticket.result() == 3


def test_result_of_a_failed_event_is_what_its_handler_raised(till: Till) -> None:
    with till.open():
        ticket = till.fail.send("no")
        for _ in range(2):
            with pytest.raises(hw.EventFailedError) as failed:
                ticket.result()
            assert failed.value.message == (
                f"fail() did not handle {ticket.id}: ValueError: no. Nothing of it was written; it is kept, see "
                f"`headwater events show {ticket.id}`"
            )
            assert isinstance(failed.value.__cause__, ValueError)
            assert failed.value.facts == {"event": ticket.id}


def test_result_that_is_not_of_the_declared_type_fails_the_event(till: Till) -> None:
    @till.app.handler
    def lie() -> int:
        till.x.value = 5
        return "five"  # type: ignore[return-value]

    with till.open():
        with pytest.raises(hw.EventFailedError, match=r"cannot store bench.lie\(\): expected int, got str 'five'"):
            lie.send().result()
        assert till.x.value == 0


def test_result_that_takes_too_long_is_a_timeout_and_the_event_goes_on(till: Till) -> None:
    with till.open() as space:
        assert till.x.value == 0
        with disk_held(space._opening):
            ticket = till.add.send()
            with pytest.raises(TimeoutError) as late:
                ticket.result(timeout=0)
            assert isinstance(late.value, hw.EventTimeoutError)
            assert late.value.facts == {"event": ticket.id, "state": "pending"}
            assert late.value.message == (
                f"add() has not handled {ticket.id} within 0 ms: it is pending, and goes on; ask again, or see "
                "`hw.why(add)`"
            )
        assert ticket.result(timeout="120s") == 1


@pytest.mark.parametrize("timeout", ["soon", -1, [], True])
def test_timeout_that_is_no_duration_is_refused(till: Till, timeout: object) -> None:
    with till.held():
        ticket = till.add.send()
        with pytest.raises(UsageError, match=r"ticket.result\(...\): .* is no duration"):
            ticket.result(timeout=timeout)


def test_result_lets_time_pass_for_what_the_event_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    timed = Timed(monkeypatch)
    x = timed.app.cell("x", 1)

    @timed.app.computed(debounce="200ms")
    def calm() -> int:
        return x.value

    @timed.app.handler
    def look() -> int:
        return calm()

    with timed.open():
        assert look.send().result() == 1
        x.value = 2
        began, ticket = timed.time, look.send()
        with pytest.raises(hw.EventTimeoutError, match="within 150 ms: it is queued"):
            ticket.result(timeout="150ms")
        assert ticket.result(timeout="60ms") == 2
        assert 200 <= timed.time - began < 202


def test_result_of_an_event_that_was_handled_before_is_that_of_then(till: Till, tmp_path: Path) -> None:
    url = tmp_path / "till.db"
    with till.app.open(url):
        first = till.add.once("17", by="shop").send(5)
        again = till.add.once("17", by="shop").send(5)
        assert (first.result(), again.result(), again.id) == (5, 5, first.id)
    with till.app.open(url):
        later = till.add.once("17", by="shop").send(5)
        assert (later.id, later.state, later.reason) == (first.id, "refused", "it was handled before")
        assert (later.result(), later.is_done, till.x.value) == (5, True, 5)
        assert till.add.once("17", by="other").send(5).result() == 10


@pytest.mark.parametrize(("name", "by"), [("", ""), (3, ""), ("3", 4), (None, "")])
def test_name_that_is_no_text_is_refused(till: Till, name: object, by: object) -> None:
    with till.open(), pytest.raises(UsageError, match="texts are expected, such as the id that a webhook gives"):
        till.add.once(name, by=by)


def test_names_are_those_of_an_actor_unless_somebody_else_is_named(till: Till) -> None:
    def send() -> list[str]:
        return [till.add.once("1").send().id, till.add.once("1", by="shop").send().id]

    with till.app.open("memory:", actor="ann"):
        ann = send()
    with till.app.open("memory:", actor="bob"):
        bob = send()
    assert (ann[0] == bob[0], ann[1] == bob[1]) == (False, True)
    assert len({*ann, *bob}) == 3


def test_tickets_of_plain_code_cannot_be_awaited(till: Till) -> None:
    with till.held():
        ticket = till.add.send()
        with pytest.raises(UsageError, match=r"cannot be awaited: the space was opened for plain code"):
            ticket.__await__().send(None)


# --- where it can be asked for ----------------------------------------------------------------------------

NOT_HERE = "is not available here: events are handled one after the other"


def test_result_cannot_be_waited_for_in_a_handler(till: Till) -> None:
    till.does = lambda: till.log.append(outcome(till.add.send().result))
    with till.open():
        till.do.send().result()
        assert till.x.value == 1
    assert NOT_HERE in str(till.log[0])


def test_result_cannot_be_waited_for_in_a_transaction(till: Till) -> None:
    with till.open() as space:
        with space.transaction():
            ticket = till.add.send()
            with pytest.raises(UsageError, match=NOT_HERE):
                ticket.result(timeout="5s")
        assert ticket.result() == 1
        with space.transaction():
            assert ticket.result() == 1


def test_result_cannot_be_waited_for_in_a_sink(till: Till) -> None:
    @till.app.sink
    def show() -> None:
        if till.x.value == 1:
            till.log.append(outcome(till.add.send(4).result))

    with till.open():
        till.x.value = 1
        assert till.x.value == 5
    assert NOT_HERE in str(till.log[0])


def test_result_cannot_be_waited_for_where_errors_are_told_but_events_can_be_sent(till: Till) -> None:
    def hear(_error: hw.UserCodeError) -> None:
        till.log.append(outcome(till.add.send(7).result))

    with till.app.open("memory:", on_error=hear):
        till.fail.send("no")
        assert till.x.value == 7
    assert NOT_HERE in str(till.log[0])


def test_result_cannot_be_waited_for_where_an_end_is_told_but_events_can_be_sent(till: Till) -> None:
    with till.open():
        till.add.send(1).on_commit(lambda _: till.log.append(outcome(till.add.send(7).result))).result()
        assert till.x.value == 8
    assert NOT_HERE in str(till.log[0])
    assert till.errors == []


def test_result_can_be_waited_for_after_a_commit(till: Till) -> None:
    with till.open() as space:
        with space.transaction():
            till.x.value = 1
            hw.after_commit(lambda: till.log.append(till.add.send(4).result()))
        space.sync()
    assert till.log == [5]


# --- being told -------------------------------------------------------------------------------------------


def test_end_of_an_event_is_told_once_whichever_it_is(till: Till) -> None:
    def hear(ticket: hw.Ticket[object]) -> None:
        till.log.append((ticket.id, ticket.state))

    with till.open() as space:
        good = till.add.once("1").send(1).on_commit(hear)
        bad = till.fail.send("no").on_commit(hear)
        twice = till.add.once("1").send(1).on_commit(hear)
        with pytest.raises(KeyError), space.transaction():
            lost = till.add.send().on_commit(hear)
            raise KeyError
        space.sync()
        space.settle()
        # The same event if it was still on its way, else a second one that was handled before.
        assert twice.state in ("confirmed", "refused")
        assert sorted(map(str, till.taken())) == sorted(
            map(str, [(good.id, "confirmed"), (bad.id, "failed"), (twice.id, twice.state), (lost.id, "refused")])
        )
        again = till.add.once("1").send(1).on_commit(hear)
        assert till.taken() == [(again.id, "refused")]
    assert till.taken() == []


def test_who_asks_after_the_end_is_told_before_the_next_statement(till: Till) -> None:
    with till.open():
        ticket = till.add.send()
        ticket.result()
        ticket.on_commit(lambda ticket: till.log.append(ticket.state))
        assert till.taken() == ["confirmed"]
    ticket.on_commit(lambda ticket: till.log.append(ticket.state))
    assert till.taken() == ["confirmed"]


def test_those_who_are_told_are_called_in_the_order_in_which_they_asked(till: Till) -> None:
    with till.open() as space:
        assert till.x.value == 0
        with disk_held(space._opening):
            ticket = till.add.send()
            for number in range(3):
                ticket.on_commit(lambda _, number=number: till.log.append(number))  # type: ignore[misc]
        ticket.result()
        space.settle()
    assert till.log == [0, 1, 2]


def test_what_somebody_raises_who_is_told_is_reported_and_stops_nobody(till: Till) -> None:
    def broken(_ticket: hw.Ticket[int]) -> None:
        raise LookupError("lost")

    with till.open() as space:
        ticket = till.add.send()
        ticket.on_commit(broken).on_commit(lambda ticket: till.log.append(ticket.state))
        space.sync()
        assert till.add.send().result() == 2
    assert till.log == ["confirmed"]
    (told,) = till.errors
    assert told.message.endswith(f"broken of {ticket.id} in space 'main' raised LookupError: lost")
    assert isinstance(told.__cause__, LookupError)
    with pytest.raises(TypeError, match="on_commit takes a function, not 3"):
        ticket.on_commit(3)


def test_ticket_of_a_closed_space_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what was handled it still has the result."""
    timed = Timed(monkeypatch)
    x = timed.app.cell("x", 1)

    @timed.app.computed(debounce="1h")
    def calm() -> int:
        return x.value

    @timed.app.handler
    def look() -> int:
        return calm()

    with timed.open():
        done = look.send()
        x.value = 2
        waits = look.send()
    assert (done.result(), waits.state) == (1, "queued")
    with pytest.raises(ClosedError, match=r"space 'main' was closed before its turn. It is handled when the space is"):
        waits.result()
