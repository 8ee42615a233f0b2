"""From the URL of a space to its inspector: the process that has it open, its file, or a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from headwater.client.server_url import is_server, parse_server
from headwater.errors import ClosedError, SpaceHeldError
from headwater.host import space_files
from headwater.host.space_lookup import open_space
from headwater.inspect.closed_file import ClosedFile
from headwater.inspect.document_records import SetValue
from headwater.inspect.envelope import TraceLine
from headwater.inspect.inspector import ClosingInspector, Inspector
from headwater.inspect.names import InspectScope
from headwater.inspect.request import Command, Question
from headwater.inspect.socket_client import SocketInspector
from headwater.machine import machine

A = TypeVar("A")
T = TypeVar("T")

_SOCKET_S: Final = 1.0
"""Seconds to wait for the socket of a space that was just opened."""

_PAUSE_S: Final = 0.02

_TRIES: Final = 3
"""Attempts, if the space is closed meanwhile."""


def inspector_for(
    url: str | None,
    space: str | None = None,
    *,
    app: str | None = None,
    branch: str = "main",
    token: str | None = None,
    brief: bool = False,
) -> Inspector:
    """The inspector of a space. Nothing is opened before the first question. Raises UsageError.

    `brief`: for a page that asks again and again. A closed file is held for a moment only, and a program that opens it
    meanwhile waits for that; at a server, programs answer about their functions.
    """
    url = url if url is not None else space_files.default_url()
    scope = InspectScope(space=space or "", app=app or "", branch=branch)
    if is_server(url):
        place = parse_server(url, space)
        space_files.locate("memory:", place.space)  # refuses what is no name
        from headwater.inspect.server_inspector import ServerInspector  # noqa: PLC0415  # with sockets and sessions

        return ServerInspector(place, token, InspectScope(app=scope.app, branch=branch), live=brief)
    return LocalInspector(url, space, scope, brief=brief)


def socket_place(location: space_files.Location) -> str | None:
    """Where the socket of a program that has a space open is found; None: the space is in memory."""
    return location.key if location.path is None else str(location.path.resolve())


def reach(
    url: str | None, space: str | None, otherwise: Callable[[], T], scope: InspectScope | None = None
) -> SocketInspector | T:
    """The process that has a file open. Without one, the result of `otherwise`, which opens the file."""
    url = url if url is not None else space_files.default_url()
    file = socket_place(space_files.locate(url, space))
    end = machine().monotonic() + _SOCKET_S
    while True:
        if file is not None and (found := SocketInspector.connect(file, scope)) is not None:
            return found
        try:
            return otherwise()
        except SpaceHeldError as error:
            if machine().monotonic() >= end:
                why = "It cannot be asked either: it has no app open, or no socket beside the file"
                raise SpaceHeldError(f"{error.message}. {why}", **error.facts) from None
        machine().sleep(_PAUSE_S)


class LocalInspector(ClosingInspector):
    """The inspector of a file: it asks the process that has the file open, or opens the file."""

    def __init__(self, url: str, space: str | None, scope: InspectScope, *, brief: bool = False) -> None:
        self._brief = brief
        self._url = url
        self._space = space
        self._scope = scope
        self._found: SocketInspector | ClosedFile | None = None
        self._only_reads = False

    @property
    def is_live(self) -> bool:  # type: ignore[override]  # known when it is reached
        """A process has the space open."""
        return self._reached().is_live

    @property
    def holds_file(self) -> bool:  # type: ignore[override]  # known when it is reached
        """No process has it open: this one has opened it."""
        return isinstance(self._found, ClosedFile)

    def ask(self, question: Question[A]) -> A:
        """The answer. Asks again if the space is closed or opened meanwhile."""
        return self._try(lambda found: found.ask(question), reads=True)

    def do(self, command: Command[A]) -> A:
        """The report. A command that may have been carried out is not repeated."""
        create = isinstance(command, SetValue) and command.make_space and not command.deletes
        return self._try(lambda found: found.do(command), create=create)

    def changes(self, question: Callable[[A | None], Question[A]]) -> Iterator[A | None]:
        """Until the space is closed."""
        return self._reached().changes(question)

    def follow(self, kind: str = "") -> Iterator[TraceLine]:
        """Until the space is closed."""
        return self._reached().follow(kind)

    def close(self) -> None:
        """End the connection, or release the file."""
        found, self._found, self._only_reads = self._found, None, False
        if found is not None:
            found.close()

    def _try(
        self, work: Callable[[SocketInspector | ClosedFile], T], *, create: bool = False, reads: bool = False
    ) -> T:
        for _ in range(_TRIES):
            found = self._reached(create=create, reads=reads)
            try:
                return work(found)
            except (ConnectionError, ClosedError):
                # It was closed meanwhile: its last state is in the file.
                self.close()
        raise ConnectionResetError("it is opened and closed all the time; ask again")

    def _reached(self, *, create: bool = False, reads: bool = True) -> SocketInspector | ClosedFile:
        if self._only_reads and not reads:
            # A space of a database that was opened for questions.
            self.close()
        if self._found is None:

            def stored() -> ClosedFile:
                reader = space_files.open_for_questions(self._url, self._space) if reads else None
                self._only_reads = reader is not None
                path = space_files.locate(self._url, self._space).path if self._brief else None
                if path is not None and machine().files.is_file(path):
                    reader = space_files.open_for_reading(path, self.close)
                return ClosedFile(reader or open_space(self._url, self._space, create=create), self._scope)

            self._found = reach(self._url, self._space, stored, self._scope)
        return self._found
