"""What the functions of a generated program do: one object for each life of a process.

Each method is a generator: it yields the seconds to wait, so that plain functions and coroutines share it. `go` waits
in the thread that calls, `wait` in its event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final, NoReturn, TypeAlias

import headwater as hw
from headwater.machine import machine
from headwater.workflow.rows import EffectOutcome, RunRow, RunStatus
from headwater.workflow.tables import WorkflowTables
from sim.flows.outside import Entered, Outside, Request
from sim.flows.parts import AGE_S, BATCH, ConsumerPart, Mood

PHASE_S: Final = 300.0
"""The time limit of a phase, unless the program sets one."""

Steps: TypeAlias = Generator[float, None, Any]
Look: TypeAlias = Callable[[Callable[[WorkflowTables], RunRow]], RunRow]


class Nonsense:
    """What cannot be stored. Its text has no address: error messages are part of a world."""

    def __repr__(self) -> str:
        return "nonsense"


class Hands:
    """The hands of one life of one process."""

    def __init__(  # what a life has
        self, outside: Outside, node: str, life: int, die: Callable[[], None], look: Look, *, gives_up: bool
    ) -> None:
        self._outside = outside
        self._node, self._life = node, life
        self._die = die
        self.look = look
        # A host ends a run whose plain function takes too long, if nothing keeps it from doing so.
        self.gives_up = gives_up
        self._parts: dict[str, Any] = {part.name: part for part in outside.app.consumers}
        self._parts |= {part.name: part for part in outside.app.producers}

    # -- waiting -------------------------------------------------------------------------------------------

    @staticmethod
    def go(steps: Steps) -> Any:  # what the phase needs
        """In a thread."""
        try:
            while True:
                machine().sleep(next(steps))
        except StopIteration as end:
            return end.value

    @staticmethod
    async def wait(steps: Steps) -> Any:  # likewise
        """In an event loop."""
        try:
            while True:  # noqa: ASYNC110  # no polling
                await asyncio.sleep(next(steps))  # no polling
        except StopIteration as end:
            return end.value
        finally:
            steps.close()

    # -- phases --------------------------------------------------------------------------------------------

    def produce(self, name: str, run: hw.Run) -> Steps:
        """How many items the feed has by now."""
        token, mood = self._enter(name, "produce", run)
        try:
            yield from self._stumble(name, run, mood)
            now = self._outside.world.now()
            return sum(at <= now or self._outside.is_calm for at in self._parts[name].items)
        finally:
            self._outside.leave(token)

    def prepare(self, name: str, run: hw.Run, revision: str, pending: Sequence[hw.Event[int]]) -> Steps:
        """The events to take, the plan, and the time to wake up."""
        part: ConsumerPart = self._parts[name]
        token, mood = self._enter(name, "prepare", run)
        self._outside.prepared[run.id] = self._outside.world.now()
        try:
            if part.prepare_s:
                yield part.prepare_s
            yield from self._stumble(name, run, mood)
            if mood is not None and mood.mode == "nonsense" and pending:
                return [pending[0], pending[0]], [], None
            taken, wake = self._chosen(part, pending)
            if taken:
                self._outside.keys[run.key] = run.id
            return taken, [revision, *(f"{one.id}={one.data}" for one in taken)], wake
        finally:
            self._outside.leave(token)

    def _chosen(self, part: ConsumerPart, pending: Sequence[hw.Event[int]]) -> tuple[list[hw.Event[int]], str | None]:
        outside = self._outside
        now = outside.world.now()
        if part.take in ("batch", "aged"):
            ages = [now - outside.seen.setdefault((part.name, one.id), now) for one in pending]
            taken = [one for one, age in zip(pending, ages, strict=True) if age >= AGE_S]
            if part.take == "batch":
                taken = list(pending[:BATCH]) if len(ages) >= BATCH else list(pending) if taken else []
            left = [age for one, age in zip(pending, ages, strict=True) if one not in taken]
            if not left:
                return taken, None
            wake = max(AGE_S - max(left), 0.5)
            outside.world.sometimes["wake clamped"] += wake < 30  # the least time
            return taken, f"{int(wake * 1000)}ms"
        if part.take == "ready":
            return [one for one in pending if one.data >= 0], None
        if part.take == "all":
            return list(pending), None
        return list(pending[: 1 if part.take == "one" else 2]), None

    def naming(self, name: str, run: hw.Run) -> Steps:
        """`mutate` of a consumer that only names what to call."""
        token, mood = self._enter(name, "name", run)
        try:
            if self._parts[name].name_s:
                yield self._parts[name].name_s
            yield from self._stumble(name, run, mood)
        finally:
            self._outside.leave(token)

    def act(self, name: str, key: str, revision: str, data: list[str]) -> Steps:  # noqa: C901  # one for each answer
        """The effect."""
        outside, part = self._outside, self._parts[name]
        mood = outside.mood(name, "mutate")
        request = Request(key, name, tuple(data), outside.world.now(), self._node, self._life)
        mode = "" if mood is None else mood.mode
        entered = Entered(part.flow, name, "mutate", outside.keys.get(key, 0), self._node, self._life, 0.0)
        outside.request(part, request, revision)
        outside.acts(key, entered)
        try:
            if mode == "dies before":
                self._dies(name)
            if part.act_s:
                yield part.act_s
            if outside.is_away or mode == "lost before":
                raise ConnectionError("no answer: lost on its way")
            if mode in _REFUSALS:
                outside.fenced.add(key)
                outside.world.sometimes["effect refused"] += 1
                return _REFUSALS[mode]()
            if mode == "late":
                outside.send_later(request)
                raise TimeoutError("no answer: not there yet")
            if mode in ("hang", "slow"):
                yield self._seconds(part, mood)
            if key in outside.fenced:
                raise hw.TransientError("refused: it was given up", definite=True)
            count = outside.perform(request)
            if mode == "dies after":
                self._dies(name)
            if mode == "hang after":
                yield self._seconds(part, mood)
            if mode == "busy after":
                raise hw.TransientError("busy, and perhaps it has happened")
            if mode == "lost after":
                outside.world.sometimes["effect timed out after it happened"] += 1
                raise ConnectionError("no answer: its answer is lost")
            return hw.Unknown("ask later") if mode == "unknown" else Nonsense() if mode == "nonsense" else count
        finally:
            outside.acts(key, None)

    def look_up(self, name: str, key: str) -> Steps:
        """What became of a call."""
        outside = self._outside
        mood = outside.mood(name, "reconcile")
        outside.asked(key)
        mode = "" if mood is None else mood.mode
        if mode == "dies":
            self._dies(name)
        if mode in ("hang", "slow"):
            yield self._seconds(self._parts[name], mood) if mode == "slow" else 45.0
        if outside.is_away or mode == "fails":
            raise ConnectionError("cannot be asked")
        if mode == "unknown":
            return hw.Unknown("not known yet")
        found = outside.truth(key)
        said = "not done" if found is None else "done"
        outside.world.sometimes[f"unknown outcome looked up: {said}"] += 1
        return hw.NotApplied() if found is None else hw.Applied(found)

    def next(self, name: str, run: hw.Run, data: list[str], outcome: hw.Outcome[int]) -> Steps:
        """The ids to pass on."""
        part = self._parts[name]
        token, mood = self._enter(name, "next", run)
        try:
            if part.next_s:
                yield part.next_s
            yield from self._stumble(name, run, mood)
            if part.effect.endswith("blind") and isinstance(outcome, hw.Applied):
                # W3: if the process died now, the outcome would be unknown.
                self._expect(run, "applied", lambda row: row.outcome == EffectOutcome.APPLIED)
            if isinstance(outcome, hw.Applied) and outcome.result != len(data) - 1:
                self._outside.world.violate("W3", f"{name}.next gets {outcome} for {data}")
            if isinstance(outcome, hw.Nothing) == (part.effect != "none") and not isinstance(outcome, hw.Skipped):
                self._outside.world.violate("W7", f"{name}.next gets {outcome} for {data}")
            return [] if isinstance(outcome, hw.Skipped) else [one.partition("=")[0] for one in data[1:]]
        finally:
            self._outside.leave(token)

    # -- parts ---------------------------------------------------------------------------------------------

    def _enter(self, name: str, phase: str, run: hw.Run) -> tuple[int, Mood | None]:
        part = self._parts[name]
        until = self._outside.world.now() + (part.timeout_s or PHASE_S) * 0.9
        entered = Entered(part.flow, name, phase, run.id, self._node, self._life, until)
        token = self._outside.enter(entered)
        return token, self._outside.mood(name, phase)

    def _stumble(self, name: str, run: hw.Run, mood: Mood | None) -> Steps:
        match None if mood is None else mood.mode:
            case "transient":
                raise hw.TransientError("busy")
            case "logic":
                raise ValueError("a mistake of the program")
            case "denied":
                raise hw.ApprovalError("signed out", service="outside")
            case "dies":
                self._dies(name)
            case "slow" | "hang":
                yield self._seconds(self._parts[name], mood)
                if mood is not None and mood.mode == "hang" and self.gives_up:
                    self._expect(run, "given up", lambda row: row.status != RunStatus.ACTIVE)
            case _:
                pass

    def _expect(self, run: hw.Run, what: str, holds: Callable[[RunRow], bool]) -> None:
        """The disk has something of a run, while a phase of it is executed."""
        row = self.look(lambda tables: tables.run(run.id))
        if not holds(row):
            self._outside.world.violate(
                "W3", f"run {run.id} of {run.handler} is not {what}: {row.status}, {row.outcome}"
            )

    @staticmethod
    def _seconds(part: Any, mood: Mood | None) -> float:  # a producer or consumer
        assert mood is not None
        return mood.seconds if mood.mode == "slow" else (part.timeout_s or PHASE_S) + 25.0

    def _dies(self, name: str) -> NoReturn:
        self._outside.deaths[name] += 1
        self._outside.world.say(self._node, f"dies in {name}")
        self._die()
        raise AssertionError("a killed process went on")


def _refuse() -> NoReturn:
    raise hw.TransientError("refused", definite=True)


def _lock_out() -> NoReturn:
    raise hw.ApprovalError("signed out", service="outside", definite=True)


_REFUSALS: Final[dict[str, Callable[[], Any]]] = {
    "refuse": _refuse,
    "denied": _lock_out,
    "not applied": lambda: hw.NotApplied("nothing was done"),
}
