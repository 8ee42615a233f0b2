"""Functions with parameters: one node for each set of arguments that can be told apart.

A document is told by its id, a cell by its place, plain values by themselves. Instances that nobody reads any more are
kept for a while, newest last; then the oldest are forgotten.

Must never know: what a function does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from headwater.cells.cell import Cell
from headwater.cells.doc import Doc
from headwater.cells.reading import Readable
from headwater.cells.whole import told_apart
from headwater.errors import HeadwaterError
from headwater.scheduler.limits import KEPT_MAX
from headwater.scheduler.node import Node
from headwater.values.causal import derive_id
from headwater.values.codec import encode
from headwater.values.tree import freeze

Key: TypeAlias = tuple[tuple[str, ...], ...]
"""For each parameter, what kind of thing was given and which."""

LABEL_MAX = 40
"""Characters of an argument in a name."""


@dataclass(slots=True)
class Instance:
    """One function with one set of arguments."""

    node: Node
    cell: Cell[Any]


class Instances:
    """Those of one function in one open space."""

    def __init__(self, remove: Callable[[Node], None]) -> None:
        self._remove = remove
        self._found: dict[Key, Instance] = {}

    def get(self, key: Key) -> Instance | None:
        """The one for these arguments."""
        return self._found.get(key)

    def put(self, key: Key, cell: Cell[Any], make: Callable[[], Node]) -> Instance:
        """A new one; some that nobody reads may go for it."""
        instance = self._found[key] = Instance(make(), cell)
        if len(self._found) > KEPT_MAX and len(self._found) % KEPT_MAX == 1:
            self._thin_out(instance)
        return instance

    def _thin_out(self, fresh: Instance) -> None:
        """Keep those that are read or under way, and the newest of the others."""
        idle = [
            key
            for key, each in self._found.items()
            if not each.node.is_live and each.node.attempt is None and each is not fresh
        ]
        for key in idle[: max(len(idle) - KEPT_MAX, 0)]:
            self._remove(self._found.pop(key).node)

    def __len__(self) -> int:
        return len(self._found)

    def nodes(self) -> list[Node]:
        """All of them."""
        return [each.node for each in self._found.values()]

    @staticmethod
    def doc_of(doc: str, key: Key) -> str:
        """Where its result stands: derived from the arguments, the same in every run."""
        return f"{doc}:{derive_id('instance', doc, [list(part) for part in key])}"

    @staticmethod
    def label(key: Key) -> str:
        """For people: the arguments, shortened."""
        return ", ".join(part[-1][:LABEL_MAX] for part in key)


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
        return ("doc", type(given).__name__, told_apart(given))
    if isinstance(given, Readable):
        return ("cell", given.address)
    try:
        return ("value", encode(freeze(given)).hex())
    except HeadwaterError:
        return None
