"""The error for a read or write that leaves the space of the surrounding run or transaction.

No notification reaches a run of one space about a change in another, and no commit covers two spaces. Until both exist,
such a use is an error, at the line that makes it.
"""

from __future__ import annotations

from typing import Final, Protocol

from headwater.errors import CrossSpaceError

READ: Final = "read"
WRITTEN: Final = "written"


class NamedSpace(Protocol):
    """An open space, as named in messages."""

    name: str
    owner: object
    storage_key: object


class NamedTransaction(Protocol):
    """The transaction, as named in messages."""

    name: str
    node: object
    event: object


def crossing_error(
    tx: NamedTransaction, inside: NamedSpace, outside: NamedSpace, what: str, use: str
) -> CrossSpaceError:
    """The error for a use of `what`, which belongs to `outside`, in a transaction of `inside`."""
    doer, where, there = tx.name or "a transaction block", _named(inside), _named(outside)
    if where == there:
        there = f"another opening of {there}"
    if inside.storage_key == outside.storage_key:
        there += ", on the same file,"
    effect, remedy = _of_read(tx, doer) if use == READ else _of_write(tx, doer)
    if inside.owner is outside.owner:
        remedy = "Use what belongs to this opening; code that acts as another program has a thread of its own"
    message = f"{what} of {there} cannot be {use} in {doer} of {where}: {effect}. {remedy}"
    return CrossSpaceError(message, what=what, use=use, run=tx.name, space=inside.name, other=outside.name)


def _of_read(tx: NamedTransaction, doer: str) -> tuple[str, str]:
    """The problem, and what to do instead."""
    if tx.event is not None:
        effect = f"{doer} would not be repeated if that changed meanwhile"
        return effect, "Read it where the event is sent, and send the value along; or keep both in one app"
    if tx.node is None:
        effect = f"{doer} would not be checked against changes there"
        return effect, "Read it before the block; or keep both in one app"
    effect = f"no change there would run {doer} again"
    remedy = "Keep what is computed together in one app, or send the value to a handler of this app when it changes"
    return effect, f"{remedy}; a cell's .peek() reads it once, without any notification"


def _of_write(tx: NamedTransaction, doer: str) -> tuple[str, str]:
    effect = f"that would not be part of the transaction: it would stay if {doer} failed, and be repeated with it"
    remedy = "Send an event to a handler of that app: it is handled when this transaction is confirmed"
    return effect, remedy if tx.name else f"{remedy}; or do it after the block"


def _named(space: NamedSpace) -> str:
    app = getattr(space.owner, "name", None)
    return f"space {space.name!r}" if app is None else f"app {app!r} (space {space.name!r})"
