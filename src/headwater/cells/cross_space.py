"""The error for a write that leaves the space of the surrounding run or transaction.

No commit covers two spaces: such a write is refused, at the line that makes it.
"""

from __future__ import annotations

from typing import Final, Protocol

from headwater.errors import CrossSpaceError, NestedTransactionError, WriteError

READ: Final = "read"
WRITTEN: Final = "written"


class NamedSpace(Protocol):
    """An open space, as named in messages."""

    name: str
    owner: object
    storage_key: object


class NamedTransaction(Protocol):
    """The transaction, as named in messages."""

    @property
    def name(self) -> str:
        """The function that it is of."""
        ...

    # The message of a forbidden write.
    refused: str


def crossing_error(  # noqa: PLR0917  # called in two places
    tx: NamedTransaction, inside: NamedSpace, outside: NamedSpace, what: str, use: str, read_only: str = ""
) -> CrossSpaceError | WriteError:
    """The error for a use of `what`, which belongs to `outside`, in a transaction of `inside`.

    Where the transaction may not write at all, such as that of a computed function, the error is the same as at home.
    """
    if use == WRITTEN and read_only:
        reason, _, advice = read_only.replace("{run}", tx.name, 1).partition(" {}")
        tx.refused = f"{reason} {what} of {_named(outside)}{advice}"
        return WriteError(tx.refused, what=what, run=tx.name, space=inside.name, other=outside.name)
    doer, where, there = tx.name or "a transaction block", _named(inside), _named(outside)
    if where == there:
        there = f"another opening of {there}"
    if inside.storage_key == outside.storage_key:
        there += ", on the same file,"
    effect = f"that would not be part of the transaction: it would stay if {doer} failed, and be repeated with it"
    remedy = (
        "Send an event to a handler of that app, or post to the cell (`cell.post.set(...)`): both are part of this "
        "transaction, and happen there when it is confirmed"
    )
    if not tx.name:
        remedy += "; or do it after the block"
    if inside.owner is outside.owner:
        remedy = "Use what belongs to this opening; code that acts as another program has a thread of its own"
    message = f"{what} of {there} cannot be {use} in {doer} of {where}: {effect}. {remedy}"
    return CrossSpaceError(message, what=what, use=use, run=tx.name, space=inside.name, other=outside.name)


def nesting_error(tx: NamedTransaction, inside: NamedSpace, outside: NamedSpace) -> NestedTransactionError:
    """The error for a transaction block of `outside` in a run or handling of `inside`."""
    message = (
        f"a transaction of {_named(outside)} cannot be begun in {tx.name} of {_named(inside)}: {tx.name} is repeated "
        "after a conflict, and that would be repeated with it. Send an event to a handler of that app, or post to its "
        "cells (`cell.post.set(...)`)"
    )
    return NestedTransactionError(message, run=tx.name, space=inside.name, other=outside.name)


def read_only_error(space: NamedSpace, what: str, use: str) -> CrossSpaceError:
    """The error for a use of a space that is only read, because a link leads there."""
    message = (
        f"{what} of space {space.name!r} cannot be {use}: the space was opened for a link, only to be read. Open it "
        "with its app to write there"
    )
    return CrossSpaceError(message, what=what, use=use, other=space.name)


def _named(space: NamedSpace) -> str:
    app = getattr(space.owner, "name", None)
    return f"space {space.name!r}" if app is None else f"app {app!r} (space {space.name!r})"
