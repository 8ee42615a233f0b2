"""Reading ahead: which documents a program that walks a list reads next.

A list of documents is an array of links. When a program has to wait for one of them, the next ones are fetched with it.
A walk that goes on gets more with each request, up to a limit by number and by bytes.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from headwater.cells.linked_documents import linked
from headwater.values.ids import DocKey
from headwater.values.tree import CONTAINERS, Maybe

LINKS_MIN: Final = 8
"""Links from which on a document counts as a list. For a few links, a request each costs little."""

LINKS_MAX: Final = 250_000
"""Links of all lists that are remembered: some 25 MB."""

FIRST: Final = 16
"""Documents of the first request in a list: it may be the only one."""

GROWTH: Final = 4
"""How much larger each further request of the same walk is."""

MOST: Final = 1_024
"""Documents of one request: the server works about 20 ms for them, and other clients of the space wait as long."""

MOST_BYTES: Final = 1024 * 1024
"""Bytes of one answer, as far as the last one allows an estimate."""


@dataclass(slots=True, eq=False)
class _LinkList:
    """The links of one document in order, and how far a walk has come."""

    docs: list[DocKey]
    # Where the last request ended, and how many documents it had.
    position: int = 0
    count: int = 0
    # The most documents for which an answer is not too large.
    most: int = MOST


class ReadAhead:
    """The lists of one opening. Used under the lock of its replica."""

    def __init__(self) -> None:
        # By the document that holds it; used lists last.
        self._lists: OrderedDict[DocKey, _LinkList] = OrderedDict()
        self._links = 0
        self._last: _LinkList | None = None

    def note(self, doc: DocKey, value: Maybe) -> None:
        """A document has arrived: remember its links, if it is a list."""
        if type(value) not in CONTAINERS:
            return
        # In the order of the list: `linked` starts at the end.
        docs = list(linked(value))[::-1]
        if len(docs) < LINKS_MIN:
            return
        known = self._lists.pop(doc, None)
        self._links += len(docs) - (0 if known is None else len(known.docs))
        self._lists[doc] = _LinkList(docs)
        while self._links > LINKS_MAX and len(self._lists) > 1:
            _, oldest = self._lists.popitem(last=False)
            self._links -= len(oldest.docs)

    def after(self, doc: DocKey) -> list[DocKey]:
        """The documents that are likely to be read after this one, nearest first."""
        self._last = None
        for holder in reversed(self._lists):
            each = self._lists[holder]
            position = _place(each, doc)
            if position is None:
                continue
            self._lists.move_to_end(holder)
            self._last = each
            goes_on = each.count > 0 and each.position <= position <= each.position + each.count
            each.count = min(each.count * GROWTH if goes_on else FIRST, each.most)
            each.position = position + each.count
            return each.docs[position + 1 : each.position]
        return []

    def answered(self, count: int, size: int) -> None:
        """The answer to the last request had so many documents, and about so many bytes."""
        if self._last is not None and count > 1:
            self._last.most = max(min(MOST_BYTES * count // max(size, 1), MOST), 1)


def _place(each: _LinkList, doc: DocKey) -> int | None:
    docs, position = each.docs, each.position
    if position < len(docs) and docs[position] == doc:
        return position
    try:
        return docs.index(doc)
    except ValueError:
        return None
