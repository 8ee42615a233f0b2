"""The space of a command, resolved from --url, --space, --branch, --app and --token-file.

A target is a file, a space of a folder or of a database, `memory:`, or a space of a server. Most commands use its
inspector, which asks the process that has the file open, or opens the file; commands about the file itself open it.
"""

from __future__ import annotations

import errno
import os
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import Final, NamedTuple

import click

from headwater.client.server_url import ServerUrl, is_server, parse_server
from headwater.errors import UsageError
from headwater.host.postgres.database_url import DatabaseUrl, is_database
from headwater.host.space_files import Location, default_url, locate, open_for_questions
from headwater.host.space_lookup import is_folder, open_space
from headwater.host.storage import Storage
from headwater.inspect.inspector import Inspector
from headwater.inspect.resolve import inspector_for

_ENV_TOKEN: Final = "HEADWATER_TOKEN"  # noqa: S105  # its name, not the token
_TOKEN_BYTES_MAX: Final = 4096
_PORT_MAX: Final = 65535


class ServerTarget(NamedTuple):
    """A space of a server, and the token for it."""

    url: ServerUrl
    token: str | None


class SpaceFile(NamedTuple):
    """The file of a space, which need not exist."""

    space: str
    path: Path


class Target:
    """The options of a command that name a space. Each property is computed at its first use."""

    def __init__(
        self,
        url: str | None = None,
        space: str | None = None,
        branch: str = "main",
        app: str | None = None,
        token_file: Path | None = None,
    ) -> None:
        self.given_url = url
        self.space = space
        self.branch = branch
        self.app = app
        self._token_file = token_file

    @cached_property
    def url(self) -> str:
        """The URL; without --url the default. Raises UsageError."""
        return self.given_url if self.given_url is not None else default_url()

    @property
    def shown(self) -> str:
        """The URL for people: without a password."""
        return self.url if self.database is None else self.database.shown

    @cached_property
    def database(self) -> DatabaseUrl | None:
        """The database that the URL names; None for a file and a server."""
        try:
            url = self.url
        except UsageError:
            return None
        return locate(url, self.space).database if is_database(url) else None

    @property
    def label(self) -> str | None:
        """The name of an open app, if --app is one."""
        return None if self.module is not None else self.app

    @property
    def module(self) -> str | None:
        """MODULE:APP, if --app is an app to open."""
        return self.app if self.app is not None and ":" in self.app else None

    def command(self, *words: object) -> str:
        """The text of another command about the same space."""
        where: list[object] = [] if self.given_url is None else ["--url", self.shown]
        where += [] if self.space is None else ["--space", self.space]
        return " ".join(["headwater", *(quote(str(word)) for word in (*words, *where))])

    def at(self, url: str) -> Target:
        """The same target at another URL."""
        return Target(url, self.space, self.branch, self.app, self._token_file)

    # --- where it is ------------------------------------------------------------------------------------------

    @cached_property
    def server(self) -> ServerTarget | None:
        """The server that the URL names; None for a file. Raises UsageError."""
        try:
            url = self.url
        except UsageError:
            if self._token_file is not None:
                raise
            # Opening the file raises it again.
            return None
        if not is_server(url):
            if self._token_file is not None:
                raise UsageError(f"--token-file is for servers (ws://HOST:PORT/SPACE); {url} is none")
            return None
        found = parse_server(url, self.space)
        locate("memory:", found.space)  # raises for what is no name
        return ServerTarget(found, _token(self._token_file))

    @property
    def path(self) -> Path | None:
        """The file; None for memory."""
        return locate(self.url, self.space).path

    @property
    def is_folder(self) -> bool:
        """Whether the URL names a folder of many spaces."""
        return is_folder(self.url)

    def file_for(self, stored: str) -> SpaceFile:
        """The file for a space that is restored or imported. It keeps its name unless --space gives another."""
        if self.space is not None or not stored:
            found = locate(self.url, self.space)
        else:
            found = locate(self.url, stored) if self.is_folder else Location(stored, locate(self.url).path)
        if found.database is not None:
            raise UsageError(f"{found.database.shown} is a database, and this needs a file: name one")
        if found.path is None:
            raise UsageError("memory: ends with this command; name a file with --url")
        return SpaceFile(found.space, found.path)

    def make_folder(self) -> Path:
        """The folder of the file. A missing folder of spaces is created."""
        path = self.file_for("").path
        if self.is_folder:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        elif not path.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, "", str(path.parent))
        return path.parent

    # --- opening it -------------------------------------------------------------------------------------------

    def open(self, *, create: bool = False, only_reads: bool = False) -> Storage:
        """The file, opened by this process. Raises SpaceHeldError if another has it open.

        A space of a database can be read while another program has it open.
        """
        if only_reads and (found := open_for_questions(self.url, self.space)) is not None:
            return found
        return open_space(self.url, self.space, create=create)

    def inspector(self) -> Inspector:
        """The inspector of the space, wherever the space is."""
        token = None if self.server is None else self.server.token
        return inspector_for(self.url, self.space, app=self.label, branch=self.branch, token=token)


def _token(file: Path | None) -> str | None:
    if file is None:
        return os.environ.get(_ENV_TOKEN) or None
    with file.open("rb") as reading:
        text = reading.read(_TOKEN_BYTES_MAX).decode("ascii", errors="replace").strip()
    if not text or len(text.split()) != 1 or not text.isprintable() or not text.isascii():
        raise UsageError(f"{file} does not hold a token: one word is expected, as `headwater token create` prints it")
    return text


def listen_address(option: str, text: str) -> tuple[str, int]:
    """HOST and PORT to listen at. Raises UsageError."""
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdecimal() or int(port) > _PORT_MAX:
        raise click.UsageError(f"{option} {text}: HOST:PORT is expected, such as 127.0.0.1:8400")
    return host.strip("[]"), int(port)
