"""Events that sinks send: once for each run that counts, and no reason to run again."""

from __future__ import annotations

import pytest

import headwater as hw
from headwater.core import RetryImmediately
from tests.app.simulated import Lab, pause
from tests.app.workbench import Bench
from tests.support.tickets import came_to


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_sink_that_sends_runs_again_only_when_what_it_read_has_changed(bench: Bench) -> None:
    x = bench.app.cell("x", 0)
    total = bench.app.cell("total", 0)

    @bench.app.handler
    def add(by: int) -> None:
        total.value += by

    @bench.app.sink
    def pass_on() -> None:
        add.send(x.value)

    with bench.open() as space:
        assert space.runs(pass_on) == 1
        for number in (5, 7):
            x.value = number
        assert (total.value, space.runs(pass_on), space.runs(add)) == (12, 3, 3)
        space.settle()
        assert (total.value, space.runs(pass_on), space.runs(add)) == (12, 3, 3)


def test_event_that_changes_what_the_sink_reads_runs_it_again(bench: Bench) -> None:
    x = bench.app.cell("x", 0)

    @bench.app.handler
    def step() -> None:
        x.value -= 1

    @bench.app.sink
    def count_down() -> None:
        bench.log.append(x.value)
        if x.value > 0:
            step.send()

    with bench.open():
        x.value = 4
        assert bench.taken() == [0, 4, 3, 2, 1, 0]


def test_what_a_sink_that_raises_has_sent_is_not_handled(bench: Bench) -> None:
    x = bench.app.cell("x", 0)
    tickets: list[hw.Ticket[None]] = []

    @bench.app.handler
    def add() -> None:
        bench.log.append("handled")

    @bench.app.sink
    def show() -> None:
        tickets.append(add.send())
        if x.value == 1:
            raise ValueError

    with bench.open():
        assert bench.taken() == ["handled"]
        x.value = 1
        assert bench.taken() == []
        assert (tickets[-1].state, tickets[-1].reason) == ("refused", "show() was rolled back, and the event with it")
        x.value = 2
        assert bench.taken() == ["handled"]


def test_sink_that_asks_to_be_run_again_sends_anew(bench: Bench) -> None:
    tries: list[hw.Ticket[int]] = []

    @bench.app.handler
    def add() -> int:
        bench.log.append("handled")
        return 1

    @bench.app.sink
    def show() -> None:
        tries.append(add.send())
        if len(tries) < 3:
            raise RetryImmediately

    with bench.open():
        assert came_to(*tries) == ["refused", "refused", "handled"]
        assert bench.log == ["handled"]


def test_sinks_send_in_the_order_in_which_they_run(bench: Bench) -> None:
    x = bench.app.cell("x", 0)

    @bench.app.handler
    def note(text: str) -> None:
        bench.log.append(text)

    def sink_of(name: str) -> None:
        @bench.app.sink(name=name)
        def both() -> None:
            note.send(f"{name}{x.value}1")
            note.send(f"{name}{x.value}2")

    for name in "abc":
        sink_of(name)
    with bench.open():
        assert bench.taken() == ["a01", "a02", "b01", "b02", "c01", "c02"]
        x.value = 1
        assert bench.taken() == ["a11", "a12", "b11", "b12", "c11", "c12"]


def test_async_sink_that_is_begun_anew_sends_what_its_last_run_sends() -> None:
    lab = Lab()
    x = lab.app.cell("x", 0)

    @lab.app.handler
    async def note(number: int) -> None:
        await pause(1)
        lab.note("noted", number)

    @lab.app.sink
    async def show() -> None:
        note.send(x.value)
        await pause(100)
        note.send(x.value + 1000)

    async def main() -> None:
        async with lab.open() as space:
            assert lab.taken() == [(101, "noted", 0), (102, "noted", 1000)]
            x.value = 1
            await pause(50)
            x.value = 2
            await space.settle()
            # Both at the end of the run that counts: until then it may be taken back.
            assert lab.taken() == [(253, "noted", 2), (254, "noted", 1002)]
            assert space.runs(note) == 4

    lab.run(main)
