"""What is done at the door of an open space: by a thread of the program, in its turn, and told when it is done."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import headwater as hw
from headwater.errors import EventTimeoutError, HeadwaterError
from headwater.inspect import sockets
from headwater.inspect.envelope import Request
from headwater.inspect.event_records import DropEvent, EventReport, ListEvents, RedeliverEvent, SendEvent, ShowEvent
from headwater.inspect.function_records import GetCounts
from headwater.inspect.names import InspectScope
from headwater.inspect.socket_client import SocketInspector
from tests.support.open_spaces import SAFETY_S, call_when_ready


class Desk:
    """An app whose handler adds numbers, and waits if it is told to."""

    def __init__(self) -> None:
        self.app = hw.App("desk")
        self.sum = self.app.cell("sum", 0)
        self.limit = self.app.cell("limit", 10)
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()

        @self.app.handler
        def add(number: int) -> int:
            self.begun.set()
            assert self.go_on.wait(SAFETY_S)
            if number > self.limit.value:
                raise ValueError(f"{number} is too much")
            self.sum.value += number
            return self.sum.value

        self.add = add


@pytest.fixture(autouse=True)
def _no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "GRACE_S", 0.0)


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "desk.db"


@pytest.fixture
def space(desk: Desk, file: Path) -> Iterator[hw.Space]:
    with desk.app.open(file, on_error=lambda _: None) as space:
        yield space


@pytest.fixture
def caller(space: hw.Space, file: Path) -> Iterator[SocketInspector]:
    assert not space.closed
    with call_when_ready(file) as caller:
        yield caller


def send(caller: SocketInspector, number: object = 1, **more: object) -> EventReport:
    wanted = {"fields": f'{{"number": {number}}}', "timeout_ms": SAFETY_S * 1000.0, **more}
    return caller.do(SendEvent(handler="add", **wanted))  # type: ignore[arg-type]


def refused(caller: SocketInspector, asked: SendEvent | RedeliverEvent | DropEvent | ShowEvent) -> HeadwaterError:
    with pytest.raises(HeadwaterError) as caught:
        caller.ask(asked) if isinstance(asked, ShowEvent) else caller.do(asked)
    return caught.value


def kind_of(error: HeadwaterError) -> str:
    return type(error).__name__


# --- doing ------------------------------------------------------------------------------------------------


def test_event_is_sent_handled_and_told_of(caller: SocketInspector, desk: Desk) -> None:
    told = send(caller, 3)
    assert (told.state, told.result, told.handler, told.app) == ("confirmed", "3", "add()", "desk")
    assert desk.sum.value == 3
    assert send(caller, 4).result == "7"


def test_failed_event_is_kept_delivered_again_and_dropped(caller: SocketInspector, desk: Desk) -> None:
    told = send(caller, 11)
    assert (told.state, told.reason, told.result) == ("failed", "ValueError: 11 is too much", None)
    [listed] = caller.ask(ListEvents())
    assert (listed.event, listed.payload, listed.traceback) == (told.event, '{"number": 11}', "")
    shown = caller.ask(ShowEvent(event=told.event[:12]))
    assert "is too much" in shown.traceback
    desk.limit.value = 20
    again = caller.do(RedeliverEvent(event=told.event, timeout_ms=SAFETY_S * 1000.0))
    assert (again.event, again.state, again.result) == (told.event, "confirmed", "11")
    assert caller.ask(ListEvents()) == ()
    second = send(caller, 30)
    dropped = caller.do(DropEvent(event=second.event))
    assert dropped.event == second.event
    assert caller.ask(ListEvents()) == ()


def test_what_is_wrong_is_told_by_its_class(caller: SocketInspector, file: Path) -> None:
    found = refused(caller, SendEvent(handler="ad"))
    assert (kind_of(found), found.message) == ("NotFoundError", "there is no handler ad; did you mean add?")
    assert kind_of(refused(caller, SendEvent(handler="add", fields='{"number": "x"}'))) == "SchemaError"
    assert kind_of(refused(caller, SendEvent(handler="add", fields='{"colour": 1}'))) == "SchemaError"
    assert kind_of(refused(caller, SendEvent(handler="add", fields="[]"))) == "UsageError"
    assert kind_of(refused(caller, SendEvent(handler="add", fields="{"))) == "UsageError"
    for asked in (RedeliverEvent, DropEvent, ShowEvent):
        assert kind_of(refused(caller, asked(event="event:abc"))) == "NotFoundError"
        assert kind_of(refused(caller, asked(event="event:"))) == "UsageError"
        for scope in (InspectScope(branch="draft"), InspectScope(space="other")):
            with call_when_ready(file, scope) as elsewhere:
                assert kind_of(refused(elsewhere, asked(event="abc"))) == "NotFoundError"
    assert send(caller).result == "1", "and it goes on"


def test_name_of_the_senders_own_is_handled_once(caller: SocketInspector) -> None:
    first = send(caller, 2, name="a", by="shop")
    again = send(caller, 2, name="a", by="shop")
    assert (again.event, again.state, again.handled_before, again.result) == (first.event, "refused", True, "2")
    assert send(caller, 2, name="a").result == "4"


# --- without delay ----------------------------------------------------------------------------------------


def test_others_are_answered_while_a_handler_takes_its_time(caller: SocketInspector, desk: Desk, file: Path) -> None:
    desk.go_on.clear()
    sent: list[EventReport] = []
    sender = threading.Thread(target=lambda: sent.append(send(caller, 5)))
    sender.start()
    assert desk.begun.wait(SAFETY_S)
    with call_when_ready(file, wait_ms=0) as other:
        assert other.ping()
        [opening] = other.ask(GetCounts())
        assert (opening.busy, opening.running) == (True, ("add",))
        [waiting] = other.ask(ListEvents(waiting=True))
        assert (waiting.state, waiting.reason) == ("running", "add() is at work on it")
        found = refused(other, SendEvent(handler="add", fields='{"number": 1}', timeout_ms=0.0))
        assert (kind_of(found), found.message) == (
            "EventTimeoutError",
            "nothing was sent to add(): add() is at work in space 'desk', and it was not free in time",
        )
    desk.go_on.set()
    sender.join(SAFETY_S)
    assert [told.result for told in sent] == ["5"]


@pytest.mark.parametrize("limit", [None, 0.0])
def test_answer_comes_when_the_time_is_over_although_the_handler_is_at_work(
    caller: SocketInspector, desk: Desk, file: Path, limit: float | None
) -> None:
    desk.go_on.clear()
    told = send(caller, 5, timeout_ms=limit)
    assert told.state in ("queued", "running")
    assert desk.begun.wait(SAFETY_S)
    with call_when_ready(file, wait_ms=0) as other:
        shown = other.ask(ShowEvent(event=told.event))
    assert (shown.state, shown.reason) == ("running", "add() is at work on it")
    desk.go_on.set()
    assert send(caller, 1).result == "6"


def test_a_sender_without_a_timeout_does_not_wait_for_the_lock(caller: SocketInspector, desk: Desk, file: Path) -> None:
    desk.go_on.clear()
    first = send(caller, 5, timeout_ms=None)
    assert desk.begun.wait(SAFETY_S)
    second = send(caller, 6, timeout_ms=None)
    with call_when_ready(file, wait_ms=0) as other:
        waiting = other.ask(ListEvents(waiting=True))
    assert [event.event for event in waiting] == [first.event, second.event]
    desk.go_on.set()
    assert send(caller, 1).result == "12"


def test_redelivery_is_not_waited_for_longer_than_wanted(caller: SocketInspector, desk: Desk) -> None:
    told = send(caller, 11)
    desk.limit.value = 20
    desk.go_on.clear()
    again = caller.do(RedeliverEvent(event=told.event, timeout_ms=0.0))
    assert again.state in ("queued", "running")
    desk.go_on.set()
    assert send(caller, 1).result == "12"


def test_questions_behind_something_to_be_done_wait_for_it(caller: SocketInspector) -> None:
    sent = [SendEvent(handler="add", fields=f'{{"number": {n}}}', timeout_ms=1e4) for n in (1, 2)]
    requests = [Request(do=sent[0]), Request(), Request(do=sent[1])]
    caller._connection.sendall(b"".join(msgspec.json.encode(each) + b"\n" for each in requests))
    replies = [msgspec.json.decode(caller._read_line()) for _ in requests]
    assert [reply.get("answer", {}).get("result") for reply in replies] == ["1", None, "3"]


def test_a_caller_that_disconnects_is_forgotten_and_its_event_is_handled(
    space: hw.Space, caller: SocketInspector, desk: Desk, file: Path
) -> None:
    desk.go_on.clear()
    with call_when_ready(file) as gone:
        asked = Request(do=SendEvent(handler="add", fields='{"number": 5}', timeout_ms=1e4))
        gone._connection.sendall(msgspec.json.encode(asked) + b"\n")
        assert desk.begun.wait(SAFETY_S)
    desk.go_on.set()
    assert send(caller, 1).result == "6"
    assert space.runs(desk.add) == 2


@pytest.mark.parametrize("stop", [SystemExit(3), KeyboardInterrupt()])
def test_event_whose_handler_wants_to_end_the_program_has_failed_and_others_go_on(
    file: Path, stop: BaseException
) -> None:
    app = hw.App("desk")

    @app.handler
    def leave(stay: bool = False) -> int:
        if not stay:
            raise stop
        return 1

    with app.open(file, on_error=lambda _: None), call_when_ready(file) as caller:
        told = caller.do(SendEvent(handler="leave", timeout_ms=1e4))
        assert (told.state, told.reason) == ("failed", f"it was interrupted by {type(stop).__name__}")
        [kept] = caller.ask(ListEvents())
        assert (kept.event, kept.reason) == (told.event, told.reason)
        told = caller.do(SendEvent(handler="leave", fields='{"stay": true}', timeout_ms=1e4))
        assert told.result == "1"


def test_space_that_is_closed_meanwhile_says_that_the_event_is_left(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.host.plain_opening.CLOSE_MS", 0.0)
    app = hw.App("desk")
    typed = app.cell("typed", 0)
    quiet = app.computed(name="quiet", debounce="1h")(lambda: typed.value)
    app.handler(name="finish")(lambda: quiet())  # noqa: PLW0108  # a handler is a function of no app
    told: list[EventReport] = []
    with app.open(file) as space:
        quiet()
        typed.value = 1
        with call_when_ready(file) as caller, call_when_ready(file) as other:
            command = SendEvent(handler="finish", timeout_ms=SAFETY_S * 1000.0)
            sender = threading.Thread(target=lambda: told.append(caller.do(command)))
            sender.start()
            while not other.ask(ListEvents(waiting=True)):
                assert sender.is_alive()
            space.close()
            sender.join(SAFETY_S)
    [event] = told
    assert (event.state, event.reason) == ("queued", "it is left for the next opening")


# --- events that wait -------------------------------------------------------------------------------------


def left(file: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file in whose outbox there is an event for `late` of the app `desk`; its id."""
    monkeypatch.setattr("headwater.host.plain_opening.CLOSE_MS", 0.0)
    app = hw.App("desk")
    typed = app.cell("typed", 0)
    quiet = app.computed(name="quiet", debounce="1h")(lambda: typed.value)
    late = app.handler(name="late")(lambda: quiet())  # noqa: PLW0108  # a handler is a function of no app
    with app.open(file):
        quiet()
        typed.value = 1
        return late.send().id


