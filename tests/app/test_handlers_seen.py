"""What authors can see of handlers: how often one ran, what waits and why, what failed, and where it stands."""

from __future__ import annotations

from typing import Any

import pytest

import headwater as hw
from headwater.core import Snapshot
from headwater.errors import UsageError
from headwater.scheduler.inspect.graph_snapshot import Edge
from tests.app.simulated import Lab, pause
from tests.app.workbench import Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()


# --- why --------------------------------------------------------------------------------------------------


def test_handler_to_which_nothing_was_sent_says_so(bench: Bench) -> None:
    @bench.app.handler
    def submit() -> None: ...

    with bench.open():
        assert hw.why(submit).splitlines() == [
            "submit() is a handler, idle",
            "It has not run yet",
            "It does not run now: nothing was sent to it",
            "No event has failed in this opening",
        ]


def test_handler_that_ran_says_how_often_and_what_it_would_have_made_current(bench: Bench) -> None:
    count = bench.app.cell("count", 1)
    doubled = bench.app.computed(name="doubled")(lambda: count.value * 2)

    @bench.app.handler
    def submit() -> int:
        return doubled()

    with bench.open():
        assert submit.send().result() == 2
        state, last, now, _ = hw.why(submit).splitlines()
        assert state == "submit() is a handler, idle"
        assert last.startswith("It ran once, for ")
        assert now == "It does not run now: nothing was sent to it since; doubled() would be made current first"
        submit.send()
        assert hw.why(submit).splitlines()[1].startswith("It ran 2 times, the last time for ")


def test_last_failure_is_named_with_its_event(bench: Bench) -> None:
    @bench.app.handler
    def submit(number: int) -> None:
        if number > 1:
            raise ValueError(f"{number} is too many")

    with bench.open() as space:
        tickets = [submit.send(number) for number in (2, 3, 1)]
        space.settle()
        _, last, _, failed = hw.why(submit).splitlines()
        assert last.endswith(" ms; 2 events failed")
        wanted = (
            f"The last that failed was {tickets[1].id}: ValueError: 3 is too many; `headwater events show` tells more"
        )
        assert failed == wanted


def test_handler_of_a_stream_names_the_stream(bench: Bench) -> None:
    clicks = bench.app.stream("clicks", int)

    @bench.app.handler(on=clicks)
    def count(number: int) -> None: ...

    with bench.open():
        assert hw.why(count).splitlines()[0] == "count() is a handler of stream bench.clicks, idle"


def test_event_that_is_parked_says_what_for_and_those_behind_it_that_they_are() -> None:
    lab = Lab()
    typed = lab.app.cell("typed", 0)
    quiet = lab.app.computed(name="quiet", debounce="250ms")(lambda: typed.value)
    finish = lab.app.handler(name="finish")(lambda: quiet())  # noqa: PLW0108  # a handler is a function of no app
    other = lab.app.handler(name="other")(lambda: None)

    async def main() -> None:
        async with lab.open() as space:
            await finish.send()
            typed.value = 1
            tickets = [finish.send(), finish.send(), other.send()]
            await pause(50)
            state, _, now, _ = hw.why(finish).splitlines()
            assert state == "finish() is a handler, 2 events wait"
            assert now == (
                f"It does not run yet: {tickets[0].id} is parked: quiet() waits for its time, for 200 ms more"
            )
            assert hw.why(other).splitlines()[2] == (
                f"It does not run yet: {tickets[2].id} waits: it is behind 2 others, the first of which waits: "
                "quiet() waits for its time, for 200 ms more"
            )
            assert space.stats.events == {"confirmed": 1, "refused": 0, "failed": 0, "waiting": 3, "rejected": 0}
            await pause(300)
            assert hw.why(other).splitlines()[0] == "other() is a handler, idle"
            assert space.stats.events["waiting"] == 0

    lab.run(main)


