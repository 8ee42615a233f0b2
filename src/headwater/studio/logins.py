"""Logins: the one-time code of a printed link, and the secrets of sessions.

There is no cookie: cookies ignore ports, so every other service of this machine would get it. A page keeps its secret
in `sessionStorage`, and shows it in `hello`. Only hashes are kept here.
"""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from typing import Final

import msgspec

from headwater.errors import AccessError
from headwater.machine import machine
from headwater.studio.host import Login, StudioHost
from headwater.studio.limits import LINK_S, SESSION_S
from headwater.studio.page_frames import HelloFrame

_BYTES: Final = 32
"""Bytes of a secret: 256 bits cannot be guessed."""

SESSIONS: Final = 256
"""Sessions at the same time. One more ends the oldest of the token that has the most."""

REFUSED: Final = "this link or session is not valid (any more): start `headwater studio` again, or log in again"


class StudioSession(msgspec.Struct, frozen=True, kw_only=True):
    """One login of a browser tab."""

    id: str
    """For people: the beginning of the hash."""
    login: Login
    peer: str
    since_ms: int
    ends: float
    """On the monotonic clock."""


class Logins:
    """The sessions of one Studio."""

    def __init__(self, host: StudioHost) -> None:
        self._host = host
        self._codes: dict[bytes, tuple[float, Login]] = {}
        self._sessions: dict[bytes, StudioSession] = {}
        self._lock = machine().lock()

    def link_code(self, login: Login) -> str:
        """A new one-time code."""
        code = machine().token_urlsafe(_BYTES)
        now = machine().monotonic()
        with self._lock:
            self._codes = {key: each for key, each in self._codes.items() if each[0] >= now}
            self._codes[_hash(code)] = (now + LINK_S, login)
        return code

    def enter(self, hello: HelloFrame, peer: str) -> tuple[str, StudioSession]:
        """The secret and the session of a page. Raises AccessError, the same for each cause."""
        now = machine().monotonic()
        if hello.session:
            with self._lock:
                known = self._sessions.get(_hash(hello.session))
            if known is None or known.ends < now or not self._host.is_admitted(known.login):
                raise AccessError(REFUSED)
            return hello.session, known
        if hello.code:
            with self._lock:
                ends, login = self._codes.pop(_hash(hello.code), (0.0, Login()))
            if ends < now:
                raise AccessError(REFUSED)
        else:
            login = self._host.admit(hello.token, peer)
        return self._begin(login, peer)

    def _begin(self, login: Login, peer: str) -> tuple[str, StudioSession]:
        secret = machine().token_urlsafe(_BYTES)
        key = _hash(secret)
        ends = machine().monotonic() + SESSION_S
        made = StudioSession(id=key.hex()[:12], login=login, peer=peer, since_ms=machine().now_ms(), ends=ends)
        with self._lock:
            while len(self._sessions) >= SESSIONS:
                self._end_one()
            self._sessions[key] = made
        return secret, made

    def _end_one(self) -> None:
        """The oldest of the token that has the most: no token ends the logins of others by logging in again."""
        [(grant, _)] = Counter(each.login.grant for each in self._sessions.values()).most_common(1)
        del self._sessions[next(key for key, each in self._sessions.items() if each.login.grant == grant)]

    def holds(self, session: StudioSession) -> bool:
        """Whether a session goes on: it was not ended, its time is not over, its grant holds."""
        with self._lock:
            known = any(each is session for each in self._sessions.values())
        return known and machine().monotonic() <= session.ends and self._host.is_admitted(session.login)

    def sessions(self) -> list[StudioSession]:
        """All sessions, the oldest first."""
        with self._lock:
            return list(self._sessions.values())

    def end(self, session_id: str) -> bool:
        """End the session with this id. Returns whether there was one."""
        with self._lock:
            found = [key for key, each in self._sessions.items() if each.id == session_id]
            for key in found:
                del self._sessions[key]
        return bool(found)


def _hash(secret: str) -> bytes:
    return sha256(secret.encode()).digest()
