"""One connected client: between its protocol session and the channel of its space."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from headwater.access.grants import Grant
from headwater.access.rights import WORDS, Right
from headwater.errors import (
    AccessError,
    ClosedError,
    HeadwaterError,
    RuleError,
    SessionLostError,
    UnavailableError,
)
from headwater.server.server_limits import BEHIND
from headwater.server.spaces.channel import CANNOT_WRITE, Channel
from headwater.server.spaces.looks import Looks
from headwater.store.collection_record import CollectionRecord, kind_of
from headwater.store.collection_rules import Access
from headwater.store.commit import Commit, NewObservation, Refused
from headwater.sync.actor_names import check_actor
from headwater.sync.frames import (
    INSPECT,
    FromServer,
    Open,
    SpaceOpened,
    Unwatch,
    encode_frame,
)
from headwater.sync.server_port import Question
from headwater.sync.server_session import Close, ServerSession, ServerState
from headwater.values.ids import BranchId, DocKey, Seq, SessionId

if TYPE_CHECKING:
    from headwater.server.spaces.served_spaces import ServedSpaces

log: Final = logging.getLogger("headwater.server")

UNKNOWN = "there is no such space, or it may not be used with this token or key"
"""One answer for both cases: a client without access does not learn whether the space exists."""


def _nothing(*_said: object) -> None:
    """Discard a frame for a connection that has ended."""


def rights_unknown() -> UnavailableError:
    """The error while the grants cannot be read."""
    return UnavailableError("the server cannot read its grants now, so no client is let in; try again")


class ClientConnection:
    """An authenticated connection. `write` sends an encoded frame."""

    def __init__(
        self,
        spaces: ServedSpaces,
        grant: Grant | None,
        *,
        peer: str,
        write: Callable[[bytes], None],
        push: Callable[[bytes], None],
        flush: Callable[[], None],
        shut: Callable[[int, str], None],
        answer: Callable[[bytes], None] | None = None,
        admit: Callable[[Grant], None] | None = None,
    ) -> None:
        self._spaces = spaces
        self._grant = grant
        self.peer = peer
        self._write = write
        # Buffers a frame until `flush` is called.
        self._push = push
        self._flush = flush
        # Sends answers, which may be larger than pushed frames.
        self._answer = answer or write
        self._shut = shut
        # Called with the grant of the client.
        self._admit = admit
        self.channel: Channel | None = None
        # Questions: one is answered at a time, and none while earlier answers are unread.
        self._asked: deque[Question] = deque()
        self._is_answering = False
        self._is_full = False
        self._epoch = 0
        # Kinds of refusals for lack of a right: each is logged once.
        self._denied: set[str] = set()
        # Why the server ended the connection, if it did.
        self._ended: tuple[int, str] | None = None
        self.talk = ServerSession(
            self, server=spaces.server, audience=spaces.audience, nonce=spaces.nonce(), limits=spaces.limits
        )
        self.session: SessionId = SessionId("")
        # Whether its program answers questions about its functions, and those without an answer.
        self.inspects = False
        self.looks = Looks(self.send)
        self.talk.on_seen = self.looks.seen
        self.watched = self.talk.watched
        self.prefixes = self.talk.prefixes
        self.spans = self.talk.spans

    def __repr__(self) -> str:
        return f"<{self.talk.actor or 'no actor'} in {self.talk.space!r}>"

    @property
    def grant_id(self) -> str | None:
        """The id of its grant; None before authentication."""
        return None if self._grant is None else self._grant.id

    # -- what the session asks for -------------------------------------------------------------------------

    @property
    def head(self) -> Seq:
        """The newest sequence number sent to any client."""
        assert self.channel is not None
        return self.channel.head

    def send(self, frame: FromServer) -> None:
        """Send a frame."""
        self._write(encode_frame(frame))

    def push(self, frame: bytes) -> None:
        """Buffer an encoded frame until `flush`."""
        self._push(frame)

    def flush(self) -> None:
        """Send what was buffered."""
        self._flush()

    def close(self, code: int, reason: str) -> None:
        """End the connection."""
        self._ended = code, reason
        self.leave()
        self._shut(code, reason)

    def may(self, right: str) -> bool:
        """Whether its grant has the right now."""
        return self._grant is not None and self._spaces.right(self._grant, self.talk.space) >= WORDS[right]

    @property
    def knows_rights(self) -> bool:
        """Whether the grants can be read now."""
        return self._spaces.access.is_known

    def may_create(self, space: str) -> bool:
        """Whether it may create a missing space: with the right `own` only."""
        return self._grant is not None and self._spaces.right(self._grant, space) >= Right.OWN

    def may_see(self, doc: DocKey) -> bool:
        """Whether a document is in one of its own scopes."""
        return self.talk.may_see(doc)

    def _access(self, *, force: bool = False) -> Access:
        """What the session may do now."""
        grant = self._grant
        right = Right.NONE if grant is None else self._spaces.right(grant, self.talk.space)
        roles = frozenset(grant.roles if grant is not None else ())
        is_owner = right >= Right.OWN
        return Access(right >= Right.WRITE, is_owner, roles, self.talk.actor, force and is_owner)

    @property
    def has_rules(self) -> bool:
        """Whether a collection of its branch has rules."""
        return self.channel is not None and bool(self.channel.rules.kinds(self.talk.branch))

    @property
    def has_roles(self) -> bool:
        """Whether its grant has roles."""
        return self._grant is not None and bool(self._grant.roles)

    def may_read(self, kind: str) -> bool:
        """Whether it may read the documents of a collection now."""
        if not self.has_rules:
            return True
        assert self.channel is not None
        return self.channel.rules.may_read(self.talk.branch, kind, self._access())

    def may_change(self, kind: str) -> bool:
        """Whether it may write anything of a collection now, by its rules."""
        if not self.has_rules:
            return True
        assert self.channel is not None
        return self.channel.rules.may_change(self.talk.branch, kind, self._access())

    def collection(self, kind: str) -> CollectionRecord | None:
        """The record of a collection of its branch; None if there is none."""
        assert self.channel is not None
        return self.channel.rules.record(self.talk.branch, kind)

    def refused(self, verdict: Refused) -> None:
        """Record a commit that was refused for lack of a right."""
        if verdict.code in (RuleError.code, AccessError.code):
            what = "transact" if verdict.doc is None else f"transact {kind_of(verdict.doc)}".strip()
            self.denied(what, RuleError(verdict.reason))

    def submit(self, commit: Commit, notes: tuple[NewObservation, ...], *, force: bool) -> None:
        """Submit a commit."""
        assert self.channel is not None
        try:
            self.channel.submit(commit, notes, self._access(force=force))
        except ClosedError:
            # No verdict: the client sends the commit again over its next connection.
            self.talk.turned_away(CANNOT_WRITE)

    def note(self, notes: tuple[NewObservation, ...], gone: tuple[DocKey, ...]) -> None:
        """Store observations of runs."""
        assert self.channel is not None
        self.channel.note(notes, self.talk.branch, gone)

    def look(self, asked: Question) -> None:
        """Queue a question."""
        self._asked.append(asked)
        self._answer_next()

    def _answer_next(self) -> None:
        if self._asked and not self._is_answering and not self._is_full and self.channel is not None:
            self._is_answering = True
            self.channel.look(self, self._asked.popleft())

    def reply(self, frame: bytes) -> None:
        """Send the answer to the current question."""
        self._is_answering = False
        self._answer(frame)
        self._answer_next()

    def full(self, *, is_full: bool) -> None:
        """Whether many sent bytes are unread."""
        self._is_full = is_full
        self._answer_next()

    @property
    def is_behind(self) -> bool:
        """Whether too many commits wait for the disk."""
        return self.channel is not None and len(self.channel.since) > BEHIND

    def unwatch(self, asked: Unwatch) -> None:
        """End watches."""
        assert self.channel is not None
        self.channel.unwatch(self, asked.docs, asked.prefixes)

    def unspan(self, numbers: tuple[int, ...]) -> None:
        """End watches of spans."""
        assert self.channel is not None
        self.channel.unspan(self, numbers)

    def denied(self, asked: str, error: HeadwaterError) -> None:
        """Record a refused attempt."""
        if asked not in self._denied:
            self._denied.add(asked)
            talk = self.talk
            self._spaces.audit("denied", self, space=talk.space, actor=talk.actor, asked=asked, why=error.message)

    def left(self) -> None:
        """Forget its session: the client will not reconnect."""
        self._spaces.proofs.forget(self.session)

    # -- opening -------------------------------------------------------------------------------------------

    def open(self, asked: Open) -> None:
        """Open the space, in a thread: that may read from the disk."""
        try:
            self._grant = self._spaces.admitted(self, asked, self._grant)
            if self._admit is not None:
                self._admit(self._grant)
            actor = self._actor(asked.actor)
            if asked.session or asked.resume:
                epoch = self._spaces.proofs.check(
                    asked.resume, asked.space, asked.branch, actor, asked.session, asked.attempt
                )
                if epoch is None:
                    lost = SessionLostError(
                        "this session cannot be continued: another client has it, or the proof is invalid"
                    )
                    self._spaces.audit("refused", self, space=asked.space, why=lost.message)
                    self.talk.refused(lost, Close.TAKEN)
                    return
                self._epoch, session = epoch, asked.session
            else:
                session = SessionId(self._spaces.entropy.token())
        except UnavailableError as error:
            self.talk.refused(error, Close.RESTART, again=True)
            return
        except HeadwaterError as error:
            self._spaces.refuse(self, asked.space, error)
            return
        self._spaces.enter(self, asked, actor, session)

    def _actor(self, asked: str) -> str:
        assert self._grant is not None
        return acting_as(self._grant, asked)

    def entered(self, channel: Channel, asked: Open, actor: str, session: SessionId, last: int) -> None:
        """Continue after the space was opened."""
        if self.talk.state is ServerState.OVER:
            return
        if not self._spaces.proofs.is_newest(session, self._epoch, asked.attempt):
            # The client reconnected while the space was being opened: this connection is obsolete.
            self.talk.taken_over()
            return
        if channel.is_broken:
            # The disk failed, or the space was closed, while this client came: the next one opens the file again.
            self.talk.turned_away(CANNOT_WRITE)
            return
        right = self._spaces.right(self._grant, asked.space) if self._grant is not None else Right.NONE
        if right < Right.READ:
            # The right ended while the space was being opened.
            if self.knows_rights:
                self._spaces.refuse(self, asked.space, AccessError(UNKNOWN))
            else:
                self.talk.refused(rights_unknown(), Close.RESTART, again=True)
            return
        try:
            self._spaces.access.audit.write("opened", peer=self.peer, id=self.grant_id, space=asked.space, actor=actor)
        except (HeadwaterError, OSError) as error:
            # Logins must be in the audit log: until it can be written, none is accepted.
            log.error("the audit log cannot be written: %s", error)  # noqa: TRY400  # it says all there is to say
            message = f"space {asked.space!r} cannot be opened now; the server's log says why"
            self.talk.refused(UnavailableError(message), Close.RESTART, again=True)
            return
        self.channel, self.session = channel, session
        self.inspects = asked.inspect and INSPECT in self.talk.can
        said = {"peer": self.peer, "actor": actor, "space": asked.space, "session": session}
        log.info("session opened", extra={**said, "again": self._epoch})
        branch = BranchId(asked.branch)
        space_id, lineage = channel.storage.identity
        resume = self._spaces.proofs.make(asked.space, branch, actor, session, self._epoch, lineage)
        # Register first: that closes the earlier connection of the session.
        self.talk.session, self.talk.branch = session, branch
        channel.enter(self)
        self.talk.space, self.talk.actor = asked.space, actor
        writes = right < Right.WRITE and any(map(self.may_change, channel.rules.kinds(branch)))
        opened = SpaceOpened(
            asked.space, session, resume, channel.head, actor, right.word, last, space_id, lineage, writes
        )
        self.talk.opened(opened, branch)

    def leave(self) -> None:
        """The connection has ended. Idempotent."""
        self.talk.lost()
        channel, self.channel = self.channel, None
        self._asked.clear()
        self.looks.end()
        if channel is not None:
            channel.leave(self)
            code, why = self._ended or (0, "")
            event = "session revoked" if code == Close.REVOKED else "session closed"
            log.info(event, extra={**self.said(), "code": code, "why": why})

    def let_go(self) -> None:
        """Drop references after the end, to avoid reference cycles."""
        self._write = self._answer = self._push = self._flush = _nothing
        self._shut = _nothing
        self._admit = None

    def said(self) -> dict[str, object]:
        """Identification for the log, without secrets."""
        talk = self.talk
        return {"peer": self.peer, "actor": talk.actor, "space": talk.space, "session": self.session}


def acting_as(grant: Grant, asked: str) -> str:
    """The actor of a grant, or the requested actor if the grant allows it. Raises AccessError."""
    if grant.actor is not None and asked not in ("", grant.actor):
        raise AccessError(f"the token or key is {grant.actor}'s; it cannot act as {asked}")
    if asked and grant.actor is None and not grant.any_actor:
        message = f"the token or key names no actor, so it cannot act as {asked}; open the space without actor=..."
        raise AccessError(f"{message}, or use a token of `headwater token create --actor NAME` (or --any-actor)")
    actor = asked or grant.actor or ""
    if actor:
        check_actor(actor)
    return actor
