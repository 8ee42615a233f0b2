"""Whole programs with queries, on files: restarts, kills, branches, two sessions, threads, event loops, savepoints."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

import pytest

import headwater as hw
from headwater.core import open_space
from tests.declare.collections.ledger import Ledger, Model, Order, Row

ROOT = Path(__file__).parents[3]

Act = Callable[[hw.Space, Ledger], object]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return str(tmp_path / "shop.db")


def totals_of(ledger: Ledger) -> list[int]:
    """What a sink sees of one function."""
    seen: list[int] = []

    @ledger.app.sink
    def watch() -> None:
        seen.append(ledger.functions["total"]())

    return seen


@pytest.mark.parametrize("seed", range(4))
def test_blocks_savepoints_handlers_and_restarts(url: str, seed: int) -> None:
    rng, model = random.Random(seed), Model()
    for _ in range(3):
        ledger = Ledger()
        seen = totals_of(ledger)

        with ledger.app.open(url) as space:
            ledger.check(model)
            for _ in range(12):
                draw = rng.random()
                if draw < 0.3:
                    ledger.step(rng, model)
                elif draw < 0.55:
                    with space.transaction():
                        ledger.step(rng, model, 3)
                        ledger.check(model)
                elif draw < 0.8:
                    with space.transaction():
                        ledger.step(rng, model)
                        before = dict(model)
                        with suppress(ZeroDivisionError), space.transaction():
                            ledger.step(rng, model, 2)
                            assert ledger.model() == model
                            raise ZeroDivisionError
                        model = before
                        assert ledger.model() == model
                elif model:
                    number = rng.choice(list(model))
                    assert ledger.pay.send(number).result() == (model[number].state == "open")
                    model[number] = model[number]._replace(state="paid")
                ledger.check(model)
        assert not seen or seen[-1] == sum(row.cents for row in model.values() if row.state == "open")


@pytest.mark.parametrize("seed", range(2))
def test_next_openings_run_nothing_that_was_current(url: str, seed: int) -> None:
    rng, model = random.Random(seed), Model()
    for _ in range(4):
        ledger = Ledger()
        with ledger.app.open(url):
            # With writes behind the last run of each function.
            ledger.step(rng, model, 4)
            ledger.check(model)
        for _ in range(2):
            ledger = Ledger()
            with ledger.app.open(url) as space:
                ledger.check(model)
                assert ledger.ran(space) == set()
        writer = Ledger("writer")
        with writer.app.open(url):
            writer.step(rng, model, 2)


@pytest.mark.slow
def test_killed_at_random_moments_the_next_opening_has_the_answers(url: str) -> None:
    rng = random.Random(5)
    for seed in range(5):
        code = f"from tests.declare.collections.ledger import main; main({url!r}, {seed})"
        with subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT, env=dict(os.environ)
        ) as child:
            assert child.stdout is not None
            for _ in range(rng.randrange(1, 40)):
                assert child.stdout.readline() == b"checked\n"
            child.send_signal(signal.SIGKILL)
        ledger = Ledger()
        with ledger.app.open(url):
            # Before any query: as functions were restored.
            found = {name: function() for name, function in ledger.functions.items()}
            ledger.check(ledger.model())
            assert found == {name: function() for name, function in ledger.functions.items()}


@pytest.mark.parametrize("seed", range(3))
def test_branches_have_their_own_answers_and_a_merge_brings_them_together(url: str, seed: int) -> None:
    rng, models = random.Random(seed), {"main": Model()}
    ledger = Ledger()
    with ledger.app.open(url):
        ledger.step(rng, models["main"], 12)
        ledger.check(models["main"])
    with open_space(url) as storage:
        at = storage.fork("draft")
    models["draft"] = dict(models["main"])
    models["early"] = dict(models["main"])
    for branch in ("draft", "main", "draft", "main"):
        ledger = Ledger()
        with ledger.app.open(url, branch=branch) as space:
            ledger.check(models[branch])
            ledger.step(rng, models[branch], 3)
            with space.transaction():
                ledger.step(rng, models[branch], 2)
                ledger.check(models[branch])
            ledger.check(models[branch])
    with open_space(url) as storage:
        storage.fork("deep", parent="draft")
        # As of before all that: the indexes of the parent are taken back.
        storage.fork("early", at=at)
    models["deep"] = dict(models["draft"])
    for branch in ("early", "deep", "draft", "main"):
        ledger = Ledger()
        with ledger.app.open(url, branch=branch):
            ledger.check(models[branch])
    ledger = Ledger()
    with ledger.app.open(url, branch="deep"):
        ledger.step(rng, models["deep"], 5)
    with open_space(url) as storage:
        storage.merge("deep", into="draft")
    ledger = Ledger()
    with ledger.app.open(url, branch="draft"):
        ledger.check(models["deep"])


class Session(Thread):
    """An opening in a thread of its own, which does what it is given."""

    def __init__(self, name: str, url: str) -> None:
        super().__init__(daemon=True)
        self.ledger = Ledger(name)
        self._url = url
        self._todo: SimpleQueue[Act | None] = SimpleQueue()
        self._done: SimpleQueue[BaseException | None] = SimpleQueue()
        self.start()
        self.act(lambda *_: None)

    def run(self) -> None:
        with self.ledger.app.open(self._url) as space:
            while (act := self._todo.get()) is not None:
                try:
                    act(space, self.ledger)
                except BaseException as error:  # noqa: BLE001  # raised where it was asked
                    self._done.put(error)
                else:
                    self._done.put(None)

    def act(self, act: Act) -> None:
        self.begin(act)
        self.finish()

    def begin(self, act: Act) -> None:
        self._todo.put(act)

    def finish(self) -> None:
        error = self._done.get()
        if error is not None:
            raise error

    def end(self) -> None:
        self._todo.put(None)
        self.join()


@pytest.mark.parametrize("seed", range(2))
def test_two_sessions_of_one_file(url: str, seed: int) -> None:
    rng, model = random.Random(seed), Model()
    sessions = Session("left", url), Session("right", url)

    def write(space: hw.Space, ledger: Ledger) -> None:
        with space.transaction():
            ledger.step(rng, model, 2)
        ledger.check(model)
        space.sync()

    def check(space: hw.Space, ledger: Ledger) -> None:
        space.sync()
        ledger.check(model)

    for _ in range(15):
        writer, reader = rng.sample(sessions, 2)
        writer.act(write)
        reader.act(check)

    # Both pay all at once: each order is paid by one of them.
    paid = list[bool]()

    def pay(_: hw.Space, ledger: Ledger) -> None:
        paid.extend([ledger.pay.send(number).result() for number in sorted(model)])

    for each in sessions:
        each.begin(pay)
    for each in sessions:
        each.finish()
    assert sum(paid) == sum(row.state == "open" for row in model.values())
    model = {number: row._replace(state="paid") for number, row in model.items()}
    for each in sessions:
        each.act(check)
        each.end()


def test_threads_of_one_opening(url: str) -> None:
    ledger, failed = Ledger(), list[BaseException]()

    def work(first: int) -> None:
        rng = random.Random(first)
        try:
            for number in range(first, first + 20):
                Order(number=number, cents=rng.randrange(50), note="a")
                order = ledger.orders.where(Order.number == rng.randrange(first, number + 1)).one()
                if rng.random() < 0.5:
                    order.state = "paid"
                else:
                    order.cents = 99
                ledger.functions[rng.choice(list(ledger.functions))]()
        except BaseException as error:  # noqa: BLE001  # raised by the test
            failed.append(error)

    with ledger.app.open(url):
        # In the context of the opening: other tests may have left spaces open.
        threads = [Thread(target=copy_context().run, args=(work, first)) for first in (100, 200, 300)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert failed == []
        model = ledger.model()
        assert len(model) == 60
        ledger.check(model)
    ledger = Ledger()
    with ledger.app.open(url):
        ledger.check(model)


@pytest.mark.parametrize("seed", range(2))
def test_event_loop(url: str, seed: int) -> None:
    rng, model = random.Random(seed), Model()

    async def opening() -> None:
        ledger, seen = Ledger(), list[tuple[int, int]]()

        @ledger.app.sink
        async def watch() -> None:
            opened = ledger.orders.where(Order.state == "open")
            count = opened.count()
            await asyncio.sleep(0)
            seen.append((count, opened.sum(Order.cents)))

        async with ledger.app.aopen(url) as space:
            for _ in range(15):
                with space.transaction():
                    ledger.step(rng, model, 2)
                await asyncio.sleep(0)
                ledger.check(model)
            await space.synced()
            cents = [row.cents for row in model.values() if row.state == "open"]
            assert seen[-1] == (len(cents), sum(cents))

    for _ in range(2):
        asyncio.run(opening())


def test_a_loop_that_moves_what_it_finds_finds_each_once(url: str) -> None:
    ledger = Ledger()
    with ledger.app.open(url) as space:
        ledger.orders.insert_many({"number": number, "cents": number} for number in range(600))
        query: Any = ledger.orders.where(Order.state == "open").order_by(Order.cents)
        with space.transaction():
            for order in query:
                order.cents += 1000
        for order in query:
            order.cents += 1000
        model = {number: Row(number + 2000, "open", "") for number in range(600)}
        assert ledger.model() == model
        for order in query:
            if order.number % 2:
                hw.delete(order)
        ledger.check({number: row for number, row in model.items() if not number % 2})
