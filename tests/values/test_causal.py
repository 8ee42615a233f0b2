"""Ids from causes: the same everywhere, different for different causes, and blind to all of a link but its place."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from base64 import b32encode
from hashlib import sha256
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater
from headwater.errors import AddressError, LimitError, NameRefusedError
from headwater.values.address import Address, doc_key, user_scope
from headwater.values.causal import derive_id
from headwater.values.codec import encode
from headwater.values.ids import DocId, SpaceId
from headwater.values.link import LinkRecord, parse_link
from headwater.values.tree import Value, freeze, is_array, is_map, same
from tests.values.oracle import thaw
from tests.values.strategies import link_records, relatives, values
from tests.values.widths import at_both_widths, tiny_chunks

PLACE = Address(doc_key("d"), ("a", 0), SpaceId("home"))


def test_same_cause_gives_the_same_id_in_every_process() -> None:
    program = """
import json
from headwater.values.address import Address, doc_key
from headwater.values.causal import derive_id
from headwater.values.link import LinkRecord, parse_link
keys = {"b", "a", "c", "é", "😀", "longer"}
print(json.dumps([
    derive_id("x", {key: [1, 1.0, None, b"z"] for key in keys}),
    derive_id("x", Address(doc_key("d"), ("a", 0)), LinkRecord(path=("a",)).to_value()),
    derive_id("x", {str(n): n for n in range(2000)}),
]))
"""
    source = str(Path(headwater.__file__).parents[1])
    seen = set()
    for seed in ("0", "1", "4242"):
        env = {**os.environ, "PYTHONPATH": source, "PYTHONHASHSEED": seed}
        result = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, check=True)
        seen.add(tuple(json.loads(result.stdout)))
    assert len(seen) == 1
    # And in every version: an id that moves loses what was stored under it.
    assert derive_id("x", {"a": [1, 1.0, None, b"z"]}) == "x:kjzeedkdyk75uhbqdwwm3ieaz3gcucrz"


@given(
    st.lists(
        st.text(max_size=20) | st.integers(-5, 5) | st.integers(2**62, 2**65) | st.booleans() | st.none(), max_size=20
    )
)
def test_short_cause_has_the_id_of_its_frozen_form(cause: list[object]) -> None:
    try:
        body = encode(freeze(["event", *cause]))
    except AddressError:
        with pytest.raises(AddressError):
            derive_id("event", *cause)
        return
    letters = b32encode(sha256(body).digest()[:20]).decode().lower()
    assert derive_id("event", *cause) == f"event:{letters}"


@at_both_widths
@given(values, values)
def test_ids_are_equal_exactly_when_the_causes_are_the_same(a: Value, b: Value) -> None:
    assert (derive_id("k", a) == derive_id("k", b)) == same(reduced(a), reduced(b))


@at_both_widths
@given(st.data(), values)
def test_ids_of_nearly_equal_causes_are_equal_exactly_when_these_are_the_same(data: st.DataObject, a: Value) -> None:
    b = data.draw(relatives(a))
    assert (derive_id("k", a) == derive_id("k", b)) == same(reduced(a), reduced(b))


def reduced(value: Value) -> Value:
    """A cause with every link replaced by the place it names: how it is written through, or marked, does not count."""
    link = parse_link(value)
    if link is not None:
        return freeze({"the place": link.fields()})
    if is_map(value):
        return freeze({key: reduced(item) for key, item in value.items()})
    return freeze([reduced(item) for item in value]) if is_array(value) else value


@given(values)
def test_width_of_a_cause_does_not_count(value: Value) -> None:
    with tiny_chunks():
        wide = freeze(thaw(value))
    assert derive_id("k", wide) == derive_id("k", value) == derive_id("k", thaw(value))


def test_different_causes_have_different_ids() -> None:
    causes: list[tuple[object, ...]] = [
        *((1,), (1.0,), (True,), ("1",), (b"1",), (None,), (), ("",), ([],), ({},), (0.0,), (-0.0,)),
        *(([1],), ([[1]],), ([1], 1), ([1, 1],), (1, 1), ([[1], 1],), ([[1, 1]],), ([1, [1]],)),
        *(({"a": 1},), ({"a": {"b": 1}},), ({"a": 1, "b": 1},), (["a", 1],), ([["a", 1]],), ("a", 1)),
        *((PLACE,), ({"/": thaw(freeze(["address", "home", "space/d", ["a", 0]]))},)),
        *(({"/": {"/": ["address", "home", "space/d", ["a", 0]]}},), (["address", "home", "space/d", ["a", 0]],)),
        *((Address(doc_key("d"), ("a", "0"), SpaceId("home")),), (Address(doc_key("d"), ("a", 0)),)),
        *((Address(doc_key("d", user_scope("u")), ("a", 0), SpaceId("home")),), (Address(doc_key("d")),)),
        *(
            (LinkRecord(path=("a", 0)),),
            (LinkRecord(path=("a", "0")),),
            (LinkRecord(),),
            (LinkRecord(DocId("d")),),
            (LinkRecord(scope="space"),),
        ),
        *(
            ({"/": ["link", {}]},),
            ({"/": {}},),
            ({"/": None},),
            ({"/": {"link@1": 5}},),
            ({"/": {"link@1": 5}, "a": 1},),
        ),
    ]
    ids = [derive_id("k", *cause) for cause in causes]
    for (a, of_a), (b, of_b) in combinations(zip(causes, ids, strict=True), 2):
        assert of_a != of_b, (a, b)


def test_kind_is_part_of_the_cause_and_stands_in_front() -> None:
    made = derive_id("piece", 1)
    assert made.startswith("piece:")
    assert made.removeprefix("piece:") != derive_id("other", 1).removeprefix("other:")
    assert made.removeprefix("piece:").isalnum()
    assert len(made) == len("piece:") + 32


@given(link_records)
def test_link_counts_by_the_place_it_names_alone(record: LinkRecord) -> None:
    other = LinkRecord(record.doc, record.path, record.space, record.scope, redirect=not record.redirect)
    body = dict(record.to_value()["/"]["link@1"])  # type: ignore[index,call-overload,arg-type]
    labelled = {"/": {"link@1": {**body, "schema": {"type": "number"}}}}
    forms: list[object] = [record, other, record.to_value(), other.to_value(), labelled, thaw(record.to_value())]
    assert len({derive_id("k", form) for form in forms}) == 1
    assert len({derive_id("k", {"in": [form, 1]}) for form in forms}) == 1


def test_tuples_and_lists_are_one_cause() -> None:
    assert derive_id("k", (1, (2,))) == derive_id("k", [1, [2]])
    assert derive_id("k", {"b": 1, "a": 2}) == derive_id("k", {"a": 2, "b": 1})


@pytest.mark.parametrize("kind", ["", "a:b", "a/b"])
def test_kind_that_would_blur_an_id_is_refused(kind: str) -> None:
    with pytest.raises(NameRefusedError, match="is not a kind of id"):
        derive_id(kind, 1)


@pytest.mark.parametrize("cause", [{1}, print, float("nan"), {1: "a"}, {"/": {1: "a"}}, object(), "\ud800", 2**64])
def test_cause_that_is_no_value_is_refused(cause: object) -> None:
    with pytest.raises(AddressError, match="in a cause"):
        derive_id("k", {"x": [cause]})


def test_keys_that_only_print_alike_are_not_taken_for_one() -> None:
    with pytest.raises(AddressError, match="keys are text"):
        derive_id("k", {1: "a"})


def test_cause_that_contains_itself_is_refused() -> None:
    knot: list[object] = []
    knot.append(knot)
    with pytest.raises(LimitError, match="the cause contains itself or is nested too deep"):
        derive_id("k", knot)
