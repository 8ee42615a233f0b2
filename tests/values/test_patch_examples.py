"""Operations by example: what each means at the edges, and what it says when it does not fit."""

from __future__ import annotations

import enum
from typing import Any

import msgspec
import pytest

from headwater.errors import AddressError, LimitError
from headwater.values.patch import (
    Add,
    AddUnique,
    Append,
    Increment,
    Move,
    PatchOp,
    Remove,
    RemoveByValue,
    Replace,
    Splice,
    Touch,
)
from headwater.values.patching import apply_patch
from headwater.values.tree import ABSENT, Array, freeze, get, is_array
from headwater.values.value_limits import INT_MAX, INT_MIN, KEY_BYTES_MAX
from tests.values.oracle import canon, thaw

LINK = {"/": {"link@1": {"id": "x"}}}


def array(*items: Any) -> Array:
    made = freeze(items)
    assert is_array(made)
    return made


def touched(path: tuple[str | int, ...], *, reshaped: bool = False) -> Touch:
    return Touch(path, reshaped)


@pytest.mark.parametrize(
    ("before", "op", "after", "touches"),
    [
        # add
        (ABSENT, Add((), 1), 1, [touched((), reshaped=True)]),
        (ABSENT, Add(("a", 0, "b"), 1), {"a": [{"b": 1}]}, [touched((), reshaped=True)]),
        ({}, Add(("a", "b", "c"), 1), {"a": {"b": {"c": 1}}}, [touched(("a",), reshaped=True)]),
        ({"a": 1}, Add((), 2), 2, [touched(())]),
        ([1, 3], Add((1,), 2), [1, 2, 3], [touched(())]),
        ([1], Add((1,), 2), [1, 2], [touched((1,), reshaped=True)]),
        ([], Add((0,), 2), [2], [touched((0,), reshaped=True)]),
        ({"a": 1}, Add(("a",), 2), {"a": 2}, [touched(("a",))]),
        ({"a": 1}, Add(("a",), 1), {"a": 1}, []),
        ({"a": 1}, Add(("a",), 1.0), {"a": 1.0}, [touched(("a",))]),
        # replace
        ({"a": 0.0}, Replace(("a",), -0.0), {"a": -0.0}, [touched(("a",))]),
        ({"a": LINK}, Replace(("a",), 1), {"a": 1}, [touched(("a",))]),
        ({"a": 1}, Replace(("a",), freeze(LINK)), {"a": LINK}, [touched(("a",))]),
        # remove
        ({"a": 1, "b": 2}, Remove(("a",)), {"b": 2}, [touched(("a",), reshaped=True)]),
        ([1, 2], Remove((1,)), [1], [touched(())]),
        # splice
        ([1, 2, 3], Splice((), 1, 1, array(9, 8)), [1, 9, 8, 3], [touched(())]),
        ([1, 2], Splice((), 0, 2, array(1, 2)), [1, 2], []),
        ([1, 2], Splice((), 0, 1, array(1.0)), [1.0, 2], [touched(())]),
        ([1], Splice((), 1, 0, array(2)), [1, 2], [touched((1,), reshaped=True)]),
        ([1], Splice((), 0, 0, array()), [1], []),
        # move: the target is a place of the tree without what was taken out
        ([1, 2, 3], Move((0,), (2,)), [2, 3, 1], [touched(())]),
        ([1, 2, 3], Move((2,), (0,)), [3, 1, 2], [touched(())]),
        ([[], [], [5]], Move((0,), (1, 0)), [[], [[], 5]], [touched(())]),
        ([1, 1], Move((0,), (1,)), [1, 1], []),
        ({"a": 1}, Move(("a",), ("a",)), {"a": 1}, []),
        ({"a": 1, "b": 1}, Move(("a",), ("b",)), {"b": 1}, [touched(("a",), reshaped=True)]),
        ({"a": {"b": 1}}, Move(("a", "b"), ("a",)), {"a": 1}, [touched(("a",))]),
        ({"a": {"b": 1}}, Move(("a", "b"), ()), 1, [touched(())]),
        (
            {"a": 1},
            Move(("a",), ("b", "c")),
            {"b": {"c": 1}},
            [touched(("a",), reshaped=True), touched(("b",), reshaped=True)],
        ),
        (
            {"l": [1, 2], "m": [3]},
            Move(("l", 0), ("m", 1)),
            {"l": [2], "m": [3, 1]},
            [touched(("l",)), touched(("m", 1), reshaped=True)],
        ),
        ({"l": [{"x": 1}]}, Move(("l", 0, "x"), ("l", 0)), {"l": [1, {}]}, [touched(("l",))]),
        # append
        (ABSENT, Append((), array(1)), [1], [touched((), reshaped=True)]),
        ({}, Append(("a", "b"), array(1)), {"a": {"b": [1]}}, [touched(("a",), reshaped=True)]),
        ({}, Append(("a",), array()), {"a": []}, [touched(("a",), reshaped=True)]),
        ([0], Append((), array(1, 2)), [0, 1, 2], [touched((1,), reshaped=True), touched((2,), reshaped=True)]),
        ([], Append((), array(*range(8))), list(range(8)), [touched((n,), reshaped=True) for n in range(8)]),
        ([], Append((), array(*range(9))), list(range(9)), [touched(())]),
        # add_unique
        (
            [1],
            AddUnique((), array(1, 1.0, 1.0, True)),
            [1, 1.0, True],
            [touched((1,), reshaped=True), touched((2,), reshaped=True)],
        ),
        ([1], AddUnique((), array(1)), [1], []),
        (ABSENT, AddUnique(("a",), array(1, 1)), {"a": [1]}, [touched((), reshaped=True)]),
        # increment
        ({"n": 1}, Increment(("n",), 2), {"n": 3}, [touched(("n",))]),
        ({"n": 1}, Increment(("n",), 0), {"n": 1}, []),
        ({"n": 1}, Increment(("n",), 0.0), {"n": 1.0}, [touched(("n",))]),
        ({"n": 0.5}, Increment(("n",), 1), {"n": 1.5}, [touched(("n",))]),
        ({}, Increment(("n",), 2), {"n": 2}, [touched(("n",), reshaped=True)]),
        ({}, Increment(("n",), -0.0), {"n": -0.0}, [touched(("n",), reshaped=True)]),
        (ABSENT, Increment(("a", "n"), 2), {"a": {"n": 2}}, [touched((), reshaped=True)]),
        ([1], Increment((1,), 5), [1, 5], [touched((1,), reshaped=True)]),
        ({"n": INT_MAX - 1}, Increment(("n",), 1), {"n": INT_MAX}, [touched(("n",))]),
        ({"n": INT_MIN + 1}, Increment(("n",), -1), {"n": INT_MIN}, [touched(("n",))]),
        # remove_by_value
        ([1, 1.0, True, 1], RemoveByValue((), array(1)), [1.0, True], [touched(())]),
        ([1], RemoveByValue((), array(2)), [1], []),
        (ABSENT, RemoveByValue(("a",), array(2)), ABSENT, []),
        ({}, RemoveByValue(("a", 3), array(2)), {}, []),
    ],
    ids=str,
)
def test_operation_by_example(before: Any, op: PatchOp, after: Any, touches: list[Touch]) -> None:
    root = before if before is ABSENT else freeze(before)
    result, told = apply_patch(root, op)
    assert canon(thaw(result)) == canon(after)
    assert list(told) == touches


