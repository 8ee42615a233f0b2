"""A workflow whose author code, service, users, clock and process do whatever they can do, at any time.

After each of these, what must hold of the tables holds; and once all are well, everything comes to its right end. See
`tests/workflow/world.py` for what there is, and `headwater.workflow.table_checks` for what must hold.
"""

from __future__ import annotations

import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

import headwater as hw
from headwater.workflow.workflow_spec import OnPoison
from tests.support.halves import examples
from tests.support.spaces import EITHER
from tests.workflow.outside import MODES
from tests.workflow.world import DAY, HOUR, MINUTE, SECOND, Behaviour, World

GOOD_PREPARE = ["all", "one", "some", "idle", "nothing", "asks"]
BAD_PREPARE = ["fails", "fails on odd", "passes", "signed out", "nonsense", "twice"]
WAKES: list[object] = [
    *(None, 0, "5s", "10m", 40 * 3600, datetime(2023, 11, 15, tzinfo=UTC), "2999-01-01T00:00:00Z"),
    *(-5, "-5m", float("inf"), datetime(1, 1, 1, tzinfo=UTC)),
]
GARBAGE: list[object] = ["soon", float("nan"), datetime(2023, 11, 15), "2023-13-45T99:00", object]  # noqa: DTZ001  # no zone
PHASES = ["poll", "prepare", "mutate", "reconcile", "next"]
DEATHS = [*PHASES, "after poll", "after mutate", "after next"]
PASSES = [SECOND, 10 * SECOND, 31 * SECOND, MINUTE, 5 * MINUTE, HOUR, DAY, 30 * DAY]
SET_BACK = [-SECOND, -MINUTE, -HOUR, -30 * DAY]
ANSWERS = ["approve", "reject", "retry", "cancel", "abandon", "reconcile", "ask again", "skip call", "skip", "resume"]
ACTIONS = [*ANSWERS, "pause", "now", "archive", "restore", "reprocess", "publish", "set back", "put ahead"]
behaviours = st.builds(
    Behaviour,
    prepare=st.sampled_from(GOOD_PREPARE) | st.sampled_from(GOOD_PREPARE + BAD_PREPARE),
    wake=st.none() | st.sampled_from(WAKES + GARBAGE),
    service=st.just("applies") | st.sampled_from(MODES),
    reconcile=st.sampled_from(["truth", "truth", "unknown", "fails", "nonsense"]),
    next=st.sampled_from(["ok", "ok", "fails", "passes", "overtaken"]),
    dies=st.just("") | st.sampled_from(["", *DEATHS]),
    lags=st.booleans(),
    meanwhile=st.none() | st.tuples(st.sampled_from(PHASES), st.sampled_from(ACTIONS)),
)


