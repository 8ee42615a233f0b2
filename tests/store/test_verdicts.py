"""What the engine says to a commit: preconditions, confirmed reads, operations that do not fit."""

from __future__ import annotations

import pytest

from headwater.store.branching import fork
from headwater.store.commit import Absent, Committed, Conflict, OriginCommitted, Refused, ValueIs
from headwater.values.address import Depth, doc_key
from headwater.values.codec import digest
from headwater.values.ids import LocalSeq
from headwater.values.patch import PatchOp
from headwater.values.tree import freeze
from tests.support.naive import NOTHING
from tests.support.spaces import (
    Space,
    add,
    add_unique,
    admit,
    append,
    drop,
    edit,
    increment,
    move,
    pending_read,
    put,
    read,
    remove,
    remove_by_value,
    replace,
    splice,
)

# --- places in the log ---


def test_accepted_commits_are_numbered_from_one_without_gaps(space: Space) -> None:
    ann = space.writer("ann")
    assert [ann.commit(put("a", n)) for n in range(3)] == [Committed(1), Committed(2), Committed(3)]


def test_rejected_commit_takes_no_place(space: Space) -> None:
    ann = space.writer("ann")
    ann.accept(put("a", 1))
    ann.commit(put("a", 2), given=[Absent(doc_key("a"))])
    assert ann.accept(put("a", 3)) == 2


def test_each_commit_of_a_group_has_its_own_verdict(space: Space) -> None:
    ann, bob = space.writer("ann"), space.writer("bob")
    group = [
        ann.build(put("a", 1)),
        bob.build(put("b", 1), given=[Absent(doc_key("a"))]),
        ann.build(edit("a", add("k", value=1))),
        bob.build(put("b", 2), reads=[read("a", at=0)]),
        ann.build(put("c", 1)),
    ]
    kinds = [type(outcome.verdict) for outcome in admit(space.engine, *group)]
    assert kinds == [Committed, Refused, Conflict, Conflict, Committed]
    assert space.engine.head == 2


def test_commit_to_a_branch_that_does_not_exist_is_refused(space: Space) -> None:
    assert isinstance(space.writer("ann", "nowhere").commit(put("a", 1)), Refused)


def test_unknown_branch_leaves_no_trace(space: Space) -> None:
    space.writer("ann", "nowhere").commit(put("a", 1), given=[Absent(doc_key("a"))])
    space.reopen()
    assert list(space.engine.documents.branches) == ["main"]


def test_commit_of_several_documents_lands_whole_or_not_at_all(space: Space) -> None:
    ann = space.writer("ann")
    ann.accept(put("a", {"n": 1}), put("b", 5))
    assert isinstance(ann.commit(edit("a", replace("n", to=2)), edit("b", add("k", value=1))), Conflict)
    assert (space.value("a"), space.value("b")) == ({"n": 1}, 5)
    assert space.reopen().head == 1


def test_several_operations_on_one_document_build_on_each_other(space: Space) -> None:
    ann = space.writer("ann")
    ann.accept(put("a", {}), edit("a", add("k", value=[1])), edit("a", append("k", items=[2]), increment("n")))
    assert space.value("a") == {"k": [1, 2], "n": 1}
    space.reopen()
    assert space.value("a") == {"k": [1, 2], "n": 1}


# --- preconditions ---


def test_absent_holds_for_a_document_that_was_never_written(space: Space) -> None:
    space.writer("ann").accept(put("receipt", {}), given=[Absent(doc_key("receipt"))])


def test_absent_does_not_hold_for_a_document_that_is_there(space: Space) -> None:
    ann, bob = space.writer("ann"), space.writer("bob")
    ann.accept(put("receipt", {}))
    verdict = bob.commit(put("receipt", {}), given=[Absent(doc_key("receipt"))])
    receipt = doc_key("receipt")
    reason = "the document exists already, or was deleted: its id was used before"
    assert verdict == Refused(reason, receipt, Absent(receipt), "HW212")


def test_deleted_document_counts_as_present_to_absent(space: Space) -> None:
    ann = space.writer("ann")
    ann.accept(put("receipt", {}))
    ann.accept(drop("receipt"))
    for _ in range(2):
        assert isinstance(ann.commit(put("receipt", {}), given=[Absent(doc_key("receipt"))]), Refused)
        space.engine.fold()
        space.reopen()


