"""Random graphs with handlers, while events come from everywhere, several times, and processes end in the middle.

Whatever happens: every event is handled at most once, and exactly once if it is sent until it is; what a handler has
sent is handled if that handler's attempt came to be, and only then; and no handler ever sees what is not current.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

from headwater.core import doc_key
from tests.scheduler.event_world import STREAMS, CrashError, EventWorld, HandlerPlan, Side
from tests.scheduler.naive import CELLS, SLOTS
from tests.scheduler.test_machine import INDEXES, Graphs, formulas, sometimes, writes
from tests.support.limits import small_limits

SIDES = st.sampled_from(["mine", "rival", "both"])


@st.composite
def handlers(draw: st.DrawFn, stream: str) -> HandlerPlan:
    later = STREAMS[STREAMS.index(stream) + 1 :]
    return HandlerPlan(
        stream,
        draw(formulas(SLOTS)),
        declared=draw(st.booleans()),
        overwrites=draw(st.booleans()),
        writes=draw(st.sampled_from(["", *CELLS])),
        sends=tuple(draw(st.lists(st.sampled_from(later), max_size=2))) if later else (),
        waits=sometimes(draw),
        rejects=sometimes(draw),
    )


class EventGraphs(Graphs):
    """As `Graphs`, with events in between."""

    world: EventWorld  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.world = EventWorld()

    @initialize(data=st.data())
    def handle(self, data: st.DataObject) -> None:
        for stream in STREAMS:
            self.world.handle_with(data.draw(handlers(stream)))

    def key(self) -> str:
        self.world.keys += 1
        return f"e{self.world.keys}"

    def chosen(self, which: str) -> tuple[Side, ...]:
        mine, rival = self.world.sides
        return {"mine": (mine,), "rival": (rival,), "both": (mine, rival)}[which]

    # -- events --------------------------------------------------------------------------------------------

    @rule(stream=st.sampled_from(STREAMS), count=st.integers(1, 3))
    def gesture(self, stream: str, count: int) -> None:
        self.step(lambda: [self.world.mine.send(stream, self.key()) for _ in range(count)])

    @rule(stream=st.sampled_from(STREAMS), which=SIDES)
    def deliver(self, stream: str, which: str) -> None:
        """From outside; if to both, it is the same event."""
        key = self.key()
        self.world.outside.append((stream, key))
        self.step(lambda: [side.send(stream, key, outside=True) for side in self.chosen(which)])

    @precondition(lambda self: self.world.outside)
    @rule(index=INDEXES, which=SIDES)
    def deliver_again(self, index: int, which: str) -> None:
        stream, key = self.world.outside[index % len(self.world.outside)]
        self.step(lambda: [side.send(stream, key, outside=True) for side in self.chosen(which)])

    @rule(stream=st.sampled_from(STREAMS), values=writes(), mine=writes())
    def type_then_click(self, stream: str, values: dict[str, Any], mine: dict[str, Any]) -> None:
        """What was written just before is seen; what others write meanwhile may come first."""

        def act() -> None:
            self.world.write_elsewhere(values)
            self.world.write(mine)
            self.world.mine.send(stream, self.key())

        self.step(act)
        self.step(lambda: self.world.decide(1000))

    @rule(
        stream=st.sampled_from(STREAMS),
        cell=st.sampled_from(CELLS),
        undo=st.booleans(),
        end=st.sampled_from(["commit", "commit", "abort", "later"]),
    )
    def send_in_a_transaction(self, stream: str, cell: str, undo: bool, end: str) -> None:
        """If that ends later, everything that is sent meanwhile has to wait."""

        def act() -> None:
            self.world.send_in_a_transaction(stream, f"tx{self.key()}/0@0", cell, undo=undo)
            if end != "later":
                self.world.end_transaction(commit=end == "commit")

        self.step(act)

    @precondition(lambda self: self.world.open is not None)
    @rule(commit=st.booleans())
    def end_transaction(self, commit: bool) -> None:
        self.step(lambda: self.world.end_transaction(commit=commit))

    @rule(stream=st.sampled_from(STREAMS), data=st.data())
    def handle_otherwise(self, stream: str, data: st.DataObject) -> None:
        """Another handler for a stream, whose events may wait."""
        plan = data.draw(handlers(stream))
        self.step(lambda: self.world.handle_with(plan))

    @rule(index=INDEXES, which=SIDES)
    def redeliver(self, index: int, which: str) -> None:
        """Somebody has mended what failed."""

        def act() -> None:
            for side in self.chosen(which):
                replica = self.world.here.replica if side is self.world.mine else self.world.other.replica
                failed = replica.read(doc_key("events:failed"))
                letters = sorted(failed) if isinstance(failed, dict) else []
                if letters:
                    side.scheduler.redeliver(letters[index % len(letters)])

        self.step(act)

    @rule()
    def take_up_there(self) -> None:
        """Another process opens the space while this one is still at work."""
        self.step(self.world.rival.scheduler.resume_events)

    @precondition(lambda self: self.world.handlings)
    @rule(index=INDEXES, values=writes(), is_in_between=st.booleans())
    def go_on_handling(self, index: int, values: dict[str, Any], is_in_between: bool) -> None:
        def act() -> None:
            if is_in_between:
                self.world.write(values)
            self.world.land(index)

        self.step(act)

    # -- crashes -------------------------------------------------------------------------------------------

    @rule(kept=st.integers(0, 4), both=st.booleans())
    def crash(self, kept: int, both: bool) -> None:
        self.step(lambda: self.world.crash(kept, both=both))

    @rule(stream=st.sampled_from(STREAMS), fuse=st.integers(1, 8), kept=st.integers(0, 4), both=st.booleans())
    def crash_in_the_middle(self, stream: str, fuse: int, kept: int, both: bool) -> None:
        """Of whatever is done at that moment: a handler, what it waits for, or what follows from it."""

        def act() -> None:
            world = self.world
            key = self.key()
            world.outside.append((stream, key))
            world.mine.send(stream, key, outside=True)
            world.fuse = fuse
            try:
                world.settle()
            except CrashError:
                # What was done on the way out was not done: nothing is, by then.
                while len(world.hub.queue) > world.left:
                    world.hub.queue.pop()
                world.crash(kept, both=both)
            world.fuse = None

        self.step(act)

    def teardown(self) -> None:
        if not self.is_broken:
            self.world.finish(by=self.world.sides)


class AcyclicEvents(EventGraphs):
    """Nothing is excused: whatever a handler reads has one value."""

    ACYCLIC = True
    EFFECTS_MAX = 1


class NarrowEvents(EventGraphs):
    """Bounds are hit all the time: of runs, of events in a pass, of what is remembered of a handler."""

    def __init__(self) -> None:
        self.limits = small_limits(RUNS_MAX=4, NESTED_MAX=2, CAUSES_MAX=2, HANDLER_READS_MAX=1, EVENTS_MAX=2)
        self.limits.__enter__()
        super().__init__()

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            self.limits.__exit__(None, None, None)


@pytest.mark.machine
@pytest.mark.parametrize("machine", [EventGraphs, AcyclicEvents, NarrowEvents], ids=lambda machine: machine.__name__)
def test_events_are_handled_once_on_current_data_whatever_happens(machine: type[EventGraphs]) -> None:
    run_state_machine_as_test(machine, settings=settings(stateful_step_count=30))  # type: ignore[no-untyped-call]
