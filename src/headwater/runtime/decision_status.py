"""Whether the visible value is decided: `pending` until the store, or the server, has accepted it."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from headwater.cells.cell import Cell
from headwater.cells.display import shorten
from headwater.cells.document_class import Doc
from headwater.cells.document_operations import address_in, space_of
from headwater.cells.far import FarReads
from headwater.cells.list_and_map import List, Map
from headwater.cells.reading import Readable
from headwater.cells.transaction import Transaction
from headwater.errors import CrossSpaceError, UsageError
from headwater.runtime.pass_port import PassPort
from headwater.scheduler.graph.node import Node
from headwater.values.address import address_text
from headwater.values.author_text import safe_repr
from headwater.values.ids import DocKey
from headwater.values.tree import same


class DecisionStatus(StrEnum):
    """The status of a document. It prints as its word."""

    PENDING = "pending"
    """A write of this program is not decided yet: it may be rolled back."""
    CONFIRMED = "confirmed"
    """The visible value is the stored one."""


def status(thing: Doc | Cell[Any] | List[Any] | Map[Any, Any]) -> DecisionStatus:
    """Whether the value that a cell or document shows is decided: `pending` or `confirmed`.

    A part has the status of its whole document. In a sink or a computed function, a change of the status runs the
    function again.

    Args:
        thing: A cell, a document, a list or a map.

    Returns:
        The status. It prints as its word.

    Raises:
        UsageError: HW100. It is neither a cell nor a document.

    Example:
        ```python
        import headwater as hw

        app = hw.App("seats")
        seat = app.cell("seat", "")
        with app.open("memory:") as space:
            seat.value = "Ann"
            space.sync()
            print(hw.status(seat))  # confirmed
        ```
    """
    given: object = thing
    if not isinstance(given, Doc | Readable):
        message = f"hw.status takes a cell or a document, not {shorten(safe_repr(given))}"
        raise UsageError(f"{message}; for a field of a document, give the document")
    home, tx = space_of(given, "hw.status(...)")
    assert isinstance(home, PassPort)
    doc, _ = address_in(given, home)
    if tx is None:
        if home.inbox:
            home.catch_up()
        if home.gate is not None:
            home.gate(doc)
        return DecisionStatus.PENDING if home.replica.is_layered(doc) else DecisionStatus.CONFIRMED
    if isinstance(tx, FarReads) and tx.node is not None:
        message = (
            f"{tx.name} cannot ask for the status of {address_text(doc)} of space {home.name!r}: a change of it would "
            f"not run {tx.name} again. Ask in plain code, or in a function of the app that it belongs to"
        )
        raise CrossSpaceError(message, what=address_text(doc), use="asked", run=tx.name, other=home.name)
    if tx.gate is not None:
        tx.gate(doc)
    with home.replica.lock:
        is_pending = home.replica.is_layered(doc) or _is_written(tx, doc)
        if isinstance(tx.node, Node):
            # The answer depends on the moment and the replica: it is not restored.
            tx.reads_outside = True
            home.scheduler.decision_waits.record(tx.node, doc, pending=is_pending)
    return DecisionStatus.PENDING if is_pending else DecisionStatus.CONFIRMED


def _is_written(tx: Transaction, doc: DocKey) -> bool:
    """Whether the open transaction changes the document."""
    return any(each == doc and not same(tx.snapshot_of(doc), value) for each, value in tx.written())
