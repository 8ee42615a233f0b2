"""The next run is begun in the transaction that ends one: also if it is for what that one has just published."""

from __future__ import annotations

from collections.abc import Sequence

import headwater as hw


def test_what_a_producer_publishes_is_consumed_in_the_same_drain() -> None:
    app = hw.App("begin")
    flow = app.workflow("flow")
    numbers = flow.topic("numbers", int)
    seen: list[int] = []

    @flow.producer()
    def poll() -> None:
        numbers.publish(1, id="one")
        numbers.publish(2, id="two")

    @flow.consumer(numbers)
    class Take(hw.Consumer[int, list[int], None]):
        def prepare(self, pending: Sequence[hw.Event[int]]) -> hw.Plan[list[int]]:
            return hw.Plan([event.data for event in pending], take=pending) if pending else hw.Plan.idle()

        def next(self, run: hw.Run, data: list[int], outcome: object) -> None:
            assert run.attempt == 1 and isinstance(outcome, hw.Nothing)
            seen.extend(data)

    with app.open("memory:") as space:
        space.workflows.drain()
        assert sorted(seen) == [1, 2]
        assert flow.status.pending == {"numbers": 0}
