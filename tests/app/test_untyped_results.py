"""Results without a type come back as they were returned, or are refused with the type to write."""

from __future__ import annotations

from typing import Any

import pytest

import headwater as hw
from headwater.errors import SchemaError


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ((1, "a"), "tuple[int, str]"),
        ((), "tuple[Any, ...]"),
        ((1, 2, 3, 4, 5), "tuple[int, ...]"),
        ([("a", 1), ("b", 2)], "list[tuple[str, int]]"),
        ({"a": (1, None)}, "dict[str, tuple[int, None]]"),
        ({1: "a"}, "dict[int, str]"),
        ([{"x": {2: [True]}}], "list[dict[str, dict[int, list[bool]]]]"),
    ],
)
def test_what_would_be_read_otherwise_is_refused_with_its_type(value: Any, hint: str) -> None:
    app = hw.App("t")

    @app.computed
    def pair():  # type: ignore[no-untyped-def]  # noqa: ANN202  # as many programs are written
        return value

    with app.open("memory:"):
        with pytest.raises(SchemaError) as caught:
            pair()
        assert f"def pair(...) -> {hint}" in caught.value.message


@pytest.mark.parametrize("value", [1, "a", None, [1, [2]], {"a": {"b": [None]}}, [], {}])
def test_what_is_read_as_it_was_returned_needs_no_type(value: Any) -> None:
    app = hw.App("t")

    @app.computed
    def same():  # type: ignore[no-untyped-def]  # noqa: ANN202
        return value

    with app.open("memory:"):
        assert same() == value


def test_with_the_type_it_is_what_was_returned() -> None:
    app = hw.App("t")

    @app.computed
    def pair() -> tuple[int, str]:
        return 1, "a"

    @app.computed
    def names() -> dict[int, str]:
        return {1: "a"}

    @app.computed
    def anything() -> Any:
        return 1, 2

    with app.open("memory:"):
        assert pair() == (1, "a")
        assert names() == {1: "a"}
        # With Any the result is what the file holds.
        assert anything() == [1, 2]


def test_a_cell_has_the_type_of_its_default() -> None:
    app = hw.App("t")
    pair = app.cell("pair", (1, 2))
    names = app.cell("names", {1: "a"})
    with app.open("memory:"):
        assert pair.value == (1, 2)
        assert names.value == {1: "a"}
        pair.value = (3, 4)
        names.value = {2: "b"}
        assert (pair.value, names.value) == ((3, 4), {2: "b"})


def test_several_of_an_element_may_be_in_a_tuple() -> None:
    app = hw.App("t")
    numbers = app.cell("numbers", [1, 2])
    both = app.flat_each(numbers, lambda number: (number, -number), name="both")
    pairs = app.each(numbers, lambda number: (number, -number), name="pairs")
    with app.open("memory:"):
        assert list(both()) == [1, -1, 2, -2]
        with pytest.raises(SchemaError, match=r"-> tuple\[int, int\]"):
            list(pairs())
