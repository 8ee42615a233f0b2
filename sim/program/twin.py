"""Twins: two copies of a program do the same, and one of them is closed and opened again at a quiet moment.

Afterwards both have the same documents, the same ledger, and have told the same. Oracles compare a program with a
naive model; here it is compared with itself, also where the model does not look.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from sim.apps.naive import Model
from sim.oracles import values
from sim.plan import Plan
from sim.program import operations as o
from sim.program.generate import generate as draw
from sim.program.program import ProgramWorld
from sim.world import World

TWIN: Final = "twin"
SHARE: Final = 0.03
NAMES: Final = ("p", "q")

_WITHOUT: Final = frozenset({"peeks", "gates", "restless", "rings", "resources", "async"})
"""What depends on the time of a run, on the outside, or on how often a sink has run; and what needs an event loop."""
_LEFT_OUT: Final = (o.Reopen, o.Redeliver, o.StopSink, o.Gate, o.SendTwice, o.ChangeOutside, o.Together, o.OtherCode)
"""What means something else in another opening."""


def generate(rng: random.Random, *, small: bool) -> Plan | None:
    """A plan of twins, or None. From a stream of its own: plans of known seeds stay as they are."""
    rng = random.Random(f"twin-{rng.getstate()[1][:2]}")
    if rng.random() >= SHARE:
        return None
    plan = draw(rng, small=small, without=_WITHOUT)
    node = plan.nodes[0]
    assert isinstance(node, o.Program)
    kept = [each for each in plan.operations if isinstance(each, o.Operation) and not isinstance(each, _LEFT_OUT)]
    operations: list[o.Operation] = [replace(each, thread=0) for each in kept]
    place = rng.randrange(len(operations) + 1)
    operations[place:place] = [o.Settle(), o.Sync(), o.Reopen()]
    return replace(
        plan,
        features=(*plan.features, TWIN),
        nodes=(replace(node, sessions=1, threads=(0,), loop=False),),
        operations=tuple(operations),
        faults=(),
    )


def play(world: World, run: Callable[[World, ProgramWorld], None]) -> None:
    """Play one after the other, and compare them."""
    plan = world.plan
    seen: list[dict[str, Any]] = []
    for name in NAMES:
        is_reopened = name == NAMES[0]
        node = plan.nodes[0]
        assert isinstance(node, o.Program)
        operations = tuple(each for each in plan.operations if is_reopened or not isinstance(each, o.Reopen))
        world.plan = replace(plan, nodes=(replace(node, name=name),), operations=operations)
        program = ProgramWorld(world)
        try:
            run(world, program)
        finally:
            world.plan = plan
        if world.violations:
            return
        seen.append(_seen(program))
    for what, found in seen[0].items():
        if found != seen[1][what]:
            world.violate("I7", f"{what}: {found} with a restart, and {seen[1][what]} without", NAMES[0])


def _seen(program: ProgramWorld) -> dict[str, Any]:
    told = program.told
    found: dict[str, Any] = dict(Model(program.app, program.documents, at_rest=True).visible())
    own = [each for each in values.ledger(program.documents) if not each["tag"].startswith("s")]
    found["the ledger"] = [(each["tag"], each["by"], each["result"], each["sent"]) for each in own]
    found["blocks"] = [sorted(each) for each in (told.committed, told.rejected, told.rolled_back)]
    found["events"] = {tag: event.state for tag, event in sorted(told.events.items())}
    return found
