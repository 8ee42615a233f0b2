"""Requests and responses: one record as JSON in each direction.

The local socket and the page of a server use the same records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

import msgspec

from headwater import errors
from headwater.errors import HeadwaterError, UnavailableError
from headwater.inspect.names import InspectScope
from headwater.inspect.request import Command, Question, answer_type
from headwater.machine import machine

VERSION: Final = 4
"""The version of requests and responses. A request of another version is refused."""

WAIT_MS: Final = 300
"""Milliseconds that a question waits for the end of a pass. People hardly notice them."""

POLL_S: Final = 0.25
"""Seconds between two requests of a view that follows changes."""

REST: Final = 4
"""The pause before the next request, in durations of the last one: a slow program gets fewer requests."""

A = TypeVar("A")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A question, a command, or a request to follow the trace. Empty: a test of the connection."""

    v: int = VERSION
    scope: InspectScope = InspectScope()
    ask: Question[Any] | None = None
    do: Command[Any] | None = None
    follow: str | None = None
    """The kind of records; empty: all."""
    unless: str = ""
    """The mark of an earlier response. If nothing has changed since, the response has no answer."""
    wait_ms: int = WAIT_MS
    actor: str = ""
    """At a server: the user who owns the documents."""
    live: bool = False
    """At a server: a page that asks again and again. For owners, programs answer about their functions."""


class ErrorRecord(msgspec.Struct, frozen=True):
    """A class of `headwater.errors`, and its message."""

    kind: str
    message: str

    @classmethod
    def of(cls, error: HeadwaterError) -> ErrorRecord:
        """The record of an error."""
        return cls(type(error).__name__, error.message)

    @property
    def error(self) -> HeadwaterError:
        """The error that was raised."""
        kind = getattr(errors, self.kind, None)
        if not (isinstance(kind, type) and issubclass(kind, HeadwaterError)):
            kind = HeadwaterError
        return kind(self.message)


class Response(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer, or why there is none."""

    v: int
    pid: int = 0
    mark: str = ""
    """Differs if anything has changed."""
    answer: msgspec.Raw = msgspec.Raw()
    """Of the type that the request declares; empty: nothing has changed since `unless`."""
    failure: ErrorRecord | None = None
    refused: str = ""
    """Why the request is not understood."""

    def read(self, request: Question[A] | Command[A], whose: str) -> A:
        """The answer. Raises the error of the response. `whose`: the name of the process or server, for messages."""
        self.check(whose)
        try:
            found: A = msgspec.json.decode(self.answer, type=answer_type(type(request)))
        except msgspec.MsgspecError as error:
            raise UnavailableError(f"{whose} answers in a way that is not understood: {error}") from None
        return found

    def check(self, whose: str) -> None:
        """Raise the error of the response, if it has one."""
        if self.failure is not None:
            raise self.failure.error
        if self.refused:
            raise UnavailableError(f"{whose} does not answer: {self.refused}", pid=self.pid)


class TraceLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step of a trace that is followed."""

    app: str
    record: dict[str, object] | None = None
    missed: int = 0
    """Records that were left out because the reader was too slow."""


def answered(found: object, *, pid: int = 0, mark: str = "") -> Response:
    """A response with an answer."""
    return Response(v=VERSION, pid=pid, mark=mark, answer=msgspec.Raw(msgspec.json.encode(found)))


def polled(
    send: Callable[[Request], Response],
    scope: InspectScope,
    question: Callable[[A | None], Question[A]],
    whose: str,
    least_s: float,
) -> Iterator[A | None]:
    """Ask repeatedly. Yields each new answer; None if nothing has changed.

    `question` gets the last answer. `whose`: as for `Response.read`. `least_s`: the shortest pause.
    """
    mark, last = "", None
    while True:
        begin = machine().monotonic()
        asked = question(last)
        response = send(Request(scope=scope, ask=asked, unless=mark))
        response.check(whose)
        news = response.read(asked, whose) if bytes(response.answer) else None
        took = machine().monotonic() - begin
        mark = response.mark
        last = last if news is None else news
        yield news
        machine().sleep(max(least_s, took * REST))
