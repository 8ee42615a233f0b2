"""What has no parts: one look at the type, both ways."""

# ruff: noqa: DTZ001  # times without a zone are values, too

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Any
from uuid import UUID

import pytest

from headwater.values.hints import schema_of
from headwater.values.intake import RefusedError
from headwater.values.link import LinkRecord
from headwater.values.schema import LinkFound, short
from headwater.values.tree import freeze, same
from headwater.values.value_limits import INT_MAX, INT_MIN


class Shout(str):
    __slots__ = ()

    def __str__(self) -> str:
        return self.upper()


class Number(int):
    pass


class Ratio(float):
    pass


class Level(IntEnum):
    LOW = 1


class Colour(StrEnum):
    RED = "red"


class Moment(datetime):
    pass


class Span(timedelta):
    pass


ODD_ZONE = timezone(timedelta(minutes=-16, seconds=-8))

FITTING: list[tuple[Any, Any, Any, Any]] = [
    (int, 5, 5, 5),
    (int, INT_MAX, INT_MAX, INT_MAX),
    (int, INT_MIN, INT_MIN, INT_MIN),
    (int, Number(7), 7, 7),
    (int, Level.LOW, 1, 1),
    (float, 1.5, 1.5, 1.5),
    (float, 2, 2.0, 2.0),
    (float, Ratio(2.5), 2.5, 2.5),
    (str, "é", "é", "é"),
    (str, Shout("quiet"), "quiet", "quiet"),
    (str, Colour.RED, "red", "red"),
    (bytes, b"\0", b"\0", b"\0"),
    (bytes, bytearray(b"ab"), b"ab", b"ab"),
    (bytes, memoryview(b"ab"), b"ab", b"ab"),
    (bool, True, True, True),
    (None, None, None, None),
    (datetime, datetime(2024, 5, 6, 7, 8, 9, 10), "2024-05-06T07:08:09.000010", datetime(2024, 5, 6, 7, 8, 9, 10)),
    (datetime, datetime(2024, 5, 6, tzinfo=UTC), "2024-05-06T00:00:00+00:00", datetime(2024, 5, 6, tzinfo=UTC)),
    (datetime, Moment(2024, 5, 6), "2024-05-06T00:00:00", datetime(2024, 5, 6)),
    (
        datetime,
        datetime(1912, 1, 1, tzinfo=ODD_ZONE),
        "1912-01-01T00:00:00-00:16:08",
        datetime(1912, 1, 1, tzinfo=ODD_ZONE),
    ),
    (date, date(2024, 5, 6), "2024-05-06", date(2024, 5, 6)),
    (time, time(7, 8), "07:08:00", time(7, 8)),
    (timedelta, timedelta(days=1, seconds=2), "P1DT2S", timedelta(days=1, seconds=2)),
    (timedelta, Span(seconds=-2), "-PT2S", timedelta(seconds=-2)),
    (UUID, UUID(int=5), "00000000-0000-0000-0000-000000000005", UUID(int=5)),
    (Decimal, Decimal("1.10"), "1.10", Decimal("1.10")),
]


@pytest.mark.parametrize(("hint", "value", "stored", "loaded"), FITTING)
def test_value_is_stored_in_its_plain_form_and_loads_as_its_type(
    hint: Any, value: Any, stored: Any, loaded: Any
) -> None:
    schema = schema_of(hint)
    tree = schema.store(value)
    assert same(tree, stored)
    back = schema.load(tree, None)
    assert back == loaded
    assert type(back) is type(loaded)
    assert str(back) == str(loaded)


REFUSED: list[tuple[Any, Any, str]] = [
    (int, True, "expected int, got bool True"),
    (int, 1.0, "expected int, got float 1.0"),
    (int, "abc", "expected int, got str 'abc'"),
    (int, None, "expected int, got None"),
    (int, INT_MAX + 1, "an integer beyond 64 bits; store it as text or bytes"),
    (int, INT_MIN - 1, "an integer beyond 64 bits; store it as text or bytes"),
    (float, False, "expected float, got bool False"),
    (float, "1", "expected float, got str '1'"),
    (float, float("nan"), "nan is not a number that JSON has; use None or text"),
    (float, float("-inf"), "-inf is not a number that JSON has; use None or text"),
    (float, 10**400, "expected float, got int of 1329 bits"),
    (str, 5, "expected str, got int 5"),
    (str, b"x", "expected str, got bytes b'x'"),
    (str, "\ud800", "the text holds a lone surrogate (U+D800 at 0), which UTF-8 cannot carry"),
    (bytes, "x", "expected bytes, got str 'x'"),
    (bool, 1, "expected bool, got int 1"),
    (None, 0, "expected None, got int 0"),
    (date, datetime(2024, 5, 6), "expected date, got datetime.datetime(2024, 5, 6, 0, 0)"),
    (datetime, date(2024, 5, 6), "expected datetime, got datetime.date(2024, 5, 6)"),
    (datetime, "2024-05-06", "expected datetime, got str '2024-05-06'"),
    (Decimal, Decimal("NaN"), "Decimal('NaN') is not a number; use None"),
    (Decimal, 1.5, "expected Decimal, got float 1.5"),
]


