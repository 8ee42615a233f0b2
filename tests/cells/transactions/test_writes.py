"""A transaction reads what it has written, and commits the least that says it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import event, given

from headwater.cells.journal import ATTEMPTED_WRITE
from headwater.cells.journal_entry import Entry
from headwater.cells.transaction import Transaction
from headwater.cells.transaction_states import Status
from headwater.errors import AddressError, StoreFullError, WriteError
from headwater.store.commit import Absent, Committed, DeleteDoc, PatchDoc, Refused, SetDoc
from headwater.values.address import Depth, doc_key
from headwater.values.ids import Seq
from headwater.values.patch import Add, PatchOp, Replace
from headwater.values.patching import apply_patch
from headwater.values.tree import ABSENT, freeze, get
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
from tests.values.chance import some_attempts, some_read, sources
from tests.values.oracle import DoesNotFitError, apply_slowly, canon, look, thaw

START = {"x": 1, "y": 2, "l": [1, 2, 3], "m": {"k": 1}}

# --- reading what was written ---------------------------------------------------------------------------------


def test_what_was_set_is_read_at_its_place_and_around_it() -> None:
    tx = Stage(a=START).begin()
    tx.set(A, ("m", "k"), 9)
    tx.set(A, ("m", "new"), freeze([0]))
    assert seen(tx, "a", "m", "k") == 9
    assert seen(tx, "a", "m") == {"k": 9, "new": [0]}
    assert seen(tx, "a", "m", "new", 0) == 0
    assert seen(tx, "a")["x"] == 1


def test_what_was_patched_is_read() -> None:
    tx = Stage(a=START).begin()
    tx.patch(A, append("l", items=[4]))
    tx.patch(A, remove("l", 0))
    tx.patch(A, increment("x", by=5))
    assert seen(tx, "a") == {"x": 6, "y": 2, "l": [2, 3, 4], "m": {"k": 1}}


def test_whole_documents_are_read_as_written_and_gone_as_deleted() -> None:
    tx = Stage(a=START).begin()
    tx.set(A, (), freeze({"z": 0}))
    tx.set(B, (), 7)
    assert (seen(tx, "a"), seen(tx, "a", "x"), seen(tx, "b")) == ({"z": 0}, NOTHING, 7)
    tx.delete(A)
    assert (seen(tx, "a"), seen(tx, "a", "z")) == (NOTHING, NOTHING)
    tx.set(A, ("again",), 1)
    assert seen(tx, "a") == {"again": 1}


def test_setting_where_nothing_stands_makes_the_maps_above() -> None:
    tx = Stage().begin()
    tx.set(A, ("m", "k", "deep"), 1)
    assert seen(tx, "a") == {"m": {"k": {"deep": 1}}}


def test_nothing_is_visible_to_others_before_the_commit_and_all_of_it_after() -> None:
    stage = Stage(a=START)
    tx, other = stage.begin(), stage.begin()
    tx.set(A, ("x",), 5)
    tx.set(B, (), 5)
    assert (seen(other, "a", "x"), stage.now("a")["x"], stage.now("b")) == (1, 1, NOTHING)
    tx.commit()
    assert (stage.now("a")["x"], stage.now("b")) == (5, 5)
    assert tx.status is Status.PENDING


@pytest.mark.parametrize(
    "op", [remove("gone"), replace("x", "below", to=1), append("x", items=[1]), splice("l", at=9, delete=1, items=[])]
)
def test_operation_that_does_not_fit_raises_and_changes_nothing(op: PatchOp) -> None:
    stage = Stage(a=START)
    tx = stage.begin()
    tx.set(A, ("y",), 5)
    with pytest.raises(AddressError):
        tx.patch(A, op)
    assert seen(tx, "a") == {**START, "y": 5}
    tx.commit()
    assert stage.last().operations == (edit("a", replace("y", to=5)),)


@given(sources)
def test_view_is_the_document_with_the_operations_on_it_and_so_is_what_lands(random: Random) -> None:
    """Against the slow oracle: what is read while open, what is visible after the commit, what the store keeps."""
    attempts = list(some_attempts(random))
    start = attempts[0][0]
    stage = Stage() if start is ABSENT else Stage(a=start)
    tx = stage.begin()
    expected = thaw(start)
    for _, op in attempts:
        try:
            after = apply_slowly(expected, op)
        except DoesNotFitError:
            with pytest.raises(AddressError):
                tx.patch(A, op)
        else:
            tx.patch(A, op)
            expected = after
        path = some_read(random, expected)
        assert canon(thaw(tx.read(A, path))) == canon(look(expected, path))
    if expected is ABSENT or random.random() < 0.2:
        tx.delete(A)
        expected = ABSENT
    event("sent" if tx.has_writes else "nothing to send")
    tx.commit()
    assert canon(thaw(stage.here.read(A))) == canon(expected)
    stage.settle()
    assert tx.status is Status.COMMITTED
    assert canon(thaw(stage.there.read(A))) == canon(expected)


# --- equal writes ---------------------------------------------------------------------------------------------


def write_what_is_there(tx: Transaction) -> None:
    tx.set(A, ("x",), 1)
    tx.set(A, ("l",), freeze([1, 2, 3]))
    tx.set(A, (), freeze(START))
    tx.patch(A, add("m", "k", value=1))
    tx.patch(A, append("l", items=[]))
    tx.patch(A, add_unique("l", items=[2]))
    tx.patch(A, remove_by_value("l", items=[7]))
    tx.patch(A, increment("x", by=0))
    tx.patch(A, move(("x",), ("x",)))
    tx.delete(B)


def test_equal_writes_are_elided_and_a_commit_of_nothing_else_sends_nothing() -> None:
    stage = Stage(a=START)
    tx = stage.begin()
    write_what_is_there(tx)
    assert not tx.has_writes
    tx.commit()
    assert (tx.status, tx.verdict, stage.submitted) == (Status.COMMITTED, Committed(stage.here.seq), 0)


def test_equal_write_leaves_alone_what_somebody_else_has_made_of_it() -> None:
    """Unchanged fields are not written back over another's change: of a form that is saved only the edited ones are."""
    stage = Stage(a=START)
    tx = stage.begin()
    tx.set(A, ("x",), 1)
    tx.set(A, ("y",), "mine")
    stage.elsewhere(edit("a", replace("x", to="theirs")))
    tx.commit()
    stage.settle()
    assert tx.status is Status.COMMITTED
    assert stage.now("a") == {**START, "x": "theirs", "y": "mine"}


