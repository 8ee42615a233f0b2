"""A commit names the version that was looked at first, also if layers came, were confirmed or were taken back since."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import NamedTuple

from hypothesis import event, given
from hypothesis import strategies as st

from headwater.cells.pending_commit import Mark
from headwater.cells.transaction_states import Status
from headwater.errors import StoreFullError
from headwater.store.commit import Conflict, Operation, PendingRead, Read
from headwater.values.address import Depth, doc_key
from headwater.values.ids import DocKey
from headwater.values.tree import Path
from tests.cells.replica.desk import Desk
from tests.cells.transactions.stage import A, B, Stage, reads_of, seen
from tests.support.spaces import drop, edit, increment, put

DEEP, SHALLOW = Depth.DEEP, Depth.SHALLOW
FULL = StoreFullError("no room")

# --- what is named --------------------------------------------------------------------------------------------


def test_read_of_a_confirmed_document_names_its_place_in_the_log() -> None:
    stage = Stage(a={"x": 1, "m": {}})
    basis = stage.here.seq
    stage.meanwhile(put("other", 1))
    tx = stage.begin()
    tx.read(A, ("x",))
    tx.read(A, ("m",), SHALLOW)
    tx.set(B, (), 1)
    tx.commit()
    assert stage.last().reads == (Read(A, ("x",), basis), Read(A, ("m",), basis, SHALLOW))
    assert stage.last().pending_reads == ()


def test_read_of_a_document_that_never_was_names_the_beginning() -> None:
    stage = Stage(a=1)
    tx = stage.begin()
    tx.read(B)
    tx.set(A, (), 2)
    tx.commit()
    assert stage.last().reads == (Read(B, (), 0),)


def test_read_through_layers_names_every_one_of_them_and_what_they_lie_on() -> None:
    stage = Stage(a={"n": 0})
    basis = stage.here.seq
    first = stage.here.commit([edit("a", increment("n"))]).commit.local_seq
    stage.here.commit([put("other", 1)])
    last = stage.here.commit([edit("a", increment("n"))]).commit.local_seq
    tx = stage.begin()
    assert seen(tx, "a", "n") == 2
    tx.set(B, (), 2)
    tx.commit()
    assert reads_of(stage.last()) == [PendingRead(A, ("n",), basis, ((first, first), (last, last)))]


def test_layers_that_came_after_the_first_look_are_not_named() -> None:
    stage = Stage(a={"n": 0, "m": 0})
    basis = stage.here.seq
    seen_layer = stage.here.commit([edit("a", increment("n"))]).commit.local_seq
    tx = stage.begin()
    assert seen(tx, "a", "n") == 1
    stage.here.commit([edit("a", increment("m"))])
    assert seen(tx, "a", "n") == 1
    tx.set(B, (), 1)
    tx.commit()
    assert reads_of(stage.last()) == [PendingRead(A, ("n",), basis, ((seen_layer, seen_layer),))]
    stage.settle()
    assert tx.status is Status.COMMITTED


def test_layer_that_came_where_none_was_is_not_named() -> None:
    stage = Stage(a={"n": 0, "m": 0})
    basis = stage.here.seq
    tx = stage.begin()
    assert seen(tx, "a", "n") == 0
    stage.here.commit([edit("a", increment("m"))])
    tx.set(B, (), 1)
    tx.commit()
    assert reads_of(stage.last()) == [Read(A, ("n",), basis)]


def test_layers_are_still_named_when_they_were_confirmed_meanwhile() -> None:
    stage = Stage(a={"n": 0})
    basis = stage.here.seq
    layer = stage.here.commit([edit("a", increment("n"))]).commit.local_seq
    tx = stage.begin()
    assert seen(tx, "a", "n") == 1
    stage.settle()
    assert isinstance(stage.here.read_mark(A, ("n",)), Read)
    tx.set(B, (), 1)
    tx.commit()
    assert reads_of(stage.last()) == [PendingRead(A, ("n",), basis, ((layer, layer),))]
    stage.settle()
    assert tx.status is Status.COMMITTED


def test_transaction_that_saw_a_layer_since_rejected_is_rejected_without_travelling() -> None:
    """Even if what it read does not look different: it rests on something that never was."""
    stage = Stage(a={"n": 0, "m": 0})
    stage.here.commit([edit("a", increment("n"))])
    tx = stage.begin()
    assert seen(tx, "a", "m") == 0
    stage.fail(FULL)
    stage.tell()
    sent = stage.submitted
    tx.set(B, (), 1)
    tx.commit()
    assert tx.is_rejected
    assert isinstance(tx.verdict, Conflict)
    assert stage.submitted == sent


def test_transaction_goes_with_the_layer_it_rests_on() -> None:
    stage = Stage(a={"n": 0})
    stage.here.commit([edit("a", increment("n"))])
    tx = stage.begin()
    tx.set(B, (), seen(tx, "a", "n"))
    tx.commit()
    stage.fail(FULL)
    stage.settle()
    assert tx.is_rejected


def test_every_read_of_a_document_carries_one_mark_and_is_named_as_it_was_compared() -> None:
    """What another has written meanwhile was found to leave the reads as they were."""
    stage = Stage(a={"n": 0, "m": 0, "k": 0})
    tx = stage.begin()
    tx.read(A, ("n",))
    stage.meanwhile(edit("a", increment("m")))
    tx.read(A, ("k",))
    tx.set(B, (), 1)
    tx.commit()
    now = stage.here.seq
    assert reads_of(stage.last()) == [Read(A, ("n",), now), Read(A, ("k",), now)]
    assert len({entry.mark for entry in tx.journal if entry.doc == A}) == 1


def test_what_was_written_meanwhile_and_came_out_the_same_is_read_as_it_is_now() -> None:
    """Of the first look the store would say, rightly, that it is outdated; but what was read is so again."""
    stage = Stage(a={"n": 0, "m": 0})
    tx = stage.begin()
    assert seen(tx, "a", "n") == 0
    there = stage.here.commit([edit("a", increment("n"))]).commit.local_seq
    back = stage.here.commit([edit("a", increment("n", by=-1))]).commit.local_seq
    tx.set(B, (), 1)
    tx.commit()
    assert reads_of(stage.last()) == [PendingRead(A, ("n",), stage.here.seq, ((there, back),))]
    stage.settle()
    assert tx.status is Status.COMMITTED


# --- a mark stays true ----------------------------------------------------------------------------------------


class Held(NamedTuple):
    doc: DocKey
    path: Path
    depth: Depth
    mark: Mark
    said: Read | PendingRead


class Life:
    """One replica among others: commits, decisions, failures, in any order. Marks are kept all the while."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.desk = Desk()
        self.here, self.there = self.desk.replica("here"), self.desk.replica("there")
        self.docs = [doc_key(name) for name in ("a", "b", "never")]
        self.here.commit([put("a", {"n": 0, "m": 0}), put("b", {"n": 0, "m": 0})])
        self.desk.settle()
        self.held: list[Held] = []
        self.counts: Counter[str] = Counter()

    def step(self) -> None:
        name = self.random.choice("ab")
        match self.random.randrange(10):
            case 0 | 1 | 2:
                operations: list[Operation] = [edit(name, increment("n")), put(name, {"n": 1}), drop(name)]
                self.here.commit([self.random.choice(operations)])
            case 3:
                # On top of another, so that it may go down with it.
                mark = self.here.read_mark(doc_key(name), ("n",))
                self.here.commit([put("a", {"n": self.random.random()}), put("b", {"n": 0})], reads=[mark])
            case 4:
                self.there.commit([put(name, {"n": self.random.random()})])
            case 5 if self.desk.waiting:
                self.desk.fail(FULL)
            case 6:
                self.desk.decide()
            case 7:
                self.desk.tell()
            case _:
                self.hold()

    def hold(self) -> None:
        doc, path, depth = self.random.choice(self.docs), self.random.choice([(), ("n",)]), self.random.choice([*Depth])
        mark = self.here.snapshot(doc)
        assert mark is self.here.snapshot(doc)
        assert mark.value is self.here.read(doc)
        said = self.here.read_mark(doc, path, depth)
        assert mark.read(doc, path, depth) == said
        self.counts[type(said).__name__] += 1
        self.held.append(Held(doc, path, depth, mark, said))

    def check(self) -> None:
        for doc, path, depth, mark, said in self.held:
            assert mark.read(doc, path, depth) == said


@given(st.randoms(use_true_random=False), st.integers(1, 60))
def test_mark_says_for_ever_what_the_replica_said_when_it_was_made(random: Random, steps: int) -> None:
    life = Life(random)
    for _ in range(steps):
        life.step()
        life.check()
    life.desk.settle()
    life.check()
    event(f"through layers: {min(life.counts['PendingRead'], 5)}")


def test_mark_says_for_ever_what_the_replica_said_in_long_lives_too() -> None:
    counts: Counter[str] = Counter()
    for seed in range(30):
        life = Life(Random(seed))
        for _ in range(120):
            life.step()
        life.check()
        counts += life.counts
    assert min(counts["Read"], counts["PendingRead"]) > 200, counts


def test_mark_that_is_off_by_one_layer_says_something_else() -> None:
    """The checks above can fail."""
    desk = Desk()
    here = desk.replica("here")
    here.commit([put("a", 1)])
    mark = here.snapshot(A)
    said = here.read_mark(A, ())
    here.commit([put("a", 2)])
    assert mark.read(A, (), DEEP) == said
    assert Mark(mark.seq, mark.layers, mark.count + 1).read(A, (), DEEP) != said
