"""The Server screen: clients, logins, tokens without their secrets, metrics, and the audit log with its chain verified.

Who owns every space sees everything; who owns one space sees its clients.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from headwater._version import __version__
from headwater.access.audit_check import AuditReport, examine
from headwater.access.audit_log import AuditEntry
from headwater.access.grants import Grant
from headwater.access.rights import EVERY_SPACE, Right
from headwater.errors import AccessError
from headwater.host.space_files import spaces_in
from headwater.machine import machine
from headwater.server.authenticator import Authenticator
from headwater.server.pages.metrics_page import Metrics
from headwater.server.spaces.client_connection import ClientConnection
from headwater.server.spaces.server_socket import ServerSocket
from headwater.store.backends.sqlite_peek import peek
from headwater.studio.answers import (
    AuditLine,
    AuditPage,
    ClientRow,
    ServedSpace,
    ServerView,
    SessionRow,
    TokenRow,
)
from headwater.studio.limits import PAGE_MAX
from headwater.studio.questions import Audit
from headwater.values.ids import Millis
from headwater.values.text import count_text

CLIENTS_MAX: Final = 1000
"""Clients that are listed: a person reads no more, and each row is sent again when one of them changes."""

_CLIENT: Final = "client:"
LOGIN: Final = "login:"
"""What the id of a login begins with."""


def owns_all(authenticator: Authenticator, grant: Grant) -> bool:
    """Whether a grant owns every space: then it may manage the server."""
    return grant.space == EVERY_SPACE and authenticator.spaces.right(grant, EVERY_SPACE) >= Right.OWN


def check_owns_all(authenticator: Authenticator, grant: Grant) -> None:
    """Raise AccessError unless the grant owns every space."""
    if not owns_all(authenticator, grant):
        raise AccessError("this takes a token that owns every space (`headwater token create --space '*' --can own`)")


def spaces_of(authenticator: Authenticator, grant: Grant) -> tuple[str, ...]:
    """The names of the spaces that a grant may read, in order. Reads the folder: not in the loop."""
    spaces = authenticator.spaces
    if grant.space != EVERY_SPACE:
        return (grant.space,) if spaces.right(grant, grant.space) else ()
    found = set(spaces.channels)
    for path in spaces_in(spaces.folder):
        facts = peek(machine().files.resolve(path), machine().files.vfs) or {}
        # Of a space that this server has open, the file may not tell the name yet.
        if name := facts.get("space"):
            found.add(name)
    return tuple(sorted(found))


# --- server ---------------------------------------------------------------------------------------------------


def server_view(authenticator: Authenticator, grant: Grant, url: str, logins: Iterable[SessionRow]) -> ServerView:
    """What a server has, as far as the grant may see it. In the loop, except for `slow_view`."""
    is_manager = owns_all(authenticator, grant)
    sockets = [socket for socket in authenticator.sockets if _is_shown(authenticator, grant, socket)]
    return ServerView(
        url=url,
        version=__version__,
        clients=tuple(_client(authenticator, socket) for socket in sockets[:CLIENTS_MAX]),
        sessions=tuple(each for each in logins if is_manager or each.token == grant.id),
        tokens=(),
        metrics=_metrics(authenticator) if is_manager else {},
        audit="",
        hidden="" if is_manager else _hidden(grant),
    )


def _hidden(grant: Grant) -> str:
    mine = f"the clients of the space {grant.space}" if grant.can >= Right.OWN else "only your own login"
    return f"You see {mine}. Tokens, the audit log and the numbers of the server are for tokens that own every space."


def _is_shown(authenticator: Authenticator, grant: Grant, socket: ServerSocket) -> bool:
    client = socket.client
    if client is None or client.channel is None:
        return False
    return authenticator.spaces.right(grant, client.talk.space) >= Right.OWN


def client_id(client: ClientConnection) -> str:
    """The id of a client in a list. Its session cannot be continued with it: that takes a proof."""
    return f"{_CLIENT}{client.session}"


def _client(authenticator: Authenticator, socket: ServerSocket) -> ClientRow:
    client = socket.client
    assert client is not None
    assert client.channel is not None
    talk = client.talk
    return ClientRow(
        id=client_id(client),
        actor=talk.actor,
        space=talk.space,
        since_ms=socket.since_ms,
        watches=len(client.watched) + len(client.prefixes) + len(client.spans),
        lag=socket.unsent,
        pending=sum(session == client.session for session, _ in client.channel.since),
        rights=authenticator.spaces.access.right(client.grant_id or "", talk.space).word,
        token=client.grant_id or "",
        peer=socket.peer,
    )


def find_client(authenticator: Authenticator, grant: Grant, wanted: str) -> ServerSocket | None:
    """The connection with an id, if the grant may end it."""
    for socket in authenticator.sockets:
        client = socket.client
        if _is_shown(authenticator, grant, socket) and client is not None and client_id(client) == wanted:
            return socket
    return None


def _metrics(authenticator: Authenticator) -> dict[str, float]:
    """The numbers of the metrics page, without those of buckets."""
    text = Metrics(authenticator, proxied=False).text(by_space=False)
    pairs = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#") and "_bucket{" not in line)
    return {name.removeprefix("headwater_"): float(number) for name, _, number in pairs}


# --- what takes the disk --------------------------------------------------------------------------------------


def space_rows(authenticator: Authenticator, names: Iterable[str]) -> tuple[ServedSpace, ...]:
    """The spaces with the numbers of those that are open."""
    rows = []
    for name in names:
        channel = authenticator.spaces.channels.get(name)
        if channel is None:
            rows.append(ServedSpace(name=name, is_open=False, clients=0, watches=0, seq=0, trouble=""))
            continue
        rows.append(
            ServedSpace(
                name=name,
                is_open=True,
                clients=len(channel.connections),
                watches=channel.watching,
                seq=channel.head,
                trouble=channel.trouble,
            )
        )
    return tuple(rows)


def token_rows(authenticator: Authenticator) -> tuple[TokenRow, ...]:
    """All tokens and keys. Reads the file: not in the loop."""
    now = Millis(machine().now_ms())
    return tuple(
        TokenRow(
            id=each.id,
            actor="any" if each.any_actor else each.actor or "",
            rights=each.can.word,
            spaces=each.space,
            created_ms=each.created,
            expires_ms=each.expires or 0,
            state="live" if each.is_live(now) else "expired",
            kind=each.kind,
            roles=each.roles,
            note=each.note,
            connections=authenticator.count_of(each.id),
        )
        for each in authenticator.spaces.access.ls()
    )


def verdict(report: AuditReport) -> str:
    """What the verification of the audit log says."""
    if report.bad is not None:
        return f"The log was CHANGED: {report.bad.file}, line {report.bad.line}: {report.bad.why}"
    torn = f", {count_text(report.torn, 'of them')} broken off by a crash" if report.torn else ""
    return f"The log is sound: {count_text(report.lines, 'line')}{torn}"


def audit_page(folder: Path, question: Audit) -> AuditPage:
    """A page of the audit log, newest first. Reads and verifies the whole log: not in the loop."""
    limit = max(min(question.limit, PAGE_MAX), 1)
    is_filtered = bool(question.before or question.event or question.search)
    report = examine(folder, limit=None if is_filtered else limit + 1)
    search = question.search.casefold()
    found: list[AuditLine] = []
    for entry in reversed(report.entries):
        if question.before and entry.n >= question.before:
            continue
        if question.event and entry.event != question.event:
            continue
        line = _line(entry)
        if search and search not in f"{line.act} {line.actor} {line.sentence}".casefold():
            continue
        found.append(line)
        if len(found) > limit:
            break
    more = len(found) > limit
    lines = tuple(found[:limit])
    return AuditPage(
        lines=lines, verified=report.bad is None, sentence=verdict(report), next=lines[-1].number if more else 0
    )


def _line(entry: AuditEntry) -> AuditLine:
    facts = entry.facts
    actor = facts.get("actor") or facts.get("id") or ""
    told = {name: value for name, value in facts.items() if value is not None and name != "actor"}
    sentence = ", ".join(f"{name} {value}" for name, value in told.items())
    return AuditLine(number=entry.n, at_ms=entry.at, actor=str(actor), act=entry.event, sentence=sentence)
