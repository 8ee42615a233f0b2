"""Fetching documents without waiting: in batches, a few requests at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from itertools import islice
from typing import Final, TypeAlias

from headwater.client.server_link import PATIENCE_S, ServerLink
from headwater.errors import HeadwaterError, LimitError, ServerLimitError
from headwater.machine import machine
from headwater.store.document import StoredDocument
from headwater.sync.client_listener import Brought, up_to
from headwater.sync.client_session import Answer, Item
from headwater.sync.frame_limits import PREFETCH_MAX
from headwater.sync.frames import Docs, Watch
from headwater.values.ids import BranchId, DocKey

Done: TypeAlias = Callable[[HeadwaterError | None], None]

DOCS_MAX: Final = 5_000
"""Documents per request: the first arrive while the server reads the next."""

QUESTIONS_MAX: Final = 4
"""Requests in flight. The server accepts many more; a few leave room for other requests of the session."""

NOTHING: Final = 2**62
"""Before every sequence number: the document is always sent."""


class DocumentFetch:
    """The fetches of one connection. Results are delivered in order with other changes."""

    def __init__(self, link: ServerLink, branch: BranchId, deliver: Callable[[list[Item]], None]) -> None:
        self._link = link
        self._branch = branch
        self._deliver = deliver
        # Appended by readers, consumed by the connection's thread.
        self._wanted: dict[DocKey, None] = {}
        # Requested, and neither arrived nor dropped since: by the request that counts, the newest one.
        self._flying: dict[DocKey, int] = {}
        self._requests = 0
        self._woken = False
        self._open = 0
        # Wanted inside a group that is not complete yet, and how many groups are nested. Only the loop's thread adds.
        self._grouped: dict[DocKey, None] = {}
        self._groups = 0

    def want(self, doc: DocKey) -> None:
        """Request a document."""
        if self._groups:
            self._grouped[doc] = None
        else:
            self._request({doc: None})

    def __enter__(self) -> None:
        """Begin a group: its documents are requested together, so that they also arrive together."""
        self._groups += 1

    def __exit__(self, *_: object) -> None:
        self._groups -= 1
        if self._grouped and not self._groups:
            grouped, self._grouped = self._grouped, {}
            self._request(grouped)

    def _request(self, docs: dict[DocKey, None]) -> None:
        self._wanted.update(docs)
        if not self._woken:
            self._woken = True
            self._link.soon(self._flush)

    def release(self, *docs: DocKey) -> None:
        """Cancel the requests for documents, and end their watches, unless they are requested again before."""
        for doc in docs:
            self._grouped.pop(doc, None)
            self._wanted.pop(doc, None)
            self._flying.pop(doc, None)
        self._link.soon(lambda: self._end_watch(docs))

    def bring(self, docs: Collection[DocKey], done: Done, follow: int = PREFETCH_MAX) -> float:
        """Fetch documents, and at most `follow` that they link to.

        The connection's thread calls `done` after they have arrived. Returns how many seconds to wait.
        """
        self._link.soon(lambda: self._ask(tuple(docs), min(follow, PREFETCH_MAX), done))
        lost_at = self._link.lost_at
        # A server that has been away for long gets less time.
        return PATIENCE_S if lost_at is None else max(lost_at + PATIENCE_S - machine().monotonic(), 0.0)

    # -- the connection's thread ---------------------------------------------------------------------------

    def _end_watch(self, docs: Collection[DocKey]) -> None:
        gone = tuple(doc for doc in docs if doc not in self._wanted and doc not in self._flying)
        if gone:
            self._link.session.unwatch(gone)

    def _flush(self) -> None:
        # Reset before reading the queue: a later append wakes the thread again.
        self._woken = False
        while self._wanted and self._open < QUESTIONS_MAX:
            docs = tuple(islice(tuple(self._wanted), DOCS_MAX))
            for doc in docs:
                self._wanted.pop(doc, None)
            self._requests += 1
            self._flying.update(dict.fromkeys(docs, self._requests))
            self._open += 1
            self._ask(docs, 0, self._next, self._requests)

    def _next(self, _error: HeadwaterError | None) -> None:
        """Send the next batch. Errors are dropped: a caller that waits asks again and gets the error."""
        self._open -= 1
        self._flush()

    def _ask(self, docs: tuple[DocKey, ...], follow: int, done: Done, request: int | None = None) -> None:
        question = Watch(0, tuple((doc, NOTHING) for doc in docs), follow=follow)
        self._link.session.ask(question, lambda found: self._answered(docs, follow, done, request, found))

    def _answered(
        self, docs: tuple[DocKey, ...], follow: int, done: Done, request: int | None, found: Answer | HeadwaterError
    ) -> None:
        if isinstance(found, LimitError | ServerLimitError) and (len(docs) > 1 or follow):
            # Too large for one answer: linked documents are fetched when read, the others in two halves.
            half = max(len(docs) // 2, 1)
            parts = [part for part in (docs[:half], docs[half:]) if part]
            both = _all_of(len(parts), done)
            for part in parts:
                self._ask(part, 0, both, request)
        elif isinstance(found, HeadwaterError):
            done(found)
        else:
            assert isinstance(found, Docs)
            # Documents that were not read yet are stored, too: they were requested, or linked. Not those dropped
            # meanwhile: the server sends no further changes of them. If they were requested again, the next answer
            # counts: there may have been changes that the server did not send.
            gone = set() if request is None else {doc for doc in docs if self._flying.get(doc) != request}
            if request is not None:
                for doc in set(docs) - gone:
                    del self._flying[doc]
            come = [
                Brought(each.doc, StoredDocument(each.content, each.seq)) for each in found.docs if each.doc not in gone
            ]
            self._deliver([*come, up_to(found.seq, self._branch)])
            done(None)


def _all_of(count: int, done: Done) -> Done:
    """A callback that forwards after `count` calls, with the first error."""
    errors: list[HeadwaterError | None] = []

    def one(error: HeadwaterError | None) -> None:
        errors.append(error)
        if len(errors) == count:
            done(next((each for each in errors if each is not None), None))

    return one


def is_in_loop() -> bool:
    """Whether this code runs in an event loop, and must not block."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
