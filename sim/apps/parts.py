"""A generated app as data: declarations whose bodies are small expression trees and steps.

Every value is an integer, or a list or map of integers, so that two programs are compared by equality. A part refers to
earlier parts only, by name: an app without one of its parts drops those that need it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Self, TypeAlias

import msgspec

Verb: TypeAlias = Literal["each", "select", "flat"]
ErrorKind: TypeAlias = Literal["ValueError", "KeyError", "Odd"]
"""`Odd` is an exception whose `str()` raises."""


class Expr(msgspec.Struct, frozen=True, tag=True, repr_omit_defaults=True):
    """An expression. Its value is an integer, unless it raises."""


class Const(Expr, frozen=True):
    """A number."""

    value: int


class Param(Expr, frozen=True):
    """The parameter of the function; of an element of a list, the element; of a document, its field `n`."""


class Read(Expr, frozen=True):
    """The value of an integer cell; of a list cell its length; of a map cell the number of its keys."""

    cell: str


class Peek(Expr, frozen=True):
    """A read without a dependency. Its value is 0: what was peeked may be outdated."""

    cell: str


class Sum(Expr, frozen=True):
    """Of the elements of a list cell, or the values of a map cell."""

    cell: str


class At(Expr, frozen=True):
    """One part of a list or map cell, 0 if there is none."""

    cell: str
    key: str | int


class Field(Expr, frozen=True):
    """Of a declared document: `x`, the number of its `items`, the sum of their `n`, the `n` of its `first`."""

    doc: str
    field: Literal["x", "count", "total", "first", "second", "marks"]


class Call(Expr, frozen=True):
    """Of a computed function, or the sum of a derived list; over items if it takes one."""

    fn: str
    argument: Expr | None = None
    doc: str = ""
    """The document whose items are the arguments, one after the other; the value is the sum."""


class Binary(Expr, frozen=True):
    """Numbers stay small; comparisons give 0 or 1."""

    op: Literal["+", "-", "*", "<", "=="]
    left: Expr
    right: Expr


class If(Expr, frozen=True):
    """One of two values."""

    condition: Expr
    then: Expr
    other: Expr


class Fail(Expr, frozen=True):
    """Raise if the condition holds, else the value."""

    condition: Expr
    value: Expr
    kind: ErrorKind = "ValueError"


class Catch(Expr, frozen=True):
    """The value, or another one if it raises."""

    value: Expr
    other: Expr
    kind: Literal["ValueError", "Exception"] = "ValueError"


class Step(msgspec.Struct, frozen=True, tag=True, repr_omit_defaults=True):
    """One statement in a transaction."""


class Put(Step, frozen=True):
    """Set a cell."""

    cell: str
    value: Expr


class Count(Step, frozen=True):
    """`increment`: merges with others."""

    cell: str
    value: Expr


class Push(Step, frozen=True):
    """`append` to a list cell, after the value modulo 7; `add_unique` if `unique`."""

    cell: str
    value: Expr
    unique: bool = False


class PutList(Step, frozen=True):
    """A new value of a list cell: the old one rotated, without its first element, or empty."""

    cell: str
    how: Literal["rotate", "rest", "clear", "insert", "default"]


class PutKey(Step, frozen=True):
    """Of a map cell."""

    cell: str
    key: str
    value: Expr


class DropKey(Step, frozen=True):
    """Of a map cell."""

    cell: str
    key: str


class SetField(Step, frozen=True):
    """`x` of a document, a key of its `marks`, or `n` of its first item."""

    doc: str
    field: Literal["x", "marks", "item"]
    value: Expr


class Items(Step, frozen=True):
    """Change the list of a document, or what its link `first` refers to."""

    doc: str
    how: Literal["add", "drop", "delete", "reverse", "link", "unlink", "clear"]
    value: Expr


class When(Step, frozen=True):
    """Steps under a condition."""

    condition: Expr
    steps: tuple[Step, ...]


class Follow(Step, frozen=True):
    """Send an event to a handler as part of the transaction."""

    handler: str
    value: Expr
    mark: str
    """Distinguishes the events that one function sends."""


class Start(Step, frozen=True):
    """Start a piece of a pattern, or start it again with other inputs."""

    pattern: str
    key: str
    value: Expr


class Stop(Step, frozen=True):
    """Stop a piece of a pattern."""

    pattern: str
    key: str


class Raise(Step, frozen=True):
    """Give the transaction up if the condition holds."""

    condition: Expr
    kind: Literal["ValueError", "Odd", "Reject", "abort"] = "ValueError"


class Look(Step, frozen=True):
    """Read and forget: the transaction depends on it."""

    value: Expr


class Part(msgspec.Struct, frozen=True, tag=True, repr_omit_defaults=True):
    """One declaration of an app."""

    name: str


class IntCell(Part, frozen=True):
    """A cell with a number."""

    default: int = 0


class ListCell(Part, frozen=True):
    """A cell with a list."""

    default: tuple[int, ...] = ()


class MapCell(Part, frozen=True):
    """A cell with a dict."""

    default: tuple[tuple[str, int], ...] = ()


class Board(Part, frozen=True):
    """A declared document with a number, a map, a link and a list of items."""


class Computed(Part, frozen=True):
    """A computed function. With `target`, it writes the double of its result to that cell."""

    body: Expr
    takes: Literal["", "int", "item"] = ""
    waits: int = 0
    """Milliseconds that it awaits between its reads; more than 0 makes it async."""
    debounce: int = 0
    throttle: int = 0
    eager: bool = False
    version: int = 0
    target: str = ""
    slow: int = 0
    """Milliseconds that a run takes: others commit meanwhile."""
    finishes: bool = False
    """Whether an async run goes on when a value that it has read changes."""


class Listing(Part, frozen=True):
    """A computed function that returns a list: the elements of a list cell, each plus a value."""

    source: str
    plus: Expr


class Derived(Part, frozen=True):
    """`each`, `select` or `flat_each` of a list cell, a listing, or the items of a document."""

    source: str
    verb: Verb
    body: Expr


class Choice(Part, frozen=True):
    """`if_else` of a cell and two computed functions."""

    condition: str
    then: str
    other: str


class Sink(Part, frozen=True):
    """Shows its values; with `target`, writes their sum to a cell that it alone writes."""

    shows: tuple[Expr, ...]
    target: str = ""
    quiet: bool = False
    debounce: int = 0
    throttle: int = 0
    waits: int = 0
    sends: str = ""
    """A handler that gets the sum, whenever the sink runs."""
    group: str = ""
    rereads: bool = False
    """Whether it reads the cell that it writes."""
    slow: int = 0


class Restless(Part, frozen=True):
    """Two sinks that write each other's input, until it is as large as `limit`."""

    seed: str
    limit: int = 5


