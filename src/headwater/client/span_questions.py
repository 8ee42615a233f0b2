"""The questions of one connection about spans of indexes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headwater.client.document_fetch import Done
from headwater.client.server_link import ServerLink
from headwater.errors import HeadwaterError
from headwater.sync.client_listener import span_name
from headwater.sync.client_session import Answer
from headwater.sync.frames import SpanKeys, WatchSpan
from headwater.values.ids import DocKey


class SpanQuestions:
    """Asks for parts of indexes: code in a loop does not wait for the answers."""

    def __init__(self, link: ServerLink) -> None:
        self._link = link
        # Callers that wait until an answer has been delivered, by the name that stands for it.
        self._waiting: dict[DocKey, list[Done]] = {}

    def check(self) -> None:
        """Raise QueryError if the server answers none."""
        session = self._link.session
        if session.was_greeted and not session.spans.are_answered:
            raise session.spans.refusal()

    def check_not_over(self) -> None:
        """Raise the error that has ended the session, if it has ended."""
        self._link.check_not_over()

    def ask(self, asked: WatchSpan) -> SpanKeys:
        """Ask, and wait for the answer."""
        answer = self._link.ask(asked)
        assert isinstance(answer, SpanKeys)
        return answer

    def ask_all(self, asked: Sequence[WatchSpan]) -> list[SpanKeys | HeadwaterError]:
        """Ask several questions at once, and wait for the answers. Raises OfflineError."""
        return [each if isinstance(each, HeadwaterError) else _keys(each) for each in self._link.ask_many(asked)]

    def want(self, asked: WatchSpan) -> None:
        """Ask without waiting. The answer is delivered with other changes, before those are called that wait for it."""
        name = span_name(asked)
        self._waiting.setdefault(name, [])
        self._link.ask_soon(asked, lambda found: self._come(name, found))

    def release(self, numbers: Sequence[int]) -> None:
        """Spans are not read any more."""
        self._link.soon(lambda: self._link.session.unspan(numbers))

    def when_come(self, names: Iterable[DocKey], done: Done) -> None:
        """Call when these answers have been delivered; in the thread of the connection."""
        self._link.soon(lambda: self._expect(list(names), done))

    def _expect(self, names: list[DocKey], done: Done) -> None:
        waiting = [self._waiting[name] for name in names if name in self._waiting]
        if not waiting:
            done(None)
            return
        left = len(waiting)

        def one(error: HeadwaterError | None) -> None:
            nonlocal left
            left -= 1
            if not left:
                done(error)

        for callers in waiting:
            callers.append(one)

    def _come(self, name: DocKey, found: Answer | HeadwaterError) -> None:
        error = found if isinstance(found, HeadwaterError) else None
        for done in self._waiting.pop(name, ()):
            done(error)


def _keys(answer: Answer) -> SpanKeys:
    assert isinstance(answer, SpanKeys)
    return answer
