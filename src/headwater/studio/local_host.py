"""What a local Studio shows: a file, a folder, a space of a server, or a space that this process has open."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from headwater.client.server_url import is_server, parse_server
from headwater.errors import AccessError, ClosedError, HeadwaterError, NotFoundError, UnavailableError, UsageError
from headwater.host import space_files
from headwater.host.postgres.database_url import is_database, parse_database_url
from headwater.host.space_lookup import is_folder
from headwater.inspect.inspector import Inspector
from headwater.inspect.live_functions import since_1970
from headwater.inspect.live_inspector import LiveInspector
from headwater.inspect.names import InspectScope
from headwater.inspect.opening_inspection import OpeningInspection
from headwater.inspect.resolve import inspector_for, socket_place
from headwater.inspect.socket_client import SocketInspector
from headwater.inspect.space_records import GetPulse
from headwater.machine import machine
from headwater.store.backends.sqlite_peek import peek
from headwater.studio.deeds import Acted
from headwater.studio.host import Login

log: Final = logging.getLogger("headwater.studio")

NOBODY: Final = "no program has the space open, so nothing can be delivered; `headwater run MODULE:APP` runs one"

_OF_PROGRAM: Final = ("send", "resend")
"""Deeds that need a program: only it has the handlers."""


class LocalHost(ABC):
    """Common to local Studios: one user, who may do everything unless it is read-only."""

    title = ""
    place = "file"

    def __init__(self, *, read_only: bool = False) -> None:
        self.read_only = read_only
        self.questions: Mapping[str, Callable[[Login, Any], object]] = {}
        self.deeds: Mapping[str, Callable[[Login, Any], object]] = {}
        self.intents: Mapping[str, Callable[[Login, Any], object]] = {}

    def admit(self, token: str, peer: str) -> Login:
        """Raises AccessError: the printed link is the only way."""
        del token, peer
        raise AccessError("a local Studio has no tokens; open the link that it printed")

    def is_admitted(self, login: Login) -> bool:  # noqa: ARG002  # as `StudioHost` has it
        """As long as the session goes on."""
        return True

    @abstractmethod
    def spaces(self, login: Login) -> tuple[str, ...]:
        """As `StudioHost` has it."""

    @abstractmethod
    def inspector(self, login: Login, space: str, branch: str) -> Inspector:
        """Likewise."""

    @abstractmethod
    def follow(self, login: Login, space: str, record: Callable[[Mapping[str, Any]], None]) -> Callable[[], None]:
        """Likewise."""

    def pulses(self, login: Login, space: str, ring: Callable[[], float]) -> Callable[[], None] | None:  # noqa: ARG002
        """None, by default."""
        return None

    @abstractmethod
    def state(self, login: Login, space: str) -> str:
        """Likewise."""

    @abstractmethod
    def url(self, space: str) -> str:
        """Likewise."""

    @abstractmethod
    def cannot(self, login: Login, space: str) -> dict[str, str]:
        """Likewise."""

    def record(self, login: Login, deed: Acted, sentence: str, error: str) -> None:  # noqa: ARG002  # likewise
        """There is no audit log; a deed is a commit of its own session."""
        log.info("%s: %s", deed.__struct_config__.tag, sentence or error)


class FileHost(LocalHost):
    """A file, a folder of spaces, or a space of a server."""

    def __init__(
        self, url: str | None, space: str | None = None, *, token: str | None = None, read_only: bool = False
    ) -> None:
        super().__init__(read_only=read_only)
        self._url = url if url is not None else space_files.default_url()
        self._space = space
        self._token = token
        self._known: dict[Path, str] = {}
        self.is_remote = is_server(self._url)
        self.is_folder = not self.is_remote and is_folder(self._url)
        self.place = "server" if self.is_remote else "folder" if self.is_folder else "file"
        self._shown = parse_database_url(self._url).shown if is_database(self._url) else self._url
        self.title = self._shown
        if self._url == "memory:":
            raise UsageError("memory: belongs to one process; use `Studio(space)` there")
        if self.is_folder and not machine().files.is_dir(Path(self._url)):
            raise NotFoundError(f"there is no folder {self._url}", path=self._url)
        if self.is_remote:
            self._names: tuple[str, ...] = (parse_server(self._url, space).space,)
        elif not self.is_folder:
            self._names = (self._checked_name(),)

    def _checked_name(self) -> str:
        """The name of the space in the file. Raises HeadwaterError if it cannot be opened or asked."""
        with self.inspector(Login(), "", "main") as inspector:
            return inspector.ask(GetPulse()).space

    def _location(self, space: str) -> space_files.Location:
        named = space if self.is_folder else self._space
        return space_files.locate(self._url, named)

    def _connection(self, space: str) -> SocketInspector | None:
        """A new connection to the program that has the space open here; None if none has."""
        place = None if self.is_remote else socket_place(self._location(space))
        return None if place is None else SocketInspector.connect(place)

    def _connected(self, space: str) -> bool | None:
        """True if a program answers; None if none does."""
        found = self._connection(space)
        if found is None:
            return None
        found.close()
        return True

    def spaces(self, login: Login) -> tuple[str, ...]:  # noqa: ARG002  # as `StudioHost` has it
        """The space of the file, or all of the folder."""
        if not self.is_folder:
            return self._names
        return tuple(self._name_in(file) for file in space_files.spaces_in(Path(self._url)))

    def _name_in(self, file: Path) -> str:
        """The name of the space in a file of the folder. Read once, and without opening the file."""
        name = self._known.get(file)
        if name is None:
            files = machine().files
            found = peek(files.resolve(file), files.vfs) or {}
            name = self._known[file] = found.get("space") or file.stem
        return name

    def inspector(self, login: Login, space: str, branch: str) -> Inspector:  # noqa: ARG002  # likewise
        """The inspector that the command line uses."""
        named = space if self.is_folder else self._space
        return inspector_for(self._url, named, branch=branch, token=self._token, brief=True)

    def follow(
        self,
        login: Login,  # noqa: ARG002  # as `StudioHost` has it
        space: str,
        record: Callable[[Mapping[str, Any]], None],
    ) -> Callable[[], None]:
        """By a connection of its own. Raises UnavailableError if no program has the file open."""
        found = self._connection(space)
        if found is None:
            raise UnavailableError("no program has the space open here, so there is nothing to record")
        lines = found.follow()

        def read() -> None:
            # Closed below, or the program has ended.
            with suppress(OSError, ValueError, HeadwaterError):
                for line in lines:
                    if line.record is not None:
                        record(line.record)

        machine().thread(read, name="headwater-studio-trace").start()
        return found.end

    def pulses(self, login: Login, space: str, ring: Callable[[], float]) -> Callable[[], None] | None:  # noqa: ARG002
        """By a connection of its own."""
        found = self._connection(space)
        if found is None:
            return None

        def wait() -> None:
            # Closed below, the program has ended, or does not know this request.
            with suppress(OSError, ValueError, HeadwaterError):
                for _ in found.wait_for_pass():
                    machine().sleep(ring())

        machine().thread(wait, name="headwater-studio-pulse").start()
        return found.end

    def state(self, login: Login, space: str) -> str:  # noqa: ARG002  # likewise
        """Whether a program answers at the socket beside the file."""
        if self.is_remote:
            return "server"
        return "live" if self._connected(space) else "closed"

    def url(self, space: str) -> str:
        """The URL for the command line, without a password."""
        if self.is_folder and space:
            return str(self._location(space).path)
        return self._shown

    def cannot(self, login: Login, space: str) -> dict[str, str]:
        """Without a program nothing is delivered."""
        if self.is_remote:
            why = "functions run in the programs that have the space open, not at the server"
            return dict.fromkeys((*_OF_PROGRAM, "refetch", "fork", "merge"), why)
        return {} if self.state(login, space) == "live" else dict.fromkeys((*_OF_PROGRAM, "refetch"), NOBODY)


def _rung(ring: Callable[[], float]) -> None:
    """The program goes on at once."""
    ring()


class ProgramHost(LocalHost):
    """A space that this process has open, also one in memory."""

    place = "program"

    def __init__(self, opening: OpeningInspection, *, read_only: bool = False) -> None:
        super().__init__(read_only=read_only)
        self._opening = opening
        self.title = opening.space.name

    def spaces(self, login: Login) -> tuple[str, ...]:  # noqa: ARG002  # as `StudioHost` has it
        """The one space."""
        return (self._opening.space.name,)

    def inspector(self, login: Login, space: str, branch: str) -> Inspector:  # noqa: ARG002  # likewise
        """Straight at the opening."""
        if self._opening.space.closed:
            raise ClosedError("the space was closed")
        return LiveInspector([self._opening], InspectScope(branch=branch), apart=True)

    def follow(
        self,
        login: Login,  # noqa: ARG002  # as `StudioHost` has it
        space: str,  # noqa: ARG002  # likewise
        record: Callable[[Mapping[str, Any]], None],
    ) -> Callable[[], None]:
        """By a listener of the scheduler."""
        opening = self._opening
        return opening.space.scheduler.on_trace(lambda step: record(since_1970(opening, step)))

    def pulses(self, login: Login, space: str, ring: Callable[[], float]) -> Callable[[], None] | None:  # noqa: ARG002
        """At the end of each pass, in its thread: `ring` only wakes another."""
        return self._opening.space.scheduler.inspect.on_pass(lambda: _rung(ring))

    def state(self, login: Login, space: str) -> str:  # noqa: ARG002  # likewise
        """Until the space is closed."""
        return "closed" if self._opening.space.closed else "live"

    def url(self, space: str) -> str:  # noqa: ARG002  # likewise
        """The file; nothing for memory."""
        return self._opening.file

    def cannot(self, login: Login, space: str) -> dict[str, str]:
        """Everything is possible while it is open."""
        closed = self.state(login, space) == "closed"
        return dict.fromkeys(("set", "delete", *_OF_PROGRAM), "the space was closed") if closed else {}
