"""Rows that were deleted, cut off, changed or put elsewhere: a run, never an error, never a wrong result."""

from __future__ import annotations

import random
from pathlib import Path
from zlib import crc32

import apsw
import pytest

import headwater as hw
from headwater.core import doc_key
from headwater.store.observations import FORMAT, encode_observation
from headwater.values.ids import MAIN
from tests.runtime.restore.kit import outcome

Row = tuple[str, int, bytes, int]


class Shop:
    """Three functions of two cells; one has parameters, one writes besides its result."""

    def __init__(self, folder: Path) -> None:
        app = self.app = hw.App("shop")
        self.path = folder / "shop.db"
        rate, count, log = app.cell("rate", 2), app.cell("count", 3), app.cell("log", 0)

        @app.computed
        def taxed() -> int:
            return rate.value * 10

        @app.computed(writes=[log])
        def total() -> int:
            log.value = count.value
            return taxed() + count.value

        @app.computed
        def times(number: int) -> int:
            return count.value * number

        self.rate, self.count, self.taxed, self.total, self.times = rate, count, taxed, total, times

    def open(self) -> hw.Space:
        return self.app.open(self.path)

    def run(self, rate: int = 2, count: int = 3) -> None:
        with self.open():
            self.rate.value, self.count.value = rate, count
            self.judge(rate, count)

    def judge(self, rate: int, count: int) -> None:
        assert (self.taxed(), self.total(), self.times(2)) == (rate * 10, rate * 10 + count, count * 2)

    def rows(self) -> list[Row]:
        """By document: where, what, and the sum."""
        query = "select key, seq, body, o.sum from observation as o join doc on doc.id = o.doc order by key"
        db = apsw.Connection(str(self.path))
        try:
            return list(db.execute(query))
        finally:
            db.close()

    def tamper(self, sql: str, *values: object) -> None:
        """Through another connection, while it is closed."""
        with apsw.Connection(str(self.path)) as db:
            db.execute(sql, values)
        db.close()

    def put(self, key: str, row: Row) -> None:
        sql = "update observation set seq = ?, body = ?, sum = ? where doc = (select id from doc where key = ?)"
        self.tamper(sql, *row[1:], key)


def sum_of(key: str, seq: int, body: bytes) -> int:
    """As a writer who knows the rules would make it."""
    return crc32(body, crc32(f"{MAIN}\0{key}\0{seq}".encode()))


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    made = Shop(tmp_path)
    made.run()
    assert len(made.rows()) == 3
    return made


def found(shop: Shop, *, restored: int) -> None:
    """It opens, believes so many at most, comes to what is right, and is well again afterwards."""
    with shop.open() as space:
        assert outcome(space)[0] == restored
        shop.judge(2, 3)
    with shop.open() as space:
        shop.judge(2, 3)
        assert sum(space.stats.runs.values()) == 0


ALL = 2
"""That an opening restores: the one with parameters waits until it is called."""


def test_row_that_was_deleted_costs_its_run(shop: Shop) -> None:
    shop.tamper("delete from observation where doc = (select id from doc where key = 'space/shop.taxed')")
    found(shop, restored=ALL - 1)


def test_all_rows_deleted_cost_all_runs(shop: Shop) -> None:
    shop.tamper("delete from observation")
    with shop.open() as space:
        shop.judge(2, 3)
        assert sum(space.stats.runs.values()) == 3


@pytest.mark.parametrize("length", range(0, 40, 3))
def test_row_that_was_cut_off_costs_its_run(shop: Shop, length: int) -> None:
    [key, seq, body, _] = shop.rows()[0]
    body = body[: min(length, len(body) - 1)]
    shop.put(key, (key, seq, body, sum_of(key, seq, body)))
    found(shop, restored=ALL if key.partition(":")[2] else ALL - 1)


def test_any_bit_of_a_row_turned_over_costs_its_run(shop: Shop) -> None:
    rng = random.Random(5)
    row = next(row for row in shop.rows() if row[0] == "space/shop.taxed")
    for _ in range(30):
        body = bytearray(row[2])
        body[rng.randrange(len(body))] ^= 1 << rng.randrange(8)
        shop.put(row[0], (row[0], row[1], bytes(body), row[3]))
        with shop.open() as space:
            assert outcome(space)[0] == ALL - 1
            assert shop.taxed() == 20
            assert space.runs(shop.taxed) == 1
        row = next(row for row in shop.rows() if row[0] == "space/shop.taxed")


