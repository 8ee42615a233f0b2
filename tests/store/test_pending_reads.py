"""Reads through own unconfirmed commits: what was seen is the basis with the named layers on top, or a conflict."""

from __future__ import annotations

import pytest

from headwater.store.commit import Committed, Conflict, SetDoc
from headwater.values.address import Depth
from headwater.values.patch import PatchOp
from tests.support.spaces import (
    Space,
    add,
    add_unique,
    append,
    edit,
    increment,
    move,
    pending_read,
    put,
    remove,
    remove_by_value,
    replace,
    splice,
)

START = {"a": "old", "l": ["a", "b", "c"], "m": {}, "n": 0}


@pytest.fixture(autouse=True)
def document(space: Space) -> None:
    space.writer("setup").accept(put("p", START))


def test_read_through_a_layer_is_accepted_once_the_layer_is(space: Space) -> None:
    ann = space.writer("ann")
    ann.accept(edit("p", replace("n", to=1)))
    ann.accept(put("sum", 1), reads=[pending_read("p", "n", basis=1, layers=[(1, 1)])])


def test_read_through_a_layer_of_the_same_group_is_accepted(space: Space) -> None:
    from tests.support.spaces import admit

    ann = space.writer("ann")
    below = ann.build(edit("p", replace("n", to=1)))
    above = ann.build(put("sum", 1), reads=[pending_read("p", "n", basis=1, layers=[(1, 1)])])
    assert [o.verdict for o in admit(space.engine, below, above)] == [Committed(2), Committed(3)]


def test_read_through_a_rejected_layer_is_a_conflict(space: Space) -> None:
    ann = space.writer("ann")
    assert isinstance(ann.commit(edit("p", replace("gone", to=1))), Conflict)
    verdict = ann.commit(put("sum", 1), reads=[pending_read("p", "n", basis=1, layers=[(1, 1)])])
    assert isinstance(verdict, Conflict)
    assert "commit 1" in verdict.reason


def test_read_through_a_layer_that_never_came_is_a_conflict(space: Space) -> None:
    verdict = space.writer("ann").commit(put("sum", 1), reads=[pending_read("p", "n", basis=1, layers=[(7, 9)])])
    assert isinstance(verdict, Conflict)


def test_read_through_a_layer_of_another_session_is_a_conflict(space: Space) -> None:
    space.writer("bob").accept(edit("p", replace("n", to=1)))
    verdict = space.writer("ann").commit(put("sum", 1), reads=[pending_read("p", "n", basis=1, layers=[(1, 1)])])
    assert isinstance(verdict, Conflict)


def test_foreign_write_between_basis_and_layer_is_a_conflict(space: Space) -> None:
    ann, bob = space.writer("ann"), space.writer("bob")
    bob.accept(edit("p", replace("a", to="theirs")))
    ann.accept(edit("p", replace("n", to=1)))
    verdict = ann.commit(put("sum", 1), reads=[pending_read("p", "a", basis=1, layers=[(1, 1)])])
    assert isinstance(verdict, Conflict)
    assert verdict.path == ("a",)


def test_foreign_write_elsewhere_in_the_document_does_no_harm(space: Space) -> None:
    ann, bob = space.writer("ann"), space.writer("bob")
    ann.accept(edit("p", replace("n", to=1)))
    bob.accept(edit("p", replace("a", to="theirs")))
    ann.accept(put("sum", 1), reads=[pending_read("p", "n", basis=1, layers=[(1, 1)])])


def test_naming_only_the_top_layer_is_not_enough(space: Space) -> None:
    """The view sat on both; naming one claims that the other was not there."""
    ann = space.writer("ann")
    ann.accept(edit("p", replace("a", to="mine")))
    ann.accept(edit("p", replace("n", to=1)))
    verdict = ann.commit(put("sum", 1), reads=[pending_read("p", "a", basis=1, layers=[(2, 2)])])
    assert isinstance(verdict, Conflict)


def test_naming_a_layer_of_another_document_does_not_hide_a_foreign_write(space: Space) -> None:
    ann, bob = space.writer("ann"), space.writer("bob")
    ann.accept(put("q", 1))
    bob.accept(edit("p", replace("a", to="theirs")))
    verdict = ann.commit(put("sum", 1), reads=[pending_read("p", "a", basis=1, layers=[(1, 1)])])
    assert isinstance(verdict, Conflict)


def test_naming_a_layer_twice_does_not_hide_a_foreign_write(space: Space) -> None:
    ann, bob = space.writer("ann"), space.writer("bob")
    ann.accept(edit("p", replace("n", to=1)))
    bob.accept(edit("p", replace("a", to="theirs")))
    verdict = ann.commit(put("sum", 1), reads=[pending_read("p", "a", basis=1, layers=[(1, 1), (1, 1)])])
    assert isinstance(verdict, Conflict)