def test_event_that_waits_is_dropped_and_never_handled(file: Path) -> None:
    app = hw.App("desk")
    typed = app.cell("typed", 0)
    quiet = app.computed(name="quiet", debounce="1h")(lambda: typed.value)
    late = app.handler(name="late")(lambda: quiet())  # noqa: PLW0108  # a handler is a function of no app
    with app.open(file) as space, call_when_ready(file) as caller:
        quiet()
        typed.value = 1
        ticket = late.send()
        dropped = caller.do(DropEvent(event=ticket.id[:14]))
        assert dropped.event == ticket.id
        assert (ticket.state, ticket.reason) == ("refused", "it was dropped")
        assert caller.ask(ListEvents(waiting=True)) == ()
        assert kind_of(refused(caller, DropEvent(event=ticket.id))) == "NotFoundError"
        assert space.runs(late) == 0


def test_event_that_was_handled_cannot_be_dropped(caller: SocketInspector) -> None:
    told = send(caller)
    found = refused(caller, DropEvent(event=told.event))
    assert (kind_of(found), found.message) == ("NotFoundError", f"{told.event} was handled: there is nothing to drop")


def test_event_that_waits_in_one_of_several_openings_is_dropped_there(file: Path) -> None:
    first, second = hw.App("first"), hw.App("second")
    typed = second.cell("typed", 0)
    quiet = second.computed(name="quiet", debounce="1h")(lambda: typed.value)
    late = second.handler(name="late")(lambda: quiet())  # noqa: PLW0108  # a handler is a function of no app
    with first.open(file), second.open(file), call_when_ready(file) as caller:
        quiet()
        typed.value = 1
        ticket = late.send()
        assert caller.do(DropEvent(event=ticket.id)).event == ticket.id
        assert ticket.state == "refused"