def test_deleting_what_was_never_there_is_remembered_too(space: Space) -> None:
    ann = space.writer("ann")
    ann.accept(drop("receipt"))
    assert isinstance(ann.commit(put("receipt", {}), given=[Absent(doc_key("receipt"))]), Refused)


def test_two_receipts_in_one_group_only_the_first_lands(space: Space) -> None:
    ann, bob = space.writer("ann"), space.writer("bob")
    group = [w.build(put("receipt", w.session), given=[Absent(doc_key("receipt"))]) for w in (ann, bob)]
    first, second = (outcome.verdict for outcome in admit(space.engine, *group))
    assert (type(first), type(second)) == (Committed, Refused)
    assert space.value("receipt") == "ann"


def test_document_of_the_parent_counts_as_present_on_a_branch(space: Space) -> None:
    space.writer("ann").accept(put("receipt", {}))
    fork(space.engine, space.clock, "draft")
    verdict = space.writer("bob", "draft").commit(put("receipt", 1), given=[Absent(doc_key("receipt"))])
    assert isinstance(verdict, Refused)


def test_value_is_holds_exactly_for_the_same_value(space: Space) -> None:
    ann = space.writer("ann")
    ann.accept(put("a", {"n": 1}))
    good = ValueIs(doc_key("a"), digest(freeze({"n": 1})))
    for other in ({"n": 1.0}, {"n": True}, {}, None):
        bad = ValueIs(doc_key("a"), digest(freeze(other)))
        assert isinstance(ann.commit(put("b", 1), given=[bad]), Refused)
    ann.accept(put("b", 1), given=[good])


def test_value_is_with_no_bytes_means_that_there_is_no_document(space: Space) -> None:
    ann = space.writer("ann")
    nothing = ValueIs(doc_key("a"), b"")
    ann.accept(put("b", 1), given=[nothing])
    ann.accept(put("a", None))
    assert isinstance(ann.commit(put("b", 2), given=[nothing]), Refused)
    ann.accept(drop("a"))
    ann.accept(put("b", 3), given=[nothing])


@pytest.mark.parametrize("between", ["nothing", "fold", "reopen"])
def test_origin_committed_holds_when_the_origin_was_accepted(space: Space, between: str) -> None:
    ann, bob = space.writer("ann"), space.writer("bob")
    ann.accept(put("a", 1))
    ann.commit(put("a", 2), given=[Absent(doc_key("a"))])
    ann.accept(put("a", 3))
    if between == "fold":
        space.engine.fold()
    if between == "reopen":
        space.reopen()
    ann.accept(put("b", 1), given=[OriginCommitted(LocalSeq(1)), OriginCommitted(LocalSeq(3))])
    assert isinstance(ann.commit(put("b", 2), given=[OriginCommitted(LocalSeq(2))]), Refused)
    assert isinstance(bob.commit(put("b", 3), given=[OriginCommitted(LocalSeq(1))]), Refused), "of its own session"


def test_origin_of_the_same_group_counts(space: Space) -> None:
    ann = space.writer("ann")
    group = [
        ann.build(put("a", 1)),
        ann.build(put("b", 1), given=[OriginCommitted(LocalSeq(1))]),
        ann.build(put("a", 2), given=[Absent(doc_key("a"))]),
        ann.build(put("b", 2), given=[OriginCommitted(LocalSeq(3))]),
    ]
    kinds = [type(outcome.verdict) for outcome in admit(space.engine, *group)]
    assert kinds == [Committed, Committed, Refused, Refused]


@pytest.mark.parametrize("number", [2, 3, 99])
def test_commit_cannot_be_its_own_origin_nor_follow_from_the_future(space: Space, number: int) -> None:
    ann = space.writer("ann")
    ann.accept(put("a", 1))
    assert isinstance(ann.commit(put("b", 1), given=[OriginCommitted(LocalSeq(number))]), Refused)


def test_commit_without_operations_is_decided_by_its_preconditions(space: Space) -> None:
    ann = space.writer("ann")
    ann.accept(given=[Absent(doc_key("receipt"))])
    ann.accept(put("receipt", {}))
    assert isinstance(ann.commit(given=[Absent(doc_key("receipt"))]), Refused)
    assert space.reopen().head == 2


