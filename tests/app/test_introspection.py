"""What authors can ask of an open space: why a function ran or does not, how often, and what the graph looks like."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import headwater as hw
from headwater.core import Snapshot
from headwater.errors import NotOpen, UsageError
from headwater.scheduler.trace import Record, Started
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
        assert "It does not run although it is invalid (bench.count changed): nobody is looking" in hw.why(doubled)


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
        with pytest.raises(TypeError, match="number"):
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
        assert (second.name, second.gate, second.why_live) == ("show", "throttle 1000ms", "effect")
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
        heard: list[Record] = []
        end = space.scheduler.on_trace(heard.append)
        count.value = 2
        end()
        count.value = 3
        started = [(record.node, record.causes) for record in heard if isinstance(record, Started)]
        assert started == [("doubled#1", ("bench.count",)), ("show#2", ("bench.doubled",))]


# --- the contract of a computed ---------------------------------------------------------------------------


def test_idempotency_check_finds_what_differs_in_an_app(bench: Bench) -> None:
    count, log = bench.app.cell("count", 1), bench.app.cell("log", list[int]())
    chance = iter(range(100))

    @bench.app.computed
    def steady() -> int:
        return count.value * 2

    @bench.app.computed
    def random() -> int:
        return count.value + next(chance)

    @bench.app.computed(writes=[log])
    def logging() -> int:
        log.append(count.value)
        return count.value

    @bench.app.sink
    def show() -> None:
        steady()
        random()
        logging()

    with bench.app.open("memory:") as space:
        space.scheduler.set_idempotency_check(True)
        count.value = 2
        found = space.scheduler.get_idempotency_violations()
        assert [(each.node, each.place) for each in found] == [("random", "bench.random"), ("logging", "bench.log")]
        assert "move what differs (time, chance, counters) into a cell or a handler" in str(found[0])


def test_side_writes_and_materializers_of_an_app(bench: Bench) -> None:
    count = bench.app.cell("count", 1)
    last, big = bench.app.cell("last", 0), bench.app.cell("big", dict[str, int]())

    @bench.app.computed(writes=[last])
    def doubled() -> int:
        last.value = count.value
        return count.value * 2

    @bench.app.computed(materializes=[big])
    def fill() -> int:
        big.key(f"k{count.value}").value = count.value
        return 0

    @bench.app.sink
    def show() -> None:
        bench.log.append((last.value, dict(big.value)))

    with bench.open() as space:
        assert bench.taken()[-1] == (1, {"k1": 1})
        count.value = 2
        assert bench.taken() == [(2, {"k1": 1, "k2": 2})], "once, when both have written"
        assert "fill() is a materializer, clean, live: materializer" in hw.why(fill)
        assert space.runs(fill) == 2


@pytest.mark.parametrize("option", ["writes", "materializes"])
def test_computed_may_write_only_what_it_has_named(bench: Bench, option: str) -> None:
    named, other, go = bench.app.cell("named", 0), bench.app.cell("other", 0), bench.app.cell("go", 0)

    def write() -> int:
        named.value = 1
        if go.value:
            other.value = 1
        return 1

    options: dict[str, Any] = {option: [named]}
    both = bench.app.computed(name="both", **options)(write)
    with bench.open():
        assert both() == 1
        assert named.value == 1
        go.value = 1
        with pytest.raises(hw.HeadwaterError, match=r"HW104: both\(\) is computed and may not write bench.other"):
            both()


@pytest.mark.parametrize("option", ["writes", "materializes"])
@pytest.mark.parametrize("named", ["bench.count", 5, [5], [None]])
def test_what_cannot_be_written_is_refused_where_it_is_declared(bench: Bench, option: str, named: Any) -> None:
    options: dict[str, Any] = {option: named if isinstance(named, list) else [named]}
    with pytest.raises(hw.HeadwaterError, match=rf"{option}= takes cells and documents of the app"):
        bench.app.computed(name="bad", **options)(lambda: 1)
