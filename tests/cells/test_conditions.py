"""Comparisons of fields on their class are conditions; all mistakes with them are refused where they are made."""

import copy
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

import headwater as hw
from headwater.cells.conditions import CHOICES_MAX, Condition, Operator
from headwater.errors import DeclarationError, UsageError


class Order(hw.Doc):
    number: int
    state: str = "open"
    due: datetime | None = None


@pytest.mark.parametrize(
    ("made", "operator"),
    [
        (Order.number == 1, Operator.EQUAL),
        (Order.number != 1, Operator.NOT_EQUAL),
        (Order.number < 1, Operator.LESS),
        (Order.number <= 1, Operator.AT_MOST),
        (Order.number > 1, Operator.MORE),
        (Order.number >= 1, Operator.AT_LEAST),
    ],
    ids=str,
)
def test_comparison_on_the_class_is_a_condition(made: object, operator: Operator) -> None:
    assert isinstance(made, Condition)
    assert (made.field, made.operator, made.operands) == (vars(Order)["number"], operator, (1,))


def test_value_on_the_left_is_the_same_condition() -> None:
    made: object = Order.number > 3
    mirrored: object = 3 < Order.number  # noqa: SIM300  # the other way round is the test
    assert str(made) == str(mirrored) == "Order.number > 3"


def test_comparison_of_a_document_is_a_bool() -> None:
    app = hw.App("shop")
    with app.open("memory:"):
        assert (Order(number=1).number == 1) is True


def test_field_is_hashed_by_identity_and_found_in_containers() -> None:
    fields = [Order.number, Order.state, Order.due]
    assert len(dict.fromkeys(fields)) == 3
    assert Order.due in fields
    assert fields.index(Order.due) == 2
    assert (Order.state == Order.number) is False  # type: ignore[comparison-overlap]
    assert (Order.state != Order.number) is True  # type: ignore[comparison-overlap]


@pytest.mark.parametrize("misuse", ["and", "or", "not", "in", "chained", "if"])
def test_condition_is_neither_true_nor_false(misuse: str) -> None:
    attempts: dict[str, Callable[[], object]] = {
        "and": lambda: Order.number == 1 and Order.state == "open",
        "or": lambda: Order.number == 1 or Order.state == "open",
        "not": lambda: not Order.number == 1,  # noqa: SIM201  # as authors write it
        "in": lambda: 1 in [Order.number, Order.number],
        "chained": lambda: 1 < Order.number < 5,
        "if": lambda: "one" if Order.number == 1 else "other",
    }
    with pytest.raises(UsageError, match=r"join conditions by commas; use between\(...\) for a range") as caught:
        attempts[misuse]()
    assert caught.value.code == "HW100"


@pytest.mark.parametrize(
    ("misuse", "says"),
    [
        ("both", r"\(Order.number == 1\) & \(Order.state == 'open'\): .*commas, where\(a, b\)"),
        ("either", r"\(Order.number == 1\) \| \(Order.state == 'open'\): .*one_of\(...\) for several values of one"),
        ("one of", r"\(Order.number == 1\) \^ \(Order.state == 'open'\): .*not joined by \^"),
        ("value &", r"True & \(Order.state == 'open'\): .*not joined by &"),
        ("value |", r"True \| \(Order.state == 'open'\): .*not joined by \|"),
        ("value ^", r"True \^ \(Order.state == 'open'\): .*not joined by \^"),
        ("without brackets &", r"'open' & Order.number: .*not joined by &"),
        ("without brackets |", r"'open' \| Order.number: .*not joined by \|"),
        ("field &", r"Order.number & 1: .*not joined by &"),
        ("field |", r"Order.number \| 1: .*not joined by \|"),
        ("not equal", r"~\(Order.number == 1\): .*compare with !=, after .scan\(\)"),
        ("not less", r"~\(Order.number < 1\): .*compare with >="),
        ("not between", r"~\(Order.number.between\(1, 5\)\): .*use the opposite comparison"),
        ("within", r"'op' in Order.state: `in` makes no condition; use starts_with"),
    ],
)
def test_conditions_are_joined_by_commas_alone(misuse: str, says: str) -> None:
    """Rule 11 of queries, and the row of its failures about joined conditions: as other libraries write them."""
    number: Any = Order.number
    first: Any = Order.number == 1
    second: Any = Order.state == "open"
    attempts: dict[str, Callable[[], object]] = {
        "both": lambda: first & second,
        "either": lambda: first | second,
        "one of": lambda: first ^ second,
        "value &": lambda: True & second,
        "value |": lambda: True | second,
        "value ^": lambda: True ^ second,
        "without brackets &": lambda: Order.state == "open" & number == 1,
        "without brackets |": lambda: Order.state == "open" | number == 1,
        "field &": lambda: number & 1,
        "field |": lambda: number | 1,
        "not equal": lambda: ~first,
        "not less": lambda: ~(number < 1),
        "not between": lambda: ~hw.col(Order.number).between(1, 5),
        "within": lambda: "op" in Order.state,
    }
    with pytest.raises(UsageError, match=says) as caught:
        attempts[misuse]()
    assert caught.value.code == "HW100"


