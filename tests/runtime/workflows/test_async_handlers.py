"""Async handlers of workflows have a loop of their own: what they use is the space's all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import headwater as hw

app = hw.App("later")
sent = app.cell("sent", 0)
flow = app.workflow("later")
names = flow.topic("names", str)


@flow.producer()
async def poll() -> None:
    await asyncio.sleep(0)
    names.publish("ann", id="ann")


@flow.consumer(names)
class Greet(hw.Consumer[str, str, str]):
    async def prepare(self, pending: Sequence[hw.Event[str]]) -> hw.Plan[str]:
        await asyncio.sleep(0)
        assert sent.value == 0
        return hw.Plan(pending[0].data, take=pending[:1]) if pending else hw.Plan.idle()

    async def mutate(self, run: hw.Run, data: str) -> str:
        await asyncio.sleep(0)
        return f"{data} {run.attempt}"

    async def next(self, run: hw.Run, data: str, outcome: hw.Outcome[str]) -> None:
        await asyncio.sleep(0)
        assert (run.attempt, data, outcome.result) == (1, "ann", "ann 1")
        sent.value += 1


def test_async_handlers_write_cells_and_publish_in_a_space_of_plain_code() -> None:
    with app.open("memory:") as space:
        space.workflows.drain()
        assert sent.value == 1


def test_async_handlers_write_cells_and_publish_in_a_space_of_an_event_loop() -> None:
    async def main() -> None:
        async with app.aopen("memory:") as space:
            await asyncio.to_thread(space.workflows.drain)
            await space.settle()
            assert sent.value == 1
            assert flow.status.state == "Idle"

    asyncio.run(main())
