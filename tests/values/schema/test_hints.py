"""What may be declared, and what to write instead."""

# ruff: noqa: DTZ001, UP035, UP044  # times without a zone, and hints as people write them

from __future__ import annotations

import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path
from types import GenericAlias
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    ForwardRef,
    Generic,
    List,
    NewType,
    NotRequired,
    Required,
    Self,
    TypedDict,
    TypeVar,
)
from uuid import UUID

import pytest
from typing_extensions import ReadOnly, Unpack
from typing_extensions import TypedDict as BackportedDict

from headwater.errors import DeclarationError
from headwater.values import hints
from headwater.values.chunked import ChunkedList, ChunkedMap
from headwater.values.frozen import FrozenDict, FrozenList
from headwater.values.hints import infer, schema_of
from headwater.values.intake import RefusedError
from headwater.values.link import LinkRecord
from headwater.values.schema import ANY, Handle, LazySchema, LinkFound, Schema
from headwater.values.tree import ABSENT, Array, Map, Scalar, Value, freeze, is_link
from tests.values.schema import aliases
from tests.values.schema.shapes import Box, Fixed, Frozen, Movie, Mutable, Node, Note, Point

T = TypeVar("T")
UserId = NewType("UserId", str)
Free = TypeVar("Free")
Bound = TypeVar("Bound", bound=int)
Either = TypeVar("Either", int, str)


class Marked(TypedDict):
    a: ReadOnly[NotRequired[Annotated[int, "extra"]]]  # type: ignore[valid-type]
    b: Required[ReadOnly[str]]  # type: ignore[valid-type]


class Backported(BackportedDict, total=False):
    a: Required[int]
    b: int


class Colour(Enum):
    RED = "red"


class Bare:
    pass


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize("hint", [Any, object, Value, Free])
def test_hint_that_means_anything_is_any(hint: Any) -> None:
    assert schema_of(hint) is ANY


@pytest.mark.parametrize(
    ("hint", "same_as"),
    [
        (UserId, str),
        (Annotated[int, "extra", ["unhashable"]], int),
        (Annotated[int, "extra"], int),
        (Bound, int),
        (Either, int | str),
        (Final[int], int),
        (aliases.Number, int),
        (aliases.Pair[int], tuple[int, int]),
        (Scalar, bool | int | float | str | bytes | None),
        (Map, dict),
        (Array, list),
        (FrozenDict, dict),
        (FrozenList, list),
        (ChunkedMap, dict),
        (ChunkedList, list),
        (None, type(None)),
    ],
)
def test_hint_that_stands_for_another_is_read_as_that(hint: Any, same_as: Any) -> None:
    assert schema_of(hint).expected == schema_of(same_as).expected


def test_marks_on_fields_are_read() -> None:
    schema = schema_of(Marked)
    assert schema.store({"b": "x"}) == {"b": "x"}
    assert schema.child("a") is schema_of(int)
    with pytest.raises(RefusedError):
        schema.store({"a": 1})
    backported = schema_of(Backported)
    assert backported.store({"a": 1}) == {"a": 1}
    with pytest.raises(RefusedError):
        backported.store({"b": 1})


def test_schema_of_a_type_is_made_once() -> None:
    assert schema_of(list[Note]) is schema_of(list[Note])
    assert schema_of(list[Note]).child(0) is schema_of(Note)
    assert schema_of(Annotated[list[int], ["unhashable"]]) is schema_of(list[int])
    assert schema_of(Box[Annotated[int, ["unhashable"]]]).store(Box(1)) == {"item": 1, "items": []}


def test_memory_for_hints_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "_cache", {})
    monkeypatch.setattr(hints, "_CACHE_MAX", 3)
    for size in range(1, 9):
        schema_of(tuple[(int,) * size])  # type: ignore[misc]
        assert len(hints._cache) <= 3