@pytest.mark.parametrize(
    ("before", "op", "message"),
    [
        (ABSENT, Replace(("a",), 1), "cannot replace a: the document does not exist; add or set it first"),
        (ABSENT, Remove(()), "cannot remove the root: the document does not exist"),
        ({}, Replace(("a",), 1), "cannot replace a: the root has no key 'a'"),
        ({"a": 1}, Replace(("a", "b"), 1), "cannot replace a/b: a holds a number"),
        ({"a": LINK}, Replace(("a", "/"), 1), "cannot replace a/~1: a holds a link"),
        (LINK, Replace(("/",), 1), "cannot replace ~1: the root holds a link"),
        ({"a": None}, Add(("a", "b"), 1), "cannot add a/b: a holds null"),
        ({"a": True}, Add(("a", "b"), 1), "cannot add a/b: a holds a truth value"),
        ({"a": "x"}, Add(("a", 0), 1), "cannot add a/0: a holds text"),
        ({"a": b"x"}, Add(("a", 0), 1), "cannot add a/0: a holds bytes"),
        ({"a": LINK}, Add(("a", "b"), 1), "cannot add a/b: a holds a link"),
        ({"a": {}}, Add(("a", 0), 1), "cannot add a/0: a has no element 0"),
        ({"": {}}, Add(("", 0), 1), "cannot add ~/0: ~ has no element 0"),
        ([1], Add(("a",), 1), "cannot add a: the root is a list of 1, which has no 'a'"),
        ([1], Add((2,), 1), "cannot add 2: the root is a list of 1, which has no 2"),
        ([1], Add((-1,), 1), "cannot add -1: the root is a list of 1, which has no -1"),
        ([1], Add((True,), 1), "cannot add True: the root is a list of 1, which has no True"),
        ([1], Add((1, "a"), 1), "cannot add 1/a: the root is a list of 1, which has no 1"),
        (
            {},
            Add(("a", 1), 1),
            "cannot add a/1: a list that does not exist yet has no 1; start with element 0, or append",
        ),
        ({}, Add(("a", False), 1), "cannot add a/False: a list that does not exist yet has no False"),
        (ABSENT, Increment((True,), 1), "cannot increment True: True is neither key nor index"),
        ([0, 1], Replace((True,), 1), "cannot replace True: the root is a list of 2, which has no True"),
        ({"a": 1}, Remove(()), "cannot remove the root of a document; delete the document instead"),
        ([1], Remove((1,)), "cannot remove 1: the root is a list of 1, which has no 1"),
        ({"a": {}}, Splice(("a",), 0, 0, array()), "cannot splice a: a holds an object"),
        ([1], Splice((), 1, 1, array()), "cannot splice the root: 1 elements from 1 are asked for, the list has 1"),
        ([1], Splice((), -1, 1, array()), "cannot splice the root: 1 elements from -1"),
        ([1], Splice((), 0, -1, array()), "cannot splice the root: -1 elements from 0"),
        ({"a": {}}, Move(("a",), ("a", "b")), "cannot move a into itself, to a/b"),
        ({"a": {}}, Move((), ("a",)), "cannot move the root into itself, to a"),
        # Also where, with it gone, another element stands: the text of the operation says "into itself".
        ([[1], {}], Move((0,), (0, "k")), "cannot move 0 into itself, to 0/k"),
        ({"a": 1}, Move(("b",), ("a",)), "cannot move b: the root has no key 'b'"),
        ({"a": 1, "b": 1}, Move(("b",), ("a", "c")), "cannot move a/c: a holds a number"),
        ([0, 1], Move((1,), (True,)), "cannot move True: True is neither key nor index"),
        ({"a": {}}, Append(("a",), array(1)), "cannot append to a: a holds an object"),
        ({"a": 1}, RemoveByValue(("a",), array(1)), "cannot remove from a: a holds a number"),
        ({"a": True}, Increment(("a",), 1), "cannot increment a: a holds a truth value"),
        ({"a": "1"}, Increment(("a",), 1), "cannot increment a: a holds text"),
        ({"a": []}, Increment(("a",), 1), "cannot increment a: a holds a list"),
        ({"a": 1}, Increment(("a",), True), "cannot increment a: True is not a number to add"),
        ({}, Increment(("a",), True), "cannot increment a: True is not a number to add"),
        ({}, Increment(("a",), float("nan")), "cannot increment a: nan is not a number"),
        ({"a": 1e308}, Increment(("a",), 1e308), "cannot increment a: inf is not a number"),
        ({"a": INT_MAX}, Increment(("a",), 1), "cannot increment a: an integer beyond 64 bits"),
        ({}, Increment(("a",), 2**70), "cannot increment a: an integer beyond 64 bits"),
        # Links are written in one piece.
        (
            {"x": {}},
            Add(("x", "/"), freeze({"link@1": {}})),
            "cannot add x/~1: x would become a link; write the link in one piece",
        ),
        ({"x": {}}, Add(("x", "/", "link@1"), 1), "cannot add x/~1/link@1: x would become a link"),
        ({"x": {"/": {}}}, Add(("x", "/", "link@1"), 1), "cannot add x/~1/link@1: x would become a link"),
        ({"x": {"/": 1}}, Replace(("x", "/"), freeze({"link@1": {}})), "cannot replace x/~1: x would become a link"),
        ({"/": 1}, Replace(("/",), freeze({"link@1": {}})), "cannot replace ~1: the root would become a link"),
        ({"x": {**LINK, "a": 1}}, Remove(("x", "a")), "cannot remove x/a: x would become a link"),
        ({"x": {**LINK, "a": 1}}, Move(("x", "a"), ("b",)), "cannot move x/a: x would become a link"),
        # Keys that no map may have.
        ({}, Add(("a", "\ud800"), 1), r"cannot add a/\ud800: the text holds a lone surrogate"),
        ({"a": 1}, Replace(("\ud800",), 1), r"cannot replace \ud800: the root has no key '\ud800'"),
    ],
    ids=lambda part: str(part).encode(errors="backslashreplace").decode()[:50],
)
def test_operation_that_does_not_fit_says_what_stood_in_the_way(before: Any, op: PatchOp, message: str) -> None:
    root = before if before is ABSENT else freeze(before)
    with pytest.raises(AddressError) as refused:
        apply_patch(root, op)
    assert str(refused.value).startswith(f"HW101: {message}")
    str(refused.value).encode()  # it can be printed


