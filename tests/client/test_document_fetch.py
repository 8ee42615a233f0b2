"""Requests for documents: which are one question, and which answers count after documents were released."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from headwater.client.document_fetch import DocumentFetch
from headwater.client.server_link import ServerLink
from headwater.errors import HeadwaterError, LimitError
from headwater.sync.client_listener import Brought
from headwater.sync.client_session import Answer, Item
from headwater.sync.frames import Docs, FoundDoc, Watch
from headwater.values.address import doc_key
from headwater.values.ids import MAIN, DocKey, Seq

DOC, OTHER = DocKey("space/note"), DocKey("space/other")
FIRST, SECOND, THIRD = (doc_key(f"item:{number}") for number in range(3))


class Link:
    """A connection whose answers the test gives."""

    def __init__(self) -> None:
        self.session = self
        self.lost_at: float | None = None
        self.asked: list[tuple[tuple[DocKey, ...], Callable[[Answer | HeadwaterError], None]]] = []
        self.unwatched: list[DocKey] = []
        self.is_busy = False

    def soon(self, work: Callable[[], None]) -> None:
        if not self.is_busy:
            work()

    def ask(self, question: Watch, done: Callable[[Answer | HeadwaterError], None]) -> None:
        self.asked.append((tuple(doc for doc, _ in question.docs), done))

    def unwatch(self, docs: tuple[DocKey, ...]) -> None:
        self.unwatched += docs

    def answer(self, number: int, value: int, seq: int) -> None:
        docs, done = self.asked[number]
        done(Docs(number, Seq(seq), tuple(FoundDoc(doc, Seq(seq), (value,)) for doc in docs)))


class Fetching:
    """A fetch over such a connection, and what it has delivered."""

    def __init__(self) -> None:
        self.link = Link()
        self.come: list[tuple[DocKey, object]] = []
        self.fetch = DocumentFetch(cast("Any", self.link), MAIN, self._take)

    def _take(self, items: list[Item]) -> None:
        self.come += [(each.doc, each.found.value) for each in items if isinstance(each, Brought)]


def test_document_that_was_released_and_requested_again_is_that_of_the_newer_answer() -> None:
    """The server did not watch it between the two: a change of that time is only in the newer one."""
    here = Fetching()
    here.fetch.want(DOC)
    here.fetch.release(DOC)
    here.fetch.want(DOC)
    assert here.link.unwatched == [DOC]
    here.link.answer(0, 1, 18)
    assert here.come == []
    here.link.answer(1, 2, 19)
    assert here.come == [(DOC, 2)]


def test_document_that_was_released_is_not_delivered_and_the_others_of_its_answer_are() -> None:
    here = Fetching()
    here.link.is_busy = True
    here.fetch.want(DOC)
    here.fetch.want(OTHER)
    here.link.is_busy = False
    here.fetch._flush()
    here.fetch.release(DOC)
    here.link.answer(0, 1, 18)
    assert here.come == [(OTHER, 1)]


def test_documents_that_were_too_many_for_one_answer_are_all_delivered() -> None:
    here = Fetching()
    ended: list[HeadwaterError | None] = []
    here.fetch.bring((DOC, OTHER), ended.append)
    here.link.asked[0][1](LimitError("too large"))
    here.link.answer(1, 1, 18)
    here.link.answer(2, 2, 18)
    assert here.come == [(DOC, 1), (OTHER, 2)]
    assert ended == [None]


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
