"""Tables give back the room that they do not need any more."""

from __future__ import annotations

from sys import getsizeof

from headwater.values.shrink import SLACK_BYTES, shrunk


def test_a_table_that_was_much_larger_is_made_anew_with_the_same_entries() -> None:
    table = {number: str(number) for number in range(10_000)}
    for number in range(9_990):
        del table[number]
    after = shrunk(table)
    assert (getsizeof(after) < SLACK_BYTES < getsizeof(table), list(after)) == (True, list(range(9_990, 10_000)))


def test_a_table_that_is_full_or_small_is_left_as_it_is() -> None:
    full = dict.fromkeys(range(10_000))
    small = dict.fromkeys(range(100))
    few: dict[int, None] = dict.fromkeys(range(50))
    few.clear()
    for table in (full, small, few, {}):
        assert shrunk(table) is table
