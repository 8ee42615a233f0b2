"""Bounds of documents and commits: refused with a reason, and nothing has changed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headwater.store.branching import fork
from headwater.store.commit import Commit, Committed, Conflict, Operation, Refused, SetDoc
from headwater.store.verification import verify
from headwater.values.address import doc_key
from headwater.values.tree import depth_of, freeze
from headwater.values.value_limits import COMMIT_BYTES_MAX, DEPTH_MAX, DOCUMENT_BYTES_MAX
from tests.support.limits import small_limits
from tests.support.naive import NOTHING
from tests.support.spaces import Space, add, admit, append, drop, edit, increment, move, put, remove, replace

KILO = 1000


@pytest.fixture
def small_documents() -> Iterator[None]:
    """Ten kilobytes to a document."""
    with small_limits(DOCUMENT_BYTES_MAX=10 * KILO):
        yield


def test_document_of_the_full_size_is_taken_and_one_byte_more_is_not(file_space: Space) -> None:
    ann = file_space.writer("ann")
    # Five bytes announce the length of the text.
    fitting = SetDoc(doc_key("a"), freeze("x" * (DOCUMENT_BYTES_MAX - 5)))
    beyond = SetDoc(doc_key("a"), "x" * (DOCUMENT_BYTES_MAX - 4))
    ann.accept(fitting)
    verdict = ann.commit(beyond)
    assert isinstance(verdict, Refused)
    assert (verdict.doc, f"{DOCUMENT_BYTES_MAX:,}" in verdict.reason) == (doc_key("a"), True)
    assert len(file_space.value("a")) == DOCUMENT_BYTES_MAX - 5
    file_space.reopen()
    assert len(file_space.value("a")) == DOCUMENT_BYTES_MAX - 5


def test_commit_above_the_full_size_is_refused_and_nothing_of_it_is_there(file_space: Space) -> None:
    ann = file_space.writer("ann")
    ann.accept(put("d0", "small"))
    text = freeze("x" * (DOCUMENT_BYTES_MAX - 5))
    operations = [SetDoc(doc_key(f"d{number}"), text) for number in range(4)]
    verdict = ann.commit(*operations)
    assert isinstance(verdict, Refused)
    assert f"{COMMIT_BYTES_MAX:,}" in verdict.reason
    assert file_space.value("d0") == "small"
    assert file_space.value("d3") is NOTHING
    assert ann.accept(*operations[:3]) == 2


@pytest.mark.usefixtures("small_documents")
@pytest.mark.parametrize("fold", ["never", "every time"])
def test_document_that_grows_by_patches_stops_at_the_limit(fold: str, space: Space) -> None:
    ann = space.writer("ann")
    ann.accept(put("a", {"l": []}))
    verdicts = []
    for _ in range(30):
        verdicts.append(ann.commit(edit("a", append("l", items=["x" * KILO]))))
        if fold == "every time":
            space.engine.fold()
    assert [type(v) for v in verdicts] == [Committed] * 9 + [Refused] * 21
    space.reopen()
    assert isinstance(ann.commit(edit("a", append("l", items=["x" * KILO]))), Refused)
    ann.accept(edit("a", remove("l", 0)))
    ann.accept(edit("a", append("l", items=["y" * KILO])))
    assert verify(space.engine).ok


@pytest.mark.usefixtures("small_documents")
def test_many_patches_that_do_not_grow_a_document_are_never_refused(space: Space) -> None:
    ann = space.writer("ann")
    ann.accept(put("a", {"text": "x" * 8 * KILO, "n": 0}))
    for number in range(200):
        ann.accept(edit("a", replace("n", to=number)))
        if number % 50 == 0:
            space.engine.fold()
    ann.accept(edit("a", replace("text", to="y" * 9 * KILO)))


@pytest.mark.usefixtures("small_documents")
@pytest.mark.parametrize("patched_before", [False, True])
def test_document_inherited_by_a_branch_has_its_size_there_too(patched_before: bool, space: Space) -> None:
    space.writer("ann").accept(put("a", {"l": ["x" * 9 * KILO]}))
    fork(space.engine, space.clock, "draft")
    bob = space.writer("bob", "draft")
    if patched_before:
        bob.accept(edit("a", add("n", value=1)))
        space.reopen()
    assert isinstance(bob.commit(edit("a", append("l", items=["x" * 2 * KILO]))), Refused)
    bob.accept(edit("a", append("l", items=["x"])))


@pytest.mark.usefixtures("small_documents")
def test_refused_commit_does_not_make_its_documents_look_smaller(space: Space) -> None:
    """One document shrinks, another is too large: refused. The first must still be known to be large."""
    ann = space.writer("ann")
    ann.accept(put("a", {"l": ["x" * 9 * KILO]}), put("b", {"l": ["x" * 9 * KILO]}))
    shrink: Operation = edit("a", replace("l", to=[]))
    grow: Operation = edit("b", append("l", items=["x" * 3 * KILO]))
    assert isinstance(ann.commit(shrink, grow), Refused)
    assert isinstance(ann.commit(edit("a", append("l", items=["x" * 3 * KILO]))), Refused)


@pytest.mark.usefixtures("small_documents")
def test_refused_commit_in_a_group_leaves_the_others_alone(space: Space) -> None:
    ann, bob = space.writer("ann"), space.writer("bob")
    group: list[Commit] = [
        ann.build(put("a", {"l": []})),
        bob.build(SetDoc(doc_key("b"), "x" * 11 * KILO)),
        ann.build(edit("a", append("l", items=[1]))),
    ]
    assert [type(o.verdict) for o in admit(space.engine, *group)] == [Committed, Refused, Committed]
    assert (space.value("a"), space.value("b")) == ({"l": [1]}, NOTHING)


def nested(depth: int) -> object:
    value: object = 0
    for _ in range(depth):
        value = {"k": value}
    return value


def test_patch_that_nests_a_document_too_deep_is_refused_and_the_group_goes_on(space: Space) -> None:
    ann, bob = space.writer("ann"), space.writer("bob")
    deep = freeze(nested(384 - 1))
    ann.accept(put("a", {"deep": deep, "m": nested(200)}))
    inner: tuple[str, ...] = ("m", *["k"] * 199)
    group = [
        bob.build(put("b", 1)),
        ann.build(edit("a", move(("deep",), (*inner, "x")))),
        bob.build(put("b", 2)),
    ]
    kinds = [type(outcome.verdict) for outcome in admit(space.engine, *group)]
    assert kinds == [Committed, Refused, Committed]
    assert set(space.value("a")) == {"deep", "m"}


def test_document_of_the_full_depth_is_kept_through_folds_and_reopening(space: Space) -> None:
    ann = space.writer("ann")
    ann.accept(put("a", {"m": nested(384 - 1)}))
    inner: tuple[str, ...] = ("m", *["k"] * (384 - 2))
    ann.accept(edit("a", add(*inner, "more", value=nested(DEPTH_MAX - 384))))
    space.engine.fold()
    space.reopen()
    assert depth_of(space.engine.documents.at(ann.branch, doc_key("a"), space.engine.head).value) == DEPTH_MAX
    assert verify(space.engine).ok


def test_misfit_is_a_conflict_and_a_limit_a_refusal(space: Space) -> None:
    ann = space.writer("ann")
    ann.accept(put("a", 1))
    assert isinstance(ann.commit(edit("a", add("k", value=1))), Conflict)
    ann.accept(drop("a"))
    too_deep = add(*["k"] * DEPTH_MAX, value={})
    assert isinstance(ann.commit(edit("a", too_deep)), Refused)


@pytest.mark.parametrize("length", [DEPTH_MAX + 1, 5000])
def test_path_alone_cannot_nest_a_document_too_deep(length: int, space: Space) -> None:
    """What is written at its end is only a number: the containers on the way count, too."""
    ann = space.writer("ann")
    for op in (add(*["k"] * length, value=1), increment(*["k"] * length), append(*["k"] * length, items=[1])):
        assert isinstance(ann.commit(edit("a", op)), Refused)
    assert space.value("a") is NOTHING
    ann.accept(edit("a", add(*["k"] * DEPTH_MAX, value=1)))
    space.engine.fold()
    assert verify(space.reopen()).ok
