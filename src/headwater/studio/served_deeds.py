"""The deeds of the Server screen: tokens, sessions and backups. Each has a line in the audit log, also when refused."""

from __future__ import annotations

from shlex import quote
from typing import Final, TypeAlias

from headwater.access.grants import Grant
from headwater.access.rights import EVERY_SPACE, WORDS, Right
from headwater.errors import AccessError, NotFoundError, UsageError
from headwater.server.authenticator import Authenticator
from headwater.studio.answers import DeedReport, IntentView
from headwater.studio.deeds import BackupDeed, SessionDeed, TokenDeed
from headwater.studio.served_screen import LOGIN, check_owns_all, find_client
from headwater.values.duration import to_ms

ServerDeed: TypeAlias = TokenDeed | SessionDeed | BackupDeed

ENDED: Final = "an owner of the space has ended this session; connect again"


def check_deed(authenticator: Authenticator, grant: Grant, deed: ServerDeed, space: str) -> None:
    """Raise AccessError unless the grant may do this."""
    match deed:
        case TokenDeed():
            check_owns_all(authenticator, grant)
        case BackupDeed():
            if authenticator.spaces.right(grant, space) < Right.OWN:
                raise AccessError(f"a backup of {space} takes a token that owns the space", space=space)
        case SessionDeed():
            # Found only if it may be ended.
            pass


def intent(authenticator: Authenticator, deed: ServerDeed, space: str, url: str) -> IntentView:
    """What a deed is about to do. Raises UsageError, NotFoundError."""
    match deed:
        case TokenDeed(act="create"):
            rights = _rights(deed)
            where = "every space" if deed.every else f"the space {space}"
            whom = "any user" if deed.any_actor else deed.actor
            sentence = f"Create a token that can {rights.word} {where}{f' as {whom}' if whom else ''}"
            roles = f" with the role {', '.join(deed.roles)}" if deed.roles else ""
            until = f"; it expires after {deed.expires}" if deed.expires else "; it does not expire"
            return _intent(f"{sentence}{roles}{until}", command_of(deed, space, url), "Create token", asks=False)
        case TokenDeed():
            grant = _found(authenticator, deed.id)
            where = "every space" if grant.space == EVERY_SPACE else f"the space {grant.space}"
            sentence = (
                f"Revoke {grant.kind} {grant.id}{f' ({grant.note})' if grant.note else ''}, which can {grant.can.word} "
                f"{where}: its connections end at once, and it never works again"
            )
            return _intent(sentence, command_of(deed, space, url), f"Revoke {grant.id}", asks=True)
        case SessionDeed():
            what = "the login" if deed.id.startswith(LOGIN) else "the session of a client; its program connects again"
            return _intent(f"End {what}", "", "End session", asks=True)
        case BackupDeed():
            sentence = f"Download a copy of the whole space {space}"
            return _intent(sentence, command_of(deed, space, url), "Download", asks=False)


def _intent(sentence: str, command: str, button: str, *, asks: bool) -> IntentView:
    return IntentView(sentence=sentence, command=command, button=button, asks=asks, allowed=True, why_not="")


def command_of(deed: ServerDeed, space: str, url: str) -> str:
    """The same deed on the command line of the server's machine; empty: there is none."""
    match deed:
        case TokenDeed(act="create"):
            words = ["--space", "*" if deed.every else space, "--can", deed.rights]
            words += ["--actor", deed.actor] if deed.actor else []
            words += ["--any-actor"] if deed.any_actor else []
            words += [word for role in deed.roles for word in ("--role", role)]
            words += ["--expires", deed.expires] if deed.expires else []
            words += ["--note", deed.note] if deed.note else []
            return " ".join(["headwater token create", *map(quote, words)])
        case TokenDeed():
            return f"headwater token revoke {quote(deed.id)}"
        case BackupDeed():
            return f"headwater backup FILE.db --url {quote(url)}"
        case SessionDeed():
            return ""


def _rights(deed: TokenDeed) -> Right:
    right = WORDS.get(deed.rights)
    if right is None:
        raise UsageError(f"{deed.rights!r} is no right: read, write or own is expected", rights=deed.rights)
    return right


def _found(authenticator: Authenticator, grant_id: str) -> Grant:
    found = next((each for each in authenticator.spaces.access.ls() if each.id == grant_id), None)
    if found is None:
        raise NotFoundError(f"there is no token or key with the id {grant_id!r}", id=grant_id)
    return found


def carry_out_token(authenticator: Authenticator, deed: TokenDeed, space: str) -> DeedReport:
    """Create or revoke. Writes files: not in the loop."""
    access = authenticator.spaces.access
    command = command_of(deed, space, "")
    if deed.act == "revoke":
        gone = access.revoke(deed.id)
        return DeedReport(sentence=f"{gone.kind} {gone.id} is revoked; its connections end", command=command)
    where = EVERY_SPACE if deed.every else space
    token, grant = access.create(
        space=where,
        can=_rights(deed),
        actor=deed.actor or None,
        any_actor=deed.any_actor,
        lasts_ms=to_ms(deed.expires, "expires") if deed.expires else None,
        note=deed.note,
        roles=deed.roles,
    )
    sentence = f"token {grant.id} was created; it is shown once, here, and never again"
    return DeedReport(sentence=sentence, command=command, secret=token)


def end_client(authenticator: Authenticator, grant: Grant, deed: SessionDeed) -> DeedReport:
    """End the connection of a client. In the loop. Raises NotFoundError."""
    socket = find_client(authenticator, grant, deed.id)
    if socket is None or socket.client is None:
        raise NotFoundError(f"there is no session {deed.id}; it may have ended", id=deed.id)
    talk = socket.client.talk
    actor, space = talk.actor or "no actor", talk.space
    talk.turned_away(ENDED)
    sentence = f"the session of {actor} in {space} has ended; its program connects again while its token is valid"
    return DeedReport(sentence=sentence, command="")
