"""Documents that a bulk insert takes from a generator: made without a handle, as trees in the order of the rows."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final, NoReturn

from headwater.cells.context import Addressed
from headwater.cells.space_port import SpacePort
from headwater.errors import UsageError
from headwater.values.tree import Value


class Gathered:
    """The documents of one class that a generator has made and not yet passed on. It is their owner until then."""

    def __init__(self, cls: type, space: SpacePort) -> None:
        self.cls = cls
        self.space = space
        # By the identity of the object, which is held here.
        self._made: dict[int, tuple[object, Value]] = {}

    def __len__(self) -> int:
        return len(self._made)

    def put(self, document: object, tree: Value) -> None:
        """A document was made."""
        self._made[id(document)] = (document, tree)

    def take(self, document: object) -> Value | None:
        """The tree of a document that was made here; None for any other object."""
        found = self._made.pop(id(document), None)
        return None if found is None else found[1]

    def sole_space(self, what: str | Addressed) -> NoReturn:
        """The document has no place yet. Raises UsageError."""
        raise UsageError(
            f"{what if isinstance(what, str) else what.address}: insert_many(...) has not stored this document yet; in "
            "its generator, pass on what is made there, and use it afterwards"
        )


GATHERED: Final[ContextVar[Gathered | None]] = ContextVar("headwater-gathered", default=None)
"""Set while a generator is asked for its next row."""
