"""The server side of a connection, without sockets.

Frames come in by `receive`. A `ServerPort` carries them out in its own time, and answers through the methods of the
session. Rights are checked for every frame: they may have been revoked.

Length: one session, from its first frame to its last. The rules for each frame belong together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import Final

from msgspec.structs import replace

from headwater.errors import AccessError, HeadwaterError, QueryError, RemoteProtocolError, ServerLimitError
from headwater.store.collection_record import CollectionRecord, kind_of, kind_of_index
from headwater.store.commit import (
    Absent,
    Commit,
    NewObservation,
    Operation,
    OriginCommitted,
    Seen,
    SetDoc,
    SpanRead,
    ValueIs,
)
from headwater.sync import frames
from headwater.sync.frame_limits import (
    NAME_BYTES_MAX,
    PARTS_MAX,
    PENDING_BYTES_MAX,
    PENDING_MAX,
    PREFETCH_MAX,
    PREFIXES_MAX,
    QUESTIONS_MAX,
    SPANS_MAX,
    WATCHES_MAX,
)
from headwater.sync.frames import (
    Ack,
    AskChanged,
    AskObservations,
    AskShifted,
    Bye,
    ErrorFrame,
    Hello,
    LookAnswer,
    Open,
    Ping,
    Pong,
    Pull,
    PutObservations,
    SeenSpan,
    SpaceOpened,
    SpanKeys,
    Transact,
    Unspan,
    Unwatch,
    Watch,
    WatchSpan,
    Welcome,
    checked,
    read_client,
)
from headwater.sync.server_port import Question, ServerPort
from headwater.sync.session_scope import SessionScope, check_bounds, check_place
from headwater.sync.span_watches import WatchedSpan
from headwater.values.ids import BranchId, DocKey, LocalSeq, Seq, SessionId

RECEIPT: Final = "space/receipt:"
"""Receipts of events. They are created once, and never changed."""


class Close:
    """Why the server closes a connection, as a WebSocket close code."""

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
"""After these, a client that connects again would get the same answer."""


class TurnedAwayError(Exception):
    """The rest of a frame is not handled: the connection was closed. Never leaves this module."""


class ServerState(Enum):
    """The state of a connection."""

    NEW = "new"
    GREETED = "greeted"
    OPENING = "opening"
    OPEN = "open"
    OVER = "over"


class ServerSession:
    """One connection of a client."""

    def __init__(self, desk: ServerPort, *, server: str, audience: str, nonce: bytes, limits: dict[str, int]) -> None:
        self._desk = desk
        self._server = server
        self._limits = limits
        self.audience = audience
        self.nonce = nonce
        self.state = ServerState.NEW
        self.session: SessionId = SessionId("")
        self.branch: BranchId = BranchId("")
        self.actor = ""
        self.space = ""
        # sync.watches: the watched documents, by key and by prefix.
        self.watched: dict[DocKey, None] = {}
        self.prefixes: dict[str, None] = {}
        # sync.span_watches: the watched spans, by number.
        self.spans: dict[int, WatchedSpan] = {}
        self.acked = Seq(0)
        # The extensions that both sides know.
        self.can: frozenset[str] = frozenset()
        # The newest commit of the session that was decided before this connection.
        self._last = 0
        # Commits without a verdict, with their bytes; and the sum of the bytes.
        self.pending = 0
        self._sizes: deque[int] = deque()
        self._pending_bytes = 0
        # Requests without an answer, and how many documents they name; and the numbers of those for spans, else 0.
        self.questions = 0
        self._named: deque[int] = deque()
        self._span_numbers: deque[int] = deque()
        self._reach = SessionScope()
        # Takes the answers to looks, by number. None: nothing is asked.
        self.on_seen: Callable[[int, str], None] | None = None

    # -- from the client -----------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Receive a frame. A violation of the protocol ends the connection; a refused request gets an error frame."""
        if self.state is ServerState.OVER:
            return
        try:
            self._take(read_client(data), len(data))
        except TurnedAwayError:
            # The connection is closed; the client sends the frame again over the next one.
            pass
        except RemoteProtocolError as wrong:
            self._desk.send(ErrorFrame(wrong.code, wrong.message))
            self._end(Close.PROTOCOL, wrong.message)

    def _take(self, frame: frames.FromClient, size: int) -> None:  # noqa: C901  # one case for each kind of frame
        if self.state is not ServerState.OPEN:
            self._greet(frame)
            return
        if not self._desk.may("read"):
            self.revoked()
            return
        match frame:
            case Transact():
                self._answer(frame, lambda: self._transact(frame, size))
            case Watch() | Pull() | AskObservations() | AskChanged() | WatchSpan() | AskShifted():
                self._answer(frame, lambda: self._ask(frame))
            case Unwatch() | Unspan():
                self._unwatch(frame)
            case PutObservations():
                # No answer is expected: an observation that may not be stored is dropped.
                with suppress(AccessError):
                    self._note(frame)
            case LookAnswer():
                self._take_seen(frame)
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

    def _take_seen(self, frame: LookAnswer) -> None:
        if frames.INSPECT not in self.can:
            raise RemoteProtocolError("seen is of the extension inspect, which was not named")
        if self.on_seen is not None:
            self.on_seen(frame.number, frame.answer)

    def _greet(self, frame: frames.FromClient) -> None:
        match self.state, frame:
            case ServerState.NEW, Hello(versions, _, can):
                if frames.VERSION not in versions:
                    spoken = ", ".join(map(str, versions[:8])) or "none"
                    message = f"this server speaks version {frames.VERSION} of the protocol; the client {spoken}"
                    raise RemoteProtocolError(message)
                self.state = ServerState.GREETED
                self.can = frozenset(can) & frozenset(frames.EXTENSIONS)
                greeting = Welcome(
                    frames.VERSION, self._server, self.nonce, self.audience, self._limits, frames.EXTENSIONS
                )
                self._desk.send(greeting)
            case ServerState.GREETED, Open():
                if max(len(frame.session), len(frame.branch)) > NAME_BYTES_MAX:
                    raise RemoteProtocolError(f"a name of more than {NAME_BYTES_MAX} characters")
                self.state = ServerState.OPENING
                self._desk.open(frame)
            case ServerState.NEW, _:
                raise RemoteProtocolError(f"hello is expected first; {_kind(frame)} came")
            case ServerState.GREETED, _:
                raise RemoteProtocolError(f"open is expected; {_kind(frame)} came")
            case _:
                raise RemoteProtocolError(f"{_kind(frame)} came before the space was open")

    def _answer(self, frame: Transact | Question, do: object) -> None:
        """Carry out a request, or send its error: the connection stays open."""
        try:
            do()  # type: ignore[operator]  # a function of no arguments
        except RemoteProtocolError:
            raise
        except HeadwaterError as refused:
            if isinstance(refused, AccessError):
                self._desk.denied(_kind(frame), refused)
            again = isinstance(refused, ServerLimitError)
            self._desk.send(ErrorFrame(refused.code, refused.message, frame.number, again))

    # -- commands ------------------------------------------------------------------------------------------

    def _transact(self, frame: Transact, size: int) -> None:
        is_told_again = frame.number <= self._last
        may_write = self._desk.may("write")
        if is_told_again or may_write or not (self._desk.has_roles and self._desk.has_rules):
            self._need("read" if is_told_again else "write")
        if frame.force:
            self._need("own")
        self._check_size(frame)
        operations = self._checked_operations(frame)
        self._reach.check_reads(frame.reads, frame.rests, self._desk.head, frame.number)
        reads, rests, spans = frame.reads, frame.rests, self._checked_spans(frame, frame.spans, frame.number)
        if self._desk.has_rules:
            # What is hidden does not exist for the session, and so does not change.
            reads = tuple(each for each in reads if self.may_see(each.doc))
            rests = tuple(each for each in rests if self.may_see(each.doc))
        # A commit that was decided before can follow from itself: only its verdict is sent again.
        itself = (OriginCommitted(LocalSeq(frame.number)),) if is_told_again else ()
        commit = Commit(
            self.session,
            LocalSeq(frame.number),
            operations,
            reads,
            rests,
            (*frame.conditions, *itself),
            self.branch,
            self._checked_seen(frame) if may_write else None,
            spans,
        )
        if not frame.number:
            raise RemoteProtocolError("commits are numbered from 1")
        # The verdicts of decided commits are sent even if the right was revoked since: nothing changes any more.
        notes = () if is_told_again or not may_write else self._notes(frame, frame.note_spans)
        self.pending += 1
        self._sizes.append(size)
        self._pending_bytes += size
        self._desk.submit(commit, notes, force=frame.force)

    def _checked_operations(self, frame: Transact) -> tuple[Operation, ...]:
        """The operations of a commit, if the session may name all documents that it writes or has conditions on."""
        operations = tuple(map(checked, frame.operations))
        absent = {each.doc for each in frame.conditions if isinstance(each, Absent)}
        for operation in operations:
            self._reach.check(operation.doc)
            kind = kind_of(operation.doc)
            if not (self._desk.may_read(kind) or self._desk.may_change(kind)):
                raise AccessError("there is no such document", doc=operation.doc)
            if operation.doc.startswith(RECEIPT) and not (type(operation) is SetDoc and operation.doc in absent):
                message = f"{operation.doc} says that an event was handled: it is made once, under `absent`"
                raise AccessError(message, doc=operation.doc)
        for condition in frame.conditions:
            if isinstance(condition, Absent | ValueIs):
                self._reach.check(condition.doc)
                if isinstance(condition, ValueIs) and not self.may_see(condition.doc):
                    raise AccessError("there is no such document", doc=condition.doc)
            elif not 0 < condition.local_seq < frame.number:
                raise RemoteProtocolError(f"commit {frame.number} cannot follow from commit {condition.local_seq}")
        return operations

    def _checked_seen(self, frame: Transact) -> Seen | None:
        """The observation of a run, if the session may see all that it names."""
        seen = frame.seen
        if seen is None:
            return None
        if not 0 <= seen[0] < max(len(frame.operations), 1):
            message = f"operation {seen[0]} is said to be a result; there are {len(frame.operations)}"
            raise RemoteProtocolError(message)
        is_seen = all(self.may_see(each.doc) for each in frame.operations) and self._reach.holds_all_of(seen[1])
        return seen if is_seen else None

    def _check_size(self, frame: Transact) -> None:
        if self.pending >= self._limits.get("pending", PENDING_MAX) or self._pending_bytes > PENDING_BYTES_MAX:
            raise ServerLimitError(f"{self.pending} commits of this session wait already; wait for their verdicts")
        parts = len(frame.operations) + len(frame.reads) + len(frame.rests) + len(frame.conditions) + len(frame.notes)
        parts += _parts_of(frame.spans) + sum(map(_parts_of, frame.note_spans))
        if parts > PARTS_MAX:
            message = f"a commit has at most {PARTS_MAX:,} operations, reads and conditions, not {parts:,}"
            raise ServerLimitError(message)

    def _checked_spans(
        self, frame: Transact | PutObservations, spans: tuple[SpanRead, ...], number: int | None = None
    ) -> tuple[SpanRead, ...]:
        """The reads of indexes, if the session may name them; without those of collections that are hidden from it."""
        if not spans:
            return ()
        self._check_can_spans(frame)
        if number is None:
            self._reach.check_span_reads(spans, self._desk.head)
        else:
            self._reach.check_span_reads(spans, self._desk.head, number)
        seen = tuple(each for each in spans if self._desk.may_read(kind_of_index(each.index)))
        for each in seen:
            record = self._desk.collection(kind_of_index(each.index))
            # Without a record, the engine says so.
            if record is not None and not self._reach.is_own_span(record, each.lo, each.hi):
                raise AccessError("there is no such span", index=each.index)
        return seen

    def _notes(
        self, frame: Transact | PutObservations, spans: tuple[tuple[SpanRead, ...], ...]
    ) -> tuple[NewObservation, ...]:
        told = frame.notes
        if spans and len(spans) != len(told):
            raise RemoteProtocolError(f"there are {len(told)} notes, and the spans of {len(spans)}")
        notes = []
        for place, (doc, body, reads, rests) in enumerate(told):
            self._reach.check(doc)
            self._reach.check_reads(reads, rests, self._desk.head)
            seen = self._checked_spans(frame, spans[place]) if spans else ()
            if not self._reach.holds_all_of(body):
                continue
            basis = Commit(self.session, LocalSeq(0), (), reads, rests, (), self.branch, None, seen)
            notes.append(NewObservation(doc, body, basis))
        return tuple(notes)

    def _note(self, frame: PutObservations) -> None:
        self._need("write")
        if len(frame.notes) + len(frame.gone) + sum(map(_parts_of, frame.spans)) > PARTS_MAX:
            raise RemoteProtocolError(f"more than {PARTS_MAX:,} notes in one frame")
        for doc in frame.gone:
            self._reach.check(doc)
        self._desk.note(self._notes(frame, frame.spans), frame.gone)

    def _look(self, frame: Watch | Pull) -> None:
        self._need("read")
        self._check_questions()
        docs = [doc if isinstance(doc, str) else doc[0] for doc in frame.docs]
        most = self._limits.get("watches", WATCHES_MAX)
        if isinstance(frame, Watch) and len(self.watched) + sum(self._named) + len(docs) > most:
            raise ServerLimitError(f"one session may watch {most:,} documents; unwatch some first")
        if len(self.prefixes) * isinstance(frame, Watch) + len(frame.prefixes) > PREFIXES_MAX:
            raise ServerLimitError(f"one session may ask for {PREFIXES_MAX} prefixes; unwatch some first")
        for doc in docs:
            self._reach.check(doc)
        for prefix in frame.prefixes:
            self._reach.check_prefix(prefix)
        if frame.at is not None:
            check_place(Seq(frame.at), self._desk.head)
        if frame.follow > PREFETCH_MAX:
            raise ServerLimitError(f"links lead to at most {PREFETCH_MAX:,} documents in one question")
        self._begin(frame)

    def _unwatch(self, frame: Unwatch | Unspan) -> None:
        if isinstance(frame, Unwatch):
            self._desk.unwatch(frame)
        else:
            self._check_can_spans(frame)
            self._desk.unspan(frame.spans)

    def _ask(self, frame: Question) -> None:
        match frame:
            case Watch() | Pull():
                self._look(frame)
            case AskObservations() | AskChanged():
                self._ask_about_runs(frame)
            case WatchSpan():
                self._span(frame)
            case AskShifted():
                self._ask_shifted(frame)

    def _ask_about_runs(self, frame: AskObservations | AskChanged) -> None:
        self._need("read")
        self._check_questions()
        if isinstance(frame, AskObservations):
            if frame.prefix:
                self._reach.check_prefix(frame.prefix)
            for doc in frame.besides:
                self._reach.check(doc)
        else:
            self._reach.check(frame.doc)
            if len(frame.places) > PREFETCH_MAX:
                raise ServerLimitError(f"at most {PREFETCH_MAX:,} places of a document are asked about at once")
        self._begin(frame)

    def _span(self, frame: WatchSpan) -> None:
        self._check_can_spans(frame)
        self._need("read")
        self._check_questions()
        check_bounds(frame.index, frame.lo, frame.hi)
        if not frame.lo < frame.hi:
            raise RemoteProtocolError(f"no key is in the span of {frame.index} that question {frame.number} asks for")
        if not frame.number or frame.number in self.spans or frame.number in self._span_numbers:
            raise RemoteProtocolError(f"{frame.number} is the number of another span, or none")
        if frame.at is not None:
            check_place(Seq(frame.at), self._desk.head)
        elif frame.known:
            raise RemoteProtocolError("a span is known as of a place, which is missing")
        most = self._limits.get("spans", SPANS_MAX)
        if len(self.spans) + sum(map(bool, self._span_numbers)) >= most:
            raise ServerLimitError(f"one session may watch {most:,} spans; unspan some first")
        kind = kind_of_index(frame.index)
        record = self._desk.collection(kind)
        if record is None or all(each.name != frame.index for each in record.named):
            raise missing_index(frame.index)
        if not self._desk.may_read(kind):
            self._desk.denied(f"span {kind}", AccessError(f"the documents of the collection {kind} may not be read"))
            self._desk.send(SpanKeys(frame.number, self._desk.head))
            return
        if not self._reach.is_own_span(record, frame.lo, frame.hi):
            raise AccessError("there is no such span", index=frame.index)
        self._begin(frame)

    def _ask_shifted(self, frame: AskShifted) -> None:
        self._check_can_spans(frame)
        self._need("read")
        self._check_questions()
        for spans, after in frame.rows:
            check_place(Seq(after), self._desk.head)
            if not spans:
                raise RemoteProtocolError("a row without spans")
            for span in spans:
                check_bounds(span.index, span.lo, span.hi)
        self._begin(frame)

    def _check_can_spans(self, frame: WatchSpan | Unspan | AskShifted | Transact | PutObservations) -> None:
        if frames.SPANS not in self.can:
            raise RemoteProtocolError(f"{_kind(frame)} is, or has, what needs the extension {frames.SPANS!r} in hello")

    def _begin(self, frame: Question) -> None:
        named = named_in(frame)
        # A single request may be larger: the first one of a program with many results.
        most = self._limits.get("watches", WATCHES_MAX) if self._named else PARTS_MAX
        if sum(self._named) + named > most:
            raise ServerLimitError("questions that are being answered name too many documents; wait for some")
        self.questions += 1
        self._named.append(named)
        self._span_numbers.append(frame.number if isinstance(frame, WatchSpan) else 0)
        self._desk.look(frame)

    # -- what may be asked ---------------------------------------------------------------------------------

    def may_see(self, doc: DocKey) -> bool:
        """Whether a document is the space's, or of this user or session, and of no collection that is hidden."""
        return self._reach.holds(doc)

    def may_read_collection(self, kind: str) -> bool:
        """Whether the session may read the documents and indexes of a collection."""
        return self._desk.may_read(kind)

    @property
    def has_rules(self) -> bool:
        """Whether a collection may be hidden from the session."""
        return self._desk.has_rules

    def may_read_span(self, span: SeenSpan) -> bool:
        """Whether the session may read the keys of a span, and the documents there."""
        record: CollectionRecord | None = self._desk.collection(kind_of_index(span.index))
        if record is None or not self._desk.may_read(record.kind):
            return False
        return self._reach.is_own_span(record, span.lo, span.hi)

    def may_keep(self, body: bytes) -> bool:
        """Whether the session may see all reads of a run."""
        return self._reach.holds_all_of(body)

    def may_bring(self, asked: Watch | Pull | WatchSpan) -> int:
        """How many documents an answer may contain by prefix or link: the number of watched documents is bounded."""
        left = self._limits.get("watches", WATCHES_MAX) - len(self.watched)
        return PREFETCH_MAX if isinstance(asked, Pull) else max(min(PREFETCH_MAX, left), 0)

    def _check_questions(self) -> None:
        if self.questions >= QUESTIONS_MAX:
            raise ServerLimitError(f"{self.questions} questions of this session are being answered; wait for some")

    def _need(self, right: str) -> None:
        if not self._desk.may(right):
            if not self._desk.knows_rights:
                self.turned_away("the rights of this client are unknown now; connect again later")
                raise TurnedAwayError
            message = f"space {self.space!r} refuses this: the right to {right} it is missing; use a token that has it"
            raise AccessError(message)

    # -- from the desk -------------------------------------------------------------------------------------

    def opened(self, frame: SpaceOpened, branch: BranchId) -> None:
        """The space is open for this client."""
        self.session, self.actor, self.space, self.branch = frame.session, frame.actor, frame.space, branch
        self._reach = SessionScope(frame.actor, frame.session, self._desk.may_read)
        self._last = frame.last
        self.state = ServerState.OPEN
        if frames.FAR not in self.can:
            frame = replace(frame, id="", lineage=b"")
        if frames.RULES not in self.can:
            frame = replace(frame, writes=False)
        self._desk.send(frame)

    def refused(self, error: HeadwaterError, code: int = Close.FORBIDDEN, *, again: bool = False) -> None:
        """The space is not opened."""
        if self.state is not ServerState.OVER:
            self._desk.send(ErrorFrame(error.code, error.message, 0, again))
            self._end(code, error.message)

    def answered(self) -> None:
        """The oldest open request was answered."""
        self.questions -= 1
        self._named.popleft()
        self._span_numbers.popleft()

    def judged(self, count: int) -> None:
        """This many commits of the session were decided."""
        self.pending = max(self.pending - count, 0)
        while len(self._sizes) > self.pending:
            self._pending_bytes -= self._sizes.popleft()

    def revoked(self) -> None:
        """The session may not see the space any more; or its rights are unknown, and the client connects again."""
        if not self._desk.knows_rights:
            self.turned_away("the rights of this client are unknown now; connect again later")
        if self.state is not ServerState.OVER:
            message = f"space {self.space!r} may not be used any more: the token was revoked, or has expired"
            self._desk.send(ErrorFrame("HW404", message))
            self._end(Close.REVOKED, "revoked")

    def turned_away(self, reason: str) -> None:
        """The server cannot work for the client now. The client keeps its commits and connects again."""
        if self.state is not ServerState.OVER:
            self._end(Close.RESTART, reason)

    def taken_over(self) -> None:
        """Another connection continues the session."""
        if self.state is not ServerState.OVER:
            self._desk.send(ErrorFrame("HW404", "another connection continues this session"))
            self._end(Close.TAKEN, "taken over")

    def lost(self) -> None:
        """The connection is lost."""
        self.state = ServerState.OVER

    def _end(self, code: int, reason: str) -> None:
        self.state = ServerState.OVER
        self._desk.close(code, reason.encode()[:120].decode(errors="ignore"))


def missing_index(index: str) -> QueryError:
    """The error for a span of an index that the branch does not have."""
    message = f"the space has no index {index!r}: open it with the app that declares it, by an owner"
    return QueryError(message, index=index)


def _parts_of(spans: tuple[SpanRead, ...]) -> int:
    """The number of spans, with the fields and documents that they name."""
    return sum(1 + len(each.fields) + len(each.layered) for each in spans)


def named_in(frame: Question) -> int:
    """How many documents, prefixes or places a request names."""
    match frame:
        case WatchSpan(docs=docs):
            return min(docs, PREFETCH_MAX)
        case AskShifted(rows=rows):
            return sum(len(spans) for spans, _ in rows)
        case Watch() | Pull():
            return len(frame.docs) + len(frame.prefixes)
        case AskObservations():
            return len(frame.besides)
        case AskChanged():
            return len(frame.places)


def _kind(frame: frames.FromClient) -> str:
    return str(type(frame).__struct_config__.tag)
