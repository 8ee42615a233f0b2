"""The observation of a run is stored if each of its reads gives the same value now, whatever was written since."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from headwater.store.backend import Fold, LogRow, ObservationRow
from headwater.store.backends.memory_backend import MemoryBackend
from headwater.store.commit import Commit, NewObservation, Operation, PendingRead, Read, Submission
from headwater.store.compaction import compact
from headwater.store.engine import Engine
from headwater.store.observations import encode_observation
from headwater.testing import SimClock
from headwater.values.address import doc_key
from headwater.values.ids import MAIN, BranchId, LocalSeq, Seq, SessionId
from tests.support.spaces import Space, append, edit, pending_read, put, read, remove, replace

ANN = SessionId("ann")
BODY = encode_observation(b"a print.", [(doc_key("input"), (), 0)])


def is_noted(space: Space, *reads: Read | PendingRead) -> bool:
    confirmed = tuple(each for each in reads if isinstance(each, Read))
    pending = tuple(each for each in reads if isinstance(each, PendingRead))
    note = NewObservation(doc_key("app.sink"), BODY, Commit(ANN, LocalSeq(0), (), confirmed, pending))
    return space.engine.observe([note]) == 1


def forget(space: Space) -> None:
    """The effects of the writes are only in the log."""
    space.engine.release(MAIN, [doc_key("p")])


@pytest.mark.parametrize("is_in_memory", [True, False])
def test_write_of_an_equal_value_changes_no_read(space: Space, is_in_memory: bool) -> None:
    space.writer("bob").accept(put("p", 1))
    space.writer("ann").accept(put("p", 1), put("q", 1))
    if not is_in_memory:
        forget(space)
    assert is_noted(space, read("p", at=1))


@pytest.mark.parametrize("is_in_memory", [True, False])
def test_other_value_changes_a_read(space: Space, is_in_memory: bool) -> None:
    bob = space.writer("bob")
    bob.accept(put("p", {"a": 1, "b": 1}))
    bob.accept(edit("p", replace("a", to=2)))
    if not is_in_memory:
        forget(space)
    assert not is_noted(space, read("p", at=1))
    assert not is_noted(space, read("p", "a", at=1))
    assert is_noted(space, read("p", "b", at=1))


def test_value_that_is_back_is_the_same(space: Space) -> None:
    bob = space.writer("bob")
    for value in (1, 2, 1):
        bob.accept(put("p", value))
    assert is_noted(space, read("p", at=1))
    assert not is_noted(space, read("p", at=2))


@pytest.mark.parametrize("is_in_memory", [True, False])
def test_read_through_layers_is_compared_with_what_was_seen(space: Space, is_in_memory: bool) -> None:
    space.writer("bob").accept(put("p", {"l": [1], "n": 0}))
    ann = space.writer("ann")
    ann.accept(edit("p", append("l", items=[2])))
    ann.accept(put("p", {"l": [1, 2], "n": 0}), put("q", 1))
    if not is_in_memory:
        forget(space)
    assert is_noted(space, pending_read("p", basis=1, layers=[(1, 1)]))
    ann.accept(edit("p", remove("l", 0)))
    if not is_in_memory:
        forget(space)
    assert not is_noted(space, pending_read("p", basis=1, layers=[(1, 1)]))
    assert is_noted(space, pending_read("p", "n", basis=1, layers=[(1, 1)]))


def test_layer_that_was_not_accepted_makes_no_observation(space: Space) -> None:
    space.writer("bob").accept(put("p", 1))
    assert not is_noted(space, pending_read("p", basis=1, layers=[(1, 1)]))


def test_read_of_a_later_commit_makes_no_observation(space: Space) -> None:
    space.writer("bob").accept(put("p", 1))
    assert not is_noted(space, read("p", at=9))
    assert not is_noted(space, pending_read("p", basis=9, layers=[(1, 1)]))


def test_read_before_the_beginning_of_the_log_proves_nothing(space: Space) -> None:
    bob, ann = space.writer("bob"), space.writer("ann")
    bob.accept(put("p", 1))
    ann.accept(put("p", 2))
    bob.accept(put("p", 1))
    bob.accept(put("q", 1))
    compact(space.engine, Seq(4))
    forget(space)
    assert not is_noted(space, read("p", at=1))
    assert not is_noted(space, pending_read("p", basis=1, layers=[(1, 1)]))


def test_layer_that_does_not_fit_its_basis_makes_no_observation(space: Space) -> None:
    space.writer("bob").accept(put("p", {"n": 0}))
    space.writer("ann").accept(edit("p", replace("n", to=1)))
    assert not is_noted(space, pending_read("p", basis=0, layers=[(1, 1)]))


@pytest.mark.parametrize(("layer", "is_known"), [(put("p", {"n": 1}), True), (edit("p", replace("n", to=1)), False)])
def test_layer_without_an_entry_in_the_log_is_known_if_it_wrote_the_document(
    space: Space, layer: Operation, is_known: bool
) -> None:
    bob = space.writer("bob")
    bob.accept(put("p", {"n": 1}))
    space.engine.admit([Submission(Commit(ANN, LocalSeq(1), (layer,), seen=(0, BODY)))])
    assert space.engine.head == 1
    bob.accept(put("p", {"n": 2}))
    bob.accept(put("p", {"n": 1}))
    assert is_noted(space, pending_read("p", basis=0, layers=[(1, 1)])) is is_known


def test_of_observations_of_a_document_in_one_group_the_last_is_written() -> None:
    """The runs of a computation whose result stays the same, while a program writes."""
    backend = MemoryBackend()
    written: list[list[tuple[str, int]]] = []

    def append(rows: Sequence[LogRow], fold: Fold | None, observed: Sequence[tuple[BranchId, ObservationRow]]) -> None:
        written.append([(row.doc, row.seq) for _, row in observed])
        backend.append(rows, fold, observed)

    engine = Engine(backend, SimClock(), append)
    group: list[Submission] = []
    for number in range(1, 4):
        seen = Commit(ANN, LocalSeq(0), (), (read("q", at=0),))
        notes = tuple(NewObservation(doc_key(name), BODY, seen) for name in ("app.one", "app.two"))
        group.append(Submission(Commit(ANN, LocalSeq(number), (put("p", number),)), observations=notes))
    engine.admit(group)
    newest = [(doc_key(name), 2) for name in ("app.one", "app.two")]
    assert written == [newest]
    assert [(row.doc, row.seq) for row in backend.observations(MAIN)] == newest
