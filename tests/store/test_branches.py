"""Branches: forked in one row, apart until merged, merged without losing anybody's change."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from headwater.errors import HistoryError, LimitError, MergeConflictError, NameRefusedError, NotFoundError
from headwater.store.branching import fork, merge
from headwater.store.commit import Committed, Conflict, SetDoc
from headwater.store.verification import verify
from headwater.values.address import doc_key
from headwater.values.ids import MAIN, BranchId, Seq
from tests.support.halves import examples
from tests.support.limits import small_limits
from tests.support.naive import NOTHING, plain
from tests.support.spaces import Space, append, drop, edit, increment, pending_read, put, read, replace

DRAFT = BranchId("draft")


def make(space: Space, name: str = "draft", parent: str = MAIN, at: int | None = None) -> int:
    return fork(space.engine, space.clock, name, BranchId(parent), None if at is None else Seq(at))


def bring(space: Space, source: str = "draft", into: str = MAIN) -> int:
    verdict = merge(space.engine, BranchId(source), BranchId(into)).verdict
    assert isinstance(verdict, Committed)
    return verdict.seq


# --- fork ---


@pytest.mark.parametrize("documents", [1, 400])
def test_fork_writes_one_row_whatever_the_space_holds(file_space: Space, documents: int) -> None:
    from headwater.store.backends.sqlite import SqliteBackend

    ann = file_space.writer("ann")
    ann.accept(*[put(f"d{number}", number) for number in range(documents)])
    file_space.engine.fold()
    backend = file_space.backend
    assert isinstance(backend, SqliteBackend)
    before = backend._db.total_changes()
    make(file_space)
    assert backend._db.total_changes() - before == 1


def test_branch_starts_with_its_parents_documents(space: Space) -> None:
    ann = space.writer("ann")
    ann.accept(put("a", {"n": 1}), put("gone", 1))
    ann.accept(drop("gone"))
    make(space)
    assert (space.value("a", "draft"), space.value("gone", "draft")) == ({"n": 1}, NOTHING)


def test_branches_do_not_see_each_other(space: Space) -> None:
    ann = space.writer("ann")
    ann.accept(put("a", {"n": 1}))
    make(space)
    draft = space.writer("bob", "draft")
    draft.accept(edit("a", increment("n", by=10)), put("mine", 1))
    ann.accept(edit("a", increment("n", by=100)), put("theirs", 1))
    for _ in range(3):
        assert space.values() == {doc_key("a"): {"n": 101}, doc_key("theirs"): 1}
        assert space.values("draft") == {doc_key("a"): {"n": 11}, doc_key("mine"): 1}
        space.engine.fold()
        space.reopen()


def test_write_on_another_branch_is_no_conflict(space: Space) -> None:
    ann = space.writer("ann")
    ann.accept(put("a", 1))
    make(space)
    space.writer("bob", "draft").accept(put("a", 2))
    ann.accept(put("sum", 1), reads=[read("a", at=1)])
    cyd = space.writer("cyd", "draft")
    assert isinstance(cyd.commit(put("sum", 1), reads=[read("a", at=1)]), Conflict)
    cyd.accept(put("sum", 1), reads=[read("a", at=3)])


def test_pending_reads_work_on_a_branch(space: Space) -> None:
    space.writer("ann").accept(put("a", {"n": 1}))
    make(space)
    bob = space.writer("bob", "draft")
    bob.accept(edit("a", replace("n", to=2)))
    bob.accept(put("sum", 1), reads=[pending_read("a", "n", basis=1, layers=[(1, 1)])])


def test_branch_can_start_from_the_past(space: Space) -> None:
    ann = space.writer("ann")
    for number in range(5):
        ann.accept(put("a", number))
    make(space, at=2)
    assert space.value("a", "draft") == 1
    make(space, "empty", at=0)
    assert space.value("a", "empty") is NOTHING


def test_branch_of_a_branch_sees_both_pasts(space: Space) -> None:
    ann = space.writer("ann")
    ann.accept(put("a", "main"), put("b", "main"))
    make(space)
    bob = space.writer("bob", "draft")
    bob.accept(put("b", "draft"))
    make(space, "deeper", "draft")
    bob.accept(put("b", "later"))
    ann.accept(put("a", "later"))
    for _ in range(2):
        assert (space.value("a", "deeper"), space.value("b", "deeper")) == ("main", "draft")
        space.engine.fold()


def test_branch_made_before_its_parent_wrote_anything_later(space: Space) -> None:
    """A fork of the past of a branch, before that branch itself began."""
    ann = space.writer("ann")
    ann.accept(put("a", 1))
    ann.accept(put("a", 2))
    make(space, at=2)
    make(space, "older", "draft", at=1)
    assert space.value("a", "older") == 1


@pytest.mark.parametrize("name", ["", " draft", "draft ", "a/b", "x" * 5000, "main"])
def test_name_that_cannot_be_used_is_refused(space: Space, name: str) -> None:
    with pytest.raises(NameRefusedError):
        make(space, name)
    assert space.engine.head == 0


def test_name_with_a_lone_surrogate_is_refused(space: Space) -> None:
    with pytest.raises(NameRefusedError):
        make(space, "a\ud800")
    space.writer("ann").accept(put("a", 1))


def test_names_are_never_reused(space: Space) -> None:
    make(space)
    space.reopen()
    with pytest.raises(NameRefusedError, match="never reused"):
        make(space)


def test_fork_of_what_is_not_there_is_refused(space: Space) -> None:
    with pytest.raises(NotFoundError):
        make(space, "x", "nowhere")
    with pytest.raises(HistoryError):
        make(space, "x", at=7)


# --- merge ---


@pytest.fixture
def forked(space: Space) -> Space:
    """Two documents, then a branch called draft."""
    space.writer("setup").accept(put("a", {"n": 0}), put("b", {"n": 0}))
    make(space)
    return space


def test_merge_brings_every_kind_of_change(forked: Space) -> None:
    draft = forked.writer("bob", "draft")
    draft.accept(edit("a", increment("n")), put("new", [1]))
    draft.accept(drop("b"))
    outcome = merge(forked.engine, DRAFT)
    assert outcome.commit.branch == MAIN
    assert {effect.doc: plain(effect.after) for effect in outcome.effects} == {
        doc_key("a"): {"n": 1},
        doc_key("b"): NOTHING,
        doc_key("new"): [1],
    }
    for _ in range(2):
        assert forked.values() == {doc_key("a"): {"n": 1}, doc_key("new"): [1]}
        forked.reopen()
    assert verify(forked.engine).ok


def test_merge_is_an_ordinary_commit_for_those_who_read(forked: Space) -> None:
    forked.writer("bob", "draft").accept(edit("a", increment("n")))
    bring(forked)
    verdict = forked.writer("ann").commit(put("sum", 1), reads=[read("a", "n", at=1)])
    assert isinstance(verdict, Conflict)


def test_changes_of_different_documents_come_together(forked: Space) -> None:
    forked.writer("ann").accept(edit("a", increment("n", by=1)))
    forked.writer("bob", "draft").accept(edit("b", increment("n", by=2)))
    bring(forked)
    assert forked.values() == {doc_key("a"): {"n": 1}, doc_key("b"): {"n": 2}}


def test_all_documents_changed_on_both_sides_are_listed_and_nothing_is_merged(forked: Space) -> None:
    names = [f"d{number}" for number in range(8)]
    forked.writer("ann").accept(*[put(name, "ann") for name in names])
    forked.writer("bob", "draft").accept(*[put(name, "bob") for name in names], put("only", 1))
    head = forked.engine.head
    with pytest.raises(MergeConflictError, match=r"d0, d1, d2, d3, d4 and 3 more") as caught:
        bring(forked)
    assert caught.value.facts["documents"] == tuple(doc_key(name) for name in names)
    assert forked.engine.head == head
    assert forked.value("only") is NOTHING


def test_both_sides_that_came_to_the_same_value_agree(forked: Space) -> None:
    forked.writer("ann").accept(put("a", "same"))
    forked.writer("bob", "draft").accept(put("a", "same"), put("b", 1))
    bring(forked)
    assert (forked.value("a"), forked.value("b")) == ("same", 1)


def test_conflict_is_settled_by_making_both_sides_equal(forked: Space) -> None:
    ann, bob = forked.writer("ann"), forked.writer("bob", "draft")
    ann.accept(put("a", "ann"))
    bob.accept(put("a", "bob"))
    with pytest.raises(MergeConflictError):
        bring(forked)
    ann.accept(put("a", "bob"))
    bring(forked)
    bob.accept(put("a", "bob again"))
    bring(forked)
    assert forked.value("a") == "bob again"


def test_repeated_merges_bring_only_what_is_new(forked: Space) -> None:
    bob = forked.writer("bob", "draft")
    for number in range(1, 4):
        bob.accept(edit("a", increment("n")))
        outcome = merge(forked.engine, DRAFT)
        assert [effect.doc for effect in outcome.effects] == [doc_key("a")]
        assert forked.value("a") == {"n": number}
        forked.reopen()
    assert merge(forked.engine, DRAFT).effects == ()


def test_merge_does_not_undo_a_later_change_of_the_target(forked: Space) -> None:
    ann, bob = forked.writer("ann"), forked.writer("bob", "draft")
    bob.accept(put("a", "bob"))
    bring(forked)
    ann.accept(put("a", "ann"))
    bob.accept(put("b", "bob"))
    bring(forked)
    assert (forked.value("a"), forked.value("b")) == ("ann", "bob")


def test_change_that_the_branch_never_saw_is_not_overwritten_by_a_second_merge(forked: Space) -> None:
    ann, bob = forked.writer("ann"), forked.writer("bob", "draft")
    ann.accept(put("a", "ann"))
    bob.accept(put("b", "bob"))
    bring(forked)
    bob.accept(put("a", "bob"))
    with pytest.raises(MergeConflictError) as caught:
        bring(forked)
    assert caught.value.facts["documents"] == (doc_key("a"),)


def test_merges_back_and_forth_keep_both_sides_up_to_date(forked: Space) -> None:
    ann, bob = forked.writer("ann"), forked.writer("bob", "draft")
    for number in range(4):
        bob.accept(edit("a", replace("n", to=number * 2 + 1)))
        bring(forked)
        ann.accept(edit("a", replace("n", to=number * 2 + 2)), edit("b", increment("n")))
        bring(forked, MAIN, "draft")
        for branch in (MAIN, "draft"):
            assert forked.values(branch) == {doc_key("a"): {"n": number * 2 + 2}, doc_key("b"): {"n": number + 1}}


def test_what_a_branch_was_given_does_not_come_back_as_its_own_change(forked: Space) -> None:
    ann = forked.writer("ann")
    ann.accept(put("a", 1))
    bring(forked, MAIN, "draft")
    ann.accept(put("a", 2))
    bring(forked)
    assert forked.value("a") == 2


def test_branch_of_a_branch_merges_into_main_with_what_it_inherited(forked: Space) -> None:
    forked.writer("bob", "draft").accept(put("a", "draft"))
    make(forked, "deeper", "draft")
    forked.writer("cyd", "deeper").accept(put("b", "deeper"))
    bring(forked, "deeper")
    assert (forked.value("a"), forked.value("b")) == ("draft", "deeper")


def test_sibling_brings_what_it_saw_of_their_parent_and_the_other_did_not(forked: Space) -> None:
    forked.writer("ann").accept(put("a", "newer"))
    make(forked, "late")
    forked.writer("cyd", "late").accept(put("b", "late"))
    bring(forked, "late", "draft")
    assert (forked.value("a", "draft"), forked.value("b", "draft")) == ("newer", "late")


def test_merge_into_itself_or_nowhere_is_refused(forked: Space) -> None:
    with pytest.raises(NameRefusedError):
        bring(forked, "draft", "draft")
    with pytest.raises(NotFoundError):
        bring(forked, "nowhere")
    with pytest.raises(NotFoundError):
        bring(forked, "draft", "nowhere")


def test_merge_of_too_much_at_once_is_refused_with_nothing_changed(forked: Space) -> None:
    bob = forked.writer("bob", "draft")
    for number in range(5):
        bob.accept(put(f"d{number}", "x" * 1000))
    head = forked.engine.head
    with small_limits(COMMIT_BYTES_MAX=3000), pytest.raises(LimitError, match="3,000"):
        bring(forked)
    assert (forked.engine.head, forked.value("d0")) == (head, NOTHING)
    assert bring(forked) == head + 1


def test_merges_are_remembered_by_a_file_that_was_not_folded(file_space: Space) -> None:
    file_space.writer("setup").accept(put("a", 1))
    make(file_space)
    bob = file_space.writer("bob", "draft")
    bob.accept(put("a", 2))
    bring(file_space)
    file_space.reopen()
    assert [name for name, _, _ in file_space.engine.documents.branches[MAIN].merges] == ["draft"]
    assert merge(file_space.engine, DRAFT).effects == ()


# --- against a model ---


@dataclass
class Side:
    """One branch in the model: for each document its value, every change that went into it, and those that a merge
    found to have come to the same value elsewhere: whoever goes on from there goes on from those, too."""

    values: dict[str, object] = field(default_factory=dict)
    changes: dict[str, frozenset[int]] = field(default_factory=dict)
    equals: dict[str, frozenset[int]] = field(default_factory=dict)

    def copy(self) -> Side:
        return Side(dict(self.values), dict(self.changes), dict(self.equals))

    def builds_on(self, other: Side, doc: str) -> bool:
        return other.changes[doc] <= self.changes[doc] | self.equals[doc]


class Model:
    """Merging as it is meant: a document is taken over if it builds on ours, and a conflict if neither builds on
    the other. The store may find more conflicts than this, but must never lose a change."""

    def __init__(self) -> None:
        self.sides = {"main": Side()}
        self.count = 0

    def write(self, branch: str, doc: str, value: object) -> None:
        self.count += 1
        side = self.sides[branch]
        side.values[doc] = value
        side.changes[doc] = side.changes.get(doc, frozenset()) | {self.count}
        side.equals.setdefault(doc, frozenset())

    def either_way(self, source: str, into: str) -> list[str]:
        """Documents that were found equal once: whose change came first is then a matter of taste."""
        mine, theirs = self.sides[into], self.sides[source]
        return [doc for doc in theirs.values if mine.equals[doc] or theirs.equals[doc]]

    def conflicts(self, source: str, into: str) -> set[str]:
        mine, theirs = self.sides[into], self.sides[source]
        return {
            doc
            for doc, value in theirs.values.items()
            if value != mine.values[doc] and not mine.builds_on(theirs, doc) and not theirs.builds_on(mine, doc)
        }

    def merge(self, source: str, into: str, brought: dict[str, bool]) -> None:
        """`brought` says what the store did where both ways are right."""
        mine, theirs = self.sides[into], self.sides[source]
        for doc, value in theirs.values.items():
            if value == mine.values[doc]:
                theirs.equals[doc] |= mine.changes[doc]
                mine.equals[doc] |= theirs.changes[doc]
            elif brought.get(doc, not mine.builds_on(theirs, doc)):
                mine.values[doc], mine.changes[doc] = value, theirs.changes[doc]
                mine.equals[doc] |= theirs.equals[doc]


def run_model(space: Space, rng: random.Random, counts: Counter[str]) -> None:
    model = Model()
    writers = {"main": space.writer("w-main")}
    docs = ["a", "b", "c"]
    for doc in docs:
        writers["main"].accept(put(doc, 0))
        model.write("main", doc, 0)
    for _ in range(25):
        branch = rng.choice(list(model.sides))
        kind = rng.randrange(10)
        if kind == 0 and len(model.sides) < 4:
            name = f"branch{len(model.sides)}"
            make(space, name, branch)
            model.sides[name] = model.sides[branch].copy()
            writers[name] = space.writer(f"w-{name}", name)
        elif kind <= 4:
            doc, value = rng.choice(docs), rng.randrange(6)
            writers[branch].accept(put(doc, value))
            if model.sides[branch].values[doc] != value:
                model.write(branch, doc, value)
        elif kind == 5:
            space.reopen()
        else:
            source = rng.choice(list(model.sides))
            if source != branch:
                merge_both(space, model, source, branch, counts)
    for name, side in model.sides.items():
        assert {doc: space.value(doc, name) for doc in docs} == side.values
    assert verify(space.engine).ok


def merge_both(space: Space, model: Model, source: str, into: str, counts: Counter[str]) -> None:
    expected = model.conflicts(source, into)
    try:
        merge(space.engine, BranchId(source), BranchId(into))
    except MergeConflictError as error:
        found = {str(doc).removeprefix("space/") for doc in error.facts["documents"]}  # type: ignore[attr-defined]
        assert expected <= found, f"a conflict was not told: {expected - found}"
        counts["conflict" if expected else "conflict, needlessly"] += 1
    else:
        assert not expected, f"{source} into {into} lost the changes of {expected}"
        counts["merged"] += 1
        taste = model.either_way(source, into)
        model.merge(source, into, {doc: space.value(doc, into) == model.sides[source].values[doc] for doc in taste})
        for doc, value in model.sides[into].values.items():
            assert space.value(doc, into) == value, f"{doc} on {into} after merging {source}"


@pytest.mark.property
@pytest.mark.parametrize(("kind", "runs"), [("memory", 300), ("sqlite", 10)])
def test_merges_in_any_order_lose_no_change(kind: str, runs: int, tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    runs = max(10, examples(runs))
    for seed in range(runs):
        folder = tmp_path / str(seed)
        folder.mkdir()
        space = Space(kind, folder)
        run_model(space, random.Random(seed), counts)
        space.close()
    assert counts["merged"] > runs and counts["conflict"] > runs / 5, counts
    assert counts["conflict, needlessly"] < counts["merged"] / 5, counts


def test_documents_may_be_of_any_kind(space: Space) -> None:
    values: list[object] = [None, 0, -0.0, "", b"\0", [], {}, {"/": {"link@1": {"id": "x"}}}]
    make(space)
    space.writer("bob", "draft").accept(*[put(f"d{n}", value) for n, value in enumerate(values)])
    bring(space)
    space.reopen()
    assert [repr(space.value(f"d{n}")) for n in range(len(values))] == [repr(value) for value in values]
    assert isinstance(put("x", 1), SetDoc)
    assert append("x", items=[]).items == []
