"""A damaged index is made again when the file is opened, which the log says; verify finds what an opening does not."""

import logging
from pathlib import Path

import apsw
import pytest

from headwater.store.verification import verify
from tests.declare.collections.shop import Order, Shop

LOSE_THREE = """delete from entry where (idx, key) in
    (select idx, key from entry join entry_index on id = idx where name = 'order#number' limit 3)"""
CHANGE_ONE = """update entry set key = x'1000' where (idx, key) in
    (select idx, key from entry join entry_index on id = idx where name = 'order#number' limit 1)"""


def made(path: Path) -> Shop:
    shop = Shop(Order.state, Order.number)
    with shop.app.open(path):
        shop.orders.insert_many({"number": n, "state": "open" if n % 2 else "paid"} for n in range(40))
    return shop


def tamper(path: Path, sql: str) -> None:
    db = apsw.Connection(str(path))
    db.execute(sql)
    db.close()


def test_damaged_index_is_made_again_at_opening_and_the_log_names_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "shop.db"
    shop = made(path)
    tamper(path, LOSE_THREE)
    with caplog.at_level(logging.WARNING), shop.app.open(path) as space:
        assert shop.orders.order_by(Order.number).values(Order.number) == list(range(40))
        [line] = [record.getMessage() for record in caplog.records]
        assert "order#number" in line and "made again" in line
        assert space._opening.ask_store(verify).ok
    caplog.clear()
    with caplog.at_level(logging.WARNING), shop.app.open(path):
        assert shop.orders.count() == 40
    assert caplog.records == []


def test_undamaged_indexes_are_not_mentioned(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "shop.db"
    shop = made(path)
    with caplog.at_level(logging.WARNING), shop.app.open(path):
        assert shop.orders.count() == 40
    assert caplog.records == []


def test_verify_names_an_index_whose_keys_were_changed(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    shop = made(path)
    tamper(path, CHANGE_ONE)
    with shop.app.open(path) as space:
        report = space._opening.ask_store(verify)
    assert not report.ok
    assert any("order#number" in finding for finding in report.findings)


LOSE_ALL_SHIFTS = "delete from shift"
LOSE_THE_LAST_SHIFT = "delete from shift where seq = (select max(seq) from shift)"
CHANGE_A_SHIFT = "update shift set body = x'80' where seq = (select max(seq) from shift)"
UNCHAIN_SHIFTS = "update shift set before = 0"


@pytest.mark.parametrize("sql", [LOSE_ALL_SHIFTS, LOSE_THE_LAST_SHIFT, CHANGE_A_SHIFT, UNCHAIN_SHIFTS])
@pytest.mark.parametrize("is_changed", [False, True], ids=["unchanged", "changed"])
def test_damaged_feed_is_made_again_at_opening_and_functions_are_restored_by_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, sql: str, *, is_changed: bool
) -> None:
    """Row 9 of the failures of queries: what an opening needs and finds damaged is made again, and said."""
    path = tmp_path / "shop.db"
    shop = made(path)
    orders = shop.orders

    @shop.app.computed
    def open_orders() -> int:
        return len(orders.where(Order.state == "open").ids())

    with shop.app.open(path):
        assert open_orders() == 20
    other = Shop(Order.state, Order.number)
    with other.app.open(path) as space:
        for number in range(100, 103):
            Order(number=number, state="open" if is_changed else "sent")
        space.sync()
        space._opening.ask_store(lambda engine: engine.fold())
    tamper(path, sql)
    with caplog.at_level(logging.WARNING), shop.app.open(path) as space:
        assert open_orders() == (23 if is_changed else 20)
        assert space.runs(open_orders) == (1 if is_changed else 0)
        [line] = [record.getMessage() for record in caplog.records]
        assert "space 'shop': the feed of what commits did" in line and "made again from the log" in line
        assert space._opening.ask_store(verify).ok
    caplog.clear()
    with caplog.at_level(logging.WARNING), shop.app.open(path) as space:
        assert (open_orders(), space.runs(open_orders)) == (23 if is_changed else 20, 0)
    assert caplog.records == []
