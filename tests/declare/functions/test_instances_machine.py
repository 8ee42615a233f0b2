"""Functions with parameters that read each other, at random: who is there is exactly who is asked for, and is right."""

from __future__ import annotations

import random

import pytest

import headwater as hw
from headwater.testing import Probe, probe
from headwater.testing.invariants.scheduler_invariants import check

SIZE = 12
STEPS = 60


class World:
    """Each `part(i)` is its own number and those of the parts below it; some sinks look at some of them."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.app = hw.App("world")
        app = self.app
        self.numbers = app.cell("numbers", {str(i): i for i in range(SIZE)})
        self.below = app.cell("below", {str(i): [j for j in range(i) if j % 3 == i % 2] for i in range(SIZE)})
        self.looks = [app.cell(f"look{index}", list[int]()) for index in range(3)]
        self.seen: dict[int, list[int]] = {}
        # Results that were asked for in this opening; and whether one was killed.
        self.here: set[str] = set()
        self.crashed = False

        @app.computed
        def part(number: int) -> int:
            found = self.numbers.value[str(number)]
            return found + sum(part(each) for each in self.below.key(str(number)).value)

        self.part = part
        for index, look in enumerate(self.looks):
            self._sink(index, look)

        @app.computed
        def unseen() -> int:
            return sum(part(each) for each in self.looks[0].value)

        self.unseen = unseen

    def _sink(self, index: int, look: hw.Cell[list[int]]) -> None:
        def show() -> None:
            self.seen[index] = [self.part(each) for each in look.value]

        self.app.sink(name=f"show{index}")(show)

    def right(self, number: int) -> int:
        below = self.below.value[str(number)]
        return int(self.numbers.value[str(number)]) + sum(self.right(each) for each in below)

    def asked(self, roots: list[int]) -> set[int]:
        found: set[int] = set()
        todo = list(roots)
        while todo:
            number = todo.pop()
            if number not in found:
                found.add(number)
                todo += self.below.value[str(number)]
        return found

    def step(self, t: Probe) -> None:
        chance = self.chance
        number = chance.randrange(SIZE)
        match chance.randrange(6):
            case 0:
                self.numbers.key(str(number)).value = chance.randrange(100)
            case 1:
                below = [each for each in range(number) if chance.random() < 0.3]
                self.below.key(str(number)).value = below
            case 2 | 3:
                look = chance.choice(self.looks)
                look.value = chance.sample(range(SIZE), chance.randrange(4))
            case 4:
                with t.space.transaction():
                    for look in self.looks:
                        look.value = chance.sample(range(SIZE), chance.randrange(3))
                    self.numbers.key(str(number)).value = chance.randrange(100)
            case _:
                crash = chance.random() < 0.5
                self.crashed |= crash
                self.here.clear()
                t.restart(crash=crash)

    def judge(self, t: Probe) -> None:
        roots = [number for look in self.looks for number in look.value]
        for index, look in enumerate(self.looks):
            assert self.seen[index] == [self.right(number) for number in look.value]
        names = {node.name for node in t.space.scheduler.get_graph_snapshot().nodes}
        there = {int(name[5:-1]) for name in names if name.startswith("part(")}
        assert there == self.asked(roots)
        nodes = t.space.scheduler.registry.nodes
        self.here |= {node.outputs[0] for node in nodes if node.name.startswith("part(")}
        check(t.space.scheduler)


@pytest.mark.parametrize("seed", range(8))
def test_who_is_there_is_exactly_who_is_asked_for(seed: int) -> None:
    world = World(seed)
    with probe(world.app, idempotency=seed % 2 == 0) as t:
        for _ in range(STEPS):
            world.step(t)
            world.judge(t)
        for look in world.looks:
            look.value = []
        world.judge(t)
        t.space._opening.wait_for_disk()
        t.space._opening.catch_up()
        t.space._opening.store_observations()
        rows = t.space._opening.ask_store(lambda engine: [row.doc for row in engine.backend.observations("main")])
        left = [doc for doc in rows if ".part:" in doc]
        # A process that is killed before the last run of a dropped instance is decided leaves its row.
        left = [doc for doc in left if doc in world.here or not world.crashed]
        assert left == [], "nothing is kept of those that went, in this opening or one before"


@pytest.mark.parametrize("seed", range(4))
def test_computed_that_nobody_looks_at_keeps_what_it_has_read(seed: int) -> None:
    world = World(seed)
    chance = random.Random(seed)
    with probe(world.app, idempotency=False) as t:
        for look in world.looks[1:]:
            look.value = []
        for _ in range(30):
            world.looks[0].value = chance.sample(range(SIZE), chance.randrange(4))
            assert world.unseen() == sum(world.right(number) for number in world.looks[0].value)
            world.numbers.key(str(chance.randrange(SIZE))).value = chance.randrange(100)
            check(t.space.scheduler)
