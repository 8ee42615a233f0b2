"""Access control: the current grants of one server.

Other processes change `access.json` while the server runs (`headwater token`). The file is checked again before each
decision, so a revoked grant stops working within a twentieth of a second, also on open connections.

If the file cannot be read, its tokens and keys are refused until it can be; that is logged.
"""

from __future__ import annotations

import hmac
import logging
import os
from base64 import b32encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import msgspec

from headwater.access import grants, keys, tokens
from headwater.access.audit_log import AuditLog
from headwater.access.grants import Grant, GrantsFile
from headwater.access.private_files import locked
from headwater.access.rights import EVERY_SPACE, Right
from headwater.errors import HeadwaterError, LimitError, NotFoundError, UsageError
from headwater.machine import machine
from headwater.store.collection_rules import check_role
from headwater.sync.actor_names import check_actor
from headwater.values.ids import Millis
from headwater.values.seams import Clock
from headwater.values.space_names import check_space_name

__all__ = ["AccessControl", "Grant", "Right"]

LOCAL: Final = "local"
"""The id of the grant for programs of the server's own user. Other ids have 10 characters."""
LOOK_EVERY_MS: Final = 50.0
"""How long a revoked grant may stay in use. A check of the file costs a microsecond or two: too much per command."""
NOTE_MAX: Final = 200
"""Characters of a note: a line."""
ROLES_MAX: Final = 16
"""Roles of one grant. Each write is compared with the rules of each of them."""
LASTS_MAX_MS: Final = 100 * 365 * 86_400_000
"""A hundred years. A longer time is a mistake, and dates after the year 9999 cannot be displayed."""
EXPIRED_KEPT_MS: Final = 30 * 86_400_000
"""How long expired grants stay listed, to explain why a token stopped working."""

_NO_DIGEST: Final = "0" * 64
"""Compared with a guess if there is no grant: equal cost."""

_UNREAD: Final = ()
"""Differs from the identity of every file."""

_log: Final = logging.getLogger("headwater")


@dataclass(frozen=True, slots=True)
class _Known:
    """The grants read from the file; replaced as a whole."""

    by_id: dict[str, Grant]
    by_token: dict[str, Grant]
    by_key: dict[str, tuple[Grant, ...]]
    # Kept open while its contents are in use. None: no file.
    opened: GrantsFile | None = None


_NO_GRANTS: Final = _Known({}, {}, {})


class _Wanted(msgspec.Struct, frozen=True):
    """A requested grant."""

    kind: Literal["token", "key"]
    secret: str
    space: str
    can: Right
    actor: str | None
    lasts_ms: float | None
    note: str
    any_actor: bool
    roles: tuple[str, ...]