REFUSED: list[tuple[Any, str]] = [
    (set[int], r"set\[int\] cannot be stored; use list\[\.\.\.\], or hw\.Map"),
    (frozenset, r"frozenset cannot be stored; use list\[\.\.\.\], or hw\.Map"),
    (bytearray, "use bytes"),
    (deque[int], r"use list\[\.\.\.\]"),
    (Iterable[int], r"Iterable\[int\] cannot be stored; use list\[\.\.\.\]"),
    (OrderedDict[str, int], r"use dict\[str, \.\.\.\]"),
    (Path, "Path cannot be stored; use str"),
    (complex, r"use tuple\[float, float\]"),
    (Callable[[int], str], "store a name, and look it up"),
    (type[int], "store a name, and look it up"),
    (Text, r"Text cannot be stored; use str, or NewType\('Text', str\)"),
    (Bare, "Bare cannot be stored; use None, bool, int, float, str, bytes, list, dict, or make it a dataclass"),
    (Fraction, "or make it a dataclass"),
    ("Note", "'Note' cannot be stored; it is text: use the type itself"),
    (List["Note"], r"it is text: use the type itself"),  # noqa: UP006
    (ForwardRef("Note"), "it is text: use the type itself"),
    (5, "5 cannot be stored; use a type"),
    (Self, "Self cannot be stored; use a type"),
    (Final, "Final cannot be stored; use a type"),
    (Annotated, "Annotated cannot be stored"),
    (ClassVar[int], "it is no field"),
    (dict[float, int], "float cannot be the key of a dict; keys are stored as text: use str, int"),
    (dict[int | str, int], r"int \| str cannot be the key of a dict"),
    (tuple[int, Unpack[tuple[str, ...]]], "use tuple"),
    (aliases.Loop, "Loop is nothing but itself"),
    (aliases.Own, "Own cannot be stored"),
    (aliases.Unknown, "Unknown names 'nowhere', which is not defined yet"),
]


@pytest.mark.parametrize(("hint", "message"), REFUSED)
def test_what_cannot_be_declared_is_told_with_what_to_use_instead(hint: Any, message: str) -> None:
    with pytest.raises(DeclarationError, match=message) as caught:
        schema_of(hint, where="cell 'x'")
    assert caught.value.message.startswith("cannot declare cell 'x': ")
    assert caught.value.facts["where"] == "cell 'x'"


def test_starred_tuple_cannot_be_declared() -> None:
    with pytest.raises(DeclarationError, match="use tuple"):
        schema_of(eval("tuple[int, *tuple[str, ...]]"))  # noqa: S307  # mypy does not read it for 3.11


class Ambiguous(Enum):
    ONE = 1
    TEXT = "1"


def test_choices_that_are_alike_as_text_cannot_be_keys() -> None:
    with pytest.raises(DeclarationError, match="Ambiguous cannot be the key of a dict"):
        schema_of(dict[Ambiguous, int])


# --- types that contain themselves ------------------------------------------------------------------------------


def test_record_may_contain_itself() -> None:
    schema = schema_of(Node)
    tree = schema.store(Node("a", [Node("b", [Node("c")])], Node("d"), {"e": Node("f")}))
    back: Any = schema.load(tree, None)
    assert back.children[0].children[0].name == "c"
    assert back.best == Node("d")
    assert back.by_name["e"] == Node("f")
    assert not schema.has_handles
    assert not schema.may_hold_links


def test_alias_may_contain_itself() -> None:
    for hint in (aliases.Tree, aliases.Forest, list[aliases.Tree], dict[str, aliases.Tree], tuple[aliases.Tree, int]):
        assert not schema_of(hint).may_hold_links
    schema = schema_of(aliases.Tree)
    tree = freeze([1, [2, [3]]])
    assert schema.load(tree, None) is tree
    with pytest.raises(RefusedError) as caught:
        schema.store([1, [2, ["x"]]])
    assert caught.value.steps[::-1] == [1, 1, 0]
    forest = schema_of(aliases.Forest)
    assert forest.store([None, 1, [2]]) == [None, 1, [2]]
    assert schema_of(aliases.Chain).store(5) == 5


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the statement is newer")
def test_alias_made_by_the_type_statement() -> None:
    space: dict[str, Any] = {}
    exec("type Json = None | int | str | list[Json] | dict[str, Json]\ntype Pair[T] = tuple[T, T]", space)  # noqa: S102
    tree = freeze({"a": [1, {"b": None}]})
    assert schema_of(space["Json"]).load(tree, None) is tree
    assert schema_of(GenericAlias(list, space["Json"])).store([[1]]) == [[1]]
    assert schema_of(space["Pair"][int]).load(freeze([1, 2]), None) == (1, 2)


