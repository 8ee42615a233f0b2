"""Stores the result of a request, or its failure, in a transaction of its own; decides on retries."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from headwater.cells.context import CONTEXT
from headwater.cells.context_frame import ContextFrame
from headwater.cells.transaction import Transaction
from headwater.declare.resources.resource_instance import (
    ResourceInstance,
    ResourceRequest,
    failed_record,
    ready_record,
    write_record,
)
from headwater.errors import HeadwaterError
from headwater.runtime.resources.fetching_port import FetchingPort
from headwater.values.author_text import message_of
from headwater.values.hints import freeze_with
from headwater.values.tree import ABSENT, Value

DISK_MS: Final = 1000.0
"""Wait after a disk failure: a full disk stays full for a while."""

TEXT_MAX: Final = 2000
"""Characters of an error that are stored: enough to recognize it, without the page of a server."""


class Results:
    """Stores the results of one open space. `note` marks an instance for the next check."""

    def __init__(self, space: FetchingPort, note: Callable[[ResourceInstance], None]) -> None:
        self._space = space
        self._note = note

    def take(self, request: ResourceRequest) -> None:
        """Store the result of a request whose resource is still needed."""
        source = request.source
        if not request.has_left:
            # The disk failed.
            self._try_later(source, DISK_MS)
        elif request.error is not None:
            self._failed(source, request.error, request.ended_ms)
        elif request.value is not ABSENT:
            self._came(source, request.value, request.ended_ms)
        # Otherwise cancelled from outside: as if it had not been requested.

    def _came(self, source: ResourceInstance, value: object, at_ms: float) -> None:
        try:
            self._write(source, lambda: ready_record(_stored(source, value), at_ms))
        except Exception as error:  # noqa: BLE001  # what an author's function returns is the author's
            self._give_up(source, error, at_ms)
            return
        source.failures = 0
        source.is_called = source.is_unreadable = False

    def _failed(self, source: ResourceInstance, error: BaseException, at_ms: float) -> None:
        source.failures += 1
        if source.request_options.is_retried(error, source.failures):
            self._try_later(source, source.request_options.retry.delay_ms(source.failures, self._space.jitter()))
        else:
            self._give_up(source, error, at_ms)

    def _try_later(self, source: ResourceInstance, ms: float) -> None:
        source.retry_at = self._space.timers.now() + ms

    def _give_up(self, source: ResourceInstance, error: BaseException, at_ms: float) -> None:
        """Store the failure after the last retry."""
        tries, source.failures = max(source.failures, 1), 0
        source.is_called = source.is_newly_observed = False
        kind, text = type(error).__name__, _text_of(error)
        before = ABSENT if source.is_unreadable else self._space.replica.read(source.doc)
        source.is_unreadable = False
        with suppress(HeadwaterError):
            self._write(source, lambda: failed_record(before, kind, text, tries, at_ms))

    def _write(self, source: ResourceInstance, record: Callable[[], Value]) -> None:
        tx = self._space.begin(f"the answer of {source.label}")
        token = CONTEXT.set(ContextFrame(self._space, tx, None))
        try:
            write_record(tx, source.doc, self._space.replica.read(source.doc), record())
            tx.callbacks += (lambda tx: self._decided(source, tx),)
            tx.commit()
        except BaseException:
            if tx.is_open:
                tx.abort()
            raise
        finally:
            CONTEXT.reset(token)

    def _decided(self, source: ResourceInstance, tx: Transaction) -> None:
        if tx.is_rejected:
            # The store failed: the result is lost.
            self._try_later(source, DISK_MS)
            self._note(source)


def _stored(source: ResourceInstance, value: object) -> Value:
    # In the form that readers get.
    return freeze_with(source.value._schema, value, "its answer")  # noqa: SLF001  # the type of a cell is private


def _text_of(error: BaseException) -> str:
    return message_of(error)[:TEXT_MAX]
