"""The storage of an open space: commits wait here for the disk, and those that wait together share one fsync.

The thread that holds the lock decides a group. A thread that waits for its commits does it itself, without a switch to
another thread; otherwise the storage's own thread does, a moment later. Every attached replica gets the outcomes in the
order of the log. Readers that miss a document ask the engine under the same lock. While a program goes on committing,
a thread writes one group and the program decides the next, whose outcomes wait.

Length: everything that the one lock guards is in one place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, Self, TypeVar

from headwater.cells.pending_commit import Failure
from headwater.errors import ClosedError, HeadwaterError, InvariantError, StoreError, StoreFullError, UnavailableError
from headwater.host.between_groups import BetweenGroups
from headwater.host.deciding_threads import DecidingThreads
from headwater.host.disk_writer import DiskWrite, DiskWriter
from headwater.host.written_group import (
    LostGroupError,
    WrittenGroup,
    groups_to_leave,
    notify_table_transactions,
    outcomes_in_log,
    queue_again,
)
from headwater.machine import Lock, machine
from headwater.runtime.attached_replica import AttachedReplica, Decided, OutcomeReceiver, ReplicaPort
from headwater.runtime.error_report import log_rebuilt
from headwater.runtime.lease import Lease
from headwater.runtime.resources.disk_barrier import Waiting
from headwater.runtime.run_cache import LocalRunCache, RunCache
from headwater.store.backend import Backend, Fold, LogRow, ObservationRow
from headwater.store.commit import UNNUMBERED, Commit, CommitOutcome, Submission, TableTransaction
from headwater.store.document import StoredDocument
from headwater.store.engine import Engine
from headwater.store.guard import declares
from headwater.store.space_identity import SpaceIdentity, identity_of
from headwater.values.author_text import describe
from headwater.values.ids import MAIN, BranchId, DocKey, LocalSeq, Seq, SessionId
from headwater.values.seams import Clock, Entropy

_T = TypeVar("_T")

GROUP_MAX: Final = 64
"""Commits in one transaction. The fsync is a small part of their cost by then; more would keep the first waiting."""

WAITING_MAX: Final = 2_000
"""Commits that may wait for the disk. A writer that is faster than the disk is slowed down here, not out of memory; and
a caller that waits for all that was written before, as an opening and a `sync` do, waits for no more than these."""

LINGER_S: Final = 0.002
"""How long the thread lets commits gather while a program is busy committing."""

LINGER_ROUNDS: Final = 25
"""Rounds without work after which the thread sleeps until it is woken: an idle space costs nothing."""

TABLE_SESSION: Final = SessionId("riding")
"""The session of table transactions that are not part of a commit of documents."""


class Storage(BetweenGroups):
    """One open space: its engine, its writing thread, and the replicas attached to it."""

    def __init__(
        self,
        backend: Backend,
        clock: Clock,
        entropy: Entropy,
        *,
        name: str = "",
        group_max: int | None = None,
        on_close: Callable[[], None] = lambda: None,
        threads: DecidingThreads | None = None,
    ) -> None:
        self.name = name
        self.identity: SpaceIdentity = identity_of(backend)
        self.groups = 0
        self.run_cache: RunCache = LocalRunCache(self, lambda what: log_rebuilt(self.name, what))
        # State that other parts attach to this storage, by name. It lives as long as the storage.
        self.along: dict[str, object] = {}
        self._clock = clock
        self._entropy = entropy
        self._group_max = GROUP_MAX if group_max is None else group_max
        self._on_close = on_close
        self._engine = Engine(backend, clock, self._append)
        # Made with the first group that is written behind its caller.
        self._writer: DiskWriter | None = None
        # Groups before `_group` that are being written, oldest first; and the write of `_group`, once it is decided.
        self._written: deque[WrittenGroup] = deque()
        self._write: DiskWrite | None = None
        self._writes_behind = False
        # Guards the engine, and the delivery of its decisions.
        self._lock = machine().lock()
        self._ports: list[OutcomeReceiver] = []
        # The group that is being decided, and its outcomes: kept until every port has them (see `_work`).
        self._group: list[Submission] = []
        self._outcomes: Decided | None = None
        self._decided = 0
        # The newest commit that the ports were notified of, and whether the engine was interrupted.
        self._told = self._engine.head
        self._torn = False
        self._closed = False
        self._disowned = False
        # Appended by writers without the lock; consumed by the holder of the lock.
        self._waiting: deque[Submission] = deque()
        self._submitted = 0
        # Sessions that must send a commit again because there was no room: its number, and the error.
        self._stalled: dict[SessionId, tuple[LocalSeq, HeadwaterError]] = {}
        self._helping = True
        self._bell = machine().event()
        # Shared threads of a server are always rung.
        self._asleep = threads is not None
        self._threads = threads
        self._thread = machine().thread(self._run, name=f"headwater-{name}")
        if threads is None:
            self._thread.start()

    # -- for replicas --------------------------------------------------------------------------------------

    def attach(self, *, branch: str = MAIN, wake: Callable[[], None] | None = None) -> AttachedReplica:
        """A new replica. `wake` is called by the writing thread when there is something to `refresh`."""
        on = BranchId(branch)
        session = SessionId(self._entropy.token())
        port = ReplicaPort(self, on, wake, (session,))
        with self._lock:
            self._check_open()
            self._engine.documents.branch(on)
            self._ports.append(port)
            return AttachedReplica(self, port, session, on, self._engine.head)

    def detach(self, port: ReplicaPort) -> None:
        """Deliver nothing more there."""
        self.leave(port)

    def join(self, receiver: OutcomeReceiver) -> Seq:
        """Deliver decisions to this receiver, too. Returns the newest sequence number. The lock is held."""
        with self._lock:
            self._check_open()
            self._ports.append(receiver)
            return self._engine.head

    def leave(self, receiver: OutcomeReceiver) -> None:
        """Deliver nothing more there."""
        with self._lock:
            if receiver in self._ports:
                self._ports.remove(receiver)

    def load(self, branch: BranchId, doc: DocKey, through: Seq) -> StoredDocument:
        """A document as of a sequence number."""
        with self._lock:
            # Not even a group that is being written is waited for: what it has written is later than `through`.
            if self._closed or self._torn:
                self._check_open()
            state = self._engine.states.get(branch, doc)
            if state.seq <= through:
                return StoredDocument(state.value, state.seq)
            first = self._engine.documents.horizon.seq
            if through < first:
                message = f"the past before {first} was compacted away while this replica was at {through}; refresh it"
                raise UnavailableError(message, doc=doc, seq=through, first=first)
            return self._engine.documents.at(branch, doc, through)

    def load_many(self, branch: BranchId, docs: Sequence[DocKey], through: Seq) -> dict[DocKey, StoredDocument]:
        """Documents as of a sequence number, by few lookups."""
        with self._lock:
            if self._closed or self._torn:
                self._check_open()
            return self._engine.states.many(branch, docs, through)

    def submit(self, submission: Submission, *, helps: bool) -> None:
        """Queue a commit."""
        if self._closed:
            self._check_open()
        waiting = len(self._waiting)
        # Before this commit is queued: after an interrupt here, it was never made.
        if waiting >= self._group_max and helps:
            # A full group: deciding it here costs less than passing it to a thread that competes for the interpreter.
            if self._lock.acquire(blocking=waiting > WAITING_MAX):
                try:
                    self._work(goes_on=True)
                finally:
                    self._lock.release()
        elif waiting > WAITING_MAX and not submission.is_resent:
            # Not for a server, whose event loop submits: it stops reading from clients instead (`serving.limits`).
            self.wait()
        self._waiting.append(submission)
        self._submitted += 1
        self._helping = helps
        if self._asleep or not helps:
            self.nudge()
        if self._closed:
            self._refuse_late(submission)

    def _refuse_late(self, submission: Submission) -> None:
        """Another thread has closed the space since the first check: refuse what was added too late to be decided."""
        with self._lock:
            # Others may append meanwhile, but only the holder of the lock takes out.
            place = next((index for index, each in enumerate(list(self._waiting)) if each is submission), None)
            if place is not None:
                del self._waiting[place]
                self._check_open()

    def when_decided(self, then: Callable[[BaseException | None], None]) -> None:
        """Queue an entry that does nothing, after everything submitted before."""
        self.submit_tables(Waiting(then))

    def submit_tables(self, table_transaction: TableTransaction) -> None:
        """Queue a table transaction. Its `decided` is called when it is decided."""
        self.submit(Submission(Commit(TABLE_SESSION, UNNUMBERED), table_transaction=table_transaction), helps=True)

    def serve(self, ended: Lock) -> None:
        """Wait for a submission: `ended` is locked, and released when the submission is decided.

        The first caller decides for all that arrive meanwhile. So each waiting caller is woken once, when its own
        submission is decided.
        """
        if self._lock.acquire(blocking=False):
            try:
                while self._waiting or self._group or self._written:
                    self._work()
            finally:
                self._lock.release()
            if self._waiting:
                # Another caller arrived meanwhile, and found the lock taken.
                self.nudge()
        ended.acquire()

    def nudge(self) -> None:
        """Wake the thread that decides what is queued."""
        if self._threads is None:
            self._bell.set()
        else:
            self._threads.ring(self)

    def wait(self, timeout: float | None = None) -> None:
        """Return when everything submitted before is decided; raises UnavailableError if that takes too long."""
        target = None
        if self._disowned:
            self._check_open()
        while True:
            if not self._lock.acquire(timeout=-1 if timeout is None else timeout):
                left = self._left
                message = (
                    f"{left} commits of space {self.name!r} are not on disk after {timeout} s; they are still tried"
                )
                raise UnavailableError(message, waiting=left)
            try:
                target = self._decided + self._left if target is None else target
                if self._decided >= target or not (self._waiting or self._group or self._written):
                    return
                self._work(goes_on=len(self._waiting) > self._group_max)
            finally:
                self._lock.release()

    def call(self, work: Callable[[Engine], _T]) -> _T:
        """Use the engine directly, between two groups: for reading, branches and care."""
        with self._lock:
            self._check_open()
            with self._guarded():
                return work(self._engine)

    def commit(self, work: Callable[[Engine], tuple[_T, CommitOutcome | None]]) -> _T:
        """Use the engine for a commit of the store itself, between two groups. Replicas are notified of it."""
        with self._lock:
            self._check_open()
            with self._guarded():
                found, outcome = work(self._engine)
                if outcome is not None:
                    self._tell([outcome])
            return found

    def disown(self) -> None:
        """In a forked child, without the thread that decides: the file is not touched here, nor even closed."""
        self._disowned = self._closed = True
        self._lock = machine().lock()
        self._engine.backend.disown()

    @property
    def _left(self) -> int:
        """Commits that are not decided, or not on disk."""
        written = sum(len(each.submissions) for each in self._written) if self._written else 0
        return len(self._waiting) + len(self._group) + written

    def _check_open(self) -> None:
        """Raise unless the space can be used. Then nothing is being written. The lock is held, unless it is closed."""
        if self._disowned:
            message = (
                f"space {self.name!r} was opened by the process that this one was forked from; open it here, "
                "after that one has closed it, or start the process with spawn instead of fork"
            )
            raise ClosedError(message, space=self.name)
        if self._closed:
            message = f"space {self.name!r} was closed; open it again to use it"
            raise ClosedError(message, space=self.name)
        # Not before: a writer is refused without the lock, and `close` delivers the group.
        self._finish_written()
        if self._torn:
            self._restart()

    # -- deciding ------------------------------------------------------------------------------------------

    def _run(self) -> None:
        """The storage's own thread: decides commits for which no caller waits."""
        quiet = 0
        while not self._closed:
            is_due, is_busy = False, self._waiting or self._group or self._written
            if not is_busy and (quiet >= LINGER_ROUNDS or not self._helping):
                # Set before the last check: a writer that appends after the check sees the flag and wakes the thread.
                self._asleep = True
                if not self._waiting and not self._closed:
                    self._bell.wait()
                self._asleep = False
                self._bell.clear()
                quiet = 0
                # Writers that never decide their own commits ring for each: they are not kept waiting for more.
                is_due = not self._helping
            decided = self._decided
            rung = is_due or self._bell.wait(LINGER_S)
            self._bell.clear()
            if not (self._waiting or self._group or self._written):
                quiet += 1
            elif rung or decided == self._decided:
                quiet = 0
                self._drain()

    def decide_next(self) -> bool:
        """Decide one group, in a thread that storages share. Returns whether more waits."""
        with self._lock:
            # A closed one has decided everything itself.
            if not self._closed:
                self._work()
        return bool(self._waiting) and not self._closed

    def _drain(self) -> None:
        """Decide what is queued, until the queue is empty or a writer decides its own commits again."""
        submitted = self._submitted
        while (self._waiting or self._group or self._written) and not (self._helping and submitted != self._submitted):
            with self._lock:
                self._work()

    def _work(self, *, goes_on: bool = False) -> None:
        """Decide one group and deliver the outcomes. The lock is held.

        If the caller `goes_on`, the group is written meanwhile; its outcomes are delivered before those of the next.

        Ctrl-C may interrupt between any two steps, in the thread that waits. So nothing leaves a place before it is in
        the next, and the next call continues where this one was interrupted. Repeated steps are harmless: a commit
        that was accepted gets the same verdict, and outcomes that were delivered are not taken in again.
        """
        if self._torn:
            self._finish_written()
        if self._outcomes is None:
            group, waiting = self._group, self._waiting
            while waiting and len(group) < self._group_max:
                if group and (waiting[0].access or group[0].access) and (declares(waiting[0]) or declares(group[0])):
                    break  # alone: new indexes are built from the log; without an access it is of this process
                group.append(waiting[0])
                waiting.popleft()
            if not group:
                self._finish_written()
                return
            try:
                with self._guarded():
                    decided = self._decide(group, goes_on=goes_on and not self._torn)
                    if self._write is not None:
                        self._written.append(WrittenGroup(group, decided, self._engine.head, self._write))
                        self._write, self._group = None, []
                        # After the next write was passed to the thread, which then goes on without being woken.
                        self._end_written(all_but=groups_to_leave(self._written))
                        return
                    if self._written:
                        # None of them is in the log, and a group before is still being written.
                        self._end_written()
                    self._outcomes = decided
            except LostGroupError:
                # The group waits again, behind the lost one.
                return
        self._deliver(self._group, self._outcomes, self._engine.head)
        self._decided, self._group, self._outcomes = self._decided + len(self._group), [], None

    def _append(
        self, rows: Sequence[LogRow], fold: Fold | None, observed: Sequence[tuple[BranchId, ObservationRow]]
    ) -> None:
        """Write a decided batch, as the engine asks: here, or behind the caller."""
        backend, writer = self._engine.backend, self._writer
        if self._writes_behind:
            is_behind = writer is not None and writer.is_writing
            work = backend.appending(rows, fold, observed, is_behind=is_behind)
            if work is not None:
                if writer is None:
                    writer = self._writer = DiskWriter(f"headwater-{self.name}-disk", backend)
                self._write = writer.start(work, is_long=fold is not None)
                return
        if self._written:
            self._end_written()
        backend.append(rows, fold, observed)

    def _end_written(self, *, all_but: int = 0) -> None:
        """Wait for groups that are being written, and deliver their outcomes. Raises LostGroupError."""
        while len(self._written) > all_but:
            written = self._written[0]
            written.write.wait_ended()
            if written.write.error is not None:
                self._torn = True
                queue_again(self._waiting, self._group, list(self._written))
                self._group, self._outcomes = written.submissions, None
                self._written.clear()
                raise LostGroupError
            self._deliver(written.submissions, written.outcomes, written.head)
            self._decided += len(written.submissions)
            self._written.popleft()

    def _deliver(self, group: list[Submission], outcomes: Decided, head: Seq) -> None:
        """Deliver the outcomes of a group, whose newest commit is this one."""
        self._tell(outcomes, head)
        notify_table_transactions(group, outcomes)
        self.groups += 1

    def _finish_written(self) -> None:
        """Wait for the group that is being written; if the disk did not accept it, decide it again."""
        try:
            self._end_written()
        except LostGroupError:
            self._work()

    def _decide(self, group: list[Submission], *, goes_on: bool = False, is_second: bool = False) -> Decided:  # noqa: C901, PLR0911  # one per outcome
        """Decide a group. If it fails as a whole, its commits are tried one by one: some may still succeed."""
        if self._torn and (why := self._try_restart()) is not None:
            return [Failure(submission.commit, why) for submission in group]
        if self._stalled:
            if len(group) > 1:
                return [one for submission in group for one in self._decide([submission])]
            if (stalled := self._stalled_by(group[0])) is not None:
                return [Failure(group[0].commit, stalled)]
        self._writes_behind = goes_on
        try:
            return list(self._engine.admit(group))
        except LostGroupError:
            raise
        except HeadwaterError as error:
            self._end_written()
            hopeless = isinstance(error, StoreError) and not isinstance(error, StoreFullError)
            if len(group) == 1 or hopeless:
                self._stall(group, error)
                return [Failure(submission.commit, error) for submission in group]
        except Exception as bug:  # noqa: BLE001  # of ours: it may cost one commit, but not hold up all others
            self._end_written()
            self._torn = True
            if (why := self._try_restart()) is not None:
                return [Failure(submission.commit, why) for submission in group]
            # A repeated table transaction cannot be recognized.
            if len(group) == 1 and (is_second or group[0].table_transaction is not None):
                broken = InvariantError(f"a commit could not be decided: {describe(bug)}", commit=group[0].commit)
                broken.__cause__ = bug
                return [Failure(group[0].commit, broken)]
            if len(group) == 1:
                # It may be in the log already: then the engine returns its verdict.
                return self._decide(group, is_second=True)
        finally:
            self._writes_behind = False
        return [one for submission in group for one in self._decide([submission])]

    def _stall(self, group: list[Submission], error: HeadwaterError) -> None:
        """Later commits of these sessions wait until these are sent again: decided first, they would conflict."""
        for each in group if isinstance(error, StoreError) else ():
            commit = each.commit
            # One that arrived twice may be decided: its session has the verdict, and does not send it again.
            was_decided = isinstance(error, StoreFullError) and commit.local_seq <= self._engine.last_of(commit.session)
            if each.is_resent and not was_decided:
                self._stalled.setdefault(commit.session, (commit.local_seq, error))

    def _stalled_by(self, submission: Submission) -> HeadwaterError | None:
        """Why a commit is not decided: there was no room for an earlier one, which was not sent again yet."""
        commit = submission.commit
        number, error = self._stalled.get(commit.session, (commit.local_seq, None))
        if commit.local_seq > number:
            return error
        if commit.local_seq == number:
            # Not by an earlier one, which arrives twice and is decided.
            self._stalled.pop(commit.session, None)
        return None

    def _tell(self, decided: Decided, head: Seq | None = None) -> None:
        """Deliver outcomes, of commits up to this one; by default, up to the end of the log."""
        for port in self._ports:
            port.deliver(decided)
        self._told = self._engine.head if head is None else head

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """After an unexpected error, which may occur at any point, the engine is restarted from the log."""
        try:
            yield
        except (HeadwaterError, LostGroupError):
            raise
        except BaseException:
            self._torn = True
            if self._outcomes is None:
                # Otherwise the group is decided, and told by the next call.
                self._reject_table_transactions()
            self._restart()
            raise

    def _reject_table_transactions(self) -> None:
        """Reject table transactions after a failure: a repeated one is not recognized, and it may be stored already."""
        alone = [
            each for each in self._group if each.table_transaction is not None and each.commit.local_seq == UNNUMBERED
        ]
        self._group = [each for each in self._group if each not in alone]
        self._decided += len(alone)
        told = UnavailableError(f"space {self.name!r} was interrupted in the middle of a commit; open it again")
        for each in alone:
            assert each.table_transaction is not None
            each.table_transaction.decided(None, told)

    def _try_restart(self) -> HeadwaterError | None:
        """The error, if the disk does not allow it: waiting commits get it, and the thread goes on."""
        try:
            self._restart()
        except HeadwaterError as error:
            return error
        return None

    def _restart(self) -> None:
        """Start the engine again from the log, and deliver the entries that the ports have not received."""
        # A write of the interrupted group has ended or not: the log says.
        if self._writer is not None:
            self._writer.settle()
        self._write = None
        with suppress(LostGroupError):
            self._end_written()
        if self._writer is not None:
            self._writer.restart()
        backend = self._engine.backend
        # An interruption may have left a transaction open: the next commit would store writes that were refused.
        backend.roll_back()
        self._engine = Engine(backend, self._clock, self._append)
        missed = outcomes_in_log(self._engine, self._told)
        self._tell(missed)
        self._torn = False

    # -- the end -------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Decide what is queued, fold the log's tail, and close the file. Idempotent."""
        if self._closed:
            return
        try:
            self.wait()
        finally:
            self._closed = True
            self._bell.set()
            if self._threads is None:
                self._thread.join()
            with self._lock:
                self._shut()

    def _shut(self) -> None:
        stopped: KeyboardInterrupt | None = None
        try:
            # Commits that another thread queued during the close: later ones are refused.
            while self._waiting or self._group or self._written:
                try:
                    self._work()
                except KeyboardInterrupt as stop:
                    # The first Ctrl-C leaves none of them without a decision.
                    if stopped is not None:
                        raise
                    stopped = stop
            self._engine.fold()
        except StoreError:
            # The log holds everything already; the next opening replays its tail.
            pass
        finally:
            try:
                if self._writer is not None:
                    self._writer.close()
                self._engine.backend.close()
            finally:
                self._on_close()
        if stopped is not None:
            raise stopped

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def storage_of(lease: Lease) -> Storage:
    """The storage of a lease. Raises UsageError if a server has it."""
    storage = lease.local
    assert isinstance(storage, Storage)
    return storage
