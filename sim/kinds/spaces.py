"""One process with several spaces on one disk: functions that read across, events and posts that are sent across."""

from __future__ import annotations

import random

from sim.performer import perform
from sim.plan import Plan
from sim.spaces.generate import NODE
from sim.spaces.generate import generate as draw
from sim.spaces.program import REST_S, SpacesProgram
from sim.world import World


def generate(rng: random.Random, *, small: bool = False) -> Plan:
    """Draw a plan."""
    return draw(rng, small=small)


def play(world: World) -> None:
    """Run it."""
    if not world.plan.nodes:
        return
    program = SpacesProgram(world)
    node, conductor = world.node(NODE), world.conductor
    world.on_restart[NODE] = program.live
    performer = perform(world)
    node.start("main", program.live)
    if not conductor.wait(lambda: program.is_done or bool(world.violations), "the workload", REST_S):
        world.violate("L1", f"the workload did not end within {REST_S} s", NODE)
        return
    performer.calm()
    program.is_calm = True
    if not conductor.wait(lambda: program.is_finished or bool(world.violations), "rest", REST_S):
        world.violate("L1", f"the program did not come to rest within {REST_S} s", NODE)
