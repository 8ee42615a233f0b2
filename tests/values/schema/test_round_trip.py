"""For any type that can be declared, and any value of it: what is stored is a tree, and loads as an equal value."""

# ruff: noqa: PYI061  # hints as people write them

from __future__ import annotations

import copy
from contextlib import nullcontext
from dataclasses import fields, is_dataclass, make_dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from types import GenericAlias
from typing import Annotated, Any, Literal
from uuid import UUID

import annotated_types
import msgspec
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import AfterValidator, Field

from headwater.errors import DeclarationError
from headwater.values.codec import decode, encode
from headwater.values.hints import freeze_with, infer, schema_of
from headwater.values.tree import freeze, is_link, same
from tests.values.schema.shapes import Checking, Fixed, Movie, Mutable, Note, Point
from tests.values.strategies import floats, ints, plain_values
from tests.values.widths import tiny_chunks


class Colour(Enum):
    RED = "red"
    NUMBER = 7
    PAIR = (1, 2)


Typed = tuple[Any, st.SearchStrategy[Any]]
"""A hint, and values of it."""

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)

# No zones with summer time: hours that a change of the clock left out equal nothing in another zone, says Python.
offsets = st.integers(-80_000, 80_000).map(lambda seconds: timezone(timedelta(seconds=seconds)))

scalars: st.SearchStrategy[Typed] = st.sampled_from(
    [
        (int, ints),
        (float, floats),
        (str, texts),
        (bool, st.booleans()),
        (bytes, st.binary(max_size=4)),
        (None, st.none()),
        (date, st.dates()),
        (datetime, st.datetimes(timezones=st.none() | offsets)),
        (time, st.times()),
        (timedelta, st.timedeltas()),
        (UUID, st.uuids()),
        (Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
        (Colour, st.sampled_from(Colour)),
        (Literal["a", 1, None], st.sampled_from(["a", 1, None])),
        (Any, plain_values),
        (Note, st.builds(Note, texts, st.booleans(), st.lists(texts, max_size=3))),
        (Fixed, st.builds(Fixed, texts, st.none() | st.dates(), st.lists(texts, max_size=3))),
        (Mutable, st.builds(Mutable, texts, st.lists(texts, max_size=3), st.dictionaries(texts, ints, max_size=3))),
        (Point, st.builds(Point, ints, ints, st.lists(ints, max_size=3))),
        (Movie, st.fixed_dictionaries({"title": texts}, optional={"year": ints})),
        # With rules, which these values keep.
        (Annotated[int, Field(ge=-5, lt=5)], st.integers(-5, 4)),
        (Annotated[str, msgspec.Meta(max_length=2)], texts.map(lambda text: text[:2])),
        (Annotated[list[int], annotated_types.Len(1, 3)], st.lists(ints, min_size=1, max_size=3)),
        (Annotated[float, AfterValidator(abs)], floats.map(abs)),
        (Checking, st.builds(Checking, st.integers(0, 9))),
    ]
)

keys: st.SearchStrategy[Typed] = st.sampled_from(
    [(str, texts), (int, ints), (date, st.dates()), (UUID, st.uuids()), (Literal["a", 1], st.sampled_from(["a", 1]))]
)


def list_of(item: Typed) -> Typed:
    return GenericAlias(list, item[0]), st.lists(item[1], max_size=7)


def row_of(item: Typed) -> Typed:
    return GenericAlias(tuple, (item[0], ...)), st.lists(item[1], max_size=4).map(tuple)


def tuple_of(items: list[Typed]) -> Typed:
    return GenericAlias(tuple, tuple(hint for hint, _ in items)), st.tuples(*(value for _, value in items))


def dict_of(key: Typed, item: Typed) -> Typed:
    return GenericAlias(dict, (key[0], item[0])), st.dictionaries(key[1], item[1], max_size=7)


def union_of(items: list[Typed]) -> Typed:
    hint: Any = items[0][0]
    for other, _ in items[1:]:
        hint = hint | other if hint is not None or other is not None else None
    return hint, st.one_of([value for _, value in items])


def dataclass_of(items: list[Typed], options: dict[str, bool]) -> Typed:
    cls: Any = make_dataclass("Made", [(f"f{n}", hint) for n, (hint, _) in enumerate(items)], **options)
    return cls, st.builds(cls, **{f"f{n}": value for n, (_, value) in enumerate(items)})


def struct_of(items: list[Typed]) -> Typed:
    cls: Any = msgspec.defstruct("Made", [(f"f{n}", hint) for n, (hint, _) in enumerate(items)])
    return cls, st.builds(cls, **{f"f{n}": value for n, (_, value) in enumerate(items)})


options = st.fixed_dictionaries({"frozen": st.booleans(), "slots": st.booleans()})


def grow(below: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    several = st.lists(below, min_size=1, max_size=3)
    return (
        below.map(list_of)
        | below.map(row_of)
        | several.map(tuple_of)
        | st.builds(dict_of, keys, below)
        | several.map(union_of)
        | st.builds(dataclass_of, several, options)
        | several.map(struct_of)
    )


typed = st.recursive(scalars, grow, max_leaves=6)


def plain(value: Any) -> Any:
    """A value without the difference between 1, 1.0 and True, which `==` does not see."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if is_dataclass(value):
        return [plain(getattr(value, each.name)) for each in fields(value)]
    if isinstance(value, msgspec.Struct):
        return [plain(getattr(value, name)) for name in value.__struct_fields__]
    return (type(value), value)


@given(st.data(), st.booleans())
def test_value_of_any_type_is_stored_as_a_tree_and_loads_as_an_equal_one(data: st.DataObject, tiny: bool) -> None:
    with tiny_chunks() if tiny else nullcontext():
        check(data)


def check(data: st.DataObject) -> None:
    hint, values = data.draw(typed)
    try:
        schema = schema_of(hint)
    except DeclarationError as error:
        # Unions of whatever there is often have options that look alike.
        assert "cannot be distinguished" in error.message  # noqa: PT017
        return
    value = data.draw(values)
    before = copy.deepcopy(value)
    tree = freeze_with(schema, value, "the value")
    assert same(freeze(tree), tree)
    assert same(decode(encode(tree)), tree)
    loaded = schema.load(tree, None)
    if not schema.may_hold_links:
        assert plain(loaded) == plain(value)
    assert loaded == value
    assert same(schema.store(loaded), tree)
    assert same(schema.store(schema.load(decode(encode(tree)), None)), tree)
    assert plain(value) == plain(before)


@given(scalars.flatmap(lambda each: each[1]))
def test_schema_inferred_from_a_value_takes_it(value: Any) -> None:
    schema = infer(value)
    assume(not is_link(schema.store(value)))
    assert schema.load(schema.store(value), None) == value