@pytest.mark.parametrize(("hint", "value", "reason"), REFUSED)
def test_value_of_another_type_is_refused(hint: Any, value: Any, reason: str) -> None:
    with pytest.raises(RefusedError) as caught:
        schema_of(hint).store(value)
    assert caught.value.reason == reason
    assert caught.value.steps == []


MISFITS: list[tuple[Any, Any, str]] = [
    (int, True, "expected int, got bool True"),
    (int, 1.0, "expected int, got float 1.0"),
    (float, "1", "expected float, got str '1'"),
    (float, True, "expected float, got bool True"),
    (str, 1, "expected str, got int 1"),
    (bytes, "x", "expected bytes, got str 'x'"),
    (bool, 0, "expected bool, got int 0"),
    (None, False, "expected None, got bool False"),
    (datetime, 5, "expected datetime, got int 5"),
    (datetime, "soon", "expected datetime, got str 'soon'"),
    (timedelta, "long", "expected timedelta, got str 'long'"),
    (UUID, "x", "expected UUID, got str 'x'"),
    (Decimal, "x", "expected Decimal, got str 'x'"),
    (int, {}, "expected int, got FrozenDict of 0 items"),
]


@pytest.mark.parametrize(("hint", "tree", "reason"), MISFITS)
def test_stored_value_of_another_type_is_found(hint: Any, tree: Any, reason: str) -> None:
    with pytest.raises(RefusedError) as caught:
        schema_of(hint).load(freeze(tree), None)
    assert caught.value.reason == reason


@pytest.mark.parametrize("hint", [int, float, str, bytes, bool, None, datetime])
def test_link_is_met_where_a_scalar_is_expected(hint: Any) -> None:
    with pytest.raises(LinkFound) as caught:
        schema_of(hint).load(LinkRecord(path=("a",)).to_value(), None)
    assert caught.value.steps == []


def test_int_that_was_stored_where_a_float_is_declared_loads_as_float() -> None:
    assert same(schema_of(float).load(3, None), 3.0)  # type: ignore[arg-type]


def test_scalar_has_no_parts() -> None:
    for hint in (int, float, str, bytes, bool, None, datetime):
        schema = schema_of(hint)
        assert schema.child("a") is None
        assert schema.child(0) is None
        assert not schema.field_default("a")
        assert not schema.has_handles
        assert not schema.may_hold_links
        assert list(schema.handle_steps()) == []


def test_scalar_has_no_keys() -> None:
    with pytest.raises(RefusedError):
        schema_of(int).store_key("a")
    with pytest.raises(RefusedError):
        schema_of(int).load_key("a")


# --- how values are shown -------------------------------------------------------------------------------------


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError


class Chatty:
    def __repr__(self) -> str:
        return "Chatty(\n  " + "x" * 100 + ")"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        (True, "bool True"),
        ("x" * 1000, "str '" + "x" * 60 + "'..."),
        (b"x" * 1000, "bytes b'" + "x" * 60 + "'..."),
        (10**4000, "int of 13288 bits"),
        (-5, "int -5"),
        ([1], "list of 1 item"),
        ({}, "dict of 0 items"),
        ((1, 2), "tuple of 2 items"),
        (freeze(list(range(600))), "ChunkedList of 600 items"),
        (freeze({str(n): n for n in range(600)}), "ChunkedMap of 600 items"),
        (Broken(), "Broken"),
        (Chatty(), "Chatty( " + "x" * 52 + "..."),
        (Colour.RED, "Colour 'red'"),
        ({1, 2}, "set {1, 2}"),
    ],
)
def test_message_shows_the_type_and_the_beginning_of_any_value(value: Any, text: str) -> None:
    assert short(value) == text
