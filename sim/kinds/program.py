"""One process with an embedded space on a simulated disk: a generated app, threads, sessions, restarts, edits."""

from __future__ import annotations

import random
from functools import partial
from typing import Final

import msgspec

from headwater.cells.transaction import Transaction
from headwater.store.commit import Committed
from sim.apps.parts import App
from sim.apps.source import source as app_source
from sim.oracles.crash_points import check_crash_points, mark_acknowledged
from sim.performer import perform as perform_faults
from sim.plan import Plan
from sim.program import final_scenes, twin
from sim.program.checks import check
from sim.program.generate import generate as draw
from sim.program.operations import Program
from sim.program.perform import perform
from sim.program.program import REST_S, URL, ProgramWorld
from sim.program.scenes import with_scene
from sim.world import Node, World

CRASH_POINTS: Final = "crash points"
CRASH_SHARE: Final = 0.03
IMAGES: Final = 30


def generate(rng: random.Random, *, small: bool = False) -> Plan:
    """Draw a plan. Small: 3 to 8 declarations and about 20 operations."""
    plan = draw(rng, small=small)
    if (twins := twin.generate(rng, small=small)) is not None:
        return twins
    # From streams of their own: plans of known seeds stay as they are.
    state = rng.getstate()[1][:2]
    is_crashing = random.Random(f"crash-{state}").random() < CRASH_SHARE and _is_durable(plan)
    plan = with_scene(random.Random(f"scene-{state}"), plan)
    if is_crashing:
        return msgspec.structs.replace(plan, features=(*plan.features, CRASH_POINTS))
    return final_scenes.added(plan, rng)


def _is_durable(plan: Plan) -> bool:
    """Otherwise a loss of power may cost what was acknowledged."""
    return all(isinstance(each, Program) and each.durability == "full" for each in plan.nodes)


def source(plan: Plan) -> str:
    """The generated program."""
    assert isinstance(plan.app, App)
    return app_source(plan.app)


def play(world: World) -> None:
    """Run it."""
    if twin.TWIN in world.plan.features:
        twin.play(world, _run)
    else:
        _run(world, ProgramWorld(world))


def _run(world: World, program: ProgramWorld) -> None:
    program.perform, program.check = perform, check
    name = program.spec.name
    node = world.node(name)
    if CRASH_POINTS in world.plan.features:
        program.told.acknowledged = partial(_acknowledge, node)
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
    elif CRASH_POINTS in world.plan.features and not world.violations:
        check_crash_points(world, node, URL, IMAGES)


def _acknowledge(node: Node, tx: Transaction) -> None:
    """The workload was told that a block is committed."""
    if isinstance(tx.verdict, Committed) and tx.local_seq is not None:
        mark_acknowledged(node, tx.verdict.seq, tx.replica.session, tx.local_seq)