def test_whole_link_may_be_put_anywhere() -> None:
    link = freeze(LINK)
    for op in (Replace(("x",), link), Add(("x",), link), Add((), link), Add(("new",), link)):
        assert apply_patch(freeze({"x": {"a": 1}}), op)[1]
    made, _ = apply_patch(freeze({}), Add(("x", "/", "link@1"), freeze({"id": "x"})))
    assert made == {"x": LINK}


@pytest.mark.parametrize("path", [("k" * (KEY_BYTES_MAX + 1),), ("a", "é" * KEY_BYTES_MAX), ("a", "k" * 5000, "b")])
def test_key_too_long_is_not_made_by_any_operation(path: tuple[str, ...]) -> None:
    for root in (ABSENT, freeze({}), freeze({"a": {}})):
        for op in (Add(path, 1), Append(path, array(1)), AddUnique(path, array(1)), Increment(path, 1)):
            with pytest.raises(LimitError, match="a key of more than 4,096 bytes") as refused:
                apply_patch(root, op)
            assert refused.value.facts["path"] == path
        # Where nothing is made, a key that cannot exist is merely one that does not.
        assert apply_patch(root, RemoveByValue(path, array(1))) == (root, ())


class Field(enum.StrEnum):
    NAME = "name"


def test_step_that_is_not_plain_text_is_refused_rather_than_stored() -> None:
    root = freeze({"name": 1})
    for op in (Replace((Field.NAME,), 2), Add((Field.NAME,), 2), Remove((Field.NAME,)), Increment((Field.NAME,), 1)):
        with pytest.raises(AddressError, match="name"):
            apply_patch(root, op)


def test_items_that_are_no_list_are_refused_by_the_decoder() -> None:
    decoder = msgspec.msgpack.Decoder(PatchOp)
    with pytest.raises(msgspec.ValidationError, match="Expected `array`"):
        decoder.decode(msgspec.msgpack.encode(["append", ["a"], 5]))


def test_siblings_of_an_edit_are_the_same_objects() -> None:
    root = freeze({"a": {"x": [1], "y": [2]}, "b": [3], "c": {"d": {}}})
    after, _ = apply_patch(root, Replace(("a", "x", 0), 9))
    for sibling in (("b",), ("c",), ("a", "y")):
        assert get(after, sibling) is get(root, sibling)
    assert root == {"a": {"x": [1], "y": [2]}, "b": [3], "c": {"d": {}}}
