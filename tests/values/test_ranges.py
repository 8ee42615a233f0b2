"""The index of ranges finds what a loop over all ranges finds, and looks at no others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from headwater.values.ranges import RangeIndex
from headwater.values.sortkey import AFTER, encode_field

PARTS = [b"", b"\x00", b"\x10", b"\x20a", b"\x20ab", b"\x20b", b"\xfe", b"\xff"]
bounds = st.lists(st.sampled_from(PARTS), max_size=4).map(b"".join)
readers = st.integers(0, 5)


class RangesMachine(RuleBasedStateMachine):
    """Ranges come and go; each key is asked of the index and of a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.index: RangeIndex[int] = RangeIndex()
        self.all: set[tuple[bytes, bytes, int]] = set()

    @rule(lo=bounds, hi=bounds, reader=readers)
    def add(self, lo: bytes, hi: bytes, reader: int) -> None:
        self.index.add(lo, hi, reader)
        if lo < hi:
            self.all.add((lo, hi, reader))

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        if self.all:
            gone = data.draw(st.sampled_from(sorted(self.all)))
            self.index.remove(*gone)
            self.all.remove(gone)

    @rule(lo=bounds, hi=bounds, reader=readers)
    def remove_any(self, lo: bytes, hi: bytes, reader: int) -> None:
        self.index.remove(lo, hi, reader)
        self.all.discard((lo, hi, reader))

    @rule(keys=st.lists(bounds, max_size=3))
    def match(self, keys: list[bytes]) -> None:
        expected = {reader for lo, hi, reader in self.all if any(lo <= key < hi for key in keys)}
        found = self.index.match(keys)
        assert set(found) == expected
        assert len(found) == len(expected)
        for key in keys:
            ranges = self.index.ranges(key)
            assert sorted(ranges) == sorted({(lo, hi) for lo, hi, _ in self.all if lo <= key < hi})

    @rule(lo=bounds, hi=bounds)
    def exactly(self, lo: bytes, hi: bytes) -> None:
        assert set(self.index.readers(lo, hi)) == {r for a, b, r in self.all if (a, b) == (lo, hi)}

    def teardown(self) -> None:
        assert len(self.index) == len({(lo, hi) for lo, hi, _ in self.all})
        for gone in self.all:
            self.index.remove(*gone)
        assert not self.index._files
        assert not self.index._sorted
        assert not self.index._lengths


TestRanges = RangesMachine.TestCase


@given(st.integers(1, 400))
def test_a_key_visits_only_ranges_that_hold_it(count: int) -> None:
    index: RangeIndex[int] = RangeIndex()
    for number in range(count):
        user = encode_field(f"user{number:04}")
        index.add(user, user + AFTER, number)
    before = index.visits
    assert index.match([encode_field("user0000") + encode_field(7)]) == [0]
    # One file for each range, and one hit.
    assert index.visits - before <= 2


def test_short_ranges_of_one_field_are_found_without_a_look_at_the_others() -> None:
    index: RangeIndex[int] = RangeIndex()
    for number in range(10_000):
        index.add(encode_field(number * 100), encode_field(number * 100 + 50), number)
    before = index.visits
    assert index.match([encode_field(500_010)]) == [5_000]
    assert index.match([encode_field(500_060)]) == []
    assert index.visits - before <= 20