def test_commit_without_operations_is_decided_by_its_reads(space: Space) -> None:
    ann = space.writer("ann")
    ann.accept(put("a", 1))
    ann.accept(reads=[read("a", at=1)])
    assert isinstance(ann.commit(reads=[read("a", at=0)]), Conflict)


def test_preconditions_come_before_reads(space: Space) -> None:
    """A refusal is for good; a conflict invites to try again."""
    ann = space.writer("ann")
    ann.accept(put("a", 1))
    verdict = ann.commit(put("b", 1), reads=[read("a", at=0)], given=[Absent(doc_key("a"))])
    assert isinstance(verdict, Refused)


# --- confirmed reads ---

DOCUMENT = {"a": 0, "m": {"x": 1, "y": {"z": 2}}, "l": [1, 2, 3]}

NOTICED: list[tuple[PatchOp, tuple[str | int, ...], Depth, bool]] = [
    (replace("a", to=1), ("a",), Depth.DEEP, True),
    (replace("a", to=1), (), Depth.DEEP, True),
    (replace("a", to=1), (), Depth.SHALLOW, False),
    (replace("a", to=1), ("m",), Depth.DEEP, False),
    (replace("a", to=1), ("a", "deep"), Depth.DEEP, True),
    (replace("a", to=0), ("a",), Depth.DEEP, False),
    (add("m", "new", value=1), ("m",), Depth.SHALLOW, True),
    (add("m", "new", value=1), ("m", "x"), Depth.DEEP, False),
    (add("m", "new", value=1), ("m", "new"), Depth.DEEP, True),
    (add("m", "new", value=1), ("m", "other"), Depth.DEEP, False),
    (add("m", "new", value=1), (), Depth.SHALLOW, False),
    (add("n", "o", "p", value=1), (), Depth.SHALLOW, True),
    (add("n", "o", "p", value=1), ("n", "q"), Depth.DEEP, True),
    (add("m", "x", value=5), ("m",), Depth.SHALLOW, False),
    (remove("m", "x"), ("m",), Depth.SHALLOW, True),
    (remove("m", "x"), ("m", "y"), Depth.DEEP, False),
    (replace("m", "y", "z", to=3), ("m",), Depth.SHALLOW, False),
    (replace("m", "y", "z", to=3), ("m",), Depth.DEEP, True),
    (replace("m", to={"x": 9}), ("m", "x"), Depth.SHALLOW, True),
    (append("l", items=[4]), ("l",), Depth.SHALLOW, True),
    (append("l", items=[4]), ("l", 0), Depth.DEEP, False),
    (append("l", items=[4]), ("l", 3), Depth.DEEP, True),
    (append("l", items=list(range(50))), ("l", 20), Depth.DEEP, True),
    (remove("l", 0), ("l", 2), Depth.DEEP, True),
    (splice("l", at=1, delete=1, items=[7]), ("l",), Depth.DEEP, True),
    (add("l", 0, value=9), ("l", 1), Depth.DEEP, True),
    (replace("l", 0, to=9), ("l", 1), Depth.DEEP, False),
    (replace("l", 0, to=9), ("l",), Depth.SHALLOW, False),
    (remove_by_value("l", items=[2]), ("l", 2), Depth.DEEP, True),
    (remove_by_value("l", items=["none"]), ("l",), Depth.DEEP, False),
    (add_unique("l", items=[1]), ("l",), Depth.DEEP, False),
    (add_unique("l", items=[5]), ("l",), Depth.SHALLOW, True),
    (move(("a",), ("m", "a")), ("a",), Depth.DEEP, True),
    (move(("a",), ("m", "a")), ("m", "a"), Depth.DEEP, True),
    (move(("a",), ("m", "a")), ("m", "x"), Depth.DEEP, False),
    (increment("a"), ("a",), Depth.SHALLOW, True),
    (increment("fresh"), (), Depth.SHALLOW, True),
]


