"""The differences of two trees: the shallowest changed places, found without looking at what is shared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from headwater.values.address import doc_key, overlaps
from headwater.values.chunked import ChunkedList, ChunkedMap
from headwater.values.diff import changes_between, changes_of, differences
from headwater.values.frozen import FrozenList
from headwater.values.notifications import Change
from headwater.values.patch import Add, Append, Remove, Replace
from headwater.values.patching import apply_patch
from headwater.values.tree import ABSENT, freeze, get, put_index, put_key, same
from tests.values.chance import some_document, some_edits, sources
from tests.values.oracle import canon, is_container, look, paths_of, thaw
from tests.values.widths import at_both_widths

if TYPE_CHECKING:
    from random import Random

    from headwater.values.tree import Maybe, Value

DOC = doc_key("d")


def check_differences(before: Maybe, after: Maybe) -> None:
    old, new = thaw(before), thaw(after)
    found = list(differences(before, after))
    for path, was, now in found:
        assert was is get(before, path)
        assert now is get(after, path)
        assert not same(was, now)
        for length in range(len(path)):
            assert is_container(look(old, path[:length]))
            assert is_container(look(new, path[:length]))
    for path in {*paths_of(old), *paths_of(new)}:
        if canon(look(old, path)) != canon(look(new, path)):
            assert any(overlaps(path, place) for place, _, _ in found)
    assert len({path for path, _, _ in found}) == len(found)
    assert not any(overlaps(a, b) for a, _, _ in found for b, _, _ in found if a != b)


@at_both_widths
@given(sources)
def test_differences_are_apart_and_cover_all_that_differs(random: Random) -> None:
    check_differences(some_document(random), some_document(random))
    for edit in some_edits(random):
        check_differences(edit.before, edit.after)


@at_both_widths
@given(sources)
def test_nothing_differs_from_itself_or_from_a_copy(random: Random) -> None:
    document = some_document(random)
    assert list(differences(document, document)) == []
    if document is not ABSENT:
        assert list(differences(document, freeze(thaw(document)))) == []


@at_both_widths
@given(sources)
def test_changes_of_touches_say_no_more_than_the_differences(random: Random) -> None:
    for edit in some_edits(random):
        changes = changes_of(DOC, edit.before, edit.after, edit.touches)
        assert bool(changes) == (canon(thaw(edit.before)) != canon(thaw(edit.after)))
        for change in changes:
            assert change.before is get(edit.before, change.path)
            assert change.after is get(edit.after, change.path)


def test_touch_below_another_is_told_as_one_change() -> None:
    before = freeze({"x": 1})
    middle, first = apply_patch(before, Add(("a", "b"), 1))
    after, second = apply_patch(middle, Replace(("a", "b"), 2))
    assert changes_of(DOC, before, after, first + second) == [Change(DOC, ("a",), ABSENT, freeze({"b": 2}))]


def test_touches_that_cancel_out_are_no_change() -> None:
    before = freeze({"a": 1, "b": 1})
    middle, first = apply_patch(before, Remove(("a",)))
    after, second = apply_patch(middle, Add(("a",), 1))
    assert changes_of(DOC, before, after, first + second) == []


def test_appended_elements_are_each_a_change() -> None:
    before = freeze({"a": [0]})
    after, touches = apply_patch(before, Append(("a",), freeze([1, 2])))  # type: ignore[arg-type]  # it is an array
    assert [change.path for change in changes_of(DOC, before, after, touches)] == [("a", 1), ("a", 2)]
    # Told from the two versions alone, the list is one place: its elements may have moved.
    assert [change.path for change in changes_between(DOC, before, after)] == [("a",)]


def test_elements_are_found_at_their_index_however_the_lists_are_cut() -> None:
    plain: list[Value] = list(range(700))
    row = ChunkedList.of(plain)
    other = ChunkedList.of([*plain[1:], "last"]).splice(0, 0, [0]).splice(700, 1, ())
    assert other == plain
    changed = other.put(3, "x").put(699, "y")
    expected = [((3,), 3, "x"), ((699,), 699, "y")]
    assert list(differences(row, changed)) == expected
    assert list(differences(FrozenList(plain), changed)) == expected
    assert list(differences(row, FrozenList(changed))) == expected


@pytest.mark.slow
def test_one_key_of_a_hundred_thousand_is_found_without_looking_at_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wide_map, wide_list = freeze({f"{i:06}": [i] for i in range(100_000)}), freeze(list(range(100_000)))
    assert isinstance(wide_map, ChunkedMap)
    assert isinstance(wide_list, ChunkedList)
    changed_map, changed_list = put_key(wide_map, "050000", 0), put_index(wide_list, 50_000, "new")
    for method in ("__iter__", "flat", "items", "values"):
        monkeypatch.delattr(ChunkedMap, method)
    for method in ("__iter__", "flat"):
        monkeypatch.delattr(ChunkedList, method)
    assert list(differences(wide_map, changed_map)) == [(("050000",), freeze([50_000]), 0)]
    assert list(differences(wide_list, changed_list)) == [((50_000,), 50_000, "new")]
    assert not same(wide_map, changed_map)
    assert not same(wide_list, changed_list)
    assert same(wide_map, put_key(wide_map, "050000", freeze([50_000])))
    assert same(wide_list, put_index(wide_list, 50_000, 50_000))
