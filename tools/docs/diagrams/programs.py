"""Small programs whose behavior the diagrams show: they run in simulated time, and the diagrams draw the results."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import headwater as hw
from headwater.testing import probe

WRITES_MS: Final = (100, 200, 300, 400, 1300, 1400)
"""When the program of the time line writes."""
TIMELINE_MS: Final = 2100


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a diagram says about a function."""

    live: bool
    status: str
    runs: int


def observed_and_not() -> dict[str, NodeFacts]:
    """After one write to `amount`: `total` is read by a sink; `report` was called once, and no function reads it."""
    app = hw.App("shop")
    price = app.cell("price", 250)
    amount = app.cell("amount", 2)
    title = app.cell("title", "tea")

    @app.computed
    def total() -> int:
        return price.value * amount.value

    @app.computed
    def report() -> str:
        return f"{amount.value} x {title.value}"

    @app.sink
    def show() -> None:
        total()

    with probe(app) as t:
        report()
        amount.value = 3
        nodes = t.space.scheduler.get_graph_snapshot().nodes
        return {node.name: NodeFacts(node.live, str(node.status), node.runs) for node in nodes}


def order_of_a_diamond() -> list[str]:
    """The functions that run after one write to `net`, in the order of their runs."""
    app = hw.App("bill")
    net = app.cell("net", 100)

    @app.computed
    def tax() -> int:
        return net.value // 5

    @app.computed
    def gross() -> int:
        return net.value + tax()

    @app.sink
    def show() -> None:
        gross()
        tax()

    with probe(app) as t:
        t.space.scheduler.set_trace_enabled("started", True)
        net.value = 200
        return [record.node.partition("#")[0] for record in t.space.scheduler.get_trace()]


def outcomes_of_a_restart() -> dict[str, str]:
    """Each function with its outcome, after `title` and the code of `gross` changed while no program ran."""

    def shop(version: int) -> hw.App:
        app = hw.App("shop")
        price = app.cell("price", 250)
        title = app.cell("title", "tea")

        @app.computed
        def total() -> int:
            return 2 * price.value

        @app.computed
        def label() -> str:
            return title.value.upper()

        @app.computed(version=version)
        def gross() -> int:
            return price.value * 120 // 100

        @app.sink
        def show() -> None:
            total()
            label()
            gross()

        return app

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "shop.db"
        with shop(1).open(file):
            pass
        with hw.App("another").open(file) as space:
            space.cell("shop.title", str).value = "milk"
        with shop(2).open(file) as space:
            report = space.explain_resume()
    missed = {entry.node.partition("#")[0].partition("(")[0]: entry.outcome for entry in report.missed}
    return {name: missed.get(name, "restored") for name in ("total", "label", "gross")}


def runs_on_a_time_line() -> dict[str, list[int]]:
    """When functions with a debounce and with a throttle run, in milliseconds."""
    app = hw.App("search")
    query = app.cell("query", 0)
    debounced: list[int] = []
    throttled: list[int] = []

    with probe(app) as t:
        start = t.now_ms()

        @app.sink(debounce="250ms")
        def after_a_pause() -> None:
            debounced.append(int(t.now_ms() - start + 0 * query.value))

        @app.sink(throttle="500ms")
        def at_most_so_often() -> None:
            throttled.append(int(t.now_ms() - start + 0 * query.value))

        for number, moment in enumerate(WRITES_MS, start=1):
            t.advance(f"{moment - (t.now_ms() - start)}ms")
            query.value = number
        t.advance(f"{TIMELINE_MS - (t.now_ms() - start)}ms")
    return {"debounced": debounced, "throttled": throttled}
