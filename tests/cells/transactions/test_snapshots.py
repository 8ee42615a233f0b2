"""What a transaction has looked at does not move; whether that is still so is asked once, at the end."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import event, given

from headwater.cells.journal import (
    ATTEMPTED_WRITE,
    IGNORED_FOR_CONFLICT,
    IGNORED_FOR_SCHEDULING,
    LABEL_ONLY,
    LINK_PROBE,
    Flags,
)
from headwater.cells.transaction_states import Status
from headwater.errors import StoreFullError
from headwater.store.commit import Conflict, Operation, SetDoc
from headwater.values.address import Depth
from headwater.values.patch import PatchOp
from headwater.values.tree import ABSENT, Maybe, Path
from tests.cells.transactions.stage import A, B, C, Stage, paths_read, seen
from tests.support.naive import NOTHING
from tests.support.spaces import (
    add,
    add_unique,
    append,
    drop,
    edit,
    increment,
    move,
    put,
    remove,
    remove_by_value,
    replace,
    splice,
)
from tests.values.chance import some_document, some_edits, some_read, sources
from tests.values.oracle import is_triggered, thaw

DEEP, SHALLOW = Depth.DEEP, Depth.SHALLOW
START: dict[str, Any] = {"x": 1, "y": 2, "l": [1, 2, 3], "m": {"k": {"z": 1}}}

# --- the snapshot ---------------------------------------------------------------------------------------------


def test_document_that_was_looked_at_stays_as_it_was_whoever_writes_it() -> None:
    stage = Stage(a={"n": 0})
    tx = stage.begin()
    assert seen(tx, "a", "n") == 0
    stage.here.commit([edit("a", increment("n"))])
    assert seen(tx, "a", "n") == 0, "a commit of the same session"
    stage.settle()
    assert seen(tx, "a") == {"n": 0}, "and once it is confirmed"
    stage.meanwhile(edit("a", increment("n")))
    assert seen(tx, "a", "n") == 0, "another's commit"
    stage.meanwhile(drop("a"))
    assert seen(tx, "a", "n") == 0, "and its end"
    assert stage.now("a") is NOTHING


def test_layer_that_was_seen_stays_seen_when_it_is_taken_back() -> None:
    stage = Stage(a={"n": 0})
    stage.here.commit([edit("a", increment("n"))])
    tx = stage.begin()
    assert seen(tx, "a", "n") == 1
    stage.fail(StoreFullError("no room"))
    stage.tell()
    assert (stage.now("a"), seen(tx, "a", "n")) == ({"n": 0}, 1)


def test_looking_or_writing_is_a_first_look_as_well() -> None:
    stage = Stage(a={"n": 0}, b={"n": 0})
    tx = stage.begin()
    tx.document(A)
    tx.set(B, ("mine",), 1)
    stage.meanwhile(put("a", {"n": 1}), edit("b", increment("n")))
    assert (seen(tx, "a"), seen(tx, "b")) == ({"n": 0}, {"n": 0, "mine": 1})


def test_document_is_taken_at_the_first_look_and_not_at_the_beginning() -> None:
    stage = Stage(a={"n": 0})
    tx = stage.begin()
    stage.meanwhile(edit("a", increment("n")))
    assert seen(tx, "a", "n") == 1


def test_document_that_did_not_exist_goes_on_not_existing() -> None:
    stage = Stage()
    tx = stage.begin()
    assert seen(tx, "a") is NOTHING
    stage.meanwhile(put("a", 1))
    assert seen(tx, "a") is NOTHING
    tx.set(B, (), "made of nothing")
    tx.commit()
    assert isinstance(tx.verdict, Conflict)


# --- stale ----------------------------------------------------------------------------------------------------

CASES: list[tuple[str, Path, Depth, Operation, bool]] = [
    ("the place itself", ("x",), DEEP, edit("a", replace("x", to=2)), True),
    ("beside it", ("x",), DEEP, edit("a", replace("y", to=5)), False),
    ("below a deep read", ("m",), DEEP, edit("a", replace("m", "k", "z", to=2)), True),
    ("below a shallow read", ("m",), SHALLOW, edit("a", replace("m", "k", "z", to=2)), False),
    ("a key more, deep", ("m",), DEEP, edit("a", add("m", "new", value=2)), True),
    ("a key more, shallow", ("m",), SHALLOW, edit("a", add("m", "new", value=2)), True),
    ("a key more further down", ("m",), SHALLOW, edit("a", add("m", "k", "new", value=2)), False),
    ("a key more beside a read key", ("m", "k"), DEEP, edit("a", add("m", "new", value=2)), False),
    ("a key less", (), SHALLOW, edit("a", remove("y")), True),
    ("an element more", ("l",), SHALLOW, edit("a", append("l", items=[4])), True),
    ("an element more, first read", ("l", 0), DEEP, edit("a", append("l", items=[4])), False),
    ("an element more where none was", ("l", 3), DEEP, edit("a", append("l", items=[4])), True),
    ("an element replaced, length read", ("l",), SHALLOW, edit("a", replace("l", 0, to=9)), False),
    ("above a read", ("m", "k", "z"), DEEP, edit("a", replace("m", to=1)), True),
    (
        "above a read that is the same again",
        ("m", "k", "z"),
        DEEP,
        edit("a", replace("m", to={"k": {"z": 1}, "n": 1})),
        False,
    ),
    ("way to nowhere, other stop", ("x", "y", "z"), DEEP, edit("a", replace("x", to={"y": 1})), True),
    ("way to nowhere, same stop", ("x", "y", "z"), DEEP, edit("a", replace("x", to=7)), False),
    ("whole document, other part", ("x",), DEEP, put("a", {"x": 1}), False),
    ("whole document, this part", ("x",), DEEP, put("a", {"x": 2}), True),
    ("deleted", ("x",), DEEP, drop("a"), True),
    ("another document", ("x",), DEEP, put("b", 1), False),
]


@pytest.mark.parametrize(("path", "depth", "change", "stale"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_transaction_is_stale_exactly_if_what_it_read_is_different_now(
    path: Path, depth: Depth, change: Operation, stale: bool
) -> None:
    stage = Stage(a=START)
    tx = stage.begin()
    tx.read(A, path, depth)
    stage.meanwhile(change)
    sent = stage.submitted
    tx.set(C, (), "made of it")
    tx.commit()
    assert tx.is_rejected == stale
    if stale:
        assert isinstance(tx.verdict, Conflict)
        assert (tx.verdict.doc, tx.verdict.path) == (A, path)
        assert "changed while the transaction was open" in tx.verdict.reason
        assert (stage.submitted, stage.now("c")) == (sent, NOTHING), "it did not travel"


@pytest.mark.parametrize(("path", "depth", "change", "stale"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_what_changed_unheard_is_found_by_the_store_which_may_only_be_stricter(
    path: Path, depth: Depth, change: Operation, stale: bool
) -> None:
    stage = Stage(a=START)
    tx = stage.begin()
    tx.read(A, path, depth)
    stage.elsewhere(change)
    tx.set(C, (), "made of it")
    tx.commit()
    assert tx.status is Status.PENDING
    stage.settle()
    assert tx.is_rejected or not stale


@given(sources)
def test_staleness_is_what_the_rule_says_for_any_reads_and_any_change(random: Random) -> None:
    """The change is another commit of the same session, so that there is nothing but the replica to notice it."""
    changes: list[tuple[Maybe, Maybe]] = [(edited.before, edited.after) for edited in some_edits(random)]
    changes.append((some_document(random), some_document(random)))
    for before, after in changes[:6]:
        stage = Stage() if before is ABSENT else Stage(a=before)
        reads = [(some_read(random, thaw(before), thaw(after)), random.choice(list(Depth))) for _ in range(3)]
        tx = stage.begin()
        for path, depth in reads:
            tx.read(A, path, depth)
        tx.set(B, (), "made of it")
        stage.here.commit([drop("a") if after is ABSENT else SetDoc(A, after)])
        expected = any(is_triggered(thaw(before), thaw(after), path, deep=depth is DEEP) for path, depth in reads)
        tx.commit()
        event("stale" if expected else "not stale")
        assert tx.is_rejected == expected


@pytest.mark.parametrize(
    ("flags", "checked"),
    [
        (0, True),
        (IGNORED_FOR_SCHEDULING, True),
        (LINK_PROBE, True),
        (IGNORED_FOR_CONFLICT, False),
        (LABEL_ONLY, False),
        (ATTEMPTED_WRITE, False),
        (LINK_PROBE | IGNORED_FOR_CONFLICT, False),
    ],
)
@pytest.mark.parametrize("heard", [True, False])
def test_read_is_checked_unless_its_flags_say_otherwise(flags: Flags, checked: bool, heard: bool) -> None:
    stage = Stage(a=START)
    tx = stage.begin()
    tx.read(A, ("x",), DEEP, flags)
    tx.set(B, (), 1)
    (stage.meanwhile if heard else stage.elsewhere)(edit("a", replace("x", to=9)))
    tx.commit()
    stage.settle()
    assert tx.is_rejected == checked


def test_place_that_was_noted_is_checked_like_one_that_was_read() -> None:
    stage = Stage(a=START)
    tx = stage.begin()
    tx.record(A, ("x",), DEEP)
    tx.set(B, (), 1)
    stage.meanwhile(edit("a", replace("x", to=9)))
    tx.commit()
    assert tx.is_rejected


def test_what_was_only_looked_at_is_not_checked() -> None:
    stage = Stage(a=START)
    tx = stage.begin()
    tx.document(A)
    tx.set(B, (), 1)
    stage.meanwhile(edit("a", replace("x", to=9)))
    tx.commit()
    stage.settle()
    assert tx.status is Status.COMMITTED


# --- own words ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("heard", [True, False])
@pytest.mark.parametrize("deleted", [True, False])
def test_reads_of_an_own_whole_document_write_are_not_checked(heard: bool, deleted: bool) -> None:
    """Nobody else's change can make its own words untrue."""
    stage = Stage(a=START)
    tx = stage.begin()
    if deleted:
        tx.delete(A)
    else:
        tx.set(A, (), 5)
    assert seen(tx, "a") == (NOTHING if deleted else 5)
    tx.set(B, (), "made of it")
    (stage.meanwhile if heard else stage.elsewhere)(put("a", "theirs"))
    tx.commit()
    stage.settle()
    assert tx.status is Status.COMMITTED
    assert (stage.now("a"), stage.now("b")) == (NOTHING if deleted else 5, "made of it")


