"""What events carry: checked when they are sent, complete while they wait, of the declared types when they arrive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pytest

import headwater as hw
from headwater.core import doc_key
from headwater.errors import AddressError, HeadwaterError, LimitError, SchemaError
from tests.app.workbench import Bench


class Mood(Enum):
    GOOD = "good"
    BAD = "bad"


@dataclass(frozen=True)
class Point:
    x: int
    y: int = 0


@dataclass
class Shape:
    points: list[Point]
    name: str = ""
    mood: Mood = Mood.GOOD
    labels: dict[str, str] = field(default_factory=dict)


class Person(hw.Doc):
    name: str
    age: int = 0


@dataclass(frozen=True)
class Invitation:
    who: Person
    seats: int = 1


@pytest.fixture
def bench() -> Bench:
    return Bench()


# --- values -----------------------------------------------------------------------------------------------


FITTING: list[tuple[Any, object]] = [
    (str, ""),
    (str, "a gift \U0001f381, \0 and ünïcödé"),
    (str, "x" * 1_000_000),
    (bytes, b"\0\xff" * 1000),
    (int, 2**63 - 1),
    (float, 1e300),
    (bool, True),
    (None, None),
    (int | None, None),
    (list[list[int]], [[1, 2], [], [3]]),
    (dict[str, list[int]], {"a": [1], "": []}),
    (tuple[int, str], (1, "a")),
    (Literal["a", "b"], "b"),
    (datetime, datetime(2024, 2, 29, 12, 30, tzinfo=UTC)),
    (Mood, Mood.BAD),
    (Point, Point(3)),
    (list[Point], [Point(1, 2), Point(3, 4)]),
    (Any, {"a": [1, None, 2.5, {"b": "c"}]}),
]


@pytest.mark.parametrize(("kind", "value"), FITTING, ids=range(len(FITTING)))
def test_value_arrives_and_returns_as_what_it_was(bench: Bench, kind: Any, value: object) -> None:
    def echo(value: object) -> object:
        bench.log.append(value)
        return value

    echo.__annotations__ = {"value": kind, "return": kind}
    handler = bench.app.handler(echo)
    with bench.open():
        assert handler.send(value).result() == value
    assert bench.log == [value]
    assert type(bench.log[0]) is type(value) or kind in (float, Any) or isinstance(bench.log[0], type(value))


MISFIT: list[tuple[Any, object, type[HeadwaterError], str]] = [
    (str, 3, SchemaError, "cannot store bench.echo/value: expected str, got int 3"),
    (str, None, SchemaError, "expected str, got None"),
    (str, b"a", SchemaError, "expected str, got"),
    (bytes, "a", SchemaError, "expected bytes, got str 'a'"),
    (bool, 1, SchemaError, "expected bool, got int 1"),
    (str, "\ud800", SchemaError, "a lone surrogate"),
    (str, "x" * 20_000_000, LimitError, "larger than a document may be"),
    (int, 2**70, SchemaError, "64 bits"),
    (list[list[int]], [[1], ["a"]], SchemaError, "cannot store 1/0 in bench.echo/value: expected int, got str 'a'"),
    (Literal["a", "b"], "c", SchemaError, "expected 'a' or 'b', got str 'c'"),
    (Point, {"x": 1}, SchemaError, "expected Point, got dict"),
    (Any, object(), AddressError, "object is not a value"),
    (Any, float("nan"), AddressError, "nan is not a number that JSON has"),
    (Any, {1: 2}, AddressError, "the key 1 is int; keys are text"),
    (Person, "ann", SchemaError, "expected Person, got 'ann'"),
]


@pytest.mark.parametrize(("kind", "value", "error", "told"), MISFIT, ids=range(len(MISFIT)))
def test_value_that_does_not_fit_is_refused_to_whoever_sends(
    bench: Bench, kind: Any, value: object, error: type[HeadwaterError], told: str
) -> None:
    def echo(value: object) -> None:
        bench.log.append(value)

    echo.__annotations__ = {"value": kind}
    handler = bench.app.handler(echo)
    with bench.open() as space:
        with pytest.raises(error, match=told):
            handler.send(value)
        assert space.stats.commits == 0
    assert (bench.log, bench.errors) == ([], [])


def test_value_that_contains_itself_is_refused(bench: Bench) -> None:
    itself: list[object] = []
    itself.append(itself)

    @bench.app.handler
    def echo(value: Any) -> None: ...

    with bench.open(), pytest.raises(LimitError, match="does it contain itself"):
        echo.send(itself)


def test_what_the_sender_changes_afterwards_does_not_change_the_event(bench: Bench) -> None:
    @bench.app.handler
    def echo(value: list[int]) -> list[int]:
        return value

    with bench.open() as space:
        given = [1]
        with space.transaction():
            ticket = echo.send(given)
            given.append(2)
        assert ticket.result() == [1]


def test_what_arrives_cannot_be_changed_by_the_handler(bench: Bench) -> None:
    @bench.app.handler
    def add(values: list[int]) -> None:
        values.append(1)

    @bench.app.handler
    def rename(shape: Shape) -> None:
        shape.name = "other"

    with bench.open():
        for ticket in (add.send([]), rename.send(Shape([]))):
            with pytest.raises(hw.EventFailedError, match="FrozenError"):
                ticket.result()


def test_arguments_that_do_not_fit_the_function_are_refused_as_a_call_would(bench: Bench) -> None:
    @bench.app.handler
    def submit(note: str, stars: int = 0) -> None: ...

    send: Callable[..., object] = submit.send
    with bench.open():
        for args, kwargs in (((), {}), (("a", 1, 2), {}), (("a",), {"star": 1}), (("a",), {"note": "b"})):
            with pytest.raises(TypeError, match=r"submit\(\): .*; it takes note: str, stars: int"):
                send(*args, **kwargs)


def test_defaults_are_filled_in_when_the_event_is_sent(bench: Bench) -> None:
    default = Point(1)

    @bench.app.handler
    def submit(note: str = "none", *, point: Point = default, tags: list[str] | None = None) -> list[object]:
        return [note, point.x, tags]

    with bench.open() as space:
        with space.transaction():
            ticket = submit.send()
        assert ticket.result() == ["none", 1, None]
        stored = space._opening.replica.read(doc_key(f"receipt:{ticket.id.removeprefix('event:')}"))
        assert stored == {"stream": "bench.submit", "result": ["none", 1, None]}


# --- documents and cells ----------------------------------------------------------------------------------


def test_document_arrives_as_itself(bench: Bench) -> None:
    @bench.app.handler
    def birthday(who: Person, *, others: list[Person] | None = None) -> Person:
        for person in [who, *(others or [])]:
            person.age += 1
        return who

    @bench.app.handler
    def invite(invitation: Invitation, by: dict[str, Person]) -> list[str]:
        return [invitation.who.name, *(person.name for person in by.values())]

    with bench.open():
        ann, bob = Person(name="Ann"), Person(name="Bob", age=40)
        assert birthday.send(ann).result() is ann
        birthday.send(ann, others=[bob, bob])
        assert (ann.age, bob.age) == (2, 42)
        assert invite.send(Invitation(ann), {"host": bob}).result() == ["Ann", "Bob"]


def test_document_made_in_the_senders_transaction_is_there_when_the_event_is_handled(bench: Bench) -> None:
    @bench.app.handler
    def birthday(who: Person) -> int:
        who.age += 1
        return who.age

    with bench.open() as space:
        with space.transaction():
            ann = Person(name="Ann", age=38)
            ticket = birthday.send(ann)
        assert (ticket.result(), ann.age) == (39, 39)
        with pytest.raises(KeyError), space.transaction():
            bob = Person(name="Bob")
            lost = birthday.send(bob)
            raise KeyError
        assert (lost.state, hw.exists(bob)) == ("refused", False)


def test_document_that_was_deleted_meanwhile_fails_the_event_that_reads_it(bench: Bench) -> None:
    @bench.app.handler
    def greet(who: Person) -> str:
        return f"Hello {who.name}"

    with bench.open() as space:
        ann = Person(name="Ann")
        with space.transaction():
            ticket = greet.send(ann)
            hw.delete(ann)
        with pytest.raises(hw.EventFailedError, match="cannot be read: the document does not exist; it was deleted"):
            ticket.result()


def test_document_without_a_type_arrives_as_what_it_holds(bench: Bench) -> None:
    """As it is read from a cell without a type."""

    @bench.app.handler
    def look(value: Any, others: Any) -> Any:
        return [value, others]

    with bench.open():
        ann = Person(name="Ann")
        assert look.send(ann, [1, {"who": ann}]).result() == [
            {"name": "Ann", "age": 0},
            [1, {"who": {"name": "Ann", "age": 0}}],
        ]


def test_cell_arrives_as_a_cell(bench: Bench) -> None:
    numbers = bench.app.cell("numbers", [1, 2, 3])
    mine = bench.app.cell("mine", 5, scope="user")

    @bench.app.handler
    def raise_all(cells: list[hw.Cell[int]], by: int) -> int:
        for cell in cells:
            cell.value += by
        return len(cells)

    with bench.app.open("memory:", actor="ann"):
        numbers.value = [1, 2, 3]
        mine.value = 5
        assert raise_all.send([numbers.at(0), numbers.at(2), mine], 10).result() == 3
        assert (numbers.value, mine.value) == ([11, 2, 13], 15)


def test_confirmed_document_of_another_space_is_read_there(bench: Bench) -> None:
    @bench.app.handler
    def greet(who: Person) -> str:
        return who.name

    with bench.open() as space:
        ann = Person(name="Ann")
        space.sync()
        with bench.app.open("memory:", space="other"):
            assert greet.send(ann).result() == "Ann"


def test_computed_of_a_document_that_an_event_names_is_current_when_it_is_handled(bench: Bench) -> None:
    @bench.app.computed
    def years_left(who: Person) -> int:
        return 100 - who.age

    @bench.app.handler
    def look(who: Person) -> int:
        return years_left(who)

    with bench.open():
        ann = Person(name="Ann", age=10)
        assert look.send(ann).result() == 90
        ann.age = 20
        assert look.send(ann).result() == 80


# --- from outside of Python -------------------------------------------------------------------------------


Order = hw.Handler[..., dict[str, Any]]


@pytest.fixture
def order(bench: Bench) -> Order:
    @bench.app.handler
    def order(shape: Shape, note: str = "none", mood: Mood = Mood.GOOD, count: float = 1) -> dict[str, Any]:
        points = [[point.x, point.y] for point in shape.points]
        return {"points": points, "name": shape.name, "note": note, "mood": mood.value, "count": count}

    return order


def test_fields_are_taken_by_name_with_all_defaults(bench: Bench, order: Order) -> None:
    with bench.open():
        fields = {"shape": {"points": [{"x": 1}, {"x": 2, "y": 3}]}, "mood": "bad", "count": 2}
        assert order.send_fields(fields).result() == {
            "points": [[1, 0], [2, 3]],
            "name": "",
            "note": "none",
            "mood": "bad",
            "count": 2.0,
        }


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, r"order\(\): shape is missing; it takes shape: Shape, note: str"),
        ({"shape": {"points": []}, "nte": 1}, r"order\(\): there is no field 'nte': it takes shape: Shape"),
        ({"shape": {"points": [], "nme": 1}}, r"order\(\): there is no field 'nme': bench.order/shape is Shape"),
        ({"shape": {"points": [{"x": 1, "z": 2}]}}, r"order\(\): there is no field 'points/0/z'"),
        ({"shape": {"points": [{"y": 1}]}}, "cannot send bench.order/shape/points/0: field 'x' is missing"),
        ({"shape": {"points": [{"x": "1"}]}}, "cannot send bench.order/shape/points/0/x: expected int, got str '1'"),
        ({"shape": {"points": []}, "note": 3}, "cannot send bench.order/note: expected str, got int 3$"),
        ({"shape": {"points": []}, "mood": "odd"}, "cannot send bench.order/mood: expected"),
        ({"shape": None}, "cannot send bench.order/shape: expected Shape, got None"),
    ],
)
def test_fields_that_are_unknown_missing_or_misfit_are_refused_and_nothing_is_sent(
    bench: Bench, order: Order, fields: dict[str, object], told: str
) -> None:
    with bench.open() as space:
        with pytest.raises(SchemaError, match=told):
            order.send_fields(fields)
        assert space.runs(order) == 0


@pytest.mark.parametrize("fields", [["shape"], "shape", 3, None])
def test_fields_that_are_no_map_are_refused(bench: Bench, order: Order, fields: Any) -> None:
    with bench.open(), pytest.raises(SchemaError, match=r"order\(\): fields by name are expected, not"):
        order.send_fields(fields)


def test_dict_in_a_field_takes_any_key(bench: Bench) -> None:
    @bench.app.handler
    def count(words: dict[str, int], other: Any) -> Any:
        return [sorted(words), other]

    with bench.open():
        sent = count.send_fields({"words": {"a": 1, "b": 2}, "other": {"c": [{"d": None}]}})
        assert sent.result() == [["a", "b"], {"c": [{"d": None}]}]


def test_document_is_named_by_a_link(bench: Bench) -> None:
    @bench.app.handler
    def greet(who: Person) -> str:
        return f"Hello {who.name}"

    with bench.open():
        ann = Person(name="Ann")
        link = {"/": {"link@1": {"id": hw.id_of(ann), "scope": "space"}}}
        assert greet.send_fields({"who": link}).result() == "Hello Ann"
        with pytest.raises(SchemaError, match=r"cannot send bench\.greet/who: expected a link to Person"):
            greet.send_fields({"who": hw.id_of(ann)})


# --- other versions ---------------------------------------------------------------------------------------


def leave_one(url: Path) -> None:
    """A version of a program that is ended while an event waits."""
    app = hw.App("shop")
    x = app.cell("x", 0)

    @app.computed(debounce="1h")
    def calm() -> int:
        return x.value

    @app.handler
    def submit(note: str) -> int:  # noqa: ARG001  # what later versions find
        return calm()

    with app.open(url):
        assert calm() == 0
        x.value = 1
        assert submit.send("gift").state == "queued"


def go_on(url: Path, submit: Callable[..., object]) -> list[str]:
    """Another version of it, with another handler. What went wrong."""
    app = hw.App("shop")
    app.handler(name="submit")(submit)
    errors: list[hw.UserCodeError] = []
    with app.open(url, on_error=errors.append) as space:
        space.settle()
    return [str(error.facts["payload"]) + error.message.partition(": ")[2] for error in errors]


def test_event_of_an_older_version_gets_the_default_of_a_new_parameter(tmp_path: Path) -> None:
    log: list[object] = []

    def submit(note: str, stars: int = 3, point: Point | None = None) -> None:
        log.append((note, stars, point))

    leave_one(tmp_path / "shop.db")
    assert go_on(tmp_path / "shop.db", submit) == []
    assert go_on(tmp_path / "shop.db", submit) == []
    assert log == [("gift", 3, None)]


def test_event_of_an_older_version_may_carry_what_is_no_longer_wanted(tmp_path: Path) -> None:
    log: list[object] = []
    leave_one(tmp_path / "shop.db")
    assert go_on(tmp_path / "shop.db", lambda: log.append("handled")) == []
    assert log == ["handled"]


def _needs_stars(note: str, stars: int) -> None: ...


def _needs_a_number(note: int) -> None: ...


@pytest.mark.parametrize(
    ("submit", "told"),
    [
        (_needs_stars, "what was sent has no stars; it was sent by another version of the program"),
        (_needs_a_number, "cannot read shop.submit/note: expected int, got str 'gift'"),
    ],
)
def test_event_of_an_older_version_that_does_not_fit_fails_and_is_kept(
    tmp_path: Path, submit: Callable[..., object], told: str
) -> None:
    leave_one(tmp_path / "shop.db")
    (found,) = go_on(tmp_path / "shop.db", submit)
    assert found.startswith("{'note': 'gift'}SchemaError")
    assert told in found
    assert "It is kept: `headwater events show" in found
    assert go_on(tmp_path / "shop.db", submit) == []


def test_event_of_a_handler_that_is_gone_waits_until_it_is_back(tmp_path: Path) -> None:
    log: list[str] = []
    leave_one(tmp_path / "shop.db")
    with hw.App("shop").open(tmp_path / "shop.db") as space:
        space.settle()
    assert go_on(tmp_path / "shop.db", lambda note: log.append(note)) == []  # noqa: PLW0108  # it names a parameter
    assert log == ["gift"]
