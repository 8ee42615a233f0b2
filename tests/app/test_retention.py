"""Receipts are kept for 30 days, or as long as the program says; those of outside ids stay unless it says so."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import UsageError
from headwater.host.storage import storage_of
from headwater.runtime.options import Options
from headwater.store.compaction import compact
from headwater.store.retention import Retention, RetentionRound
from headwater.store.verification import verify
from headwater.values.ids import MAIN, BranchId, Millis, Seq

DAY_MS = 86_400_000
START_MS = int(datetime(2026, 5, 1, tzinfo=UTC).timestamp() * 1000)


class Machine:
    """The clock of the log and of the program, which a test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ms = float(START_MS)
        from headwater.host.system_clock import SystemClock

        monkeypatch.setattr(SystemClock, "now_ms", lambda _: Millis(int(self.ms)))

    def options(self, **more: object) -> Options:
        return Options(now=lambda: self.ms, wall=lambda: Millis(int(self.ms)), **more)  # type: ignore[arg-type]

    def pass_days(self, days: float) -> None:
        self.ms += days * DAY_MS


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def counting() -> tuple[hw.App, hw.Handler[[int], None], hw.Cell[int]]:
    app = hw.App("bank")
    total = app.cell("total", 0)

    @app.handler
    def pay(amount: int) -> None:
        total.value += amount

    return app, pay, total


def receipts(space: hw.Space) -> int:
    def count(engine: object) -> int:
        heads = engine.backend.heads(MAIN, "space/receipt:", "", 1000)  # type: ignore[attr-defined]
        return sum(head.live for head in heads)

    space.sync()
    space._opening._lease.local.call(lambda engine: engine.fold())
    return space._opening._lease.local.call(count)


def settle(space: hw.Space, clock: Machine) -> None:
    for _ in range(6):
        clock.ms += 100
        space.settle()
        # Decided now, at this time of the clock.
        space.sync()


def open_later(app: hw.App, url: Path, clock: Machine, days: float, **options: object) -> int:
    """Open it after some days; the number of receipts then."""
    clock.pass_days(days)
    with app.open_with(url, clock.options(**options)) as space:
        settle(space, clock)
        found = receipts(space)
        assert space._opening._lease.local.call(verify).findings == []
        return found


def test_receipts_of_own_ids_go_after_30_days_and_others_stay(tmp_path: Path, clock: Machine) -> None:
    app, pay, total = counting()
    url = tmp_path / "bank.db"
    with app.open_with(url, clock.options()) as space:
        for amount in range(5):
            pay.send(amount)
        pay.once("payment-7").send(100)
        settle(space, clock)
        assert receipts(space) == 6
    assert open_later(app, url, clock, 29) == 6
    with app.open_with(url, clock.options()):
        pay.send(1)
    assert open_later(app, url, clock, 2) == 2
    assert open_later(app, url, clock, 400) == 1
    with app.open_with(url, clock.options()) as space:
        pay.once("payment-7").send(100)
        settle(space, clock)
        assert total.value == 111


def test_with_a_time_all_receipts_go_and_an_event_that_is_sent_again_is_handled_again(
    tmp_path: Path, clock: Machine
) -> None:
    app, pay, total = counting()
    url = tmp_path / "bank.db"
    kept = {"receipts": "7d"}
    with app.open_with(url, clock.options(retain=kept)) as space:
        pay.once("payment-7").send(100)
        settle(space, clock)
        pay.once("payment-7").send(100)
        settle(space, clock)
        assert total.value == 100
    assert open_later(app, url, clock, 6, retain=kept) == 1
    assert open_later(app, url, clock, 2, retain=kept) == 0
    with app.open_with(url, clock.options(retain=kept)) as space:
        # A deleted receipt still counts, until compaction drops it.
        storage = space._opening._lease.local
        storage.call(lambda engine: compact(engine, Seq(engine.head)))
    with app.open_with(url, clock.options(retain=kept)) as space:
        pay.once("payment-7").send(100)
        settle(space, clock)
        assert total.value == 200
        assert space._opening._lease.local.call(verify).findings == []


def test_a_long_running_program_drops_them_once_a_day(clock: Machine) -> None:
    app, pay, _ = counting()
    with app.open_with("memory:", clock.options(retain={"receipts": "2d"})) as space:
        rounds: list[float] = []
        storage = space._opening._lease.local
        real = storage.retain

        def counted(at: RetentionRound, kept: Retention, now_ms: int) -> tuple[int, bool]:
            rounds.append(clock.ms)
            return real(at, kept, now_ms)

        storage.retain = counted  # type: ignore[method-assign]
        for _ in range(5):
            pay.send(1)
            settle(space, clock)
            clock.pass_days(1)
            settle(space, clock)
        assert receipts(space) == 1
        assert len({int((ms - START_MS) // DAY_MS) for ms in rounds}) == 4


def test_a_document_of_an_author_is_no_receipt(tmp_path: Path, clock: Machine) -> None:
    class Receipt(hw.Doc):
        text: str

    app = hw.App("shop")
    app.collection(Receipt)
    with app.open_with(tmp_path / "shop.db", clock.options()):
        Receipt(text="bread")
    assert open_later(app, tmp_path / "shop.db", clock, 90) == 1


def test_on_other_branches_they_stay(tmp_path: Path, clock: Machine) -> None:
    app, pay, _ = counting()
    url = tmp_path / "bank.db"
    with app.open_with(url, clock.options()) as space:
        pay.send(1)
        settle(space, clock)
        space.sync()
        storage_of(space._opening._lease).fork("trial")
    with app.open_with(url, clock.options(branch=BranchId("trial"))) as space:
        pay.send(2)
        settle(space, clock)
    assert open_later(app, url, clock, 40) == 0
    clock.pass_days(0)
    with app.open_with(url, clock.options()) as space:
        heads = space._opening._lease.local.call(
            lambda engine: engine.backend.heads(BranchId("trial"), "space/receipt:", "", 10)  # type: ignore[arg-type]
        )
        assert [head.live for head in heads] == [True]


@pytest.mark.parametrize("given", [{"receipt": "30d"}, {"receipts": 30}, {"receipts": "soon"}, ["receipts"], "30d"])
def test_wrong_times_are_refused(given: object) -> None:
    app = hw.App("bank")
    with pytest.raises(UsageError, match="retain"):
        app.open("memory:", retain=given)  # type: ignore[arg-type]
