"""Owners of handles in other spaces: the open space that a link names, or a stand-in while it is not open.

A link names its target by the id of the space. The stand-in looks for the space at each use, so a handle works as soon
as the space is open.
"""

from __future__ import annotations

from weakref import WeakValueDictionary

from headwater.cells.context import Addressed, name_of
from headwater.cells.space_port import SpacePort, open_space_with
from headwater.values.ids import DocKey, SpaceId


class LinkedSpace:
    """The owner of a handle in another space, which need not be open."""

    __slots__ = ("__weakref__", "handles", "near", "space_id")

    def __init__(self, space_id: SpaceId, near: SpacePort) -> None:
        self.space_id = space_id
        self.near = near
        # One handle per document and class, as in an open space.
        self.handles: WeakValueDictionary[tuple[DocKey, type], object] = WeakValueDictionary()

    def sole_space(self, what: str | Addressed) -> SpacePort:
        """The space, open in this program. Raises SpaceNotOpenError."""
        return self.near.linked_space(self.space_id, name_of(what))


def owner_in(space_id: SpaceId, near: SpacePort) -> SpacePort | LinkedSpace:
    """The owner of handles in the space that a link names: the open space, or a stand-in while it is not open."""
    found = open_space_with(space_id)
    if found is not None:
        return found
    made = near.linked.get(space_id)
    if not isinstance(made, LinkedSpace):
        made = near.linked[space_id] = LinkedSpace(space_id, near)
    return made
