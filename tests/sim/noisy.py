"""A kind of worlds that looks at one function of the product, and fails by itself in some seeds."""

from __future__ import annotations

import random

from headwater.values.shrink import shrunk
from sim.plan import Plan
from sim.world import World


def generate(_: random.Random, *, small: bool = False) -> Plan:
    return Plan(kind="tests.sim.noisy", features=("small",) if small else (), operations=())


def play(world: World) -> None:
    if world.seed % 3:
        world.violate("noise", "this world fails without any mutant")
    if world.seed >= 5 and shrunk({1: 2}) != {1: 2}:
        world.violate("V", "a dict has lost an entry")
