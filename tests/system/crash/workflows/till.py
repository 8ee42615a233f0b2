"""A shop whose workflow has a lane for each customer: run as a program, to be killed.

Usage: python -m tests.system.crash.workflows.till FILE CALLS

Each call to the bank is a line of CALLS, written before it returns: the key, the customer, the number.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import headwater as hw

CUSTOMERS = ("ann", "bob", "carl", "dora", "emil")
PAYMENTS = 25


@dataclass(frozen=True)
class Payment:
    customer: str
    number: int


app = hw.App("till")
flow = app.workflow("pay")
due = flow.topic("due", Payment)
paid = app.cell("paid", 0)


@flow.consumer(due, key="customer", concurrency=3, lost="same_call")
class Charge(hw.Consumer[Payment, Payment, str]):
    """Charges one payment after the other of a customer."""

    def prepare(self, pending: Sequence[hw.Event[Payment]]) -> hw.Plan[Payment]:
        return hw.Plan(pending[0].data, take=pending[:1]) if pending else hw.Plan.idle()

    def mutate(self, run: hw.Run, data: Payment) -> str:
        line = f"{run.key} {data.customer} {data.number}\n".encode()
        os.write(calls, line)
        # Killed here, too: the bank has done it, and the outcome is unknown.
        time.sleep(0.003)
        return run.key

    def next(self, run: hw.Run, data: Payment, outcome: hw.Outcome[str]) -> None:  # noqa: ARG002  # as it is called
        paid.increment()


if __name__ == "__main__":
    calls = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with app.open(sys.argv[1]) as space:
        for number in range(PAYMENTS):
            for customer in CUSTOMERS:
                due.publish(Payment(customer, number), id=f"{customer} {number}")
        space.sync()
        space.workflows.start()
        while paid.value < len(CUSTOMERS) * PAYMENTS:
            time.sleep(0.005)
        print("done", flush=True)