# --- classes that bring their own schema --------------------------------------------------------------------------


class Place(Handle):
    """A handle as another package has it: it stands for a place, and is stored as a link or as what is there."""

    __slots__ = ("inner",)

    has_default = True

    def __init__(self, inner: Schema) -> None:
        super().__init__(f"Ref[{inner.expected}]")
        self.inner = inner

    def store(self, value: object) -> Value:
        return value.to_value() if isinstance(value, LinkRecord) else self.inner.store(value)

    def load(self, value: Value, binder: object) -> object:
        if not is_link(value):
            raise RefusedError(f"expected {self.expected}, got something else")
        return (binder, value)

    def child(self, step: str | int) -> Schema | None:
        return self.inner.child(step)


class Ref(Generic[T]):
    """Ref[int]: calls back for what it refers to."""

    @classmethod
    def __headwater_schema__(cls, args: tuple[object, ...], schema_of: Callable[..., Schema]) -> Schema:
        return Place(schema_of(args[0], where="what Ref refers to") if args else ANY)


class Document:
    """Refers to itself by a schema of its own, as documents do."""

    @classmethod
    def __headwater_schema__(cls, _args: tuple[object, ...], schema_of: Callable[..., Schema]) -> Schema:
        return Place(schema_of(list[Document]))


LATER: list[Callable[..., Schema]] = []


class Late:
    @classmethod
    def __headwater_schema__(cls, _args: tuple[object, ...], schema_of: Callable[..., Schema]) -> Schema:
        LATER.append(schema_of)
        return Place(ANY)


@dataclass
class Linked:
    title: str
    owner: Ref[Note]
    other: Ref[Linked] | None = None
    others: list[Ref[Any]] = field(default_factory=list)


LINK: Any = LinkRecord(path=("a",))


def test_class_may_bring_its_own_schema() -> None:
    schema = schema_of(Ref)
    assert isinstance(schema, Place)
    assert schema.has_handles
    assert not schema.may_hold_links
    assert schema.ceiling == "session"
    assert schema_of(list[Ref[Any]]).has_handles
    assert not schema_of(list[Ref[Any]]).may_hold_links


def test_handles_in_records_are_stored_and_loaded_by_themselves() -> None:
    schema = schema_of(Linked)
    assert schema.has_handles
    assert not schema.may_hold_links
    assert list(schema.handle_steps()) == ["owner"]
    tree = schema.store(Linked("a", LINK, LINK, [LINK]))
    assert tree == {"title": "a", "owner": LINK.to_value(), "other": LINK.to_value(), "others": [LINK.to_value()]}
    loaded: Any = schema.load(tree, "binder")
    assert loaded.owner == loaded.other == loaded.others[0] == ("binder", LINK.to_value())
    assert schema.load(schema.store(Linked("a", LINK)), "binder").other is None  # type: ignore[attr-defined]
    owner = schema.child("owner")
    assert isinstance(owner, Place)
    assert owner.inner is schema_of(Note)


def test_value_behind_a_handle_is_checked_by_it() -> None:
    with pytest.raises(RefusedError) as caught:
        schema_of(Linked).store(Linked("a", "x"))
    assert (caught.value.reason, caught.value.steps) == ("expected Note, got str 'x'", ["owner"])


def test_handle_in_a_union_is_told_by_its_link() -> None:
    optional = schema_of(Ref | None)
    assert optional.store(None) is None
    assert optional.store(LINK) == LINK.to_value()
    assert optional.load(None, "b") is None
    assert optional.load(LINK.to_value(), "b") == ("b", LINK.to_value())
    with pytest.raises(RefusedError):
        optional.load("x", "b")
    anything = schema_of(Ref | Any)
    assert anything is not ANY
    assert anything.load(LINK.to_value(), "b") == ("b", LINK.to_value())
    assert anything.load(5, "b") == 5
    assert anything.store([1]) == [1]
    assert anything.has_handles
    assert anything.may_hold_links
    note = schema_of(Ref | Note)
    assert note.load(freeze({"title": "a"}), "b") == Note("a")


def test_handle_is_found_where_it_stands() -> None:
    handle, optional, plain = schema_of(Ref), schema_of(Ref | None), schema_of(Note)
    assert handle.as_handle(linked=False) is handle
    assert optional.as_handle(linked=True) is handle
    assert optional.as_handle(linked=False) is None
    assert plain.as_handle(linked=True) is None
    assert schema_of(Note | None).as_handle(linked=True) is None


