"""Draws a plan of a program."""

from __future__ import annotations

import random
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Any

from msgspec.structs import replace

from sim.apps import parts as p
from sim.apps.generate import Draft, draw, draw_features
from sim.apps.resources import Resource
from sim.faults import NODE, Full, generate_faults
from sim.plan import Plan, draw_knobs
from sim.program import operations as o

HOT_SHARE = 0.35
"""Of the worlds: two sessions that write the same cell at the same time."""

LOOP_SHARE = 0.25
"""Of the worlds: spaces in event loops."""

LONG_FULL_S = 100.0
"""Longer than an event is tried again."""


def generate(rng: random.Random, *, small: bool = False, without: AbstractSet[str] = frozenset()) -> Plan:
    """A plan. Small: a few declarations and operations. `without`: features that it does not have."""
    knobs = draw_knobs(rng)
    is_hot = rng.random() < HOT_SHARE
    sessions = 2 if is_hot or rng.random() < 0.15 else 1
    in_loop = rng.random() < LOOP_SHARE
    # Async functions need an event loop. Two sessions would wait for each other's.
    alone: frozenset[str] = frozenset() if sessions == 1 else frozenset({"async", "resources"})
    features = draw_features(rng, alone | without | (frozenset() if in_loop else frozenset({"async"})))
    if is_hot:
        more = ("handlers",) if rng.random() < 0.5 else ()
        features = tuple(dict.fromkeys((*features, "slow", "targets", *more)))
    draft = draw(rng, features, rng.randrange(3, 9) if small else rng.randrange(12, 41))
    if is_hot:
        _heat(draft)
    count = rng.randrange(12, 28) if small else rng.randrange(60, 120)
    threads = tuple(range(sessions)) + tuple(rng.randrange(sessions) for _ in range(rng.choice((0, 0, 1, 2))))
    drawing = _Drawing(rng, draft, len(threads), small=small, is_hot=is_hot)
    operations = tuple(drawing.operation() for _ in range(count))
    edits = tuple(rng.randrange(1 << 16) for _ in range(4))
    span = sum(each.gap for each in operations) / len(threads)
    faults = generate_faults(rng, NODE, ("p",), max(span, 0.5)) if rng.random() < 0.6 else ()
    if draft.handlers and any(isinstance(fault, Full) for fault in faults) and rng.random() < 0.3:
        faults = tuple(replace(fault, seconds=LONG_FULL_S) if isinstance(fault, Full) else fault for fault in faults)
        operations += drawing.wait_in_vain()
    return Plan(
        kind="program",
        features=features,
        knobs=knobs,
        nodes=(
            o.Program(
                sessions=sessions,
                threads=threads,
                demand=rng.choice(("lazy", "lazy", "lazy", "eager")),
                watched=rng.random() < 0.6,
                loop=in_loop,
            ),
        ),
        app=p.App(parts=tuple(draft.parts), edits=edits),
        operations=operations,
        faults=faults,
    )


def _heat(draft: Draft) -> None:
    """Functions that take their time over the cell that all sessions write: their commits are rejected."""
    hot = draft.ints[0]
    name, target = draft.name("c"), draft.name("t")
    draft.add(p.Computed(name, p.Binary("+", p.Read(hot), draft.leaf(calls=False)), slow=draft.pick((1, 5))))
    draft.calls.append(draft.parts[-1])
    draft.add(p.IntCell(target))
    shows = (p.Call(name), draft.leaf())
    if draft.handlers:
        draft.handlers.append(draft.add(p.Handler(draft.name("h"), (), p.Param())).name)
    draft.add(p.Sink(draft.name("s"), shows, target=target, rereads=draft.rng.random() < 0.5, slow=draft.pick((0, 5))))


