"""The sessions of a storage world: what they sent and what they were told. They outlive the processes of the node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from headwater.cells.pending_commit import Failure
from headwater.errors import (
    HeadwaterError,
    LocalProtocolError,
    NotFoundError,
    PoisonedError,
    StoreError,
    StoreFullError,
)
from headwater.machine import Lock
from headwater.runtime.attached_replica import Decided
from headwater.store.commit import (
    Absent,
    Commit,
    CommitOutcome,
    Committed,
    Operation,
    OriginCommitted,
    PendingRead,
    Precondition,
    Read,
    SetDoc,
    Submission,
    Tables,
    ValueIs,
    Verdict,
)
from headwater.store.document import StoredDocument
from headwater.store.observations import encode_observation
from headwater.values.address import Depth
from headwater.values.codec import digest
from headwater.values.ids import BranchId, DocKey, LocalSeq, Seq, SessionId
from headwater.values.tree import ABSENT, Maybe, freeze
from sim.oracles.crash_points import mark_acknowledged
from sim.storage.workload import LANES, Act, Writer, operations, whole
from sim.world import World

INSERT: Final = (
    "insert into flow(name, salt, version, intent, created_at, updated_at) values (?, '', 1, 'active', 0, 0)"
)
ROWS: Final = "select name from flow"
UNKNOWN: Final = -1
RIDER: Final = 9
"""The last digit of values that table transactions write."""


@dataclass(slots=True, eq=False)
class Sent:
    """One commit, from its first sending on."""

    act: Act
    commit: Commit
    # Verdicts in the order in which they came, with the newest commit that was decided before each, or UNKNOWN.
    verdicts: list[tuple[Verdict, int]] = field(default_factory=list)
    # Not decided, and not sent again: the disk was full, or failed.
    error: HeadwaterError | None = None
    # The opening in which it was made, or decided first.
    opening: int = 0
    # The opening in which it was made.
    made_in: int = 0
    # What its table transaction does.
    rides: str = ""
    # Sent in this opening, and not decided.
    is_out: bool = False
    # `submit` has returned.
    is_taken: bool = False

    @property
    def is_elided(self) -> bool:
        """Whether it may be accepted without an entry in the log."""
        return self.commit.seen is not None

    @property
    def may_be_elided_before(self) -> bool:
        """Whether it may have been accepted without an entry, by an opening that ended before its session was told."""
        if not self.is_elided or isinstance(self.error, StoreFullError):
            # Of a commit that a full disk refused, the session was told that it is not stored.
            return False
        return not self.verdicts or (isinstance(self.verdicts[0][0], Committed) and self.opening != self.made_in)

    @property
    def is_over(self) -> bool:
        return bool(self.verdicts) or self.error is not None


class Session:
    """A session, which one actor at a time uses."""

    def __init__(self, world: World, writer: Writer, acts: Sequence[Act]) -> None:
        self.world, self.writer = world, writer
        self.acts = list(acts)
        self.next = 0
        self.life = 0
        self.sent: dict[SessionId, dict[int, Sent]] = {}
        self.id = SessionId("")
        self.openings = 0
        # Resending: the first number that failed and was not sent again.
        self.stalled: int | None = None
        self.begin_life()

    def begin_life(self) -> None:
        """A process starts. Only a session that sends again goes on under its name."""
        if self.writer.resends and self.id:
            return
        for each in self.current.values() if self.id else ():
            if not each.is_over:
                each.error = HeadwaterError("its process was killed")
        self.life += 1
        self.id = SessionId(f"{self.writer.name}{self.life}")
        self.sent[self.id] = {}
        self.stalled = None

    @property
    def current(self) -> dict[int, Sent]:
        return self.sent[self.id]

    @property
    def is_done(self) -> bool:
        return self.next >= len(self.acts) and not self.open()

    def open(self) -> list[Sent]:
        """What has no verdict, in order."""
        return [each for each in self.current.values() if not each.is_over]

    # -- commits -------------------------------------------------------------------------------------------

    def make(self, act: Act, load: Callable[[str, DocKey, int], StoredDocument], head: int) -> Sent:
        """Build the commit of an act on what the session knows."""
        number = len(self.current) + 1
        reads: list[Read] = []
        pending: list[PendingRead] = []
        for look in act.looks:
            doc, depth = DocKey(look.doc), Depth.SHALLOW if look.shallow else Depth.DEEP
            layers = tuple(
                (each.commit.local_seq, each.commit.local_seq)
                for each in self.open()
                if each.act.branch == act.branch and any(op.doc == doc for op in each.commit.operations)
            )
            if layers:
                pending.append(PendingRead(doc, look.path, Seq(head), layers, depth))
            else:
                reads.append(Read(doc, look.path, Seq(max(0, head - look.lag)), depth))
        conditions: list[Precondition] = []
        if act.absent:
            conditions.append(Absent(DocKey(act.absent)))
        if act.same:
            value = load(act.branch, DocKey(act.same), head).value
            conditions.append(ValueIs(DocKey(act.same), b"" if value is ABSENT else digest(value)))
        if act.origin and number > act.origin:
            conditions.append(OriginCommitted(LocalSeq(number - act.origin)))
        commit = Commit(
            self.id,
            LocalSeq(number),
            operations(act),
            tuple(reads),
            tuple(pending),
            tuple(conditions),
            BranchId(act.branch),
            (0, _observation(reads, pending)) if act.steps[0].how == "result" else None,
        )
        made = self.current[number] = Sent(act, commit, rides="" if self.writer.resends else act.rides)
        made.opening = made.made_in = self.openings
        return made

    def reused(self) -> Submission | None:
        """A commit that was accepted, with other operations."""
        for each in reversed(self.current.values()):
            if each.rides or each.is_elided:
                continue  # of the second kind, a later opening knows nothing
            if any(isinstance(verdict, Committed) for verdict, _ in each.verdicts):
                other = SetDoc(DocKey("d0"), freeze(whole(each.act.number * LANES + RIDER)))
                return Submission(
                    msgspec.structs.replace(each.commit, operations=(other,)), is_resent=self.writer.resends
                )
        return None

    def submission(self, sent: Sent) -> Submission:
        """What is given to the storage."""
        rider = Rider(sent.act) if sent.rides else None
        sent.is_out = True
        if self.stalled is not None and sent.commit.local_seq <= self.stalled:
            self.stalled = None
        return Submission(sent.commit, table_transaction=rider, is_resent=self.writer.resends)

    # -- what it is told -----------------------------------------------------------------------------------

    def told(self, number: int, verdict: Verdict, head: int) -> None:
        sent = self.current[number]
        sent.is_out = False
        if self.stalled is not None and number > self.stalled and isinstance(verdict, Committed):
            self.world.violate("INV-5", f"{self.id} {number} was decided, and {self.stalled} before it was not")
        if not sent.verdicts:
            sent.opening = self.openings
        sent.verdicts.append((verdict, head))
        if isinstance(verdict, Committed) and not sent.is_elided:
            mark_acknowledged(self.world.node(sent.act.node), verdict.seq, self.id, number)

    def failed(self, number: int, error: HeadwaterError) -> None:
        sent = self.current[number]
        sent.is_out = False
        if not isinstance(error, StoreError) and sent.rides != "breaks":
            self.world.violate("INV-7", f"{self.id} {number} was told {type(error).__name__}: {error}")
        if sent.verdicts:
            # Decided before an interrupt, and tried again after it: the verdict holds (`Storage._stall`).
            return
        if self.writer.resends:
            self.stalled = number if self.stalled is None else min(self.stalled, number)
            if isinstance(error, StoreFullError):
                self.world.counts["stalled"] += 1
        else:
            sent.error = error


def _observation(reads: Sequence[Read], pending: Sequence[PendingRead]) -> bytes:
    """What a run with these reads is stored with."""
    marks: list[Read | PendingRead] = [*reads, *pending]
    seen = [(each.doc, each.path, int(each.depth is Depth.SHALLOW)) for each in marks]
    return encode_observation(b"code", seen)


class Rider:
    """A table transaction, with a commit or alone."""

    def __init__(self, act: Act, ended: Lock | None = None) -> None:
        self.act, self._ended = act, ended
        self.verdict: Verdict | None = None
        self.error: HeadwaterError | None = None

    def apply(self, tables: Tables, look: Callable[[DocKey], Maybe]) -> Sequence[Operation]:
        """Add a row, whose name is the number of the act, and a document."""
        del look
        tables.execute(INSERT, (str(self.act.number),))
        if self.act.rides == "refuses":
            raise NotFoundError("the table transaction refuses")
        if self.act.rides == "breaks":
            raise RuntimeError("the table transaction breaks")
        return rider_operations(self.act)

    def decided(self, verdict: Verdict | None, error: HeadwaterError | None) -> None:
        """The session of a commit is told by the receiver. After an interrupt, it may be called again."""
        if self.verdict is not None or self.error is not None:
            return
        self.verdict, self.error = verdict, error
        if self._ended is not None:
            self._ended.release()


def rider_operations(act: Act) -> tuple[Operation, ...]:
    """What a table transaction adds."""
    return (SetDoc(DocKey("t0"), freeze(whole(act.number * LANES + RIDER))),)


class Receiver:
    """Gets all decisions of one opening, and passes them to the sessions."""

    def __init__(self, world: World, sessions: Sequence[Session], gaps: list[tuple[int, int]]) -> None:
        self._world, self._sessions, self._gaps = world, sessions, gaps
        self.sessions = [each.id for each in sessions]
        self.head = 0
        # Nothing is decided by this opening any more.
        self.is_poisoned = False

    def deliver(self, decided: Decided) -> None:
        """Called by the deciding thread, with the storage's lock."""
        for index, each in enumerate(decided):
            commit = each.commit
            session = next((one for one in self._sessions if one.id == commit.session), None)
            if session is not None and _is_reused(session, commit):
                self._look_at_reused(each)
                continue
            if isinstance(each, Failure):
                self.is_poisoned = self.is_poisoned or isinstance(each.error, PoisonedError)
                if session is not None and commit.local_seq in session.current:
                    session.failed(commit.local_seq, each.error)
                continue
            before = self.head
            if isinstance(each.verdict, Committed):
                seq = each.verdict.seq
                if seq > self.head:
                    if seq != self.head + 1:
                        self._gaps.append((self.head, seq))
                    self.head = seq
            if session is not None and commit.local_seq in session.current:
                is_late = not isinstance(each.verdict, Committed) and self._is_late(decided[index + 1 :])
                session.told(commit.local_seq, each.verdict, UNKNOWN if is_late else before)
        self._world.counts["decided"] += len(decided)

    def _is_late(self, following: Decided) -> bool:
        """A commit that was decided later was told earlier: the engine was started again in the middle of the group."""
        entries = [
            each.verdict.seq
            for each in following
            if isinstance(each, CommitOutcome) and isinstance(each.verdict, Committed) and each.commit.seen is None
        ]
        return any(seq <= self.head for seq in entries)

    def _look_at_reused(self, each: CommitOutcome | Failure) -> None:
        """A number was used again for other operations."""
        # Of a commit that compaction has dropped, the operations are not known any more.
        is_known = not self._world.counts["compactions"]
        if isinstance(each, CommitOutcome) and isinstance(each.verdict, Committed) and is_known:
            text = f"{each.commit.session} {each.commit.local_seq} with other operations: {each.verdict}"
            self._world.violate("INV-11", text)
        elif isinstance(each, Failure) and isinstance(each.error, LocalProtocolError):
            self._world.counts["number reused"] += 1


def _is_reused(session: Session, commit: Commit) -> bool:
    sent = session.current.get(commit.local_seq)
    count = 0 if sent is None else len(sent.commit.operations)
    return sent is not None and commit.operations[:count] != sent.commit.operations