def test_what_was_read_before_the_whole_write_is_checked_all_the_same() -> None:
    stage = Stage(a=START)
    tx = stage.begin()
    tx.set(A, (), seen(tx, "a", "x") + 1)
    assert seen(tx, "a") == 2
    stage.elsewhere(edit("a", replace("x", to=9)))
    tx.commit()
    assert paths_read(stage.last()) == [("x",)]
    stage.settle()
    assert tx.is_rejected


def test_what_is_read_after_the_whole_write_was_undone_is_checked_again() -> None:
    stage = Stage(a=START)
    tx = stage.begin()
    point = tx.savepoint()
    tx.set(A, (), 5)
    tx.roll_back(point)
    tx.set(B, (), seen(tx, "a", "x"))
    tx.commit()
    assert paths_read(stage.last()) == [("x",)]


# --- own edits ------------------------------------------------------------------------------------------------

SHIFTS: list[tuple[str, PatchOp, PatchOp, Path, Depth]] = [
    ("removed before it", remove("l", 0), replace("l", 1, to="B"), ("l", 0), DEEP),
    ("inserted before it", add("l", 0, value="z"), replace("l", 1, to="B"), ("l", 2), DEEP),
    ("spliced before it", splice("l", at=0, delete=1, items=[]), replace("l", 2, to="C"), ("l", 1), DEEP),
    (
        "spliced before its part",
        splice("l", at=0, delete=0, items=[{}]),
        replace("l", 0, to={"k": 1}),
        ("l", 1, "k"),
        DEEP,
    ),
    ("second behind theirs", append("l", items=["d", "e"]), append("l", items=["t"]), ("l", 4), DEEP),
    ("length behind theirs", append("l", items=["d"]), append("l", items=["t"]), ("l",), SHALLOW),
    ("was there already", add_unique("l", items=["e"]), replace("l", 0, to="e"), ("l", 3), DEEP),
    ("was there already, by length", add_unique("l", items=["e"]), replace("l", 0, to="e"), ("l",), SHALLOW),
    ("was gone already", remove_by_value("l", items=[1]), replace("l", 0, to="z"), ("l", 2), DEEP),
    ("moved from there", move(("x",), ("m", "x")), replace("x", to="theirs"), ("m", "x"), DEEP),
    ("moved from there, all of the target", move(("x",), ("m", "x")), replace("x", to="theirs"), ("m",), DEEP),
    ("moved a map from there", move(("m",), ("w",)), add("m", "new", value=1), ("w",), SHALLOW),
    ("moved within a list", move(("l", 0), ("l", 2)), replace("l", 1, to="B"), ("l", 0), DEEP),
    ("moved into a list", move(("x",), ("l", 0)), replace("l", 0, to="B"), ("l", 1), DEEP),
    ("moved out of a list", move(("l", 0), ("w",)), replace("l", 0, to="B"), ("w",), DEEP),
    ("moved out of a list, the rest", move(("l", 0), ("w",)), replace("l", 1, to="B"), ("l", 0), DEEP),
    ("counted up", increment("x"), replace("x", to=9), ("x",), DEEP),
    ("made a list", append("new", items=["d"]), append("new", items=["t"]), ("new",), SHALLOW),
]