def test_equal_number_of_another_type_is_a_change() -> None:
    stage = Stage(a=START)
    tx = stage.begin()
    tx.set(A, ("x",), 1.0)
    assert tx.has_writes
    assert type(tx.read(A, ("x",))) is float


def test_attempted_write_is_in_the_journal_though_it_was_elided() -> None:
    tx = Stage(a=START).begin()
    tx.set(A, ("x",), 1)
    [entry] = tx.journal.labels()
    assert (entry.path, entry.flags) == (("x",), ATTEMPTED_WRITE)
    assert (tx.journal.dependencies(), tx.journal.conflicts()) == ([], [])


def test_attempted_write_is_in_the_journal_though_it_did_not_fit() -> None:
    tx = Stage(a=START).begin()
    with pytest.raises(AddressError):
        tx.patch(A, remove("gone"))
    assert [entry.path for entry in tx.journal.labels()] == [("gone",)]


def test_move_is_an_attempt_to_write_at_both_its_ends() -> None:
    tx = Stage(a=START).begin()
    tx.patch(A, move(("m", "k"), ("z",)))
    entries: list[Entry] = tx.journal.labels()
    assert {entry.path for entry in entries} == {("m", "k"), ("z",)}
    assert {entry.flags for entry in entries} == {ATTEMPTED_WRITE}


def test_equal_write_is_elided_unless_it_repeats_a_layer_that_may_be_taken_back() -> None:
    stage = Stage(a=START)
    stage.here.commit([edit("a", replace("x", to=5))])
    tx = stage.begin()
    tx.set(A, ("x",), 5)
    tx.commit()
    stage.fail(StoreFullError("no room"))
    stage.settle()
    assert tx.status is Status.COMMITTED
    assert stage.now("a")["x"] == 5, "it did not lean on the layer that is gone"


@pytest.mark.parametrize("whole", [False, True])
def test_equal_write_of_a_whole_document_repeats_a_layer_too(whole: bool) -> None:
    stage = Stage(a=START)
    stage.here.commit([put("a", {"x": 5}) if whole else drop("a")])
    tx = stage.begin()
    if whole:
        tx.set(A, (), freeze({"x": 5}))
    else:
        tx.delete(A)
    tx.commit()
    stage.fail(StoreFullError("no room"))
    stage.settle()
    assert stage.now("a") == ({"x": 5} if whole else NOTHING)


RELATIVE: list[tuple[str, PatchOp, PatchOp, tuple[str | int, ...]]] = [
    ("incremented", increment("x"), replace("x", to=70), ("x",)),
    ("moved here", move(("y",), ("x",)), replace("y", to=70), ("x",)),
    ("moved up", remove("l", 0), replace("l", 1, to=70), ("l", 0)),
    ("moved down", add("l", 0, value=0), replace("l", 0, to=70), ("l", 1)),
    ("appended", append("l", items=[4]), append("l", items=[70]), ("l", 3)),
    ("spliced", splice("l", at=0, delete=1, items=[]), replace("l", 1, to=70), ("l", 0)),
    ("added if missing", add_unique("l", items=[9]), append("l", items=[9, 70]), ("l", 3)),
    ("removed if there", remove_by_value("l", items=[1]), replace("l", 1, to=70), ("l", 0)),
]