def test_row_with_another_place_costs_its_run(shop: Shop) -> None:
    """A later place would hide what was written in between."""
    row = next(row for row in shop.rows() if row[0] == "space/shop.taxed")
    with shop.open():
        shop.rate.value = 7
    shop.put(row[0], (row[0], row[1] + 100, row[2], row[3]))
    with shop.open():
        shop.judge(7, 3)


def test_rows_that_were_swapped_cost_their_runs(shop: Shop) -> None:
    first, second = (row for row in shop.rows() if ":" not in row[0])
    shop.put(first[0], second)
    shop.put(second[0], first)
    found(shop, restored=0)


def test_row_of_another_function_with_a_sum_that_fits_costs_its_run(shop: Shop) -> None:
    """The print says by which code it was run."""
    rows = {row[0]: row for row in shop.rows()}
    body = rows["space/shop.total"][2]
    seq = rows["space/shop.taxed"][1]
    shop.put("space/shop.taxed", ("", seq, body, sum_of("space/shop.taxed", seq, body)))
    found(shop, restored=ALL - 1)


def test_row_of_an_unknown_format_costs_its_run(shop: Shop) -> None:
    row = next(row for row in shop.rows() if row[0] == "space/shop.taxed")
    body = row[2].replace(bytes([0x93, FORMAT]), bytes([0x93, FORMAT + 1]), 1)
    assert body != row[2]
    shop.put(row[0], (row[0], row[1], body, sum_of(row[0], row[1], body)))
    found(shop, restored=ALL - 1)


@pytest.mark.parametrize("value", [None, 5, "text", 2.5])
def test_row_of_another_type_is_refused_by_the_table(shop: Shop, value: object) -> None:
    with pytest.raises(apsw.ConstraintError):
        shop.tamper("update observation set body = ?", value)
    found(shop, restored=ALL)


def test_row_with_reads_that_make_no_sense_costs_its_run_or_is_dirty(shop: Shop) -> None:
    """Only somebody who means it could write this; it must not be an error all the same."""
    key = "space/shop.taxed"
    row = next(row for row in shop.rows() if row[0] == key)
    for reads in ([("nowhere", (), 0)], [("space/shop.rate", ("a", 3, ""), 1)], [("", (), 0)]):
        body = encode_observation(b"other", reads)  # type: ignore[arg-type]  # as one who does not know would
        shop.put(key, (key, row[1], body, sum_of(key, row[1], body)))
        with shop.open():
            assert shop.taxed() == 20


def test_older_row_put_back_is_not_believed(shop: Shop) -> None:
    """As from a backup of that table alone: its result is not the one that stands there."""
    old = next(row for row in shop.rows() if row[0] == "space/shop.taxed")
    shop.run(rate=5)
    shop.put(old[0], old)
    with shop.open():
        shop.judge(5, 3)


def test_digest_in_the_log_whose_body_is_gone_costs_the_run(shop: Shop) -> None:
    """The commit holds only the digest: what that stands for is in the table, and nowhere else."""
    with shop.open() as space:
        shop.rate.value = 6
        assert shop.taxed() == 60
        space.sync()
        space._opening.ask_store(lambda engine: engine.backend.drop_observations([(MAIN, doc_key("shop.taxed"))]))
    assert "space/shop.taxed" not in [row[0] for row in shop.rows()]
    with shop.open() as space:
        assert outcome(space)[0] == 0
        shop.judge(6, 3)
        assert space.runs(shop.taxed) == 1


def test_fault_in_every_row_at_once_is_never_an_error(shop: Shop) -> None:
    rng = random.Random(8)
    for _ in range(20):
        for key, seq, body, total in shop.rows():
            match rng.randrange(5):
                case 0:
                    shop.tamper("delete from observation where doc = (select id from doc where key = ?)", key)
                case 1:
                    shop.put(key, (key, seq, rng.randbytes(rng.randrange(60)), total))
                case 2:
                    junk = rng.randbytes(rng.randrange(60))
                    shop.put(key, (key, seq, junk, sum_of(key, seq, junk)))
                case 3:
                    shop.put(key, (key, rng.randrange(50), body, total))
                case _:
                    pass
        rate, count = rng.randrange(9), rng.randrange(9)
        with hw.App("elsewhere").open(shop.path) as space:
            space.cell("shop.rate").value = rate
            space.cell("shop.count").value = count
        with shop.open():
            shop.judge(rate, count)