def test_wide_container_keeps_nothing_that_is_bound() -> None:
    names = schema_of(dict[str, Ref[Any]])
    tree = freeze({f"{n}": LINK.to_value() for n in range(600)})
    assert names.load(tree, 1)["5"][0] == 1  # type: ignore[index]
    assert names.load(tree, 2)["5"][0] == 2  # type: ignore[index]
    items = schema_of(list[Ref[Any]])
    tree = freeze([LINK.to_value()] * 600)
    assert items.load(tree, 1)[5][0] == 1  # type: ignore[index]
    assert items.load(tree, 2)[5][0] == 2  # type: ignore[index]


def test_class_that_brings_its_own_schema_may_refer_to_itself() -> None:
    schema = schema_of(Document)
    assert isinstance(schema, Place)
    assert schema.inner.child(0) is schema
    assert schema_of(list[Document]).child(0) is schema_of(Document)


def test_class_may_ask_for_schemas_later() -> None:
    schema_of(Late)
    assert LATER[0](list[int]) is schema_of(list[int])
    with pytest.raises(DeclarationError, match="cannot declare later: set"):
        LATER[0](set, where="later")


def test_stand_in_does_as_its_target() -> None:
    lazy = LazySchema("Note")
    lazy.target = schema_of(Linked)
    assert lazy.store(Linked("a", LINK)) == lazy.target.store(Linked("a", LINK))
    assert isinstance(lazy.load(freeze({"title": "a", "owner": LINK.to_value()}), 1), Linked)
    assert lazy.child("title") is schema_of(str)
    assert lazy.field_default("other") is None
    assert lazy.field_default("title") is ABSENT
    assert list(lazy.handle_steps()) == ["owner"]
    assert lazy.has_handles
    assert lazy.as_handle(linked=True) is None


def test_schema_that_says_no_more_is_no_key_and_takes_every_map() -> None:
    class Nothing(Schema):
        __slots__ = ()

        def store(self, value: object) -> Value:
            return ANY.store(value)

        def load(self, value: Value, binder: object) -> object:
            return ANY.load(value, binder)

    schema = Nothing("nothing")
    asks: list[Callable[[], object]] = [lambda: schema.key_text(1), lambda: schema.key_of("1")]
    for ask in asks:
        with pytest.raises(RefusedError, match="expected nothing as key"):
            ask()
    schema.settle()
    assert schema.fits(FrozenDict())
    assert not schema.differs_from(schema)
    with pytest.raises(LinkFound):
        raise schema.unfit(LINK.to_value())


# --- from default values ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("default", "hint"),
    [
        (0, int),
        (1.5, float),
        ("", str),
        (Text("a"), str),
        (True, bool),
        (b"", bytes),
        (None, Any),
        ([], list),
        ([1, "a"], list),
        ((), tuple),
        (freeze([1]), list),
        (freeze(list(range(600))), list),
        ({}, dict),
        (freeze({"a": 1}), dict),
        (freeze({str(n): n for n in range(600)}), dict),
        (Colour.RED, Colour),
        (Note("a"), Note),
        (Fixed("a"), Fixed),
        (Mutable("a"), Mutable),
        (Frozen("a"), Frozen),
        (Point(1), Point),
        (datetime(2024, 1, 2), datetime),
        (date(2024, 1, 2), date),
        (time(1), time),
        (timedelta(1), timedelta),
        (UUID(int=1), UUID),
        (Decimal(1), Decimal),
        (Late(), Late),
    ],
)
def test_type_is_inferred_from_a_default(default: Any, hint: Any) -> None:
    assert infer(default) is schema_of(hint)


@pytest.mark.parametrize("default", [{1}, object(), print, Path(), int, 1j])
def test_default_that_cannot_be_stored_cannot_be_declared(default: Any) -> None:
    with pytest.raises(DeclarationError, match="cannot declare cell 'x': "):
        infer(default, where="cell 'x'")


def test_typed_dicts_are_dicts_at_run_time() -> None:
    movie: Movie = {"title": "a"}
    assert infer(movie) is schema_of(dict)
