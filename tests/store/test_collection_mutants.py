"""Mistakes planted in the collections of the store: random histories have to find each of them soon."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from typing import Final
from unittest.mock import patch

import pytest

from headwater.errors import HeadwaterError, StoreFullError
from headwater.store.collection_record import CollectionRecord
from headwater.store.commit import Commit
from headwater.store.declaring import declare
from headwater.values.ids import MAIN, LocalSeq, SessionId
from headwater.values.sortkey import AFTER
from sim.mutants.mutant import STORAGE, Mutant, applied, maker
from tests.store.test_collection_histories import History
from tests.store.test_collections import NUMBER
from tests.store.test_span_serializability import play
from tests.support.limits import small_limits
from tests.support.spaces import Space, admit, put

_m = maker("collections", STORAGE)

KEYS: Final = (
    _m("gone_forgotten", "store.key_changes:KeyChanges.lay", "insort(self.gone, before)", "pass", "keys"),
    _m("added_forgotten", "store.key_changes:KeyChanges.lay", "insort(self.added, after)", "pass", "keys"),
    _m("page_not_advanced", "store.entries:Entries.build_fold", "self._changes.gone.copy()", "[]", "keys"),
    _m("undone_out_kept", "store.entries:Entries.span", "between(undone.added, lo, hi)", "()", "the past"),
    _m("undone_back_lost", "store.entries:Entries.span", "between(undone.gone, lo, hi)", "[]", "the past"),
    _m(
        "later_changes_of_another_commit",
        "store.collections:Collections._changes_after",
        "known.since != seq",
        "False",
        "the past",
    ),
    _m(
        "later_changes_not_advanced",
        "store.collections:Collections._changes_after",
        "known.changes.lay",
        "id",
        "the past",
    ),
    _m(
        "shifts_of_every_branch",
        "store.collections:Collections._current",
        "shift.branch == branch",
        "True",
        "keys of a branch",
    ),
    _m(
        "indexes_keep_what_was_not_written",
        "store.collections:Collections.undo",
        "entries.through > head",
        "False",
        "keys after a failed batch",
    ),
    _m(
        "feed_keeps_what_was_not_written", "store.collections:Collections.undo", "self._feed.undo(head)", "pass", "feed"
    ),
    _m(
        "tail_not_replayed",
        "store.collections:Collections._complete",
        "self._is_complete",
        "True",
        "keys after a crash",
    ),
    _m(
        "total_keeps_what_is_gone",
        "store.totals:TotalEntries.lay",
        "self._add([before for before, _ in moves if before is not None], -1, self._deltas)",
        "pass",
        "totals",
    ),
    _m(
        "total_folded_without_what_was",
        "store.totals:TotalEntries.build_fold",
        "_sum_of(before, self._deltas[group])",
        "self._deltas[group]",
        "totals",
    ),
    _m(
        "total_of_the_past_keeps_later",
        "store.totals:TotalEntries.span",
        "between(undone.added, lo, hi)",
        "[]",
        "totals",
    ),
    _m(
        "total_of_the_past_lacks_gone", "store.totals:TotalEntries.span", "between(undone.gone, lo, hi)", "[]", "totals"
    ),
    _m(
        "total_row_is_read_twice",
        "store.totals:_is_in",
        "lo <= group < hi and not hi.startswith(group + _SUM)",
        "lo <= group < hi",
        "totals",
    ),
    _m("total_group_of_one_field_more", "store.totals:TotalEntries._add", "self._width", "self._width + 1", "totals"),
    _m("shift_without_keys", "store.collections:_shift_of", "before is after", "after is not before", "keys"),
)

SPANS: Final = (
    _m(
        "first_key_left_out",
        "store.span_conflicts:_is_in",
        "span.lo <= key < span.hi",
        "span.lo < key < span.hi",
        "serializable",
    ),
    _m(
        "keys_after_alone",
        "store.span_conflicts:_is_hit",
        "_is_in(move.before, span) or _is_in(move.after, span)",
        "_is_in(move.after, span)",
        "serializable",
    ),
    _m("fields_unchecked", "store.span_conflicts:_is_hit", "_changes_field(view, shift)", "False", "serializable"),
    _m("layers_unchecked", "store.collections:Collections._outdated", "missing is not None", "False", "serializable"),
    _m(
        "own_commits_overlooked",
        "store.span_conflicts:_is_hit",
        "is_own and any(first <= shift.local_seq <= last for first, last in span.layers)",
        "is_own",
        "serializable",
    ),
)


def keys_are_right(folder: Path) -> bool:
    """Whether some random histories have the keys that the documents have."""
    for seed in range(12):
        place = folder / str(seed)
        place.mkdir()
        with small_limits(FOLD_COMMITS=3, SHIFTS_KEPT=1000):
            space = Space("sqlite" if seed % 3 == 0 else "memory", place)
            try:
                history = History(space, random.Random(seed))
                for number in range(40):
                    history.step(number)
                history.check()
                lose_a_batch(space)
            except (AssertionError, HeadwaterError, LookupError, ValueError):
                return False
            finally:
                space.close()
    return True


def lose_a_batch(space: Space) -> None:
    """The disk does not take two commits. The second was checked against the first, by a unique index."""
    engine = space.engine
    declare(engine, CollectionRecord("part", indexes=(NUMBER,)))
    parts = [Commit(SessionId(f"lost {n}"), LocalSeq(1), (put(f"part:{n}", {"n": n}),)) for n in range(2)]
    with patch.object(engine.backend, "append", side_effect=StoreFullError("no room")), suppress(StoreFullError):
        admit(engine, *parts)
    assert engine.collections.span(MAIN, NUMBER.name("part"), b"", AFTER) == []


def are_serializable() -> bool:
    """Whether some random histories of transactions with spans are."""
    try:
        with small_limits(FOLD_COMMITS=5):
            for seed in range(300):
                play(seed)
    except (AssertionError, HeadwaterError, LookupError):
        return False
    return True


@pytest.mark.pure("mistakes are planted in sources")
@pytest.mark.parametrize("mutant", KEYS, ids=lambda mutant: mutant.name)
def test_mistake_in_keys_is_found(mutant: Mutant, tmp_path: Path) -> None:
    with applied(mutant):
        assert not keys_are_right(tmp_path)


@pytest.mark.pure("mistakes are planted in sources")
@pytest.mark.parametrize("mutant", SPANS, ids=lambda mutant: mutant.name)
def test_mistake_in_spans_is_found(mutant: Mutant) -> None:
    with applied(mutant):
        assert not are_serializable()


def test_histories_without_a_mistake_find_none(tmp_path: Path) -> None:
    assert keys_are_right(tmp_path)
    assert are_serializable()
