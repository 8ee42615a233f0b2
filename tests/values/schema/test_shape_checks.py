"""Checks by shapes take what the types take, and look only at what has changed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.values.codec import encode
from headwater.values.hints import schema_of
from headwater.values.ids import DocKey
from headwater.values.link import link_to
from headwater.values.shape import Shapes, misfit_of
from headwater.values.shape_checks import TypeChecks, misfit_of_fields
from headwater.values.tree import ABSENT, freeze
from tests.values.schema.shapes import Node, Note
from tests.values.schema.test_shape import HINTS, Bits, Open, kept
from tests.values.strategies import plain_values

NUMBERS = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize("hint", HINTS, ids=str)
@given(tree=plain_values)
def test_a_check_takes_what_its_type_takes(hint: Any, tree: Any) -> None:
    shape, records = kept(hint)
    check, value = TypeChecks(records).of(shape), freeze(tree)
    mine = None if type(value) in check.kinds else check.misfit(ABSENT, value)
    if misfit_of(schema_of(hint), value) is None:
        # Loading ends at the first link, and says nothing about the rest.
        assert mine is None or b"link@1" in encode(value)
    elif mine is not None:
        assert misfit_of(Shapes(records).schema(shape), value) is not None


@pytest.mark.parametrize(
    ("hint", "tree", "place", "reason"),
    [
        (int, "text", (), "expected int, got str 'text'"),
        (list[int], [1, "x"], (1,), "expected int, got str 'x'"),
        (dict[str, list[int]], {"a": [1, None]}, ("a", 1), "expected int, got None"),
        (dict[int, str], {"a": "b"}, ("a",), "expected int"),
        (tuple[int, str], [1], (), "expected tuple"),
        (int | None, "x", (), "expected int or None, got str 'x'"),
        (Note, {"title": 5}, ("title",), "expected str, got int 5"),
        (Note, {}, ("title",), "it is missing; it has no default"),
        (Note, "x", (), "expected Note"),
        (Note | None, {"title": 5}, ("title",), "expected str"),
    ],
)
def test_a_misfit_has_its_place_and_its_reason(hint: Any, tree: Any, place: tuple[object, ...], reason: str) -> None:
    shape, records = kept(hint)
    found = TypeChecks(records).of(shape).misfit(ABSENT, freeze(tree))
    assert found is not None
    assert found[0] == place
    assert reason in found[1]


@pytest.mark.parametrize("hint", [hint for hint in HINTS if hint not in (Open, Bits)], ids=str)
def test_a_link_fits_everywhere(hint: Any) -> None:
    shape, records = kept(hint)
    check = TypeChecks(records).of(shape)
    assert check.misfit(ABSENT, link_to(DocKey("space/elsewhere")).to_value()) is None


def test_a_type_may_contain_itself() -> None:
    shape, records = kept(Node)
    check = TypeChecks(records).of(shape)
    good = schema_of(Node).store(Node("a", [Node("b", best=Node("c"))]))
    assert check.misfit(ABSENT, good) is None
    bad = freeze({"name": "a", "children": [{"name": "b", "best": {"name": 5}}]})
    assert check.misfit(ABSENT, bad) == (("children", 0, "best", "name"), "expected str, got int 5")


@given(st.lists(NUMBERS, max_size=6), st.lists(NUMBERS | st.text(max_size=2), max_size=6))
def test_elements_that_were_there_before_are_not_checked(before: list[int], more: list[int | str]) -> None:
    shape, records = kept(list[str])
    check = TypeChecks(records).of(shape)
    # None of the old elements fits.
    old = freeze(before)
    new = freeze([*old, *more])  # type: ignore[misc]
    wrong = [index for index, each in enumerate(more) if not isinstance(each, str)]
    found = check.misfit(old, new)
    if not wrong:
        assert found is None
    elif before or more:
        assert found is not None
        # A number that is the same object as one before may be taken for it.
        assert found[0][0] >= len(before)  # type: ignore[operator]


def test_only_fields_that_differ_are_checked() -> None:
    checks = TypeChecks(freeze({})).of_fields(freeze({"a": "int", "b": "str"}))
    before = freeze({"a": "old", "b": "x"})
    assert misfit_of_fields(checks, frozenset({"a"}), before, freeze({"a": "old", "b": "y"})) is None  # type: ignore[arg-type]
    assert misfit_of_fields(checks, frozenset(), before, freeze({"a": "old", "b": 1})) == (  # type: ignore[arg-type]
        ("b",),
        "expected str, got int 1",
    )
    assert misfit_of_fields(checks, frozenset({"a"}), before, freeze({"b": "x"})) is not None  # type: ignore[arg-type]
    assert misfit_of_fields(checks, frozenset({"a"}), freeze({"b": "x"}), freeze({"b": "y"})) is None  # type: ignore[arg-type]


def test_a_shape_of_a_later_version_takes_everything() -> None:
    later: list[Any] = ["matrix", {"matrix": 3}, {"union": ["int", {"matrix": 3}]}, 5, None, []]
    for shape in later:
        check = TypeChecks(freeze({})).of(freeze(shape))
        assert check.misfit(ABSENT, freeze({"x": [1, "y"]})) is None
