"""A kind of worlds that needs nothing of the product: nodes that add numbers, and mistakes that are planted."""

from __future__ import annotations

import random
import time
from typing import Self

import msgspec

from sim.plan import SWITCHES, Fault, Knobs, Plan
from sim.world import World

BAD = 7
"""Adding it after a spoiling breaks the rule of the toy, if the app has the part "checked"."""


class Adder(msgspec.Struct, frozen=True):
    name: str


class Add(msgspec.Struct, frozen=True):
    at: float
    node: str
    number: int


class Spoil(Fault, frozen=True, kw_only=True):
    node: str


class Parts(msgspec.Struct, frozen=True):
    parts: tuple[str, ...]

    def without(self, indices: frozenset[int]) -> Self:
        return type(self)(tuple(part for index, part in enumerate(self.parts) if index not in indices))


def generate(rng: random.Random, *, small: bool = False) -> Plan:
    knobs = Knobs(switch=rng.choice(SWITCHES))
    count = 6 if small else 24
    names = ("a", "b", "c")
    return Plan(
        kind="tests.sim.toy",
        features=tuple(name for name in ("loud",) if rng.random() < 0.5),
        knobs=knobs,
        nodes=tuple(map(Adder, names)),
        app=Parts(("idle", "checked", "spare")),
        operations=tuple(Add(index * 0.5, rng.choice(names), rng.randrange(10)) for index in range(count)),
        faults=tuple(Spoil(at=rng.uniform(0, 3), node=rng.choice(names)) for _ in range(3)),
    )


def play(world: World) -> None:
    plan = world.plan
    if "endless" in plan.features:
        while True:
            pass
    if "brittle" in plan.features:
        # An error of the world itself, of a plan without operations; of another it is what the plan asks for.
        plan.operations[0]
        world.violate("T", "planted: there are operations")
    adders = [_Adding(world, node.name) for node in plan.nodes if isinstance(node, Adder)]
    actors = [world.node(each.name).start("adder", each.act) for each in adders]
    for actor in actors:
        world.conductor.join(actor)
    if "raise" in plan.features:
        raise ValueError("planted")


class _Adding:
    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.sum = 0
        self.is_spoiled = False

    def act(self) -> None:
        world = self.world
        mine = [step for step in (*world.plan.operations, *world.plan.faults) if isinstance(step, (Add, Spoil))]
        for step in sorted((step for step in mine if step.node == self.name), key=lambda step: step.at):
            world.conductor.sleep(max(step.at - world.now, 0))
            if isinstance(step, Spoil):
                self.is_spoiled = True
                world.say(self.name, "spoiled")
            else:
                self.add(step.number)

    def add(self, number: int) -> None:
        world, features = self.world, self.world.plan.features
        self.sum += number
        world.counts["operations"] += 1
        world.say(self.name, f"added {number}, {self.sum} now")
        if "clock" in features:
            world.conductor.note(f"it is {time.time_ns()}")
        if "hash" in features:
            world.say(self.name, " ".join({"one", "two", "three", "four", "five"}))
        checked = isinstance(world.plan.app, Parts) and "checked" in world.plan.app.parts
        if number == BAD and self.is_spoiled and checked:
            world.violate("toy", f"{BAD} was added by a spoiled node", self.name)