@pytest.mark.parametrize(
    ("name", "why"),
    [("desk", "no function of app desk handles stream desk.late"), ("other", "its app has to be opened")],
)
def test_event_without_a_handler_says_whether_its_app_is_open_and_can_be_dropped(
    file: Path, monkeypatch: pytest.MonkeyPatch, name: str, why: str
) -> None:
    event = left(file, monkeypatch)
    app = hw.App(name)
    app.handler(name="now")(lambda: None)
    with app.open(file), call_when_ready(file) as caller:
        [waiting] = caller.ask(ListEvents(waiting=True))
        assert (waiting.event, waiting.state, waiting.stream, waiting.reason) == (event, "waiting", "desk.late", why)
        shown = caller.ask(ShowEvent(event=event))
        assert (shown.state, shown.reason) == ("waiting", why)
        assert caller.do(DropEvent(event=event)).event == event
        assert caller.ask(ListEvents(waiting=True)) == ()
        assert kind_of(refused(caller, ShowEvent(event=event))) == "NotFoundError"


def test_event_that_another_opening_handles_is_told_of_by_that_alone(file: Path) -> None:
    app, other = hw.App("desk"), hw.App("other")
    typed = app.cell("typed", 0)
    quiet = app.computed(name="quiet", debounce="1h")(lambda: typed.value)
    late = app.handler(name="late")(lambda: quiet())  # noqa: PLW0108  # a handler is a function of no app
    with other.open(file), app.open(file) as space, call_when_ready(file) as caller:
        quiet()
        typed.value = 1
        with space.transaction():
            ticket = late.send()
        space.sync()
        events = caller.ask(ListEvents(waiting=True))
        assert [(event.event, event.state, event.app) for event in events] == [(ticket.id, "parked", "desk")]


# --- waiting in threads -----------------------------------------------------------------------------------


def test_result_is_not_waited_for_longer_than_the_caller_wants_although_another_has_the_turn(
    space: hw.Space, desk: Desk
) -> None:
    desk.go_on.clear()
    main = threading.Thread(target=lambda: desk.add.send(1))
    main.start()
    assert desk.begun.wait(SAFETY_S)
    event = space.scheduler.queue_event("desk.add", {"number": 2})  # type: ignore[arg-type]
    with pytest.raises(EventTimeoutError):
        space._opening.wait_for(event, 1.0)
    desk.go_on.set()
    main.join(SAFETY_S)
    space._opening.wait_for(event, None)
    assert event.result == 3
