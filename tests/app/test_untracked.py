"""`with hw.untracked():` reads inside it notify no function."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import headwater as hw
from headwater.errors import ConflictError, UsageError


class Person(hw.Doc):
    name: str = "?"
    age: int = 0


def world() -> tuple[hw.App, dict[str, Any]]:
    app = hw.App("a")
    return app, {
        "x": app.cell("x", 0),
        "people": app.cell("people", list[str]()),
        "map": app.cell("map", dict[str, int]()),
        "wake": app.cell("wake", 0),
    }


def test_fields_of_documents() -> None:
    app, cells = world()
    seen: list[tuple[int, str]] = []
    with app.open("memory:"):
        ann = Person(name="Ann")

        @app.sink
        def s() -> None:
            wake = cells["wake"].value
            with hw.untracked():
                name = ann.name
            seen.append((wake, name))

        ann.name = "Bea"
        assert seen == [(0, "Ann")]
        cells["wake"].value = 1
        assert seen == [(0, "Ann"), (1, "Bea")]


@pytest.mark.parametrize("async_", [False, True])
def test_results_of_functions_are_current_and_notify_no_reader(async_: bool) -> None:
    app, cells = world()
    x, wake = cells["x"], cells["wake"]
    seen: list[int] = []
    runs: list[int] = []

    @app.computed
    def double() -> int:
        runs.append(x.value)
        return int(2 * x.value)

    @app.computed
    def times(n: int) -> int:
        return n * double()

    def look() -> None:
        wake.value  # noqa: B018  # to depend on it
        with hw.untracked():
            seen.append(double() + times(10))

    if async_:

        @app.sink
        async def s() -> None:
            look()

        async def main() -> None:
            async with app.aopen("memory:") as space:
                await space.settle()
                x.value = 1
                await space.settle()
                assert (seen, runs) == ([0], [0]), "it is not observed, so it does not run"
                wake.value = 1
                await space.settle()

        asyncio.run(main())
    else:
        app.sink(look)
        with app.open("memory:"):
            x.value = 1
            assert (seen, runs) == ([0], [0]), "it is not observed, so it does not run"
            wake.value = 1
    assert seen == [0, 22]


def test_lists_maps_and_what_is_asked_of_them() -> None:
    app, cells = world()
    people, numbers = cells["people"], cells["map"]
    runs: list[Any] = []

    @app.sink
    def s() -> None:
        with hw.untracked():
            runs.append((list(people.value), "a" in numbers.value, people.exists, numbers.at("a").exists))

    with app.open("memory:"):
        people.append("Ann")
        numbers.value = {"a": 1}
        assert len(runs) == 1
        assert "Nothing wakes it" in hw.why(s)


def test_what_is_read_before_and_after_the_block_counts() -> None:
    app, cells = world()
    x, wake = cells["x"], cells["wake"]
    seen: list[tuple[int, int]] = []

    @app.sink
    def s() -> None:
        with hw.untracked():
            before = x.value
        with hw.untracked(), hw.untracked():
            wake.value  # noqa: B018
        seen.append((before, x.value))

    with app.open("memory:"):
        x.value = 1
        wake.value = 1
        assert seen == [(0, 0), (1, 1)]


def test_a_function_that_has_to_run_depends_on_what_it_reads() -> None:
    app, cells = world()
    x = cells["x"]

    @app.computed
    def double() -> int:
        return int(2 * x.value)

    @app.computed
    def peeks() -> int:
        with hw.untracked():
            return double()

    with app.open("memory:"):
        assert (peeks(), double()) == (0, 0)
        x.value = 1
        assert double() == 2
        assert peeks() == 0


def test_it_counts_for_conflicts() -> None:
    app, cells = world()
    x, wake = cells["x"], cells["wake"]
    with app.open("memory:") as space, pytest.raises(ConflictError), space.transaction():
        with hw.untracked():
            seen = x.value
        other = threading.Thread(target=lambda: setattr(x, "value", 5))
        other.start()
        other.join()
        wake.value = seen + 1


def test_outside_of_runs_it_changes_nothing() -> None:
    app, cells = world()
    with app.open("memory:"), hw.untracked():
        cells["x"].value = 3
        assert cells["x"].value == 3
    block = hw.untracked()
    with block:
        pass
    with pytest.raises(UsageError, match="entered once"):
        block.__enter__()


def test_a_task_beside_the_block_is_not_in_it() -> None:
    app, cells = world()
    x = cells["x"]
    runs: list[int] = []

    @app.sink
    async def s() -> None:
        inside, read = asyncio.Event(), asyncio.Event()

        async def beside() -> None:
            await inside.wait()
            runs.append(x.value)
            read.set()

        task = asyncio.create_task(beside())
        with hw.untracked():
            inside.set()
            await read.wait()
        await task

    async def main() -> None:
        async with app.aopen("memory:") as space:
            await space.settle()
            x.value = 1
            await space.settle()

    asyncio.run(main())
    assert runs == [0, 1]
