"""Scenes: at the end of some programs, a situation that free draws hardly ever make, with parts of its own."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final, Literal

from msgspec.structs import replace

from sim.apps import parts as p
from sim.plan import Plan
from sim.program import operations as o

SHARE: Final = 0.7
"""Of the programs without faults."""

SLOW_MS: Final = 20


class _Scene:
    """The parts and operations of one plan."""

    def __init__(self, rng: random.Random, node: o.Program) -> None:
        self.rng, self.node = rng, node
        self.parts: list[p.Part] = []
        self.operations: list[o.Operation] = []

    def cell(self) -> str:
        name = f"z{len(self.parts) + 1}"
        self.parts.append(p.IntCell(name))
        return name


def added(plan: Plan, rng: random.Random) -> Plan:
    """The plan, perhaps with a scene. From a stream of its own: the rest of the plan stays as it is.

    Not with faults: after a kill, a scene would begin in its middle.
    """
    rng = random.Random(f"final-scene-{rng.getstate()[1][:2]}")
    node, app = plan.nodes[0], plan.app
    if rng.random() >= SHARE or plan.faults or not isinstance(node, o.Program) or not isinstance(app, p.App):
        return plan
    scene = _Scene(rng, node)
    fitting = [draw for draw, fits in _SCENES if fits(node)]
    for draw in rng.sample(fitting, 3):
        draw(scene)
    return replace(
        plan,
        app=replace(app, parts=(*app.parts, *scene.parts)),
        operations=(*plan.operations, *scene.operations),
    )


def _overtaken(scene: _Scene) -> None:
    """A value changes while a sink that has read it takes its time."""
    rng, cell = scene.rng, scene.cell()
    scene.parts.append(p.Sink(f"y{len(scene.parts)}", (p.Read(cell),), slow=SLOW_MS))
    for number in range(rng.randrange(1, 3)):
        later = (rng.choice((0.001, 0.005, 0.015)), 10 + number)
        scene.operations.append(_overtake(cell, number + 1, rng.randrange(scene.node.sessions), later))


def _patient(scene: _Scene) -> None:
    """A value changes while an async sink runs that has read it, before it waits; or changes back while it waits."""
    rng = scene.rng
    cancelled, finished = scene.cell(), scene.cell()
    scene.parts += [p.Patient("y1p", cancelled), p.Patient("y2p", finished, finishes=True)]
    other = scene.node.sessions - 1
    for number in range(1, 3):
        # Before, the loop comes to its end with what it does for others.
        scene.operations += [o.Pass(seconds=1.0), _overtake(cancelled, p.HELD, other, (rng.choice(_EARLY_S), number))]
        back = (rng.choice((0.0, 0.002)), number)
        scene.operations += [o.Pass(seconds=1.0), _overtake(finished, number, 0, (rng.choice(_LATE_S), 9), back)]


_EARLY_S: Final = (0.001, 0.002, 0.004)
_LATE_S: Final = (0.006, 0.01)
"""Before and after a patient sink begins to wait."""


def _overtake(cell: str, value: int, session: int, *later: tuple[float, int]) -> o.Operation:
    return o.Overtake(cell=cell, value=value, later=later, session=session)


def _undercut(scene: _Scene) -> None:
    """What is shown on top of a transaction that is then rejected."""
    rng = scene.rng
    hot, target, cold = scene.cell(), scene.cell(), scene.cell()
    scene.parts.append(p.Sink(f"y{len(scene.parts)}", (p.Read(target), p.Read(cold)), group="scene"))
    for number in range(1, 4):
        then: Literal["repeat", "show"] = "repeat" if rng.random() < 0.5 else "show"
        scene.operations.append(o.Undercut(hot=hot, target=target, value=number, then=then, cold=cold))


def _counted(scene: _Scene) -> None:
    """A transaction reads the length of a list and another part of its document, and another thread adds to the list.

    Or it edits a number and then sets it to the value that it has by then, and another thread edits the number, too.
    """
    rng, target = scene.rng, scene.cell()
    steps: tuple[p.Step, ...]
    beside: p.Step
    if rng.random() < 0.5:
        board = f"z{len(scene.parts) + 1}"
        scene.parts.append(p.Board(board))
        seen = p.Binary("+", p.Field(board, "count"), p.Field(board, rng.choice(("x", "marks"))))
        steps, beside = (p.Put(target, seen),), p.Items(board, "add", p.Const(1))
        # Of a document that does not exist, every part changes with its first write.
        scene.operations.append(o.Write(step=beside))
    else:
        scene.operations += [o.Write(step=p.Put(target, p.Const(1))), o.Sync()]
        steps, beside = (p.Count(target, p.Const(2)), p.Put(target, p.Const(3))), p.Count(target, p.Const(1))
    scene.operations.append(o.Block(tag=f"x{target}", steps=steps, beside=(beside,)))


def _interrupted(scene: _Scene) -> None:
    """Ctrl-C while a thread waits for the disk, often after the disk has taken its commits."""
    rng, cell, target = scene.rng, scene.cell(), scene.cell()
    for number in range(1, 4):
        lines = rng.choice((-rng.randint(1, 25), -rng.randint(1, 25), rng.randint(1, 300)))
        shown = target if rng.random() < 0.5 else ""
        scene.operations.append(o.Interrupt(cell=cell, lines=lines, target=shown, value=number))


def _preempted(scene: _Scene) -> None:
    """A thread writes just when another one has found nothing more to run."""
    cell, other = scene.cell(), scene.cell()
    sink = f"y{len(scene.parts)}"
    scene.parts.append(p.Sink(sink, (p.Read(cell), p.Read(other))))
    scene.operations += [o.Preempt(cell=cell, other=other, sink=sink, value=number) for number in range(1, 4)]


_SCENES: Final[tuple[tuple[Callable[[_Scene], None], Callable[[o.Program], bool]], ...]] = (
    (_overtaken, lambda _: True),
    (_preempted, lambda _: True),
    (_patient, lambda node: node.loop),
    (_undercut, lambda node: node.sessions > 1),
    # The model looks at each commit if there is one session.
    (_counted, lambda node: node.sessions == 1),
    (_interrupted, lambda node: not node.loop),
)
"""Each with the programs that it fits."""
