"""A shop whose orders come in over HTTP. Made anew for each test: declarations know where they are open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import headwater as hw


@dataclass(frozen=True)
class Order:
    item: str
    count: int = 1


class Shop:
    """An app with two workflows; `sold` is what the consumer has seen, in order."""

    def __init__(self) -> None:
        self.app = app = hw.App("shop")
        self.sold: list[tuple[str, str, int]] = []
        flow = app.workflow("orders")
        self.flow = flow
        self.placed = flow.topic("placed", Order)
        self.returned = flow.topic("returned", Order)
        sold = self.sold

        @flow.consumer(self.placed, peek=1000)
        class Sell(hw.Consumer[Order, None, None]):
            def prepare(self, pending: Sequence[hw.Event[Order]]) -> hw.Plan[None]:
                sold.extend((event.id, event.data.item, event.data.count) for event in pending)
                return hw.Plan(None, take=pending)

        @flow.consumer(self.returned)
        class TakeBack(hw.Consumer[Order, None, None]):
            def prepare(self, pending: Sequence[hw.Event[Order]]) -> hw.Plan[None]:
                return hw.Plan(None, take=pending)

        other = app.workflow("letters")
        self.letters = other.topic("letters", str)

        @other.consumer(self.letters)
        class Answer(hw.Consumer[str, None, None]):
            def prepare(self, pending: Sequence[hw.Event[str]]) -> hw.Plan[None]:
                return hw.Plan(None, take=pending)

    def waiting(self) -> int:
        """Orders that nobody has looked at."""
        return self.flow.status.pending["placed"]


def key(text: str) -> dict[str, str]:
    return {"Idempotency-Key": text}
