"""Streams: events of a class, with a handler declared apart from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import headwater as hw
from headwater.errors import DeclarationError, LimitError, NotOpen, SchemaError, UsageError
from tests.app.workbench import Bench


@dataclass(frozen=True)
class Click:
    x: int
    y: int = 0


class Person(hw.Doc):
    name: str


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_event_of_a_stream_reaches_its_handler_as_a_value_of_the_class(bench: Bench) -> None:
    clicks = bench.app.stream("clicks", Click)

    @bench.app.handler(on=clicks)
    def click(at: Click) -> int:
        bench.log.append(at)
        return at.x + at.y

    with bench.open() as space:
        assert clicks.send(Click(1, 2)).result() == 3
        assert click.send(Click(3)).result() == 3
        assert click.send_fields({"x": 5}).result() == 5
        assert (space.runs(click), bench.log) == (3, [Click(1, 2), Click(3), Click(5)])


def test_stream_and_its_handler_may_have_different_names(bench: Bench) -> None:
    clicks = bench.app.stream("clicks", int)

    @bench.app.handler(on=clicks, name="counter")
    def count(number: int) -> int:
        return number

    assert (clicks.address, count.address, repr(clicks)) == ("bench.clicks", "bench.clicks", "<stream bench.clicks>")
    with bench.open():
        ticket = clicks.send(3)
        assert repr(ticket) == f"<Ticket {ticket.id} for counter(): pending>"


@pytest.mark.parametrize(
    ("kind", "value"), [(int, 3), (list[int], [1, 2]), (dict[str, int], {"a": 1}), (Any, [None]), (str | None, None)]
)
def test_stream_may_carry_any_type(bench: Bench, kind: Any, value: object) -> None:
    stream = bench.app.stream("stream", kind)
    bench.app.handler(on=stream, name="take")(lambda value: bench.log.append(value))  # noqa: PLW0108  # one parameter
    with bench.open():
        stream.send(value)
    assert bench.log == [value]


def test_stream_may_carry_documents(bench: Bench) -> None:
    people = bench.app.stream("people", Person)

    @bench.app.handler(on=people)
    def greet(who: Person) -> str:
        return f"Hello {who.name}"

    with bench.open() as space:
        with space.transaction():
            ticket = people.send(Person(name="Ann"))
        assert ticket.result() == "Hello Ann"


def test_value_that_does_not_fit_is_refused(bench: Bench) -> None:
    clicks = bench.app.stream("clicks", Click)
    click = bench.app.handler(on=clicks, name="click")(lambda at: at.x)
    with bench.open():
        with pytest.raises(SchemaError, match=r"cannot store bench\.clicks/payload: expected Click, got int 3"):
            clicks.send(3)
        with pytest.raises(SchemaError, match="stream clicks: there is no field 'z': Click has no such field"):
            click.send_fields({"x": 1, "z": 2})
        with pytest.raises(SchemaError, match="field 'x' is missing"):
            click.send_fields({"y": 1})


def test_event_with_a_name_of_its_own_is_handled_once(bench: Bench) -> None:
    clicks = bench.app.stream("clicks", Click)
    bench.app.handler(on=clicks, name="click")(lambda at: bench.log.append(at.x))
    with bench.open():
        tickets = [clicks.once("7", by="hook").send(Click(1)) for _ in range(3)]
        assert [ticket.result() for ticket in tickets] == [None] * 3
        assert len({ticket.id for ticket in tickets}) == 1
        with pytest.raises(UsageError, match="texts are expected"):
            clicks.once("")
    assert bench.log == [1]


def test_stream_without_a_handler_says_how_to_declare_one(bench: Bench) -> None:
    clicks = bench.app.stream("clicks", Click)
    with bench.open() as space:
        with pytest.raises(
            UsageError, match=r"stream clicks has no handler; declare one with @app.handler\(on=clicks\)"
        ):
            clicks.send(Click(1))
        bench.app.handler(on=clicks, name="click")(lambda at: at.x)
        assert clicks.send(Click(1)).result() == 1
        space.settle()
    with pytest.raises(NotOpen, match="clicks has no open space here"):
        clicks.send(Click(1))


def test_stream_of_what_cannot_be_stored_is_refused_when_it_is_declared(bench: Bench) -> None:
    with pytest.raises(DeclarationError, match="memoryview cannot be stored"):
        bench.app.stream("views", memoryview)
    with pytest.raises(DeclarationError, match="app 'bench' has 'clicks' already, a stream"):
        [bench.app.stream("clicks", int) for _ in range(2)]


def _takes_nothing() -> None: ...


def _takes_two(first: Click, second: Click) -> None: ...


def _takes_a_name(*, first: Click) -> None: ...


@pytest.mark.parametrize("fn", [_takes_nothing, _takes_two, _takes_a_name])
def test_handler_of_a_stream_takes_its_value_and_nothing_else(bench: Bench, fn: Any) -> None:
    clicks = bench.app.stream("clicks", Click)
    with pytest.raises(DeclarationError, match="on= a stream, it takes one parameter, the event's value"):
        bench.app.handler(on=clicks, name="click")(fn)


def test_backlog_of_a_stream_is_bounded_and_the_sender_is_told(bench: Bench) -> None:
    clicks = bench.app.stream("clicks", int)
    bench.app.handler(on=clicks, name="click", backlog=3)(lambda number: bench.log.append(number))  # noqa: PLW0108
    with bench.open() as space:
        told = r"click\(\) was not sent an event: 3 of stream bench\.clicks wait"
        with pytest.raises(LimitError, match=told), space.transaction():
            for number in range(4):
                clicks.send(number)
        assert bench.taken() == []
        for number in range(4):
            clicks.send(number)
        assert bench.taken() == [0, 1, 2, 3]
