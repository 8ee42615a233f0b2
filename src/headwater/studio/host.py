"""What a Studio shows: a file, a folder, a program or a server, behind one interface."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from headwater.inspect.inspector import Inspector
from headwater.studio.deeds import Acted


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """The user of a page, and the rights."""

    actor: str = ""
    rights: str = "own"
    """read, write or own."""
    grant: str = ""
    """At a server: the id of the token."""

    @property
    def may_write(self) -> bool:
        """May set, send, redeliver, approve."""
        return self.rights in ("write", "own")


class StudioHost(Protocol):
    """Gives a Studio its spaces. All methods may be called in any thread."""

    title: str
    place: str
    """file, folder, program or server."""
    read_only: bool
    questions: Mapping[str, Callable[[Login, Any], object]]
    """Answers that the host gives itself, by tag: those of the Server screen."""
    deeds: Mapping[str, Callable[[Login, Any], object]]
    """Deeds that the host does itself, by tag: each returns a `Report`."""

    intents: Mapping[str, Callable[[Login, Any], object]]
    """What such a deed is about to do, by tag: each returns an `IntentView`."""

    def admit(self, token: str, peer: str) -> Login:
        """The login of a token that a person typed. Raises AccessError."""
        ...

    def is_admitted(self, login: Login) -> bool:
        """Whether the login still holds: a grant may be revoked."""
        ...

    def spaces(self, login: Login) -> tuple[str, ...]:
        """The spaces that the login may read; the first is the default."""
        ...

    def inspector(self, login: Login, space: str, branch: str) -> Inspector:
        """A new inspector of a space. The caller closes it. Raises HeadwaterError."""
        ...

    def follow(self, login: Login, space: str, record: Callable[[Mapping[str, Any]], None]) -> Callable[[], None]:
        """Call `record` with each step of the functions, in another thread. Returns what ends it. HeadwaterError."""
        ...

    def pulses(self, login: Login, space: str, ring: Callable[[], float]) -> Callable[[], None] | None:
        """Call `ring` after each pass of the functions, in another thread. It returns seconds to wait before the next.

        Returns what ends it; None if there is no such thing: then the space is asked from time to time.
        """
        ...

    def state(self, login: Login, space: str) -> str:
        """live: a program has it open. closed: none has. server: it is at a server. Cheap, and opens no file."""
        ...

    def url(self, space: str) -> str:
        """The URL of a space, for command lines."""
        ...

    def cannot(self, login: Login, space: str) -> dict[str, str]:
        """Tags of deeds that are not possible, with the reason."""
        ...

    def record(self, login: Login, deed: Acted, sentence: str, error: str) -> None:
        """Write a deed to the audit log, if there is one, also a refused deed."""
        ...
