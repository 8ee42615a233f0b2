"""Going back to how things were written before, any number of times; what was read stays read."""

from __future__ import annotations

from random import Random

from hypothesis import given

from headwater.cells.transaction_states import Status
from headwater.errors import AddressError
from headwater.store.commit import Absent
from headwater.values.tree import ABSENT, Maybe, freeze
from tests.cells.transactions.stage import A, B, C, Stage, paths_read, seen
from tests.support.naive import NOTHING
from tests.support.spaces import append, edit, increment, move, replace
from tests.values.chance import some_document, some_op, sources

START = {"x": 1, "y": 2, "l": [1]}


def test_everything_written_since_is_undone_and_what_was_before_stays() -> None:
    stage = Stage(a=START, b=1)
    tx = stage.begin()
    tx.set(A, ("x",), "before")
    point = tx.savepoint()
    tx.set(A, ("y",), "undone")
    tx.delete(B)
    tx.set(C, (), "undone")
    tx.roll_back(point)
    assert (seen(tx, "a"), seen(tx, "b"), seen(tx, "c")) == ({**START, "x": "before"}, 1, NOTHING)
    tx.commit()
    assert stage.last().operations == (edit("a", replace("x", to="before")),)


def test_whole_write_is_undone_to_the_patches_it_had_swallowed() -> None:
    stage = Stage(a=START)
    tx = stage.begin()
    tx.set(A, ("x",), 5)
    point = tx.savepoint()
    tx.set(A, (), "whole")
    tx.roll_back(point)
    tx.patch(A, append("l", items=[2]))
    tx.commit()
    assert stage.last().operations == (edit("a", replace("x", to=5), append("l", items=[2])),)


def test_patch_after_a_whole_write_is_undone_to_the_whole_write() -> None:
    stage = Stage(a=START)
    tx = stage.begin()
    tx.set(A, (), freeze({"n": 0}))
    point = tx.savepoint()
    tx.patch(A, increment("n"))
    tx.roll_back(point)
    assert seen(tx, "a") == {"n": 0}
    assert not tx.journal.conflicts(), "its own words"


def test_same_point_can_be_gone_back_to_again() -> None:
    stage = Stage(a=START)
    tx = stage.begin()
    tx.set(A, ("x",), "before")
    point = tx.savepoint()
    for attempt in range(3):
        tx.patch(A, append("l", items=[attempt]))
        tx.set(A, ("x",), attempt)
        tx.roll_back(point)
    tx.commit()
    assert stage.last().operations == (edit("a", replace("x", to="before")),)


def test_points_can_be_gone_back_to_in_any_order() -> None:
    tx = Stage(a={"n": 0}).begin()
    points = []
    for _ in range(4):
        points.append(tx.savepoint())
        tx.patch(A, increment("n"))
    for number in (2, 3, 0, 1):
        tx.roll_back(points[number])
        assert seen(tx, "a", "n") == number


def test_going_back_to_the_beginning_leaves_nothing_to_send() -> None:
    stage = Stage(a=START)
    tx = stage.begin()
    point = tx.savepoint()
    tx.set(A, ("x",), 5)
    tx.set(B, (), 5)
    assert tx.has_writes
    tx.roll_back(point)
    assert not tx.has_writes
    tx.commit()
    assert (tx.status, stage.submitted) == (Status.COMMITTED, 0)


def test_what_was_read_in_the_undone_part_stays_read() -> None:
    """It may have decided that the part was to be undone."""
    stage = Stage(a=START)
    tx = stage.begin()
    point = tx.savepoint()
    assert seen(tx, "a", "x") == 1
    tx.roll_back(point)
    tx.set(B, (), "not done, because of x")
    stage.elsewhere(edit("a", replace("x", to=2)))
    tx.commit()
    assert paths_read(stage.last()) == [("x",)]
    stage.settle()
    assert tx.is_rejected


def test_undone_edits_are_no_longer_leaned_on() -> None:
    stage = Stage(a=START)
    tx = stage.begin()
    tx.patch(A, append("l", items=[2]))
    point = tx.savepoint()
    tx.patch(A, move(("x",), ("z",)))
    tx.roll_back(point)
    tx.read(A, ("z",))
    tx.read(A, ("l", 0))
    tx.commit()
    assert set(paths_read(stage.last())) == {("z",), ("l",), ("l", 0)}, "the append is, the move is not"


def test_what_was_required_since_is_not_required_any_more() -> None:
    """A part that is undone must not have the rest refused for good."""
    stage = Stage(a=START)
    tx = stage.begin()
    tx.require(Absent(C))
    point = tx.savepoint()
    tx.require(Absent(A))
    tx.roll_back(point)
    tx.set(B, (), 1)
    tx.commit()
    assert stage.last().preconditions == (Absent(C),)
    stage.settle()
    assert tx.status is Status.COMMITTED


def test_going_back_forgets_what_cells_remember() -> None:
    tx = Stage(a=START).begin()
    point = tx.savepoint()
    tx.set(A, ("x",), 5)
    tx.memo["cell"] = 5
    tx.roll_back(point)
    assert tx.memo == {}


def test_writing_forgets_what_cells_remember_and_an_elided_write_does_not() -> None:
    tx = Stage(a=START).begin()
    tx.memo["cell"] = 1
    tx.set(A, ("x",), 1)
    assert tx.memo == {"cell": 1}
    for write in (lambda: tx.set(A, ("x",), 5), lambda: tx.set(B, (), 5), lambda: tx.delete(B)):
        tx.memo["cell"] = 1
        write()  # type: ignore[no-untyped-call]
        assert tx.memo == {}


@given(sources)
def test_going_back_and_forth_comes_to_the_same_as_never_having_gone_astray(random: Random) -> None:
    """Two transactions with the same edits, one of which tries out others in between and undoes them."""
    start: Maybe = some_document(random)
    straight, astray = (Stage() if start is ABSENT else Stage(a=start) for _ in range(2))
    one, two = straight.begin(), astray.begin()
    for _ in range(5):
        point = two.savepoint()
        for _ in range(random.randrange(3)):
            try:
                two.patch(A, some_op(random, two.document(A)))
            except AddressError:
                continue
        if random.random() < 0.2:
            two.delete(A)
        two.roll_back(point)
        op = some_op(random, one.document(A))
        try:
            one.patch(A, op)
        except AddressError:
            continue
        two.patch(A, op)
    one.commit()
    two.commit()
    assert straight.submitted == astray.submitted
    if straight.submitted:
        assert straight.last().operations == astray.last().operations
    assert straight.here.read(A) == astray.here.read(A)
