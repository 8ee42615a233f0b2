"""What queries return, and what they refuse."""

from datetime import timedelta, timezone
from math import fsum
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.errors import DeclarationError, NotFoundError, QueryError, SchemaError, UsageError, WriteError
from tests.declare.collections.shop import Customer, Level, Order, Shop, day, numbers

ROWS: list[dict[str, object]] = [
    {"number": 5, "state": "open", "cents": 100},
    {"number": 3, "state": "paid", "cents": 300},
    {"number": 4, "state": "open", "cents": 200},
    {"number": 1, "state": "sent", "cents": 200},
    {"number": 2, "state": "open", "cents": 300},
]


def shop() -> Shop:
    return Shop((Order.state, Order.number), Order.number, (Order.state, Order.cents), Order.due, Order.customer)


def test_conditions_joined_by_commas_are_all_met() -> None:
    made = shop()
    with made.open(*ROWS):
        found = made.orders.where(Order.state == "open", Order.number > 2)
        assert numbers(found.order_by(Order.number)) == [4, 5]
        assert numbers(made.orders.where(Order.state == "open").where(Order.number > 4)) == [5]


@pytest.mark.parametrize(
    ("index", "shown"), [(0, "[0]"), (slice(2, 5), "[2:5]"), (slice(None, None, 2), "[::2]")], ids=repr
)
def test_query_has_no_elements_by_number(index: Any, shown: str) -> None:
    made = shop()
    with made.open(*ROWS), pytest.raises(UsageError) as caught:
        made.orders.where(Order.state == "open")[index]
    assert f"as in {shown}; use .first(), .limit(n), .page(n)" in caught.value.message


@pytest.mark.parametrize("given", [3, None, "state", True], ids=repr)
def test_filter_takes_a_function(given: Any) -> None:
    made = shop()
    with made.open(*ROWS), pytest.raises(UsageError, match=r"filter\(...\) takes a function of a document, and got"):
        made.orders.scan().filter(given)


def test_order_limit_and_direction() -> None:
    made = shop()
    with made.open(*ROWS):
        assert numbers(made.orders.order_by(Order.number)) == [1, 2, 3, 4, 5]
        assert numbers(made.orders.order_by(Order.number, descending=True).limit(2)) == [5, 4]
        assert numbers(made.orders.order_by(Order.number).limit(4).limit(2)) == [1, 2]
        assert numbers(made.orders.where(Order.state == "open").order_by(Order.number, descending=True)) == [5, 4, 2]


def test_values_of_one_of_are_merged_in_the_order() -> None:
    made = shop()
    with made.open(*ROWS):
        found = made.orders.where(hw.col(Order.state).one_of("open", "sent")).order_by(Order.number)
        assert numbers(found) == [1, 2, 4, 5]
        assert numbers(found.order_by(Order.number, descending=True).limit(3)) == [5, 4, 2]
        assert found.count() == 4
        assert numbers(made.orders.where(hw.col(Order.state).one_of())) == []


def test_none_times_and_links_are_found() -> None:
    made = shop()
    with made.open():
        ann, bob = Customer(name="Ann"), Customer(name="Bob")
        Order(number=1, customer=ann, due=day(1).astimezone(timezone(timedelta(hours=9))))
        Order(number=2, customer=bob)
        Order(number=3, due=day(2))
        assert numbers(made.orders.where(hw.col(Order.due) < day(2))) == [1]
        assert numbers(made.orders.where(hw.col(Order.due).between(day(1), day(2)))) == [1, 3]
        assert numbers(made.orders.where(hw.col(Order.due).is_none())) == [2]
        assert numbers(made.orders.where(Order.due == day(1))) == [1]
        assert numbers(made.orders.where(Order.customer == ann)) == [1]  # type: ignore[arg-type]
        assert numbers(made.orders.where(hw.col(Order.customer).is_none())) == [3]
        assert numbers(made.orders.scan().where(Order.due != None).order_by(Order.number)) == [1, 3]  # noqa: E711


