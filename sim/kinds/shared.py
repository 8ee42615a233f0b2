"""One real server and some real clients over a simulated network: counters, registers, documents, events, faults."""

from __future__ import annotations

import random

from sim.oracles.logs import watched_logs
from sim.performer import perform
from sim.plan import Plan, draw_knobs
from sim.shared.checks import check
from sim.shared.generate import draw
from sim.shared.limits import small_limits
from sim.shared.shared_app import StepError
from sim.shared.shared_world import SharedWorld
from sim.world import World


def generate(rng: random.Random, *, small: bool = False) -> Plan:
    """Draw a plan. Small: two clients, 20 operations, at most one kind of fault."""
    return draw(rng, draw_knobs(rng), small=small)


def play(world: World) -> None:
    """Run it."""
    with watched_logs(world, StepError, ValueError), small_limits(world.plan.features):
        shared = SharedWorld(world)
        shared.start()
        faults = perform(world)
        shared.work()
        faults.calm()
        if shared.calm() and not world.violations:
            check(shared)
