"""`space.sync()` does not return while an event is only in memory because there is no room on the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import StoreFullError
from headwater.runtime.opening import Opening
from headwater.runtime.type_records import schema_key
from headwater.scheduler.graph.node import Node
from headwater.scheduler.scheduler_limits import FAILURES_MAX
from headwater.store.backend import LogRow
from headwater.values.tree import ABSENT


@contextmanager
def full(space: Opening) -> Iterator[None]:
    """The disk takes nothing."""
    backend = space._lease.local.call(lambda engine: engine.backend)

    def append(*_: object) -> None:
        raise StoreFullError("no room to write: the disk is full")

    backend.append = append  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        del backend.append


def counter() -> tuple[hw.App, hw.Cell[int], hw.Handler[..., None]]:
    app = hw.App("counter")
    count = app.cell("count", 0)

    @app.handler
    def add(by: int) -> None:
        count.value += by

    return app, count, add


def test_sync_raises_while_an_event_is_only_in_memory(tmp_path: Path) -> None:
    app, count, add = counter()
    with app.open(str(tmp_path / "a.db")) as space:
        # What the opening itself writes is on disk.
        space.sync()
        with full(space._opening):
            tickets = [add.send(1), add.send(2)]
            for _ in range(2):
                with pytest.raises(StoreFullError, match=r"2 events are only in memory in space 'a'.*the disk is full"):
                    space.sync()
        for ticket in tickets:
            ticket.result(timeout="60s")
        space.sync()
        assert count.value == 3


def test_async_sync_raises_while_an_event_is_only_in_memory(tmp_path: Path) -> None:
    app, count, add = counter()

    async def main() -> int:
        async with app.aopen(str(tmp_path / "a.db")) as space:
            await space.synced()
            with full(space._opening):
                ticket = add.send(1)
                for _ in range(2):
                    with pytest.raises(StoreFullError, match="1 event is only in memory in space 'a'"):
                        await space.synced()
            await ticket
            await space.synced()
            return count.value

    assert asyncio.run(main()) == 1


def test_what_an_app_declares_is_not_missed_while_the_disk_is_full(tmp_path: Path) -> None:
    """The author wrote nothing: the next opening stores it."""
    app, count, _ = counter()
    with app.open(str(tmp_path / "a.db")) as space, full(space._opening):
        assert count.value == 0
        space.sync()
    app, _, _ = counter()
    with app.open(str(tmp_path / "a.db")) as space:
        space.sync()
        assert space._opening.replica.read(schema_key("counter")) is not ABSENT


def test_event_that_is_in_the_outbox_is_on_disk(tmp_path: Path) -> None:
    """It was sent by a transaction that is stored: the next opening handles it."""
    app, count, add = counter()
    with app.open(str(tmp_path / "a.db")) as space:
        space.sync()
        backend = space._opening._lease.local.call(lambda engine: engine.backend)
        append = backend.append
        calls = 0

        def once(*parts: object) -> None:
            nonlocal calls
            calls += 1
            if calls > 1:
                raise StoreFullError("no room to write: the disk is full")
            append(*parts)  # type: ignore[arg-type]

        backend.append = once  # type: ignore[method-assign,assignment]
        with space.transaction():
            ticket = add.send(1)
        space.sync()
        del backend.append
        ticket.result(timeout="60s")
        assert count.value == 1


@contextmanager
def no_room_for(space: Opening, name: str) -> Iterator[None]:
    """The disk takes what is smaller than the result of a function."""
    backend = space._lease.local.call(lambda engine: engine.backend)
    append = backend.append

    def refuse(rows: Sequence[LogRow], *rest: object) -> None:
        if any(name.encode() in row.body for row in rows):
            raise StoreFullError("no room to write: the disk is full")
        append(rows, *rest)  # type: ignore[arg-type]

    backend.append = refuse  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        del backend.append


def test_function_runs_again_until_there_is_room_for_its_result(tmp_path: Path) -> None:
    """Although nothing that it reads changes."""
    app = hw.App("shop")
    price = app.cell("price", 2)
    seen: list[int] = []

    @app.computed
    def double() -> int:
        return price.value * 2

    @app.sink
    def show() -> None:
        seen.append(double())

    errors: list[hw.HeadwaterError] = []
    with app.open(str(tmp_path / "a.db"), on_error=errors.append) as space:
        space.sync()
        with no_room_for(space._opening, "double"):
            price.value = 3
            for _ in range(2 * FAILURES_MAX):
                space.sync()
                space.settle()
            assert seen[-1] == 4, "what is stored"
        (error,) = errors
        assert "the result of double() could not be stored: HW203" in str(error)
        space.wait("3s")
        assert seen[-1] == 6


@pytest.mark.parametrize("called", ["double", "more"])
def test_call_whose_first_result_has_no_room_raises_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, called: str
) -> None:
    """Not that the result has no value; also if it was rolled back with one that it was computed from."""
    app = hw.App("shop")
    price = app.cell("price", 2)

    @app.computed
    def double() -> int:
        return price.value * 2

    @app.computed
    def more() -> int:
        return double() + 1

    function = {"double": double, "more": more}[called]
    with app.open(str(tmp_path / "a.db"), on_error="log") as space:
        space.sync()
        runtime = space._opening
        pull = runtime.pull

        def pull_and_sync(node: Node, *, in_run: bool = False) -> None:
            pull(node, in_run=in_run)
            if node.name == called:
                runtime.replica.sync()  # type: ignore[attr-defined]  # that of a store in this process

        monkeypatch.setattr(runtime, "pull", pull_and_sync)
        with no_room_for(runtime, "double"):
            for _ in range(20):
                with pytest.raises(StoreFullError, match=r"the result of double\(\) could not be stored: no room"):
                    function()
            with pytest.raises(StoreFullError, match="could not be stored: no room"), space.transaction():
                function()
        assert function() == (4 if called == "double" else 5)