def test_field_without_a_stored_value_has_its_default() -> None:
    made = shop()
    with made.open() as space:
        space.doc("order:plain").number = 9
        assert numbers(made.orders.where(Order.state == "open")) == [9]
        assert numbers(made.orders.where(hw.col(Order.due).is_none())) == [9]


def test_value_of_a_wrong_type_is_met_by_no_comparison(tmp_path: Path) -> None:
    made, url = shop(), str(tmp_path / "shop.db")
    with hw.App("before").open(url) as space:
        # From before the collection, which refuses it.
        space.doc("order:odd").number = "text"
    with made.open({"number": 7}, url=url):
        assert made.orders.where(Order.number >= -(2**63)).ids() != []
        assert len(made.orders.where(Order.number >= -(2**63)).ids()) == 1
        assert made.orders.count() == 2


def test_first_one_and_exists() -> None:
    made = shop()
    with made.open(*ROWS):
        first = made.orders.where(Order.state == "open").order_by(Order.number).first()
        assert first is not None
        assert first.number == 2
        assert made.orders.where(Order.state == "gone").first() is None
        assert made.orders.where(Order.number == 3).one().cents == 300
        assert made.orders.where(Order.state == "paid").exists()
        assert not made.orders.where(Order.state == "gone").exists()


def test_one_refuses_none_and_several() -> None:
    made = shop()
    with made.open(*ROWS):
        with pytest.raises(NotFoundError, match="has no result; use first") as none:
            made.orders.where(Order.state == "gone").one()
        with pytest.raises(QueryError, match=r"has several results, and one\(\) expects one") as several:
            made.orders.where(Order.state == "open").one()
    assert (none.value.code, several.value.code) == ("HW106", "HW120")


def test_limit_zero_is_empty_and_reads_nothing() -> None:
    made = shop()
    nothing = made.orders.where(Order.cents > 5).limit(0)  # no index serves it
    with made.open(*ROWS):
        assert (list(nothing), nothing.ids(), nothing.first()) == ([], [], None)


def test_numbers_sums_and_extremes() -> None:
    made = shop()
    with made.open(*ROWS):
        found = made.orders.where(Order.state == "open")
        assert (found.count(), found.sum(Order.cents), found.min(Order.cents), found.max(Order.cents)) == (
            3,
            600,
            100,
            300,
        )
        assert (made.orders.max(Order.number), made.orders.min(Order.number)) == (5, 1)
        gone = made.orders.where(Order.state == "gone")
        assert (gone.count(), gone.sum(Order.cents), gone.min(Order.cents), gone.max(Order.cents)) == (0, 0, None, None)
        assert made.orders.limit(2).count() == 2
        assert made.orders.order_by(Order.number).limit(2).scan().sum(Order.cents) == 500
        assert made.orders.order_by(Order.number).limit(2).scan().max(Order.cents) == 300
        assert made.orders.scan().filter(lambda order: order.number > 3).min(Order.cents) == 100


def test_extreme_does_not_count_none() -> None:
    made = shop()
    with made.open({"number": 1}, {"number": 2, "due": day(3)}, {"number": 3, "due": day(1)}):
        assert made.orders.min(Order.due) == day(1)
        assert made.orders.max(Order.due) == day(3)
        assert made.orders.where(Order.number == 2).scan().max(Order.due) == day(3)
        assert made.orders.where(Order.number == 1).scan().max(Order.due) is None


def test_extreme_of_a_field_with_a_condition_of_its_own_does_not_count_none() -> None:
    made = shop()
    with made.open({"number": 1, "due": day(2)}, {"number": 2, "due": day(3)}, {"number": 3}):
        orders, due = made.orders, hw.col(Order.due)
        assert orders.where(due != day(2)).scan().min(Order.due) == day(3)
        assert orders.where(due.one_of(None, day(3))).min(Order.due) == day(3)
        assert orders.where(due.is_none()).min(Order.due) is None
        assert orders.where(due == day(2)).max(Order.due) == day(2)


