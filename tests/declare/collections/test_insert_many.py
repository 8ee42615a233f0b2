"""Inserting many documents: from a generator, from mappings, in batches, and what remains after an error."""

from collections.abc import Iterator

import pytest

import headwater as hw
from headwater.errors import SchemaError, UsageError
from tests.declare.collections.shop import Customer, Order, Shop, numbers


def test_documents_of_a_generator_are_inserted_in_batches() -> None:
    made = Shop(Order.number)
    with made.open() as space:
        before = space.stats.commits
        assert made.orders.insert_many(Order(number=number) for number in range(2500)) == 2500
        assert space.stats.commits == before + 3
        assert made.orders.count() == 2500
        assert made.orders.insert_many((Order(number=number) for number in range(10)), batch=3) == 10
        assert space.stats.commits == before + 3 + 4


def test_in_a_transaction_all_are_part_of_it() -> None:
    made = Shop(Order.number)
    with made.open() as space:
        before = space.stats.commits
        with pytest.raises(ZeroDivisionError), space.transaction():
            assert made.orders.insert_many(Order(number=number) for number in range(1500)) == 1500
            assert made.orders.count() == 1500
            raise ZeroDivisionError
        assert (made.orders.count(), space.stats.commits) == (0, before)
        with space.transaction():
            made.orders.insert_many(Order(number=number) for number in range(1500))
        assert (made.orders.count(), space.stats.commits) == (1500, before + 1)


def test_mappings_are_checked_by_the_schema() -> None:
    made = Shop(Order.number)
    with made.open():
        assert made.orders.insert_many([{"number": 1}, {"number": 2, "state": "paid"}]) == 2
        assert made.orders.order_by(Order.number).values(Order.number, Order.state) == [(1, "open"), (2, "paid")]
        for wrong in ({"number": "1"}, {}, {"number": 1, "colour": "red"}):
            with pytest.raises(SchemaError) as caught:
                made.orders.insert_many([wrong])
            assert caught.value.code == "HW108"


def test_links_and_documents_of_other_classes_are_made_as_usual() -> None:
    made = Shop(Order.customer)

    def rows() -> Iterator[Order]:
        for number in range(3):
            yield Order(number=number, customer=Customer(name=f"customer {number}"))

    with made.open():
        assert made.orders.insert_many(rows()) == 3
        names = [order.customer.name for order in made.orders if order.customer is not None]
        assert sorted(names) == ["customer 0", "customer 1", "customer 2"]


def test_documents_that_exist_are_refused() -> None:
    made = Shop(Order.number)
    with made.open():
        with pytest.raises(UsageError, match="made already; give a generator") as caught:
            made.orders.insert_many([Order(number=1)])
        assert caught.value.code == "HW100"
        assert made.orders.count() == 1


def test_what_is_no_sequence_of_documents_is_refused() -> None:
    made = Shop()
    with made.open():
        for given in (None, 5, Order):
            with pytest.raises(UsageError, match="takes a generator, or a list of mappings, and got") as caught:
                made.orders.insert_many(given)  # type: ignore[arg-type]
            assert caught.value.code == "HW100"


@pytest.mark.parametrize("row", [None, 3, "text", ("number", 1)])
def test_row_of_another_kind_is_refused(row: object) -> None:
    made = Shop(Order.number)
    with made.open(), pytest.raises(UsageError, match=r"row 2 is .*; a new document of Order, or a mapping"):
        made.orders.insert_many([{"number": 1}, row])  # type: ignore[list-item]


def test_document_that_is_made_and_not_passed_on_is_refused() -> None:
    made = Shop(Order.number)

    def rows() -> Iterator[Order]:
        Order(number=1)
        yield Order(number=2)

    with made.open(), pytest.raises(UsageError, match="1 document of Order made by the generator and not passed on"):
        made.orders.insert_many(rows())


def test_document_has_no_fields_before_it_is_stored() -> None:
    made = Shop(Order.number)

    def rows() -> Iterator[Order]:
        order = Order(number=1)
        assert order.number == 1
        yield order

    with made.open(), pytest.raises(UsageError, match="has not stored this document yet"):
        made.orders.insert_many(rows())


def test_after_the_call_documents_are_made_as_usual() -> None:
    made = Shop(Order.number)
    with made.open():
        with pytest.raises(ZeroDivisionError):
            made.orders.insert_many(Order(number=1 // number) for number in (1, 0))
        assert Order(number=5).number == 5
        assert numbers(made.orders) == [5]


def test_batches_before_an_error_stay_and_a_note_says_how_many() -> None:
    made = Shop(Order.number)

    def rows() -> Iterator[Order]:
        for number in range(10):
            if number == 7:
                raise KeyboardInterrupt
            yield Order(number=number)

    with made.open():
        with pytest.raises(KeyboardInterrupt) as caught:
            made.orders.insert_many(rows(), batch=3)
        assert caught.value.__notes__ == ["insert_many: row 8", "insert_many: 6 documents before that are stored"]
        assert numbers(made.orders.order_by(Order.number)) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("row", [{"number": "one"}, {}, {"number": 1, "numbr": 2}], ids=["type", "missing", "unknown"])
def test_error_of_a_row_has_its_number(row: dict[str, object]) -> None:
    made = Shop(Order.number)
    with made.open() as space:
        with pytest.raises(SchemaError) as caught:
            made.orders.insert_many([*({"number": number} for number in range(3)), row])
        assert caught.value.__notes__ == ["insert_many: row 4", "insert_many: 0 documents before that are stored"]
        with pytest.raises(SchemaError) as caught, space.transaction():
            made.orders.insert_many([row])
        assert caught.value.__notes__ == ["insert_many: row 1"]
        assert numbers(made.orders) == []


def test_nothing_is_inserted_from_nothing() -> None:
    made = Shop(Order.number)
    with made.open() as space:
        before = space.stats.commits
        assert made.orders.insert_many([]) == 0
        assert space.stats.commits == before


@pytest.mark.parametrize("batch", [0, -1, True, 1.5, "5"])
def test_batch_is_a_number(batch: object) -> None:
    made = Shop(Order.number)
    with made.open(), pytest.raises(UsageError, match="batch is a number of documents"):
        made.orders.insert_many([], batch=batch)  # type: ignore[arg-type]


def test_handler_may_insert_many() -> None:
    made = Shop(Order.number)

    @made.app.handler
    def load(count: int) -> int:
        return made.orders.insert_many(Order(number=number) for number in range(count))

    with made.open():
        assert load.send(1200).result() == 1200
        assert made.orders.count() == 1200


def test_computed_may_not_insert() -> None:
    made = Shop(Order.number)

    @made.app.computed
    def load() -> int:
        return made.orders.insert_many([{"number": 1}])

    with made.open():
        with pytest.raises(hw.HeadwaterError) as caught:
            load()
        assert caught.value.code == "HW104"
