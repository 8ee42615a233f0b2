"""A function that ends the transaction of its own run, with tx.abort() or tx.commit(), is woken as any other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import headwater as hw

ENDS = pytest.mark.parametrize("end", ["abort", "commit"])


@ENDS
def test_a_sink_stays_subscribed(end: str) -> None:
    app = hw.App("a")
    x, y = app.cell("x", 1), app.cell("y", 0)
    runs: list[int] = []
    told: list[hw.UserCodeError] = []
    with app.open("memory:", on_error=told.append) as space:

        @app.sink
        def s() -> None:
            runs.append(x.value)
            with space.transaction() as tx:
                y.value = x.value
                if x.value < 3:
                    getattr(tx, end)()

        for value in (2, 3, 4):
            x.value = value
        assert runs == [1, 2, 3, 4]
        assert (y.value, told) == (4, [])
        x.value = 0
        assert y.value == (4 if end == "abort" else 0)


@ENDS
def test_what_only_that_run_has_read_wakes_it_too(end: str) -> None:
    app = hw.App("a")
    x, z = app.cell("x", 1), app.cell("z", 0)
    runs: list[tuple[int, int | None]] = []
    with app.open("memory:") as space:

        @app.sink
        def s() -> None:
            runs.append((x.value, z.value if x.value == 2 else None))
            with space.transaction() as tx:
                if x.value == 2:
                    getattr(tx, end)()

        x.value = 2
        z.value = 7
        x.value = 3
        z.value = 8
        assert runs == [(1, None), (2, 0), (2, 7), (3, None)]


@ENDS
def test_a_computed_that_does_so_is_never_stale(end: str) -> None:
    app = hw.App("a")
    x = app.cell("x", 1)
    seen: list[object] = []
    with app.open("memory:") as space:

        @app.computed
        def c() -> int:
            value = x.value
            with space.transaction() as tx:
                if value == 2:
                    getattr(tx, end)()
            return value

        @app.sink
        def s() -> None:
            try:
                seen.append(c())
            except hw.UserCodeError as error:
                seen.append("ended its own transaction" in str(error))

        for value in (2, 3):
            x.value = value
        assert seen == [1, True, 3]
        assert c() == 3


def test_what_it_reads_after_that_is_an_error_of_its_own() -> None:
    app = hw.App("a")
    x = app.cell("x", 1)
    told: list[hw.UserCodeError] = []
    runs: list[int] = []
    with app.open("memory:", on_error=told.append) as space:

        @app.sink
        def s() -> None:
            runs.append(x.value)
            with space.transaction() as tx:
                tx.abort()
            x.value  # noqa: B018  # too late

        x.value = 2
        assert (runs, len(told)) == ([1, 2], 2)
        assert "it is aborted" in str(told[0])


@ENDS
def test_an_async_sink_stays_subscribed(end: str) -> None:
    app = hw.App("a")
    x, y = app.cell("x", 1), app.cell("y", 0)
    runs: list[int] = []

    async def main() -> None:
        async with app.aopen("memory:") as space:

            @app.sink
            async def s() -> None:
                seen = x.value
                await asyncio.sleep(0)
                tx: Any
                with space.transaction() as tx:
                    y.value = seen
                    getattr(tx, end)()
                runs.append(seen)

            for value in (2, 3):
                await space.settle()
                x.value = value
            await space.settle()
            assert y.value == (0 if end == "abort" else 3)

    asyncio.run(main())
    assert runs == [1, 2, 3]
