"""What authors can ask of an open space: why a function ran or does not, how often, and what the graph looks like."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import headwater as hw
from headwater.core import Snapshot
from headwater.errors import NotOpen, UsageError
from headwater.scheduler.trace import RunStarted, TraceRecord
from tests.app.simulated import Lab, pause
from tests.app.workbench import Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()


# --- why --------------------------------------------------------------------------------------------------


def test_why_tells_the_story_of_a_sink_and_what_it_reads(bench: Bench) -> None:
    count, step = bench.app.cell("count", 1), bench.app.cell("step", 2)

    @bench.app.computed
    def scaled() -> int:
        return count.value * step.value

    @bench.app.sink
    def show() -> None:
        scaled()

    with bench.open():
        count.value = 5
        words = hw.why(scaled).splitlines()
        assert words[0] == "scaled() is a computation, clean, live: read by live nodes"
        assert words[1].startswith("It ran 2 times, the last time because bench.count changed, for ")
        assert words[3] == "It would be woken by a change of bench.count and bench.step"
        assert hw.why(show).splitlines()[3] == "It would be woken by another result of scaled()"


def test_why_says_that_nobody_is_looking(bench: Bench) -> None:
    count = bench.app.cell("count", 1)

    @bench.app.computed
    def doubled() -> int:
        return count.value * 2

    with bench.open():
        assert "It has not run yet" in hw.why(doubled)
        doubled()
        count.value = 2
        assert "It does not run although it is invalid (bench.count changed): it is not observed" in hw.why(doubled)


def test_why_of_what_is_no_function_of_an_app_is_refused(bench: Bench) -> None:
    bad: Any = len
    with bench.open(), pytest.raises(UsageError, match=r"why\(\) takes a function made with @app.computed"):
        hw.why(bad)


def test_why_needs_an_open_space(bench: Bench) -> None:
    @bench.app.computed
    def one() -> int:
        return 1

    with pytest.raises(NotOpen):
        hw.why(one)


def test_why_of_an_instance_names_its_arguments_and_a_wrong_number_of_them_is_told(bench: Bench) -> None:
    @bench.app.computed
    def times(number: int, factor: int = 2) -> int:
        return number * factor

    with bench.open():
        times(3)
        assert hw.why(times, 3).startswith("times(3, 2) is a computation, clean")
        assert hw.why(times, number=3, factor=2) == hw.why(times, 3)
        assert hw.why(times, 4) == "times() with these arguments has not been called here, so there is no node for it"
        with pytest.raises(UsageError, match=r"number.*called here as times\(3, 2\)"):
            hw.why(times)


def test_why_of_an_async_function_that_is_under_way() -> None:
    lab = Lab()

    @lab.app.computed
    async def slow() -> int:
        await pause(100)
        return 1

    async def main() -> None:
        async with lab.open() as space:
            with pytest.raises(hw.NotReadyError):
                slow()
            assert "It is under way and waits for something outside" in hw.why(slow)
            assert space.scheduler.get_graph_snapshot().nodes[0].in_flight
            await space.settle()
            assert "It does not run now: nothing it read has changed since" in hw.why(slow)

    lab.run(main)


# --- counts and pictures ----------------------------------------------------------------------------------


def test_runs_are_counted_for_each_opening(bench: Bench) -> None:
    count = bench.app.cell("count", 1)

    @bench.app.computed
    def doubled() -> int:
        return count.value * 2

    @bench.app.computed
    def times(number: int) -> int:
        return number * count.value

    @bench.app.sink
    def show() -> None:
        doubled()

    with bench.open() as space:
        count.value = 2
        times(1)
        times(2)
        assert [space.runs(each) for each in (doubled, times, show)] == [2, 2, 2]
        assert space.stats.runs == {"doubled": 2, "show": 2, "times": 2}
        with bench.open() as inner:
            assert [inner.runs(each) for each in (doubled, times, show)] == [1, 0, 1]


def test_snapshot_of_an_app_names_its_functions_as_the_author_does(bench: Bench) -> None:
    count = bench.app.cell("count", 1)

    @bench.app.computed
    def doubled() -> int:
        return count.value * 2

    @bench.app.sink(throttle="1s")
    def show() -> None:
        doubled()

    with bench.open() as space:
        snapshot = space.scheduler.get_graph_snapshot()
        assert Snapshot.from_json(snapshot.to_json()) == snapshot
        first, second = snapshot.nodes
        assert (first.name, first.outputs, first.reads) == ("doubled", ("bench.doubled",), ("bench.count",))
        assert (second.name, second.gate, second.why_live) == ("show", "throttle 1s", "effect")
        wrapped = inspect.getsourcelines(doubled.__wrapped__)[1]
        assert (first.file, first.line) == (__file__, wrapped)
        assert {(edge.source, edge.target) for edge in snapshot.edges} == {
            ("doc:bench.count", "doubled#1"),
            ("doubled#1", "show#2"),
        }


def test_trace_of_an_app_tells_why_each_run_began(bench: Bench) -> None:
    count = bench.app.cell("count", 1)

    @bench.app.computed
    def doubled() -> int:
        return count.value * 2

    @bench.app.sink
    def show() -> None:
        doubled()

    with bench.open() as space:
        heard: list[TraceRecord] = []
        end = space.scheduler.on_trace(heard.append)
        count.value = 2
        end()
        count.value = 3
        started = [(record.node, record.causes) for record in heard if isinstance(record, RunStarted)]
        assert started == [("doubled#1", ("bench.count",)), ("show#2", ("bench.doubled",))]
