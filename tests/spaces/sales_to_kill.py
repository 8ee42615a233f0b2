"""A shop that sells and a bank that credits, in two spaces, in a process that is killed.

python -m tests.spaces.sales_to_kill FOLDER SEED            sells until it is killed
python -m tests.spaces.sales_to_kill FOLDER SEED STEP       sells until the step, and kills itself there
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import headwater as hw
from headwater.runtime.delivery import SpaceDelivery

ALL = 1_000_000
"""Units in the stock at the beginning. A unit that is sold is credited once."""

STEPS = (
    "sent, not committed",
    "committed here",
    "about to be delivered",
    "being handled",
    "handled, not on disk",
    "on disk there",
    "about to be taken out",
    "taken out, not on disk",
)
"""Of one sale: each can be the last thing that a process does."""


class Sales:
    """Both apps. The bank checks that sales arrive in the order of their commits."""

    def __init__(self) -> None:
        self.shop, self.bank = hw.App("shop"), hw.App("bank")
        self.stock = self.shop.cell("stock", ALL)
        self.sold = self.shop.cell("sold", 0)
        self.balance = self.bank.cell("balance", 0)
        self.credited = self.bank.cell("credited", 0)
        self.disorder = self.bank.cell("disorder", 0)
        self.posted = self.bank.cell("posted", 0)
        self.credit = self.bank.handler(name="credit")(self._credit)
        self.sell = self.shop.handler(name="sell")(self._sell)
        self.sending: Callable[[], None] = lambda: None
        self.handling: Callable[[], None] = lambda: None

    def _credit(self, number: int, units: int) -> None:
        self.disorder.value += number != self.credited.value + 1
        self.balance.value += units
        self.credited.value += 1
        self.handling()

    def _sell(self, units: int) -> None:
        self.stock.value -= units
        self.sold.value += 1
        self.credit.send(self.sold.value, units)
        self.posted.post.increment(units)
        self.sending()

    def open_bank(self, folder: str) -> hw.Space:
        return self.bank.open(os.environ.get("BANK") or f"{folder}/bank.db")

    def open_shop(self, folder: str) -> hw.Space:
        return self.shop.open(f"{folder}/shop.db")

    def outcome(self) -> dict[str, int]:
        """What must hold when everything is delivered."""
        return {
            "lost or doubled": self.sold.value - self.credited.value,
            "units lost or doubled": ALL - self.stock.value - self.balance.value,
            "posts lost or doubled": ALL - self.stock.value - self.posted.value,
            "out of order": self.disorder.value,
        }


NOTHING_WRONG = {"lost or doubled": 0, "units lost or doubled": 0, "posts lost or doubled": 0, "out of order": 0}


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def end_before(name: str) -> None:
    """End the process when a method of the delivery is called the third time."""
    method: Any = getattr(SpaceDelivery, name)
    calls: list[int] = []

    def counted(*args: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) >= 3:
            die()
        return method(*args, **options)

    setattr(SpaceDelivery, name, counted)


def end_after(name: str) -> None:
    method: Any = getattr(SpaceDelivery, name)
    calls: list[int] = []

    def counted(*args: Any, **options: Any) -> Any:
        result = method(*args, **options)
        calls.append(1)
        if len(calls) >= 3:
            die()
        return result

    setattr(SpaceDelivery, name, counted)


def third(action: Callable[[], None]) -> Callable[[], None]:
    calls: list[int] = []

    def count() -> None:
        calls.append(1)
        if len(calls) >= 3:
            action()

    return count


def die_at(sales: Sales, step: str) -> None:
    """Arrange for the end of this process."""
    match step:
        case "sent, not committed":
            sales.sending = third(die)
        case "committed here":
            end_before("_decided")
        case "about to be delivered":
            end_before("_hand_over")
        case "being handled":
            sales.handling = third(die)
        case "handled, not on disk":
            end_after("_deliver")
        case "on disk there":
            end_before("_ended")
        case "about to be taken out":
            end_before("_acknowledge")
        case "taken out, not on disk":
            end_after("_acknowledge")
        case _:
            raise ValueError(step)


def work(folder: str, seed: int, step: str) -> None:
    """Sell for ever, a few at a time."""
    rng, sales = random.Random(seed), Sales()
    if step:
        die_at(sales, step)
    with sales.open_bank(folder), sales.open_shop(folder) as near:
        Path(folder, f"ready-{seed}").touch()
        while True:
            for _ in range(rng.randint(1, 5)):
                sales.sell.send(rng.randint(1, 9))
            if rng.random() < 0.5:
                near.delivered()


if __name__ == "__main__":
    work(sys.argv[1], int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "")
