"""The Studio of a server: people log in with a token, and have its rights."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from hashlib import sha256
from typing import Any, Final, TypeVar
from urllib.parse import quote

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request

from headwater.access.audit_check import examine
from headwater.access.audit_log import AuditLog
from headwater.access.grants import Grant
from headwater.access.rights import Right
from headwater.errors import AccessError, UnavailableError, UsageError
from headwater.inspect.envelope import Response
from headwater.inspect.inspector import Inspector
from headwater.inspect.names import InspectScope
from headwater.inspect.request import Question
from headwater.machine import machine
from headwater.server.authenticator import Authenticator
from headwater.server.pages.backup_page import Backups, Sending
from headwater.server.spaces.channel import Channel
from headwater.server.spaces.program_looks import ask_programs
from headwater.studio import served_deeds, served_screen
from headwater.studio.answers import AuditPage, DeedReport, IntentView, ServerView, SessionRow
from headwater.studio.deeds import Acted, BackupDeed, SessionDeed, TokenDeed
from headwater.studio.host import Login
from headwater.studio.logins import Logins, StudioSession
from headwater.studio.questions import Audit, ServerQuestion
from headwater.studio.served_inspector import ServedInspector
from headwater.values.space_names import check_space_name

T = TypeVar("T")

WAIT_S: Final = 30.0
"""How long a thread waits for the event loop of the server, which may open a large space meanwhile."""

DOWNLOAD_S: Final = 30.0
"""How long the address of a download works, once."""

NAMES_S: Final = 1.0
"""How long the list of spaces is used: a new space is seen so late."""

DOWNLOADS_MAX: Final = 64
"""Addresses of downloads at the same time. The oldest ends."""

NO_APP: Final = "functions run in the programs that have the space open, not at the server"
_NOT_HERE: Final = ("send", "resend", "refetch", "record")


class _Download(msgspec.Struct, frozen=True):
    """A download that was granted."""

    ends: float
    grant: Grant
    space: str


class ServedHost:
    """The spaces of one server, for people with a token."""

    place = "server"
    read_only = False

    def __init__(self, authenticator: Authenticator, backups: Backups, url: str) -> None:
        self.title = url.replace("ws", "http", 1)
        self._url = url
        self._authenticator = authenticator
        self._backups = backups
        self._loop = asyncio.get_running_loop()
        self._thread = machine().thread_id()
        # The grants of logins, by id.
        self._grants: dict[str, Grant] = {}
        self._downloads: dict[bytes, _Download] = {}
        # The names of spaces, by grant, as of a time: reading the folder takes the disk.
        self._names: dict[str, tuple[float, tuple[str, ...]]] = {}
        self._is_reading = machine().lock()
        # Which spaces a login has looked into: each is in the audit log once.
        self._opened: set[tuple[str, str]] = set()
        self.logins = Logins(self)
        self.questions: Mapping[str, Callable[[Login, Any], object]] = {
            "server": self._server,
            "audit": self._audit,
        }
        self.deeds: Mapping[str, Callable[[Login, Any], object]] = {
            "token": self._token,
            "session": self._session,
            "backup": self._backup,
        }
        self.intents: Mapping[str, Callable[[Login, Any], object]] = dict.fromkeys(self.deeds, self._intent)

    # -- logging in ----------------------------------------------------------------------------------------

    def admit(self, token: str, peer: str) -> Login:
        """The login of a token. Raises AccessError, also for one guess too many."""
        return self._in_loop(lambda: self._admit(token, peer))

    def _admit(self, token: str, peer: str) -> Login:
        given = f"Bearer {token}"
        found = self._authenticator.bearer(given, peer)
        if not isinstance(found, Grant):
            status, words, _ = found
            self._authenticator.write_down(peer, status, words, given)
            raise AccessError(words)
        return self.login_of(found, peer)

    def login_of(self, grant: Grant, peer: str) -> Login:
        """The login of a grant. Refused if the audit log cannot be written."""
        self._audit_log.write("studio login", peer=peer, id=grant.id, actor=grant.actor or "", space=grant.space)
        self._grants[grant.id] = grant
        return Login(actor=grant.actor or "", rights=grant.can.word, grant=grant.id)

    def is_admitted(self, login: Login) -> bool:
        """Whether the grant has a right now."""
        grant = self._grants.get(login.grant)
        return grant is not None and self._authenticator.spaces.right(grant, grant.space) >= Right.READ

    def _grant(self, login: Login) -> Grant:
        if not self.is_admitted(login):
            raise AccessError("the token was revoked, or has expired; log in with another one")
        return self._grants[login.grant]

    # -- spaces --------------------------------------------------------------------------------------------

    def spaces(self, login: Login) -> tuple[str, ...]:
        """The spaces that the grant may read. In the loop: as of a second ago."""
        grant = self._grant(login)
        at, names = self._names.get(grant.id, (0.0, ()))
        if machine().monotonic() - at < NAMES_S:
            return names
        if at and machine().thread_id() == self._thread:
            # This time counts as a look, so that one thread reads them, and not one for each question.
            self._names[grant.id] = machine().monotonic(), names
            machine().thread(lambda: self._read_names(grant), name="headwater-studio-spaces").start()
            return names
        return self._read_names(grant)

    def _read_names(self, grant: Grant) -> tuple[str, ...]:
        with self._is_reading:
            names = served_screen.spaces_of(self._authenticator, grant)
            self._names[grant.id] = machine().monotonic(), names
        return names

    def follow(self, login: Login, space: str, record: Callable[[Mapping[str, Any]], None]) -> Callable[[], None]:
        """Raises UnavailableError: functions run in programs."""
        del login, record
        message = f"functions run in the programs that have {space} open, so there is nothing to record at the server"
        raise UnavailableError(message, space=space)

    def pulses(self, login: Login, space: str, ring: Callable[[], float]) -> Callable[[], None] | None:
        """None: the space is asked from time to time."""
        del login, space, ring
        return None

    def state(self, login: Login, space: str) -> str:
        """The server has it."""
        del login, space
        return "server"

    def url(self, space: str) -> str:
        """The URL of a space."""
        return f"{self._url}/{quote(space, safe='')}"

    def inspector(self, login: Login, space: str, branch: str) -> Inspector:
        """A new inspector of a space. Raises AccessError; the same for a missing space."""
        grant = self._grant(login)
        check_space_name(space)
        if self._authenticator.spaces.right(grant, space) < Right.READ:
            raise AccessError("there is no such space, or it may not be used with this token", space=space)
        if (login.grant, space) not in self._opened:
            self._audit_log.write("studio opened", id=grant.id, actor=login.actor, space=space)
            self._opened.add((login.grant, space))
        return ServedInspector(self._authenticator, grant, space, branch, channel_of=self._channel, look=self._look)

    def _channel(self, space: str) -> Channel:
        spaces = self._authenticator.spaces

        async def find() -> Channel:
            channel = await spaces.channel(space, create=False)
            channel.keep()
            return channel

        return self._awaited(find())

    def _look(self, space: str, scope: InspectScope, question: Question[Any], actor: str) -> list[Response]:
        """The answers of the programs that have a space open, and let owners ask."""
        channel = self._authenticator.spaces.channels.get(space)
        return [] if channel is None else self._awaited(ask_programs(channel, scope, question, actor))

    def cannot(self, login: Login, space: str) -> dict[str, str]:
        """Tags of deeds that are not possible, with the reason."""
        found = dict.fromkeys(_NOT_HERE, NO_APP)
        grant = self._grant(login)
        right = self._authenticator.spaces.right(grant, space)
        if right < Right.OWN:
            why = "this takes a token with the right to own the space"
            found |= dict.fromkeys(("event", "run", "workflow", "input", "fork", "merge", "backup", "session"), why)
        if right < Right.WRITE:
            why = "this takes a token with the right to write the space"
            found |= dict.fromkeys(("set", "delete", "restore", "publish"), why)
        if not served_screen.owns_all(self._authenticator, grant):
            found["token"] = "this takes a token that owns every space"  # noqa: S105  # a sentence
        return found

    # -- the Server screen ---------------------------------------------------------------------------------

    def _server(self, login: Login, question: ServerQuestion) -> ServerView:
        del question
        grant, authenticator = self._grant(login), self._authenticator
        rows = [self._row(each) for each in self.logins.sessions()]
        view = self._in_loop(lambda: served_screen.server_view(authenticator, grant, self.title, rows))
        names = self._read_names(grant)
        spaces = self._in_loop(lambda: served_screen.space_rows(authenticator, names))
        if not served_screen.owns_all(authenticator, grant):
            return msgspec.structs.replace(view, spaces=spaces)
        tokens = served_screen.token_rows(authenticator)
        audit = served_screen.verdict(examine(authenticator.spaces.folder, limit=0))
        return msgspec.structs.replace(view, spaces=spaces, tokens=tokens, audit=audit)

    def _row(self, session: StudioSession) -> SessionRow:
        left_ms = round((session.ends - machine().monotonic()) * 1000)
        return SessionRow(
            id=f"{served_screen.LOGIN}{session.id}",
            actor=session.login.actor,
            rights=session.login.rights,
            since_ms=session.since_ms,
            until_ms=machine().now_ms() + left_ms,
            token=session.login.grant,
            peer=session.peer,
        )

    def _audit(self, login: Login, question: Audit) -> AuditPage:
        served_screen.check_owns_all(self._authenticator, self._grant(login))
        return served_screen.audit_page(self._authenticator.spaces.folder, question)

    # -- deeds ---------------------------------------------------------------------------------------------

    def _intent(self, login: Login, deed: served_deeds.ServerDeed) -> IntentView:
        space = self._space(login, deed)
        served_deeds.check_deed(self._authenticator, self._grant(login), deed, space)
        return served_deeds.intent(self._authenticator, deed, space, self.url(space))

    def _space(self, login: Login, deed: Acted) -> str:
        return deed.space or next(iter(self.spaces(login)), "")

    def _token(self, login: Login, deed: TokenDeed) -> DeedReport:
        space = self._space(login, deed)
        served_deeds.check_deed(self._authenticator, self._grant(login), deed, space)
        if deed.act == "create" and not deed.every and not space:
            raise UsageError("for which space? Name it, or choose every space")
        return served_deeds.carry_out_token(self._authenticator, deed, space)

    def _session(self, login: Login, deed: SessionDeed) -> DeedReport:
        grant = self._grant(login)
        if not deed.id.startswith(served_screen.LOGIN):
            return self._in_loop(lambda: served_deeds.end_client(self._authenticator, grant, deed))
        wanted = deed.id.removeprefix(served_screen.LOGIN)
        theirs = next((each for each in self.logins.sessions() if each.id == wanted), None)
        may_end = theirs is not None and theirs.login.grant == grant.id
        if not may_end:
            served_screen.check_owns_all(self._authenticator, grant)
        if theirs is None or not self.logins.end(wanted):
            raise AccessError(f"there is no login {deed.id}; it may have ended", id=deed.id)
        whose = theirs.login.actor or f"token {theirs.login.grant}"
        return DeedReport(sentence=f"the login of {whose} has ended", command="")

    def _backup(self, login: Login, deed: BackupDeed) -> DeedReport:
        grant, space = self._grant(login), self._space(login, deed)
        served_deeds.check_deed(self._authenticator, grant, deed, space)
        code = machine().token_urlsafe(32)
        while len(self._downloads) >= DOWNLOADS_MAX:
            del self._downloads[next(iter(self._downloads))]
        self._downloads[_hash(code)] = _Download(machine().monotonic() + DOWNLOAD_S, grant, space)
        command = served_deeds.command_of(deed, space, self.url(space))
        sentence = f"a copy of {space} is made and sent; the address works once, for {DOWNLOAD_S:.0f} s"
        return DeedReport(sentence=sentence, command=command, download=f"/studio/download/{code}")

    async def download(self, request: Request) -> Sending:
        """Send what a deed has granted. The code is the right, and is used up."""
        if request.method != "GET":
            # HEAD would use it up, and need a whole copy to know the size.
            raise HTTPException(405, "a backup is got, or not", {"allow": "GET"})
        found = self._downloads.pop(_hash(request.path_params["code"]), None)
        if found is None or found.ends < machine().monotonic():
            raise HTTPException(404, "this address worked once, for a short time; ask for another one")
        peer = "" if request.client is None else request.client.host
        return await self._backups.sent(found.grant, found.space, peer, name=f"{found.space}.db")

    def record(self, login: Login, deed: Acted, sentence: str, error: str) -> None:
        """Write a deed to the audit log, done or refused. If there is no room now, later: it was done."""
        tag = str(deed.__struct_config__.tag)
        facts = {"id": login.grant, "actor": login.actor, "space": deed.space, "deed": tag, "what": sentence}
        self._audit_log.write_or_owe("studio deed", **facts, **({"why": error} if error else {}))

    @property
    def _audit_log(self) -> AuditLog:
        return self._authenticator.spaces.access.audit

    # -- the loop ------------------------------------------------------------------------------------------

    def _in_loop(self, work: Callable[[], T]) -> T:
        """The result of a function that is called in the event loop of the server."""
        if machine().thread_id() == self._thread:
            return work()

        async def call() -> T:
            return work()

        return self._awaited(call())

    def _awaited(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return machine().submit(self._loop, work).result(WAIT_S)
        except TimeoutError as error:
            raise UnavailableError("the server is busy; try again") from error
        except RuntimeError as error:
            work.close()
            raise UnavailableError("the server ends; try again") from error
        except asyncio.CancelledError as error:
            raise UnavailableError("the server ends; try again") from error


def _hash(code: str) -> bytes:
    return sha256(code.encode()).digest()
