"""Handlers in plain code: what they see, what they may do, and what becomes of what they write."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import cast

import pytest

import headwater as hw
from headwater.errors import DeclarationError, HandlerTakenError, NotOpen, UsageError, WriteError
from tests.app.timed import Timed
from tests.app.workbench import Bench
from tests.support.tickets import came_to


@dataclass(frozen=True)
class Order:
    number: int


class Person(hw.Doc):
    name: str


@pytest.fixture
def bench() -> Bench:
    return Bench()


# --- what they see ----------------------------------------------------------------------------------------


def test_event_sees_what_was_written_just_before_it_was_sent() -> None:
    app = hw.App("order")
    qty = app.cell("qty", 1)
    price = app.cell("price", 250)
    orders = app.cell("orders", list[int]())

    @app.computed
    def total() -> int:
        return qty.value * price.value

    @app.handler
    def submit(note: str) -> int:  # noqa: ARG001  # what an event carries, and nobody looks at
        orders.value = [*orders.value, total()]
        return total()

    with app.open("memory:"):
        qty.value = 4
        ticket = submit.send("gift")
        assert (ticket.result(), orders.value) == (1000, [1000])


def test_event_is_handled_before_the_next_statement(bench: Bench) -> None:
    x = bench.app.cell("x", 0)

    @bench.app.handler
    def add(by: int) -> None:
        x.value += by

    with bench.open():
        add.send(3)
        assert x.value == 3


def test_computed_that_nobody_looks_at_is_fresh_before_and_after_the_handlers_own_writes(bench: Bench) -> None:
    x = bench.app.cell("x", 1)
    runs: list[int] = []

    @bench.app.computed
    def doubled() -> int:
        runs.append(x.value)
        return x.value * 2

    @bench.app.computed
    def above() -> int:
        return doubled() + 1

    @bench.app.handler
    def look() -> list[int]:
        before = above()
        x.value += 10
        return [before, above()]

    with bench.open():
        assert look.send().result() == [3, 23]
        x.value = 5
        assert look.send().result() == [11, 31]
        assert above() == 31


def test_event_sees_what_follows_from_the_event_before_it_when_both_were_sent_together(bench: Bench) -> None:
    x = bench.app.cell("x", 0)

    @bench.app.computed
    def doubled() -> int:
        return x.value * 2

    @bench.app.handler
    def add() -> int:
        x.value += 1
        return doubled()

    with bench.open() as space:
        with space.transaction():
            tickets = [add.send() for _ in range(3)]
        assert [ticket.result() for ticket in tickets] == [2, 4, 6]


@pytest.mark.parametrize("demand", ["lazy", "eager"])
def test_demand_of_a_space_makes_no_difference_to_what_a_handler_sees(bench: Bench, demand: str) -> None:
    x = bench.app.cell("x", 1)

    @bench.app.computed
    def doubled() -> int:
        return x.value * 2

    @bench.app.handler
    def look() -> int:
        return doubled()

    with bench.app.open("memory:", demand="eager" if demand == "eager" else "lazy") as space:
        x.value = 4
        assert look.send().result() == 8
        assert space.runs(doubled) == (2 if demand == "eager" else 1)


def test_failing_computed_fails_in_the_handler_that_calls_it_and_not_before(bench: Bench) -> None:
    x = bench.app.cell("x", 0)

    @bench.app.computed
    def inverse() -> int:
        return 12 // x.value

    @bench.app.handler
    def look(*, carefully: bool) -> int:
        try:
            return inverse()
        except ZeroDivisionError:
            if carefully:
                return -1
            raise

    with bench.open():
        assert look.send(carefully=True).result() == -1
        with pytest.raises(hw.EventFailedError, match="ZeroDivisionError"):
            look.send(carefully=False).result()
        x.value = 4
        assert look.send(carefully=False).result() == 3


def test_cells_of_a_user_and_of_a_session_are_those_of_the_opening_that_handles(bench: Bench) -> None:
    draft = bench.app.cell("draft", "", scope="user")
    clicks = bench.app.cell("clicks", 0, scope="session")

    @bench.app.handler
    def write(text: str) -> str:
        draft.value = text
        clicks.value += 1
        return f"{draft.value} {clicks.value}"

    with bench.app.open("memory:", actor="ann") as space:
        assert write.send("a").result() == "a 1"
        assert write.send("b").result() == "b 2"
        assert space.cell("user:ann!bench.draft", str).value == "b"
        assert (draft.value, clicks.value) == ("b", 2)


# --- what they write --------------------------------------------------------------------------------------


def test_handler_that_raises_has_written_nothing_and_the_next_event_is_handled(bench: Bench) -> None:
    x = bench.app.cell("x", 0)

    @bench.app.handler
    def add(by: int) -> int:
        x.value += by
        if by < 0:
            raise ValueError(by)
        return x.value

    with bench.open() as space:
        with space.transaction():
            tickets = [add.send(1), add.send(-5), add.send(1)]
        assert x.value == 2
        assert came_to(*tickets) == ["handled", "failed", "handled"]


def test_error_of_a_handler_is_told_with_whose_it_is_the_event_and_what_it_carried(bench: Bench) -> None:
    @bench.app.handler
    def refuse(order: Order, note: str = "none") -> None:
        raise LookupError(order.number, note)

    with bench.app.open("memory:", space="shelf", on_error=bench.errors.append):
        ticket = refuse.send(Order(7))
    (told,) = bench.errors
    assert told.facts == {
        "piece": "",
        "node": "refuse",
        "space": "shelf",
        "event": ticket.id,
        "triggers": (),
        "run": 1,
        "payload": {"order": {"number": 7}, "note": "none"},
    }
    assert isinstance(told.__cause__, LookupError)
    assert told.message == (
        f"refuse() in space 'shelf' did not handle {ticket.id}: LookupError: (7, 'none'). Nothing of it was written. "
        f"It is kept: `headwater events show {ticket.id}` shows it, `headwater events redeliver {ticket.id}` delivers "
        "it again"
    )


def test_document_made_in_a_handler_is_there_when_the_handler_has_succeeded(bench: Bench) -> None:
    people = bench.app.cell("people", list[Person](), type=list[Person])

    @bench.app.handler
    def join(name: str) -> Person:
        person = Person(name=name)
        people.append(person)
        if not name:
            raise ValueError
        return person

    with bench.open():
        ann = join.send("Ann").result()
        assert (type(ann), ann.name, people.value) == (Person, "Ann", [ann])
        assert join.send("").state == "failed"
        assert people.value == [ann]


def test_console_of_a_handler_names_the_event(bench: Bench) -> None:
    heard: list[hw.Console] = []

    def hear(console: hw.Console) -> str:
        heard.append(console)
        return ""

    @bench.app.handler
    def speak(text: str) -> None:
        print(text)

    with bench.app.open("memory:", space="shelf", on_console=hear):
        tickets = [speak.send("a"), speak.send("b")]
    told = [(console.text, console.node, console.space, console.event, console.run) for console in heard]
    assert told == [("a", "speak", "shelf", tickets[0].id, 1), ("b", "speak", "shelf", tickets[1].id, 2)]


def test_part_of_a_handler_may_fail_alone(bench: Bench) -> None:
    x = bench.app.cell("x", 0)
    y = bench.app.cell("y", 0)

    @bench.app.handler
    def try_both() -> list[int]:
        x.value = 1
        with suppress(LookupError), space.transaction():
            y.value = 1
            note.send()
            raise LookupError
        return [x.value, y.value]

    @bench.app.handler
    def note() -> None:
        bench.log.append("noted")

    with bench.open() as space:
        assert try_both.send().result() == [1, 0]
        assert (x.value, y.value, bench.log) == (1, 0, [])


def test_sinks_of_the_handlers_change_group_are_not_told_of_what_it_writes(bench: Bench) -> None:
    x = bench.app.cell("x", 0)

    @bench.app.handler(change_group="form")
    def type_in(number: int) -> None:
        x.value = number

    bench.app.sink(name="own", change_group="form")(lambda: bench.log.append(("own", x.value)))
    bench.app.sink(name="other")(lambda: bench.log.append(("other", x.value)))
    with bench.open():
        bench.taken()
        type_in.send(3)
        assert bench.taken() == [("other", 3)]


def test_event_that_waits_for_time_is_handled_when_the_program_lets_time_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    timed = Timed(monkeypatch)
    x = timed.app.cell("x", 1)

    @timed.app.computed(debounce="200ms")
    def calm() -> int:
        return x.value

    @timed.app.handler
    def look() -> int:
        timed.log.append(calm())
        return calm()

    with timed.open() as space:
        assert calm() == 1
        x.value = 2
        tickets = [look.send(), look.send()]
        space.settle()
        assert (timed.taken(), [ticket.state for ticket in tickets]) == ([], ["queued", "queued"])
        space.wait("199ms")
        assert timed.taken() == []
        space.wait("2ms")
        assert timed.taken() == [2, 2]


# --- calls ------------------------------------------------------------------------------------------------


def test_handler_that_is_called_in_a_transaction_is_a_part_of_it(bench: Bench) -> None:
    x = bench.app.cell("x", 0)

    @bench.app.handler
    def add(by: int) -> int:
        x.value += by
        return x.value

    with bench.open() as space:
        with pytest.raises(KeyError), space.transaction():
            assert add(2) == 2
            raise KeyError
        assert x.value == 0
        with space.transaction():
            assert (add(2), add(by=3)) == (2, 5)
        assert (x.value, space.runs(add)) == (5, 0)


def test_handler_may_call_another_and_both_are_one(bench: Bench) -> None:
    x = bench.app.cell("x", 0)

    @bench.app.handler
    def add(by: int) -> int:
        x.value += by
        return x.value

    @bench.app.handler
    def add_twice(by: int, *, and_fail: bool = False) -> int:
        add(by)
        if and_fail:
            raise ValueError
        return add(by)

    with bench.open():
        assert add_twice.send(4).result() == 8
        assert add_twice.send(4, and_fail=True).state == "failed"
        assert x.value == 8


def test_handler_that_is_called_without_a_transaction_says_how_to_send(bench: Bench) -> None:
    @bench.app.handler
    def add(by: int) -> None: ...

    with bench.open(), pytest.raises(UsageError, match=r"send it an event with add\.send\(\.\.\.\)"):
        add(3)
    with pytest.raises(NotOpen, match="add has no open space here"):
        add(3)
    with pytest.raises(NotOpen, match="add has no open space here"):
        add.send(3)


def test_computed_may_neither_send_nor_call_a_handler_that_writes(bench: Bench) -> None:
    x = bench.app.cell("x", 0)

    @bench.app.handler
    def add() -> None:
        x.value += 1

    @bench.app.computed
    def sends() -> int:
        add.send()
        return 1

    @bench.app.computed
    def calls() -> int:
        add()
        return 1

    with bench.open() as space:
        with pytest.raises(WriteError, match=r"sends\(\) only reads, and may not send to add\(\)"):
            sends()
        with pytest.raises(WriteError, match=r"calls\(\) is computed and may not write bench.x"):
            calls()
        with pytest.raises(WriteError, match=r"only reads, and may not send to add\(\)"), space.transaction():
            x.value = 5
            sends()
        assert x.value == 0


def test_handler_may_not_close_its_space(bench: Bench) -> None:
    x = bench.app.cell("x", 0)

    @bench.app.handler
    def stop() -> None:
        x.value = 1
        space.close()

    with bench.open() as space:
        with pytest.raises(hw.EventFailedError, match="a handler cannot close the space that it runs in"):
            stop.send().result()
        assert not space.closed
        x.value = 2


# --- declaring --------------------------------------------------------------------------------------------


def test_second_handler_of_a_stream_is_refused_and_both_are_named(bench: Bench) -> None:
    clicks = bench.app.stream("clicks", int)

    @bench.app.handler(on=clicks)
    def first(number: int) -> None: ...

    def second(number: int) -> None: ...

    with pytest.raises(HandlerTakenError) as refused:
        bench.app.handler(on=clicks)(second)
    assert refused.value.message == (
        "@app.handler second(): stream clicks is handled by first() already, and each event by one; call the one from "
        "the other"
    )
    assert refused.value.facts == {"stream": "clicks", "taken_by": "first"}


def test_two_handlers_of_one_name_are_refused(bench: Bench) -> None:
    def submit() -> None: ...

    bench.app.handler(submit)
    with pytest.raises(DeclarationError, match=r"app 'bench' has 'submit' already, a handler"):
        bench.app.handler(submit)


def _takes_many(*numbers: int) -> None: ...


def _takes_any(**numbers: int) -> None: ...


def _goes_on() -> object:
    yield 1


@pytest.mark.parametrize(
    ("fn", "options", "told"),
    [
        (_takes_many, {}, r"\*numbers cannot be sent; name what an event carries"),
        (_takes_any, {}, r"\*\*numbers cannot be sent; name what an event carries"),
        (_goes_on, {}, "is a generator"),
        (len, {"name": "a", "on": "clicks"}, r"on='clicks'; a stream made with app.stream\(...\) is expected"),
        (lambda: None, {}, "needs a name"),
        (lambda: None, {"name": "a", "backlog": 0}, "backlog=0; a number of events is expected, 1 or more"),
        (lambda: None, {"name": "a", "backlog": True}, "backlog=True; a number of events"),
        (lambda: None, {"name": "a", "timeout": "5s"}, "timeout= is for async functions"),
        (lambda: None, {"name": "a", "change_group": 3}, "change_group=3; a text is expected"),
        (lambda: None, {"name": "a", "debounce": "5s"}, "there is no option debounce=; it takes name, on, reads"),
        (lambda: None, {"name": "a", "reads": "x"}, "reads="),
        (3, {}, "is put in front of a function, not of 3"),
    ],
)
def test_handler_that_cannot_be_is_refused_when_it_is_declared(
    bench: Bench, fn: Callable[..., object], options: dict[str, object], told: str
) -> None:
    handler = cast("Callable[..., Callable[..., object]]", bench.app.handler)
    with pytest.raises(DeclarationError, match=told):
        handler(**options)(fn) if options else handler(fn)


def test_handler_of_a_type_that_cannot_be_found_is_refused_when_the_app_is_opened(bench: Bench) -> None:
    """Not before: the type may be declared further down."""

    def submit(order: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    bench.app.handler(submit)
    told = r"submit\(\): its types cannot be resolved: name 'Missing' is not defined"
    with pytest.raises(DeclarationError, match=told):
        bench.open()


def _takes(first: int, second: int) -> int:
    return first + second


class _Callable:
    def __call__(self, number: int) -> int:
        return number


@pytest.mark.parametrize("fn", [partial(_takes, 7), _Callable()], ids=["partial", "object"])
def test_handler_whose_types_cannot_be_told_is_refused_when_the_app_is_opened(
    bench: Bench, fn: Callable[..., object]
) -> None:
    bench.app.handler(name="submit")(fn)
    with pytest.raises(DeclarationError, match=r"submit\(\): the types of .* are not known; declare a plain function"):
        bench.open()


@pytest.mark.parametrize("where", ["parameter", "result"])
def test_handler_of_a_type_that_cannot_be_stored_is_refused_when_the_app_is_opened(bench: Bench, where: str) -> None:
    def takes(lock: memoryview) -> None: ...

    def gives() -> memoryview:
        return memoryview(b"")

    bench.app.handler(name="submit")(takes if where == "parameter" else gives)
    told = r"submit\(\), lock" if where == "parameter" else r"the result of submit\(\)"
    with pytest.raises(DeclarationError, match=f"cannot declare {told}: memoryview cannot be stored"):
        bench.open()


def test_handler_that_is_declared_again_in_a_notebook_takes_over_what_waits(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builtins, "__IPYTHON__", True, raising=False)
    log = bench.log
    clicks = bench.app.stream("clicks", int)
    bench.app.handler(name="submit")(lambda: log.append("first"))
    bench.app.handler(name="click", on=clicks)(lambda number: log.append(("first", number)))
    with bench.open() as space:
        with space.transaction():
            clicks.send(1)
            bench.app.handler(name="click", on=clicks)(lambda number: log.append(("second", number)))
        submit = bench.app.handler(name="submit")(lambda: log.append("second"))
        submit.send()
        clicks.send(2)
        assert log == [("second", 1), "second", ("second", 2)]


def test_handler_that_was_replaced_in_a_notebook_still_sends_to_the_stream(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cell further up that was not run again holds the old one."""
    monkeypatch.setattr(builtins, "__IPYTHON__", True, raising=False)
    old = bench.app.handler(name="submit")(lambda: "old")
    with bench.open() as space:
        assert old.send().result() == "old"
        new = bench.app.handler(name="submit")(lambda: "new")
        assert (old.send().result(), new.send().result(), space.runs(new)) == ("new", "new", 2)
