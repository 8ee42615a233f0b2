"""The fewest entries that say the same."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from headwater.cells.journal import ATTEMPTED_WRITE, IGNORED_FOR_SCHEDULING, LINK_PROBE, NO_MARK, compact
from headwater.cells.journal_entry import Entry
from headwater.cells.pending_commit import Mark
from headwater.values.address import Depth
from headwater.values.ids import Seq
from headwater.values.overlap import touches
from headwater.values.tree import Maybe, Path, Step, freeze
from tests.cells.transactions.stage import A, B
from tests.values.chance import some_document, some_edits, some_read, sources
from tests.values.oracle import is_triggered, thaw

DEEP, SHALLOW = Depth.DEEP, Depth.SHALLOW
EARLY, LATE = Mark(Seq(1), [], 0), Mark(Seq(2), [], 0)


def places(*entries: tuple[Path, Depth]) -> list[Entry]:
    return [Entry(A, path, depth, 0, NO_MARK) for path, depth in entries]


# --- the rule by examples -------------------------------------------------------------------------------------


def test_deep_read_subsumes_every_read_at_or_below_its_place() -> None:
    below = places((("x",), SHALLOW), (("x", "y"), DEEP), (("x", "y", 0), SHALLOW), (("x", 3), DEEP))
    top = places((("x",), DEEP))
    assert compact([*below, *top]) == compact([*top, *below]) == top


def test_deep_read_of_a_document_subsumes_all_others_of_it() -> None:
    top = places(((), DEEP))
    assert compact([*places((("x",), DEEP), ((), SHALLOW), (("y", 1), SHALLOW)), *top]) == top


def test_shallow_read_subsumes_only_itself() -> None:
    entries = places(((), SHALLOW), (("x",), SHALLOW), (("x", "y"), DEEP), (("x", "y", "z"), SHALLOW))
    assert compact([*entries, *entries]) == places((("x", "y"), DEEP), ((), SHALLOW), (("x",), SHALLOW))


def test_neighbours_are_not_merged() -> None:
    """A key is not above another for being the start of its text, and "1" is not 1."""
    entries = places((("a",), DEEP), (("ab",), DEEP), (("l", 1), DEEP), (("l", "1"), DEEP), (("l", 1, "a"), SHALLOW))
    assert compact(entries) == entries[:-1]


def test_reads_of_different_versions_are_never_merged() -> None:
    entries = [Entry(A, (), DEEP, 0, EARLY), Entry(A, (), DEEP, 0, LATE), Entry(A, ("x",), DEEP, 0, NO_MARK)]
    assert compact(entries) == entries


def test_versions_are_told_apart_by_which_they_are_not_by_how_they_look() -> None:
    entries = [Entry(A, (), DEEP, 0, Mark(Seq(1), [], 0)) for _ in range(2)]
    assert compact(entries) == entries


def test_documents_are_not_merged() -> None:
    entries = [Entry(A, (), DEEP, 0, EARLY), Entry(B, ("x",), DEEP, 0, EARLY)]
    assert compact(entries) == entries


def test_flags_are_dropped_and_do_not_hinder_merging() -> None:
    entries = [Entry(A, ("x", "y"), DEEP, LINK_PROBE, EARLY), Entry(A, ("x",), DEEP, IGNORED_FOR_SCHEDULING, EARLY)]
    assert compact(entries) == [Entry(A, ("x",), DEEP, 0, EARLY)]


def test_kept_flags_keep_entries_apart() -> None:
    read, tried = Entry(A, (), DEEP, 0, EARLY), Entry(A, ("x",), DEEP, ATTEMPTED_WRITE, EARLY)
    below = Entry(A, ("x", "y"), SHALLOW, ATTEMPTED_WRITE, EARLY)
    assert compact([read, tried, below], keep_flags=True) == [read, tried]


def test_nothing_comes_to_nothing() -> None:
    assert compact([]) == []


# --- the rule in general --------------------------------------------------------------------------------------

few_steps: st.SearchStrategy[Step] = st.sampled_from(["a", "b", 0, 1])
few_paths: st.SearchStrategy[Path] = st.lists(few_steps, max_size=3).map(tuple)
entries = st.builds(
    Entry,
    doc=st.sampled_from([A, B]),
    path=few_paths,
    depth=st.sampled_from(Depth),
    flags=st.sampled_from([0, LINK_PROBE]),
    mark=st.sampled_from([EARLY, LATE]),
)


def groups(found: list[Entry], *, by_flags: bool) -> dict[object, list[Entry]]:
    grouped: dict[object, list[Entry]] = {}
    for entry in found:
        grouped.setdefault((entry.doc, entry.mark, entry.flags if by_flags else 0), []).append(entry)
    return grouped


@given(sources)
def test_compacted_reads_are_touched_exactly_when_one_of_all_reads_is(random: Random) -> None:
    changes: list[tuple[Maybe, Maybe]] = [(edit.before, edit.after) for edit in some_edits(random)]
    changes.append((some_document(random), some_document(random)))
    for before, after in changes:
        old, new = thaw(before), thaw(after)
        count = random.randint(1, 8)
        noted = [
            Entry(A, some_read(random, old, new), random.choice(list(Depth)), 0, random.choice([EARLY, LATE]))
            for _ in range(count)
        ]
        fewer = compact(noted)
        event(f"{len(noted) - len(fewer)} of {len(noted)} subsumed")
        for mark in (EARLY, LATE):
            expected = any(
                is_triggered(old, new, entry.path, deep=entry.depth is DEEP) for entry in noted if entry.mark is mark
            )
            found = any(touches(entry.path, entry.depth, before, after) for entry in fewer if entry.mark is mark)
            assert found == expected, (noted, fewer, before, after)


@given(st.lists(entries, max_size=12), st.booleans())
def test_compacted_reads_are_some_of_all_reads_and_each_once(noted: list[Entry], keep_flags: bool) -> None:
    fewer = compact(noted, keep_flags=keep_flags)
    assert len(set(fewer)) == len(fewer)
    shown = noted if keep_flags else [Entry(e.doc, e.path, e.depth, 0, e.mark) for e in noted]
    assert set(fewer) <= set(shown)
    assert groups(fewer, by_flags=keep_flags).keys() == groups(shown, by_flags=keep_flags).keys()


@given(st.lists(entries, max_size=12), st.booleans())
def test_no_compacted_read_can_be_spared(noted: list[Entry], keep_flags: bool) -> None:
    """For each there is a change that touches it and none of the others."""
    for group in groups(compact(noted, keep_flags=keep_flags), by_flags=keep_flags).values():
        for entry in group:
            before, after = change_seen_by(entry)
            assert [other for other in group if touches(other.path, other.depth, before, after)] == [entry]


@given(st.lists(entries, max_size=12), st.booleans())
def test_compacting_once_more_changes_nothing(noted: list[Entry], keep_flags: bool) -> None:
    fewer = compact(noted, keep_flags=keep_flags)
    assert compact(fewer, keep_flags=keep_flags) == fewer


def change_seen_by(entry: Entry) -> tuple[Maybe, Maybe]:
    """The smallest change at its place: another value for a deep read, one more key for a shallow one."""
    ends: tuple[Any, Any] = (1, 2) if entry.depth is DEEP else ({}, {"a key that nobody reads": 1})
    before, after = (nested(entry.path, end) for end in ends)
    return freeze(before), freeze(after)


def nested(path: Path, value: Any) -> Any:
    """A tree with nothing but the way to a place, and this value there."""
    for step in reversed(path):
        value = {step: value} if isinstance(step, str) else [*[None] * step, value]
    return value
