"""Keys of indexes: the order of the bytes is the order of the values, and a key gives its values back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from functools import cmp_to_key
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.values.causal import derive_id
from headwater.values.codec import digest
from headwater.values.ids import DocId
from headwater.values.schema_text_types import TEXTS
from headwater.values.sortkey import (
    AFTER,
    CUT_BYTES,
    INEXACT,
    Elapsed,
    Instant,
    as_float,
    doc_id_of,
    elapsed,
    encode_field,
    encode_id,
    encode_key,
    encode_whole,
    fields_end,
    fields_of,
    following,
    instant,
    prefix_span,
    whole_fields,
)
from headwater.values.tree import ABSENT, is_array, is_map, same
from tests.values.strategies import scalars, values

DATETIME, TIMEDELTA = TEXTS[0], TEXTS[3]

long_texts = st.builds(
    lambda letter, size, end: letter * size + end,
    st.sampled_from(["a", "é", "\0", "😀"]),
    st.integers(CUT_BYTES // 4 - 2, CUT_BYTES + 2),
    st.text(max_size=3),
)
micros = st.integers(-(2**62), 2**62)
ordered: st.SearchStrategy[Any] = (
    scalars
    | st.just(ABSENT)
    | long_texts
    | long_texts.map(str.encode)
    | st.builds(Instant, micros)
    | st.builds(Elapsed, micros)
)
doc_ids = st.integers(0, 99).map(lambda n: derive_id("order", n)) | st.text(min_size=1, max_size=5).map(
    lambda name: DocId(f"order:{name}")
)


def rank(value: object) -> int:
    kinds: list[object] = [ABSENT, None, False, True]
    for place, each in enumerate(kinds):
        if value is each:
            return place
    return 4 + [int, float, str, bytes, Instant, Elapsed].index(type(value))


def compare(a: Any, b: Any) -> int:
    """The order that keys have to have: by type, then by value; text by code points."""
    if rank(a) != rank(b):
        return -1 if rank(a) < rank(b) else 1
    if rank(a) < 4 or a == b:
        return 0
    return -1 if a < b else 1


def is_short(value: object) -> bool:
    content = value.encode() if isinstance(value, str) else value
    return not isinstance(content, bytes) or len(content) <= CUT_BYTES


@given(ordered.filter(is_short), ordered.filter(is_short))
@example("a", "a\0")
@example("a\0", "a\0b")
@example(b"\xff", b"\xff\xff")
@example(0.0, -0.0)
@example("\uffff", "😀")
def test_order_of_bytes_is_the_order_of_values(a: Any, b: Any) -> None:
    mine, theirs = encode_field(a), encode_field(b)
    assert (mine > theirs) - (mine < theirs) == compare(a, b)


@given(st.lists(st.tuples(ordered.filter(is_short), ordered.filter(is_short)), max_size=8))
def test_order_of_keys_is_that_of_their_fields_one_after_the_other(rows: list[tuple[Any, Any]]) -> None:
    def by_fields(x: tuple[Any, Any], y: tuple[Any, Any]) -> int:
        return compare(x[0], y[0]) or compare(x[1], y[1])

    doc = DocId("order:x")
    keys = [encode_key(row, doc) for row in sorted(rows, key=cmp_to_key(by_fields))]
    assert keys == sorted(keys)


@given(ordered, ordered)
def test_two_values_have_one_key_only_if_they_are_equal(a: Any, b: Any) -> None:
    equal = rank(a) == rank(b) and (rank(a) < 4 or a == b)
    assert (encode_field(a) == encode_field(b)) == equal


@given(long_texts, long_texts)
def test_long_texts_are_ordered_by_their_beginnings(a: str, b: str) -> None:
    x, y = a.encode()[:CUT_BYTES], b.encode()[:CUT_BYTES]
    if x != y:
        assert (encode_field(a) < encode_field(b)) == (x < y)
    elif is_short(a) and not is_short(b):
        assert encode_field(a) < encode_field(b)


@given(st.lists(ordered, max_size=4), doc_ids)
def test_decoding_is_the_inverse_except_for_what_is_cut(fields: list[Any], doc: DocId) -> None:
    key = encode_key(fields, doc)
    assert doc_id_of(key, "order") == doc
    found = fields_of(key)
    assert len(found) == len(fields)
    for mine, stored in zip(found, fields, strict=True):
        if not is_short(stored):
            assert mine is INEXACT
        else:
            assert mine == stored
            assert type(mine) is type(stored)


@given(values.filter(lambda value: is_map(value) or is_array(value)), values)
def test_containers_come_after_all_scalars_by_their_digest(container: Any, other: Any) -> None:
    key = encode_field(container)
    assert fields_of(key) == (INEXACT,)
    assert key.endswith(digest(container))
    if is_map(other) or is_array(other):
        assert (key == encode_field(other)) == same(container, other)
    else:
        assert key > encode_field(other)


@given(st.lists(ordered, max_size=2), st.lists(ordered, max_size=2), doc_ids)
def test_keys_with_a_prefix_of_fields_are_one_span(prefix: list[Any], fields: list[Any], doc: DocId) -> None:
    start = b"".join(map(encode_field, prefix))
    assert start <= encode_key([*prefix, *fields], doc) < start + AFTER
    assert encode_key(fields, doc, start) == encode_key([*prefix, *fields], doc)


@given(st.lists(ordered, max_size=4), st.data(), doc_ids)
def test_fields_of_a_key_are_found_one_by_one_as_they_are_encoded(fields: list[Any], data: Any, doc: DocId) -> None:
    parts, key = [encode_field(each) for each in fields], encode_key(fields, doc)
    count = data.draw(st.integers(0, len(fields)))
    assert whole_fields(key, count) == parts[:count]
    assert fields_end(key, count) == len(b"".join(parts[:count]))
    assert whole_fields(b"".join(parts)) == parts


@given(ordered, st.data())
def test_part_of_a_field_is_no_field(value: Any, data: Any) -> None:
    code = encode_field(value)
    if len(code) > 1:
        end = data.draw(st.integers(1, len(code) - 1))
        part = code[:end]
        if isinstance(value, str | bytes) and part.endswith(b"\0") and len(part) > 1 and code[end] == 0xFF:
            # Half of an escaped zero is the end of a shorter text.
            assert whole_fields(part) == [part]
            return
        with pytest.raises(ValueError, match="ends within a field"):
            whole_fields(part)


@given(st.text(max_size=3) | st.binary(max_size=3), st.text(max_size=4) | st.binary(max_size=4))
@example(b"\0", b"\0\xff")
@example(b"\xff", b"\xff\xff")
@example("", b"")
def test_prefix_span_holds_exactly_what_begins_so(prefix: Any, value: Any) -> None:
    lo, hi = prefix_span(prefix)
    begins = type(value) is type(prefix) and value.startswith(prefix)
    assert (lo <= encode_field(value) < hi) == begins


@given(st.binary(min_size=1, max_size=4).filter(lambda bound: bound.rstrip(b"\xff")), st.binary(max_size=6))
def test_following_is_the_first_that_does_not_begin_so(bound: bytes, key: bytes) -> None:
    assert (bound <= key < following(bound)) == key.startswith(bound)


@given(doc_ids, doc_ids)
def test_ids_are_different_and_in_their_own_order(a: DocId, b: DocId) -> None:
    assert (encode_id(a) == encode_id(b)) == (a == b)
    assert len(encode_id(derive_id("order", 1))) == 22


@given(st.text(max_size=2000), st.lists(ordered, max_size=2), doc_ids)
def test_text_that_is_not_cut_comes_back(user: str, fields: list[Any], doc: DocId) -> None:
    key = encode_key(fields, doc, encode_whole(user))
    assert fields_of(key)[0] == user
    assert doc_id_of(key, "order") == doc


@given(
    st.datetimes(timezones=st.timezones() | st.none(), allow_imaginary=False),
    st.datetimes(timezones=st.timezones() | st.none(), allow_imaginary=False),
)
def test_datetimes_are_ordered_by_instant_and_those_without_offset_come_first(a: datetime, b: datetime) -> None:
    mine, theirs = (encode_field(instant(DATETIME.store(each))) for each in (a, b))
    if a.tzinfo is None and b.tzinfo is None:
        assert (mine < theirs, mine == theirs) == (a < b, a == b)
    elif a.tzinfo is None or b.tzinfo is None:
        assert (mine < theirs) == (a.tzinfo is None)
    else:
        # As stored: comparisons of datetimes of one zone ignore its offset.
        x, y = (datetime.fromisoformat(each.isoformat()) for each in (a, b))
        assert (mine < theirs, mine == theirs) == (x < y, x == y)


@given(st.timedeltas(), st.timedeltas())
@example(timedelta.min, timedelta.max)
def test_durations_are_ordered_by_length(a: timedelta, b: timedelta) -> None:
    mine, theirs = (encode_field(elapsed(TIMEDELTA.store(each))) for each in (a, b))
    assert (mine < theirs, mine == theirs) == (a < b, a == b)
    assert fields_of(mine) == (Elapsed(a // timedelta(microseconds=1)),)


def test_one_instant_in_two_zones_is_one_key() -> None:
    noon = datetime(2024, 5, 1, 12, tzinfo=UTC)
    there = noon.astimezone(timezone(timedelta(hours=2)))
    assert instant(noon.isoformat()) == instant(there.isoformat()) == Instant(1714564800000000)


@pytest.mark.parametrize("value", ["no date", "", 5, None, ABSENT, 1.5, b"x"])
def test_what_is_no_date_or_duration_keeps_its_own_order(value: Any) -> None:
    assert instant(value) is value
    assert elapsed(value) is value


def test_int_of_a_field_of_floats_has_the_key_of_the_float() -> None:
    assert encode_field(as_float(3)) == encode_field(3.0) != encode_field(3)
    assert as_float(True) is True
    assert as_float("3") == "3"


def test_bytes_that_are_no_key_are_refused() -> None:
    with pytest.raises(ValueError, match="is not a key"):
        fields_of(b"\x7fabc")
