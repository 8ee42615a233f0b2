"""One journal, three sets taken from it."""

from __future__ import annotations

from itertools import product

import pytest

from headwater.cells.journal import (
    ATTEMPTED_WRITE,
    IGNORED_FOR_CONFLICT,
    IGNORED_FOR_SCHEDULING,
    LABEL_ONLY,
    LINK_PROBE,
    NO_MARK,
    Flags,
    Journal,
)
from headwater.cells.journal_entry import Entry
from headwater.values.address import Depth
from headwater.values.tree import Path
from tests.cells.transactions.stage import A, B

FLAGS = [IGNORED_FOR_SCHEDULING, IGNORED_FOR_CONFLICT, LINK_PROBE, LABEL_ONLY, ATTEMPTED_WRITE]
COMBINATIONS = [sum(chosen) for chosen in product(*[(0, flag) for flag in FLAGS])]
DEEP, SHALLOW = Depth.DEEP, Depth.SHALLOW


def journal_of(*notes: tuple[Path, Depth, Flags]) -> Journal:
    journal = Journal()
    for path, depth, flags in notes:
        journal.record(A, path, depth, flags, NO_MARK)
    return journal


# --- entries --------------------------------------------------------------------------------------------------


def test_place_read_a_thousand_times_is_one_entry() -> None:
    journal = journal_of(*[(("x", index % 2), DEEP, 0) for index in range(1000)])
    assert len(journal) == 2


def test_entries_come_in_the_order_they_were_first_made() -> None:
    journal = journal_of((("b",), DEEP, 0), (("a",), SHALLOW, 0), (("b",), DEEP, 0), (("c",), DEEP, 0))
    assert [entry.path for entry in journal] == [("b",), ("a",), ("c",)]


def test_places_that_differ_in_anything_are_different_entries() -> None:
    journal = Journal()
    marks = [NO_MARK]
    paths: list[Path] = [(), ("x",), ("x", "1"), ("x", 1)]
    expected = list(product([A, B], paths, [DEEP, SHALLOW], COMBINATIONS, marks))
    for doc, path, depth, flags, mark in expected:
        journal.record(doc, path, depth, flags, mark)
    assert list(journal) == [Entry(*fields) for fields in expected]
    assert len(set(journal)) == len(expected)


def test_cleared_journal_holds_nothing() -> None:
    journal = journal_of((("x",), DEEP, 0))
    journal.clear()
    assert (len(journal), list(journal), journal.dependencies(), journal.labels()) == (0, [], [], [])


# --- projections ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", COMBINATIONS)
@pytest.mark.parametrize("depth", Depth)
def test_run_depends_on_what_it_read_unless_it_peeked_or_wrote_or_only_the_label_counts(
    flags: Flags, depth: Depth
) -> None:
    expected = not flags & IGNORED_FOR_SCHEDULING and not flags & LABEL_ONLY and not flags & ATTEMPTED_WRITE
    found = journal_of((("x",), depth, flags)).dependencies()
    assert found == ([Entry(A, ("x",), depth, 0, NO_MARK)] if expected else [])


@pytest.mark.parametrize("flags", COMBINATIONS)
@pytest.mark.parametrize("depth", Depth)
def test_commit_is_checked_for_what_it_read_unless_it_did_not_build_on_it_or_wrote_or_only_the_label_counts(
    flags: Flags, depth: Depth
) -> None:
    expected = not flags & IGNORED_FOR_CONFLICT and not flags & LABEL_ONLY and not flags & ATTEMPTED_WRITE
    found = journal_of((("x",), depth, flags)).conflicts()
    assert found == ([Entry(A, ("x",), depth, 0, NO_MARK)] if expected else [])


@pytest.mark.parametrize("flags", COMBINATIONS)
@pytest.mark.parametrize("depth", Depth)
def test_label_is_made_of_everything_with_its_flags(flags: Flags, depth: Depth) -> None:
    assert journal_of((("x",), depth, flags)).labels() == [Entry(A, ("x",), depth, flags, NO_MARK)]


def test_place_that_was_peeked_at_and_also_read_is_depended_on_once() -> None:
    journal = journal_of((("x",), DEEP, IGNORED_FOR_SCHEDULING), (("x",), DEEP, 0), (("x",), DEEP, LINK_PROBE))
    assert journal.dependencies() == [Entry(A, ("x",), DEEP, 0, NO_MARK)]


def test_peeking_at_a_whole_document_does_not_hide_a_read_of_a_part() -> None:
    journal = journal_of(((), DEEP, IGNORED_FOR_SCHEDULING), (("x",), DEEP, 0))
    assert [entry.path for entry in journal.dependencies()] == [("x",)]
    assert [entry.path for entry in journal.conflicts()] == [()]


def test_taking_a_projection_changes_nothing() -> None:
    journal = journal_of(((), DEEP, 0), (("x",), DEEP, 0), (("x",), DEEP, ATTEMPTED_WRITE))
    before = list(journal)
    assert journal.dependencies() == journal.dependencies()
    assert journal.conflicts() == journal.conflicts()
    assert journal.labels() == journal.labels()
    assert list(journal) == before
