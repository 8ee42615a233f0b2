"""Queries against plain Python: random documents, conditions, orders, limits, own writes, and pages meanwhile."""

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater.errors import QueryError
from headwater.values.ids import DocId
from headwater.values.sortkey import encode_id

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


class Row(hw.Doc):
    number: int
    a: int = 0
    b: str = ""
    c: float | None = None
    at: datetime | None = None


app = hw.App("model")
table = app.collection(
    Row,
    indexes=[Row.a, (Row.a, Row.b), (Row.b, Row.a), (Row.a, Row.c), Row.c, Row.at, (Row.b, Row.at, Row.a)],
    totals=[hw.total(Row.c), hw.total(Row.number, by=Row.b), hw.total(Row.c, by=(Row.b, Row.a)), hw.total(by=Row.at)],
)

VALUES: dict[str, list[Any]] = {
    "a": [-(2**40), -1, 0, 1, 2],
    "b": ["", "a", "a\0", "ab", "b", "ä"],
    "c": [None, -1.5, 0.0, 1.0, 1e300],
    "at": [None, *(NOON.astimezone(timezone(timedelta(hours=h))) + timedelta(hours=d) for h in (0, 5) for d in (0, 1))],
}

rows = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in VALUES.items()})

Test = Callable[[dict[str, Any]], bool]


@st.composite
def conditions(draw: st.DrawFn) -> tuple[Any, Test]:
    name = draw(st.sampled_from(sorted(VALUES)))
    field = hw.col(getattr(Row, name))
    some = [value for value in VALUES[name] if value is not None]
    one, other = draw(st.sampled_from(some)), draw(st.sampled_from(some))
    any_one = draw(st.sampled_from(VALUES[name]))
    kinds: dict[str, tuple[Any, Test]] = {
        "==": (field == one, lambda row: row[name] == one),
        "<": (field < one, lambda row: row[name] is not None and row[name] < one),
        "<=": (field <= one, lambda row: row[name] is not None and row[name] <= one),
        ">": (field > one, lambda row: row[name] is not None and row[name] > one),
        ">=": (field >= one, lambda row: row[name] is not None and row[name] >= one),
        "between": (field.between(one, other), lambda row: row[name] is not None and one <= row[name] <= other),
        "one_of": (field.one_of(one, any_one), lambda row: row[name] in (one, any_one)),
        "is_none": (field.is_none(), lambda row: row[name] is None),
        "!=": (field != one, lambda row: row[name] != one),
    }
    if name == "b":
        kinds["starts"] = (field.starts_with(one), lambda row: row[name].startswith(one))
    return kinds[draw(st.sampled_from(sorted(kinds)))]


def key_of(row: dict[str, Any], order: list[str]) -> list[Any]:
    return [(row[name] is not None, row[name]) if row[name] is not None else (False,) for name in order]


@st.composite
def asked(draw: st.DrawFn) -> tuple[list[tuple[Any, Test]], list[str], bool, int | None]:
    order = draw(st.lists(st.sampled_from(sorted(VALUES)), max_size=2, unique=True))
    limit = draw(st.none() | st.integers(0, 6))
    return draw(st.lists(conditions(), max_size=3)), order, draw(st.booleans()), limit


def described(question: tuple[list[tuple[Any, Test]], list[str], bool, int | None]) -> hw.Query[Row]:
    tests, order, descending, limit = question
    query: hw.Query[Row] = table.where(*[condition for condition, _ in tests])
    if order:
        query = query.order_by(*[getattr(Row, name) for name in order], descending=descending)
    return query if limit is None else query.limit(limit)


@given(st.lists(rows, max_size=14), st.lists(asked(), min_size=1, max_size=6), st.lists(rows, max_size=3))
def test_every_answer_is_that_of_plain_python(
    stored: list[dict[str, Any]],
    questions: list[tuple[list[tuple[Any, Test]], list[str], bool, int | None]],
    written: list[dict[str, Any]],
) -> None:
    with app.open("memory:") as space:
        model = dict(enumerate(stored))
        table.insert_many({"number": number, **row} for number, row in model.items())
        check_totals(model)
        for question in questions:
            check(question, model)
        with space.transaction():
            check_totals(model)
            for at, row in enumerate(written):
                model[100 + at] = row
                Row(number=100 + at, **row)
            for number in [number for number in model if number % 3 == 1]:
                del model[number]
                hw.delete(next(each for each in table if each.number == number))
            for number in [number for number in model if number % 3 == 2]:
                model[number] = {**model[number], "a": 1, "c": None}
                changed = next(each for each in table if each.number == number)
                changed.a, changed.c = 1, None
            check_totals(model)
            for question in questions:
                check(question, model)
        check_totals(model)
        for question in questions:
            check(question, model)