def test_sum_of_floats_is_exact() -> None:
    made = Shop((Order.state, Order.ratio))
    ratios = [1e16, 1.0, -1e16, 0.1, 0.1, 0.1]
    with made.open(*[{"number": at, "ratio": ratio} for at, ratio in enumerate(ratios)]):
        assert made.orders.where(Order.state == "open").sum(Order.ratio) == fsum(ratios)
        several = made.orders.where(hw.col(Order.state).one_of("open", "paid"))
        assert several.sum(Order.ratio) == fsum(ratios)
        assert made.orders.where(Order.state == "paid").sum(Order.ratio) == 0.0
        assert type(made.orders.where(Order.state == "paid").sum(Order.ratio)) is float


def test_groups_and_different_values() -> None:
    made = shop()
    with made.open(*ROWS):
        assert made.orders.group_by(Order.state).count() == {"open": 3, "paid": 1, "sent": 1}
        assert made.orders.group_by(Order.state).sum(Order.cents) == {"open": 600, "paid": 300, "sent": 200}
        assert made.orders.group_by(Order.state).min(Order.cents) == {"open": 100, "paid": 300, "sent": 200}
        assert made.orders.group_by(Order.state).max(Order.number) == {"open": 5, "paid": 3, "sent": 1}
        assert made.orders.distinct(Order.state) == ["open", "paid", "sent"]
        assert made.orders.where(Order.state == "open").distinct(Order.number) == [2, 4, 5]
        assert made.orders.scan().group_by(Order.level).count() == {Level.LOW: 5}
        assert made.orders.where(Order.cents > 100).scan().group_by(Order.state).count() == {
            "open": 2,
            "paid": 1,
            "sent": 1,
        }
        assert made.orders.where(Order.cents > 100).scan().group_by(Order.state).sum(Order.cents) == {
            "open": 500,
            "paid": 300,
            "sent": 200,
        }


def test_groups_by_a_link_are_documents() -> None:
    made = shop()
    with made.open():
        ann = Customer(name="Ann")
        Order(number=1, customer=ann)
        Order(number=2, customer=ann)
        Order(number=3)
        assert made.orders.group_by(Order.customer).count() == {None: 1, ann: 2}
        assert made.orders.distinct(Order.customer) == [None, ann]


def test_values_are_tuples_without_documents() -> None:
    made = shop()
    with made.open(*ROWS):
        found = made.orders.where(Order.state == "open").order_by(Order.number)
        assert found.values(Order.number) == [2, 4, 5]
        assert found.values(Order.number, Order.cents) == [(2, 300), (4, 200), (5, 100)]
        assert found.limit(1).values(Order.number, Order.state, Order.level) == [(2, "open", Level.LOW)]
        assert [list(tags) for tags in found.values(Order.tags)] == [[], [], []]


def test_scan_reads_and_checks_the_rest() -> None:
    made = shop()
    with made.open(*ROWS):
        assert numbers(made.orders.where(Order.ratio == 0.0).scan().order_by(Order.number)) == [1, 2, 3, 4, 5]
        assert numbers(made.orders.where(Order.state != "open").scan().order_by(Order.number)) == [1, 3]
        assert numbers(made.orders.scan().order_by(Order.cents, Order.number, descending=True)) == [3, 2, 4, 1, 5]
        odd = made.orders.scan().filter(lambda order: order.number % 2 == 1).order_by(Order.number)
        assert numbers(odd) == [1, 3, 5]
        assert (odd.count(), odd.exists(), numbers(odd.limit(2)), odd.sum(Order.cents)) == (3, True, [1, 3], 600)
        assert odd.values(Order.number) == [1, 3, 5]


