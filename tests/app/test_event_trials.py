"""What a stranger found by trying events for an afternoon."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

import headwater as hw
from headwater.testing import simulate


def test_functions_that_run_once_for_each_of_many_events_are_not_called_restless() -> None:
    app = hw.App("shop")
    n = app.cell("n", 0)
    shown: list[int] = []

    @app.computed
    def double() -> int:
        return n.value * 2

    @app.sink
    def show() -> None:
        shown.append(double())

    @app.handler
    def add() -> None:
        n.value += 1

    told: list[hw.UserCodeError] = []
    with app.open("memory:", on_error=told.append) as space:
        with space.transaction():
            for _ in range(50):
                add.send()
        assert shown == list(range(0, 101, 2))
        assert space.runs(double) == 51
    assert told == []


def test_event_that_failed_is_not_sent_again_with_another_payload_under_its_name() -> None:
    app = hw.App("shop")
    refuse = app.cell("refuse", default=True)

    @app.handler
    def take(x: int) -> int:
        if refuse.value:
            raise ValueError(x)
        return x

    with app.open("memory:", on_error=lambda _: None) as space:
        assert take.once("k").send(1).state == "failed"
        with pytest.raises(hw.EventReusedError, match="failed before with another payload"):
            take.once("k").send(2)
        refuse.value = False
        assert take.once("k").send(1).result() == 1
        space.sync()


def test_tries_of_an_event_that_is_delivered_again_are_counted_on() -> None:
    app = hw.App("shop")

    @app.handler
    def take(x: int) -> None:
        raise ValueError(x)

    with app.open("memory:", on_error=lambda _: None) as space:
        tickets = [take.once("k").send(1) for _ in range(3)]
        letters = tickets[-1].id.removeprefix("event:")
        record = space.cell(f"failed:{letters}").value
        assert isinstance(record, dict)
        assert record["attempts"] == 3


POISON = """
import os, sys
import headwater as hw

app = hw.App("shop")
done = app.cell("done", list[str]())

@app.handler
def poison(how: str) -> None:
    if how == "exit":
        app.sole_space("here").wait_for_disk()  # what has sent it, at least
        os._exit(9)
    done.value = [*done.value, how]

with app.open("shop.db", on_error=lambda error: print(error.facts["event"])) as space:
    if sys.argv[1:]:
        with space.transaction():
            for how in sys.argv[1:]:
                poison.send(how)
    print(done.value)
"""


@pytest.mark.slow
def test_event_that_ends_the_process_each_time_is_set_aside_and_the_others_are_handled(tmp_path: Path) -> None:
    def start(*args: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", POISON, *args]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)

    ends = [start("fine"), start("exit", "after"), start(), start(), start(), start(), start()]
    codes = [end.returncode for end in ends]
    assert codes[:2] == [0, 9]
    assert codes[-1] == 0
    assert 3 <= codes.count(9) <= 4
    assert ends[-1].stdout == "['fine', 'after']\n"


def test_async_opening_does_not_wait_for_events_that_were_left(tmp_path: Path) -> None:
    app = hw.App("shop")
    path = tmp_path / "shop.db"

    @app.handler
    async def hang() -> None:
        await asyncio.sleep(3600)

    async def main() -> list[str]:
        seen: list[str] = []
        for _ in range(2):
            async with app.aopen(path) as space:
                if not seen:
                    hang.send()
                seen.append(space.name)
        return seen

    assert simulate(main()) == ["shop", "shop"]


def test_event_that_waits_can_be_dropped(tmp_path: Path) -> None:
    app = hw.App("shop")
    n = app.cell("n", 0)

    @app.computed(debounce="1h")
    def slow() -> int:
        return n.value

    @app.handler
    def take() -> int:
        return slow()

    with app.open(tmp_path / "shop.db") as space:
        assert slow() == 0
        n.value = 1
        ticket = take.send()
        assert ticket.state == "queued"
        space.scheduler.drop_event(ticket.id)
        assert (ticket.state, ticket.reason) == ("refused", "it was dropped")
        with pytest.raises(hw.EventRefusedError, match="it was dropped"):
            ticket.result()


def test_debounced_function_does_not_wait_for_what_changed_before_the_program_was_started(tmp_path: Path) -> None:
    app = hw.App("shop")
    n = app.cell("n", 1)
    out = app.cell("out", 0)

    @app.computed(debounce="1h")
    def total() -> int:
        return n.value * 10

    @app.handler
    def pack() -> None:
        out.value = total()

    with app.open(tmp_path / "shop.db"):
        assert total() == 10
    with app.open(tmp_path / "shop.db"):
        n.value = 5
        assert total() == 10
    with app.open(tmp_path / "shop.db"):
        pack.send()
        assert (out.value, total()) == (50, 50)
