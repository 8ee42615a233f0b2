"""The channel of one served space: its storage, its connections, and the distribution of outcomes.

One queue keeps the order. The storage appends outcomes, and answers to questions are appended while the storage is
locked: an answer is placed exactly between the commits that it includes and those that it does not. The event loop
consumes the queue and sends.

Length: everything that is appended to the one queue, and its one consumer, are in one place.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import Final, TypeVar

from headwater.cells.pending_commit import Failure
from headwater.errors import (
    HeadwaterError,
    HistoryError,
    PoisonedError,
    ServerLimitError,
    SessionLostError,
    StoreError,
    StoreFullError,
    UnavailableError,
)
from headwater.host.storage import Storage
from headwater.machine import Executor, machine
from headwater.runtime.attached_replica import Delivered
from headwater.runtime.expiry import AGAIN_MS, Expiry, expiry_of
from headwater.server.metrics import Histogram
from headwater.server.server_limits import PAUSE_S
from headwater.server.spaces.space_answers import ConnectionPort, SpaceAnswer, made
from headwater.server.spaces.space_rules import SpaceRules, are_rules_changed, changed_records, dropped_indexes
from headwater.server.spaces.space_turns import SpaceTurns
from headwater.store import resumption
from headwater.store.collection_rules import Access
from headwater.store.commit import Commit, CommitOutcome, Committed, NewObservation, Refused, Submission
from headwater.store.engine import Engine
from headwater.store.retention import Retention, is_dropped
from headwater.sync.frames import (
    ErrorFrame,
    Judged,
    New,
    Written,
    encode_frame,
)
from headwater.sync.server_port import Question
from headwater.sync.watches import Watches
from headwater.values.ids import MAIN, BranchId, DocKey, LocalSeq, SessionId

_T = TypeVar("_T")

log: Final = logging.getLogger("headwater.server")

CANNOT_WRITE: Final = "the server cannot use its disk now; try again"
"""The reason sent when a connection is closed because of the disk."""


class Channel:
    """One space, in the server's event loop; the storage's thread calls `deliver`."""

    def __init__(
        self,
        storage: Storage,
        loop: asyncio.AbstractEventLoop,
        threads: Executor,
        turns: SpaceTurns | None = None,
    ) -> None:
        self.storage = storage
        self._turns = turns or SpaceTurns()
        self._loop = loop
        self._threads = threads
        self._watches: dict[BranchId, Watches[ConnectionPort]] = {}
        self._inbox: deque[Delivered | SpaceAnswer] = deque()
        self._woken = False
        # Connections with frames to be flushed at the end of this turn of the loop, in this order.
        self._pushed: dict[ConnectionPort, None] = {}
        self.connections: dict[SessionId, ConnectionPort] = {}
        self.rules: Final = SpaceRules()
        # The newest sequence number sent to any client.
        self.head = storage.join(self)
        self.delivered = 0
        self.commits = 0
        # Commits without a sent verdict, with their arrival; and the histogram of latencies.
        self.since: dict[tuple[SessionId, LocalSeq], float] = {}
        self.decided = Histogram()
        # Why nothing can be written, if so; and whether the file must be reopened, because the disk failed or because
        # the space was closed.
        self.trouble = ""
        self.is_broken = False
        # When the last connection ended, and when it was last used, on the loop's clock.
        self.empty_since: float | None = loop.time()
        self.used_at = loop.time()
        self._is_shrunk = False
        # None: no documents of this space expire.
        self.expiry: Expiry | None = None

    # -- coming and going ----------------------------------------------------------------------------------

    def enter(self, connection: ConnectionPort) -> None:
        """Add a connection. An earlier connection of the same session is closed."""
        before = self.connections.get(connection.session)
        if before is not None:
            self.leave(before)
            before.talk.taken_over()
        self.connections[connection.session] = connection
        self.empty_since = None
        self._use_now()
        branch = connection.talk.branch
        watches = self._watches.setdefault(branch, Watches())
        watches.ruled = self.rules.kinds(branch)
        watches.enter(connection)

    def last_of(self, branch: BranchId, session: SessionId) -> int:
        """The newest decided commit of a session; 0 for a new one. Not in the loop.

        Raises NotFoundError if there is no such branch, and SessionLostError if the session is too old.
        """

        def look(engine: Engine) -> int:
            engine.documents.branch(branch)
            self.rules.load(engine, branch)
            # A new session has no decided commits, and a reader stores nothing.
            if session and is_dropped(engine, session):
                message = f"this session of space {self.storage.name!r} is older than sessions are kept; open it again"
                raise SessionLostError(message, space=self.storage.name)
            return engine.last_of(session) if session else 0

        if session:
            # Commits of its last connection are decided first: the client sends them again.
            self.storage.wait()
        return self._use(look)

    def load_rules(self, branch: BranchId) -> None:
        """Load the rules of a branch. Not in the loop."""
        self._use(lambda engine: self.rules.load(engine, branch))

    def _use(self, work: Callable[[Engine], _T]) -> _T:
        """Run a function on the storage, not in the loop. After a disk failure the next client reopens the file."""
        try:
            return self.storage.call(work)
        except PoisonedError as error:
            why = error.message
            self._on_loop(lambda: self._break(why))
            raise

    def leave(self, connection: ConnectionPort) -> None:
        """Remove a connection with its watches."""
        watches = self._watches.get(connection.talk.branch)
        if watches is not None:
            watches.leave(connection)
            if not watches.sessions:
                del self._watches[connection.talk.branch]
        if self.connections.get(connection.session) is connection:
            del self.connections[connection.session]
        if not self.connections:
            self.empty_since = self._loop.time()

    def keep(self) -> None:
        """Keep the space open for a page that uses it."""
        self._use_now()
        if self.empty_since is not None:
            self.empty_since = self._loop.time()

    def _use_now(self) -> None:
        self.used_at = self._loop.time()
        self._is_shrunk = False
        self._turns.use(self)

    def shrink(self, idle_s: float) -> bool:
        """Release memory, in a thread, if the space was not used for so long. Returns whether that was begun."""
        if self._is_shrunk or self.is_broken or self._loop.time() - self.used_at < idle_s:
            return False
        self._is_shrunk = True
        self._threads.submit(self._shrink)
        return True

    def _shrink(self) -> None:
        # What the disk does not allow is told to the next client that uses the space.
        with suppress(HeadwaterError):
            self._use(Engine.shrink)

    @property
    def sessions(self) -> Collection[SessionId]:
        """The sessions of its connections."""
        return tuple(self.connections)

    @property
    def expired(self) -> int:
        """How many documents have expired since the space was opened."""
        return 0 if self.expiry is None else self.expiry.deleted

    def expire(self, kept: Retention | None, then: Callable[[], object]) -> None:
        """Delete expired documents and old receipts, as many as are due now. Not in the loop."""
        found = machine()
        with suppress(HeadwaterError):
            # A space that is closed meanwhile is looked at when it is open again.
            self.expiry = expiry_of(self.storage, MAIN, found.steady_ms, found.now_ms, kept)
        while self.expiry is not None and not self.is_broken and self.expiry.step() <= AGAIN_MS:
            found.sleep(AGAIN_MS / 1000)
        then()

    @property
    def watching(self) -> int:
        """The number of watches."""
        return sum(map(len, self._watches.values()))

    # -- what is asked -------------------------------------------------------------------------------------

    def submit(self, commit: Commit, notes: tuple[NewObservation, ...], access: Access) -> None:
        """Submit a commit of a session that may do this."""
        self._use_now()
        self.since[commit.session, commit.local_seq] = self.used_at
        self.storage.submit(Submission(commit, observations=notes, is_resent=True, access=access), helps=False)

    def note(self, notes: tuple[NewObservation, ...], branch: BranchId, gone: tuple[DocKey, ...]) -> None:
        """Store observations of runs without writes. No answer is sent."""

        def keep(engine: Engine) -> None:
            engine.observe(notes)
            if gone:
                engine.release(branch, gone)
                resumption.drop_unclaimed(engine, branch, gone)

        self._threads.submit(self._use, keep)

    def look(self, connection: ConnectionPort, asked: Question) -> None:
        """Answer a question in a thread: it may read from the disk."""
        self._use_now()
        self._threads.submit(self._look, connection, asked)

    def _look(self, connection: ConnectionPort, asked: Question) -> None:
        try:
            self._use(lambda engine: self._put(made(engine, connection, asked, self._pause)))
        except HeadwaterError as error:
            # A full or failing disk is no answer: the client asks again.
            again = isinstance(error, ServerLimitError | UnavailableError | PoisonedError)
            told = error.message
            if isinstance(error, StoreError) and not isinstance(error, HistoryError):
                # The path of the file is logged, not sent.
                log.error("question not answered: %s", told, extra={"space": self.storage.name})  # noqa: TRY400  # says all
                told = f"space {connection.talk.space!r} cannot be read now; the server's log says why"
            self._put(SpaceAnswer(connection, encode_frame(ErrorFrame(error.code, told, asked.number, again))))
        except Exception:
            # An internal error. The client gets an answer, or it would wait for ever.
            log.exception("a question could not be answered")
            message = "this could not be answered; the server's log says why"
            self._put(SpaceAnswer(connection, encode_frame(ErrorFrame(StoreError.code, message, asked.number))))

    def _pause(self) -> None:
        """In the middle of a large answer: let other spaces go first, if they are in use."""
        if self._turns.others_used(self):
            machine().sleep(PAUSE_S)

    def unwatch(self, connection: ConnectionPort, docs: Iterable[DocKey], prefixes: Iterable[str]) -> None:
        """End watches."""
        self._watches[connection.talk.branch].remove(connection, docs, prefixes)

    def unspan(self, connection: ConnectionPort, numbers: Iterable[int]) -> None:
        """End watches of spans."""
        self._watches[connection.talk.branch].spans.remove(connection, numbers)

    # -- frames out ----------------------------------------------------------------------------------------

    def deliver(self, decided: Delivered) -> None:
        """Called by the deciding thread, while the storage is locked."""
        self.rules.change(decided)
        self._put(decided)

    def _put(self, what: Delivered | SpaceAnswer) -> None:
        self._inbox.append(what)
        if not self._woken:
            self._woken = True
            self._on_loop(self._drain)

    @property
    def has_news(self) -> bool:
        """Whether outcomes or answers wait to be sent."""
        return bool(self._inbox)

    def _on_loop(self, do: Callable[[], None]) -> None:
        # The loop has ended with the server; the outcomes are on disk.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(do)

    def _drain(self) -> None:
        # Reset before reading the queue: a later append wakes the loop again.
        self._woken = False
        try:
            if self._inbox:
                what = self._inbox.popleft()
                if isinstance(what, SpaceAnswer):
                    self._answer(what)
                else:
                    self._tell([each for each in what if isinstance(each, CommitOutcome | Failure)])
        finally:
            pushed, self._pushed = self._pushed, {}
            for connection in pushed:
                connection.flush()
        if self._inbox and not self._woken:
            # One group or answer in each turn of the loop: other spaces are served before the next.
            self._woken = True
            self._loop.call_soon(self._drain)

    def _answer(self, answered: SpaceAnswer) -> None:
        connection = answered.connection
        self.head = max(self.head, answered.seq)
        connection.talk.answered()
        if self.connections.get(connection.session) is not connection:
            return
        if not connection.may("read"):
            connection.talk.revoked()
            return
        if answered.watches:
            self._watches[connection.talk.branch].add(connection, answered.docs, answered.prefixes)
            if answered.span is not None:
                self._watches[connection.talk.branch].spans.add(connection, answered.span)
        connection.reply(answered.frame)

    def _tell(self, decided: list[CommitOutcome | Failure]) -> None:
        failed = [each for each in decided if isinstance(each, Failure) and isinstance(each.error, StoreError)]
        if failed:
            self._send_away(failed)
            decided = [each for each in decided if each not in failed]
        elif self.trouble and not self.is_broken:
            self.trouble = ""
        self._enforce_new_rules(decided)
        before = self.head
        for each in decided:
            if isinstance(each, CommitOutcome) and isinstance(each.verdict, Committed) and each.verdict.seq > self.head:
                self.head = each.verdict.seq
                self.commits += 1
        for branch, watches in list(self._watches.items()):
            own = [each for each in decided if each.commit.branch == branch]
            for connection, frame, news in list(watches.tell(own, before, self.head)):
                self._push(connection, frame, news)
        now = self._loop.time()
        for each in decided:
            since = self.since.pop((each.commit.session, each.commit.local_seq), None)
            if since is not None:
                self.decided.observe(now - since)

    def _enforce_new_rules(self, decided: list[CommitOutcome | Failure]) -> None:
        """Have sessions connect again after a change of rules or indexes: they ask anew for what they hold."""
        changed: set[BranchId] = set()
        for branch, _, before, after in changed_records(decided):
            if are_rules_changed(before, after):
                changed.add(branch)
            if branch in self._watches:
                # Its keys do not move any more: the client learns that when it asks for them again.
                for connection in self._watches[branch].spans.watchers_of(dropped_indexes(before, after)):
                    connection.talk.turned_away("an index was dropped; connect again")
        for connection in list(self.connections.values()) if changed else ():
            if connection.talk.branch in changed and not connection.may("own"):
                connection.talk.turned_away("the rules of a collection have changed; connect again")
        for branch in changed & self._watches.keys():
            self._watches[branch].ruled = self.rules.kinds(branch)

    def _push(self, connection: ConnectionPort, frame: bytes, news: list[New]) -> None:
        judged = 0
        for new in news:
            judged += type(new) is not Written
            if type(new) is Judged and type(new.verdict) is Refused:
                connection.refused(new.verdict)
        if judged:
            connection.talk.judged(judged)
        if connection.may("read"):
            self.delivered += 1
            connection.push(frame)
            self._pushed[connection] = None
        else:
            connection.talk.revoked()

    def _send_away(self, failed: list[Failure]) -> None:
        """The disk has failed, which is no verdict. Clients keep their commits, and reconnect."""
        error = failed[0].error
        assert isinstance(error, StoreError)
        log.error("commits could not be written", extra={"space": self.storage.name, "why": error.message})
        self.trouble = error.message
        for each in failed:
            self.since.pop((each.commit.session, each.commit.local_seq), None)
        for session in dict.fromkeys(each.commit.session for each in failed):
            if session in self.connections:
                self.connections[session].talk.turned_away(CANNOT_WRITE)
        if not isinstance(error, StoreFullError):
            self._break(error.message)

    def _break(self, why: str) -> None:
        """Only reopening the file shows what is on disk: all clients reconnect, and the first one reopens it."""
        self.trouble, self.is_broken = why, True
        for connection in list(self.connections.values()):
            connection.talk.turned_away(CANNOT_WRITE)

    def close(self) -> None:
        """Close the storage. Waits for the disk: not in the loop."""
        self.storage.leave(self)
        self.storage.close()