class _Drawing:
    """Draws operations one after the other."""

    def __init__(self, rng: random.Random, draft: Draft, threads: int, *, small: bool, is_hot: bool) -> None:
        self._rng, self._draft, self._threads = rng, draft, threads
        # Sessions that write at the same time: commits are rejected.
        self._hot = draft.ints[0] if is_hot else ""
        self._notes = next((part.name for part in draft.parts if isinstance(part, p.Handler) and not part.steps), "")
        self._gaps = (0.0, 0.0, 0.0, 0.001, 0.005) if is_hot else (0.0, 0.0, 0.0, 0.0, 0.001, 0.01, 0.1, 0.5)
        self._count = 0
        self._reopens = 0
        self._reopens_max = 2 if small else 4
        rest: list[Callable[..., o.Operation]] = [self._settle, self._pass, self._reopen, self._reopen, self._care]
        self._options: list[Callable[..., o.Operation]] = [
            *[self._write] * 3,
            *[self._block] * 3,
            *[self._sync] * 2,
            *rest,
        ]
        if is_hot:
            self._options += [self._heated] * 8
        if draft.handlers:
            self._options += [self._send] * 4 + [self._redeliver] + [self._cause] * 2
        if is_hot and draft.handlers:
            self._options += [self._send_twice, self._contested, self._contested]
        if draft.calls:
            self._options += [self._call] * 3
        if draft.patterns:
            self._options += [self._piece] * 3 + [self._resume]
        self._resources = [part.name for part in draft.parts if isinstance(part, Resource)]
        if self._resources:
            self._options += [self._change_outside] * 2
        if any(isinstance(part, p.Sink) for part in draft.parts):
            self._options += [self._stop_sink]
        if "gates" in draft.features:
            self._options += [self._gate]

    def operation(self) -> o.Operation:
        rng = self._rng
        self._count += 1
        gap = rng.choice(self._gaps)
        return rng.choice(self._options)(thread=rng.randrange(self._threads), gap=gap)

    def _write(self, **place: float) -> o.Operation:
        step = self._draft.steps(1, param=False)[0]
        while isinstance(step, p.Start | p.Stop | p.Raise | p.Follow | p.Look | p.When):
            step = self._draft.steps(1, param=False)[0]
        return o.Write(step=step, **place)  # type: ignore[arg-type]

    def _heated(self, **place: float) -> o.Operation:
        """A write of the cell that all sessions write, or a transaction that reads and writes it."""
        rng, cell = self._rng, self._hot
        step = rng.choice(
            (
                p.Count(cell, p.Const(1)),
                p.Put(cell, p.Const(rng.randrange(4))),
                p.Put(cell, p.Binary("+", p.Read(cell), p.Const(1))),
            )
        )
        if rng.random() < 0.4:
            pause = rng.choice((0.0, 0.001, 0.01))
            return o.Block(tag=f"x{self._count}", steps=(step, *self._draft.steps(1, param=True)), pause=pause, **place)  # type: ignore[arg-type]
        return o.Write(step=step, **place)  # type: ignore[arg-type]

    def _block(self, **place: float) -> o.Operation:
        rng, draft = self._rng, self._draft
        steps = draft.steps(rng.randrange(1, 4), param=True)
        if rng.random() < 0.15:
            steps += (p.Raise(p.Const(1), rng.choice(("ValueError", "abort"))),)
        inner = draft.steps(1, param=True) if rng.random() < 0.15 else ()
        pause = rng.choice((0.0, 0.0, 0.001, 0.05)) if self._threads > 1 else 0.0
        return o.Block(
            tag=f"x{self._count}",
            steps=steps,
            n=rng.randrange(5),
            pause=pause,
            inner=inner,
            **self._hold(),
            **place,  # type: ignore[arg-type]
        )

    def _hold(self) -> dict[str, Any]:
        """How a block is held open after its last step, and whether it is rolled back then."""
        if self._threads < 2 or self._rng.random() < 0.6:
            return {}
        return {"hold": self._rng.choice((0.001, 0.01, 0.05)), "gives_up": self._rng.random() < 0.4}

    def _cause(self, **place: float) -> o.Operation:
        """A change and an event in one transaction: the handler may read what depends on the change."""
        rng, draft = self._rng, self._draft
        steps: tuple[p.Step, ...] = (
            *(p.Put(rng.choice(draft.ints), p.Const(rng.randrange(6))) for _ in range(rng.randrange(3))),
            *(
                p.Follow(rng.choice(draft.handlers), p.Const(rng.randrange(6)), draft.name("e"))
                for _ in range(rng.randrange(1, 4))
            ),
        )
        return o.Block(tag=f"x{self._count}", steps=steps, **self._hold(), **place)  # type: ignore[arg-type]

    def _contested(self, **place: float) -> o.Operation:
        """A transaction that is often rejected, and sends an event to a handler that reads nothing of it."""
        rng, draft = self._rng, self._draft
        mark = draft.name("e")
        steps = (
            p.Put(self._hot, p.Binary("+", p.Read(self._hot), p.Const(1))),
            p.Follow(self._notes, p.Const(rng.randrange(6)), mark),
        )
        pause = rng.choice((0.0, 0.001, 0.01))
        return o.Block(tag=f"x{self._count}", steps=steps, pause=pause, **place)  # type: ignore[arg-type]

    def wait_in_vain(self) -> tuple[o.Operation, ...]:
        """An event whose result the disk has no room for, for longer than it is tried again."""
        handler = self._rng.choice(self._draft.handlers)
        return (o.Send(tag="long", handler=handler, n=1), o.Pass(seconds=40.0), o.Pass(seconds=20.0))

    def _send_twice(self, **place: float) -> o.Operation:
        rng = self._rng
        handler = rng.choice((self._notes, self._draft.handlers[0]))
        number = rng.randrange(4)
        return o.SendTwice(handler=handler, once=f"u{number}{handler}", n=number, **place)  # type: ignore[arg-type]

    def _send(self, **place: float) -> o.Operation:
        rng = self._rng
        once = f"o{rng.randrange(3)}" if rng.random() < 0.15 else ""
        n = int(once[1:]) if once else rng.randrange(6)
        handler = self._draft.handlers[0] if once else rng.choice(self._draft.handlers)
        wait = rng.random() < 0.4
        return o.Send(tag=f"x{self._count}", handler=handler, n=n, wait=wait, once=once, **place)  # type: ignore[arg-type]

    def _call(self, **place: float) -> o.Operation:
        calls = [part for part in self._draft.calls if not isinstance(part, p.Computed) or part.takes != "item"]
        if not calls:
            return o.Settle(**place)  # type: ignore[arg-type]
        part = self._rng.choice(calls)
        takes = isinstance(part, p.Computed) and part.takes == "int"
        return o.Call(fn=part.name, argument=self._rng.randrange(4) if takes else None, **place)  # type: ignore[arg-type]

    def _settle(self, **place: float) -> o.Operation:
        return o.Settle(**place)  # type: ignore[arg-type]

    def _sync(self, **place: float) -> o.Operation:
        return o.Sync(**place)  # type: ignore[arg-type]

    def _pass(self, **place: float) -> o.Operation:
        return o.Pass(seconds=self._rng.choice((0.01, 0.06, 0.3, 1.0, 1.0, 40.0)), **place)  # type: ignore[arg-type]

    def _change_outside(self, **place: float) -> o.Operation:
        return o.ChangeOutside(
            resource=self._rng.choice(self._resources),
            fails=self._rng.choice((0, 0, 1, 2)),
            **place,  # type: ignore[arg-type]
        )

    def _redeliver(self, **place: float) -> o.Operation:
        return o.Redeliver(**place)  # type: ignore[arg-type]

    def _stop_sink(self, **place: float) -> o.Operation:
        sinks = [part.name for part in self._draft.parts if isinstance(part, p.Sink)]
        return o.StopSink(sink=self._rng.choice(sinks), **place)  # type: ignore[arg-type]

    def _piece(self, **place: float) -> o.Operation:
        rng = self._rng
        return o.Piece(
            tag=f"x{self._count}",
            pattern=rng.choice(self._draft.patterns),
            key=rng.choice("kl"),
            given=rng.randrange(3),
            how=rng.choice(("start", "tick", "tick", "stop")),
            **place,  # type: ignore[arg-type]
        )

    def _resume(self, **place: float) -> o.Operation:
        rng, draft = self._rng, self._draft
        pattern = rng.choice([part for part in draft.parts if isinstance(part, p.Pattern)])
        read = [name for name in p.names_in(pattern) if name in draft.ints] or draft.ints
        return o.Resume(
            pattern=pattern.name,
            key=rng.choice("kl"),
            given=rng.randrange(3),
            cell=rng.choice(read),
            value=rng.randrange(6),
            **place,  # type: ignore[arg-type]
        )

    def _reopen(self, **place: float) -> o.Operation:
        self._reopens += 1
        if self._reopens > self._reopens_max:
            return o.Sync(**place)  # type: ignore[arg-type]
        rng, draft = self._rng, self._draft
        aside: list[tuple[str, int]] = []
        if rng.random() < 0.5:
            aside = [(rng.choice(draft.ints), rng.randrange(6)) for _ in range(2)]
        results = [part.name for part in draft.calls if isinstance(part, p.Computed) and not part.takes]
        if results and rng.random() < 0.2:
            aside.append((rng.choice(results), 7))
        return o.Reopen(edit=rng.random() < 0.3, abrupt=rng.random() < 0.4, aside=tuple(aside), **place)  # type: ignore[arg-type]

    def _care(self, **place: float) -> o.Operation:
        return o.Care(how=self._rng.choice(("fold", "verify", "fork")), **place)  # type: ignore[arg-type]

    def _gate(self, **place: float) -> o.Operation:
        names = [part.name for part in self._draft.parts if isinstance(part, p.Sink | p.Computed)]
        if not names:
            return o.Settle(**place)  # type: ignore[arg-type]
        return o.Gate(
            fn=self._rng.choice(names),
            debounce=self._rng.choice((0, 20)),
            throttle=self._rng.choice((0, 100)),
            **place,  # type: ignore[arg-type]
        )
