"""One process with an embedded space on a simulated disk: a generated app, threads, sessions, restarts, edits."""

from __future__ import annotations

import random

from sim.apps.parts import App
from sim.apps.source import source as app_source
from sim.performer import perform as perform_faults
from sim.plan import Plan
from sim.program.checks import check
from sim.program.generate import generate as draw
from sim.program.perform import perform
from sim.program.program import REST_S, ProgramWorld
from sim.world import World


def generate(rng: random.Random, *, small: bool = False) -> Plan:
    """Draw a plan. Small: 3 to 8 declarations and about 20 operations."""
    return draw(rng, small=small)


def source(plan: Plan) -> str:
    """The generated program."""
    assert isinstance(plan.app, App)
    return app_source(plan.app)


def play(world: World) -> None:
    """Run it."""
    program = ProgramWorld(world)
    program.perform, program.check = perform, check
    name = program.spec.name
    node = world.node(name)
    world.on_restart[name] = program.main
    world.on_code[name] = program.edit
    performer = perform_faults(world)
    node.start("main", program.main)
    conductor = world.conductor
    if not conductor.wait(lambda: program.is_done or bool(world.violations), "the workload", REST_S):
        world.violate("L1", f"the workload did not end within {REST_S} s", name)
        return
    performer.calm()
    program.is_calm = True
    if not conductor.wait(lambda: program.is_finished or bool(world.violations), "rest", REST_S):
        world.violate("L1", f"the program did not come to rest within {REST_S} s", name)
