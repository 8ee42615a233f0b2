"""One codec: exact, canonical, and as JSON without loss."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.errors import AddressError
from headwater.values.chunked import ChunkedList, ChunkedMap
from headwater.values.codec import adopt, decode, digest, encode, from_json, to_json
from headwater.values.frozen import FrozenDict, FrozenList
from headwater.values.tree import Value, freeze, is_array, is_map, map_of, put_key, same
from headwater.values.value_limits import CHUNKED_FROM, INT_MAX, INT_MIN
from tests.values.oracle import canon, thaw
from tests.values.strategies import relatives, values
from tests.values.widths import at_both_widths, tiny_chunks


@at_both_widths
@given(values)
def test_decoding_undoes_encoding_exactly(value: Value) -> None:
    decoded = decode(encode(value))
    assert same(decoded, value)
    assert canon(thaw(decoded)) == canon(thaw(value))
    check_types(decoded)


def check_types(value: Value) -> None:
    assert type(value) not in (dict, list)
    if is_map(value):
        for item in value.values():
            check_types(item)
    elif is_array(value):
        for item in value:
            check_types(item)


@at_both_widths
@given(values, values)
def test_values_are_the_same_exactly_when_their_bytes_are(a: Value, b: Value) -> None:
    assert same(a, b) == (encode(a) == encode(b)) == (digest(a) == digest(b))


@at_both_widths
@given(st.data(), values)
def test_nearly_equal_values_are_the_same_exactly_when_their_bytes_are(data: st.DataObject, a: Value) -> None:
    b = data.draw(relatives(a))
    assert same(a, b) == (encode(a) == encode(b)) == (digest(a) == digest(b))


@given(values)
def test_width_of_containers_does_not_show_in_the_bytes(value: Value) -> None:
    with tiny_chunks():
        wide = freeze(thaw(value))
    assert encode(wide) == encode(value)


def test_order_of_writing_does_not_show_in_the_bytes() -> None:
    forth, back = freeze({}), freeze({})
    assert is_map(forth)
    assert is_map(back)
    keys = [f"{n * 37 % 900:03}" for n in range(900)]
    for key in keys:
        forth = put_key(forth, key, 1)
    for key in reversed(keys):
        back = put_key(back, key, 1)
    assert encode(forth) == encode(back) == encode(map_of(dict.fromkeys(keys, 1)))


@pytest.mark.parametrize("number", [0, -1, 127, 128, 2**32, 2**63 - 1, 2**63, INT_MIN, INT_MAX, 0.0, -0.0, 1.0, 5e-324])
def test_numbers_keep_type_and_sign(number: float) -> None:
    assert repr(decode(encode(number))) == repr(number)


def test_wide_containers_come_back_wide() -> None:
    many = freeze({"map": {f"{n:04}": [n] for n in range(CHUNKED_FROM + 1)}, "list": [0] * (CHUNKED_FROM + 1)})
    decoded = decode(encode(many))
    assert is_map(decoded)
    assert type(decoded["map"]) is ChunkedMap
    assert type(decoded["list"]) is ChunkedList
    assert type(decoded["map"]["0000"]) is FrozenList


def test_every_container_in_a_decoded_value_is_adopted() -> None:
    check_types(adopt([[1, [2]], [{"a": {"b": [{}]}}], {"c": [[]]}]))


def test_containers_are_wide_from_one_entry_over_the_limit() -> None:
    assert type(decode(encode(freeze([0] * CHUNKED_FROM)))) is FrozenList
    assert type(decode(encode(freeze({f"{n}": 0 for n in range(CHUNKED_FROM)})))) is FrozenDict


def test_digest_is_sixteen_bytes() -> None:
    assert len(digest(None)) == 16


def test_adopted_value_is_not_adopted_twice() -> None:
    value = freeze({"a": []})
    assert adopt(value) is value
    assert type(adopt({"a": value})) is FrozenDict


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x81\xa1a", b"\x01\x01"])
def test_bytes_that_are_no_msgpack_are_refused(data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(data)


def test_stranger_in_a_tree_is_named() -> None:
    with pytest.raises(TypeError, match="object got into a value tree"):
        encode(FrozenList([object()]))  # type: ignore[list-item]


# --- JSON -----------------------------------------------------------------------------------------------------


@at_both_widths
@given(values)
@example(freeze({"/": {"bytes@1": "YQ=="}}))
@example(freeze({"/": {"quote@1": {"/": {"bytes@1": "YQ=="}}}}))
@example(freeze({"/": {"quote@1": b"a"}}))
@example(freeze({"/": {"bytes@1": 5}, "a": b""}))
def test_json_is_lossless_through_text(value: Value) -> None:
    text = json.dumps(to_json(value), allow_nan=False)
    assert same(freeze(from_json(json.loads(text))), value)


@at_both_widths
@given(values)
def test_json_is_lossless_through_msgspec(value: Value) -> None:
    text = msgspec.json.encode(to_json(value))
    assert canon(from_json(json.loads(text))) == canon(thaw(value))


def test_bytes_are_marked_and_look_alikes_quoted() -> None:
    assert to_json(b"a") == {"/": {"bytes@1": "YQ=="}}
    assert to_json(freeze({"/": {"bytes@1": "YQ=="}})) == {"/": {"quote@1": {"/": {"bytes@1": "YQ=="}}}}
    unmarked: list[Any] = [{"/": {"link@1": {}}}, {"/": {"bytes@1": ""}, "a": 1}, {"/": {"bytes@1": "", "a": 1}}]
    for value in unmarked:
        assert to_json(freeze(value)) == value
        assert from_json(value) == value


@pytest.mark.parametrize("text", ["!", "YQ", "YQ===", "Y Q==", "é"])
def test_bytes_that_are_no_base64_are_refused(text: str) -> None:
    with pytest.raises(AddressError, match="it is not base64") as refused:
        from_json({"/": {"bytes@1": text}})
    assert refused.value.facts["text"] == text