class AccessControl:
    """The grants of the server whose data is in a folder.

    Raises CorruptError, MigrationError or UnavailableError if there are grants that cannot be read: such a server must
    not start.
    """

    def __init__(self, folder: Path, clock: Clock, *, steady: Callable[[], float] | None = None) -> None:
        if not machine().files.is_dir(folder):
            raise NotFoundError(f"there is no folder {folder}, in which a server keeps its data", path=str(folder))
        self.audit = AuditLog(folder, clock)
        self._folder = folder
        self._clock = clock
        self._steady = steady or machine().steady_ms
        self._local: Grant | None = None
        self._look_at = self._steady() + LOOK_EVERY_MS
        # The identity of what was last read, also if it was of no use; None: there was no file.
        self._seen: tuple[int, ...] | None = None
        self._known = _NO_GRANTS
        self._trouble = ""
        self._read()

    # --- asking -----------------------------------------------------------------------------------------------

    @property
    def is_known(self) -> bool:
        """Whether the grants are known. If not, every token is refused for now; that is not a revocation."""
        self._look()
        return not self._trouble

    def with_token(self, token: str) -> Grant | None:
        """The grant of a token; None if it is unknown, expired or malformed, without disclosing which."""
        self._look()
        digest = tokens.digest(token)
        if digest is None:
            return None
        # Looked up by hash, whose prefix cannot be chosen; compared at the same cost whether found or not.
        found, local = self._known.by_token.get(digest), self._local
        is_found = hmac.compare_digest(found.secret if found is not None else _NO_DIGEST, digest)
        is_local = hmac.compare_digest(local.secret if local is not None else _NO_DIGEST, digest)
        if is_local:
            return local
        return found if is_found and found is not None and found.is_live(self._clock.now_ms()) else None

    def expired(self, token: str) -> Grant | None:
        """The expired grant of a token, for the log; None for valid and unknown tokens."""
        digest = tokens.digest(token)
        found = None if digest is None else self._known.by_token.get(digest)
        return found if found is not None and not found.is_live(self._clock.now_ms()) else None

    def with_key(self, public: bytes, space: str | None = None) -> Grant | None:
        """The grant of a key. Of several grants for one key, the one with the highest right in this space."""
        self._look()
        now = self._clock.now_ms()
        found = [each for each in self._known.by_key.get(keys.public_text(public), ()) if each.is_live(now)]
        if space is not None:
            found = [each for each in found if each.right(space)]
        return max(found, key=lambda each: each.can, default=None)

    def right(self, grant_id: str, space: str) -> Right:
        """The current right of a grant in a space. Checked before every command and every push."""
        self._look()
        grant = self._known.by_id.get(grant_id)
        if grant is None:
            grant = self._local if grant_id == LOCAL else None
            return Right.NONE if grant is None else grant.right(space)
        if grant.expires is not None and not grant.is_live(self._clock.now_ms()):
            return Right.NONE
        return grant.right(space)

    def ls(self) -> list[Grant]:
        """The grants in the file, expired ones included, oldest first."""
        self._look(at_once=True)
        return sorted(self._known.by_id.values(), key=lambda each: (each.created, each.id))

    # --- changing ---------------------------------------------------------------------------------------------

    def create(
        self,
        *,
        space: str,
        can: Right,
        actor: str | None = None,
        any_actor: bool = False,
        lasts_ms: float | None = None,
        note: str = "",
        roles: Sequence[str] = (),
    ) -> tuple[str, Grant]:
        """Create a token and its grant. Only the hash of the token is stored."""
        token = tokens.mint()
        secret = tokens.digest(token)
        assert secret is not None
        return token, self._add(_Wanted("token", secret, space, can, actor, lasts_ms, note, any_actor, tuple(roles)))

    def add_key(
        self,
        public: bytes,
        *,
        space: str,
        can: Right,
        actor: str | None = None,
        any_actor: bool = False,
        lasts_ms: float | None = None,
        note: str = "",
        roles: Sequence[str] = (),
    ) -> Grant:
        """Register a public key: its private key is accepted from now on."""
        keys.check_public(public)
        text = keys.public_text(public)
        return self._add(_Wanted("key", text, space, can, actor, lasts_ms, note, any_actor, tuple(roles)))

    def revoke(self, grant_id: str) -> Grant:
        """Revoke a grant permanently, open connections included."""
        with locked(self._folder / "access.lock"):
            opened = grants.open_file(self._folder)
            there = [] if opened is None else opened.grants
            gone = next((each for each in there if each.id == grant_id), None)
            if gone is None:
                raise NotFoundError(f"there is no token or key with the id {grant_id!r}", id=grant_id)
            # Revoked first, even if the log has no room for a line.
            grants.write_file(self._folder, [each for each in there if each is not gone])
            self._look(at_once=True)
            self.audit.write("revoked", **_facts(gone))
        return gone

    def _add(self, wanted: _Wanted) -> Grant:
        _check(wanted)
        with locked(self._folder / "access.lock"):
            opened = grants.open_file(self._folder)
            now = self._clock.now_ms()
            there = [each for each in ([] if opened is None else opened.grants) if _is_kept(each, now)]
            taken = next((each for each in there if (each.secret, each.space) == (wanted.secret, wanted.space)), None)
            if taken is not None:
                message = f"this key is registered for {wanted.space} already, as {taken.id}; revoke that first"
                raise UsageError(message, id=taken.id, space=wanted.space)
            grant = Grant(
                id=_fresh_id({each.id for each in there}),
                kind=wanted.kind,
                secret=wanted.secret,
                space=wanted.space,
                can=wanted.can,
                actor=wanted.actor,
                created=now,
                expires=None if wanted.lasts_ms is None else Millis(now + round(wanted.lasts_ms)),
                note=wanted.note,
                any_actor=wanted.any_actor,
                roles=wanted.roles,
            )
            # Logged before it takes effect: nothing is granted without a line in the log.
            self.audit.write("granted", **_facts(grant))
            grants.write_file(self._folder, [*there, grant])
        self._look(at_once=True)
        return grant

    # --- the server's own -------------------------------------------------------------------------------------

    def admit_local(self, token: str) -> Grant:
        """Accept the local token of the server's own user: all spaces, any actor. In memory; replaces the last one."""
        secret = tokens.digest(token)
        assert secret is not None, "local_token mints them"
        now = self._clock.now_ms()
        self._local = Grant(
            LOCAL, "token", secret, EVERY_SPACE, Right.OWN, None, now, None, "this user, this machine", any_actor=True
        )
        return self._local

    @property
    def local_grant(self) -> Grant | None:
        """The grant of the server's own user, if there is one."""
        return self._local

    def dismiss_local(self) -> None:
        """Withdraw the local token, open connections included."""
        self._local = None

    # --- looking ----------------------------------------------------------------------------------------------

    def _look(self, *, at_once: bool = False) -> None:
        """Reload the file if it has changed."""
        now = self._steady()
        if now < self._look_at and not at_once:
            return
        self._look_at = now + LOOK_EVERY_MS
        try:
            found = self._identity()
            if found != self._seen:
                self._read()
        except (HeadwaterError, OSError) as error:
            # The grants are unknown, so all are refused. An error of the operating system may be temporary: the next
            # check tries again.
            self._known = _NO_GRANTS
            if isinstance(error, OSError):
                self._seen = _UNREAD
            if str(error) != self._trouble:
                self._trouble = str(error)
                _log.error("tokens and keys are refused: %s", error)

    def _identity(self) -> tuple[int, ...] | None:
        try:
            return grants.identity(machine().files.lstat(self._folder / grants.FILE))
        except FileNotFoundError:
            return None

    def _read(self) -> None:
        # Recorded before reading: a change in between leads to another read.
        found = self._identity()
        try:
            opened = grants.open_file(self._folder)
        except HeadwaterError:
            # The file stays damaged until it is changed.
            self._seen = found
            raise
        self._known = _NO_GRANTS if opened is None else _known(opened)
        self._seen = None if opened is None else opened.identity
        self._trouble = ""


