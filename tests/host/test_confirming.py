"""Between two runs of a long pass, own commits that were accepted are taken in, and nothing else."""

from __future__ import annotations

import pytest

from headwater.cells.transaction import Transaction
from headwater.host.storage import Storage
from headwater.runtime.attached_replica import AttachedReplica
from headwater.values.address import doc_key
from headwater.values.ids import LocalSeq
from tests.support.hosts import in_memory
from tests.support.naive import plain
from tests.support.spaces import put

NOTE = doc_key("note")


@pytest.fixture
def storage() -> Storage:
    return in_memory()


@pytest.fixture
def ann(storage: Storage) -> AttachedReplica:
    return storage.attach()


def test_accepted_commit_is_confirmed_and_keeps_no_version_that_it_has_read(
    storage: Storage, ann: AttachedReplica
) -> None:
    first = ann.commit([put("note", 1)])
    tx = Transaction(ann)
    assert tx.read(NOTE) == 1
    tx.put(doc_key("other"), 2)
    tx.commit()
    second = ann._pending[LocalSeq(first.commit.local_seq + 1)]
    assert second.unnamed
    storage.wait()
    ann.confirm()
    assert first.accepted
    assert second.accepted
    assert not second.unnamed
    assert ann.pending_count == 0


def test_commit_of_another_session_waits_for_the_end_of_the_pass_and_so_does_all_behind_it(
    storage: Storage, ann: AttachedReplica
) -> None:
    bob = storage.attach()
    ann.commit([put("mine", 1)])
    assert plain(ann.read(NOTE)) is not None
    storage.wait()
    bob.commit([put("note", "bob")])
    storage.wait()
    behind = ann.commit([put("mine", 2)])
    storage.wait()
    ann.confirm()
    assert not behind.settled
    assert ann.pending_count == 1, "the first is confirmed"
    assert ann.read(NOTE) != "bob"
    ann.refresh()
    assert behind.settled
    assert ann.read(NOTE) == "bob"


def test_rejected_commit_waits_for_the_end_of_the_pass(storage: Storage, ann: AttachedReplica) -> None:
    bob = storage.attach()
    bob.read(NOTE)
    mark = bob.read_mark(NOTE, ())
    ann.commit([put("note", 1)])
    lost = bob.commit([put("note", 2)], reads=[mark])
    storage.wait()
    bob.confirm()
    assert not lost.settled
    assert bob.read(NOTE) == 2
    bob.refresh()
    assert lost.settled
    assert bob.read(NOTE) == 1


def test_verdict_that_a_program_waits_for_is_told_at_the_end_of_the_pass(
    storage: Storage, ann: AttachedReplica
) -> None:
    told: list[bool] = []
    tx = Transaction(ann)
    tx.put(NOTE, 1)
    tx.on_settled(lambda tx: told.append(tx.verdict is not None))
    tx.commit()
    sent = ann.commit([put("other", 1)])
    sent.on_settled(lambda _: told.append(True))
    storage.wait()
    ann.confirm()
    assert told == []
    ann.refresh()
    assert told == [True, True]
