"""Which reads a change touches: the walk from the changed place gives what the whole rule gives from the root."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import event, given

from headwater.errors import AddressError
from headwater.values.address import Depth, doc_key
from headwater.values.diff import changes_between, changes_of
from headwater.values.notifications import Change
from headwater.values.overlap import is_touched, may_touch, touches, walk
from headwater.values.patching import apply_patch
from headwater.values.tree import ABSENT, Maybe, Path, freeze, get
from tests.values.chance import some_attempts, some_document, some_edits, some_read, sources
from tests.values.oracle import is_triggered, thaw
from tests.values.widths import at_both_widths

if TYPE_CHECKING:
    from random import Random

    from headwater.values.patch import Touches

DOC = doc_key("d")
READS = 6


def check_reads(random: Random, before: Maybe, after: Maybe, changes: list[Change]) -> None:
    """Reads here and there see what the slow rule says of the whole document."""
    old, new = thaw(before), thaw(after)
    for _ in range(READS):
        read = some_read(random, old, new)
        for depth in Depth:
            expected = is_triggered(old, new, read, deep=depth is Depth.DEEP)
            event(f"{depth.value} read is {'touched' if expected else 'not touched'}")
            assert any(is_touched(read, depth, change) for change in changes) == expected, (read, depth)


@at_both_widths
@given(sources)
def test_touches_of_an_operation_as_changes_match_exactly_the_reads_of_the_rule(random: Random) -> None:
    for edit in some_edits(random):
        changes = [
            Change(DOC, touch.path, get(edit.before, touch.path), get(edit.after, touch.path)) for touch in edit.touches
        ]
        check_reads(random, edit.before, edit.after, changes)


@at_both_widths
@given(sources)
def test_changes_of_many_operations_match_exactly_the_reads_of_the_rule(random: Random) -> None:
    for before, after, touched in some_batches(random):
        check_reads(random, before, after, changes_of(DOC, before, after, touched))


@at_both_widths
@given(sources)
def test_changes_between_two_versions_match_exactly_the_reads_of_the_rule(random: Random) -> None:
    for before, after, _ in some_batches(random):
        check_reads(random, before, after, changes_between(DOC, before, after))


@at_both_widths
@given(sources)
def test_changes_between_unrelated_documents_match_exactly_the_reads_of_the_rule(random: Random) -> None:
    before, after = some_document(random), some_document(random)
    check_reads(random, before, after, changes_between(DOC, before, after))


@at_both_widths
@given(sources)
def test_walk_from_any_place_above_gives_the_same_answer(random: Random) -> None:
    for edit in some_edits(random):
        read = some_read(random, thaw(edit.before), thaw(edit.after))
        for depth in Depth:
            expected = is_triggered(thaw(edit.before), thaw(edit.after), read, deep=depth is Depth.DEEP)
            assert touches(read, depth, edit.before, edit.after) == expected


@at_both_widths
@given(sources)
def test_paths_alone_never_miss_a_read_that_a_change_touches(random: Random) -> None:
    for edit in some_edits(random):
        for _ in range(READS):
            read = some_read(random, thaw(edit.before), thaw(edit.after))
            for depth in Depth:
                is_possible = any(may_touch(read, depth, each.path, reshaped=each.reshaped) for each in edit.touches)
                event(f"{depth.value} read is {'possibly touched' if is_possible else 'not touched'}")
                assert is_possible or not touches(read, depth, edit.before, edit.after), (read, depth)


def some_batches(random: Random) -> list[tuple[Maybe, Maybe, Touches]]:
    """Documents before and after a few operations, and what those touched one after the other."""
    batches = []
    previous: Maybe = ABSENT
    before = previous
    touched: Touches = ()
    for edit in some_edits(random):
        if edit.before is not previous or random.random() < 0.3:
            batches.append((before, previous, touched))
            before, touched = edit.before, ()
        previous = edit.after
        touched += edit.touches
    return [*batches, (before, previous, touched)]


# --- the rule by example --------------------------------------------------------------------------------------

DEEP, SHALLOW = Depth.DEEP, Depth.SHALLOW


class Case(NamedTuple):
    claim: str
    before: Any
    after: Any
    read: Path
    depth: Depth
    touched: bool


CASES = [
    Case("an added key touches a shallow reader", {}, {"a": 1}, (), SHALLOW, True),
    Case("a removed key touches a shallow reader", {"a": 1}, {}, (), SHALLOW, True),
    Case("an edited value does not touch a shallow reader", {"a": 1}, {"a": 2}, (), SHALLOW, False),
    Case("an edited value touches a deep reader", {"a": 1}, {"a": 2}, (), DEEP, True),
    Case("an added key does not touch the reader of a sibling", {"a": 1}, {"a": 1, "b": 2}, ("a",), DEEP, False),
    Case("a key added deeper does not touch a shallow reader above", {"a": {}}, {"a": {"b": 1}}, (), SHALLOW, False),
    Case("a longer list does not touch the reader of an element", [1], [1, 2], (0,), DEEP, False),
    Case("a longer list touches a shallow reader of it", [1], [1, 2], (), SHALLOW, True),
    Case("an edited element does not touch a shallow reader of the list", [1], [2], (), SHALLOW, False),
    Case("a list in place of a map touches a shallow reader", {}, [], (), SHALLOW, True),
    Case("a map in place of a list touches a shallow reader", [], {}, (), SHALLOW, True),
    Case("1 and 1.0 differ to a deep reader", {"a": 1}, {"a": 1.0}, ("a",), DEEP, True),
    Case("1 and 1.0 differ to a shallow reader", {"a": 1}, {"a": 1.0}, ("a",), SHALLOW, True),
    Case("a place that can be reached now touches its reader", {"a": 1}, {"a": {}}, ("a", "b"), DEEP, True),
    Case("a scalar in place of nothing does not touch a reader below", {}, {"a": 1}, ("a", "b"), DEEP, False),
    Case("a container on the way that appears touches a reader far below", {}, {"a": {}}, ("a", "b", "c"), DEEP, True),
    Case("an absent end that stays absent is not touched", {"a": {"x": 1}}, {"a": {}}, ("a", "b"), DEEP, False),
    Case(
        "a link in place of a map touches a reader below",
        {"a": {}},
        {"a": {"/": {"link@1": {}}}},
        ("a", "b"),
        DEEP,
        True,
    ),
    Case(
        "another target touches a shallow reader of a link",
        {"a": {"/": {"link@1": {"id": "x"}}}},
        {"a": {"/": {"link@1": {"id": "y"}}}},
        ("a",),
        SHALLOW,
        True,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.claim)
def test_rule_by_example(case: Case) -> None:
    is_deep = case.depth is DEEP
    assert touches(case.read, case.depth, freeze(case.before), freeze(case.after)) is case.touched
    assert is_triggered(case.before, case.after, case.read, deep=is_deep) is case.touched


def test_read_beside_the_change_is_not_touched() -> None:
    change = Change(DOC, ("a", 1), freeze(1), freeze(2))
    assert not is_touched(("a", 2), DEEP, change)
    assert not is_touched(("b",), DEEP, change)
    assert not is_touched(("a", "1"), DEEP, change)


def test_document_that_appears_touches_its_readers_and_those_below() -> None:
    change = Change(DOC, (), ABSENT, freeze({"a": 1}))
    assert is_touched((), DEEP, change)
    assert is_touched((), SHALLOW, change)
    assert is_touched(("a",), DEEP, change)
    assert is_touched(("nowhere",), DEEP, change)


def test_walk_tells_how_far_it_came() -> None:
    value = freeze({"a": [1, {"b": 2}]})
    assert walk(value, ("a", 1, "b")) == (2, 3)
    assert walk(value, ("a", 0, "b")) == (ABSENT, 2)
    assert walk(value, ("x", "y", "z")) == (ABSENT, 1)
    assert walk(ABSENT, ()) == (ABSENT, 0)


@at_both_widths
@given(sources)
def test_operation_that_is_refused_leaves_nothing_behind(random: Random) -> None:
    for root, op in some_attempts(random):
        before = thaw(root)
        with suppress(AddressError):
            apply_patch(root, op)
        assert repr(thaw(root)) == repr(before)