@pytest.mark.parametrize("fold", ["remembered", "folded", "reopened"])
@pytest.mark.parametrize(("op", "path", "depth", "noticed"), NOTICED)
def test_patch_conflicts_exactly_with_reads_that_can_tell(
    space: Space, *, op: PatchOp, path: tuple[str | int, ...], depth: Depth, noticed: bool, fold: str
) -> None:
    ann, bob = space.writer("ann"), space.writer("bob")
    ann.accept(put("a", DOCUMENT))
    bob.accept(edit("a", op))
    if fold == "folded":
        space.engine.fold()
    if fold == "reopened":
        space.reopen()
    verdict = ann.commit(put("sum", 1), reads=[read("a", *path, at=1, depth=depth)])
    if noticed:
        assert isinstance(verdict, Conflict)
        assert (verdict.doc, verdict.path, verdict.seq) == (doc_key("a"), path, 2)
    elif fold != "reopened":  # then only the text of the operation is known, and it may be too careful
        assert isinstance(verdict, Committed)


@pytest.mark.parametrize("depth", list(Depth))
@pytest.mark.parametrize("path", [(), ("a",), ("nowhere", "at", "all")])
@pytest.mark.parametrize("how", ["set", "delete"])
def test_whole_write_conflicts_with_any_read_of_the_document(
    how: str, path: tuple[str | int, ...], depth: Depth, space: Space
) -> None:
    ann, bob = space.writer("ann"), space.writer("bob")
    ann.accept(put("a", DOCUMENT), put("b", DOCUMENT))
    bob.accept(put("a", {**DOCUMENT, "more": 1}) if how == "set" else drop("a"))
    assert isinstance(ann.commit(put("sum", 1), reads=[read("a", *path, at=1, depth=depth)]), Conflict)
    ann.accept(put("sum", 1), reads=[read("b", *path, at=1, depth=depth)])


def test_write_that_changes_nothing_disturbs_no_reader(space: Space) -> None:
    ann, bob = space.writer("ann"), space.writer("bob")
    ann.accept(put("a", DOCUMENT))
    bob.accept(put("a", DOCUMENT))
    ann.accept(put("sum", 1), reads=[read("a", at=1)])


def test_reading_that_nothing_is_there_conflicts_with_what_appears(space: Space) -> None:
    ann, bob = space.writer("ann"), space.writer("bob")
    bob.accept(put("a", 1))
    assert isinstance(ann.commit(put("sum", 1), reads=[read("a", at=0)]), Conflict)
    assert isinstance(ann.commit(put("sum", 1), reads=[read("a", "k", at=0, depth=Depth.SHALLOW)]), Conflict)


def test_read_as_of_the_newest_write_is_no_conflict(space: Space) -> None:
    ann, bob = space.writer("ann"), space.writer("bob")
    bob.accept(put("a", 1))
    bob.accept(put("other", 2))
    ann.accept(put("sum", 1), reads=[read("a", at=1)])
    ann.accept(put("sum", 1), reads=[read("a", at=2)])


def test_write_in_the_same_group_is_noticed(space: Space) -> None:
    ann, bob = space.writer("ann"), space.writer("bob")
    ann.accept(put("a", DOCUMENT))
    group = [bob.build(edit("a", replace("a", to=1))), ann.build(put("sum", 1), reads=[read("a", "a", at=1)])]
    assert [type(o.verdict) for o in admit(space.engine, *group)] == [Committed, Conflict]


def test_write_in_the_same_group_is_noticed_when_the_document_was_not_in_memory(space: Space) -> None:
    ann, bob = space.writer("ann"), space.writer("bob")
    ann.accept(put("a", DOCUMENT))
    ann.accept(edit("a", replace("m", "x", to=2)))
    space.reopen()
    group = [bob.build(edit("a", replace("a", to=1))), ann.build(put("sum", 1), reads=[read("a", "a", at=1)])]
    assert [type(o.verdict) for o in admit(space.engine, *group)] == [Committed, Conflict]


def test_one_commit_that_touches_thousands_of_places_is_noticed_at_each(space: Space) -> None:
    ann, bob = space.writer("ann"), space.writer("bob")
    keys = [f"k{number}" for number in range(6000)]
    ann.accept(put("a", dict.fromkeys(keys, 0)))
    bob.accept(edit("a", *[replace(key, to=1) for key in keys]))
    for key in (keys[0], keys[3000], keys[-1]):
        assert isinstance(ann.commit(put("sum", 1), reads=[read("a", key, at=1)]), Conflict)


