"""Pages follow one another without gaps, and a cursor never leads to a page of another query."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater.cells.page_cursor import CURSOR_MAX, read_cursor, write_cursor
from headwater.cells.query_rows import Evaluation
from headwater.errors import LimitError, UsageError
from tests.declare.collections.shop import Order, Shop, numbers


def shop(*more: object) -> Shop:
    return Shop((Order.state, Order.number), Order.number, *more)


def all_pages(query: hw.Query[Order], size: int) -> list[list[int]]:
    found, after = list[list[int]](), None
    while True:
        page = query.page(size, after=after)
        found.append(numbers(page.items))
        after = page.next
        if after is None:
            return found


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("descending", [False, True])
def test_pages_have_all_documents_once_and_in_order(size: int, descending: bool) -> None:
    made = shop()
    with made.open(*[{"number": number} for number in range(7)]):
        query = made.orders.where(Order.state == "open").order_by(Order.number, descending=descending)
        pages = all_pages(query, size)
        expected = sorted(range(7), reverse=descending)
        assert [number for page in pages for number in page] == expected
        assert all(len(page) == size for page in pages[:-1])


def test_documents_with_equal_values_are_on_one_page_only() -> None:
    made = shop(Order.cents)
    with made.open(*[{"number": number, "cents": 5} for number in range(9)]):
        pages = all_pages(made.orders.order_by(Order.cents), 2)
        assert sorted(number for page in pages for number in page) == list(range(9))


def test_pages_of_a_query_that_is_sorted_in_memory() -> None:
    made = shop()
    with made.open(*[{"number": number, "cents": -number % 4} for number in range(9)]):
        for descending in (False, True):
            query = made.orders.scan().order_by(Order.cents, Order.number, descending=descending)
            assert [number for page in all_pages(query, 2) for number in page] == numbers(query)


def test_pages_of_merged_spans() -> None:
    made = shop()
    states = ["open", "paid", "sent"]
    with made.open(*[{"number": number, "state": states[number % 3]} for number in range(12)]):
        query = made.orders.where(hw.col(Order.state).one_of("open", "sent")).order_by(Order.number)
        assert [number for page in all_pages(query, 3) for number in page] == [n for n in range(12) if n % 3 != 1]


def test_document_that_comes_behind_the_cursor_is_seen_and_one_before_it_is_not() -> None:
    made = shop()
    with made.open(*[{"number": number} for number in (10, 20, 30)]):
        query = made.orders.order_by(Order.number)
        page = query.page(2)
        Order(number=5)
        Order(number=25)
        assert numbers(query.page(5, after=page.next).items) == [25, 30]
        made.orders.where(Order.number == 20).delete()
        assert numbers(query.page(5, after=page.next).items) == [25, 30]


def test_cursor_of_another_query_is_refused() -> None:
    made = shop()
    with made.open(*[{"number": number} for number in range(9)]):
        query = made.orders.where(Order.state == "open").order_by(Order.number)
        cursor = query.page(2).next
        others: list[hw.Query[Order]] = [
            made.orders.order_by(Order.number),
            made.orders.where(Order.state == "paid").order_by(Order.number),
            made.orders.where(Order.state == "open").order_by(Order.number, descending=True),
            made.orders.where(Order.state == "open", Order.number < 5).order_by(Order.number),
            query.scan(),
            cast("hw.Query[Order]", made.customers),
        ]
        for other in others:
            with pytest.raises(UsageError, match="the cursor is of another query") as caught:
                other.page(2, after=cursor)
            assert caught.value.code == "HW100"
        same = made.orders.where(Order.state == "open").order_by(Order.number)
        assert numbers(same.page(2, after=cursor).items) == [2, 3]


@pytest.mark.parametrize("cursor", ["", "x", "é", "A" * 40, "A" * (CURSOR_MAX + 1), "===", "a b", 3])
def test_text_that_is_no_cursor_is_refused(cursor: str) -> None:
    made = shop()
    with made.open({"number": 1}), pytest.raises(UsageError, match="the cursor is damaged") as caught:
        made.orders.order_by(Order.number).page(2, after=cursor)
    assert caught.value.code == "HW100"


@given(st.binary(max_size=60), st.integers(0, 200), st.integers(1, 255))
def test_changed_cursor_is_refused(place: bytes, at: int, by: int) -> None:
    cursor = write_cursor(b"query", "order#", place)
    assert read_cursor(cursor, b"query", "order#") == place
    raw = bytearray(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    raw[at % len(raw)] ^= by
    with pytest.raises(UsageError):
        read_cursor(urlsafe_b64encode(raw).rstrip(b"=").decode(), b"query", "order#")


def test_cursor_has_one_form_only() -> None:
    cursor = write_cursor(b"query", "order#", b"place")
    for other in (cursor + "=", cursor + "\n", " " + cursor, cursor + "A"):
        with pytest.raises(UsageError):
            read_cursor(other, b"query", "order#")


def test_place_outside_of_the_spans_is_refused() -> None:
    made = shop()
    with made.open(*[{"number": number} for number in range(9)]):
        query = made.orders.where(Order.state == "open").order_by(Order.number)
        evaluation = Evaluation(query._asked)
        forged = write_cursor(evaluation.digest(), evaluation.plan.named.name, b"\xff")
        with pytest.raises(UsageError, match="the cursor is of another query"):
            query.page(2, after=forged)


def test_key_that_is_too_long_for_a_cursor_is_a_limit() -> None:
    made = shop(Order.state)
    with made.open(*[{"number": number, "state": "x" * 512} for number in range(3)]):
        with pytest.raises(LimitError, match="too long for a cursor of 700 bytes") as caught:
            made.orders.order_by(Order.state).page(2)
        assert len(made.orders.order_by(Order.state).page(3).items) == 3
    assert caught.value.code == "HW102"


def test_page_has_a_size_and_no_limit() -> None:
    made = shop()
    with made.open():
        for size in (0, -1, True, "5"):
            with pytest.raises(UsageError, match=r"page\(\.\.\.\) takes a number"):
                made.orders.page(size)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match=r"leave out limit"):
            made.orders.limit(5).page(2)
        assert repr(made.orders.page(2)) == "<Page of 0 documents>"