@pytest.mark.parametrize("heard", [True, False])
@pytest.mark.parametrize(("mine", "theirs", "path", "depth"), [s[1:] for s in SHIFTS], ids=[s[0] for s in SHIFTS])
def test_read_of_what_an_own_edit_left_is_checked_for_what_the_edit_was_made_of(
    mine: PatchOp, theirs: PatchOp, path: Path, depth: Depth, heard: bool
) -> None:
    """Their write is not where the read is; but the edit in between carries it there, or takes away what was read."""
    stage = Stage(a=START)
    tx = stage.begin()
    tx.patch(A, mine)
    tx.read(A, path, depth)
    tx.set(B, (), "made of it")
    (stage.meanwhile if heard else stage.elsewhere)(edit("a", theirs))
    tx.commit()
    stage.settle()
    assert tx.is_rejected


def test_what_a_read_leans_on_is_found_through_several_edits() -> None:
    stage = Stage(a=START)
    tx = stage.begin()
    tx.patch(A, move(("l", 1), ("x",)))
    tx.patch(A, move(("x",), ("m", "w")))
    tx.patch(A, append("new", items=[1]))
    tx.read(A, ("m", "w"))
    tx.commit()
    assert set(paths_read(stage.last())) == {("m", "w"), ("x",), ("l",)}


