"""Checks of a server: connection, encryption, version, rights and latency."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from headwater._version import __version__
from headwater.access.local_token import find_local
from headwater.client.credentials import Credentials
from headwater.client.server_link import ServerLink
from headwater.client.server_pages import OK, REFUSAL_MAX, page
from headwater.client.server_url import ServerUrl
from headwater.errors import HeadwaterError, OfflineError
from headwater.machine import machine
from headwater.sync.frames import Open, Ping, Proof, Welcome
from headwater.values.ids import MAIN, BranchId, SessionId

PINGS: Final = 7
SLOW_MS: Final = 250.0
"""Milliseconds of a round trip. Programs that wait for verdicts are then slow."""

Found = tuple[str, Literal["ok", "warning", "failed"], str]


def check_server(url: ServerUrl, token: str | None) -> Iterator[Found]:
    """The checks, up to the first that prevents the others."""
    try:
        with page(url, token, "/readyz") as response:
            is_ready, words = response.status == OK, response.read(REFUSAL_MAX).decode(errors="replace").strip()
    except OfflineError as error:
        yield "server", "failed", error.message
        return
    except HeadwaterError as error:
        yield "server", "warning", error.message
    else:
        yield "server", "ok" if is_ready else "failed", f"{url.origin} is reached, and says: {words}"
    yield _way(url)
    yield from _session(url, token)


def _way(url: ServerUrl) -> Found:
    if url.secure:
        return "way", "ok", "encrypted (TLS)"
    if find_local(url.host, url.port) is not None or url.host in ("localhost", "127.0.0.1", "::1"):
        return "way", "ok", "not encrypted, and does not leave this machine"
    return "way", "warning", "not encrypted: the traffic, with tokens, can be read on the way; use wss://"


def _session(url: ServerUrl, token: str | None) -> Iterator[Found]:
    welcomes: list[Welcome] = []

    class Listening(ServerLink):
        """Records the welcome of the server."""

        def prove(self, welcome: Welcome, session: SessionId) -> Proof | None:
            welcomes.append(welcome)
            return super().prove(welcome, session)

    opening = Open(url.space, BranchId(MAIN), "", create=False)
    link = Listening(url, opening, Credentials(token=token), deliver=lambda _items: None, decided=lambda _number: None)
    try:
        link.start()
    except HeadwaterError as error:
        yield from _version(welcomes)
        yield "space", "failed", error.message
        return
    try:
        yield from _version(welcomes)
        opened = link.session.opened
        assert opened is not None
        yield "space", "ok", f"{opened.space} is open, at {opened.seq}"
        who = f" as {opened.actor}" if opened.actor else ""
        yield "rights", "ok", f"may {opened.can} it{who}"
        yield _latency(link)
    except HeadwaterError as error:
        yield "latency", "failed", error.message
    finally:
        link.stop()


def _version(welcomes: list[Welcome]) -> Iterator[Found]:
    for welcome in welcomes[-1:]:
        same = welcome.server == f"headwater/{__version__}"
        words = "" if same else f"; this is headwater/{__version__}"
        yield "version", "ok" if same else "warning", f"{welcome.server}, protocol {welcome.version}{words}"


def _latency(link: ServerLink) -> Found:
    took = []
    for _ in range(PINGS):
        begin = machine().monotonic()
        link.ask(Ping(0))
        took.append((machine().monotonic() - begin) * 1000)
    median = sorted(took)[len(took) // 2]
    state: Literal["ok", "warning"] = "ok" if median < SLOW_MS else "warning"
    return "latency", state, f"{median:.1f} ms there and back (median of {PINGS}; {min(took):.1f} to {max(took):.1f})"
