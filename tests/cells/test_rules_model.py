"""Any sequence of writes to parts of values with rules: what was refused changed nothing, what was not can be read.

The model is the plain Python value: a write is made to a copy of it, and is expected to be refused if the type refuses
that copy.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, model_validator

import headwater as hw
from headwater.errors import SchemaError
from headwater.values.hints import schema_of
from headwater.values.intake import RefusedError
from headwater.values.tree import freeze

TOP = 6


def check(low: int, high: int, steps: list[int]) -> None:
    if low > high:
        raise ValueError("low > high")
    if len(steps) > high:
        raise ValueError("too many steps")


@dataclass
class Checked:
    low: int = 0
    high: int = 3
    steps: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        check(self.low, self.high, self.steps)


class Struct(msgspec.Struct):
    low: Annotated[int, msgspec.Meta(ge=-TOP)] = 0
    high: int = 3
    steps: Annotated[list[int], msgspec.Meta(max_length=3)] = []

    def __post_init__(self) -> None:
        check(self.low, self.high, self.steps)


class Model(BaseModel):
    low: int = Field(0, ge=-TOP)
    high: int = Field(3, le=TOP)
    steps: list[Annotated[int, Field(gt=-3)]] = Field(default_factory=list, max_length=3)


class Validated(Model):
    @model_validator(mode="after")
    def all_together(self) -> Validated:
        check(self.low, self.high, self.steps)
        return self


HINTS: list[Any] = [Checked, Struct, Model, Validated]
START: dict[str, Any] = {"low": 0, "high": 3, "steps": []}


def shapes(kind: Any) -> list[tuple[Any, Any, tuple[Any, ...]]]:
    """Hints with the class in it, what is stored first, and the way to the record."""
    made = kind()
    return [
        (kind, made, ()),
        (dict[str, kind], {"a": made, "b": made}, ("a",)),
        (list[kind], [made, made], (1,)),
        (kind | None, made, ()),
        (tuple[int, kind], (1, made), (1,)),
    ]


# --- one write: to the cell, and to plain data ------------------------------------------------------------------

Step = tuple[Callable[[Any], None], Callable[[dict[str, Any]], None]]
numbers = st.integers(-TOP - 2, TOP + 2)
fields = st.sampled_from(["low", "high"])


def written(name: str, value: int) -> Step:
    return lambda at: setattr(at(name), "value", value), lambda data: data.update({name: value})


def counted(name: str, by: int) -> Step:
    return lambda at: at(name).increment(by), lambda data: data.update({name: data[name] + by})


def appended(items: list[int]) -> Step:
    return lambda at: at("steps").extend(items), lambda data: data["steps"].extend(items)


def removed(item: int) -> Step:
    def remove(data: dict[str, Any]) -> None:
        data["steps"] = [each for each in data["steps"] if each != item]

    return lambda at: at("steps").remove(item), remove


def put(index: int, item: int) -> Step:
    def change(data: dict[str, Any]) -> None:
        data["steps"].insert(index, item)

    return lambda at: at("steps").insert(index, item), change


steps: st.SearchStrategy[Step] = st.one_of(
    st.builds(written, fields, numbers),
    st.builds(counted, fields, numbers),
    st.builds(appended, st.lists(numbers, max_size=2)),
    st.builds(removed, numbers),
    st.builds(put, st.integers(0, 2), numbers),
)


def is_fine(kind: Any, data: dict[str, Any]) -> bool:
    try:
        schema_of(kind).load(freeze(data), None)
    except RefusedError:
        return False
    return True


@given(st.sampled_from(HINTS), st.integers(0, 4), st.lists(st.tuples(steps, st.booleans()), max_size=6))
def test_what_is_stored_can_always_be_read(kind: Any, shape: int, acts: list[tuple[Step, bool]]) -> None:
    hint, start, way = shapes(kind)[shape]
    app = hw.App("t")
    cell: hw.Cell[Any] = app.cell("cell", start, type=hint)
    data = deepcopy(START)

    def at(name: str) -> hw.Cell[Any]:
        return cell.at(*way, name)

    with app.open("memory:") as space:
        for (do, model), in_transaction in acts:
            after = deepcopy(data)
            model(after)
            refused = False
            try:
                if in_transaction:
                    with space.transaction():
                        do(at)
                else:
                    do(at)
            except SchemaError:
                refused = True
            assert refused == (not is_fine(kind, after)), (data, after)
            data = data if refused else after
            value = cell.value
            for step in way:
                value = value[step]
            assert {name: getattr(value, name) for name in START} == data
