"""What is done at the door of an open space: by a thread of the program, in its turn, and told when it is done."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import EventTimeoutError
from headwater.host import door
from headwater.host.doorway import Caller
from headwater.host.told import EventTold, Reply, Trouble
from tests.support.doors import SAFETY_S, call_when_ready, request


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
    monkeypatch.setattr(door, "GRACE_S", 0.0)


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
def caller(space: hw.Space, file: Path) -> Iterator[Caller]:
    assert not space.closed
    with call_when_ready(file) as caller:
        yield caller


def send(caller: Caller, number: object = 1, **more: object) -> EventTold:
    wanted = {"fields": f'{{"number": {number}}}', "timeout_ms": SAFETY_S * 1000.0, **more}
    reply = caller.ask(request("send", node="add", **wanted))
    assert reply.event is not None, reply.trouble
    return reply.event


def trouble(caller: Caller, question: object, **more: object) -> Trouble:
    found = caller.ask(request(question, **more)).trouble  # type: ignore[arg-type]
    assert found is not None
    return found


# --- doing ------------------------------------------------------------------------------------------------


def test_event_is_sent_handled_and_told_of(caller: Caller, desk: Desk) -> None:
    told = send(caller, 3)
    assert (told.state, told.result, told.handler, told.app) == ("confirmed", "3", "add()", "desk")
    assert desk.sum.value == 3
    assert send(caller, 4).result == "7"


def test_failed_event_is_kept_delivered_again_and_dropped(caller: Caller, desk: Desk) -> None:
    told = send(caller, 11)
    assert (told.state, told.reason, told.result) == ("failed", "ValueError: 11 is too much", None)
    [listed] = caller.ask(request("events")).openings[0].events
    assert (listed.event, listed.payload, listed.traceback) == (told.event, '{"number": 11}', "")
    shown = caller.ask(request("event", event=told.event[:12])).event
    assert shown is not None
    assert "is too much" in shown.traceback
    desk.limit.value = 20
    again = caller.ask(request("redeliver", event=told.event, timeout_ms=SAFETY_S * 1000.0)).event
    assert again is not None
    assert (again.event, again.state, again.result) == (told.event, "confirmed", "11")
    assert caller.ask(request("events")).openings[0].events == ()
    second = send(caller, 30)
    dropped = caller.ask(request("drop", event=second.event)).event
    assert dropped is not None
    assert dropped.event == second.event
    assert caller.ask(request("events")).openings[0].events == ()


def test_what_is_wrong_is_told_by_its_class(caller: Caller) -> None:
    found = trouble(caller, "send", node="ad", fields="{}")
    assert (found.kind, found.message) == ("NotFoundError", "there is no handler ad; did you mean add?")
    assert trouble(caller, "send", node="add", fields='{"number": "x"}').kind == "SchemaError"
    assert trouble(caller, "send", node="add", fields='{"colour": 1}').kind == "SchemaError"
    assert trouble(caller, "send", node="add", fields="[]").kind == "UsageError"
    assert trouble(caller, "send", node="add", fields="{").kind == "UsageError"
    for question in ("redeliver", "drop", "event"):
        assert trouble(caller, question, event="event:abc").kind == "NotFoundError"
        assert trouble(caller, question, event="event:").kind == "UsageError"
        assert trouble(caller, question, event="abc", branch="draft").kind == "NotFoundError"
        assert trouble(caller, question, event="abc", space="other").kind == "NotFoundError"
    assert send(caller).result == "1", "and it goes on"


def test_name_of_the_senders_own_is_handled_once(caller: Caller) -> None:
    first = send(caller, 2, name="a", by="shop")
    again = send(caller, 2, name="a", by="shop")
    assert (again.event, again.state, again.handled_before, again.result) == (first.event, "refused", True, "2")
    assert send(caller, 2, name="a").result == "4"


# --- in nobody's way --------------------------------------------------------------------------------------


def test_others_are_answered_while_a_handler_takes_its_time(caller: Caller, desk: Desk, file: Path) -> None:
    desk.go_on.clear()
    sent: list[EventTold] = []
    sender = threading.Thread(target=lambda: sent.append(send(caller, 5)))
    sender.start()
    assert desk.begun.wait(SAFETY_S)
    with call_when_ready(file) as other:
        assert other.ask(request("ping")).pid
        [opening] = other.ask(request("stats", wait_ms=0)).openings
        assert (opening.busy, opening.running) == (True, ("add",))
        [waiting] = other.ask(request("events", waiting=True, wait_ms=0)).openings[0].events
        assert (waiting.state, waiting.reason) == ("running", "add() is at work on it")
        found = other.ask(request("send", node="add", fields='{"number": 1}', timeout_ms=0.0)).trouble
        assert found is not None
        assert (found.kind, found.message) == (
            "EventTimeoutError",
            "nothing was sent to add(): add() is at work in space 'desk', and it did not have its turn in time",
        )
    desk.go_on.set()
    sender.join(SAFETY_S)
    assert [told.result for told in sent] == ["5"]


def test_questions_behind_something_to_be_done_wait_for_it(caller: Caller) -> None:
    import msgspec

    asks = [request("send", node="add", fields=f'{{"number": {n}}}', timeout_ms=1e4) for n in (1, 2)]
    asks.insert(1, request("ping"))
    caller._connection.sendall(b"".join(msgspec.json.encode(ask) + b"\n" for ask in asks))
    replies = [msgspec.json.decode(caller._line()) for _ in asks]
    assert [reply.get("event", {}).get("result") for reply in replies] == ["1", None, "3"]


def test_whoever_hangs_up_is_forgotten_and_what_he_sent_is_handled(
    space: hw.Space, caller: Caller, desk: Desk, file: Path
) -> None:
    import msgspec

    desk.go_on.clear()
    with call_when_ready(file) as gone:
        ask = request("send", node="add", fields='{"number": 5}', timeout_ms=1e4)
        gone._connection.sendall(msgspec.json.encode(ask) + b"\n")
        assert desk.begun.wait(SAFETY_S)
    desk.go_on.set()
    assert send(caller, 1).result == "6"
    assert space.runs(desk.add) == 2


def test_handler_that_ends_the_thread_it_runs_in_is_told_as_that(file: Path) -> None:
    app = hw.App("desk")

    @app.handler
    def leave() -> None:
        raise SystemExit(3)

    with app.open(file, on_error=lambda _: None), call_when_ready(file) as caller:
        with pytest.raises(hw.HeadwaterError, match="SystemExit: 3"):
            caller.ask(request("send", node="leave", timeout_ms=1e4))
        [kept] = caller.ask(request("events")).openings[0].events
        assert kept.reason == "it was interrupted by SystemExit"


def test_space_that_is_closed_meanwhile_says_that_the_event_is_left(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.host.space.CLOSE_MS", 0.0)
    app = hw.App("desk")
    typed = app.cell("typed", 0)
    quiet = app.computed(name="quiet", debounce="1h")(lambda: typed.value)
    app.handler(name="finish")(lambda: quiet())  # noqa: PLW0108  # a handler is a function of no app
    told: list[Reply] = []
    with app.open(file) as space:
        quiet()
        typed.value = 1
        with call_when_ready(file) as caller, call_when_ready(file) as other:
            ask = request("send", node="finish", timeout_ms=SAFETY_S * 1000.0)
            sender = threading.Thread(target=lambda: told.append(caller.ask(ask)))
            sender.start()
            while not other.ask(request("events", waiting=True)).openings[0].events:
                assert sender.is_alive()
            space.close()
            sender.join(SAFETY_S)
    [event] = [reply.event for reply in told]
    assert event is not None
    assert (event.state, event.reason) == ("queued", "it is left for the next opening")


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
        space.wait_for(event, 1.0)
    desk.go_on.set()
    main.join(SAFETY_S)
    space.wait_for(event, None)
    assert event.result == 3
