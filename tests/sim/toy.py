"""A kind of worlds that needs nothing of the product: nodes that add numbers, and mistakes that are planted."""

from __future__ import annotations

import random
import time
from typing import Self

import msgspec

from sim.plan import Fault, Plan, draw_knobs
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
    knobs = draw_knobs(rng)
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
    sums = dict.fromkeys((node.name for node in plan.nodes if isinstance(node, Adder)), 0)
    spoiled: set[str] = set()

    def act(name: str) -> None:
        steps = [*plan.operations, *plan.faults]
        mine = [step for step in steps if isinstance(step, (Add, Spoil)) and step.node == name]
        for step in sorted(mine, key=lambda step: step.at):
            world.conductor.sleep(max(step.at - world.now, 0))
            if isinstance(step, Spoil):
                spoiled.add(name)
                world.say(name, "spoiled")
                continue
            sums[name] += step.number
            world.counts["operations"] += 1
            world.say(name, f"added {step.number}, {sums[name]} now")
            if "clock" in plan.features:
                world.conductor.note(f"it is {time.time_ns()}")
            if "hash" in plan.features:
                world.say(name, " ".join({"one", "two", "three", "four", "five"}))
            if step.number == BAD and name in spoiled and _is_checked(plan):
                world.violate("toy", f"{BAD} was added by a spoiled node", name)

    actors = [world.node(name).start("adder", lambda name=name: act(name)) for name in sums]
    for actor in actors:
        world.conductor.join(actor)
    if "raise" in plan.features:
        raise ValueError("planted")


def _is_checked(plan: Plan) -> bool:
    return isinstance(plan.app, Parts) and "checked" in plan.app.parts
