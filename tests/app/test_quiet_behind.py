"""A debounced function behind others: its quiet is counted from the change at the beginning of the chain."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import headwater as hw
from headwater.runtime.options import Options
from headwater.testing import probe
from headwater.testing.invariants.scheduler_invariants import SchedulerWatch


def chain(length: int) -> tuple[hw.App, hw.Cell[int], list[hw.Computed[[], int]]]:
    """So many functions in a row, the last of which waits for quiet."""
    app = hw.App("a")
    x = app.cell("x", 1)
    found: list[hw.Computed[[], int]] = []

    def reading(number: int) -> Callable[[], int]:
        return lambda: x.value if number == 0 else found[number - 1]()

    for number in range(length):
        name, waits = f"f{number}", number == length - 1
        found.append(app.computed(name=name, debounce="100ms" if waits else None)(reading(number)))
    return app, x, found


@pytest.mark.parametrize("length", [1, 2, 3, 5])
def test_a_call_after_any_length_of_quiet_gives_the_new_value(length: int) -> None:
    app, x, functions = chain(length)
    with probe(app) as t:
        last = functions[-1]
        assert last() == 1
        x.value = 2
        t.advance("24h")
        assert last() == 2
        x.value = 3
        t.advance("50ms")
        assert last() == 2
        t.advance("50ms")
        assert last() == 3


@pytest.mark.parametrize("length", [1, 2, 3])
def test_while_it_is_typed_a_call_gives_the_old_value(length: int) -> None:
    app, x, functions = chain(length)
    with probe(app) as t:
        last = functions[-1]
        assert last() == 1
        for value in range(2, 8):
            x.value = value
            t.advance("50ms")
            assert last() == 1
        t.advance("50ms")
        assert last() == 7


def test_also_where_what_is_above_it_is_looked_at() -> None:
    app, x, (first, last) = chain(2)
    seen: list[int] = []

    @app.sink
    def looks() -> None:
        seen.append(first())

    with probe(app) as t:
        assert last() == 1
        x.value = 2
        assert seen == [1, 2]
        t.advance("24h")
        assert last() == 2


@pytest.mark.parametrize("length", [1, 2, 3])
def test_an_event_does_not_wait_for_quiet_that_was(length: int) -> None:
    app, x, functions = chain(length)
    seen: list[int] = []

    @app.handler
    def look() -> None:
        seen.append(functions[-1]())

    with probe(app) as t:
        functions[-1]()
        x.value = 2
        t.advance("24h")
        look.send()
        t.settle()
        assert seen == [2]


@pytest.mark.parametrize("length", [1, 2, 3])
def test_after_a_restart_the_change_is_long_ago(length: int, tmp_path: Path) -> None:
    url = str(tmp_path / "a.db")
    app, x, functions = chain(length)
    with app.open(url):
        assert functions[-1]() == 1
        x.value = 2
    with app.open(url):
        assert functions[-1]() == 2


def test_after_a_restart_a_change_that_is_found_late_is_an_old_one() -> None:
    """The functions of a list are not kept: they run when they are called, and find what changed long ago."""
    app = hw.App("a")
    items = app.cell("items", type=list[int], default=[])
    doubled = hw.each(items, lambda item: 2 * item, name="doubled")

    @app.computed(debounce="50ms")
    def total() -> int:
        return sum(doubled())

    with probe(app) as t:
        assert total() == 0
        t.advance("1s")
        items.append(3)
        t.advance("1s")
        t.restart()
        assert total() == 6


def test_what_was_outdated_before_an_opening_runs_before_its_readers(tmp_path: Path) -> None:
    """I9: a debounced function that was observed at the opening was put aside for its quiet, and its reader began."""
    app = hw.App("a")
    x = app.cell("x", 1)

    @app.computed(debounce="100ms")
    def waits() -> int:
        return x.value * 10

    @app.computed(eager=True)
    def both() -> int:
        return waits() + x.value

    with app.open(tmp_path / "a.db"):
        pass
    with hw.App("aside").open(tmp_path / "a.db") as space:
        space.cell("a.x", int).value = 2
    watches: list[SchedulerWatch] = []
    options = Options(prepare=lambda port: watches.append(SchedulerWatch(port.scheduler)))
    with app.open_with(tmp_path / "a.db", options):
        assert both() == 22
        watches[0].check()
        watches[0].end()
