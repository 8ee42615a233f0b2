"""Frozen twins: an author's own class in every respect, but for writing to it."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec
import pytest

from headwater.errors import DeclarationError, FrozenError
from headwater.values.hints import infer, schema_of
from headwater.values.tree import freeze
from tests.values.schema.shapes import Checking, Fixed, Frozen, Grown, Inherited, Mutable, Note, Slotted, Tagged


class Base(ABC):
    @abstractmethod
    def area(self) -> int: ...


@dataclass
class Shape(Base):
    side: int

    def area(self) -> int:
        return self.side**2


@dataclass(slots=True)
class Parent:
    a: int

    def describe(self) -> str:
        return f"{type(self).__name__} {self.a}"


@dataclass(slots=True)
class Child(Parent):
    b: int = 0

    def describe(self) -> str:
        # No super() in a dataclass with slots: Python makes it twice.
        return Parent.describe(self) + f" {self.b}"

    def grown(self) -> Child:
        return type(self)(self.a + 1, self.b)


@dataclass(slots=True, weakref_slot=True, unsafe_hash=True)
class Hashed:
    a: int


@dataclass(eq=False)
class Identity:
    a: int


@dataclass
class Exact:
    """Its methods look at types closely."""

    a: int

    def __eq__(self, other: object) -> bool:
        return type(self) is Exact and type(other) is Exact and self.a == other.a

    def __hash__(self) -> int:
        return hash(self.a)

    def __getstate__(self) -> object:
        return {"a": self.a + 1000}


REGISTRY: list[type] = []


@dataclass
class Registered:
    a: int

    def __init_subclass__(cls, *, needed: int) -> None:
        REGISTRY.append(cls)


class Meta(type):
    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> Meta:
        made = super().__new__(cls, name, bases, namespace)
        REGISTRY.append(made)
        return made


@dataclass
class Made(metaclass=Meta):
    a: int


@dataclass
class Caching:
    a: int

    @cached_property
    def twice(self) -> int:
        return self.a * 2


class Loose(msgspec.Struct, weakref=True, dict=True):
    a: int


class Uncollected(msgspec.Struct, gc=False, order=True, kw_only=True):
    a: int


CASES: list[tuple[Any, str]] = [
    (Note("a", tags=["b"]), "title"),
    (Slotted(1, [Note("a")]), "rank"),
    (Child(1, 2), "a"),
    (Hashed(1), "a"),
    (Exact(1), "a"),
    (Shape(2), "side"),
    (Registered(1), "a"),
    (Made(1), "a"),
    (Caching(1), "a"),
    (Mutable("a", ["b"]), "title"),
    (Grown("a", extra=2), "extra"),
    (Inherited("a"), "title"),
    (Tagged(1), "value"),
    (Checking(1), "amount"),
    (Loose(1), "a"),
    (Uncollected(a=1), "a"),
]


def twin_of(value: Any) -> Any:
    schema = schema_of(type(value))
    return schema.load(schema.store(value), None)


def is_plain(value: Any, original: Any, name: str) -> bool:
    """Of the author's very class, and open to change."""
    setattr(value, name, getattr(value, name))
    return type(value) is type(original)


def hash_of(value: Any) -> int | str:
    try:
        return hash(value)
    except TypeError as error:
        return str(error)


@pytest.mark.parametrize(("original", "name"), CASES)
def test_twin_refuses_to_be_written_to(original: Any, name: str) -> None:
    twin = twin_of(original)
    with pytest.raises(FrozenError, match=f"cannot set '{name}' of a {type(original).__name__} that was read"):
        setattr(twin, name, 5)
    with pytest.raises(FrozenError, match="cannot delete"):
        delattr(twin, name)
    with pytest.raises(FrozenError):
        twin.something_new = 5
    with pytest.raises(FrozenError):
        twin.__class__ = object
    assert getattr(twin, name) == getattr(original, name)


@pytest.mark.parametrize(("original", "name"), CASES)
def test_twin_is_its_original_wherever_one_looks(original: Any, name: str) -> None:
    twin, cls = twin_of(original), type(original)
    assert isinstance(twin, cls)
    assert twin.__class__ is cls
    assert twin == original
    assert original == twin
    assert twin == twin_of(original)
    assert not twin != original  # noqa: SIM202
    assert not original != twin  # noqa: SIM202
    assert not twin != twin_of(original)  # noqa: SIM202
    assert twin != "something else"
    assert twin != 5
    assert repr(twin) == repr(original)
    assert type(twin).__name__ == cls.__name__
    assert type(twin).__qualname__ == cls.__qualname__
    assert type(twin).__module__ == cls.__module__
    assert type(twin).__doc__ == cls.__doc__
    assert isinstance(twin, Hashable) == isinstance(original, Hashable)
    assert hash_of(twin) == hash_of(original)
    match twin:
        case cls():
            pass
        case _:
            pytest.fail("pattern matching looks elsewhere")
    assert name in dir(twin)