def check(
    question: tuple[list[tuple[Any, Test]], list[str], bool, int | None], model: dict[int, dict[str, Any]]
) -> None:
    tests, order, descending, limit = question
    query = described(question)
    expected = [number for number, row in model.items() if all(test(row) for _, test in tests)]
    for asked_query in (query, query.scan()):
        try:
            found = [row.number for row in asked_query]
        except QueryError:
            assert asked_query is query
            continue
        assert len(found) == len(set(found)) == len(expected if limit is None else expected[:limit])
        assert set(found) <= set(expected)
        if order:
            places = [key_of(model[number], order) for number in found]
            best = sorted((key_of(model[number], order) for number in expected), reverse=descending)
            assert places == best[: len(places)]
        assert asked_query.values(Row.number) == found
        assert len(asked_query.ids()) == asked_query.count() == len(found)
        assert asked_query.exists() is bool(found)
    everything = described((tests, [], False, None)).scan()
    assert everything.sum(Row.a) == sum(model[number]["a"] for number in expected)
    held = [model[number]["c"] for number in expected if model[number]["c"] is not None]
    assert everything.max(Row.c) == max(held, default=None)
    assert everything.min(Row.c) == min(held, default=None)
    groups: dict[str, int] = {}
    for number in expected:
        groups[model[number]["b"]] = groups.get(model[number]["b"], 0) + 1
    assert everything.group_by(Row.b).count() == groups
    assert everything.distinct(Row.b) == sorted(groups)


def check_totals(model: dict[int, dict[str, Any]]) -> None:
    """Every question that a declared total answers."""

    def numbers(**of: object) -> list[int]:
        return [number for number, row in model.items() if all(row[name] == value for name, value in of.items())]

    def exact(found: list[int]) -> float:
        return math.fsum(model[number]["c"] or 0.0 for number in found)

    assert table.sum(Row.c) == exact(numbers())
    assert table.count() == len(model)
    texts, ints = sorted({row["b"] for row in model.values()}), sorted({row["a"] for row in model.values()})
    assert table.group_by(Row.b).sum(Row.number) == {b: sum(numbers(b=b)) for b in texts}
    assert table.group_by(Row.b).count() == {b: len(numbers(b=b)) for b in texts}
    instants = {row["at"] for row in model.values()}
    assert table.group_by(Row.at).count() == {at: len(numbers(at=at)) for at in instants}
    for b in VALUES["b"]:
        here = table.where(Row.b == b)
        assert here.sum(Row.number) == sum(numbers(b=b))
        assert here.count() == len(numbers(b=b))
        assert here.group_by(Row.a).sum(Row.c) == {a: exact(numbers(a=a, b=b)) for a in ints if numbers(a=a, b=b)}
    for a in VALUES["a"]:
        both = table.where(Row.a == a, Row.b == "a")
        assert both.sum(Row.c) == exact(numbers(a=a, b="a"))
        assert table.where(Row.a == a).group_by(Row.b).sum(Row.c) == {
            b: exact(numbers(a=a, b=b)) for b in texts if numbers(a=a, b=b)
        }


@given(
    st.lists(st.integers(0, 30), max_size=20),
    st.lists(st.tuples(st.sampled_from(["add", "delete", "move"]), st.integers(0, 30)), max_size=12),
    st.integers(1, 5),
    st.booleans(),
)
def test_pages_of_a_collection_that_changes_meanwhile(
    first: list[int], changes: list[tuple[str, int]], size: int, descending: bool
) -> None:
    """Each page is what a fresh query finds behind the last document of the page before it."""
    with app.open("memory:"):
        table.insert_many({"number": number, "a": value} for number, value in enumerate(first))
        query = table.order_by(Row.a, descending=descending)
        after, last = None, None
        left = list(changes)
        for _ in range(60):
            page = query.page(size, after=after)
            rest = [(row.a, encode_id(DocId(hw.id_of(row)))) for row in query]
            if last is not None:
                rest = [each for each in rest if (each < last if descending else each > last)]
            assert [(row.a, encode_id(DocId(hw.id_of(row)))) for row in page.items] == rest[:size]
            assert (page.next is None) == (len(rest) <= size)
            if page.next is None:
                break
            after, last = page.next, rest[size - 1]
            for what, value in left[:2]:
                if what == "add":
                    Row(number=-1, a=value)
                elif what == "delete":
                    table.where(Row.a == value).delete()
                elif (moved := table.where(Row.a >= value).order_by(Row.a).first()) is not None:
                    moved.a = 30 - value
            left = left[2:]
