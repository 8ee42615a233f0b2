"""A call whose run is overtaken by another opening: its commit is rejected before its result is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import headwater as hw
from headwater.cells.journal import IGNORED_FOR_SCHEDULING
from headwater.cells.transaction import Transaction
from headwater.core import doc_key
from headwater.scheduler.graph.node import Node
from headwater.values.tree import ABSENT
from tests.app.holding import in_thread
from tests.runtime.side_by_side.exchange import Exchange, number


class Shop:
    def __init__(self, debounce: str | None = None) -> None:
        self.app = app = hw.App("shop")
        self.price = price = app.cell("price", 1)
        self.copy = app.cell("copy", 0)
        # Called once, after the price was read.
        self.overtake: Callable[[], None] | None = None

        def read() -> int:
            seen = price.value
            overtake, self.overtake = self.overtake, None
            if overtake is not None:
                overtake()
            return seen

        @app.computed(debounce=debounce)
        def double() -> int:
            return read() * 2

        @app.computed
        def maybe() -> int | None:
            return read() * 2

        self.double, self.maybe = double, maybe


def decide_at_once(monkeypatch: pytest.MonkeyPatch, space: hw.Space) -> None:
    """What a pull has committed is decided and taken in before the pull returns."""
    runtime = space._opening
    pull = runtime.pull

    def pull_and_sync(node: Node, *, in_run: bool = False) -> None:
        pull(node, in_run=in_run)
        runtime.replica.sync()  # type: ignore[attr-defined]  # that of a store in this process

    monkeypatch.setattr(runtime, "pull", pull_and_sync)


def write_of(shop: Shop, space: hw.Space) -> Callable[[], None]:
    def write() -> None:
        shop.price.value = 5
        space.sync()

    return lambda: in_thread(write)


@contextmanager
def overtaken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, debounce: str | None = None
) -> Iterator[tuple[Shop, hw.Space]]:
    """A shop whose functions are overtaken by a write of another session while they run."""
    ann, bob = Shop(debounce), Shop(debounce)
    path = tmp_path / "shop.db"
    with ann.app.open(path) as first, bob.app.open(path) as second:
        decide_at_once(monkeypatch, second)
        bob.overtake = write_of(ann, first)
        yield bob, second


@pytest.mark.parametrize("debounce", [None, "1h"])
def test_plain_call_returns_the_result_of_a_second_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, debounce: str | None
) -> None:
    with overtaken(tmp_path, monkeypatch, debounce) as (bob, _):
        assert bob.double() == 10


def test_plain_call_of_a_function_that_may_return_none_returns_the_result_of_a_second_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with overtaken(tmp_path, monkeypatch) as (bob, _):
        assert bob.maybe() == 10


def test_call_in_a_transaction_returns_the_result_of_a_second_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with overtaken(tmp_path, monkeypatch) as (bob, second):
        with second.transaction():
            bob.copy.value = bob.double()
        assert bob.copy.value == 10


def test_call_whose_result_is_hidden_before_its_verdict_runs_again() -> None:
    """What was overtaken is a peek: no change of it invalidates the function."""
    exchange = Exchange()
    ann, bob = exchange.runtime(), exchange.runtime()

    def peek(tx: Transaction) -> object:
        tx.read(doc_key("rate"), flags=IGNORED_FOR_SCHEDULING)
        return number(tx, "price") * 2

    node = bob.computed("double", peek)
    ann.put(price=1, rate=1)
    exchange.settle()
    bob.scheduler.pull(node)
    ann.put(rate=5)
    ann.send()
    bob.hear()
    assert bob.replica.read(doc_key("double")) is ABSENT
    assert not bob.scheduler.is_valid(node)
    bob.scheduler.pull(node)
    assert bob.see("double") == 2
    exchange.settle()
    assert bob.see("double") == 2
    bob.check()
