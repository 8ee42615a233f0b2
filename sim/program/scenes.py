"""Situations that chance hardly ever makes, set up among the operations of a plan.

Each has declarations of its own, which nothing else reads or writes. Their names have a 0 that drawn ones do not have.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from sim.apps import parts as p
from sim.apps.more import LONG_MS
from sim.plan import Plan
from sim.program import operations as o

SHARE: Final = 0.8
"""Of the worlds."""


class Scene(NamedTuple):
    """Declarations, and operations of one thread."""

    parts: tuple[p.Part, ...]
    operations: tuple[o.Operation, ...]


Make: TypeAlias = Callable[[random.Random], Scene]
Fits: TypeAlias = Callable[[o.Program, tuple[str, ...]], bool]
"""Whether worlds of a program with some features can have a scene."""


def with_scene(rng: random.Random, plan: Plan) -> Plan:
    """The plan with one scene, mostly. The rest of it stays as it is."""
    node, app = plan.nodes[0], plan.app
    assert isinstance(node, o.Program)
    assert isinstance(app, p.App)
    if rng.random() >= SHARE:
        return plan
    fitting = [(make, weight) for make, is_fitting, weight in SCENES if is_fitting(node, plan.features)]
    make = rng.choices([make for make, _ in fitting], [weight for _, weight in fitting])[0]
    scene = make(rng)
    thread, place = rng.randrange(len(node.threads)), rng.randrange(len(plan.operations) + 1)
    added = tuple(replace(each, thread=thread) for each in scene.operations)
    return replace(
        plan,
        app=replace(app, parts=(*app.parts, *scene.parts)),
        operations=(*plan.operations[:place], *added, *plan.operations[place:]),
    )


def _put(cell: str, value: int, **place: float) -> o.Operation:
    return o.Write(step=p.Put(cell, p.Const(value)), **place)  # type: ignore[arg-type]


def _together(*lanes: tuple[o.Operation, ...], session: int = 0) -> o.Operation:
    return o.Together(lanes=tuple(o.Lane(session=session, operations=each) for each in lanes))


def overtaken_handler(rng: random.Random) -> Scene:
    """Another thread changes what a handler has read through a function, while the handler takes its time."""
    parts = (
        p.IntCell("i01"),
        p.Computed("c01", p.Binary("+", p.Read("i01"), p.Const(1))),
        p.IntCell("t01"),
        p.Handler("h01", (p.Put("t01", p.Call("c01")),), p.Param(), slow=20),
    )
    writes = tuple(_put("i01", 1 + i, gap=rng.choice((0.003, 0.012))) for i in range(rng.randint(1, 3)))
    return Scene(parts, (_together((o.Send(tag="y1", handler="h01", n=1),), writes),))


def excused_function(rng: random.Random) -> Scene:
    """An event waits for a delayed function, and in the same pass another one ceases to read what that writes."""
    delay = rng.choice((50, LONG_MS))
    parts = (
        p.IntCell("i01"),
        p.IntCell("i02", 1),
        p.IntCell("t01"),
        p.Computed("c01", p.Read("i01"), target="t01", debounce=delay, eager=True),
        p.Computed("c02", p.If(p.Read("i02"), p.Read("t01"), p.Const(0)), eager=True),
        p.Handler("h01", (p.Look(p.Call("c02")),), p.Param()),
    )
    steps = (p.Put("i01", p.Const(3)), p.Put("i02", p.Const(0)), p.Follow("h01", p.Const(1), "e01"))
    return Scene(parts, (o.Send(tag="y1", handler="h01", n=1), o.Block(tag="y2", steps=steps, gap=0.1)))


def contested_handler(rng: random.Random) -> Scene:
    """Two sessions handle events that count in one cell, which no function reads: verdicts alone wake them."""
    steps = (p.Put("t01", p.Binary("+", p.Read("t01"), p.Const(1))),)
    parts = (p.IntCell("t01"), p.Handler("h01", steps, p.Param(), slow=rng.choice((1, 5))))
    lanes = tuple(
        o.Lane(
            session=session,
            operations=tuple(o.Send(tag=f"y{session}{i}", handler="h01", n=1) for i in range(rng.randint(1, 3))),
        )
        for session in (0, 1)
    )
    return Scene(parts, (o.Together(lanes=lanes),))


def open_sender(rng: random.Random) -> Scene:
    """A pass finds an event whose sender is still open; after that the sender ends, and nothing else happens."""
    parts = (p.Handler("h01", (), p.Param()),)
    steps = (p.Follow("h01", p.Const(1), "e01"),)
    block = o.Block(tag="y1", steps=steps, hold=0.01, gives_up=rng.random() < 0.2)
    return Scene(parts, (_together((block,), (o.Settle(gap=0.005),)),))


def piece_while_locked(rng: random.Random) -> Scene:
    """A transaction that has started a piece ends while another thread has the lock: in a pass, or in a call."""
    in_pass = rng.random() < 0.3
    parts = (
        p.IntCell("i01"),
        p.Pattern("p01", p.Const(1)),
        p.Computed("c01", p.Read("i01"), eager=in_pass, slow=20),
    )
    steps = (p.Start("p01", "k", p.Const(1)),)
    block = o.Block(tag="y1", steps=steps, hold=0.01, gives_up=rng.random() < 0.7)
    other = (_put("i01", 1, gap=0.005),) if in_pass else (_put("i01", 1), o.Call(fn="c01", gap=0.005))
    return Scene(parts, (_together((block,), other),))


def late_failure(rng: random.Random) -> Scene:
    """A function fails while an async run that has called it goes on; the space is closed during the next run."""
    caught = p.Catch(p.Call("c01"), p.Const(-1), "ValueError")
    parts = (
        p.IntCell("i01"),
        p.IntCell("i02"),
        p.Computed("c01", p.Fail(p.Binary("<", p.Read("i01"), p.Const(3)), p.Const(1))),
        p.Computed(
            "c02",
            p.Binary("+", caught, p.Binary("+", p.Read("i02"), p.Read("i02"))),
            waits=50,
            eager=True,
            finishes=True,
        ),
    )
    operations = (
        _put("i01", 5),
        _put("i02", 1, gap=0.5),
        _put("i01", 0, gap=0.06),
        o.Reopen(abrupt=True, gap=rng.choice((0.1, 0.12))),
    )
    return Scene(parts, operations)


def listed_call(rng: random.Random) -> Scene:
    """A function has read a list that is computed element by element. What an element reads changes while closed."""
    element = p.Binary("+", p.Param(), p.Read("i01"))
    parts = (
        p.IntCell("i01"),
        p.ListCell("l01", (1, 2)),
        p.Derived("d01", "l01", rng.choice(("each", "flat")), element),
        p.Computed("c01", p.Call("d01")),
        p.Sink("s01", (p.Call("c01"),)),
    )
    return Scene(parts, (o.Settle(), o.Reopen(abrupt=True, aside=(("i01", 1 + rng.randrange(5)),))))


def resumed_piece(rng: random.Random) -> Scene:
    """A piece is started again before the change of a cell that it reads is decided, and no other run has a note."""
    parts = (p.IntCell("i01"), p.Pattern("p01", p.Read("i01")))
    value = 1 + rng.randrange(5)
    return Scene(parts, (o.Resume(pattern="p01", key="k", given=1, cell="i01", value=value),))


def other_code(_: random.Random) -> Scene:
    """Another program with the same file open has another version of a function, and runs it."""
    parts = (p.IntCell("i01"), p.Computed("c01", p.Read("i01"), eager=True), p.Sink("s01", (p.Call("c01"),)))
    # Written here before: a result is adopted if the reads of its run are loaded.
    return Scene(parts, (_put("i01", 7), o.OtherCode(fn="c01", cell="i01"), o.Settle()))


def _is_alone(node: o.Program, _: tuple[str, ...]) -> bool:
    return node.sessions == 1


SCENES: Final[tuple[tuple[Make, Fits, int], ...]] = (
    (overtaken_handler, _is_alone, 1),
    (excused_function, lambda _, features: "gates" in features, 1),
    (contested_handler, lambda node, _: node.sessions == 2, 2),
    (open_sender, lambda *_: True, 1),
    (piece_while_locked, _is_alone, 1),
    (late_failure, lambda node, _: node.loop and node.sessions == 1, 3),
    (listed_call, lambda *_: True, 1),
    (resumed_piece, _is_alone, 1),
    # With more sessions or threads, one may have run the function before: then the other program has the last word.
    (other_code, lambda node, _: len(node.threads) == 1 and not node.loop, 1),
)
"""Each with the worlds that it fits, and its weight there: few worlds have two sessions, or a loop."""
