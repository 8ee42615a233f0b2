"""What is published has the type of its topic and an id of its source's; a consumer gets it as it was."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, NotRequired, TypedDict

import msgspec
import pytest
from pydantic import BaseModel

import headwater as hw
from headwater.core import open_space
from headwater.errors import LimitError, NotOpen, SchemaError, UsageError
from tests.runtime.workflows.mill import Mill, Note


class Color(Enum):
    RED = "red"


@dataclass
class Order:
    number: int
    at: datetime
    price: Decimal
    lines: list[Note] = field(default_factory=list)
    color: Color = Color.RED


class Struct(msgspec.Struct):
    name: str
    tags: list[str] = []


class Row(TypedDict):
    name: str
    size: NotRequired[int]


class Model(BaseModel):
    name: str
    size: int = 0


VALUES: list[tuple[Any, Any]] = [
    (Note, Note("a", "b")),
    (Order, Order(3, datetime(2024, 2, 29, 12, tzinfo=UTC), Decimal("1.10"), [Note("x")])),
    (Struct, Struct("a", ["b", "c"])),
    (Row, {"name": "a", "size": 3}),
    (Row, {"name": "a"}),
    (Model, Model(name="a", size=2)),
    (int, 3),
    (str, "ж\U0001f600"),
    (bytes, b"\x00\xff"),
    (list[int], [1, 2]),
    (dict[str, list[int]], {"a": [1]}),
    (tuple[int, str], (1, "a")),
    (int | None, None),
    (int | str, "a"),
    (Literal["low", "high"], "high"),
    (Any, {"whatever": [1, None, "x"]}),
]


@pytest.mark.parametrize(("kind", "value"), VALUES, ids=range(len(VALUES)))
def test_a_consumer_gets_what_was_published(kind: Any, value: Any) -> None:
    app = hw.App("types")
    flow = app.workflow("flow")
    topic = flow.topic("things", kind)
    got: list[Any] = []

    @flow.consumer(topic)
    class Look(hw.Consumer[Any, None, None]):
        def prepare(self, pending: Any) -> hw.Plan[None]:
            got.extend(event.data for event in pending)
            return hw.Plan(None, take=pending)

    with app.open("memory:") as space:
        topic.publish(value, id="one")
        space.workflows.drain()
    assert got == [value]
    assert value is None or isinstance(got[0], type(value)) or type(value) in (list, dict)


@pytest.mark.parametrize(
    ("kind", "value", "place"),
    [
        (Note, "a", "types.flow.things"),
        (Note, Note(3), "cannot store name in types.flow.things"),
        (Note, {"name": "a"}, "types.flow.things"),
        (
            Order,
            Order(3, datetime.now(UTC), Decimal(1), [Note("a"), Note(None)]),
            "cannot store lines/1/name in types.flow.things",
        ),  # type: ignore[arg-type]
        (Row, {"size": 3}, "types.flow.things"),
        (Row, {"name": "a", "siez": 3}, "types.flow.things"),
        (int, "3", "types.flow.things"),
        (int, True, "types.flow.things"),
        (list[int], [1, "a"], "cannot store 1 in types.flow.things"),
        (Any, {1, 2}, "types.flow.things"),
        (Any, object(), "types.flow.things"),
    ],
    ids=range(11),
)
def test_what_does_not_fit_is_refused_with_its_place(kind: Any, value: Any, place: str) -> None:
    app = hw.App("types")
    flow = app.workflow("flow")
    topic = flow.topic("things", kind)
    flow.consumer(topic)(Mill().taker())
    with app.open("memory:") as space:
        with pytest.raises(UsageError) as raised:
            topic.publish(value, id="one")
        assert place in str(raised.value)
        space.workflows.drain()
        assert flow.inputs() == []


# --- ids ------------------------------------------------------------------------------------------------------


@pytest.fixture
def mill() -> Mill:
    mill = Mill()
    mill.take(mutate=None)
    return mill


@pytest.mark.parametrize("name", ["a", "ж\U0001f600", "x" * 1000, "with space", "a/b?c=1", "'; drop table flow; --"])
def test_ids_are_whatever_their_source_says(mill: Mill, name: str) -> None:
    with mill.open() as space:
        mill.put(name)
        space.workflows.drain()
        assert mill.events() == {name: "consumed"}
        assert mill.log == [("next", [name], None)]


def test_publishing_returns_the_id_also_if_it_was_there_or_is_not_decided_yet(mill: Mill) -> None:
    with mill.open() as space:
        assert mill.notes.publish(Note("a"), id="a") == "a"
        with space.transaction():
            assert mill.notes.publish(Note("a"), id="a") == "a"


@pytest.mark.parametrize("name", ["", "x" * 1001, "a\nb", "a\0b", "\ud800", 3, None, b"a", 1.5])
def test_an_id_that_is_none_is_refused(mill: Mill, name: Any) -> None:
    with mill.open(), pytest.raises(UsageError, match="a stable id is expected, as its source has it"):
        mill.notes.publish(Note("a"), id=name)


def test_a_payload_that_is_too_large_is_refused(mill: Mill) -> None:
    with mill.open() as space:
        mill.notes.publish(Note("a", "x" * 1_000_000), id="large")
        with pytest.raises(LimitError):
            mill.notes.publish(Note("a", "x" * 100_000_000), id="huge")
        space.workflows.drain()
        assert mill.events() == {"large": "consumed"}


def test_a_title_is_a_line_and_not_a_letter(mill: Mill) -> None:
    with mill.open() as space:
        mill.notes.publish(Note("a"), id="a", title="x" * 10_000)
        mill.notes.publish(Note("b"), id="b")
        space.sync()
        assert [len(found.title) for found in mill.flow.inputs()] == [len("notes b"), 500]


# --- where ----------------------------------------------------------------------------------------------------


def test_publishing_needs_an_open_app(mill: Mill) -> None:
    with pytest.raises(NotOpen, match=r"with app.open\(...\)"):
        mill.put("a")
    with mill.open():
        mill.put("a")
    with pytest.raises(NotOpen):
        mill.put("b")


def test_a_topic_that_was_declared_too_late_says_so(mill: Mill) -> None:
    with mill.open():
        late = mill.flow.topic("late", Note)
        later = mill.app.workflow("later").topic("late", Note)
        for topic in (late, later):
            with pytest.raises(UsageError, match="declared after the app was opened, and is not deployed"):
                topic.publish(Note("a"), id="a")


def test_on_another_branch_there_are_no_workflows(mill: Mill, tmp_path: Any) -> None:
    mill.url = str(tmp_path / "mill.db")
    with open_space(mill.url) as storage:
        storage.fork("draft")
    with mill.open(branch="draft") as space:
        with pytest.raises(UsageError, match="workflows are on the main branch; this opening is on 'draft'"):
            mill.put("a")
        with pytest.raises(UsageError, match="main branch"):
            space.workflows.drain()
        with pytest.raises(UsageError, match="main branch"):
            mill.flow.pause()
    with mill.open():
        assert mill.flow.inputs() == []


def test_what_is_kept_and_does_not_fit_any_more_is_an_error_of_the_program(tmp_path: Any) -> None:
    mill = Mill(tmp_path)
    mill.take()
    with mill.open():
        mill.put("a")
    app = hw.App("mill")
    flow = app.workflow("notes")
    topic = flow.topic("notes", int)

    @flow.consumer(topic)
    class Take(hw.Consumer[int, int, None]):
        def prepare(self, pending: Any) -> hw.Plan[int]:
            return hw.Plan(sum(event.data for event in pending), take=pending)

    with app.open(mill.url, on_error=mill.errors.append) as space:
        space.workflows.drain()
        [run] = flow.runs()
        assert run.status == "failed:logic"
        assert isinstance(run.error, str)
        assert "mill.notes.notes" in run.error
    assert issubclass(SchemaError, UsageError)
