"""Consumers that would never be called, or never understand what they are given: refused where they are declared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, NewType, Protocol, TypedDict, TypeVar

import pytest

import headwater as hw
from headwater.app import App
from headwater.declare.workflows.event_types import check_events
from headwater.errors import DeclarationError
from tests.runtime.workflows.mill import Mill, Note

Name = NewType("Name", str)
T = TypeVar("T")


@dataclass(frozen=True)
class Letter:
    text: str


@dataclass(frozen=True)
class Express(Letter):
    fee: int = 0


class Row(TypedDict):
    text: str


class Titled(Protocol):
    title: str


def declare(topic: Any, event: Any, *more: Any) -> None:
    """A consumer of `event` on topics of these types."""
    app = App("post")
    flow = app.workflow("post")
    topics = [flow.topic(f"topic{number}", kind) for number, kind in enumerate((topic, *more))]
    base = hw.Consumer[event, Any, Any]

    class Take(base):  # type: ignore[valid-type, misc]  # made at run time
        def prepare(self, pending: Any) -> hw.Plan[Any]:
            return hw.Plan.idle()

    flow.consumer(*topics)(Take)


# --- types ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topic", "event", "meant"),
    [
        (str, int, "str"),
        (int, str, "int"),
        (Letter, str, "Letter"),
        (Letter, Express, "Letter"),
        (str | None, str, "str | None"),
        (str | int, str, "str | int"),
        (dict[str, int], list[int], "dict[str, int]"),
        (list[str], list[int], "list[str]"),
        (Note, Letter, "Note"),
        (None, int, "None"),
        (Name, int, "Name"),
        (Literal["a"], int, "Literal['a']"),
        (list[Literal["a"]], list[int], "list[Literal['a']]"),
        (tuple[int, ...], str, "tuple[int, ...]"),
    ],
)
def test_a_consumer_of_another_type_than_its_topic_has_is_refused(topic: Any, event: Any, meant: str) -> None:
    with pytest.raises(DeclarationError) as told:
        declare(topic, event)
    assert f"consumer Take: topic topic0 holds {meant}, and hw.Consumer[" in told.value.message
    assert told.value.message.endswith(f"; did you mean hw.Consumer[{meant}, ...]?")


@pytest.mark.parametrize(
    ("topic", "event"),
    [
        (str, str),
        (str, Any),
        (Any, str),
        (str, object),
        (str, str | int),
        (bool, int),
        (int, float),
        (Express, Letter),
        (str | None, None | str),
        (list[str], Sequence[str]),
        (list[str], tuple[str, ...]),
        (list[int], list[Any]),
        (list[Any], list[int]),
        (dict[str, int], Mapping[str, int]),
        (dict[str, int], dict),
        (Name, str),
        (str, Name),
        (Annotated[str, "x"], str),
        (Literal["a", "b"], str),
        (Literal["a", "b"], Literal["a", "b"]),
        (Row, Row),
        (Row, dict[str, Any]),
        (dict[str, str], Row),
        (Letter, Titled),
        (Letter, "Letter"),
    ],
)
def test_a_consumer_of_a_type_that_may_fit_is_taken(topic: Any, event: Any) -> None:
    declare(topic, event)


def test_each_topic_is_compared_and_the_union_of_all_is_meant() -> None:
    declare(str, str | int, int)
    with pytest.raises(
        DeclarationError, match=r"topic topic1 holds int, .* did you mean hw.Consumer\[str \| int, ...\]"
    ):
        declare(str, str, int)


def test_a_consumer_that_says_no_type_takes_any() -> None:
    mill = Mill()
    mill.take()

    class Sorting(hw.Consumer[T, Any, Any], Generic[T]):
        def prepare(self, pending: Any) -> hw.Plan[Any]:
            return hw.Plan.idle()

    app = App("post")
    flow = app.workflow("post")
    flow.consumer(flow.topic("letters", str))(Sorting)
    with pytest.raises(DeclarationError, match="topic boxes holds str"):

        @flow.consumer(flow.topic("boxes", str))
        class Numbers(Sorting[int]):
            pass


def test_what_is_no_type_is_not_compared() -> None:
    check_events("Letter", {"letters": str}, "consumer Take")


# --- methods ----------------------------------------------------------------------------------------------


def methods(**given: Callable[..., Any]) -> None:
    mill = Mill()
    mill.take(mutate=None, next=None, **given)


@pytest.mark.parametrize(
    ("name", "method", "meant"),
    [
        ("mutat", lambda self, run, data: None, "mutate"),
        ("mutates", lambda self, run, data: None, "mutate"),
        ("recocile", lambda self, run, data: None, "reconcile"),
        ("reconcil", lambda self, run, data: None, "reconcile"),
        ("nxt", lambda self, run, data, outcome: None, "next"),
        ("nextt", lambda self, run, data, outcome: None, "next"),
        ("Mutate", lambda self, run, data: None, "mutate"),
    ],
)
def test_a_method_that_is_misspelt_is_refused(name: str, method: Callable[..., Any], meant: str) -> None:
    with pytest.raises(DeclarationError) as told:
        methods(**{name: method})
    assert told.value.message == f"@flow.consumer Take: nothing would call {name}(); did you mean {meant}?"


def test_a_prepare_that_is_misspelt_is_told_apart_from_none() -> None:
    with pytest.raises(
        DeclarationError, match=r"it has no prepare, which chooses .*; did you mean prepare by prepair\?"
    ):
        methods(prepare=None, prepair=lambda self, pending: None)  # type: ignore[arg-type]  # None: it is not there


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("mutates", lambda self: True),
        ("mutated", property(lambda self: True)),
        ("text", lambda self, run, data, outcome: ""),
        ("_mutat", lambda self, run, data: None),
        ("next_day", lambda self, run, data, outcome: ""),
        ("rows", lambda self, run, data: []),
        ("recent", "value"),
    ],
)
def test_methods_of_the_author_are_left_alone(name: str, method: Any) -> None:
    methods(**{name: method})


def test_a_helper_beside_the_method_that_it_is_named_like_is_no_mistake() -> None:
    mill = Mill()
    mill.take(mutated=lambda self, run, data: None, reconciled=lambda self: None)
