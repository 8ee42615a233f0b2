"""The decided commits of each session: sending a commit twice is idempotent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from headwater.store.backend import SESSIONS_DROPPED, Backend
from headwater.store.commit import Commit, Committed, Verdict
from headwater.store.decided_commit import Elided
from headwater.store.store_limits import VERDICTS_MAX
from headwater.values.ids import NEVER, LocalSeq, Seq, SessionId

NO_SESSION: Final = SessionId("")
"""The session of no commit."""


@dataclass(slots=True, eq=False)
class Session:
    """One session. Its commits are decided in the order of their local numbers."""

    id: SessionId
    # The newest decided commit: a commit at or below it was decided before.
    last: LocalSeq
    # All commits above it, up to `last`, were accepted: a range of layers is then checked in one step.
    gap: LocalSeq
    # Accepted since the last fold; the backend has the older ones.
    accepted: dict[LocalSeq, Seq] = field(default_factory=dict)
    # Rejected since the store was opened, the newest VERDICTS_MAX. After a restart, a gap in `accepted` means the same.
    rejected: dict[LocalSeq, Verdict] = field(default_factory=dict)
    # Elided, also the newest VERDICTS_MAX. After a restart, and after a long idle time, they are decided again.
    elided: dict[LocalSeq, Elided] = field(default_factory=dict)


class Sessions:
    """All sessions that have committed since the store was opened."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.known: dict[SessionId, Session] = {}
        self._folded = NEVER

    def get(self, session_id: SessionId) -> Session:
        """The record of a session, loaded or new."""
        session = self.known.get(session_id)
        if session is None:
            last = self._backend.last_local(session_id)
            session = self.known[session_id] = Session(session_id, last, last)
        return session

    def seq_of(self, session: Session, local_seq: LocalSeq) -> Seq | None:
        """The sequence number of a commit of this session; None if it was rejected or never came.

        For an elided commit, the end of the log at that time: later than all commits before it.
        """
        seq = session.accepted.get(local_seq)
        if seq is None and local_seq in session.elided:
            return session.elided[local_seq].head
        return seq or self._backend.replayed(session.id, local_seq)

    def is_dropped(self, session: Session) -> bool:
        """Whether only the newest commit of this session is known, because it is older than sessions are kept."""
        through = int(self._backend.meta(SESSIONS_DROPPED) or 0)
        newest = self.seq_of(session, session.last) if through and session.last > 1 else None
        if newest is None or newest > through:
            return False
        # Sessions that were in use are whole.
        return self.seq_of(session, LocalSeq(session.last - 1)) is None

    def first_missing(self, session: Session, first: LocalSeq, last: LocalSeq) -> LocalSeq | None:
        """The first of a range that is not in the log; None if all are."""
        if session.gap < first and last <= session.last:
            return None
        for number in range(first, last + 1):
            if self.seq_of(session, LocalSeq(number)) is None:
                return LocalSeq(number)
        return None

    def names_all(self, session: Session, layers: tuple[tuple[LocalSeq, LocalSeq], ...], basis: Seq) -> bool:
        """Whether these are certainly all commits of the session after a sequence number, without checking each."""
        if len(layers) != 1 or layers[0][1] != session.last:
            return False
        before = LocalSeq(layers[0][0] - 1)
        return not before or NEVER < (self.seq_of(session, before) or NEVER) <= basis

    def record(self, session: Session, local_seq: LocalSeq, verdict: Verdict) -> None:
        """Record the verdict of a commit."""
        if type(verdict) is Committed:
            self._move(session, local_seq)
            session.accepted[local_seq] = verdict.seq
            return
        session.last = session.gap = local_seq
        session.rejected[local_seq] = verdict
        if len(session.rejected) > VERDICTS_MAX:
            del session.rejected[next(iter(session.rejected))]

    def elide(self, session: Session, local_seq: LocalSeq, elided: Elided) -> None:
        """Record an elided commit, perhaps repeatedly."""
        if local_seq > session.last:
            self._move(session, local_seq)
        session.elided[local_seq] = elided
        if len(session.elided) > VERDICTS_MAX:
            del session.elided[next(iter(session.elided))]

    @staticmethod
    def _move(session: Session, local_seq: LocalSeq) -> None:
        if local_seq != session.last + 1:
            session.gap = LocalSeq(local_seq - 1)
        session.last = local_seq

    def forget(self, decided: Iterable[Commit]) -> None:
        """Remove commits that were not written to disk: they are undecided again."""
        for commit in decided:
            session, local_seq = self.get(commit.session), commit.local_seq
            session.accepted.pop(local_seq, None)
            session.rejected.pop(local_seq, None)
            gone = session.elided.pop(local_seq, None)
            if gone is None or not gone.is_repeated:
                session.last = min(session.last, LocalSeq(local_seq - 1))

    def folded(self, through: Seq) -> None:
        """The backend now has everything accepted up to `through`; commits written with the fold stay here."""
        for session in list(self.known.values()):
            if session.accepted and next(reversed(session.accepted.values())) <= through:
                # They were accepted in the order of the log: all are in the backend.
                session.accepted = {}
            else:
                session.accepted = {number: seq for number, seq in session.accepted.items() if seq > through}
            quiet = not any(each.head > self._folded for each in session.elided.values())
            if not session.accepted and not session.rejected and quiet:
                del self.known[session.id]
        self._folded = through
