"""Consumers with lanes, rates and lost calls, as authors declare them: in one thread, and under a host with several."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.errors import DeclarationError, UsageError
from headwater.runtime.options import Options
from headwater.testing import SimClock

WAIT_S = 60.0


@dataclass(frozen=True)
class Payment:
    customer: str
    cents: int


class Bank:
    """A service that notes what it is asked for, and knows the keys it has seen."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.calls: list[tuple[str, int]] = []
        self.keys: dict[str, int] = {}
        self.now: dict[str, int] = defaultdict(int)
        self.most = 0
        self.overlaps = 0
        self.meet: threading.Barrier | None = None
        self.loses = 0

    def charge(self, payment: Payment, key: str) -> str:
        with self.lock:
            self.now[payment.customer] += 1
            self.overlaps += self.now[payment.customer] > 1
            self.most = max(self.most, sum(self.now.values()))
        try:
            if self.meet is not None:
                self.meet.wait(WAIT_S)
            with self.lock:
                is_new = key not in self.keys
                self.keys[key] = self.keys.get(key, 0) + 1
                if is_new:
                    self.calls.append((payment.customer, payment.cents))
                self.loses -= 1
                if self.loses >= 0:
                    raise ConnectionError("the answer was lost")
            return f"receipt {payment.cents}"
        finally:
            with self.lock:
                self.now[payment.customer] -= 1


def shop(bank: Bank, **options: Any) -> tuple[hw.App, hw.Topic[Payment], Any]:
    """An app that charges what is due, and counts what was paid."""
    app = hw.App("shop")
    flow = app.workflow("pay")
    due = flow.topic("due", Payment)
    paid = app.cell("paid", 0)

    @flow.consumer(due, **options)
    class Charge(hw.Consumer[Payment, Payment, str]):
        def prepare(self, pending: Sequence[hw.Event[Payment]]) -> hw.Plan[Payment]:
            if not pending:
                return hw.Plan.idle()
            return hw.Plan(pending[0].data, take=pending[:1], title=f"Charge {pending[0].data.customer}")

        def mutate(self, run: hw.Run, data: Payment) -> str:
            return bank.charge(data, run.key)

        def next(self, run: hw.Run, data: Payment, outcome: hw.Outcome[str]) -> None:  # as it is called
            paid.increment(data.cents)

    return app, due, paid


def wait_until_paid(paid: Any, total: int) -> None:
    """Until the host has paid all of it, and for a minute at most."""
    late = threading.Event()
    timer = threading.Timer(WAIT_S, late.set)
    timer.start()
    while paid.value != total and not late.wait(0.005):
        pass
    timer.cancel()
    assert paid.value == total


@pytest.mark.parametrize("options", [{"key": "customer"}, {"key": "customer", "concurrency": 2}, {"concurrency": 2}])
def test_lanes_of_a_host_act_at_the_same_time(options: dict[str, Any], tmp_path: Path) -> None:
    bank = Bank()
    # Each call waits for another one: alone, it would not return.
    bank.meet = threading.Barrier(2)
    app, due, paid = shop(bank, **options)
    with app.open(str(tmp_path / "shop.db")) as space:
        for customer in ("ann", "bob"):
            due.publish(Payment(customer, 1), id=customer)
        space.workflows.start()
        wait_until_paid(paid, 2)
    assert bank.most == 2


def test_payments_of_one_customer_are_charged_in_order_and_one_at_a_time(tmp_path: Path) -> None:
    bank = Bank()
    app, due, paid = shop(bank, key="customer", concurrency=3)
    with app.open(str(tmp_path / "shop.db")) as space:
        space.workflows.start(8)
        for number in range(1, 21):
            for customer in ("ann", "bob", "carl", "dora"):
                due.publish(Payment(customer, number), id=f"{customer} {number}")
        wait_until_paid(paid, 4 * 210)
    assert bank.overlaps == 0
    assert bank.most <= 3
    by_customer: dict[str, list[int]] = defaultdict(list)
    for customer, cents in bank.calls:
        by_customer[customer].append(cents)
    assert dict(by_customer) == {name: list(range(1, 21)) for name in ("ann", "bob", "carl", "dora")}


def test_drain_does_what_is_due_in_every_lane(tmp_path: Path) -> None:
    bank = Bank()
    app, due, paid = shop(bank, key="customer")
    with app.open(str(tmp_path / "shop.db")) as space:
        for number, customer in enumerate(("ann", "bob", "ann", "carl"), 1):
            due.publish(Payment(customer, number), id=str(number))
        assert space.workflows.drain() == 4
        assert paid.value == 10
        assert space.workflows.wake_at is None


def test_rate_spaces_the_calls_in_simulated_time(tmp_path: Path) -> None:
    bank, clock = Bank(), SimClock()
    app, due, _ = shop(bank, key="customer", rate="2/s")
    with app.open_with(str(tmp_path / "shop.db"), Options(wall=clock.now_ms)) as space:
        for number in range(5):
            due.publish(Payment(f"c{number}", 1), id=str(number)).sync()
        for done in range(1, 6):
            assert space.workflows.drain() == 1
            assert len(bank.calls) == done
            assert space.workflows.drain() == 0
            at = space.workflows.wake_at
            assert at == (clock.now_ms() + 500 if done < 5 else None)
            clock.advance(499)
            assert space.workflows.drain() == 0
            clock.advance(1)