def _known(opened: GrantsFile) -> _Known:
    by_key: dict[str, tuple[Grant, ...]] = {}
    for each in opened.grants:
        if each.kind == "key":
            by_key[each.secret] = (*by_key.get(each.secret, ()), each)
    return _Known(
        {each.id: each for each in opened.grants},
        {each.secret: each for each in opened.grants if each.kind == "token"},
        by_key,
        opened,
    )


def _fresh_id(taken: set[str]) -> str:
    """Short enough to be typed, and random: an id in a log is never used for another grant."""
    while True:
        made = b32encode(machine().token_bytes(7)).decode().lower()[:10]
        if made not in taken:
            return made


def _is_kept(grant: Grant, now: Millis) -> bool:
    return grant.expires is None or now < grant.expires + EXPIRED_KEPT_MS


def _facts(grant: Grant) -> dict[str, object]:
    """Facts of a grant for the log; `by` is the user of the operating system."""
    facts: dict[str, object] = {
        "id": grant.id,
        "kind": grant.kind,
        "space": grant.space,
        "can": grant.can.word,
        "actor": grant.actor,
        "any_actor": grant.any_actor or None,
        "roles": ", ".join(grant.roles) or None,
        "expires": grant.expires,
        "note": grant.note,
        "by": os.getuid(),
    }
    return facts | ({"key": grant.secret} if grant.kind == "key" else {})


def _check(wanted: _Wanted) -> None:
    """Refuse grants that could not be used, or that are ambiguous."""
    if wanted.space != EVERY_SPACE:
        check_space_name(wanted.space)
    if wanted.can is Right.NONE:
        raise UsageError("a grant of nothing is none: read, write or own is expected")
    if wanted.actor is not None:
        check_actor(wanted.actor)
        if wanted.any_actor:
            raise UsageError(f"a grant acts as {wanted.actor} or as any actor, not both", actor=wanted.actor)
    for role in wanted.roles:
        check_role(role)
    if len(set(wanted.roles)) < len(wanted.roles) or len(wanted.roles) > ROLES_MAX:
        message = f"a grant has at most {ROLES_MAX} roles, each once; {', '.join(wanted.roles)} was given"
        raise UsageError(message, roles=wanted.roles)
    if wanted.lasts_ms is not None and not 1 <= wanted.lasts_ms <= LASTS_MAX_MS:
        message = "a grant lasts from a millisecond to 100 years; leave it out for a grant that does not expire"
        raise UsageError(message, lasts_ms=wanted.lasts_ms)
    if len(wanted.note) > NOTE_MAX:
        message = f"the note has {len(wanted.note)} characters; at most {NOTE_MAX} are kept"
        raise LimitError(message, limit=NOTE_MAX)
    if not wanted.note.isprintable():
        raise UsageError(f"the note {wanted.note!r} has characters that are not seen; leave them out", note=wanted.note)
