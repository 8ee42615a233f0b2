"""Documents that are asked for and not waited for: together, a few questions at a time, until all of them are here.

Must never know: who has read them, and what is in them.
"""

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
"""Documents of one question: the first are here while the server looks for the next."""

QUESTIONS_MAX: Final = 4
"""Questions that are not answered yet. The server takes many more; but others of this session come between these."""

NOTHING: Final = 2**62
"""No place of the log: the document is sent, whatever it is."""


class DocumentFetch:
    """What one connection is asked for in passing. Delivered like what others do to it, and in its order."""

    def __init__(self, link: ServerLink, branch: BranchId, deliver: Callable[[list[Item]], None]) -> None:
        self._link = link
        self._branch = branch
        self._deliver = deliver
        # Appended to by whoever reads; taken from by the connection's thread.
        self._wanted: dict[DocKey, None] = {}
        # Asked for, and neither come nor let go of since.
        self._flying: set[DocKey] = set()
        self._woken = False
        self._open = 0

    def want(self, doc: DocKey) -> None:
        """Have it brought."""
        self._wanted[doc] = None
        if not self._woken:
            self._woken = True
            self._link.soon(self._flush)

    def drop(self, doc: DocKey) -> None:
        """Nobody wants it any more."""
        self._wanted.pop(doc, None)
        self._flying.discard(doc)

    def bring(self, docs: Collection[DocKey], done: Done) -> float:
        """Have these brought, with what they lead to. `done` is called by the connection's thread, after they came.

        Returns for how many seconds to be patient.
        """
        self._link.soon(lambda: self._ask(tuple(docs), PREFETCH_MAX, done))
        lost_at = self._link.lost_at
        # Who has been away for long is not waited for as long again.
        return PATIENCE_S if lost_at is None else max(lost_at + PATIENCE_S - machine().monotonic(), 0.0)

    # -- the connection's thread ---------------------------------------------------------------------------

    def _flush(self) -> None:
        # Said before looking: who wants more after the last look wakes again.
        self._woken = False
        while self._wanted and self._open < QUESTIONS_MAX:
            docs = tuple(islice(tuple(self._wanted), DOCS_MAX))
            for doc in docs:
                self._wanted.pop(doc, None)
            self._flying.update(docs)
            self._open += 1
            self._ask(docs, 0, self._next)

    def _next(self, _error: HeadwaterError | None) -> None:
        """Who has read something is not told why it does not come: who waits for it asks again, and is."""
        self._open -= 1
        self._flush()

    def _ask(self, docs: tuple[DocKey, ...], follow: int, done: Done) -> None:
        question = Watch(0, tuple((doc, NOTHING) for doc in docs), follow=follow)
        self._link.session.ask(question, lambda found: self._answered(docs, follow, done, found))

    def _answered(self, docs: tuple[DocKey, ...], follow: int, done: Done, found: Answer | HeadwaterError) -> None:
        if isinstance(found, LimitError | ServerLimitError) and (len(docs) > 1 or follow):
            # More than one answer can hold: what links lead to is fetched when it is read, the others in two parts.
            half = max(len(docs) // 2, 1)
            parts = [part for part in (docs[:half], docs[half:]) if part]
            both = _all_of(len(parts), done)
            for part in parts:
                self._ask(part, 0, both)
        elif isinstance(found, HeadwaterError):
            done(found)
        else:
            assert isinstance(found, Docs)
            # What nobody has looked at is taken in all the same: it was asked for, or came along. But nobody tells what
            # happens to a document that was let go of meanwhile.
            gone = set() if follow else set(docs) - self._flying
            self._flying.difference_update(docs)
            come = [
                Brought(each.doc, StoredDocument(each.content, each.seq)) for each in found.docs if each.doc not in gone
            ]
            self._deliver([*come, up_to(found.seq, self._branch)])
            done(None)


def _all_of(count: int, done: Done) -> Done:
    """Called so often; the last calls on, with the first error."""
    errors: list[HeadwaterError | None] = []

    def one(error: HeadwaterError | None) -> None:
        errors.append(error)
        if len(errors) == count:
            done(next((each for each in errors if each is not None), None))

    return one


def is_in_loop() -> bool:
    """Whether this code must not be held up."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
