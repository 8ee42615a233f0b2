"""What kind of thing was declared, in words."""

from __future__ import annotations

from typing import Final

from headwater.cells.cell import Cell
from headwater.declare.collections.collection import Collection
from headwater.declare.events.handler import Handler, Stream
from headwater.declare.functions.computed import Computed
from headwater.declare.functions.sink import Sink
from headwater.declare.resources.resource import Resource

_KINDS: Final[tuple[tuple[type, str], ...]] = (
    (Handler, "a handler"),
    (Resource, "a resource"),
    (Computed, "a computed"),
    (Sink, "a sink"),
    (Stream, "a stream"),
    (Cell, "a cell"),
    (Collection, "a collection"),
)


def described(thing: object) -> str:
    """The kind of a declaration; all others are documents."""
    return next((words for kind, words in _KINDS if isinstance(thing, kind)), "a document")