class Machine(RuleBasedStateMachine):
    kind = "memory"

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.world: World | None = None
        self.count = 0

    @initialize(
        on_poison=st.sampled_from(["block", "park"]),
        tries=st.integers(0, 3),
        peek=st.sampled_from([1, 2, 100]),
        events=st.integers(0, 4),
        lanes=st.sampled_from(["", "keyed", "each"]),
        rate=st.sampled_from([None, None, "1/m"]),
    )
    def begin(self, on_poison: OnPoison, tries: int, peek: int, events: int, lanes: str, rate: str | None) -> None:
        retry = hw.Retry(tries, backoff="1m")
        self.world = World(self.kind, self.folder, on_poison=on_poison, retry=retry, peek=peek, lanes=lanes, rate=rate)
        self._publish(events)

    @property
    def here(self) -> World:
        assert self.world is not None
        return self.world

    def _name(self) -> str:
        self.count += 1
        return f"e{self.count}"

    def _publish(self, events: int) -> None:
        for _ in range(events):
            self.here.publish(self._name())

    # -- what comes in -------------------------------------------------------------------------------------

    @rule()
    def something_turns_up(self) -> None:
        self.here.outside.append(self._name())

    @rule(data=st.data())
    def published_again(self, data: Any) -> None:
        if self.here.published:
            self.here.publish(data.draw(st.sampled_from(sorted(self.here.published))))

    # -- what happens --------------------------------------------------------------------------------------

    @rule(behaviour=behaviours, events=st.integers(0, 2), limit=st.integers(1, 4))
    def work(self, behaviour: Behaviour, events: int, limit: int) -> None:
        self._publish(events)
        self.here.drain(behaviour, limit=limit)

    @rule(behaviour=behaviours, events=st.integers(0, 2), limit=st.integers(1, 4))
    def get_help_and_work(self, behaviour: Behaviour, events: int, limit: int) -> None:
        self.here.help()
        self.work(behaviour, events, limit)

    @rule(behaviour=behaviours, ms=st.sampled_from([*PASSES, *PASSES, *SET_BACK]), limit=st.integers(1, 4))
    def time_passes_and_work(self, behaviour: Behaviour, ms: int, limit: int) -> None:
        self.here.clock.advance(ms)
        self.here.drain(behaviour, limit=limit)

    @rule(behaviour=behaviours, events=st.integers(0, 2), commits=st.integers(1, 10))
    def work_and_die(self, behaviour: Behaviour, events: int, commits: int) -> None:
        self._publish(events)
        self.here.drain(behaviour, limit=2, dies_after=commits)

    @rule()
    def work_well(self) -> None:
        self.here.rest()

    @rule(is_killed=st.booleans())
    def late_things_arrive(self, is_killed: bool) -> None:
        if is_killed:
            self.here.kill()
        self.here.service.arrive()
        self.here.check()

    @rule(version=st.booleans(), commits=st.none() | st.integers(1, 4))
    def restarted(self, version: bool, commits: int | None) -> None:
        self.here.restart(version=version, dies_after=commits)
        self.here.check()

    @precondition(lambda self: self.here.view.run is not None)
    @rule(action=st.sampled_from(ANSWERS))
    def person_answers(self, action: str) -> None:
        """About what is to be finished."""
        note(f"-> {self.here.act(action)}")
        self.here.check()

    @rule(action=st.sampled_from(ACTIONS), data=st.data())
    def person_acts_on_any_run(self, action: str, data: Any) -> None:
        runs = [run.id for run in self.here.flow.runs()]
        note(f"-> {self.here.act(action, data.draw(st.sampled_from([0, *runs])))}")
        self.here.check()

    def teardown(self) -> None:
        if self.world is not None:
            world, self.world = self.world, None
            try:
                world.published |= set(world.outside) & world.status().keys()
                world.finish()
                world.restart()
                world.finish()
            finally:
                world.close()
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.mark.machine
@pytest.mark.parametrize("kind", EITHER)
def test_whatever_happens_nothing_is_lost_and_nothing_is_done_twice(kind: str) -> None:
    made = type("Machine", (Machine,), {"kind": kind})
    # Half as many on a disk, where each takes twice as long.
    count = examples(100 if kind == "memory" else 50)
    run_state_machine_as_test(made, settings=settings(stateful_step_count=30, max_examples=count))


@pytest.mark.parametrize("lanes", ["", "keyed"])
def test_a_run_that_was_put_aside_tells_of_its_plan_also_if_an_event_of_it_is_skipped(
    lanes: str, tmp_path: Path
) -> None:
    world = World("memory", tmp_path, on_poison="park", retry=hw.Retry(0), lanes=lanes)
    # Of one lane.
    for one in ("e1", "e4"):
        world.publish(one)
    world.drain(Behaviour(next="fails"), limit=4)
    assert world.aside() == {"e1", "e4"}
    assert world.act("skip")
    world.finish()
    assert world.status()["e1"] == "skipped"
    assert world.status()["e4"] == "consumed"
    assert {"done e1", "done e4"} <= world.status("done").keys()
    world.close()