class Ring(Part, frozen=True):
    """Two functions, each of which reads what the other writes; a sink reads them while a cell is not 0."""

    seed: str
    lit: str


class Materializer(Part, frozen=True):
    """Counts the elements of a list cell by their value modulo 5, in a map cell."""

    source: str
    target: str


class Handler(Part, frozen=True):
    """Handles events with a number and a tag; notes the tag in the ledger of the app."""

    steps: tuple[Step, ...]
    result: Expr
    reads: tuple[str, ...] = ()
    slow: int = 0


class Pattern(Part, frozen=True):
    """A cell `left`, a computed `label` that reads it and the body, a sink, and a handler `tick`."""

    body: Expr
    nests: str = ""
    """A pattern of which each piece has a part."""


class Patient(Part, frozen=True):
    """An async sink that shows a number: it reads it, takes its time, and waits; for long if the number is `HELD`."""

    cell: str
    finishes: bool = False
    """Whether a run whose read has changed goes on to its end."""


HELD = 77
"""The number for which a patient sink waits until it is cancelled."""


class Children(Part, frozen=True):
    """A sink, or a computed function that a sink reads, that starts a piece for each element of a list cell."""

    source: str
    pattern: str
    lit: str = ""
    """A cell: while it is 0, the computed function is not read. Without one it is a sink."""
    fails: str = ""
    """A cell that lets some runs fail: these keep the children of the run before."""


Node: TypeAlias = Part | Expr | Step


class App(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """A program. `edits` are the seeds of its later versions: see `edits.version`."""

    parts: tuple[Part, ...]
    edits: tuple[int, ...] = ()

    def without(self, indices: frozenset[int]) -> Self:
        """The app without these parts, and without those that need them."""
        gone: set[str] = set()
        kept: list[Part] = []
        for index, part in enumerate(self.parts):
            if index in indices or not gone.isdisjoint(names_in(part)):
                gone.add(part.name)
            else:
                kept.append(part)
        return msgspec.structs.replace(self, parts=tuple(kept))

    def named(self) -> dict[str, Part]:
        return {part.name: part for part in self.parts}


_NAMES = frozenset(
    {"cell", "doc", "fn", "source", "target", "condition", "then", "other", "handler", "pattern", "lit", "seed"}
    | {"nests", "sends", "fails"}
)


def followed(value: object) -> Iterator[Follow]:
    """The events that declarations, steps or operations send."""
    if isinstance(value, Follow):
        yield value
    inner = [getattr(value, name) for name in value.__struct_fields__] if isinstance(value, msgspec.Struct) else value
    for each in inner if isinstance(inner, list | tuple) else ():
        yield from followed(each)


def inside(node: Node) -> Iterator[Expr | Step]:
    """The expressions and steps that a node is made of."""
    for field in node.__struct_fields__:
        value = getattr(node, field)
        yield from (each for each in (value if isinstance(value, tuple) else (value,)) if isinstance(each, Expr | Step))


def names_in(node: Node) -> Iterator[str]:
    """The names of the parts that a declaration, expression or step refers to."""
    for field in node.__struct_fields__:
        value = getattr(node, field)
        if isinstance(value, str):
            if value and field in _NAMES:
                yield value
        elif isinstance(value, Expr | Step):
            yield from names_in(value)
        elif isinstance(value, tuple):
            for each in value:
                if isinstance(each, Expr | Step):
                    yield from names_in(each)
                elif field == "reads":
                    yield each


def is_async(app: App) -> bool:
    """Whether the app has to be opened in an event loop."""
    return any(getattr(part, "waits", 0) for part in app.parts)
