"""The same world as in `test_machine`, walked through at random: long ways, on which everything is as likely.

A walk that fails is told by its seed, and by all that was done on it.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

import headwater as hw
from headwater.workflow.workflow_spec import OnPoison
from tests.support.halves import seeds
from tests.support.spaces import EITHER
from tests.workflow.outside import MODES
from tests.workflow.test_machine import (
    ACTIONS,
    ANSWERS,
    BAD_PREPARE,
    DEATHS,
    GARBAGE,
    GOOD_PREPARE,
    PASSES,
    PHASES,
    SET_BACK,
    WAKES,
)
from tests.workflow.world import Behaviour, World

WALKS = 2000 if os.environ.get("HEADWATER_HYPOTHESIS") == "nightly" else 12
STEPS = 40


class Walk:
    """One way through a world."""

    def __init__(self, kind: str, folder: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.did: list[str] = []
        retry = hw.Retry(self.rng.randint(0, 3), backoff="1m")
        peek = self.rng.choice([1, 2, 100])
        parks = self.rng.random() < 0.5
        poison: OnPoison = "park" if parks else "block"
        lanes, rate = self.rng.choice(["", "keyed", "each"]), self.rng.choice([None, None, "1/m"])
        self.world = World(kind, folder, on_poison=poison, retry=retry, peek=peek, lanes=lanes, rate=rate)
        self.count = 0

    def _behaviour(self) -> Behaviour:
        rng = self.rng
        bad = rng.random() < 0.4
        return Behaviour(
            prepare=rng.choice(GOOD_PREPARE + BAD_PREPARE if bad else GOOD_PREPARE),
            wake=rng.choice(WAKES + GARBAGE) if rng.random() < 0.3 else None,
            service=rng.choice(MODES) if rng.random() < 0.6 else "applies",
            reconcile=rng.choice(["truth", "unknown", "fails", "nonsense"]),
            next=rng.choice(["fails", "passes", "overtaken"]) if rng.random() < 0.3 else "ok",
            dies=rng.choice(DEATHS) if rng.random() < 0.2 else "",
            meanwhile=(rng.choice(PHASES), rng.choice(ACTIONS)) if rng.random() < 0.3 else None,
        )

    def step(self) -> None:
        """Something happens."""
        what = self.rng.choice(
            [self._work] * 12 + [self._answer] * 4 + [self._act, self._time, self._rest, self._outside]
        )
        what()
        self.world.check()

    def _work(self) -> None:
        rng, world = self.rng, self.world
        for _ in range(rng.randint(0, 2)):
            self.count += 1
            world.publish(f"e{self.count}")
        if rng.random() < 0.7:
            self.did.append("help")
            world.help()
        behaviour, limit = self._behaviour(), rng.randint(1, 4)
        dies_after = rng.randint(1, 10) if rng.random() < 0.2 else None
        self.did.append(f"{behaviour} {limit} {dies_after}")
        world.drain(behaviour, limit=limit, dies_after=dies_after)

    def _answer(self) -> None:
        if self.world.view.run is not None:
            action = self.rng.choice(ANSWERS)
            self.did.append(f"{action} {self.world.act(action)}")

    def _act(self) -> None:
        action, run = self.rng.choice(ACTIONS), self.rng.choice([0, *(run.id for run in self.world.flow.runs())])
        self.did.append(f"{action} {run} {self.world.act(action, run)}")

    def _time(self) -> None:
        ms = self.rng.choice(PASSES + SET_BACK)
        self.did.append(f"time {ms}")
        self.world.clock.advance(ms)

    def _rest(self) -> None:
        self.did.append("rest")
        self.world.rest()

    def _outside(self) -> None:
        rng, world = self.rng, self.world
        what = rng.choice(["arrive", "kill", "restart", "turn up"])
        self.did.append(what)
        match what:
            case "arrive":
                world.service.arrive()
            case "kill":
                world.kill()
            case "restart":
                world.restart(version=rng.random() < 0.5, dies_after=rng.choice([None, 1, 2, 3, 4]))
            case _:
                self.count += 1
                world.outside.append(f"e{self.count}")

    def end(self) -> None:
        """All is well from now on."""
        world = self.world
        world.published |= set(world.outside) & world.status().keys()
        world.finish()
        world.restart()
        world.finish()


@pytest.mark.parametrize("seed", seeds(WALKS))
@pytest.mark.parametrize("kind", EITHER)
def test_random_walk_loses_nothing_and_does_nothing_twice(kind: str, seed: int, tmp_path: Path) -> None:
    walk = Walk(kind, tmp_path, seed)
    try:
        for _ in range(STEPS):
            walk.step()
        walk.end()
    except BaseException as error:
        error.add_note("\n".join(walk.did))
        raise
    finally:
        walk.world.close()
