"""The documents of an answer, collected within its limits. Each is encoded once, for its size and for the frame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, cast

import msgspec

from headwater.errors import ServerLimitError
from headwater.server.server_limits import SLICE_DOCS
from headwater.store.collection_record import kind_of, record_doc
from headwater.store.engine import Engine
from headwater.store.state_cache import DocState
from headwater.sync.frame_limits import FRAME_BYTES_MAX, PREFETCH_BYTES_MAX
from headwater.sync.frames import FoundDoc
from headwater.values.codec import encode
from headwater.values.ids import BranchId, DocKey, Seq
from headwater.values.tree import ABSENT, Maybe, Value

_HEAD_BYTES: Final = 4096
"""Bytes of a frame besides documents."""

_ENTRY_BYTES: Final = 32
"""Bytes of a document in a frame besides its key and value."""


class Gathering:
    """Collects documents for an answer, within its size limit."""

    def __init__(self, engine: Engine, branch: BranchId, at: int | None, room: int, pause: Callable[[], None]) -> None:
        """`at`: as of there, with the newer state of each besides. `room`: as in `watch`."""
        self._engine = engine
        self._pause = pause
        self._read = 0
        self._branch = branch
        self._at = at
        self.found: dict[DocKey, FoundDoc] = {}
        self.newer: list[FoundDoc] = []
        self.left_bytes = PREFETCH_BYTES_MAX
        self._most_bytes = FRAME_BYTES_MAX - _HEAD_BYTES
        # For documents that the client has not named.
        self.room = room or FRAME_BYTES_MAX
        # Unchanged documents: watched, but not sent.
        self.same: list[DocKey] = []

    def add(self, doc: DocKey, have: int = -1) -> Maybe:
        """Add a document that the client has named."""
        state = self._state(doc)
        if state.seq == have:
            self.same.append(doc)
        else:
            self._take(*_found(doc, state.seq, state.value))
        return state.value

    def add_hidden(self, doc: DocKey) -> None:
        """Add a document that the client may not see: it does not exist, as of the rules that hide it."""
        rules = self._engine.states.get(self._branch, record_doc(kind_of(doc)))
        self._take(*_found(doc, rules.seq, ABSENT))

    def add_if_room(self, doc: DocKey, size: int = 0) -> DocState | None:
        """Add a document of about this size. None if there is no room for it; a large one is not even loaded."""
        if size > self.room:
            return None
        state = self._state(doc)
        found, size = _found(doc, state.seq, state.value)
        if size > self.room:
            return None
        self.room -= size
        self._take(found, size)
        return state

    def add_all_with_room(self, docs: Sequence[DocKey], most: int) -> None:
        """Add documents that are read together, as far as there is room; at most so many in all."""
        for start in range(0, len(docs), SLICE_DOCS):
            if start:
                self._pause()
            page = docs[start : start + SLICE_DOCS]
            stored = self._engine.states.many(self._branch, page, self._engine.head)
            for doc in page:
                state = stored.get(doc) or self._engine.documents.at(self._branch, doc, self._engine.head)
                found, size = _found(doc, state.seq, state.value)
                if len(self.found) >= most or self.left_bytes < size:
                    return
                if state.value is not ABSENT and size <= self.room:
                    self.room -= size
                    self._take(found, size)

    def _state(self, doc: DocKey) -> DocState:
        self._read += 1
        if not self._read % SLICE_DOCS:
            self._pause()
        return self._engine.states.get(self._branch, doc)

    def _take(self, now: FoundDoc, size: int) -> None:
        at, doc = self._at, now.doc
        if at is not None and now.seq > at >= self._engine.documents.horizon.seq:
            then = self._engine.documents.at(self._branch, doc, Seq(at))
            self.newer.append(now)
            self._spend(size)
            now, size = _found(doc, then.seq, then.value)
        self.found[doc] = now
        self._spend(size)

    def _spend(self, size: int) -> None:
        """Count a document. Requested documents may exceed the limit for linked ones, up to a frame."""
        self.left_bytes -= size
        self._most_bytes -= size
        if self._most_bytes < 0:
            message = f"the answer has more than {FRAME_BYTES_MAX:,} bytes; ask for fewer documents at once"
            raise ServerLimitError(message)


def _found(doc: DocKey, seq: Seq, value: Maybe) -> tuple[FoundDoc, int]:
    """A document as it is sent, and its size in a frame."""
    if value is ABSENT:
        return FoundDoc(doc, seq), len(doc) + _ENTRY_BYTES
    body = encode(value)
    # Encoded already: the frame takes the bytes as they are.
    return FoundDoc(doc, seq, (cast("Value", msgspec.Raw(body)),)), len(doc) + _ENTRY_BYTES + len(body)
