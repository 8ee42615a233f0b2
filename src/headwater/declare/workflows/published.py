"""The result of `publish`: the id of the event, and a way to wait until it is on disk."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from headwater.cells.transaction import Transaction
from headwater.cells.transaction_states import SETTLED
from headwater.declare.events.ticket import Ticket
from headwater.declare.workflows.workflow_port import HubPort
from headwater.errors import EventRefusedError, EventTimeoutError, UnavailableError, UsageError
from headwater.workflow.workflow_transaction import WorkflowTransaction


class Published(str):  # noqa: SLOT000  # has attributes
    """The id of an event that was published. The event is on disk when `sync()` returns, or when it was awaited.

    In a transaction, a handler, a producer or `next`, it is part of that commit: wait after it has ended.
    """

    _hub: HubPort
    _transaction: WorkflowTransaction
    _number: int
    _tx: Transaction | None

    @classmethod
    def of(
        cls, message: str, hub: HubPort, transaction: WorkflowTransaction, number: int, tx: Transaction | None
    ) -> Published:
        """A published event, alone or with a transaction: the step of that number."""
        made = cls(message)
        made._hub, made._transaction, made._number, made._tx = hub, transaction, number, tx
        return made

    @property
    def id(self) -> str:
        """The id as plain text."""
        return str.__str__(self)

    def sync(self, timeout: float | None = None) -> bool:
        """Wait until the event is on disk; return whether it is new. Raises what rejected it.

        Raises UnavailableError after `timeout` seconds: it may still be stored.
        """
        if self._tx is not None and self._tx.is_open:
            around = self._tx.name or "the transaction"
            message = f"{self.id} lands with the commit of {around} around this code, which has not ended"
            raise UsageError(f"{message}; wait for it after that", event=self.id)
        self._hub.wait(timeout)
        transaction = self._transaction
        if not transaction.is_decided:
            if self._tx is not None and self._tx.status in SETTLED:
                raise self._refused()
            raise UnavailableError(f"{self.id} is not on disk yet; it is still tried", event=self.id)
        if transaction.error is None and not transaction.is_committed:
            raise self._refused()
        self._hub.settled(transaction)
        if self._number not in transaction.results:
            # The savepoint in which it was published was rolled back.
            raise self._refused()
        is_new: bool = transaction.results[self._number]
        return is_new

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """A copy, or the value in another process, is the id: waiting is for this process."""
        return str, (self.id,)

    def _refused(self) -> EventRefusedError:
        message = f"{self.id} was not published: the transaction that it was part of was rolled back"
        return EventRefusedError(message, event=self.id)

    def __await__(self) -> Generator[Any, Any, bool]:
        """As `sync`, without blocking the event loop."""
        return self._hub.in_thread(self.sync).__await__()


class PublishedElsewhere(Published):
    """The id of an event for a topic of another space. It is sent by the transaction around `publish`."""

    _ticket: Ticket[object]

    @classmethod
    def sent(cls, message: str, ticket: Ticket[object]) -> PublishedElsewhere:
        """A published event that its own space handles."""
        made = cls(message)
        made._ticket = ticket
        return made

    def sync(self, timeout: float | None = None) -> bool:
        """Wait until the event is on disk in its own space; return whether it is new. Raises what rejected it.

        Raises UnavailableError after `timeout` seconds: it may still be stored.
        """
        try:
            return bool(self._ticket.result(None if timeout is None else f"{timeout:f}s"))
        except EventTimeoutError as late:
            raise UnavailableError(f"{self.id} is not on disk yet; it is still tried", event=self.id) from late

    def __await__(self) -> Generator[Any, Any, bool]:
        """As `sync`, without blocking the event loop."""
        return bool((yield from self._ticket.__await__()))
