"""One space that is served: its storage, who is connected to it, and what each is told of what was decided.

Everything that concerns order goes through one queue. The storage puts what it has decided there, and answers to
questions are put there while the storage stands still: so an answer stands between exactly those commits that it holds
and those that it does not. The event loop takes from the queue and sends.

Must never know: sockets, tokens.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, TypeVar

from headwater.cells.pending_commit import Failure
from headwater.errors import (
    HeadwaterError,
    HistoryError,
    PoisonedError,
    ServerLimitError,
    StoreError,
    StoreFullError,
    UnavailableError,
)
from headwater.host.storage import Storage
from headwater.machine import Executor
from headwater.runtime.attached_replica import Delivered
from headwater.server.metrics import Histogram
from headwater.server.spaces.space_answers import ConnectionPort, SpaceAnswer, made
from headwater.store import resumption
from headwater.store.commit import Commit, CommitOutcome, Committed, NewObservation, Submission
from headwater.store.engine import Engine
from headwater.sync.frames import (
    AskChanged,
    AskObservations,
    ErrorFrame,
    New,
    Pull,
    Watch,
    Written,
    encode_frame,
)
from headwater.sync.watches import Watches
from headwater.values.ids import BranchId, DocKey, LocalSeq, SessionId

_T = TypeVar("_T")

log: Final = logging.getLogger("headwater.server")

CANNOT_WRITE: Final = "the server cannot use its disk now; come again"
"""What a client is told whose connection is closed for that."""


class Channel:
    """One space, in the server's event loop; `deliver` is called by the storage's thread."""

    def __init__(
        self, storage: Storage, loop: asyncio.AbstractEventLoop, threads: Executor, lineage: bytes = b""
    ) -> None:
        self.storage = storage
        self.lineage = lineage
        self._loop = loop
        self._threads = threads
        self._watches: dict[BranchId, Watches[ConnectionPort]] = {}
        self._inbox: deque[Delivered | SpaceAnswer] = deque()
        self._woken = False
        self.connections: dict[SessionId, ConnectionPort] = {}
        # The newest place that anybody was told of.
        self.head = storage.join(self)
        self.delivered = 0
        self.commits = 0
        # Commits that nobody was told of yet, since when; and how long it took for others.
        self.since: dict[tuple[SessionId, LocalSeq], float] = {}
        self.decided = Histogram()
        # Why nothing can be written, if so; and whether the file has to be opened anew.
        self.trouble = ""
        self.is_broken = False
        # When the last guest has left, on the loop's clock.
        self.empty_since: float | None = loop.time()

    # -- coming and going ----------------------------------------------------------------------------------

    def enter(self, connection: ConnectionPort) -> None:
        """From now on it is told what becomes of its commits. Whoever had the session before is out."""
        before = self.connections.get(connection.session)
        if before is not None:
            self.leave(before)
            before.talk.taken_over()
        self.connections[connection.session] = connection
        self.empty_since = None
        self._watches.setdefault(connection.talk.branch, Watches()).enter(connection)

    def last_of(self, branch: BranchId, session: SessionId) -> int:
        """The newest commit of a session that was decided; 0 if it has just begun. Not in the loop.

        Raises NotFoundError if there is no such branch.
        """

        def look(engine: Engine) -> int:
            engine.documents.branch(branch)
            # One that begins has decided nothing, and whoever only reads leaves nothing behind.
            return engine.last_of(session) if session else 0

        if session:
            # What its last connection has sent is decided first: it is asked for again, whatever it may do now.
            self.storage.wait()
        return self._use(look)

    def _use(self, work: Callable[[Engine], _T]) -> _T:
        """Use the storage, not in the loop. If its disk has failed, the file is opened anew for the next client."""
        try:
            return self.storage.call(work)
        except PoisonedError as error:
            why = error.message
            self._on_loop(lambda: self._break(why))
            raise

    def leave(self, connection: ConnectionPort) -> None:
        """It is gone, with everything that it watched."""
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
        """Somebody uses it who is no guest: it is not closed soon."""
        if self.empty_since is not None:
            self.empty_since = self._loop.time()

    @property
    def watching(self) -> int:
        """Documents that are watched, each as often as it is."""
        return sum(map(len, self._watches.values()))

    # -- what is asked -------------------------------------------------------------------------------------

    def submit(self, commit: Commit, notes: tuple[NewObservation, ...]) -> None:
        """Have it decided."""
        self.since[commit.session, commit.local_seq] = self._loop.time()
        self.storage.submit(Submission(commit, observations=notes, is_resent=True), helps=False)

    def note(self, notes: tuple[NewObservation, ...], branch: BranchId, gone: tuple[DocKey, ...]) -> None:
        """Keep what runs have read that wrote nothing. Nobody waits for it."""

        def keep(engine: Engine) -> None:
            engine.observe(notes)
            if gone:
                engine.release(branch, gone)
                resumption.drop_unclaimed(engine, branch, gone)

        self._threads.submit(self._use, keep)

    def look(self, connection: ConnectionPort, asked: Watch | Pull | AskObservations | AskChanged) -> None:
        """Answer a question, in a thread: it may have to be read from the disk."""
        self._threads.submit(self._look, connection, asked)

    def _look(self, connection: ConnectionPort, asked: Watch | Pull | AskObservations | AskChanged) -> None:
        try:
            self._use(lambda engine: self._put(made(engine, connection, asked)))
        except HeadwaterError as error:
            # A disk that is full or fails is no answer: the client asks again.
            again = isinstance(error, ServerLimitError | UnavailableError | PoisonedError)
            told = error.message
            if isinstance(error, StoreError) and not isinstance(error, HistoryError):
                # Where the file is concerns only who runs the server.
                log.error("question not answered: %s", told, extra={"space": self.storage.name})  # noqa: TRY400  # says all
                told = f"space {connection.talk.space!r} cannot be read now; the server's log says why"
            self._put(SpaceAnswer(connection, encode_frame(ErrorFrame(error.code, told, asked.number, again))))
        except Exception:
            # A mistake of ours. Whoever has asked is told, or would wait for ever.
            log.exception("a question could not be answered")
            message = "this could not be answered; the server's log says why"
            self._put(SpaceAnswer(connection, encode_frame(ErrorFrame(StoreError.code, message, asked.number))))

    def unwatch(self, connection: ConnectionPort, docs: Iterable[DocKey], prefixes: Iterable[str]) -> None:
        """Tell it no more of these."""
        self._watches[connection.talk.branch].remove(connection, docs, prefixes)

    # -- what is told --------------------------------------------------------------------------------------

    def deliver(self, decided: Delivered) -> None:
        """Called by whoever decides, while the storage stands still."""
        self._put(decided)

    def _put(self, what: Delivered | SpaceAnswer) -> None:
        self._inbox.append(what)
        if not self._woken:
            self._woken = True
            self._on_loop(self._drain)

    def _on_loop(self, do: Callable[[], None]) -> None:
        # If the loop has ended, so has the server; what was decided is on disk.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(do)

    def _drain(self) -> None:
        # Said before looking: who puts something after the last look wakes again.
        self._woken = False
        while self._inbox:
            what = self._inbox.popleft()
            if isinstance(what, SpaceAnswer):
                self._answer(what)
            else:
                self._tell([each for each in what if isinstance(each, CommitOutcome | Failure)])

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
        connection.reply(answered.frame)

    def _tell(self, decided: list[CommitOutcome | Failure]) -> None:
        failed = [each for each in decided if isinstance(each, Failure) and isinstance(each.error, StoreError)]
        if failed:
            self._send_away(failed)
            decided = [each for each in decided if each not in failed]
        elif self.trouble and not self.is_broken:
            self.trouble = ""
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

    def _push(self, connection: ConnectionPort, frame: bytes, news: list[New]) -> None:
        judged = 0
        for new in news:
            judged += type(new) is not Written
        if judged:
            connection.talk.judged(judged)
        if connection.may("read"):
            self.delivered += 1
            connection.push(frame)
        else:
            connection.talk.revoked()

    def _send_away(self, failed: list[Failure]) -> None:
        """The disk has failed: that is no verdict. Clients that wait for one keep what they sent, and come again."""
        error = failed[0].error
        assert isinstance(error, StoreError)
        log.error("commits could not be written", extra={"space": self.storage.name, "why": error.message})
        self.trouble = error.message
        for each in failed:
            self.since.pop((each.commit.session, each.commit.local_seq), None)
        for session in {each.commit.session for each in failed}:
            if session in self.connections:
                self.connections[session].talk.turned_away(CANNOT_WRITE)
        if not isinstance(error, StoreFullError):
            self._break(error.message)

    def _break(self, why: str) -> None:
        """Only a fresh opening can tell what is on the disk: all clients come again, and the first has it opened."""
        self.trouble, self.is_broken = why, True
        for connection in list(self.connections.values()):
            connection.talk.turned_away(CANNOT_WRITE)

    def close(self) -> None:
        """Nobody is here any more. Waits for the disk: not in the loop."""
        self.storage.leave(self)
        self.storage.close()