def test_handler_at_work_is_seen_at_work() -> None:
    lab = Lab()

    @lab.app.handler
    async def slowly() -> None:
        await pause(100)

    async def main() -> None:
        async with lab.open() as space:
            tickets = [slowly.send(), slowly.send()]
            await pause(50)
            state, _, now, _ = hw.why(slowly).splitlines()
            assert state == "slowly() is a handler, 2 events wait"
            assert now == f"It is at work on {tickets[0].id}"
            waiting = space.scheduler.event_queries.waiting()
            assert [each.story for each in waiting] == [
                "slowly() is at work on it",
                "it is behind 1 other, the first of which waits: slowly() is at work on it",
            ]
            [view] = Snapshot.from_json(space.graph("json")).nodes
            assert (view.in_flight, view.waiting) == (True, 2)
            await tickets[1]

    lab.run(main)


def test_why_of_a_handler_takes_no_arguments_and_an_open_space(bench: Bench) -> None:
    @bench.app.handler
    def submit(number: int) -> None: ...

    wrong: Any = submit
    with bench.open(), pytest.raises(UsageError, match=r"why\(submit\) takes no arguments"):
        hw.why(wrong, 3)
    with pytest.raises(hw.HeadwaterError, match="has no open space here"):
        hw.why(submit)


# --- how often --------------------------------------------------------------------------------------------


def test_runs_and_events_are_counted(bench: Bench) -> None:
    @bench.app.handler
    def submit(number: int) -> None:
        if number > 1:
            raise ValueError("too many")

    with bench.open() as space:
        assert space.stats.runs == {"submit": 0}
        for number in (1, 2, 1):
            submit.once(str(number)).send(number)
            space.sync()
        assert space.runs(submit) == 2
        assert space.stats.runs == {"submit": 2}
        assert space.stats.events == {"confirmed": 1, "refused": 1, "failed": 1, "waiting": 0, "rejected": 0}
        assert "waiting" in space._repr_html_()


def test_runs_of_what_is_no_function_are_refused(bench: Bench) -> None:
    with bench.open() as space, pytest.raises(UsageError, match=r"@app.computed, @app.sink or @app.handler"):
        space.runs(len)


# --- the graph --------------------------------------------------------------------------------------------


def test_handlers_are_drawn_below_what_they_last_read(bench: Bench) -> None:
    count = bench.app.cell("count", 1)
    doubled = bench.app.computed(name="doubled")(lambda: count.value * 2)

    @bench.app.handler
    def submit(number: int) -> int:
        if number > 1:
            raise ValueError("too many")
        return doubled()

    with bench.open() as space:
        assert Snapshot.from_json(space.graph("json")).edges == ()
        submit.send(1)
        snapshot = Snapshot.from_json(space.graph("json"))
        drawn = {node.name: node for node in snapshot.nodes}
        assert (drawn["submit"].kind, drawn["submit"].id) == ("handler", "handler:bench.submit")
        assert drawn["submit"].reads == ("bench.doubled",)
        assert drawn["submit"].rank > drawn["doubled"].rank
        assert drawn["submit"].file == __file__
        assert Edge("doubled#1", "handler:bench.submit", "data") in snapshot.edges
        lines = space.graph().split("\n\n", 1)[1].splitlines()
        assert lines[0].startswith("submit  handler · idle · 1 run · ")
        assert lines[1].startswith("└─ doubled  dormant · clean")
        submit.send(2)
        assert "submit  handler · failed · 2 runs" in space.graph()
        submit.send(1)
        assert "failed" not in space.graph()
        assert 'class="hw-box hw-clean"' in space.graph("svg")
        assert '{{"submit<br/>handler<br/>idle' in space.graph("mermaid")


def test_handler_of_what_a_materializer_may_write_is_drawn_with_that_arrow(bench: Bench) -> None:
    rows = bench.app.cell("rows", dict[str, int]())

    @bench.app.computed(materializes=rows)
    def fill() -> None:
        rows.value = {"a": 1}

    @bench.app.handler
    def submit() -> int:
        return len(rows.value)

    with bench.open() as space:
        submit.send()
        edges = Snapshot.from_json(space.graph("json")).edges
        assert Edge("fill#1", "handler:bench.submit", "envelope") in edges
