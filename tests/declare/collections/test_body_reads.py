"""Passes over many documents: bodies are read a thousand at a time, in the order of the index."""

from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.store.backends.sqlite import SqliteBackend
from tests.declare.collections.shop import Order, Shop


def made(path: Path, number: int) -> Shop:
    """A file with orders, closed."""
    shop = Shop(Order.state, Order.number, (Order.state, Order.number))
    with shop.app.open(path / "shop.db", durability="normal"):
        rows = ({"number": n, "state": "open" if n % 2 else "paid", "cents": n % 100} for n in range(number))
        assert shop.orders.insert_many(rows) == number
    return shop


def statements(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> int:
    """The queries that a piece of work asks of the database."""
    original, count = SqliteBackend._read, 0

    def counting(self: SqliteBackend, query: str, values: object = ()) -> object:
        nonlocal count
        count += 1
        return original(self, query, values)  # type: ignore[arg-type]  # passed on as it is

    with monkeypatch.context() as patch:
        patch.setattr(SqliteBackend, "_read", counting)
        work()
    return count


def run_all(shop: Shop, name: str) -> Callable[[], object]:
    orders = shop.orders
    reads: dict[str, Callable[[], object]] = {
        "values": lambda: orders.order_by(Order.number).values(Order.number, Order.cents),
        "handles": lambda: sum(order.cents for order in orders.order_by(Order.number)),
        "scan": lambda: orders.where(Order.cents == 7).scan().values(Order.number),
        "filter": lambda: list(orders.order_by(Order.number).scan().filter(lambda order: order.cents == 7)),
        "sum": lambda: orders.scan().sum(Order.cents),
        "groups": lambda: orders.scan().group_by(Order.state).sum(Order.cents),
    }
    return reads[name]


@pytest.mark.parametrize("name", ["values", "handles", "scan", "filter", "sum", "groups"])
def test_pass_over_documents_asks_a_few_statements_per_thousand(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    for number in (1000, 3000):
        folder = tmp_path / str(number)
        folder.mkdir()
        shop = made(folder, number)
        with shop.app.open(folder / "shop.db"):
            asked.append(statements(monkeypatch, run_all(shop, name)))
    small, large = asked
    assert large - small <= 2 * 5
    assert small <= 20


def test_limit_reads_the_bodies_of_its_documents_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    original = SqliteBackend.bodies

    def noting(self: SqliteBackend, branch: object, docs: object) -> object:
        read.append(len(docs))  # type: ignore[arg-type]
        return original(self, branch, docs)  # type: ignore[arg-type]

    monkeypatch.setattr(SqliteBackend, "bodies", noting)
    shop = made(tmp_path, 1000)
    with shop.app.open(tmp_path / "shop.db"):
        read.clear()
        page = shop.orders.order_by(Order.number).limit(50).values(Order.number)
    assert page == list(range(50))
    assert read == [50]


def test_pass_in_plain_code_leaves_the_memory_as_it_was(tmp_path: Path) -> None:
    shop = made(tmp_path, 2500)
    with shop.app.open(tmp_path / "shop.db") as space:
        held = space._opening.replica._documents
        before = len(held)
        assert len(shop.orders.values(Order.number)) == 2500
        assert len(held) == before
        handles = list(shop.orders.order_by(Order.number))
        assert len(held) == before + 2500
        assert sum(order.number for order in handles) == sum(range(2500))


def test_pass_shows_pending_and_later_writes(tmp_path: Path) -> None:
    shop = made(tmp_path, 1200)
    with shop.app.open(tmp_path / "shop.db") as space:
        first = shop.orders.order_by(Order.number).first()
        assert first is not None
        first.cents = 77
        with space.transaction():
            list(shop.orders.order_by(Order.number).limit(2))[1].cents = 78
            assert shop.orders.order_by(Order.number).limit(3).values(Order.cents) == [77, 78, 2]
            assert len(shop.orders.values(Order.cents)) == 1200
        assert shop.orders.order_by(Order.number).limit(3).values(Order.cents) == [77, 78, 2]
        assert sum(shop.orders.values(Order.cents)) == sum(n % 100 for n in range(1200)) + 77 + 77


def test_function_that_reads_values_runs_again_when_one_changes(tmp_path: Path) -> None:
    shop = made(tmp_path, 1200)

    @shop.app.computed
    def total() -> int:
        return sum(shop.orders.values(Order.cents))

    with shop.app.open(tmp_path / "shop.db") as space:
        before = total()
        order = shop.orders.order_by(Order.number).first()
        assert order is not None
        order.cents = 50
        assert total() == before + 50
        order.ratio = 0.5
        assert total() == before + 50
        assert space.runs(total) == 2
