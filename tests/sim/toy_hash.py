"""The toy with a planted leak: the order of a set is part of the world."""

from __future__ import annotations

import random

import msgspec

from sim.plan import Plan
from sim.world import World
from tests.sim import toy


def generate(rng: random.Random, *, small: bool = False) -> Plan:
    return msgspec.structs.replace(toy.generate(rng, small=small), kind=__name__, features=("hash",))


def play(world: World) -> None:
    toy.play(world)
