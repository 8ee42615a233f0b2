"""Functions with parameters: one node for each set of arguments.

The key of a set of arguments names documents by id, cells by address, and plain values by value. An instance that
functions have read is removed at the end of the pass in which it lost its last reader, together with the instances that
only it has read. Of the instances that only plain code and handlers have called, the latest are retained. Removing an
instance removes the stored observations of its runs; its result stays.
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
from headwater.scheduler.graph.node import FunctionHome, Node, NodeSpec
from headwater.scheduler.scheduler import Scheduler
from headwater.scheduler.scheduler_limits import UNREAD_MAX
from headwater.values.author_text import safe_repr
from headwater.values.causal import derive_id
from headwater.values.codec import encode
from headwater.values.tree import freeze

Key: TypeAlias = tuple[tuple[str, ...], ...]
"""For each parameter, the kind of its argument and its identity."""

_KIND = "instance"

ARGUMENT_TEXT_MAX = 40
"""Characters of an argument in a name."""

EXAMPLES_MAX = 5
"""Calls that one message lists."""


@dataclass(slots=True)
class Instance:
    """One function with one set of arguments."""

    node: Node
    cell: Cell[Any]
    # The number of the last call: the oldest are removed first.
    used: int = 0


class Instances:
    """The instances of one function in one open space. Writing needs the lock of the space; reading does not."""

    def __init__(self, scheduler: Scheduler, on_gone: Callable[[Node], None], home: FunctionHome | None = None) -> None:
        self._scheduler = scheduler
        self._home = home
        # Called with each node that is removed.
        self._on_gone = on_gone
        self._found: dict[Key, Instance] = {}
        self._calls = 0
        # Runs of removed instances.
        self._runs = 0
        # How many more can be registered before more than `UNREAD_MAX` are unread: one that loses its last reader is
        # removed at the end of the pass.
        self._room = 0

    def get(self, key: Key) -> Instance | None:
        """The instance for these arguments."""
        found = self._found.get(key)
        if found is not None:
            self._calls += 1
            found.used = self._calls
        return found

    def put(self, key: Key, spec: NodeSpec, cell: Cell[Any]) -> Instance:
        """Register an instance; unread ones may be removed for it."""
        self._calls += 1
        spec.on_unread, spec.home = lambda: self.release([key]), self._home
        instance = self._found[key] = Instance(self._scheduler.register(spec), cell, self._calls)
        self._room -= 1
        if self._room < 0 and len(self._found) > UNREAD_MAX and len(self._found) % UNREAD_MAX == 1:
            # Not at each return to this number: all instances are looked at.
            self._thin_out(instance)
        return instance

    def _thin_out(self, fresh: Instance) -> None:
        """Retain the instances that functions have read, and the latest of the others."""
        found = self._found
        # A node without a finished run has a caller that waits.
        done = [each.node for each in found.values() if each is not fresh and each.node.runs]
        waiting = len(found) - len(done)
        unread = self._scheduler.unread(done)
        idle = sorted((key for key, each in found.items() if each.node in unread), key=lambda key: found[key].used)
        self.release(idle[: max(len(idle) - UNREAD_MAX, 0)])
        self._room = UNREAD_MAX - min(len(idle), UNREAD_MAX) - waiting
        # The nodes that only these have read.
        self._scheduler.sweep()

    def release(self, keys: Iterable[Key]) -> None:
        """Remove instances that have no readers, or whose readers the caller notifies."""
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
        """Runs of all instances, with the removed ones."""
        return self._runs + sum(each.node.runs for each in list(self._found.values()))

    def nodes(self) -> list[Node]:
        """The nodes of all instances."""
        return [each.node for each in self._found.values()]

    @staticmethod
    def doc_of(doc: str, key: Key) -> str:
        """The document of a result: derived from the arguments, the same in every session."""
        return f"{doc}:{derive_id(_KIND, doc, [list(part) for part in key])}"

    @staticmethod
    def function_of(doc: str) -> str:
        """The document of the function of such a document. The names of pieces contain colons, too."""
        return doc.rpartition(f":{_KIND}:")[0]


def arguments_text(arguments: Mapping[str, object]) -> str:
    """The arguments as text for people, shortened."""
    return ", ".join(_argument_text(given)[:ARGUMENT_TEXT_MAX] for given in arguments.values())


def missing_arguments_error(asked: str, error: TypeError, known: list[str]) -> UsageError:
    """The error for a question about a function that names no arguments. `known`: its calls, the latest first."""
    called = ", ".join(known[:EXAMPLES_MAX]) + (", ..." if len(known) > EXAMPLES_MAX else "")
    told = f"it was called here as {called}" if known else "it has not been called here"
    return UsageError(f"{asked}: {error}; say with which arguments: {told}")


def _argument_text(given: object) -> str:
    if isinstance(given, Doc):
        return identity_key(given).removeprefix("space!")
    return given.address if isinstance(given, Readable) else safe_repr(given)


def key_of(arguments: Mapping[str, object]) -> Key | None:
    """The key of a set of arguments; None if one of them cannot be compared."""
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