@pytest.mark.parametrize(
    ("mine", "theirs", "path"), [case[1:] for case in RELATIVE], ids=[case[0] for case in RELATIVE]
)
def test_equal_write_is_kept_where_an_own_edit_may_come_to_something_else_in_the_store(
    mine: PatchOp, theirs: PatchOp, path: tuple[str | int, ...]
) -> None:
    """First the edit, then the very value it came to here: the last word has to be the value."""
    stage = Stage(a=START)
    tx = stage.begin()
    tx.patch(A, mine)
    said = get(tx.document(A), path)
    assert said is not ABSENT
    tx.set(A, path, said)
    stage.elsewhere(edit("a", theirs))
    tx.commit()
    stage.settle()
    assert tx.status is Status.COMMITTED
    assert get(stage.there.read(A), path) == said


def test_equal_write_of_a_whole_document_after_a_relative_edit_is_a_whole_write() -> None:
    stage = Stage(a={"n": 0})
    tx = stage.begin()
    tx.patch(A, increment("n"))
    tx.set(A, (), freeze({"n": 1}))
    tx.commit()
    assert stage.last().operations == (put("a", {"n": 1}),)


def test_equal_write_beside_a_relative_edit_is_elided_as_ever() -> None:
    stage = Stage(a=START)
    tx = stage.begin()
    tx.patch(A, increment("x"))
    tx.set(A, ("y",), 2)
    tx.commit()
    assert stage.last().operations == (edit("a", increment("x")),)


# --- what is sent ---------------------------------------------------------------------------------------------


def test_several_writes_of_one_place_are_one_operation() -> None:
    stage = Stage(a=START)
    tx = stage.begin()
    for number in range(10):
        tx.set(A, ("x",), number)
    tx.commit()
    assert stage.last().operations == (edit("a", replace("x", to=9)),)


def test_writes_of_one_place_are_not_merged_across_others() -> None:
    """What stands in between may depend on the first."""
    stage = Stage(a=START)
    tx = stage.begin()
    tx.set(A, ("x",), 5)
    tx.patch(A, move(("x",), ("z",)))
    tx.set(A, ("x",), 6)
    tx.set(A, ("x",), 7)
    tx.commit()
    [operation] = stage.last().operations
    assert isinstance(operation, PatchDoc)
    assert [type(op).__name__ for op in operation.ops] == ["Replace", "Move", "Add", "Replace"]
    stage.settle()
    assert stage.now("a") == {"x": 7, "y": 2, "z": 5, "l": [1, 2, 3], "m": {"k": 1}}


def test_writes_back_and_forth_come_to_nothing_and_are_not_sent() -> None:
    stage = Stage(a=START)
    tx = stage.begin()
    tx.set(A, ("x",), 5)
    tx.set(A, ("x",), 1)
    tx.commit()
    assert (tx.status, stage.submitted) == (Status.COMMITTED, 0)


def test_set_adds_where_nothing_stands_and_replaces_where_something_does() -> None:
    stage = Stage(a=START)
    tx = stage.begin()
    tx.set(A, ("new",), 1)
    tx.set(A, ("x",), 2)
    tx.commit()
    assert stage.last().operations == (PatchDoc(A, (Add(("new",), 1), Replace(("x",), 2))),)


def test_whole_document_write_swallows_the_patches_before_and_after() -> None:
    stage = Stage(a=START)
    tx = stage.begin()
    tx.set(A, ("x",), 5)
    tx.patch(A, append("l", items=[4]))
    tx.set(A, (), freeze({"n": 0}))
    tx.patch(A, increment("n"))
    tx.set(A, ("s",), "t")
    tx.commit()
    assert stage.last().operations == (SetDoc(A, freeze({"n": 1, "s": "t"})),)


def test_last_whole_document_write_is_the_one_that_is_sent() -> None:
    stage = Stage(a=START, b=1)
    tx = stage.begin()
    tx.set(A, (), 1)
    tx.delete(A)
    tx.delete(B)
    tx.set(B, (), 2)
    tx.delete(C)
    tx.set(C, ("made",), 3)
    tx.commit()
    assert stage.last().operations == (DeleteDoc(A), SetDoc(B, 2), edit("c", add("made", value=3)))


