"""The server's side of one connection: what may come when, and whether it may be asked.

Frames come in by `receive`. What is to be done with them is handed to a `Desk`, which does it in its own time and
answers by the session's methods. Rights are asked for with every frame: they may have been taken away meanwhile.

Must never know: sockets, threads, where spaces are.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, Protocol

from headwater.errors import AccessError, HeadwaterError, NameRefusedError, RemoteProtocolError, ServerLimitError
from headwater.store.commit import Absent, Commit, Note, PendingRead, Read, SetDoc, ValueIs
from headwater.store.wellformed import check_doc
from headwater.sync import frames
from headwater.sync.frames import (
    Ack,
    AskChanged,
    AskKept,
    Bye,
    FromServer,
    Hello,
    Notes,
    Open,
    Opened,
    Ping,
    Pong,
    Pull,
    Transact,
    Trouble,
    Unwatch,
    Watch,
    Welcome,
    checked,
    read_client,
)
from headwater.sync.limits import NAME_BYTES_MAX, PENDING_MAX, PREFETCH_MAX, QUESTIONS_MAX, WATCHES_MAX
from headwater.values.address import SPACE_SCOPE, Scope, session_scope, user_scope
from headwater.values.ids import BranchId, DocKey, LocalSeq, Seq, SessionId

RECEIPT: Final = "space/receipt:"
"""Documents that say that an event was handled. They are made once, and never changed."""


class Close:
    """Why a connection is closed by the server, as a WebSocket says it."""

    PROTOCOL: Final = 4400
    TOKEN: Final = 4401
    FORBIDDEN: Final = 4403
    TIMEOUT: Final = 4408
    TAKEN: Final = 4409
    REVOKED: Final = 4410
    LIMIT: Final = 4429
    RESTART: Final = 1012
    SLOW: Final = 1013


FATAL: Final = frozenset({Close.PROTOCOL, Close.TOKEN, Close.FORBIDDEN, Close.TAKEN, Close.REVOKED})
"""After these a client that comes again would be told the same."""


class State(Enum):
    """How far a connection has come."""

    NEW = "new"
    GREETED = "greeted"
    OPENING = "opening"
    OPEN = "open"
    OVER = "over"


class Desk(Protocol):
    """Whoever does what a session asks for."""

    def send(self, frame: FromServer) -> None:
        """Send a frame."""

    def close(self, code: int, reason: str) -> None:
        """End the connection."""

    def may(self, right: str) -> bool:
        """Whether the session has a right to its space now: read, write or own."""
        ...

    @property
    def head(self) -> Seq:
        """The newest place of the log that anybody was told of."""
        ...

    def open(self, asked: Open) -> None:
        """Open a space. Answered by `opened` or `refused`."""

    def submit(self, commit: Commit, notes: tuple[Note, ...]) -> None:
        """Have a commit decided. What becomes of it comes with the news."""

    def note(self, notes: tuple[Note, ...], gone: tuple[DocKey, ...]) -> None:
        """Keep what runs have read, and forget what is kept of others."""

    def look(self, asked: Watch | Pull | AskKept | AskChanged) -> None:
        """Answer a question; `answered` says that it was."""

    def unwatch(self, asked: Unwatch) -> None:
        """Tell no more of these."""

    def left(self) -> None:
        """The client will not come back."""


class ServerSession:
    """One connection of a client."""

    def __init__(self, desk: Desk, *, server: str, audience: str, nonce: bytes, limits: dict[str, int]) -> None:
        self._desk = desk
        self._server = server
        self._limits = limits
        self.audience = audience
        self.nonce = nonce
        self.state = State.NEW
        self.session: SessionId = SessionId("")
        self.branch: BranchId = BranchId("")
        self.actor = ""
        self.space = ""
        # sync.watches: what it watches, by key and by how keys begin.
        self.watched: dict[DocKey, None] = {}
        self.prefixes: dict[str, None] = {}
        self.acked = Seq(0)
        # Commits without a verdict, and questions without an answer.
        self.pending = 0
        self.questions = 0
        # What the keys of documents begin with that this session may see.
        self._own: tuple[str, ...] = ()

    # -- from the client -----------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """A frame. What the protocol does not allow ends the connection; what is refused is told."""
        if self.state is State.OVER:
            return
        try:
            self._take(read_client(data))
        except RemoteProtocolError as wrong:
            self._desk.send(Trouble(wrong.code, wrong.message))
            self._end(Close.PROTOCOL, wrong.message)

    def _take(self, frame: frames.FromClient) -> None:  # noqa: C901  # one case for each kind of frame
        if self.state is not State.OPEN:
            self._greet(frame)
            return
        if not self._desk.may("read"):
            self.revoked()
            return
        match frame:
            case Transact():
                self._answer(frame.number, lambda: self._transact(frame))
            case Watch() | Pull():
                self._answer(frame.number, lambda: self._look(frame))
            case AskKept() | AskChanged():
                self._answer(frame.number, lambda: self._ask(frame))
            case Unwatch():
                self._desk.unwatch(frame)
            case Notes():
                self._answer(0, lambda: self._note(frame))
            case Ack(seq):
                if seq > self._desk.head:
                    raise RemoteProtocolError(f"{seq} was acknowledged; the newest is {self._desk.head}")
                self.acked = max(self.acked, Seq(seq))
            case Ping(number):
                self._desk.send(Pong(number))
            case Bye():
                self._desk.left()
                self._end(1000, "bye")
            case Hello() | Open():
                raise RemoteProtocolError(f"{_kind(frame)} came twice")

    def _greet(self, frame: frames.FromClient) -> None:
        match self.state, frame:
            case State.NEW, Hello(versions):
                if frames.VERSION not in versions:
                    spoken = ", ".join(map(str, versions[:8])) or "none"
                    message = f"this server speaks version {frames.VERSION} of the protocol; the client {spoken}"
                    raise RemoteProtocolError(message)
                self.state = State.GREETED
                self._desk.send(Welcome(frames.VERSION, self._server, self.nonce, self.audience, self._limits))
            case State.GREETED, Open():
                if max(len(frame.actor), len(frame.session), len(frame.branch)) > NAME_BYTES_MAX:
                    raise RemoteProtocolError(f"a name of more than {NAME_BYTES_MAX} characters")
                self.state = State.OPENING
                self._desk.open(frame)
            case State.NEW, _:
                raise RemoteProtocolError(f"hello is expected first; {_kind(frame)} came")
            case State.GREETED, _:
                raise RemoteProtocolError(f"open is expected; {_kind(frame)} came")
            case _:
                raise RemoteProtocolError(f"{_kind(frame)} came before the space was open")

    def _answer(self, number: int, do: object) -> None:
        """Do it, or tell that it is not done: the connection goes on."""
        try:
            do()  # type: ignore[operator]  # a function of no arguments
        except RemoteProtocolError:
            raise
        except HeadwaterError as refused:
            again = isinstance(refused, ServerLimitError)
            self._desk.send(Trouble(refused.code, refused.message, number, again))

    # -- commands ------------------------------------------------------------------------------------------

    def _transact(self, frame: Transact) -> None:
        self._need("write")
        if self.pending >= self._limits.get("pending", PENDING_MAX):
            raise ServerLimitError(f"{self.pending} commits of this session wait already; wait for their verdicts")
        operations = tuple(map(checked, frame.operations))
        absent = {each.doc for each in frame.conditions if isinstance(each, Absent)}
        for operation in operations:
            self._check(operation.doc)
            if operation.doc.startswith(RECEIPT) and not (type(operation) is SetDoc and operation.doc in absent):
                message = f"{operation.doc} says that an event was handled: it is made once, under `absent`"
                raise AccessError(message, doc=operation.doc)
        for condition in frame.conditions:
            if isinstance(condition, Absent | ValueIs):
                self._check(condition.doc)
        self._check_reads(frame.reads, frame.rests)
        seen = frame.seen
        if seen is not None and not 0 <= seen[0] < max(len(operations), 1):
            raise RemoteProtocolError(f"operation {seen[0]} is said to be a result; there are {len(operations)}")
        commit = Commit(
            self.session,
            LocalSeq(frame.number),
            operations,
            frame.reads,
            frame.rests,
            frame.conditions,
            self.branch,
            seen,
        )
        if not frame.number:
            raise RemoteProtocolError("commits are numbered from 1")
        notes = self._notes(frame.notes)
        self.pending += 1
        self._desk.submit(commit, notes)

    def _notes(
        self, told: tuple[tuple[DocKey, bytes, tuple[Read, ...], tuple[PendingRead, ...]], ...]
    ) -> tuple[Note, ...]:
        notes = []
        for doc, body, reads, rests in told:
            self._check(doc)
            self._check_reads(reads, rests)
            basis = Commit(self.session, LocalSeq(0), (), reads, rests, (), self.branch)
            notes.append(Note(doc, body, basis))
        return tuple(notes)

    def _note(self, frame: Notes) -> None:
        self._need("write")
        for doc in frame.gone:
            self._check(doc)
        self._desk.note(self._notes(frame.notes), frame.gone)

    def _look(self, frame: Watch | Pull) -> None:
        self._need("read")
        self._check_questions()
        docs = [doc if isinstance(doc, str) else doc[0] for doc in frame.docs]
        for doc in docs:
            self._check(doc)
        for prefix in frame.prefixes:
            self._check_prefix(prefix)
        if frame.at is not None:
            self._check_place(Seq(frame.at))
        if frame.follow > PREFETCH_MAX:
            raise ServerLimitError(f"links lead to at most {PREFETCH_MAX:,} documents in one question")
        most = self._limits.get("watches", WATCHES_MAX)
        if isinstance(frame, Watch) and len(self.watched) + len(docs) > most:
            raise ServerLimitError(f"one session may watch {most:,} documents; unwatch some first")
        self.questions += 1
        self._desk.look(frame)

    def _ask(self, frame: AskKept | AskChanged) -> None:
        self._need("read")
        self._check_questions()
        if isinstance(frame, AskKept):
            self._check_prefix(frame.prefix)
            for doc in (*frame.besides, *frame.rows):
                self._check(doc)
        else:
            self._check(frame.doc)
        self.questions += 1
        self._desk.look(frame)

    # -- what may be asked ---------------------------------------------------------------------------------

    def may_see(self, doc: DocKey) -> bool:
        """Whether a document is the space's, or of this user or session."""
        return doc.startswith(self._own)

    def _check(self, doc: DocKey) -> None:
        try:
            check_doc(doc)
        except NameRefusedError as refused:
            raise RemoteProtocolError(refused.message) from None
        if not doc.startswith(self._own):
            raise AccessError("there is no such document", doc=doc)

    def _check_reads(self, reads: tuple[Read, ...], rests: tuple[PendingRead, ...]) -> None:
        for read in reads:
            self._check(read.doc)
            self._check_place(read.seq)
        for rest in rests:
            self._check(rest.doc)
            self._check_place(rest.basis)

    def _check_prefix(self, prefix: str) -> None:
        if not prefix.startswith(self._own):
            raise AccessError("there are no such documents", prefix=prefix)

    def _check_place(self, seq: Seq) -> None:
        if not 0 <= seq <= self._desk.head:
            raise RemoteProtocolError(f"{seq} is no place of the log that this client can know of")

    def _check_questions(self) -> None:
        if self.questions >= QUESTIONS_MAX:
            raise ServerLimitError(f"{self.questions} questions of this session are being answered; wait for some")

    def _need(self, right: str) -> None:
        if not self._desk.may(right):
            raise AccessError(f"space {self.space!r} may not be used so: the right to {right} it is missing")

    # -- from the desk -------------------------------------------------------------------------------------

    def opened(self, frame: Opened, branch: BranchId) -> None:
        """The space is open for this client."""
        self.session, self.actor, self.space, self.branch = frame.session, frame.actor, frame.space, branch
        own: list[Scope] = [SPACE_SCOPE]
        if frame.actor:
            own += [user_scope(frame.actor), session_scope(frame.actor, frame.session)]
        self._own = tuple(f"{scope.text}/" for scope in own)
        self.state = State.OPEN
        self._desk.send(frame)

    def refused(self, error: HeadwaterError, code: int = Close.FORBIDDEN, *, again: bool = False) -> None:
        """It is not opened."""
        if self.state is not State.OVER:
            self._desk.send(Trouble(error.code, error.message, 0, again))
            self._end(code, error.message)

    def answered(self) -> None:
        """A question was answered."""
        self.questions -= 1

    def judged(self, count: int) -> None:
        """So many commits of this session were decided."""
        self.pending = max(self.pending - count, 0)

    def revoked(self) -> None:
        """It may see nothing of the space any more."""
        if self.state is not State.OVER:
            self._desk.send(Trouble(AccessError.code, f"space {self.space!r} may not be used any more"))
            self._end(Close.REVOKED, "revoked")

    def taken_over(self) -> None:
        """Another connection goes on with the session."""
        if self.state is not State.OVER:
            self._desk.send(Trouble("HW404", "another connection goes on with this session"))
            self._end(Close.TAKEN, "taken over")

    def lost(self) -> None:
        """The connection is gone."""
        self.state = State.OVER

    def _end(self, code: int, reason: str) -> None:
        self.state = State.OVER
        self._desk.close(code, reason.encode()[:120].decode(errors="ignore"))


def _kind(frame: frames.FromClient) -> str:
    return str(type(frame).__struct_config__.tag)
