"""A commit that the disk did not take holds up the later ones of its session until it comes again."""

from __future__ import annotations

import pytest

from headwater.cells.pending_commit import Failure
from headwater.errors import HeadwaterError, StoreFullError, UnavailableError
from headwater.host.storage import Storage
from headwater.machine import machine
from headwater.store.backends.memory_backend import MemoryBackend
from headwater.store.commit import Commit, CommitOutcome, Committed, Submission
from headwater.testing import SimClock
from headwater.values.ids import LocalSeq, SessionId
from tests.support.spaces import put


class Heard:
    """Keeps what was decided."""

    def __init__(self) -> None:
        self.decided: list[CommitOutcome | Failure] = []

    def deliver(self, decided: list[CommitOutcome | Failure]) -> None:
        self.decided += decided


def commit(number: int) -> Submission:
    return Submission(Commit(SessionId("s"), LocalSeq(number), (put("a", number),)), is_resent=True)


@pytest.mark.parametrize("error", [StoreFullError("no room"), UnavailableError("read-only")], ids=["full", "away"])
def test_no_later_commit_is_decided_before_one_that_has_to_come_again(error: HeadwaterError) -> None:
    backend = MemoryBackend()
    heard = Heard()
    with Storage(backend, SimClock(), machine()) as storage:
        storage.join(heard)
        append = backend.append

        def fail(*_rows: object) -> None:
            raise error

        backend.append = fail  # type: ignore[method-assign, assignment]  # until it is mended
        storage.submit(commit(1), helps=False)
        storage.wait()
        backend.append = append  # type: ignore[method-assign]  # as it was
        # It was on its way when the first one failed.
        storage.submit(commit(2), helps=False)
        storage.wait()
        assert all(isinstance(each, Failure) for each in heard.decided)
        heard.decided.clear()
        storage.submit(commit(1), helps=False)
        storage.submit(commit(2), helps=False)
        storage.wait()
        told = [each.verdict for each in heard.decided if isinstance(each, CommitOutcome)]
        assert told == [Committed(1), Committed(2)]


@pytest.mark.pure("replaces a method")
def test_a_commit_that_arrives_again_while_the_disk_is_full_does_not_stall_its_session() -> None:
    backend = MemoryBackend()
    heard = Heard()
    with Storage(backend, SimClock(), machine(), group_max=1) as storage:
        storage.join(heard)
        storage.submit(commit(1), helps=False)
        storage.wait()
        fold = storage._engine._due_fold

        def fail() -> None:
            raise StoreFullError("no room")

        # A fold is due, and there is no room for it: this fails also for a commit that only gets its verdict again.
        storage._engine._due_fold = fail  # type: ignore[method-assign]  # until there is room
        storage.submit(commit(1), helps=False)
        storage.wait()
        storage._engine._due_fold = fold  # type: ignore[method-assign]  # as it was
        heard.decided.clear()
        # The session has the verdict on the first one, and does not send it again.
        storage.submit(commit(2), helps=False)
        storage.wait()
    [decided] = heard.decided
    assert isinstance(decided, CommitOutcome)
    assert isinstance(decided.verdict, Committed)
