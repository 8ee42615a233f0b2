"""Requests for documents: those of a group are one question, however eager the connection's thread is."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from headwater.client.document_fetch import DocumentFetch
from headwater.client.server_link import ServerLink
from headwater.sync.frames import Watch
from headwater.values.address import doc_key
from headwater.values.ids import MAIN, DocKey

FIRST, SECOND, THIRD = (doc_key(f"item:{number}") for number in range(3))


class EagerLink:
    """A connection whose thread runs what it is given before the caller goes on."""

    def __init__(self) -> None:
        self.asked: list[tuple[DocKey, ...]] = []

    @property
    def session(self) -> EagerLink:
        return self

    def soon(self, callback: Callable[[], None]) -> None:
        callback()

    def ask(self, frame: Watch, _done: object) -> None:
        self.asked.append(tuple(doc for doc, _ in frame.docs))

    def unwatch(self, _docs: object) -> None: ...


def fetch_over(link: EagerLink) -> DocumentFetch:
    return DocumentFetch(cast("ServerLink", link), MAIN, lambda _: None)


def test_documents_of_a_group_are_one_request() -> None:
    link = EagerLink()
    fetch = fetch_over(link)
    with fetch:
        fetch.want(FIRST)
        with fetch:
            fetch.want(SECOND)
        fetch.want(THIRD)
        assert link.asked == []
    assert link.asked == [(FIRST, SECOND, THIRD)]


def test_a_group_that_ends_with_an_error_is_requested_nevertheless() -> None:
    link = EagerLink()
    fetch = fetch_over(link)
    try:
        with fetch:
            fetch.want(FIRST)
            raise LookupError
    except LookupError:
        pass
    assert link.asked == [(FIRST,)]


def test_a_document_that_is_released_inside_a_group_is_not_requested() -> None:
    link = EagerLink()
    fetch = fetch_over(link)
    with fetch:
        fetch.want(FIRST)
        fetch.want(SECOND)
        fetch.release(FIRST)
    with fetch:
        pass
    assert link.asked == [(SECOND,)]


def test_without_a_group_each_document_is_requested_at_once() -> None:
    link = EagerLink()
    fetch = fetch_over(link)
    fetch.want(FIRST)
    fetch.want(SECOND)
    assert link.asked == [(FIRST,), (SECOND,)]
