"""Functions with parameters: one node for each set of arguments that can be told apart.

A document is told by its id, a cell by its place, plain values by themselves. An instance that some function has read
goes when none does any more, at the end of the pass; so do those that only it has read. Of those that only plain code
and handlers have called, the ones that were called lately are kept. With an instance goes what the store keeps of its
runs; its result stays.

Must never know: what a function does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from headwater.cells.cell import Cell
from headwater.cells.document_class import Doc
from headwater.cells.document_operations import identity_key
from headwater.cells.reading import Readable
from headwater.errors import HeadwaterError, UsageError
from headwater.scheduler.graph.node import Node, NodeSpec
from headwater.scheduler.scheduler import Scheduler
from headwater.scheduler.scheduler_limits import UNREAD_MAX
from headwater.values.author_text import safe_repr
from headwater.values.causal import derive_id
from headwater.values.codec import encode
from headwater.values.tree import freeze

Key: TypeAlias = tuple[tuple[str, ...], ...]
"""For each parameter, what kind of thing was given and which."""

_KIND = "instance"

ARGUMENT_TEXT_MAX = 40
"""Characters of an argument in a name."""

EXAMPLES_MAX = 5
"""Sets of arguments in one message: the last few say what can be asked about."""


@dataclass(slots=True)
class Instance:
    """One function with one set of arguments."""

    node: Node
    cell: Cell[Any]
    # The number of the last call: the oldest go first.
    used: int = 0


class Instances:
    """Those of one function in one open space. Whoever puts has the turn; anybody may look."""

    def __init__(self, scheduler: Scheduler, on_gone: Callable[[Node], None]) -> None:
        self._scheduler = scheduler
        # Told of each that goes.
        self._on_gone = on_gone
        self._found: dict[Key, Instance] = {}
        self._calls = 0
        # Of those that were forgotten.
        self._runs = 0

    def get(self, key: Key) -> Instance | None:
        """The one for these arguments."""
        found = self._found.get(key)
        if found is not None:
            self._calls += 1
            found.used = self._calls
        return found

    def put(self, key: Key, spec: NodeSpec, cell: Cell[Any]) -> Instance:
        """A new one; some that nobody reads may go for it."""
        self._calls += 1
        spec.on_unread = lambda: self.release([key])
        instance = self._found[key] = Instance(self._scheduler.register(spec), cell, self._calls)
        if len(self._found) > UNREAD_MAX and len(self._found) % UNREAD_MAX == 1:
            self._thin_out(instance)
        return instance

    def _thin_out(self, fresh: Instance) -> None:
        """Keep those that somebody has read, looked at or not, and of the others those that were used lately."""
        found = self._found
        # One that has not come to its end is waited for.
        done = [each.node for each in found.values() if each is not fresh and each.node.runs]
        unread = self._scheduler.unread(done)
        idle = sorted((key for key, each in found.items() if each.node in unread), key=lambda key: found[key].used)
        self.release(idle[: max(len(idle) - UNREAD_MAX, 0)])
        # Those that only they have read.
        self._scheduler.sweep()

    def release(self, keys: Iterable[Key]) -> None:
        """Nobody asks for these any more, or whoever did tells those who have read them: they are forgotten now."""
        for key in keys:
            found = self._found.pop(key, None)
            if found is not None:
                self._runs += found.node.runs
                self._scheduler.remove(found.node)
                self._on_gone(found.node)

    def __len__(self) -> int:
        return len(self._found)

    @property
    def runs(self) -> int:
        """All together, with those that were forgotten."""
        return self._runs + sum(each.node.runs for each in list(self._found.values()))

    def nodes(self) -> list[Node]:
        """All of them."""
        return [each.node for each in self._found.values()]

    @staticmethod
    def doc_of(doc: str, key: Key) -> str:
        """Where its result stands: derived from the arguments, the same in every run."""
        return f"{doc}:{derive_id(_KIND, doc, [list(part) for part in key])}"

    @staticmethod
    def function_of(doc: str) -> str:
        """What the name of such a document begins with; the names of pieces have colons too."""
        return doc.rpartition(f":{_KIND}:")[0]


def arguments_text(arguments: Mapping[str, object]) -> str:
    """For people: the arguments, shortened."""
    return ", ".join(_argument_text(given)[:ARGUMENT_TEXT_MAX] for given in arguments.values())


def missing_arguments_error(asked: str, error: TypeError, known: list[str]) -> UsageError:
    """Somebody asks about a function with parameters, and not with which arguments. `known`: the last called first."""
    called = ", ".join(known[:EXAMPLES_MAX]) + (", ..." if len(known) > EXAMPLES_MAX else "")
    told = f"it was called here as {called}" if known else "it has not been called here"
    return UsageError(f"{asked}: {error}; say with which arguments: {told}")


def _argument_text(given: object) -> str:
    if isinstance(given, Doc):
        return identity_key(given).removeprefix("space!")
    return given.address if isinstance(given, Readable) else safe_repr(given)


def key_of(arguments: Mapping[str, object]) -> Key | None:
    """What tells a set of arguments from others; None if something in it cannot be told."""
    parts: list[tuple[str, ...]] = []
    for given in arguments.values():
        part = _part(given)
        if part is None:
            return None
        parts.append(part)
    return tuple(parts)


def _part(given: object) -> tuple[str, ...] | None:
    kind = type(given)
    if kind is str:
        return ("text", str(given))
    if kind is int or kind is bool or given is None or kind is float:
        return (kind.__name__, repr(given))
    if isinstance(given, Doc):
        return ("doc", type(given).__name__, identity_key(given))
    if isinstance(given, Readable):
        return ("cell", given.address)
    try:
        return ("value", encode(freeze(given)).hex())
    except HeadwaterError:
        return None