@pytest.mark.parametrize(("original", "name"), CASES)
def test_copies_of_a_twin_are_plain_and_can_be_changed(original: Any, name: str) -> None:
    twin = twin_of(original)
    for made in (copy.copy(twin), copy.deepcopy(twin), copy.deepcopy([twin])[0]):
        assert made == original or isinstance(original, Exact)
        assert is_plain(made, original, name)
    assert twin == original


@pytest.mark.parametrize(("original", "name"), CASES)
def test_twin_is_pickled_as_its_original(original: Any, name: str) -> None:
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        made = pickle.loads(pickle.dumps(twin_of(original), protocol))  # noqa: S301
        again = pickle.loads(pickle.dumps(original, protocol))  # noqa: S301
        assert made == again
        assert is_plain(made, original, name)


@pytest.mark.parametrize(("original", "name"), CASES)
def test_changed_versions_of_a_twin_are_plain(original: Any, name: str) -> None:
    twin, changes = twin_of(original), {name: getattr(original, name)}
    if isinstance(original, msgspec.Struct):
        made = msgspec.structs.replace(twin, **changes)
    else:
        made = dataclasses.replace(twin, **changes)
    assert made == original
    assert is_plain(made, original, name)


@pytest.mark.parametrize(("original", "name"), CASES)
def test_class_of_a_twin_makes_plain_instances(original: Any, name: str) -> None:
    if isinstance(original, msgspec.Struct):
        fields = msgspec.structs.asdict(original)
    else:
        fields = {each.name: getattr(original, each.name) for each in dataclasses.fields(original)}
    made = type(twin_of(original))(**fields)
    assert made == original
    assert is_plain(made, original, name)


def test_message_says_how_to_write() -> None:
    with pytest.raises(FrozenError) as caught:
        twin_of(Note("a")).done = True
    assert str(caught.value) == (
        "HW107: cannot set 'done' of a Note that was read from a document: what is read is frozen. Assign a new one: "
        "cell.value = dataclasses.replace(cell.value, done=...), or write one field: cell.at('done').value = ..."
    )
    with pytest.raises(FrozenError, match=r"cell\.value = msgspec\.structs\.replace\(cell\.value, title=\.\.\.\)"):
        twin_of(Mutable("a")).title = "b"


def test_twins_are_ordered_as_their_class_is() -> None:
    pairs: list[tuple[Any, Any]] = [(Slotted(1), Slotted(2)), (Uncollected(a=1), Uncollected(a=2))]
    for low, high in pairs:
        for one, other in ((twin_of(low), high), (low, twin_of(high)), (twin_of(low), twin_of(high))):
            assert one < other
            assert one <= other
            assert other > one
            assert other >= one
            assert sorted([other, one]) == [one, other]
    with pytest.raises(TypeError, match="'<' not supported between instances of 'Note' and 'Note'"):
        twin_of(Note("a")) < Note("b")  # noqa: B015


def test_class_that_compares_by_identity_goes_on_to() -> None:
    one, other = twin_of(Identity(1)), twin_of(Identity(1))
    assert one == one  # noqa: PLR0124
    assert one != other
    assert not one != one  # noqa: PLR0124, SIM202
    assert len({one, other}) == 2


def test_methods_of_the_author_work_on_twins() -> None:
    twin = twin_of(Child(1, 2))
    assert twin.describe() == "Child 1 2"
    assert twin.grown() == Child(2, 2)
    assert type(twin.grown()) is Child
    assert twin_of(Shape(3)).area() == 9
    caching = twin_of(Caching(2))
    assert caching.twice == caching.twice == 4


def test_author_is_not_told_of_twins() -> None:
    twin_of(Registered(1))
    twin_of(Made(1))
    assert [Made] == REGISTRY


def test_frozen_classes_load_as_themselves() -> None:
    assert type(twin_of(Fixed("a"))) is Fixed
    assert type(twin_of(Frozen("a"))) is Frozen


def test_twin_can_be_turned_into_plain_data() -> None:
    assert dataclasses.asdict(twin_of(Slotted(1, [Note("a")]))) == dataclasses.asdict(Slotted(1, [Note("a")]))
    assert msgspec.json.encode(twin_of(Tagged(1))) == msgspec.json.encode(Tagged(1))
    assert msgspec.structs.asdict(twin_of(Mutable("a"))) == msgspec.structs.asdict(Mutable("a"))


def test_twin_is_a_good_default_for_its_class() -> None:
    assert infer(twin_of(Note("a"))) is schema_of(Note)


class Other:
    pass


@dataclass
class Deciding:
    a: int

    def __new__(cls, a: int) -> Any:
        return super().__new__(cls) if a else Other()


def test_constructor_that_makes_something_else_has_its_way() -> None:
    assert type(schema_of(Deciding).load(freeze({"a": 0}), None)) is Other


@dataclass
class Abstract(Base):
    side: int = field(default=0)


def test_abstract_class_cannot_be_declared() -> None:
    with pytest.raises(DeclarationError, match="Abstract cannot be read back"):
        schema_of(Abstract)
