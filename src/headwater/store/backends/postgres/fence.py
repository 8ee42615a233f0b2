"""The row of a space: who owns it, under which epoch. Taking a space over is one statement that compares and sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headwater.store.backends.postgres.database_link import DatabaseLink

_FIND: Final = "select id, owner, epoch from hw_space where name = %b"
_CREATE: Final = "insert into hw_space values (%b, %b, %b, %b, '', null, 0, 0, 0, now()) on conflict do nothing"
_TAKE: Final = (
    "update hw_space set owner = %b, epoch = epoch + 1, since = now() "
    "where id = %b and epoch = %b and owner is not distinct from %b::bigint returning epoch, groups, head"
)
_LEAVE: Final = "update hw_space set owner = null, epoch = epoch + 1, since = now() where id = %b and epoch = %b"


@dataclass(slots=True)
class FencedSpace:
    """A space, as a statement has found it."""

    id: int
    owner: int | None
    epoch: int


@dataclass(slots=True)
class Fence:
    """What every write of an owner compares. `groups` counts them: it says whether the last one has landed."""

    space: int
    owner: int
    epoch: int
    groups: int


def find_space(link: DatabaseLink, name: str) -> FencedSpace | None:
    """The space with this name."""
    found = link.run(_FIND, [name])
    return FencedSpace(*found[0]) if found else None


def create_space(link: DatabaseLink, name: str, number: int, space_id: str, lineage: str) -> FencedSpace:
    """The space with this name, made if it is missing."""
    link.run(_CREATE, [number, name, space_id, lineage])
    found = find_space(link, name)
    assert found is not None
    return found


def take(link: DatabaseLink, row: FencedSpace, owner: int) -> Fence | None:
    """Become the owner, if nothing of the row has changed since."""
    found = link.run(_TAKE, [owner, row.id, row.epoch, row.owner])
    if not found:
        return None
    [(epoch, groups, _)] = found
    return Fence(row.id, owner, epoch, groups)


def leave(link: DatabaseLink, fence: Fence) -> None:
    """Give the space up: the next owner need not wait."""
    link.run(_LEAVE, [fence.space, fence.epoch])


_AGAIN: Final = (
    "update hw_space set epoch = epoch + 1 where id = %b and owner = %b and epoch >= %b and epoch <= %b "
    "returning epoch, groups"
)


def take_again(link: DatabaseLink, fence: Fence, tries: int) -> Fence | None:
    """Take the space over from this owner itself: a statement whose answer was lost can no longer write. None: fenced.

    `tries` earlier calls were not answered: each may have raised the epoch.
    """
    found = link.run(_AGAIN, [fence.space, fence.owner, fence.epoch, fence.epoch + tries])
    return Fence(fence.space, fence.owner, *found[0]) if found else None
