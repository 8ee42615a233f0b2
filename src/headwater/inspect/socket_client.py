"""Inspection of a space that another process has open, through the local socket beside its file."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, TypeVar

import msgspec

from headwater.errors import ClosedError, EventTimeoutError, NotFoundError, UnavailableError
from headwater.host.socket_paths import socket_of
from headwater.inspect.envelope import POLL_S, WAIT_MS, Request, Response, TraceLine, polled
from headwater.inspect.inspector import ClosingInspector
from headwater.inspect.names import InspectScope
from headwater.inspect.request import Command, Question

A = TypeVar("A")

_CHUNK: Final = 256 * 1024
_SILENCE_S: Final = 20.0
"""Seconds without an answer. A process answers within a few seconds."""

_response: Final = msgspec.json.Decoder(Response)
_line: Final = msgspec.json.Decoder(TraceLine)


class SocketInspector(ClosingInspector):
    """Sends requests to the process that has a file open. Raises ConnectionError if the space is closed meanwhile."""

    is_live = True

    def __init__(
        self, connection: socket.socket, file: str, scope: InspectScope | None = None, wait_ms: int = WAIT_MS
    ) -> None:
        self._connection = connection
        self._file = file
        self._scope = scope or InspectScope()
        self._wait_ms = wait_ms
        self._received = bytearray()

    @classmethod
    def connect(cls, file: str, scope: InspectScope | None = None, wait_ms: int = WAIT_MS) -> SocketInspector | None:
        """None if no process has a socket for the file."""
        target = socket_of(file)
        if target is None:
            return None
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(_SILENCE_S)
            connection.connect(target)
        except OSError:
            connection.close()
            return None
        return cls(connection, file, scope, wait_ms)

    def ask(self, question: Question[A]) -> A:
        """The answer of the process. Raises ConnectionError, TimeoutError."""
        request = Request(scope=self._scope, ask=question, wait_ms=self._wait_ms)
        return self._request(request).read(question, self._whose())

    def do(self, command: Command[A]) -> A:
        """The report of the process. Raises EventTimeoutError or UnavailableError if the outcome is unknown."""
        request = Request(scope=self._scope, do=command)
        try:
            response = self._request(request, (getattr(command, "timeout_ms", None) or 0.0) / 1000)
        except TimeoutError:
            message = "the process that has the space open does not answer; whether it was done is not known"
            raise EventTimeoutError(f"{message}. {command.again}") from None
        except ConnectionError:
            message = "the space was closed before there was an answer; whether it was done is not known"
            raise UnavailableError(f"{message}. {command.again}") from None
        return response.read(command, self._whose())

    def changes(self, question: Callable[[A | None], Question[A]]) -> Iterator[A | None]:
        """Ends when the space is closed."""
        was_answered = False
        try:
            for news in polled(self._request, self._scope, question, self._whose(), POLL_S):
                was_answered = True
                yield news
        except (ConnectionError, ClosedError):
            return
        except NotFoundError:
            # The app was there before: it was closed.
            if not was_answered:
                raise

    def follow(self, kind: str = "") -> Iterator[TraceLine]:
        """New steps of all functions, until the space is closed."""
        self._request(Request(scope=self._scope, follow=kind)).check(self._whose())
        self._connection.settimeout(None)
        return self._lines()

    def _lines(self) -> Iterator[TraceLine]:
        while True:
            try:
                yield _line.decode(self._read_line())
            except ConnectionError:
                return

    def ping(self) -> int:
        """The id of the process that answers."""
        return self.exchange(msgspec.json.encode(Request())).pid

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def wait_for_pass(self) -> Iterator[None]:
        """Yields at once, and then after each pass, as soon as the caller is ready for the next. Until it is closed."""
        while True:
            try:
                self._request(Request(scope=self._scope, follow="pulse")).check(self._whose())
                yield
                self._connection.settimeout(None)
                self._read_line()
            except (ConnectionError, ClosedError):
                return

    def end(self) -> None:
        """End the connection while another thread waits for it."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def _whose(self) -> str:
        return f"the process that has {self._file} open"

    def _request(self, request: Request, wait_s: float = 0.0) -> Response:
        return self.exchange(msgspec.json.encode(request), wait_s)

    def exchange(self, data: bytes, wait_s: float = 0.0) -> Response:
        """The response to one request. Raises ConnectionError, TimeoutError."""
        self._connection.settimeout(_SILENCE_S + wait_s)
        self._connection.sendall(data + b"\n")
        try:
            return _response.decode(self._read_line())
        except msgspec.MsgspecError as error:
            message = f"{self._whose()} answers in a way that is not understood: {error}"
            raise UnavailableError(message, path=self._file) from None

    def _read_line(self) -> bytes:
        received, start = self._received, 0
        while (end := received.find(b"\n", start)) < 0:
            start = len(received)
            chunk = self._connection.recv(_CHUNK)
            if not chunk:
                raise ConnectionResetError("the socket was closed")
            received += chunk
        line = bytes(received[:end])
        del received[: end + 1]
        return line