def test_same_call_sends_a_lost_call_again_under_its_key_and_the_service_does_it_once(tmp_path: Path) -> None:
    bank, clock = Bank(), SimClock()
    bank.loses = 2
    app, due, paid = shop(bank, lost="same_call")
    with app.open_with(str(tmp_path / "shop.db"), Options(wall=clock.now_ms)) as space:
        due.publish(Payment("ann", 7), id="1").sync()
        for _ in range(4):
            space.workflows.drain()
            clock.advance(60_000)
        assert paid.value == 7
    # Sent three times, done once.
    assert (bank.calls, list(bank.keys.values())) == ([("ann", 7)], [3])


def test_a_lost_call_of_a_connector_is_sent_again_with_its_arguments(tmp_path: Path) -> None:
    clock = SimClock()
    seen: list[tuple[str, int, str]] = []
    app = hw.App("shop")
    flow = app.workflow("pay")
    due = flow.topic("due", Payment)
    bank = flow.connector("bank")

    @bank.mutation
    def charge(customer: str, cents: int, key: str = "") -> str:
        seen.append((customer, cents, key))
        if len(seen) == 1:
            raise ConnectionError("the answer was lost")
        return "receipt"

    @flow.consumer(due, uses=bank, lost="same_call", key="customer")
    class Charge(hw.Consumer[Payment, Payment, str]):
        def prepare(self, pending: Sequence[hw.Event[Payment]]) -> hw.Plan[Payment]:
            return hw.Plan(pending[0].data, take=pending[:1]) if pending else hw.Plan.idle()

        def mutate(self, run: hw.Run, data: Payment) -> str:
            return run.call(charge, data.customer, data.cents)

    with app.open_with(str(tmp_path / "shop.db"), Options(wall=clock.now_ms)) as space:
        due.publish(Payment("ann", 7), id="1").sync()
        space.workflows.drain()
        clock.advance(60_000)
        space.workflows.drain()
        assert flow.status.state == "Idle"
    assert len(seen) == 2
    assert seen[0] == seen[1]


def test_a_person_is_asked_about_a_lost_call_although_there_is_a_reconcile(tmp_path: Path) -> None:
    app = hw.App("shop")
    flow = app.workflow("pay")
    due = flow.topic("due", Payment)

    @flow.consumer(due, lost="person")
    class Charge(hw.Consumer[Payment, Payment, str]):
        def prepare(self, pending: Sequence[hw.Event[Payment]]) -> hw.Plan[Payment]:
            return hw.Plan(pending[0].data, take=pending[:1]) if pending else hw.Plan.idle()

        def mutate(self, run: hw.Run, data: Payment) -> str:
            raise ConnectionError("the answer was lost")

        def reconcile(self, run: hw.Run, data: Payment) -> hw.NotApplied:
            raise AssertionError("it is not asked")

    with app.open(str(tmp_path / "shop.db")) as space:
        due.publish(Payment("ann", 7), id="1").sync()
        space.workflows.drain()
        assert flow.status.state == "Needs attention"
        assert "Say whether it happened" in flow.status.sentence


# --- declarations that cannot work ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"concurrency": 0}, "concurrency=0; a number of lanes from 1 to 1000 is expected"),
        ({"concurrency": True}, "concurrency=True"),
        ({"concurrency": 1001}, "concurrency=1001"),
        ({"rate": "x"}, "rate='x'; a number of calls in a second, minute, hour or day is expected"),
        ({"lost": "x"}, 'lost=\'x\'; one of "reconcile", "same_call", "person" is expected'),
        ({"key": ""}, "key=''; the name of a field of its events is expected"),
    ],
)
def test_an_option_that_is_none_is_rejected_at_once(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        shop(Bank(), **options)
    assert message in refused.value.message


def test_a_state_and_lanes_are_rejected_together() -> None:
    flow = hw.App("shop").workflow("pay")
    due = flow.topic("due", Payment)
    with pytest.raises(DeclarationError, match="has a state, and lanes that are at work at the same time"):

        @flow.consumer(due, key="customer")
        class Charge(hw.Consumer[Payment, Payment, str]):
            state: int = 0

            def prepare(self, pending: Sequence[hw.Event[Payment]]) -> hw.Plan[Payment]:
                return hw.Plan.idle()


def test_same_call_of_an_operation_without_a_key_is_rejected() -> None:
    app = hw.App("shop")
    flow = app.workflow("pay")
    due = flow.topic("due", Payment)
    bank = flow.connector("bank")

    @bank.mutation
    def charge(cents: int) -> str:
        return str(cents)

    @flow.consumer(due, uses=bank, lost="same_call")
    class Charge(hw.Consumer[Payment, Payment, str]):
        def prepare(self, pending: Sequence[hw.Event[Payment]]) -> hw.Plan[Payment]:
            return hw.Plan.idle()

        def mutate(self, run: hw.Run, data: Payment) -> str:
            return run.call(charge, data.cents)

    with pytest.raises(DeclarationError, match="takes no key by which the service could know it"):
        app.open("memory:")


@pytest.mark.parametrize("priority", [-1, 10, 5.0, True, "high"])
def test_priority_that_is_none_is_rejected(priority: Any) -> None:
    app, due, _ = shop(Bank())
    with app.open("memory:"), pytest.raises(UsageError, match="a number from 0 to 9 is expected"):
        due.publish(Payment("ann", 1), id="1", priority=priority)
