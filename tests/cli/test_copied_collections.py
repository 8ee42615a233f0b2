"""Copies of a space with collections: by export, by the log, and by a backup, each with indexes that are right."""

import json
from pathlib import Path

import apsw
import pytest

import headwater as hw
from headwater.errors import DuplicateError
from headwater.store.verification import verify
from tests.cli.conftest import Run


class Order(hw.Doc):
    number: int
    state: str = "open"


def orders_app() -> tuple[hw.App, hw.Collection[Order]]:
    app = hw.App("orders")
    return app, app.collection(Order, indexes=[(Order.state, Order.number)], unique=[Order.number])


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    path = tmp_path / "orders.db"
    app, found = orders_app()
    with app.open(path):
        found.insert_many({"number": n, "state": "open" if n % 3 else "paid"} for n in range(60))
        for order in found.where(Order.number < 10):
            order.state = "sent"
    return path


def check(path: Path) -> None:
    app, orders = orders_app()
    with app.open(path) as space:
        assert orders.where(Order.state == "sent").values(Order.number) == list(range(10))
        assert orders.count() == 60
        with pytest.raises(DuplicateError), space.transaction():
            Order(number=59)
        Order(number=60)
        assert orders.count() == 61
        report = space._opening.ask_store(verify)
        assert report.ok, report.findings


def test_imported_documents_are_indexed(run: Run, orders: Path, tmp_path: Path) -> None:
    text = run("export", "--url", orders).stdout
    run("import", "-", "--url", "copy.db", stdin=text)
    run("verify", "--url", "copy.db")
    check(tmp_path / "copy.db")


def test_imported_log_is_indexed(run: Run, orders: Path, tmp_path: Path) -> None:
    text = run("export", "--history", "--url", orders).stdout
    run("import", "-", "--url", "copy.db", stdin=text)
    run("verify", "--url", "copy.db")
    check(tmp_path / "copy.db")


def test_backup_has_the_indexes(run: Run, orders: Path, tmp_path: Path) -> None:
    run("backup", "copy.db", "--url", orders)
    run("verify", "--url", "copy.db")
    check(tmp_path / "copy.db")


def test_verify_names_a_damaged_index(run: Run, orders: Path) -> None:
    db = apsw.Connection(str(orders))
    db.execute("update entry set key = x'1000' where (idx, key) in (select idx, key from entry limit 1)")
    db.close()
    found = run("verify", "--url", orders, exit=1)
    assert "order#" in found.stdout + found.stderr


def test_verify_makes_a_damaged_index_again_if_it_is_asked_to(run: Run, orders: Path) -> None:
    db = apsw.Connection(str(orders))
    db.execute("update entry set key = x'1000' where (idx, key) in (select idx, key from entry limit 1)")
    db.close()
    found = run("verify", "--rebuild", "--url", orders)
    assert "sound" in found.stdout
    assert "made again from the log: the index order#" in found.stderr
    [record] = json.loads(run("verify", "--rebuild", "--json", "--url", orders).stdout)["spaces"]
    assert (record["state"], record["rebuilt"], record["findings"]) == ("sound", [], [])
    check(orders)
