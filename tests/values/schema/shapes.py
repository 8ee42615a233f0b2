"""Classes that tests declare, of each kind that Python has."""

# ruff: noqa: RUF012  # defaults as people write them

from __future__ import annotations

from collections import namedtuple
from dataclasses import KW_ONLY, InitVar, dataclass, field
from datetime import date
from typing import Any, ClassVar, Generic, Literal, NamedTuple, NotRequired, Required, Self, TypedDict, TypeVar

import msgspec

T = TypeVar("T")


@dataclass
class Note:
    title: str
    done: bool = False
    tags: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Fixed:
    title: str
    due: date | None = None
    tags: list[str] = field(default_factory=list)


@dataclass(slots=True, order=True)
class Slotted:
    rank: int
    notes: list[Note] = field(default_factory=list)
    _: KW_ONLY
    note: str = ""


@dataclass
class Node:
    name: str
    children: list[Node] = field(default_factory=list)
    best: Node | None = None
    by_name: dict[str, Node] = field(default_factory=dict)


@dataclass
class Selfish:
    others: list[Self] = field(default_factory=list)


@dataclass
class OtherSelfish:
    others: list[Self] = field(default_factory=list)


@dataclass
class Careful:
    amount: int
    total: int = field(init=False)
    visits: int = field(init=False, default=0)
    unset: int = field(init=False, repr=False, compare=False)
    factor: InitVar[int] = 2
    kind: ClassVar[str] = "careful"

    def __post_init__(self, factor: int) -> None:
        if self.amount < 0:
            raise ValueError("amount must not be negative")
        self.total = self.amount * factor


@dataclass
class Busy:
    """Its constructor makes other things of what it is given."""

    tags: list[str]
    more: list[str] = field(default_factory=list)
    by_name: dict[str, list[int]] = field(default_factory=dict)
    anything: Any = None
    missing: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.tags = [*self.tags, "added"] if "added" not in self.tags else list(self.tags)
        self.by_name = dict(self.by_name)


@dataclass
class Box(Generic[T]):
    item: T
    items: list[T] = field(default_factory=list)


class Point(NamedTuple):
    x: int
    y: int = 0
    path: list[int] = []


Untyped = namedtuple("Untyped", ["a", "b"])  # noqa: PYI024  # people have them


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class Partial(TypedDict, total=False):
    title: Required[str]
    when: date


class Mutable(msgspec.Struct):
    title: str
    tags: list[str] = []
    by_name: dict[str, int] = msgspec.field(default_factory=dict)


class Frozen(msgspec.Struct, frozen=True):
    title: str
    tags: list[str] = []


class Renamed(msgspec.Struct, rename="camel"):
    first_name: str
    last_name: str = ""


class Tagged(msgspec.Struct, tag="tagged", tag_field="kind"):
    value: int


class OtherTagged(msgspec.Struct, tag="other", tag_field="kind"):
    value: int


class Checking(msgspec.Struct):
    amount: int

    def __post_init__(self) -> None:
        if self.amount < 0:
            raise ValueError("amount must not be negative")
        self.amount = int(self.amount)


class Empty(msgspec.Struct):
    pass


class Grown(Mutable):
    extra: int = 0


class Inherited(Mutable):
    pass


@dataclass
class Circle:
    radius: float
    name: str = ""


@dataclass
class Square:
    side: float
    name: str = ""


@dataclass
class Cat:
    kind: Literal["cat"] = "cat"
    name: str = ""


@dataclass
class Dog:
    kind: Literal["dog", "hound"] = "dog"
    name: str = ""
