"""Attacks 19 to 22: values that two programs would read differently, and places that are none."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from headwater.store.commit import Committed, Conflict, PatchDoc, Refused, SetDoc
from headwater.sync.frames import Docs, ErrorFrame, Pull, Transact
from headwater.values.ids import DocKey
from headwater.values.patch import Add, AddUnique, Append, Increment, Move, Remove, RemoveByValue, Replace, Splice
from headwater.values.value_limits import DEPTH_MAX, KEY_BYTES_MAX
from tests.system.attacks.raw import Raw
from tests.system.attacks.served import Served, doc

pack = msgspec.msgpack.encode


def told(raw: Raw, number: int, *docs: DocKey) -> dict[DocKey, Any]:
    """What documents hold, as they are sent."""
    raw.say(Pull(number, docs))
    return {each.doc: each.value[0] if each.value else None for each in raw.expect(Docs).docs}


def set_raw(value: bytes) -> bytes:
    """A commit that sets a document to what these bytes say."""
    return b"\x83\xa1t\xa8transact\xa6number\x01\xaaoperations\x91\x93\xa3set\xa7space/a" + value


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


# --- 19 -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf], ids=str)
@pytest.mark.parametrize("wrap", [lambda n: n, lambda n: [n], lambda n: {"a": {"b": n}}], ids=["alone", "list", "map"])
def test_a_number_that_json_does_not_have_is_refused(served: Served, number: float, wrap: Any) -> None:
    space = served.space()
    with served.enter(space) as raw:
        raw.say(Transact(1, (SetDoc(doc("a"), wrap(number)),)))
        closed = raw.closed()
        assert (closed.code, closed.troubles[-1].code) == (4400, "HW402")
    with served.enter(space) as raw:
        assert raw.opened is not None
        assert raw.opened.seq == 0


KEPT: list[Any] = [
    0,
    -1,
    2**63,
    2**64 - 1,
    -(2**63),
    0.0,
    -0.0,
    1.0,
    1e308,
    5e-324,
    2**53 + 1,
    True,
    False,
    None,
    "",
    b"",
    [],
    {},
]


@pytest.mark.parametrize("value", KEPT, ids=repr)
def test_a_value_at_the_edge_comes_back_as_it_was(served: Served, value: Any) -> None:
    with served.enter(served.space()) as raw:
        assert isinstance(raw.write(1, SetDoc(doc("a"), [value])), Committed)
        found = told(raw, 2, doc("a"))[doc("a")][0]
        assert type(found) is type(value)
        assert repr(found) == repr(value)


def test_an_integer_of_five_thousand_digits_can_be_said_in_no_way(served: Served) -> None:
    """MessagePack has none: as text it is text, and as a type of its own it is refused."""
    digits = str(10**4000)
    with served.enter(served.space()) as raw:
        assert isinstance(raw.write(1, SetDoc(doc("a"), digits)), Committed)
        assert told(raw, 2, doc("a"))[doc("a")] == digits
    for kind in (1, -2, 127):
        with served.enter(served.space()) as raw:
            raw.say(set_raw(pack(msgspec.msgpack.Ext(kind, bytes(2000)))))
            assert raw.closed().code == 4400


@pytest.mark.parametrize("by", [2**64 - 1, -(2**63), 1e308], ids=str)
def test_a_sum_that_is_too_large_is_refused_and_nothing_is_changed(served: Served, by: float) -> None:
    with served.enter(served.space()) as raw:
        assert isinstance(raw.write(1, SetDoc(doc("a"), {"n": by})), Committed)
        refused = raw.write(2, PatchDoc(doc("a"), (Increment(("n",), by),)))
        assert isinstance(refused, Refused | Conflict)
        assert told(raw, 3, doc("a")) == {doc("a"): {"n": by}}


# --- 20 -------------------------------------------------------------------------------------------------------

KEYS = [
    "__proto__",
    "constructor",
    "prototype",
    "",
    "\0",
    "a\0b",
    "/",
    "~",
    "~1",
    "..",
    "\u202e",
    "\U0001d54f",
    "t",
    "$ref",
]


def test_keys_that_mean_something_elsewhere_mean_nothing_here(served: Served) -> None:
    value: dict[str, dict[str, Any]] = {key: {key: index} for index, key in enumerate(KEYS)}
    with served.enter(served.space()) as raw:
        assert isinstance(raw.write(1, SetDoc(doc("a"), value)), Committed)
        assert told(raw, 2, doc("a"))[doc("a")] == value
        for number, key in enumerate(KEYS, 3):
            verdict = raw.write(number, PatchDoc(doc("a"), (Add((key, "new"), key),)))
            assert isinstance(verdict, Committed), key
        value = {key: inner | {"new": key} for key, inner in value.items()}
        assert told(raw, 100, doc("a"))[doc("a")] == value


@pytest.mark.parametrize("size", [KEY_BYTES_MAX + 1, 1 << 20])
def test_a_key_that_is_too_long_is_refused_wherever_it_stands(served: Served, size: int) -> None:
    key = "k" * size
    tried = [
        Transact(1, (SetDoc(doc("a"), {key: 1}),)),
        Transact(1, (SetDoc(doc(key), 1),)),
        Transact(1, (PatchDoc(doc("a"), (Replace((), {key: 1}),)),)),
        Pull(1, (doc(key),)),
    ]
    for frame in tried:
        with served.enter(served.space()) as raw:
            raw.say(frame)
            assert raw.closed().code == 4400
    with served.enter(served.space()) as raw:
        raw.write(1, SetDoc(doc("a"), {}))
        assert not isinstance(raw.write(2, PatchDoc(doc("a"), (Add((key,), 1),))), Committed)


@pytest.mark.parametrize("key", [1, 1.5, None, True, b"k", (1, 2), ()], ids=repr)
def test_a_key_that_is_no_text_is_refused(served: Served, key: Any) -> None:
    with served.enter(served.space()) as raw:
        raw.say(set_raw(pack({key: 1})))
        assert raw.closed().code == 4400


@pytest.mark.parametrize("depth", [DEPTH_MAX + 1, 2 * DEPTH_MAX], ids=str)
def test_a_value_that_is_nested_too_deep_is_refused(served: Served, depth: int) -> None:
    with served.enter(served.space()) as raw:
        raw.say(set_raw(b"\x91" * depth + b"\x01"))
        assert raw.closed().code == 4400


def test_a_value_cannot_grow_too_deep_or_too_large_by_patches(served: Served) -> None:
    with served.enter(served.space()) as raw:
        half = nested(DEPTH_MAX // 2)
        assert isinstance(raw.write(1, SetDoc(doc("a"), half)), Committed)
        path = (0,) * (DEPTH_MAX // 2)
        assert not isinstance(raw.write(2, PatchDoc(doc("a"), (Replace(path, nested(DEPTH_MAX // 2 + 1)),))), Committed)
        assert isinstance(raw.write(3, SetDoc(doc("b"), {})), Committed)
        verdicts = [
            raw.write(number, PatchDoc(doc("b"), (Add((f"k{number}",), "x" * (1 << 22)),))) for number in range(4, 9)
        ]
        assert [type(each) for each in verdicts] == [Committed, Committed, Committed, Refused, Refused]


# --- 21 -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "half", [b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\x80"], ids=repr
)
def test_half_a_character_is_refused_in_a_value_in_a_key_and_in_the_name_of_a_document(
    served: Served, half: bytes
) -> None:
    text = bytes((0xA0 | len(half),)) + half
    where = {
        "value": set_raw(text),
        "key": set_raw(b"\x81" + text + b"\x01"),
        "name": set_raw(b"\x01").replace(b"\xa7space/a", bytes((0xA6 + len(half),)) + b"space/" + half),
    }
    for at, frame in where.items():
        with served.enter(served.space()) as raw:
            raw.say(frame)
            assert raw.closed().code == 4400, at


def test_twins_that_look_alike_stay_two(served: Served) -> None:
    one, other = "caf\u00e9", "cafe\u0301"
    with served.enter(served.space()) as raw:
        written = raw.write(1, SetDoc(doc(one), {one: 1, other: 2}), SetDoc(doc(other), other))
        assert isinstance(written, Committed)
        assert told(raw, 2, doc(one), doc(other)) == {doc(one): {one: 1, other: 2}, doc(other): other}


# --- 22 -------------------------------------------------------------------------------------------------------

BASE = {"list": [1, 2, 3], "map": {"a": 1}, "text": "abc", "link": {"/": {"link@1": {"id": "x"}}}}
ASTRAY = {
    "a key into a list": Replace(("list", "1"), 0),
    "minus": Replace(("list", "-"), 0),
    "a pointer": Replace(("list/1",), 0),
    "an escape": Replace(("~2",), 0),
    "beyond the end": Replace(("list", 3), 0),
    "far beyond the end": Replace(("list", 10**18), 0),
    "an index into a map": Replace(("map", 0), 0),
    "into text": Replace(("text", 0), "x"),
    "into a link": Replace(("link", "/"), {}),
    "what is not there": Remove(("none",)),
    "deep into nothing": Replace(("a", "b", "c"), 0),
    "a splice beyond": Splice(("list",), 10**18, 0, [1]),  # type: ignore[arg-type]  # as it is decoded
    "a splice of too many": Splice(("list",), 0, 10**18, []),  # type: ignore[arg-type]  # as above
    "a splice before": Splice(("list",), -1, 1, []),  # type: ignore[arg-type]  # as above
    "a splice of less than nothing": Splice(("list",), 0, -1, []),  # type: ignore[arg-type]  # as above
    "a splice of a map": Splice(("map",), 0, 0, []),  # type: ignore[arg-type]  # as above
    "an append to a map": Append(("map",), [1]),  # type: ignore[arg-type]  # as above
    "a sum of text": Increment(("text",), 1),
    "a move into itself": Move(("map",), ("map", "a")),
    "a move of nothing": Move(("none",), ("some",)),
    "unique in a map": AddUnique(("map",), [1]),  # type: ignore[arg-type]  # as above
    "out of a map": RemoveByValue(("map",), [1]),  # type: ignore[arg-type]  # as above
}


@pytest.mark.parametrize("op", ASTRAY.values(), ids=ASTRAY.keys())
def test_a_place_that_is_none_changes_nothing(served: Served, op: Any) -> None:
    with served.enter(served.space()) as raw:
        assert isinstance(raw.write(1, SetDoc(doc("a"), BASE)), Committed)
        verdict = raw.write(2, SetDoc(doc("b"), 1), PatchDoc(doc("a"), (op,)))
        assert isinstance(verdict, Conflict | Refused | ErrorFrame)
        # All or nothing.
        assert told(raw, 3, doc("a"), doc("b")) == {doc("a"): BASE, doc("b"): None}


@pytest.mark.parametrize("step", [-1, 2**64 - 1, 1.5, None, b"a", True, ["a"]], ids=repr)
def test_a_step_that_is_none_ends_the_connection_or_leads_nowhere(served: Served, step: Any) -> None:
    with served.enter(served.space()) as raw:
        assert isinstance(raw.write(1, SetDoc(doc("a"), BASE)), Committed)
        operations = [["patch", "space/a", [["replace", ["list", step], 0]]]]
        raw.say(pack({"t": "transact", "number": 2, "operations": operations}))
        if step == 2**64 - 1:
            assert isinstance(raw.verdict(2), Conflict | Refused)
        else:
            assert raw.closed().code == 4400


@pytest.mark.parametrize("key", ["", "space", "space/", "/a", "user:/a", "user:%61nn/a", "session:a/b", "else/a"])
def test_a_document_whose_key_is_none_ends_the_connection(served: Served, key: str) -> None:
    for frame in (Transact(1, (SetDoc(DocKey(key), 1),)), Pull(1, (DocKey(key),))):
        with served.enter(served.space(), actor="ann") as raw:
            raw.say(frame)
            assert raw.closed().code == 4400
