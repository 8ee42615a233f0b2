"""Answers in pages: a process or a file is busy for one page at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec

from headwater.inspect.document_records import ChangeView, DocumentsPage, GetHistory, HistoryPage, ListDocuments
from headwater.inspect.inspector import Inspector
from headwater.inspect.request import Question

A = TypeVar("A")


def document_pages(inspector: Inspector, question: ListDocuments) -> Iterator[DocumentsPage]:
    """All documents of a question."""
    while True:
        page = inspector.ask(question)
        yield page
        if not page.next:
            return
        question = msgspec.structs.replace(question, after=page.next)


def changes(inspector: Inspector, question: GetHistory, limit: int | None = None) -> Iterator[ChangeView]:
    """At most `limit` of the newest changes."""
    page = HistoryPage(changes=(), next=question.before)
    left = limit
    while left is None or left > 0:
        size = question.limit if left is None else min(question.limit, left)
        page = inspector.ask(msgspec.structs.replace(question, before=page.next, limit=size))
        yield from page.changes
        left = None if left is None else left - len(page.changes)
        if not page.next:
            return


def newest(inspector: Inspector, question: Question[A], limit: int, ids_of: Callable[[A], list[int]]) -> Iterator[A]:
    """Pages of at most `limit` of the newest runs or inputs. `ids_of`: their numbers in a page."""
    while limit > 0:
        page = inspector.ask(msgspec.structs.replace(question, limit=limit))
        ids = ids_of(page)
        if not ids:
            return
        yield page
        question = msgspec.structs.replace(question, before=ids[-1])
        limit -= len(ids)
