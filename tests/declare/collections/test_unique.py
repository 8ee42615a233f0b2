"""Unique values: told where a duplicate is made, and decided by the store."""

from typing import Any

import pytest

import headwater as hw
from headwater.errors import DuplicateError
from tests.declare.collections.shop import Order, Shop, numbers


def shop() -> Shop:
    return Shop(Order.state, unique=(Order.number,))


def test_duplicate_is_refused_where_it_is_made() -> None:
    made = shop()
    with made.open() as space:
        first = Order(number=7)
        with pytest.raises(DuplicateError, match="has number 7 already, and 'number' is unique") as caught:
            Order(number=7)
        assert caught.value.code == "HW215"
        assert str(caught.value.facts["doc"]).endswith(hw.id_of(first))
        space.sync()
        assert made.orders.count() == 1


def test_duplicate_in_one_transaction_is_refused() -> None:
    made = shop()
    with made.open() as space:
        with pytest.raises(DuplicateError), space.transaction():
            Order(number=7)
            Order(number=7)
        assert made.orders.count() == 0


def test_duplicate_by_a_write_to_a_field_is_refused_by_the_store() -> None:
    made = shop()
    with made.open() as space:
        Order(number=7)
        other = Order(number=8)
        other.number = 7
        with pytest.raises(DuplicateError) as caught:
            space.sync()
        assert caught.value.code == "HW215"
        assert other.number == 8


def test_values_may_be_swapped_and_made_again_in_one_transaction() -> None:
    made = shop()
    with made.open() as space:
        one, two = Order(number=1), Order(number=2)
        with space.transaction():
            one.number, two.number = 2, 1
        with space.transaction():
            hw.delete(one)
            Order(number=2)
        space.sync()
        assert sorted(numbers(made.orders)) == [1, 2]


def test_none_is_not_compared() -> None:
    class Guest(hw.Doc):
        email: str | None = None

    app = hw.App("people")
    guests = app.collection(Guest, unique=[Guest.email])
    with app.open("memory:") as space:
        Guest()
        Guest()
        space.sync()
        assert guests.count() == 2


def test_row_of_an_insert_is_named() -> None:
    made = shop()
    with made.open():
        Order(number=7)
        with pytest.raises(DuplicateError, match=r"insert_many\(\.\.\.\): row 8: ") as caught:
            made.orders.insert_many(Order(number=number) for number in range(20))
        assert caught.value.facts["row"] == 8
        with pytest.raises(DuplicateError, match="row 3: "):
            made.orders.insert_many({"number": number} for number in (30, 31, 30))
        assert numbers(made.orders) == [7]


def test_rows_may_take_values_that_the_transaction_has_freed() -> None:
    made = shop()
    with made.open() as space:
        one, two, three = (Order(number=number) for number in (1, 2, 3))
        with space.transaction():
            hw.delete(one)
            two.number = 20
            assert made.orders.insert_many({"number": number} for number in (1, 2)) == 2
            with pytest.raises(DuplicateError, match="row 1: "):
                made.orders.insert_many([{"number": three.number}])
        space.sync()
        assert sorted(numbers(made.orders)) == [1, 2, 3, 20]


def test_handler_that_makes_a_duplicate_fails_with_it() -> None:
    made = shop()

    @made.app.handler
    def create(number: int) -> int:
        Order(number=number)
        return number

    with made.open(on_error="log"):
        assert create.send(1).result() == 1
        with pytest.raises(hw.EventFailedError) as caught:
            create.send(1).result()
        assert "HW215" in str(caught.value.__cause__ or caught.value)
        assert made.orders.count() == 1


def test_unique_index_over_duplicates_is_refused_at_the_opening(tmp_path: Any) -> None:
    before, after = Shop(Order.state), shop()
    with before.open(*[{"number": number % 2} for number in range(4)], url=tmp_path / "x.db"):
        pass
    with (
        pytest.raises(DuplicateError, match="change or delete one document of each"),
        after.open(url=tmp_path / "x.db"),
    ):
        pass
    with before.open(url=tmp_path / "x.db"):
        before.orders.where(Order.state == "open").limit(2).delete()
        rest = numbers(before.orders)
        assert len(rest) == 2
        for number, order in enumerate(before.orders()):
            order.number = number
    with after.open(url=tmp_path / "x.db"):
        assert after.orders.where(Order.number == 1).exists()
