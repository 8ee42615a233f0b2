"""A commit that has read what another changed before it will not land: it is not shown on top of what won."""

from __future__ import annotations

import pytest

from headwater.cells.replica import Replica
from headwater.store.commit import Commit, CommitOutcome, Committed, Conflict, Effect, PatchDoc, SetDoc, Submission
from headwater.store.conflict import EVERYTHING
from headwater.store.document import StoredDocument
from headwater.values.address import doc_key
from headwater.values.ids import DocKey, LocalSeq, Seq, SessionId
from headwater.values.notifications import Notification
from headwater.values.patch import Increment, Touch
from headwater.values.tree import Maybe, map_of

ANN, BOB = doc_key("ann"), doc_key("bob")


class Far:
    """A store that decides when the test says so."""

    def __init__(self) -> None:
        self.sent: list[Submission] = []

    def load(self, doc: DocKey, through: Seq) -> StoredDocument:
        del doc, through
        return StoredDocument(100, Seq(1))

    def submit(self, submission: Submission) -> None:
        self.sent.append(submission)


@pytest.fixture
def far() -> Far:
    return Far()


@pytest.fixture
def replica(far: Far) -> Replica:
    return Replica(far, SessionId("me"), seq=Seq(1))


def theirs(doc: DocKey, before: Maybe, after: int, seq: int) -> CommitOutcome:
    commit = Commit(SessionId("they"), LocalSeq(seq), (SetDoc(doc, after),))
    return CommitOutcome(commit, Committed(Seq(seq)), (Effect(doc, before, after, EVERYTHING),))


def pay(replica: Replica, amount: int) -> None:
    """From Ann to Bob, as a transaction does it: both are read, both are written."""
    reads = [replica.read_mark(ANN, ()), replica.read_mark(BOB, ())]
    ann, bob = replica.read(ANN), replica.read(BOB)
    assert isinstance(ann, int) and isinstance(bob, int)
    replica.commit([SetDoc(ANN, ann - amount), SetDoc(BOB, bob + amount)], reads=reads)


def test_it_is_hidden_when_the_other_is_heard_of_and_not_only_with_its_verdict(replica: Replica, far: Far) -> None:
    seen: list[tuple[Maybe, Maybe]] = []

    def look(_news: Notification) -> None:
        seen.append((replica.read(ANN), replica.read(BOB)))

    replica.listen(look)
    pay(replica, 5)
    assert (replica.read(ANN), replica.read(BOB)) == (95, 105)
    replica.integrate([theirs(ANN, 100, 40, 2)])
    # Not 40 and 105.
    assert (replica.read(ANN), replica.read(BOB)) == (40, 100)
    assert seen == [(95, 105), (40, 100)]
    mine = far.sent[0].commit
    replica.integrate([CommitOutcome(mine, Conflict("overtaken", ANN))])
    assert (replica.read(ANN), replica.read(BOB)) == (40, 100)
    assert replica.pending_count == 0


def test_what_was_made_on_top_of_it_goes_with_it(replica: Replica) -> None:
    pay(replica, 5)
    pay(replica, 7)
    replica.integrate([theirs(BOB, 100, 40, 2)])
    assert (replica.read(ANN), replica.read(BOB)) == (100, 40)


def test_what_it_did_not_read_does_not_hide_it(replica: Replica) -> None:
    replica.commit([SetDoc(ANN, 7)])
    replica.commit([SetDoc(BOB, 8)], reads=[replica.read_mark(BOB, ())])
    replica.integrate([theirs(ANN, 100, 40, 2)])
    # The last write stands: nothing was read for it.
    assert (replica.read(ANN), replica.read(BOB)) == (7, 8)


def test_another_place_of_the_same_document_does_not_hide_it(far: Far) -> None:
    start = map_of({"a": 1, "b": 1})
    far.load = lambda *_: StoredDocument(start, Seq(1))  # type: ignore[method-assign]  # a document with two places
    replica = Replica(far, SessionId("me"), seq=Seq(1))
    replica.commit([PatchDoc(ANN, (Increment(("a",), 5),))], reads=[replica.read_mark(ANN, ("a",))])
    other = PatchDoc(ANN, (Increment(("b",), 1),))
    after = map_of({"a": 1, "b": 2})
    effect = Effect(ANN, start, after, (Touch(("b",), False),))
    commit = Commit(SessionId("they"), LocalSeq(2), (other,))
    replica.integrate([CommitOutcome(commit, Committed(Seq(2)), (effect,))])
    assert replica.read(ANN) == map_of({"a": 6, "b": 2})


def test_it_is_shown_again_if_it_lands_after_all(replica: Replica, far: Far) -> None:
    pay(replica, 5)
    replica.integrate([theirs(ANN, 100, 40, 3)])
    mine = far.sent[0].commit
    effects = (Effect(ANN, 100, 95, EVERYTHING), Effect(BOB, 100, 105, EVERYTHING))
    replica.integrate([CommitOutcome(mine, Committed(Seq(2)), effects)])
    # It was decided before the other: so Ann has what the other left.
    assert (replica.read(ANN), replica.read(BOB)) == (40, 105)


def test_it_is_hidden_too_if_it_read_a_commit_that_was_confirmed_meanwhile(replica: Replica, far: Far) -> None:
    pay(replica, 5)
    pay(replica, 7)
    first = far.sent[0].commit
    effects = (Effect(ANN, 100, 95, EVERYTHING), Effect(BOB, 100, 105, EVERYTHING))
    # The first one is in the log, then the other's: what the second one read is not there any more.
    replica.integrate([CommitOutcome(first, Committed(Seq(2)), effects), theirs(ANN, 95, 40, 3)])
    # Not 40 and 112.
    assert (replica.read(ANN), replica.read(BOB)) == (40, 105)


def test_it_stays_while_a_commit_that_it_read_may_still_come_after_the_other(replica: Replica) -> None:
    replica.commit([SetDoc(ANN, 7)])
    replica.commit([SetDoc(BOB, 8)], reads=[replica.read_mark(ANN, ())])
    replica.integrate([theirs(ANN, 100, 40, 2)])
    # The first one has read nothing: it is decided after the other's, and what the second one read is there again.
    assert (replica.read(ANN), replica.read(BOB)) == (7, 8)
