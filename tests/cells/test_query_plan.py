"""One fixed rule picks the index of a query; a query that none serves is refused, with the declaration to add."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from itertools import permutations
from typing import Any, Literal
from uuid import UUID

import pytest

import headwater as hw
from headwater.cells.conditions import Condition
from headwater.cells.indexed_fields import OrderedField, field_of
from headwater.cells.query_plan import QueryPlan, Wanted, by_field, planned
from headwater.errors import DeclarationError, QueryError, SchemaError, UsageError
from headwater.store.collection_record import BY_ID, Index, NamedIndex
from headwater.values.sortkey import AFTER, encode_field
from headwater.values.tree import freeze


class Color(Enum):
    RED = "r"


class Person(hw.Doc):
    name: str


class Order(hw.Doc):
    a: int
    b: int = 0
    c: str = ""
    d: float = 0.0
    e: datetime | None = None
    f: bool = False


def of(name: str) -> OrderedField:
    return OrderedField(field_of(Order, getattr(Order, name), "a test"))


def index(names: str, *, unique: bool = False) -> NamedIndex:
    made = Index(tuple(of(name).stored for name in names), unique)
    return NamedIndex(made.name("order"), made)


def plan(
    indexes: list[str],
    conditions: Sequence[Any] = (),
    order: str = "",
    *,
    scan: bool = False,
    prefix: bytes = b"",
) -> QueryPlan:
    tests = by_field([(of(each.field.name), each) for each in conditions])
    wanted = Wanted(tests, tuple(of(name) for name in order), prefix, scan)
    return planned(wanted, [NamedIndex(BY_ID.name("order"), BY_ID), *map(index, indexes)], "the query", "Order")


def chosen(*args: Any, **kwargs: Any) -> str:
    return "".join(field.name for field in plan(*args, **kwargs).named.index.fields)


def test_query_of_everything_uses_the_order_by_id() -> None:
    found = plan(["a", "ab"])
    assert found.named.name == "order#"
    assert [tuple(span) for span in found.spans] == [(b"", AFTER, 0)]


def test_fields_compared_for_equality_are_the_first_in_any_order() -> None:
    for first, second in permutations([Order.a == 1, Order.b == 2]):
        assert chosen(["ac", "ab", "bac"], [first, second]) == "ab"
        assert chosen(["bac"], [first, second]) == "bac"
        with pytest.raises(QueryError):
            plan(["acb", "a", "b"], [first, second])


def test_range_follows_the_fields_that_are_compared_for_equality() -> None:
    assert chosen(["ba", "ab", "abc"], [Order.a == 1, Order.b > 2]) == "ab"
    assert chosen(["bac"], [Order.b > 2]) == "bac"
    with pytest.raises(QueryError):
        plan(["ab"], [Order.b > 2])


def test_order_follows_equality_and_range() -> None:
    assert chosen(["abc", "acb", "ab"], [Order.a == 1], "bc") == "abc"
    assert chosen(["abc"], [Order.a == 1, Order.b > 1], "bc") == "abc"
    assert chosen(["abc"], [], "ab") == "abc"
    with pytest.raises(QueryError):
        plan(["abc"], [Order.a == 1], "c")


def test_field_with_one_value_does_not_count_in_the_order() -> None:
    assert chosen(["abc"], [Order.a == 1], "ab") == "abc"
    assert chosen(["abc"], [Order.a == 1, Order.b == 2], "bca") == "abc"


def test_fewest_fields_win_then_the_name() -> None:
    assert chosen(["abc", "ab", "ac"], [Order.a == 1]) == "ab"
    assert chosen(["ac", "a", "ab"], [Order.a == 1]) == "a"


def test_equality_is_the_span_of_its_bytes() -> None:
    (span,) = plan(["ab"], [Order.a == 1, Order.b == 2]).spans
    whole = encode_field(1) + encode_field(2)
    assert (span.lo, span.hi) == (whole, whole + AFTER)


@pytest.mark.parametrize(
    ("condition", "inside", "outside"),
    [
        (Order.a < 5, [-9, 4], [5, 6]),
        (Order.a <= 5, [4, 5], [6]),
        (Order.a > 5, [6, 2**63], [5, 4]),
        (Order.a >= 5, [5, 6], [4]),
        (hw.col(Order.a).between(3, 5), [3, 4, 5], [2, 6]),
        (hw.col(Order.a).between(5, 3), [], [3, 4, 5]),
        (hw.col(Order.c).starts_with("an"), ["an", "anna", "an\0", "an\U0010ffff"], ["am", "ao", "A", ""]),
        (hw.col(Order.c).starts_with(""), ["", "z"], []),
        (Order.c < "b", ["", "a", "a\0z"], ["b", "c"]),
        (Order.d > 0, [0.5, 1e300], [0.0, -1.0]),
        (Order.f >= True, [True], [False]),
        (Order.f <= False, [False], [True]),
    ],
    ids=str,
)
def test_range_has_the_values_of_its_type_that_meet_it(
    condition: Condition, inside: list[Any], outside: list[Any]
) -> None:
    (test,) = by_field([(of(condition.field.name), condition)]).values()
    for value in inside:
        assert test.holds(freeze({condition.field.name: value})), value
    for value in [*outside, None, b"x", [1]]:
        assert not test.holds(freeze({condition.field.name: value})), value


def test_comparison_stays_within_the_type_of_the_field() -> None:
    (test,) = by_field([(of("a"), Order.a < 5)]).values()  # type: ignore[list-item]
    assert not any(test.holds(freeze({"a": value})) for value in (1.0, True, "1", None, b"", [0]))


def test_instants_are_compared_whatever_their_offset() -> None:
    noon = datetime(2026, 5, 1, 12, tzinfo=UTC)
    (test,) = by_field([(of("e"), hw.col(Order.e) <= noon)]).values()
    there = noon.astimezone(timezone(timedelta(hours=9)))
    assert test.holds(freeze({"e": there.isoformat()}))
    assert not test.holds(freeze({"e": (there + timedelta(microseconds=1)).isoformat()}))
    assert not test.holds(freeze({"e": "2020-01-01T00:00:00"}))
    assert not test.holds(freeze({}))


def test_absent_field_counts_as_its_default() -> None:
    (test,) = by_field([(of("b"), Order.b == 0)]).values()  # type: ignore[list-item]
    assert test.holds(freeze({}))
    assert not test.holds(freeze({"b": 1}))


def test_several_conditions_on_one_field_are_all_met() -> None:
    (span,) = plan(["a"], [Order.a >= 2, Order.a < 5, Order.a > 2]).spans
    assert (span.lo, span.hi) == (encode_field(2) + AFTER, encode_field(5))
    assert plan(["a"], [Order.a > 5, Order.a < 2]).spans == ()
    assert plan(["a"], [Order.a == 1, Order.a == 2]).spans == ()
    assert len(plan(["a"], [hw.col(Order.a).one_of(1, 2, 3), Order.a > 1]).spans) == 2


def test_one_of_is_a_span_for_each_value() -> None:
    spans = plan(["ab"], [hw.col(Order.a).one_of(3, 1, 1), Order.b == 2]).spans
    assert [span.lo for span in spans] == [encode_field(value) + encode_field(2) for value in (1, 3)]
    assert plan(["a"], [hw.col(Order.a).one_of()]).spans == ()


def test_spans_of_one_of_are_merged_by_the_order() -> None:
    spans = plan(["abc"], [hw.col(Order.a).one_of(1, 2)], "b").spans
    assert {span.offset for span in spans} == {len(encode_field(1))}
    assert {span.offset for span in plan(["abc"], [hw.col(Order.a).one_of(1, 2)], "ab").spans} == {0}
    assert {span.offset for span in plan(["abc"], [hw.col(Order.a).one_of(1, 2)]).spans} == {0}


def test_combinations_of_several_one_of_are_bounded() -> None:
    ten, eleven = hw.col(Order.a).one_of(*range(10)), hw.col(Order.b).one_of(*range(11))
    assert len(plan(["ab"], [ten, hw.col(Order.b).one_of(*range(10))]).spans) == 100
    with pytest.raises(UsageError, match=r"make 110 spans of index order#a,b.*100 are merged at most"):
        plan(["ab"], [ten, eleven])


def test_spans_begin_with_the_user() -> None:
    (span,) = plan(["a"], [Order.a == 1], prefix=b"user").spans
    assert (span.lo, span.offset) == (b"user" + encode_field(1), 4)
    (span,) = plan(["a"], prefix=b"user").spans
    assert (span.lo, span.hi) == (b"user", b"user" + AFTER)


@pytest.mark.parametrize(
    ("conditions", "order", "declaration"),
    [
        ([Order.c == ""], "", "indexes=[Order.c]"),
        ([Order.c == "", Order.d > 1], "", "indexes=[(Order.c, Order.d)]"),
        ([Order.d > 1, Order.c == ""], "", "indexes=[(Order.c, Order.d)]"),
        ([Order.c == ""], "da", "indexes=[(Order.c, Order.d, Order.a)]"),
        ([Order.d > 1], "da", "indexes=[(Order.d, Order.a)]"),
        ([], "d", "indexes=[Order.d]"),
    ],
)
def test_refusal_has_the_declaration_to_add_and_that_serves(
    conditions: list[Any], order: str, declaration: str
) -> None:
    with pytest.raises(QueryError) as caught:
        plan(["ab"], conditions, order)
    assert declaration in caught.value.message
    assert ".scan()" in caught.value.message
    assert caught.value.code == "HW120"
    added = "".join(caught.value.facts["index"])
    assert chosen(["ab", added], conditions, order) == added


@pytest.mark.parametrize(
    ("conditions", "order", "reason"),
    [
        ([Order.a > 1, Order.b > 1], "", "one range, and there are ranges of Order.a and Order.b"),
        ([Order.a > 1], "b", "a range of Order.a and an order by Order.b"),
        ([Order.a == 1, Order.b == 1, Order.c == "", Order.d == 0.0, Order.f == True], "", "compares 5 fields"),  # noqa: E712
    ],
)
def test_what_no_index_serves_is_said(conditions: list[Any], order: str, reason: str) -> None:
    with pytest.raises(QueryError) as caught:
        plan(["ab", "ba"], conditions, order)
    assert reason in caught.value.message
    assert "Add .scan()" in caught.value.message
    plan(["ab", "ba"], conditions, order, scan=True)


def test_scan_uses_the_index_that_serves_most_conditions() -> None:
    found = plan(["a", "ab", "cab"], [Order.a == 1, Order.b > 2, Order.d == 0.5], scan=True)
    assert found.named.name.startswith("order#a,b")
    assert [test.field.name for test in found.rest] == ["d"]
    assert plan(["a"], [Order.d == 0.5], scan=True).named.name == "order#"


def test_scan_sorts_only_if_the_index_has_another_order() -> None:
    assert plan(["ab"], [Order.a == 1], "b", scan=True).sort == ()
    assert [each.name for each in plan(["ab"], [Order.a == 1], "c", scan=True).sort] == ["c"]
    assert plan(["ab", "cd"], [Order.d == 0.5], "c", scan=True).sort == ()


def test_operand_of_another_type_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"a condition on Order\.a: expected int, got str '1'"):
        plan(["a"], [Order.a == "1"])  # type: ignore[comparison-overlap]
    with pytest.raises(UsageError, match="a prefix is of text, and the field is int"):
        plan(["a"], [hw.col(Order.a).starts_with("1")])  # type: ignore[misc]
    with pytest.raises(UsageError, match="a prefix has at most 512 bytes"):
        plan(["c"], [hw.col(Order.c).starts_with("x" * 513)])


# --- which fields have an order -------------------------------------------------------------------------------


class Many(hw.Doc):
    text: str
    number: int
    ratio: float
    flag: bool
    raw: bytes
    day: date
    moment: time
    stamp: datetime
    length: timedelta
    key: UUID
    color: Color
    level: Literal["low", "high"]
    person: hw.Link[Person]
    nobody: hw.Link[Person | None] = hw.Link()
    maybe: int | None = None
    price: Decimal = Decimal(0)
    tags: list[str] = []  # noqa: RUF012  # the default of a field
    things: hw.List[str] = hw.List()
    either: int | str = 0
    none: None = None


FORMS = {
    "text": "plain",
    "number": "plain",
    "ratio": "float",
    "flag": "plain",
    "raw": "plain",
    "day": "plain",
    "moment": "plain",
    "stamp": "instant",
    "length": "duration",
    "key": "plain",
    "color": "plain",
    "level": "plain",
    "person": "link",
    "nobody": "link",
    "maybe": "plain",
}


@pytest.mark.parametrize("name", FORMS)
def test_type_has_an_order(name: str) -> None:
    assert OrderedField(field_of(Many, getattr(Many, name), "a test")).stored.form == FORMS[name]


@pytest.mark.parametrize("name", ["price", "tags", "things", "either", "none"])
def test_type_without_an_order_is_refused(name: str) -> None:
    with pytest.raises(DeclarationError, match=rf"Many\.{name} is .*, which has no order; .*datetime") as caught:
        OrderedField(field_of(Many, getattr(Many, name), "a test"))
    assert caught.value.code == "HW110"


def test_order_of_durations_is_that_of_their_length() -> None:
    length = OrderedField(field_of(Many, Many.length, "a test"))
    told = [timedelta(days=-1), timedelta(0), timedelta(seconds=9), timedelta(minutes=1), timedelta(days=40)]
    encoded = [length.encoded(each) for each in told]
    assert encoded == sorted(encoded)
    ordered = length.stored.ordered("P40D")
    assert length.loaded(ordered) == timedelta(days=40)


def test_field_of_another_class_is_refused_with_the_fields_there_are() -> None:
    class Twin(hw.Doc):
        name: str

    for given in (Twin.name, "name", Person.__init__, None, 3):
        with pytest.raises(DeclarationError, match=r"is no field of Person; its fields are Person\.name"):
            field_of(Person, given, "a test")
    assert field_of(Person, hw.col(Person.name), "a test") is vars(Person)["name"]


def test_inherited_field_may_be_named_by_either_class() -> None:
    class Employee(Person):
        name: str = "new"
        pay: int = 0

    own = field_of(Employee, Employee.name, "a test")
    assert field_of(Employee, Person.name, "a test") is own
    with pytest.raises(DeclarationError, match="is no field of Person"):
        field_of(Person, Employee.pay, "a test")
