"""The client side of a connection, without sockets.

A session outlives its connections. Commits are kept until their verdict has arrived, and sent again over the next
connection; their numbers tell the server which ones it has decided. Watched documents are watched again, and only
changed ones are sent. Nothing is delivered until all of this has arrived: it is one step for the replica.

Length: the rules for what is held back, and until when, need all incoming and outgoing frames in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from msgspec.structs import replace

from headwater.cells.pending_commit import Failure
from headwater.errors import AccessError, ClosedError, HeadwaterError, LimitError, OfflineError, SessionLostError
from headwater.store.commit import Commit, CommitOutcome, Committed, NewObservation, Submission, adopt_operation
from headwater.sync import client_listener, frames
from headwater.sync.client_listener import brought, in_order, moved, own_of, part_of, pulled, unconfirmed, up_to
from headwater.sync.client_port import (
    Answer,
    ClientPhase,
    ClientPort,
    OnAnswer,
    OpenRequest,
    Question,
    halves_of,
    named_in,
    renumbered,
    spans_of,
    transact,
)
from headwater.sync.client_spans import SessionSpans
from headwater.sync.frame_limits import ACK_EVERY, OFFLINE_MAX, WINDOW
from headwater.sync.frames import Docs, FromClient, Look, Open, SpaceOpened, SpanKeys, Watch, WatchSpan, Written
from headwater.sync.remote_errors import error_of, is_of_the_disk
from headwater.sync.server_session import FATAL, Close
from headwater.values.ids import NEVER, DocKey, LocalSeq, Seq, SessionId

__all__ = ["Answer", "ClientPhase", "ClientPort", "ClientSession", "Item", "error_of", "is_of_the_disk", "transact"]

Item: TypeAlias = client_listener.Item
_OF_OTHERS: Final = LocalSeq(0)
"""The number of a commit of another session."""


class ClientSession:
    """One opening of a space at a server."""

    def __init__(self, line: ClientPort, opening: Open, *, client: str = "", offline_max: int = OFFLINE_MAX) -> None:
        self._line = line
        self._opening = opening
        self._client = client
        self._offline_max = offline_max
        self.phase = ClientPhase.CONNECTING
        self.opened: SpaceOpened | None = None
        # A server has answered, whether it opens the space or not.
        self.was_greeted = False
        self.error: HeadwaterError | None = None
        # The error with which the server ended the session, if it did; and whether a client continues it at the next
        # opening.
        self.ended_as = 0
        self.stays = False
        # How often the session was opened; a client that continues a session continues the count.
        self.attempts = 0
        self.seq = NEVER
        # The documents held here, with their seq; and the prefixes of keys that are watched.
        self.watched: dict[DocKey, Seq] = {}
        self.prefixes: dict[str, None] = {}
        # Documents with a watched prefix that are at the server and not here; and the room for the others in an answer.
        self.left_out: set[DocKey] = set()
        self.room = 0
        # Commits without a verdict, oldest first; and how many of them were sent over this connection.
        self.outbox: dict[LocalSeq, Submission] = {}
        self._sent: dict[LocalSeq, None] = {}
        self._ever_sent: dict[LocalSeq, None] = {}
        self._questions: dict[int, OpenRequest] = {}
        self._number = 0
        self._unacked = 0
        # After a lost connection: the answers that must arrive before delivery, and those that have arrived.
        self._awaited: set[LocalSeq] = set()
        self._rejoin: dict[int, Watch] = {}
        self._held: list[Item] = []
        # Requests for documents that wait for that: their answers are delivered at once, and would overtake it.
        self._later: list[int] = []
        # Released while an answer with them was on its way: the server watches them when it answers.
        self._left: set[DocKey] = set()
        self.spans = SessionSpans(line, opening.space, opening.branch)
        # Answers questions of owners about the functions of the program, in its own time.
        self.on_look: Callable[[Look], None] = lambda look: self._line.send(frames.LookAnswer(look.number, ""))

    @property
    def _is_rejoining(self) -> bool:
        """Whether something that was missed has not arrived."""
        return bool(self._rejoin or self._awaited or self.spans.is_behind)

    @property
    def _session(self) -> SessionId:
        return SessionId("") if self.opened is None else self.opened.session

    @property
    def pending(self) -> int:
        """Commits without a verdict."""
        return len(self.outbox)

    @property
    def is_answer_due(self) -> bool:
        """An answer of the server is expected: to a request, or verdicts on commits."""
        return bool(
            self.phase is not ClientPhase.LIVE or self.outbox or self._questions or self._rejoin or self.spans.is_behind
        )

    @property
    def is_caught_up(self) -> bool:
        """All commits are decided, and everything that was missed has arrived."""
        return self.phase is ClientPhase.LIVE and not (self.outbox or self._is_rejoining or self._held)

    def restore(
        self,
        opened: SpaceOpened,
        seq: Seq,
        held: dict[DocKey, Seq],
        prefixes: Iterable[str],
        outbox: Iterable[Submission],
    ) -> None:
        """Continue a stored session: the commits in its outbox may have been sent."""
        self.opened, self.seq = opened, seq
        self.watched.update(held)
        self.prefixes.update(dict.fromkeys(prefixes))
        for submission in outbox:
            number = submission.commit.local_seq
            self.outbox[number] = submission
            self._ever_sent[number] = None

    # -- the connection ------------------------------------------------------------------------------------

    def connected(self) -> None:
        """There is a connection: begin."""
        self._line.send(frames.Hello((frames.VERSION,), self._client, frames.EXTENSIONS))

    def lost(self, code: int = 0, reason: str = "") -> None:
        """The connection is lost. After some close codes, connecting again is useless."""
        if self.phase is ClientPhase.OVER:
            return
        if code in FATAL:
            self.ended_as = code
            kind = SessionLostError if code in (Close.TAKEN, Close.REVOKED) else AccessError
            self._end(self.error or kind(reason or f"the server has closed the connection ({code})"))
            return
        self._sent.clear()
        self.spans.lost(self.seq, was_complete=self.phase is ClientPhase.LIVE and not self._is_rejoining)
        # Unanswered requests are sent again.
        self.phase = ClientPhase.OFFLINE
        self._line.changed()

    def end(self, error: HeadwaterError | None = None) -> None:
        """End the session, by this side."""
        if self.phase is ClientPhase.LIVE and error is None and not self.stays:
            self._line.send(frames.Bye())
        self._end(error or ClosedError(f"space {self._opening.space!r} was closed"))

    def _end(self, error: HeadwaterError) -> None:
        if self.phase is ClientPhase.OVER:
            return
        self.error = error
        self.phase = ClientPhase.OVER
        # Without the missed commits, later ones cannot be applied: only the end is delivered.
        missed = bool(self._rejoin) or self.spans.is_behind
        own = [each.commit for each in own_of(self._held, self._session)] if missed else []
        items: list[Item] = [] if missed else self._held
        self._held = []
        items += [Failure(commit, unconfirmed(commit, self._opening.space, error)) for commit in own]
        for number, submission in self.outbox.items():
            ended = unconfirmed(submission.commit, self._opening.space, error) if number in self._ever_sent else error
            items.append(Failure(submission.commit, ended))
        self.outbox.clear()
        questions, self._questions = self._questions, {}
        if items:
            self._line.deliver(items)
        for question in questions.values():
            if question.done is not None:
                question.done(error)
        self._line.changed()

    # -- from the server -----------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Receive a frame. Raises RemoteProtocolError for invalid bytes."""
        if self.phase is ClientPhase.OVER:
            # The session was ended while the connection was being made: it must not be opened again.
            return
        match frames.read_server(data):
            case frames.Welcome() as welcome:
                self.was_greeted = True
                self.spans.can = welcome.can
                self._open(welcome)
            case SpaceOpened() as opened:
                self._go_on(opened)
            case frames.News(seq, news):
                self._hear(seq, news)
            case Docs() as docs:
                self._take_docs(docs)
            case SpanKeys() as keys:
                self._take_keys(keys)
            case frames.Observations() | frames.Changed() | frames.Shifted() | frames.Pong() as answer:
                self._answered(answer.number, answer)
            case Look() as look:
                self.on_look(look)
            case frames.ErrorFrame(code, message, number, again):
                self._trouble(error_of(code, message), number, again=again)

    def _open(self, welcome: frames.Welcome) -> None:
        opening, opened = self._opening, self.opened
        session = opening.session if opened is None else opened.session
        resume = opening.resume if opened is None else opened.resume
        proof = self._line.prove(welcome, session)
        self.attempts += 1
        create, inspects = opening.create and opened is None, opening.inspect and frames.INSPECT in welcome.can
        frame = Open(
            opening.space, opening.branch, opening.actor, session, resume, create, proof, self.attempts, inspects
        )
        self._line.send(frame)

    def _go_on(self, opened: SpaceOpened) -> None:
        if opened.seq < self.seq:
            message = (
                f"the server's space {opened.space!r} is at {opened.seq}, and {self.seq} was seen before: it was put "
                "back to an older state, or is another one; open it again"
            )
            self._end(SessionLostError(message, seq=opened.seq, seen=self.seq))
            return
        first = self.opened is None
        self.opened = opened
        # The reason why an earlier connection was closed is obsolete.
        self.error = None
        self.phase = ClientPhase.LIVE
        self._rejoin = {}
        if not first or self._ever_sent:
            # Commits that were sent may be in the log. Until their verdicts arrive, the log is not delivered.
            self._awaited = set(self._ever_sent)
            docs = self.watched | {doc: NEVER for doc in self._perhaps_made() if doc not in self.watched}
            if docs or self.prefixes:
                self._watch_again(tuple(docs.items()), tuple(self.prefixes))
            self.spans.rejoin()
            self._ask_spans_again()
        self._later = []
        self._left &= self._asked()
        for number, question in self._questions.items():
            self._put(number, question.frame)
        self._send_more()
        self._line.changed()
        self._release()

    def _perhaps_made(self) -> Iterator[DocKey]:
        """Sent commits may have created documents, and other clients may have changed these."""
        sent = (self.outbox[number].commit for number in self._ever_sent)
        return (operation.doc for commit in sent for operation in commit.operations)

    def _watch_again(self, docs: tuple[tuple[DocKey, int], ...], prefixes: tuple[str, ...]) -> None:
        number = self._next()
        frame = self._rejoin[number] = Watch(number, docs, prefixes, room=self.room if prefixes else 0)
        self._line.send(frame)

    def _hear(self, seq: int, news: Iterable[frames.New]) -> None:
        items: list[Item] = []
        for new in news:
            match new:
                case Written():
                    self._take_written(new, items)
                case frames.Judged(number, verdict):
                    submission = self._settle(number)
                    if submission is not None:
                        self._note_fate(submission.commit, verdict)
                        items.append(CommitOutcome(submission.commit, verdict))
                case frames.CommitFailed(number, code, message) if is_of_the_disk(error := error_of(code, message)):
                    if number in self.outbox:
                        # No verdict: it is sent again.
                        self._line.give_up(error.message)
                case frames.CommitFailed(number, code, message):
                    submission = self._settle(number)
                    if submission is not None:
                        self._note_fate(submission.commit, None)
                        items.append(Failure(submission.commit, error_of(code, message)))
        self.seq = max(self.seq, Seq(seq))
        self._give(items)
        self._send_more()
        self._unacked += 1
        if self._unacked >= ACK_EVERY:
            self._unacked = 0
            self._line.send(frames.Ack(self.seq))

    def _take_written(self, new: Written, items: list[Item]) -> None:
        """A commit of another session, without documents that were released in between."""
        operations, seen, seq = new.operations, new.seen, new.seq
        for doc in new.brought:
            self._hold(doc, NEVER)
        if new.brought:
            items += brought(new.brought)
        kept = [operation.doc in self.watched or self.covers(operation.doc) for operation in operations]
        if not all(kept):
            operations, seen = part_of(operations, seen, kept)
        for operation in operations:
            self._have(operation.doc, seq)
        adopted = tuple([adopt_operation(operation) for operation in operations])
        commit = Commit(new.session, _OF_OTHERS, adopted, (), (), (), self._opening.branch, seen)
        items.append(CommitOutcome(commit, Committed(seq), (), moved(new, self._opening.branch) if new.moves else ()))

    def _note_fate(self, commit: Commit, verdict: object) -> None:
        docs = {operation.doc: None for operation in commit.operations}
        if isinstance(verdict, Committed):
            asked = {doc for question in self._questions.values() for doc in named_in(question.frame)}
            for doc in docs:
                # The server watches a document for its writer. Its earlier state may still be on its way.
                if doc not in asked:
                    self._have(doc, verdict.seq)
            return
        # Assumed to be new, which may be wrong.
        self.assume(*docs)

    def assume(self, *docs: DocKey) -> None:
        """Assume that these documents do not exist. A watched prefix implies that, but it may end."""
        unknown = [doc for doc in docs if doc not in self.watched]
        for doc in filter(self.covers, unknown):
            self._hold(doc, NEVER)
        asked = tuple((doc, 0) for doc in unknown if not self.covers(doc))
        if asked:
            self.ask(Watch(0, asked), None)

    def _have(self, doc: DocKey, seq: Seq) -> None:
        """A document has this seq, unless commits were missed that may have to be requested again."""
        self._hold(doc, self.watched.get(doc, NEVER) if self._rejoin else max(self.watched.get(doc, NEVER), seq))

    def _hold(self, doc: DocKey, seq: Seq) -> None:
        self.watched[doc] = seq
        self.left_out.discard(doc)

    def _settle(self, number: LocalSeq) -> Submission | None:
        self._sent.pop(number, None)
        self._ever_sent.pop(number, None)
        self._awaited.discard(number)
        self._line.decided(number)
        return self.outbox.pop(number, None)

    def _take_docs(self, docs: Docs) -> None:
        self.seq = max(self.seq, docs.seq)
        for found in (*docs.docs, *docs.newer):
            self._hold(found.doc, found.seq)
        self.left_out.update(doc for doc in docs.left if doc not in self.watched)
        if docs.number in self._rejoin:
            self._take_missed(docs, self._rejoin.pop(docs.number))
            return
        question = self._questions.get(docs.number)
        if question is not None and isinstance(question.frame, Watch):
            for doc, have in question.frame.docs:
                # A document that is unchanged here is not sent again, but is watched.
                self.watched.setdefault(doc, Seq(have))
            if docs.complete:
                self.prefixes.update(dict.fromkeys(question.frame.prefixes))
        news = list(docs.newer)
        if question is not None and question.done is None:
            newer = {each.doc for each in news}
            news += [each for each in docs.docs if each.doc not in newer]
        if news:
            # First: the receiver of the answer applies these together with the earlier commits.
            self._give([*pulled(news), up_to(docs.seq, self._opening.branch)])
        self._answered(docs.number, docs)
        if question is not None:
            self._leave(question.frame)

    def _take_keys(self, keys: SpanKeys) -> None:
        """Keys of a span, which is watched from now on, with documents."""
        self.seq = max(self.seq, keys.seq)
        for found in (*keys.docs, *keys.newer):
            self._hold(found.doc, found.seq)
        if self.spans.awaits(keys.number):
            self._held += self.spans.take_missed(keys, self.seq)
            self._release()
            return
        question = self._questions.get(keys.number)
        if question is None or not isinstance(question.frame, WatchSpan):
            # Released while the answer was on its way.
            self._line.send(frames.Unspan((keys.number,)))
            return
        self._give(self.spans.take(replace(question.frame, number=keys.number), keys))
        self._answered(keys.number, keys)

    def _ask_spans_again(self) -> None:
        if not self._rejoin:
            self._held += self.spans.ask_again(self.seq)

    def _take_missed(self, docs: Docs, asked: Watch) -> None:
        """The documents that changed while there was no connection."""
        if not docs.complete:
            # There are too many documents: from now on they are fetched when they are read.
            self.prefixes.clear()
            self.left_out.clear()
            # The local folder has to know it before it has what is here.
            self._line.changed()
            named = dict(asked.docs) | {each.doc: each.seq for each in docs.docs}
            late = tuple((doc, seq) for doc, seq in self.watched.items() if doc not in named)
            if late:
                # They were watched by prefix when the request was sent, and are not any more.
                self.ask(Watch(0, late), None)
        # They contain the earlier commits, or are unchanged.
        self._held = [*pulled(docs.docs), *self._held, up_to(docs.seq, self._opening.branch)]
        self._ask_spans_again()
        self._release()
        self._leave(asked)

    def _give(self, items: list[Item]) -> None:
        if self._is_rejoining or self._held or self._later:
            self._held += items
            self._release()
        elif items:
            self._line.deliver(items)

    def _release(self) -> None:
        if self._is_rejoining:
            return
        if self._held:
            held, self._held = self._held, []
            self._line.deliver(in_order(held, self._session))
        later, self._later = self._later, []
        for number in later:
            if number in self._questions:
                self._line.send(renumbered(self._questions[number].frame, number))

    def _trouble(self, error: HeadwaterError, number: int, *, again: bool) -> None:
        if not number:
            # An error of the whole connection, which is closed next.
            self.error = error if not again else None
            return
        if is_of_the_disk(error) and self._comes_again(number):
            # Over the next connection; until then nothing is known to be complete.
            self._line.give_up(error.message)
            return
        missed = self._rejoin.pop(number, None)
        if missed is not None:
            # More than one answer can contain.
            for docs in halves_of(missed, error, len(self.watched)):
                self._watch_again(docs, missed.prefixes if docs[:1] == missed.docs[:1] else ())
            return
        if self.spans.awaits(number):
            self._held += self.spans.lose(number, error)
            self._release()
            return
        question = self._questions.pop(number, None)
        if question is not None:
            self._refuse(question, error)
            return
        submission = self._settle(LocalSeq(number)) if number in self.outbox else None
        if submission is not None:
            self._note_fate(submission.commit, None)
            self._give([Failure(submission.commit, error)])
            self._send_more()

    def _refuse(self, question: OpenRequest, error: HeadwaterError) -> None:
        if isinstance(question.frame, WatchSpan) and question.frame.at is None:
            # For code that does not wait.
            self._give([client_listener.arrived(question.frame, None, error)])
        if question.done is not None:
            question.done(error)

    def _comes_again(self, number: int) -> bool:
        """Whether a frame is a commit or changes what is watched here: without its answer, changes would be missed."""
        question = self._questions.get(number)
        is_watch = question is not None and isinstance(question.frame, Watch | WatchSpan)
        return number in self.outbox or number in self._rejoin or self.spans.awaits(number) or is_watch

    def too_large(self, frame: FromClient, size: int, most: int) -> None:
        """A commit or request is too large for any connection."""
        number = getattr(frame, "number", 0)
        if number:
            message = f"a frame would have {size:,} bytes; a frame has at most {most:,}: do it in smaller parts"
            self._trouble(LimitError(message, size=size, limit=most), number, again=False)

    # -- asking --------------------------------------------------------------------------------------------

    def ask(self, frame: Question, done: OnAnswer | None) -> None:
        """Send a request. It is answered over this connection or the next one.

        Without a callback, documents of the answer are delivered like commits of others.
        """
        if self.phase is ClientPhase.OVER:
            if done is not None:
                done(self.error or OfflineError(f"space {self._opening.space!r} is not connected"))
            return
        number = self._next()
        self._questions[number] = OpenRequest(frame, done)
        self._left.difference_update(named_in(frame))
        if self.phase is ClientPhase.LIVE:
            self._put(number, frame)

    def _put(self, number: int, frame: Question) -> None:
        if isinstance(frame, Watch | WatchSpan) and self._is_rejoining:
            self._later.append(number)
        else:
            self._line.send(renumbered(frame, number))

    def unwatch(self, docs: Iterable[DocKey], prefixes: Iterable[str] = ()) -> None:
        """Stop watching these documents."""
        docs = tuple(docs)
        self._left.update(self._asked().intersection(docs))
        gone = tuple(doc for doc in docs if self.watched.pop(doc, None) is not None)
        for prefix in prefixes:
            self.prefixes.pop(prefix, None)
        if self.phase is ClientPhase.LIVE and (gone or prefixes):
            self._line.send(frames.Unwatch(gone, tuple(prefixes)))

    def unspan(self, numbers: Iterable[int]) -> None:
        """Stop watching these spans."""
        self.spans.release(numbers, is_live=self.phase is ClientPhase.LIVE)
        self._release()

    def _asked(self) -> set[DocKey]:
        """The documents that are named in an answer on its way."""
        frames = (*self._rejoin.values(), *(each.frame for each in self._questions.values()))
        return {doc for frame in frames for doc in named_in(frame)}

    def _leave(self, answered: Question) -> None:
        """Stop watching documents that were released before their answer arrived."""
        left = tuple(self._left.intersection(named_in(answered)) - self._asked()) if self._left else ()
        if left:
            self._left.difference_update(left)
            for doc in left:
                self.watched.pop(doc, None)
            self._line.send(frames.Unwatch(left))

    def covers(self, doc: DocKey) -> bool:
        """Whether a prefix of this key is watched, and the document is here if it exists."""
        # A copy, in one step: other threads read it, too.
        return doc not in self.left_out and any(doc.startswith(prefix) for prefix in tuple(self.prefixes))

    def note(self, notes: tuple[NewObservation, ...], gone: tuple[DocKey, ...] = ()) -> None:
        """Send the observations of runs without writes. They are not kept for later, when they would be obsolete."""
        if self.phase is ClientPhase.LIVE:
            spans = spans_of(notes)
            if not spans or self.spans.are_answered:
                self._line.send(frames.PutObservations(tuple(map(frames.note_fields, notes)), gone, spans))

    def _next(self) -> int:
        # Requests and commits differ by their numbers: commits count from 1, requests from far above.
        self._number += 1
        return (1 << 48) + self._number

    def _answered(self, number: int, answer: Answer) -> None:
        question = self._questions.pop(number, None)
        if question is not None and question.done is not None:
            question.done(answer)

    # -- writing -------------------------------------------------------------------------------------------

    def has_room(self, waiting: int) -> bool:
        """Whether one more commit can be kept, besides those that wait here or are on their way here."""
        return waiting < self._offline_max

    def check_room(self, waiting: int) -> None:
        """Raise OfflineError if no more commits can be kept while there is no connection."""
        if not self.has_room(waiting) and self.phase is not ClientPhase.LIVE:
            message = (
                f"{waiting:,} commits wait for the server of space {self._opening.space!r}, which is not reached; as "
                "many are kept, and this one is not"
            )
            raise OfflineError(message, waiting=waiting)

    def submit(self, submission: Submission) -> None:
        """Send a commit to the server, which decides it."""
        if self.phase is ClientPhase.OVER:
            assert self.error is not None
            self._line.deliver([Failure(submission.commit, self.error)])
            return
        self.outbox[submission.commit.local_seq] = submission
        # A writer holds the document again.
        self._left.difference_update(operation.doc for operation in submission.commit.operations)
        if self.phase is ClientPhase.LIVE:
            self._send_more()

    def _send_more(self) -> None:
        if self.phase is not ClientPhase.LIVE or len(self._sent) >= WINDOW or len(self._sent) == len(self.outbox):
            return
        unchecked: list[Submission] = []
        for number, submission in self.outbox.items():
            if len(self._sent) >= WINDOW:
                break
            if number not in self._sent:
                if submission.commit.spans and not self.spans.are_answered:
                    # It would not check what the commit has read.
                    unchecked.append(submission)
                    continue
                self._sent[number] = self._ever_sent[number] = None
                self._line.send(transact(submission))
        for submission in unchecked:
            self._settle(submission.commit.local_seq)
            self._note_fate(submission.commit, None)
            self._give([Failure(submission.commit, self.spans.refusal())])
