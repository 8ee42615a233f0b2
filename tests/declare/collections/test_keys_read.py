"""How many keys of an index a query reads, of many: the answer's own part of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import headwater as hw
from headwater.cells.span_reads import SLICE, SPARE
from tests.declare.collections.shop import Order, Shop
from tests.support.compiled import needs_sources

MANY = 1000

FEW: dict[str, Callable[[hw.Collection[Order]], object]] = {
    "min": lambda orders: orders.where(Order.state == "open").min(Order.cents),
    "max": lambda orders: orders.where(Order.state == "open").max(Order.cents),
    "exists": lambda orders: orders.where(Order.state == "open").exists(),
    "first": lambda orders: orders.where(Order.state == "open").order_by(Order.cents).first(),
    "limit": lambda orders: orders.where(Order.state == "open").order_by(Order.cents).limit(1)(),
    "page": lambda orders: orders.where(Order.state == "open").order_by(Order.cents).page(1),
}


class Keys:
    """The keys that the store has given."""

    def __init__(self) -> None:
        self.count = 0
        self.asked = 0


@contextmanager
def counted(space: hw.Space) -> Iterator[Keys]:
    needs_sources("replaces a method")
    space.sync()
    replica, keys = space._opening.replica, Keys()
    upstream = replica._upstream
    span = upstream.span

    def counting(*args: object, **kwargs: object) -> list[bytes]:
        found: list[bytes] = span(*args, **kwargs)  # type: ignore[arg-type]
        keys.count += len(found)
        keys.asked += 1
        return found

    upstream.span = counting  # type: ignore[method-assign]
    try:
        yield keys
    finally:
        del upstream.span  # type: ignore[method-assign]


@pytest.mark.parametrize("name", sorted(FEW))
@pytest.mark.parametrize("place", ["plain", "computed", "handler"])
def test_an_answer_at_one_end_reads_one_end(name: str, place: str) -> None:
    made = Shop((Order.state, Order.cents))
    ask = FEW[name]

    @made.app.computed
    def computed() -> bool:
        ask(made.orders)
        return True

    @made.app.handler
    def handle() -> None:
        ask(made.orders)

    acts: dict[str, Callable[[], object]] = {
        "plain": lambda: ask(made.orders),
        "computed": computed,
        "handler": lambda: handle.send().result(),
    }
    with made.open(*[{"number": number, "cents": number} for number in range(MANY)]) as space:
        with counted(space) as keys:
            acts[place]()
        assert 0 < keys.count <= SPARE + 3


def test_a_count_in_plain_code_decodes_no_key_and_reads_no_document(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Shop((Order.state, Order.cents))
    with made.open(*[{"number": number} for number in range(MANY)]) as space:
        query = made.orders.where(Order.state == "open")
        monkeypatch.setattr("headwater.cells.span_reads.fields_of", None)
        monkeypatch.setattr("headwater.cells.span_reads.doc_of", None)
        with counted(space) as keys:
            assert query.count() == MANY
        assert (keys.count, keys.asked) == (MANY, 1)


BY_TOTAL: dict[str, Callable[[hw.Collection[Order]], object]] = {
    "sum": lambda orders: orders.where(Order.state == "open").sum(Order.cents),
    "count": lambda orders: orders.where(Order.state == "open").count(),
    "group sums": lambda orders: orders.group_by(Order.state).sum(Order.cents)["open"],
    "group counts": lambda orders: orders.group_by(Order.state).count()["open"],
}


@pytest.mark.parametrize("name", sorted(BY_TOTAL))
@pytest.mark.parametrize("place", ["plain", "computed", "handler"])
def test_a_declared_total_answers_with_a_row_for_each_group(name: str, place: str) -> None:
    made = Shop((Order.state, Order.number), totals=(hw.total(Order.cents, by=Order.state),))
    ask = BY_TOTAL[name]

    @made.app.computed
    def computed() -> object:
        return ask(made.orders)

    @made.app.handler
    def handle() -> object:
        return ask(made.orders)

    acts: dict[str, Callable[[], object]] = {
        "plain": lambda: ask(made.orders),
        "computed": computed,
        "handler": lambda: handle.send().result(),
    }
    rows = [{"number": number, "cents": number, "state": ["open", "paid"][number % 2]} for number in range(MANY)]
    with made.open(*rows) as space:
        with counted(space) as keys:
            found = acts[place]()
        assert found == (MANY // 2 if "count" in name else sum(range(0, MANY, 2)))
        assert 0 < keys.count <= 2


def test_a_loop_that_ends_early_reads_one_slice() -> None:
    made = Shop((Order.state, Order.cents))
    with made.open(*[{"number": number} for number in range(MANY)]) as space, counted(space) as keys:
        for _ in made.orders.where(Order.state == "open").order_by(Order.cents):
            break
        assert keys.count <= SLICE + 1
