"""What cannot be read again is not stored: the rules of models hold for writes to their parts, whichever way they come.

Each case is a whole with a rule, a write to a part that breaks it, and one that does not. The same writes are made in a
transaction and outside of one, and by another opening.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

import annotated_types
import msgspec
import pytest
from pydantic import AfterValidator, BaseModel, Field, StringConstraints, model_validator

import headwater as hw
from headwater.errors import ConflictError, DeclarationError, SchemaError
from headwater.store.commit import SetDoc
from headwater.values.ids import DocKey
from headwater.values.tree import freeze
from tests.cells.kit import Sent, inside, stored, twice


class Person(BaseModel):
    name: str = Field(min_length=1)
    age: int = Field(ge=0)
    tags: list[str] = Field(default_factory=list, max_length=2)


class Span(BaseModel):
    low: int = 0
    high: int = 10

    @model_validator(mode="after")
    def in_order(self) -> Span:
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


@dataclass
class Range:
    lo: int = 0
    hi: int = 10
    steps: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.lo > self.hi:
            raise ValueError("lo > hi")
        if sum(self.steps) > self.hi:
            raise ValueError("too many steps")


class Limits(msgspec.Struct):
    top: Annotated[int, msgspec.Meta(gt=0)] = 1
    names: Annotated[list[str], msgspec.Meta(max_length=2)] = []


class Checked(msgspec.Struct):
    amount: int = 0

    def __post_init__(self) -> None:
        if self.amount < 0:
            raise ValueError("amount must not be negative")


class _Pair(NamedTuple):
    a: int
    b: int = 0


class Pair(_Pair):
    __slots__ = ()

    def __new__(cls, a: int, b: int = 0) -> Self:
        if a > b:
            raise ValueError("a > b")
        return super().__new__(cls, a, b)


@dataclass
class Plain:
    must: int
    may: int = 0


@dataclass
class Cat:
    kind: Literal["cat"] = "cat"
    lives: int = 9


@dataclass
class Dog:
    bark: str
    kind: Literal["dog"] = "dog"


@dataclass
class Outer:
    inner: Range = field(default_factory=Range)
    by_name: dict[str, Range] = field(default_factory=dict)


Write = Callable[[Any], Any]


def put(*path: str | int, value: object) -> Write:
    return lambda cell: setattr(cell.at(*path), "value", value)


CASES: dict[str, tuple[Any, Any, Write, Write]] = {
    "a field of a model": (Person, Person(name="a", age=3), put("age", value=-5), put("age", value=5)),
    "text of a model": (Person, Person(name="a", age=3), put("name", value=""), put("name", value="b")),
    "a count of a model": (
        Person,
        Person(name="a", age=3),
        lambda cell: cell.at("age").increment(-5),
        lambda cell: cell.at("age").increment(-2),
    ),
    "a list of a model": (
        Person,
        Person(name="a", age=3, tags=["x"]),
        lambda cell: cell.at("tags").extend(["y", "z"]),
        lambda cell: cell.at("tags").append("y"),
    ),
    "a validator of a model": (Span, Span(), put("low", value=11), put("low", value=10)),
    "__post_init__": (Range, Range(), put("lo", value=11), put("lo", value=10)),
    "__post_init__, a count": (
        Range,
        Range(),
        lambda cell: cell.at("lo").increment(11),
        lambda cell: cell.at("lo").increment(10),
    ),
    "__post_init__, an append": (
        Range,
        Range(),
        lambda cell: cell.at("steps").append(11),
        lambda cell: cell.at("steps").append(10),
    ),
    "__post_init__, an element": (
        Range,
        Range(steps=[1]),
        put("steps", 0, value=11),
        put("steps", 0, value=2),
    ),
    "__post_init__, a removal": (
        Range,
        Range(lo=-4, hi=-2, steps=[-3, -3]),
        lambda cell: cell.at("steps").remove(-3),
        lambda cell: cell.at("steps").insert(0, -1),
    ),
    "__post_init__, back to the default": (
        Range,
        Range(lo=20, hi=30),
        lambda cell: cell.at("hi").clear(),
        lambda cell: cell.at("lo").clear(),
    ),
    "an inner model": (Outer, Outer(), put("inner", "lo", value=11), put("inner", "lo", value=1)),
    "a model in a dict": (
        dict[str, Range],
        {"a": Range()},
        put("a", "lo", value=11),
        put("a", "lo", value=1),
    ),
    "a model in a list, or none": (
        list[Range | None],
        [None, Range()],
        put(1, "lo", value=11),
        put(0, value=None),
    ),
    "a Struct": (Limits, Limits(), put("top", value=0), put("top", value=2)),
    "a list of a Struct": (
        Limits,
        Limits(names=["a"]),
        lambda cell: cell.at("names").extend(["b", "c"]),
        lambda cell: cell.at("names").append("b"),
    ),
    "__post_init__ of a Struct": (Checked, Checked(), put("amount", value=-1), put("amount", value=1)),
    "a named tuple": (Pair, Pair(1, 2), put("a", value=3), put("a", value=2)),
    "Annotated by pydantic": (
        Annotated[int, Field(gt=0)],
        1,
        lambda cell: cell.increment(-1),
        lambda cell: cell.increment(-1 + 2),
    ),
    "Annotated by msgspec": (
        Annotated[int, msgspec.Meta(le=3)],
        1,
        lambda cell: cell.increment(3),
        lambda cell: cell.increment(2),
    ),
    "Annotated elements": (
        list[Annotated[int, Field(gt=0)]],
        [1],
        lambda cell: cell.append(0),
        lambda cell: cell.append(2),
    ),
    "an Annotated list": (
        Annotated[list[int], annotated_types.Len(1, 2)],
        [1],
        lambda cell: cell.remove(1),
        lambda cell: cell.append(2),
    ),
    "a part of an Annotated list": (
        Annotated[list[int], annotated_types.Predicate(lambda items: sum(items) < 10)],
        [1],
        put(0, value=11),
        put(0, value=9),
    ),
    "a number with few values": (
        Literal[1, 2],
        2,
        lambda cell: cell.increment(1),
        put(value=1),
    ),
    "a field without default": (Plain, Plain(1), lambda cell: cell.at("must").clear(), put("must", value=2)),
    "a field without default, as a key": (
        Plain,
        Plain(1, 2),
        lambda cell: cell.remove("must"),
        lambda cell: cell.remove("may"),
    ),
    "an element of a tuple": (
        tuple[int, int],
        (1, 2),
        lambda cell: cell.at(0).clear(),
        put(0, value=3),
    ),
    "the tag of one of several": (Cat | Dog, Cat(), put("kind", value="dog"), put("lives", value=8)),
}


@pytest.mark.parametrize("in_transaction", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_what_cannot_be_read_again_is_not_stored(case: str, in_transaction: bool) -> None:
    hint, value, wrong, right = CASES[case]
    app = hw.App("t")
    cell = app.cell("cell", type=hint)
    other = app.cell("other", 0)
    with app.open("memory:") as space:
        cell.value = value
        before = stored(space, cell.address)
        sent = Sent(space)
        if in_transaction:
            with space.transaction():
                other.value = 1
                with pytest.raises(SchemaError):
                    wrong(cell)
                assert cell.value == value
            assert other.value == 1
        else:
            with pytest.raises(SchemaError, match=r"cannot (store|write) t\.cell"):
                wrong(cell)
            assert not sent.commits
        assert stored(space, cell.address) == before
        right(cell)
        assert cell.value != value or stored(space, cell.address) == before
        space.sync()
        cell.peek()


@pytest.mark.parametrize("case", CASES)
def test_rules_hold_for_what_a_default_becomes(case: str) -> None:
    hint, value, wrong, right = CASES[case]
    app = hw.App("t")
    cell = app.cell("cell", value, type=hint)
    with app.open("memory:"):
        if "clear" in wrong.__code__.co_names or "remove" in wrong.__code__.co_names:
            return  # nothing is stored, so there is nothing to take away
        with pytest.raises(SchemaError):
            wrong(cell)
        assert cell.value == value
        right(cell)
        cell.peek()


# --- several writers --------------------------------------------------------------------------------------------


def low_and_high(app: hw.App) -> hw.Cell[Range]:
    return app.cell("range", Range())


def test_two_who_keep_a_rule_each_do_not_break_it_together(tmp_path: Path) -> None:
    app = hw.App("t")
    cell = low_and_high(app)
    with twice(app, tmp_path) as (one, two):
        cell.value = Range(0, 10)
        two.sync()
        one.settle()
        with two.transaction():
            cell.at("lo").value = 9
            with inside(one):
                cell.at("hi").value = 5
                one.sync()
        with pytest.raises(ConflictError):
            two.sync()
        assert cell.value == Range(0, 5)
        with inside(one):
            assert cell.value == Range(0, 5)


def test_two_who_count_at_the_same_time_do_not_pass_a_bound(tmp_path: Path) -> None:
    app = hw.App("t")
    cell = app.cell("n", 0, type=Annotated[int, Field(le=10)])
    with twice(app, tmp_path) as (one, two):
        cell.value = 9
        two.sync()
        one.settle()
        with two.transaction():
            cell.increment()
            with inside(one):
                cell.increment()
                one.sync()
        with pytest.raises(ConflictError):
            two.sync()
        assert cell.value == 10


def test_fields_with_rules_of_their_own_are_still_written_by_two_at_the_same_time(tmp_path: Path) -> None:
    app = hw.App("t")
    cell = app.cell("p", type=Person)
    with twice(app, tmp_path) as (one, two):
        cell.value = Person(name="a", age=1)
        two.sync()
        one.settle()
        with two.transaction():
            cell.at("age").value = 2
            with inside(one):
                cell.at("name").value = "b"
                one.sync()
        two.sync()
        assert cell.value == Person(name="b", age=2)


def test_a_handler_that_meets_the_bound_late_is_run_again_on_what_is_there(tmp_path: Path) -> None:
    app = hw.App("t")
    cell = app.cell("n", 0, type=Annotated[int, Field(le=10)])
    runs: list[int] = []

    @app.handler
    def count() -> None:
        runs.append(cell.peek())
        if len(runs) == 1:
            with inside(one):
                cell.increment()
                one.sync()
        cell.increment()

    with twice(app, tmp_path) as (one, two):
        cell.value = 8
        two.sync()
        one.settle()
        count.send().result()
        two.sync()
        assert cell.value == 10
        assert runs == [8, 9]


# --- what others have written -----------------------------------------------------------------------------------


def poisoned(space: hw.Space, address: str, value: object) -> None:
    """As a program without these types would write it."""
    space._opening.replica.commit((SetDoc(DocKey(f"space/{address}"), freeze(value)),))
    space.settle()


def test_what_another_has_written_is_told_and_can_be_repaired(caplog: pytest.LogCaptureFixture) -> None:
    app = hw.App("t")
    cell = app.cell("p", type=Person)
    ages: list[int] = []

    @app.sink
    def show() -> None:
        ages.append(cell.value.age)

    with app.open("memory:", on_error="log") as space:
        cell.value = Person(name="a", age=1)
        poisoned(space, "t.p", {"name": "", "age": -1})
        with pytest.raises(
            SchemaError, match=r"cannot read t\.p/name: must have a length of at least 1.*Write the whole"
        ):
            _ = cell.value
        assert "HW108" in caplog.text
        assert "not readable" in repr(cell)
        # A part that leaves the rest unreadable is its own matter: each field has its own rule.
        cell.at("age").value = 2
        cell.value = Person(name="b", age=3)
        assert cell.value.name == "b"
        assert ages == [1, 3]


def test_an_unreadable_whole_with_a_rule_is_repaired_by_a_part_or_as_a_whole() -> None:
    app = hw.App("t")
    cell = low_and_high(app)
    with app.open("memory:") as space:
        poisoned(space, "t.range", {"lo": 20, "hi": 10, "steps": [1]})
        with pytest.raises(
            SchemaError, match=r"cannot write t\.range/lo: Range refuses it: lo > hi.*t\.range as a whole"
        ):
            cell.at("lo").value = 15
        cell.at("lo").value = 5
        assert cell.value == Range(5, 10, [1])
        poisoned(space, "t.range", "text")
        with pytest.raises(SchemaError, match=r"cannot read t\.range"):
            _ = cell.value
        cell.value = Range(1, 2)
        assert cell.value == Range(1, 2)
        poisoned(space, "t.range", [1])
        cell.clear()
        assert cell.value == Range()


def test_an_app_opens_where_a_cell_cannot_be_read_and_repairs_it(tmp_path: Path) -> None:
    url = str(tmp_path / "t.db")
    with hw.App("other").open(url) as space:
        space.cell("t.range").value = {"lo": 20, "hi": 10}
    app = hw.App("t")
    cell = low_and_high(app)
    seen: list[int] = []

    @app.computed
    def width() -> int:
        return cell.value.hi - cell.value.lo

    @app.sink
    def show() -> None:
        seen.append(width())

    with app.open(url, on_error="log"):
        with pytest.raises(SchemaError):
            width()
        cell.value = Range(2, 5)
        assert width() == 3
        assert seen == [3]
    with app.open(url):
        assert width() == 3


# --- documents, lists and maps ----------------------------------------------------------------------------------


class Board(hw.Doc):
    range: Range = Range()
    level: Annotated[int, Field(ge=0, le=9)] = 0
    ranges: hw.List[Range] = hw.List()
    named: hw.Map[str, Range] = hw.Map()
    sizes: hw.List[Annotated[int, Field(gt=0)]] = hw.List()


def test_fields_of_documents_keep_rules() -> None:
    app = hw.App("t")
    board = app.doc("board", Board)
    with app.open("memory:") as space:
        board.ranges.append(Range(1, 2))
        board.named["a"] = Range(1, 2)
        cell = space.cell("t.board", type=dict)
        refused: list[Callable[[], object]] = [
            lambda: setattr(board, "level", 10),
            lambda: board.sizes.append(0),
            lambda: board.sizes.extend([1, -1]),
            lambda: board.ranges.append(broken()),
            lambda: board.ranges.__setitem__(0, broken()),
            lambda: board.named.__setitem__("a", broken()),
            lambda: setattr(board, "range", broken()),
            lambda: Board(level=-1),
            lambda: Board(range=broken()),
        ]
        before = cell.value
        for act in refused:
            with pytest.raises(SchemaError):
                act()
        assert cell.value == before
        board.level = 9
        board.sizes.append(1)
        assert (board.level, list(board.sizes), list(board.ranges)) == (9, [1], [Range(1, 2)])


def broken() -> Range:
    made = Range(1, 2)
    made.lo = 7
    return made


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (Range, broken()),
        (Person, Person.model_construct(name="a", age=-1)),
        (Person, Person(name="a", age=1).model_copy(update={"age": -1})),
        (Span, Span.model_construct(low=11)),
        (Checked, msgspec.structs.replace(Checked(1))),
        (Pair, Pair(1, 2)._replace(a=5)),
        (Outer, Outer(inner=broken())),
        (Limits, Limits(top=0)),
        (Annotated[int, Field(gt=0)], 0),
        (Annotated[str, StringConstraints(pattern="^a")], "b"),
        (Annotated[str, msgspec.Meta(pattern="^a")], "b"),
        (Annotated[int, msgspec.Meta(multiple_of=3)], 4),
        (Annotated[datetime, msgspec.Meta(tz=True)], datetime(2026, 1, 1)),  # noqa: DTZ001
        (Annotated[datetime, annotated_types.Timezone(None)], datetime(2026, 1, 1, tzinfo=UTC)),
        (Annotated[int, annotated_types.Interval(gt=0, lt=3)], 3),
        (Annotated[int, annotated_types.Predicate(lambda value: 1 // value > 0)], 0),
        (dict[Annotated[str, Field(min_length=2)], int], {"a": 1}),
        (Annotated[int, Field(gt=0)] | str, 0),
        (tuple[Annotated[int, Field(gt=0)], ...], (0,)),
    ],
)
def test_a_whole_that_breaks_its_rules_is_not_stored(hint: Any, value: Any) -> None:
    if isinstance(value, Checked):
        value.amount = -1
    app = hw.App("t")
    cell = app.cell("cell", type=hint)
    with app.open("memory:"):
        with pytest.raises(SchemaError, match=r"cannot store .*t\.cell"):
            cell.value = value
        assert not cell.exists


def test_a_rule_that_changes_a_value_changes_what_is_stored() -> None:
    app = hw.App("t")
    cell = app.cell("cell", "", type=Annotated[str, AfterValidator(str.strip)])
    with app.open("memory:") as space:
        cell.value = " a "
        assert cell.value == "a"
        assert stored(space, "t.cell") == "a"


def test_annotations_that_are_no_rules_cost_nothing() -> None:
    app = hw.App("t")
    cell = app.cell("cell", 1, type=Annotated[int, "the number of things", Field(description="of things")])
    with app.open("memory:"):
        cell.value = -5
        assert cell.value == -5


def test_a_default_that_breaks_its_rule_is_refused_where_it_is_declared() -> None:
    with pytest.raises((DeclarationError, SchemaError), match="must be greater than 0"):
        hw.App("t").cell("cell", 0, type=Annotated[int, Field(gt=0)])


def test_a_list_in_a_document_takes_no_rule_but_those_of_its_elements() -> None:
    class Wrong(hw.Doc):
        items: Annotated[hw.List[int], Field(max_length=2)] = hw.List()

    app = hw.App("t")
    wrong = app.doc("wrong", Wrong)
    with app.open("memory:"), pytest.raises(DeclarationError, match="takes no rules"):
        _ = wrong.items


def test_a_result_that_breaks_its_rule_is_a_failure_of_its_function() -> None:
    app = hw.App("t")

    @app.computed
    def wrong() -> Annotated[int, Field(gt=0)]:
        return 0

    with app.open("memory:"), pytest.raises(SchemaError, match="must be greater than 0"):
        wrong()