@pytest.mark.parametrize(
    ("ask", "declaration"),
    [
        (lambda orders: list(orders.where(Order.cents > 5)), "indexes=[Order.cents]"),
        (lambda orders: list(orders.order_by(Order.cents)), "indexes=[Order.cents]"),
        (lambda orders: orders.max(Order.cents), "indexes=[Order.cents]"),
        (lambda orders: orders.group_by(Order.cents).count(), "indexes=[Order.cents]"),
        (lambda orders: orders.where(Order.number == 1).sum(Order.cents), "by=Order.number"),
        (
            lambda orders: orders.group_by(Order.state).sum(Order.ratio),
            "hw.total(Order.ratio, by=Order.state)",
        ),
        (lambda orders: list(orders.where(Order.number != 1)), "Add .scan()"),
        (lambda orders: orders.filter(bool), "Add .scan()"),
    ],
)
def test_query_that_no_index_serves_is_refused_with_the_declaration(ask: Any, declaration: str) -> None:
    made = shop()
    with made.open(*ROWS), pytest.raises(QueryError) as caught:
        ask(made.orders)
    assert declaration in caught.value.message
    assert ".scan()" in caught.value.message
    assert caught.value.code == "HW120"


def test_declared_total_allows_the_sum() -> None:
    made = Shop(Order.state, totals=(hw.total(Order.cents, by=Order.state),))
    with made.open(*ROWS):
        assert made.orders.where(Order.state == "open").sum(Order.cents) == 600
        assert made.orders.group_by(Order.state).sum(Order.cents) == {"open": 600, "paid": 300, "sent": 200}
        with pytest.raises(QueryError):
            made.orders.sum(Order.cents)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (True, "the comparison was made on a document"),
        (False, "compare on the class: Order.state == "),
        ("state = open", "takes conditions, such as Order.state == "),
        (None, "takes conditions"),
    ],
)
def test_no_condition_is_refused(given: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        shop().orders.where(given)
    assert caught.value.code == "HW100"


def test_fields_of_another_class_are_refused() -> None:
    made = shop()
    for attempt in (
        lambda: made.orders.where(Customer.name == "Ann"),
        lambda: made.orders.order_by(Customer.name),
        lambda: made.orders.sum(Customer.name),  # type: ignore[type-var]
        lambda: made.orders.values(Customer.name),
        lambda: made.orders.group_by("state"),
    ):
        with pytest.raises(DeclarationError, match=r"is no field of Order; its fields are Order\.number"):
            attempt()


def test_query_is_neither_true_nor_false() -> None:
    query = shop().orders.where(Order.state == "open")
    with pytest.raises(UsageError, match=r"\.exists\(\)"):
        bool(query)
    assert len({query, query}) == 1


@pytest.mark.parametrize("count", [-1, 1.5, "5", True, None])
def test_limit_is_a_number(count: Any) -> None:
    with pytest.raises(UsageError, match=r"limit\(\.\.\.\) takes a number"):
        shop().orders.limit(count)


def test_sum_is_of_numbers() -> None:
    made = shop()
    with made.open(), pytest.raises(UsageError, match=r"the field is str, and a sum is of int or float"):
        made.orders.sum(Order.state)  # type: ignore[type-var]


def test_order_and_values_name_fields() -> None:
    with pytest.raises(UsageError, match="needs a field"):
        shop().orders.order_by()
    with pytest.raises(UsageError, match="needs a field"):
        shop().orders.values()  # type: ignore[call-overload]


def test_operand_of_another_type_is_refused_when_asked() -> None:
    made = shop()
    with made.open(), pytest.raises(SchemaError, match=r"a condition on Order\.number"):
        list(made.orders.where(Order.number == "1"))  # type: ignore[comparison-overlap]


def test_explain_names_index_spans_and_checks() -> None:
    made = shop()
    with made.open(*ROWS):
        query = (
            made.orders.where(Order.state == "open", Order.ratio == 0.0).scan().order_by(Order.cents, descending=True)
        )
        text = query.limit(3).filter(bool).explain()
    assert text.splitlines()[0] == (
        "the query of Order where Order.state == 'open' and Order.ratio == 0.0, ordered by Order.cents:"
    )
    for part in ("index order#state,", "1 span", "the conditions on state", "checked in each document: ratio"):
        assert part in text
    assert "from the greatest to the least" in text
    assert "at most 3 documents" in text
    assert "1 filter called for each document" in text


def test_delete_removes_what_is_found() -> None:
    made = shop()
    with made.open(*ROWS) as space:
        assert made.orders.where(Order.state == "open").delete() == 3
        assert numbers(made.orders.order_by(Order.number)) == [1, 3]
        with space.transaction():
            Order(number=9)
            assert made.orders.limit(2).delete() == 2
            assert made.orders.count() == 1
        assert made.orders.count() == 1


def test_delete_outside_of_a_transaction_goes_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.cells.query.DELETE_BATCH", 3)
    made = shop()
    with made.open(*[{"number": number} for number in range(10)]) as space:
        before = space.stats.commits
        assert made.orders.order_by(Order.number).limit(7).delete() == 7
        assert numbers(made.orders.order_by(Order.number)) == [7, 8, 9]
        assert made.orders.delete() == 3
        assert made.orders.count() == 0
        assert space.stats.commits == before + 3 + 1


def test_delete_in_a_computed_is_refused() -> None:
    made = shop()

    @made.app.computed
    def gone() -> int:
        return made.orders.delete()

    with made.open(*ROWS), pytest.raises(WriteError):
        gone()


def test_query_sees_writes_of_its_transaction_and_not_after_a_rollback() -> None:
    made = shop()
    query = made.orders.where(Order.state == "open").order_by(Order.number)
    with made.open(*ROWS) as space:
        with pytest.raises(ZeroDivisionError), space.transaction():
            Order(number=9)
            made.orders.where(Order.number == 2).one().state = "paid"
            hw.delete(made.orders.where(Order.number == 4).one())
            assert numbers(query) == [5, 9]
            assert (query.count(), query.exists(), query.sum(Order.number)) == (2, True, 14)
            raise ZeroDivisionError
        assert numbers(query) == [2, 4, 5]


def test_query_can_be_changed_while_it_is_iterated() -> None:
    made = shop()
    with made.open(*[{"number": number} for number in range(600)]):
        for order in made.orders.where(Order.state == "open").order_by(Order.number):
            order.state = "paid"
        assert made.orders.where(Order.state == "open").count() == 0
        assert made.orders.where(Order.state == "paid").count() == 600


@pytest.mark.parametrize("values", [["seven", 7, None, True, b"x", 9, [1]], [None, 9, 7], ["seven", 7, 9]], ids=repr)
def test_stored_values_of_another_type_are_no_answer(tmp_path: Path, values: list[Any]) -> None:
    """Row 8 of the failures of queries: such a value is in the index under its own type, and met by no question."""
    path = tmp_path / "shop.db"
    with hw.App("before").open(path) as space:
        for place, value in enumerate(values):
            document = space.doc(f"order:a{place}")
            document.number, document.state = value, "open"
    made = Shop(Order.number, (Order.state, Order.number))
    with made.app.open(path):
        for query in (
            made.orders,
            made.orders.scan(),
            made.orders.limit(100),
            made.orders.where(Order.state == "open"),
        ):
            assert (query.min(Order.number), query.max(Order.number)) == (7, 9)
            assert query.scan().distinct(Order.number) == [7, 9]
        for query in (made.orders, made.orders.scan()):
            assert query.group_by(Order.state).min(Order.number) == {"open": 7}
            assert query.group_by(Order.state).max(Order.number) == {"open": 9}
        assert numbers(made.orders.where(Order.number >= -5)) == [7, 9]