def test_what_is_depended_on_is_what_the_edit_was_made_of_too() -> None:
    tx = Stage(a=START).begin()
    tx.patch(A, move(("x",), ("w",)))
    tx.read(A, ("w",), DEEP, IGNORED_FOR_CONFLICT)
    assert [entry.path for entry in tx.journal.dependencies()] == [("w",), ("x",)]
    assert tx.journal.conflicts() == []


FREE: list[tuple[str, PatchOp, PatchOp, Path, Depth]] = [
    ("edit elsewhere", remove("l", 0), replace("y", to=9), ("x",), DEEP),
    ("shape above an edit", remove("l", 0), replace("l", 1, to=9), (), SHALLOW),
    ("shape above a move", move(("x",), ("w",)), replace("x", to=9), (), SHALLOW),
    ("element before an appended one", append("l", items=[4]), replace("l", 1, to=9), ("l", 0), DEEP),
    ("edit of another list", append("new", items=[4]), append("l", items=[5]), ("new",), SHALLOW),
    ("key removed", remove("y"), replace("x", to=9), ("m",), DEEP),
    ("key set", add("new", value=1), replace("x", to=9), ("new",), DEEP),
]


@pytest.mark.parametrize(("mine", "theirs", "path", "depth"), [s[1:] for s in FREE], ids=[s[0] for s in FREE])
def test_edit_that_a_read_does_not_see_adds_nothing_to_it(
    mine: PatchOp, theirs: PatchOp, path: Path, depth: Depth
) -> None:
    stage = Stage(a=START)
    tx = stage.begin()
    tx.patch(A, mine)
    tx.read(A, path, depth)
    stage.elsewhere(edit("a", theirs))
    tx.commit()
    stage.settle()
    assert tx.status is Status.COMMITTED


def test_thousand_appends_to_one_list_lean_on_it_once() -> None:
    tx = Stage(a=START).begin()
    for number in range(1000):
        tx.patch(A, append("l", items=[number]))
        tx.read(A, ("l",), SHALLOW)
    assert len(tx._drafts[A].edit_inputs._all) == 1  # type: ignore[union-attr]


# --- overtaken ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("heard", [True, False])
@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (replace("m", "k", to=1), edit("a", remove("m"))),
        (replace("m", "k", to=1), edit("a", replace("m", to=5))),
        (append("l", items=[1]), edit("a", replace("l", to="text"))),
        (remove("l", 2), edit("a", remove("l", 0))),
        (replace("x", to=5), drop("a")),
    ],
)
def test_edit_that_no_longer_fits_what_is_there_is_a_conflict_and_no_error(
    mine: PatchOp, theirs: Operation, heard: bool
) -> None:
    """It fitted what the transaction saw. The store says the same of what it hears of late."""
    stage = Stage(a=START)
    tx = stage.begin()
    tx.patch(A, mine)
    (stage.meanwhile if heard else stage.elsewhere)(theirs)
    tx.commit()
    stage.settle()
    assert isinstance(tx.verdict, Conflict)
    assert (tx.status, tx.error, tx.verdict.doc) == (Status.REJECTED, None, A)


def test_edits_that_still_fit_land_on_what_is_there_now() -> None:
    stage = Stage(a=START)
    tx = stage.begin()
    tx.patch(A, increment("x"))
    tx.patch(A, append("l", items=[4]))
    stage.meanwhile(edit("a", increment("x", by=10), append("l", items=[9])))
    tx.commit()
    stage.settle()
    assert (stage.now("a")["x"], stage.now("a")["l"]) == (12, [1, 2, 3, 9, 4])