def test_none_has_no_order() -> None:
    none: object = Order.due == None  # noqa: E711  # the comparison is a condition
    assert isinstance(none, Condition)
    assert none.operator is Operator.IS_NONE
    with pytest.raises(UsageError, match="None has no order"):
        hw.col(Order.due) < None  # type: ignore[operator]  # noqa: B015
    with pytest.raises(UsageError, match="None has no order"):
        hw.col(Order.due).between(None, None)  # type: ignore[arg-type]


def test_column_has_what_operators_cannot_express() -> None:
    column = hw.col(Order.state)
    assert str(column.one_of("a", "b")) == "Order.state.one_of('a', 'b')"
    assert str(column.starts_with("a")) == "Order.state.starts_with('a')"
    assert str(hw.col(Order.number).between(1, 5)) == "Order.number.between(1, 5)"
    assert str(hw.col(Order.due).is_none()) == "Order.due.is_none()"
    assert str(column == "a") == "Order.state == 'a'"
    assert str(column != "a") == "Order.state != 'a'"
    assert str(hw.col(Order.number) <= 3) == "Order.number <= 3"
    assert hw.col(column) is column  # type: ignore[comparison-overlap, arg-type]
    assert repr(column) == "hw.col(Order.state)"
    assert len({column, hw.col(Order.number)}) == 2


def test_column_itself_is_no_condition() -> None:
    with pytest.raises(UsageError, match="compare it with a value"):
        bool(hw.col(Order.state))


@pytest.mark.parametrize("given", ["state", None, 3, Order], ids=repr)
def test_col_of_no_field_is_refused(given: object) -> None:
    with pytest.raises(DeclarationError, match=r"hw\.col takes a field of a document class") as caught:
        hw.col(given)
    assert caught.value.code == "HW110"


def test_choices_are_bounded() -> None:
    hw.col(Order.number).one_of(*range(CHOICES_MAX))
    with pytest.raises(UsageError, match="takes at most 100 values, and got 101"):
        hw.col(Order.number).one_of(*range(CHOICES_MAX + 1))


def test_prefix_is_text() -> None:
    with pytest.raises(UsageError, match="takes text, not 3"):
        hw.col(Order.state).starts_with(3)  # type: ignore[arg-type]


def test_field_is_not_compared_with_a_condition_or_a_column() -> None:
    with pytest.raises(UsageError, match="is compared with a value"):
        Order.number == hw.col(Order.number)  # type: ignore[comparison-overlap]  # noqa: B015
    with pytest.raises(UsageError, match="is compared with a value"):
        Order.number == (Order.number == 1)  # type: ignore[comparison-overlap]  # noqa: B015


def test_condition_cannot_be_changed() -> None:
    made: object = Order.number == 1
    with pytest.raises(AttributeError):
        made.operands = (2,)  # type: ignore[attr-defined]
    assert str(copy.copy(made)) == "Order.number == 1"