SHIFTS: list[tuple[str, PatchOp, PatchOp, tuple[str | int, ...], Depth]] = [
    ("removed before it", replace("l", 1, to="B"), remove("l", 0), ("l", 0), Depth.DEEP),
    ("inserted before it", replace("l", 1, to="B"), add("l", 0, value="z"), ("l", 2), Depth.DEEP),
    ("spliced before it", replace("l", 2, to="C"), splice("l", at=0, delete=1, items=[]), ("l", 1), Depth.DEEP),
    ("appended behind theirs", append("l", items=["d"]), append("l", items=["e"]), ("l", 4), Depth.DEEP),
    ("added behind theirs", append("l", items=["d"]), add_unique("l", items=["e"]), ("l", 4), Depth.DEEP),
    ("was there already", replace("l", 0, to="e"), add_unique("l", items=["e"]), ("l", 3), Depth.DEEP),
    ("was there already, by length", replace("l", 0, to="e"), add_unique("l", items=["e"]), ("l",), Depth.SHALLOW),
    ("was gone already", replace("l", 0, to="z"), remove_by_value("l", items=["a"]), ("l", 2), Depth.DEEP),
    ("moved from there", replace("a", to="theirs"), move(("a",), ("m", "a")), ("m", "a"), Depth.DEEP),
    ("moved a map from there", add("m", "k", value=1), move(("m",), ("w",)), ("w",), Depth.SHALLOW),
]


@pytest.mark.parametrize(("theirs", "mine", "path", "depth"), [s[1:] for s in SHIFTS], ids=[s[0] for s in SHIFTS])
def test_layer_that_landed_on_other_data_than_it_was_made_on_undermines_what_was_read_through_it(
    space: Space, theirs: PatchOp, mine: PatchOp, path: tuple[str | int, ...], depth: Depth
) -> None:
    """Their write is not where the read is; but the layer in between carried it there."""
    ann, bob = space.writer("ann"), space.writer("bob")
    bob.accept(edit("p", theirs))
    ann.accept(edit("p", mine))
    mark = pending_read("p", *path, basis=1, layers=[(1, 1)], depth=depth)
    assert isinstance(ann.commit(put("sum", 1), reads=[mark]), Conflict)


def test_shift_is_carried_on_by_further_layers(space: Space) -> None:
    ann, bob = space.writer("ann"), space.writer("bob")
    bob.accept(edit("p", replace("l", 1, to="B")))
    ann.accept(edit("p", remove("l", 0)))
    ann.accept(edit("p", move(("l", 0), ("m", "taken"))))
    mark = pending_read("p", "m", "taken", basis=1, layers=[(1, 2)])
    assert isinstance(ann.commit(put("sum", 1), reads=[mark]), Conflict)


def test_layer_on_a_list_does_not_spread_foreign_writes_beside_the_list(space: Space) -> None:
    ann, bob = space.writer("ann"), space.writer("bob")
    bob.accept(edit("p", replace("a", to="theirs")))
    ann.accept(edit("p", remove("l", 0)))
    ann.accept(put("sum", 1), reads=[pending_read("p", "l", 0, basis=1, layers=[(1, 1)])])


def test_whole_write_on_top_of_a_foreign_write_makes_the_view_true_again(space: Space) -> None:
    ann, bob = space.writer("ann"), space.writer("bob")
    bob.accept(edit("p", replace("a", to="theirs")))
    mine = put("p", {"a": "mine"})
    assert isinstance(mine, SetDoc)
    ann.accept(mine)
    ann.accept(put("sum", 1), reads=[pending_read("p", "a", basis=1, layers=[(1, 1)])])


def test_reads_through_layers_survive_a_fold_in_between(space: Space) -> None:
    ann = space.writer("ann")
    ann.accept(edit("p", increment("n")))
    space.engine.fold()
    ann.accept(edit("p", increment("n")), reads=[pending_read("p", "n", basis=1, layers=[(1, 1)])])
    space.engine.fold()
    ann.accept(put("sum", 2), reads=[pending_read("p", "n", basis=1, layers=[(1, 2)])])


def test_thousands_of_outstanding_read_modify_writes_of_one_session_never_conflict_with_each_other(
    space: Space,
) -> None:
    ann = space.writer("ann")
    for number in range(1, 3001):
        reads = [pending_read("p", "n", basis=1, layers=[(1, number - 1)])] if number > 1 else []
        ann.accept(edit("p", replace("n", to=number)), reads=reads)
    assert space.value("p")["n"] == 3000


@pytest.mark.parametrize("forgotten", ["evicted", "reopened"])
def test_without_memory_of_authors_a_shifted_layer_is_still_noticed(space: Space, forgotten: str) -> None:
    ann, bob = space.writer("ann"), space.writer("bob")
    bob.accept(edit("p", replace("l", 0, to="z")))
    ann.accept(edit("p", remove_by_value("l", items=["a"])))
    if forgotten == "reopened":
        space.reopen()
    else:
        for branch, states in list(space.engine.states._states.items()):
            for doc in list(states):
                space.engine.states.drop(branch, doc)
    mark = pending_read("p", "l", 2, basis=1, layers=[(1, 1)])
    assert isinstance(ann.commit(put("sum", 1), reads=[mark]), Conflict)