def test_two_writers_on_different_keys_of_one_map_both_land(space: Space) -> None:
    ann, bob = space.writer("ann"), space.writer("bob")
    ann.accept(put("a", {"x": 0, "y": 0}))
    group = [
        ann.build(edit("a", replace("x", to=1)), reads=[read("a", "x", at=1)]),
        bob.build(edit("a", replace("y", to=1)), reads=[read("a", "y", at=1)]),
    ]
    assert [o.verdict for o in admit(space.engine, *group)] == [Committed(2), Committed(3)]
    assert space.value("a") == {"x": 1, "y": 1}


def test_mergeable_operations_meet_the_document_as_it_is(space: Space) -> None:
    ann, bob = space.writer("ann"), space.writer("bob")
    ann.accept(put("a", {"n": 0, "l": [], "s": ["x"]}))
    group = [
        ann.build(edit("a", increment("n", by=2), append("l", items=["ann"]), add_unique("s", items=["y"]))),
        bob.build(edit("a", increment("n", by=3), append("l", items=["bob"]), add_unique("s", items=["y", "z"]))),
        ann.build(edit("a", remove_by_value("s", items=["x", "z"]))),
    ]
    assert all(isinstance(o.verdict, Committed) for o in admit(space.engine, *group))
    assert space.value("a") == {"n": 5, "l": ["ann", "bob"], "s": ["y"]}


@pytest.mark.parametrize(
    "op",
    [
        add("m", "x", "deeper", value=1),
        append("m", items=[1]),
        increment("m"),
        splice("m", at=0, delete=0, items=[]),
        remove("m", "gone"),
        replace("m", "gone", to=1),
        move(("gone",), ("m",)),
        remove_by_value("m", items=[1]),
    ],
)
def test_ancestor_that_became_another_kind_of_value_is_a_conflict(op: PatchOp, space: Space) -> None:
    """It fitted where it was made; whether it still means anything only its author can tell."""
    ann = space.writer("ann")
    ann.accept(put("a", {"m": {"x": "text"}}))
    verdict = ann.commit(edit("a", op))
    assert isinstance(verdict, Conflict)
    assert verdict.doc == doc_key("a")
    assert space.value("a") == {"m": {"x": "text"}}


def test_patch_of_a_document_that_is_not_there_is_a_conflict(space: Space) -> None:
    ann = space.writer("ann")
    assert isinstance(ann.commit(edit("a", replace("k", to=1))), Conflict)
    ann.accept(put("a", {"k": 0}))
    ann.accept(drop("a"))
    assert isinstance(ann.commit(edit("a", replace("k", to=1))), Conflict)
    assert space.value("a") is NOTHING


def test_patch_may_make_a_document(space: Space) -> None:
    space.writer("ann").accept(edit("a", add("k", value=1), increment("n"), append("l", items=[1])))
    assert space.value("a") == {"k": 1, "n": 1, "l": [1]}


def test_deleted_document_can_be_made_again(space: Space) -> None:
    ann = space.writer("ann")
    for operation in (put("a", 1), drop("a"), put("a", 2)):
        ann.accept(operation)
    assert [space.value("a", at=seq) for seq in range(4)] == [NOTHING, 1, NOTHING, 2]


def test_pending_and_confirmed_reads_are_both_checked(space: Space) -> None:
    ann, bob = space.writer("ann"), space.writer("bob")
    ann.accept(put("a", 1))
    bob.accept(put("b", 1))
    mark = pending_read("a", basis=0, layers=[(1, 1)])
    assert isinstance(ann.commit(put("sum", 1), reads=[mark, read("b", at=0)]), Conflict)
    ann.accept(put("sum", 1), reads=[mark, read("b", at=2)])


# --- the future ---


def test_read_of_a_place_that_the_log_has_not_reached_is_refused(space: Space) -> None:
    """Else the next write of the document would count as one that the reader has seen."""
    ann, bob = space.writer("ann"), space.writer("bob")
    ann.accept(put("a", 1))
    future = bob.commit(put("b", 1), reads=[read("a", at=2)])
    assert isinstance(future, Refused) and future.code == "HW401"
    assert "as of commit 2, and the log ends with commit 1" in future.reason
    resting = bob.commit(put("b", 1), reads=[pending_read("a", basis=9, layers=[])])
    assert isinstance(resting, Refused) and resting.code == "HW401"
    ann.accept(put("a", 2))
    bob.accept(put("b", 1), reads=[read("a", at=2)])
