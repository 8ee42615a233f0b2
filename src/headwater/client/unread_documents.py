"""Documents of a server's space that no function here reads: which are released first, and when.

A plain program that reads a document waits for it, so a document that was fetched by a read can be released soon: the
next read fetches it again. Documents that were loaded on purpose, or made here, stay until the server's limit for
watched documents is near.

A document that a run reads is not listed here any more. The scheduler knows its readers only after the run.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from headwater.sync.frame_limits import WATCHES_MAX
from headwater.values.ids import DocKey

WALKED_MAX: Final = 4_096
"""Documents that were fetched by reads of plain code: a few requests of a walk, and some MB."""

WALKED_STEP: Final = 1_024
"""How many of them are released at a time: one frame for all."""

HELD_MAX: Final = WATCHES_MAX * 9 // 10
"""Documents held in total, above which the oldest unread ones are released. The rest is for those that runs read."""

HELD_STEP: Final = WATCHES_MAX // 10
"""How many of them are released at a time."""


class UnreadDocuments:
    """The documents of one replica that may be released, oldest first. Used under its lock."""

    def __init__(self, *, keeps_walked: bool = False) -> None:
        # With a local folder, everything that was read is kept for the time without a server.
        self._keeps_walked = keeps_walked
        self._walked: dict[DocKey, None] = {}
        self._loaded: dict[DocKey, None] = {}
        # How many documents have to be held before the next attempt, after one that released little.
        self._in_vain = 0

    def walked(self, docs: Iterable[DocKey]) -> None:
        """These were fetched by a read of plain code, or with it."""
        (self._loaded if self._keeps_walked else self._walked).update(dict.fromkeys(docs))

    def loaded(self, docs: Iterable[DocKey]) -> None:
        """These were loaded on purpose, or made here."""
        self._loaded.update((doc, None) for doc in docs if doc not in self._walked)

    def is_read(self, doc: DocKey) -> None:
        """A run reads this one."""
        self._walked.pop(doc, None)
        self._loaded.pop(doc, None)

    def take(self, held: int) -> list[DocKey]:
        """Those to release now, of a replica that holds so many documents. They are not listed any more."""
        gone: list[DocKey] = []
        if len(self._walked) >= WALKED_MAX + WALKED_STEP:
            gone = list(islice(self._walked, WALKED_STEP))
        elif held > max(HELD_MAX, self._in_vain):
            gone = list(islice(self._loaded, max(HELD_STEP, held - HELD_MAX)))
        for doc in gone:
            self.is_read(doc)
        return gone

    def put_back(self, docs: list[DocKey], held: int) -> None:
        """These could not be released yet: commits on them are undecided. So many documents are held now."""
        self._loaded.update(dict.fromkeys(docs))
        self._in_vain = held + HELD_STEP // 4 if docs else 0