def test_documents_are_committed_together_in_the_order_they_were_first_looked_at() -> None:
    stage = Stage(a=START, b={"n": 1})
    tx = stage.begin()
    assert seen(tx, "b", "n") == 1
    tx.set(A, ("x",), 5)
    tx.set(C, (), 5)
    tx.set(B, ("n",), 5)
    tx.commit()
    assert [operation.doc for operation in stage.last().operations] == [B, A, C]
    assert stage.submitted == 1
    stage.decide()
    assert stage.engine.head == Seq(2), "one place in the log for all three"


# --- reading only ---------------------------------------------------------------------------------------------


def test_commit_of_reads_alone_sends_nothing_whatever_has_changed_meanwhile() -> None:
    stage = Stage(a=START)
    tx = stage.begin()
    assert seen(tx, "a", "x") == 1
    stage.meanwhile(edit("a", replace("x", to=2)))
    tx.commit()
    assert (tx.status, tx.verdict, stage.waiting) == (Status.COMMITTED, Committed(stage.here.seq), [])


def test_read_only_transaction_refuses_every_write_and_says_why_and_where() -> None:
    tx = Stage(a=START).begin("total()", read_only="total() is computed and may not write")
    attempts: list[Callable[[], None]] = [
        lambda: tx.set(A, ("m", "k"), 1),
        lambda: tx.patch(A, replace("m", "k", to=1)),
        lambda: tx.set(doc_key("new"), (), 1),
        lambda: tx.delete(A),
    ]
    for attempt, place in zip(attempts, ["a/m/k", "a/m/k", "new", "a"], strict=True):
        with pytest.raises(WriteError) as caught:
            attempt()
        assert caught.value.message == f"total() is computed and may not write {place}"
    assert seen(tx, "a", "x") == 1
    assert [entry.flags for entry in tx.journal] == [0], "a refused write was not even tried"


def test_refusal_names_the_place_where_its_sentence_has_room_for_it() -> None:
    tx = Stage(a=START).begin(read_only="total() may not write {}: what it returns is written for it")
    with pytest.raises(WriteError) as caught:
        tx.set(A, ("x",), 5)
    assert caught.value.message == "total() may not write a/x: what it returns is written for it"
    assert (caught.value.facts["doc"], caught.value.facts["path"]) == (A, ("x",))


# --- preconditions --------------------------------------------------------------------------------------------


def test_precondition_travels_with_the_commit_and_a_refusal_is_for_good() -> None:
    stage = Stage(a=START)
    tx = stage.begin()
    tx.set(B, (), 1)
    tx.require(Absent(A))
    tx.commit()
    assert stage.last().preconditions == (Absent(A),)
    assert stage.now("b") == 1
    stage.settle()
    assert tx.is_rejected
    assert isinstance(tx.verdict, Refused)
    assert stage.now("b") is NOTHING


def test_precondition_that_holds_lets_the_commit_pass() -> None:
    stage = Stage(a=START)
    tx = stage.begin()
    tx.require(Absent(B))
    tx.set(B, (), 1)
    tx.commit()
    stage.settle()
    assert tx.status is Status.COMMITTED


@pytest.mark.parametrize(("doc", "status"), [(A, Status.REJECTED), (B, Status.COMMITTED)])
def test_commit_without_writes_is_sent_for_its_preconditions(doc: str, status: Status) -> None:
    stage = Stage(a=START)
    tx = stage.begin()
    tx.set(A, ("x",), 1)
    tx.require(Absent(doc))
    tx.commit()
    assert (tx.status, stage.last().operations) == (Status.PENDING, ())
    stage.settle()
    assert tx.status is status


def test_blind_writes_name_no_reads() -> None:
    stage = Stage(a=START)
    tx = stage.begin()
    tx.set(A, ("x",), 5)
    tx.patch(A, append("l", items=[4]))
    tx.set(B, (), 1)
    tx.commit()
    assert paths_read(stage.last()) == []


def test_reading_one_element_does_not_hold_the_whole_list() -> None:
    stage = Stage(a=START)
    tx = stage.begin()
    tx.read(A, ("l", 0))
    tx.read(A, ("l",), Depth.SHALLOW)
    tx.set(A, ("x",), 5)
    tx.commit()
    assert [(read.path, read.depth) for read in stage.last().reads] == [
        (("l", 0), Depth.DEEP),
        (("l",), Depth.SHALLOW),
    ]


def test_apply_patch_shares_what_a_transaction_did_not_write() -> None:
    """The view is no copy: an untouched part is the very object of the document."""
    stage = Stage(a=START)
    tx = stage.begin()
    tx.set(A, ("x",), 5)
    assert get(tx.document(A), ("m",)) is get(stage.here.read(A), ("m",))
    assert tx.document(A) == apply_patch(stage.here.read(A), Replace(("x",), 5))[0]
