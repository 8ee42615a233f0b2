"""How a probe drives its apps: plain or in an event loop.

In both cases time passes only when a test says so. The stores are in memory and outlive every opening.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, ExitStack
from typing import Final, TypeAlias

from headwater.app import App
from headwater.errors import UsageError
from headwater.host.async_opening import AsyncOpening, open_all
from headwater.host.async_runtime import AsyncRuntime
from headwater.host.async_space import AsyncSpace
from headwater.host.loop_opening import LoopOpening
from headwater.host.plain_opening import PlainOpening
from headwater.host.plain_space import Space
from headwater.host.space_facade import opening_of
from headwater.host.together import AppOpening, open_together
from headwater.runtime.options import Options
from headwater.scheduler.events.event import EventRecord
from headwater.testing.sim_loop import SimLoop

OpenedApp: TypeAlias = PlainOpening | LoopOpening

ROUNDS_MAX: Final = 1000
"""Rounds after which a space that never comes to rest is given up."""

ENDLESS_MAX: Final = 1
"""How often in a row a space may report more of the same work: it does so after ten thousand events."""

TURNS_MAX: Final = 10_000
"""Rounds of an event loop without any time passing. Each may run a hundred events; few tests need a thousand rounds."""

CLOSING_S: Final = 1.0
"""The least time that passes for a sleeper while a space is closed: the close waits for seconds, not for steps."""

EXACT: Final = 6
"""Digits after a millisecond that count: rounding must not delay a timer."""


class Stage(ABC):
    """Apps that are opened repeatedly, all at once."""

    def __init__(self, apps: Sequence[App]) -> None:
        self.apps = tuple(apps)
        # One for each app. Between two openings: the last ones, which are closed.
        self.spaces: tuple[Space | AsyncSpace, ...] = ()

    @abstractmethod
    def now_ms(self) -> float:
        """Milliseconds since its beginning."""

    @abstractmethod
    def open(self, options: Sequence[Options]) -> None:
        """Open each app; `spaces` are the new openings."""

    @abstractmethod
    def calm(self) -> None:
        """Run everything that can run now, until nothing can and everything is decided."""

    @abstractmethod
    def due_at(self) -> float | None:
        """The time at which work may be due, if the caller has to move the clock to it."""

    @abstractmethod
    def move_to(self, at_ms: float) -> None:
        """Move the clock to this time."""

    @abstractmethod
    def close(self, *, crashed: bool = False) -> None:
        """Close the spaces, the last one first: in order, or as if the process had died."""

    @abstractmethod
    def end(self) -> None:
        """End: nothing is opened after this."""

    def sleep(self, seconds: float) -> None:
        """A sleep lets time pass."""
        self.move_to(self.now_ms() + seconds * 1000)

    @property
    def is_open(self) -> bool:
        """Whether a space is open."""
        return any(not space.closed for space in self.spaces)

    def opened(self) -> tuple[Space | AsyncSpace, ...]:
        """The open spaces. Raises UsageError if there is none."""
        if not self.is_open:
            raise UsageError("nothing is open here: a probe is used inside of its `with` block")
        return self.spaces

    def openings(self) -> list[OpenedApp]:
        """The openings behind the spaces that are open."""
        found: list[OpenedApp] = []
        for space in self.opened():
            opening = opening_of(space)
            assert isinstance(opening, OpenedApp)
            if not opening.closed:
                found.append(opening)
        return found


class PlainStage(Stage):
    """In plain code: the consequences of a write have run before the next statement.

    Requests run in a simulated loop. It is created for the first request, and runs when time passes and to settle.
    """

    def __init__(self, apps: Sequence[App]) -> None:
        super().__init__(apps)
        self._now_ms = 0.0
        self._closing = False
        self.loop: HandLoop | None = None
        self._runner = asyncio.Runner(loop_factory=self._made_loop)

    def _made_loop(self) -> HandLoop:
        self.loop = HandLoop()
        self.loop.turn(self._now_ms / 1000)
        return self.loop

    def _request_loop(self) -> asyncio.AbstractEventLoop:
        if self.loop is None:
            check_outside_of_loops(self.apps)
        return self._runner.get_loop()

    def _turn(self) -> None:
        if self.loop is not None and not self.loop.is_running():
            self.loop.turn(max(self._now_ms / 1000, self.loop.time()))

    def now_ms(self) -> float:
        # Outside of the loop, the time as given: rounding stays inside the loop.
        return self.loop.now_ms() if self.loop is not None and self.loop.is_running() else self._now_ms

    def open(self, options: Sequence[Options]) -> None:
        planned: list[AppOpening] = []
        for app, each in zip(self.apps, options, strict=True):
            each.request_loop = self._request_loop
            planned.append(AppOpening(app, None, each))
        openings = open_together(planned)
        self.spaces = tuple(map(Space, openings))
        for opening in openings:
            opening.enter()

    def calm(self) -> None:
        endless = 0
        for _ in range(ROUNDS_MAX):
            spaces = self._openings()
            for space in spaces:
                space.settle()
            # The limit was reached, and there is more of the same work.
            endless = endless + 1 if any(space.scheduler.outstanding().is_due for space in spaces) else 0
            if endless > ENDLESS_MAX:
                break
            for space in spaces:
                space.wait_for_disk()
            self._turn()
            if not endless and not any(space.inbox or space.has_come for space in spaces):
                return
        raise restless()

    def due_at(self) -> float | None:
        waits = [space.wake_in() for space in self._openings()]
        nodes = [None if wake_in is None else self._now_ms + wake_in * 1000 for wake_in in waits]
        timer = None if self.loop is None else self.loop.due_at_ms()
        return min((round(each, EXACT) for each in (*nodes, timer) if each is not None), default=None)

    def move_to(self, at_ms: float) -> None:
        self._now_ms = max(round(at_ms, EXACT), self._now_ms)
        self._turn()

    def close(self, *, crashed: bool = False) -> None:
        spaces = self._openings()
        if not crashed and len(spaces) > 1:
            # What is due runs while all are open, as `hw.together` has it.
            for space in spaces:
                space.settle()
        for space in reversed(spaces):
            space.leave()
        self._closing = True
        try:
            with ExitStack() as each_is_closed:
                for space in spaces:
                    each_is_closed.callback(space.abandon if crashed else space.close)
        finally:
            self._closing = False
            # Cancelled tasks clean up.
            self._turn()

    def sleep(self, seconds: float) -> None:
        super().sleep(max(seconds, CLOSING_S) if self._closing else seconds)

    def end(self) -> None:
        self._runner.close()

    def _openings(self) -> list[PlainOpening]:
        return [opening for opening in self.openings() if isinstance(opening, PlainOpening)]


class HandLoop(SimLoop):
    """A simulated event loop that stops when nothing is left to do before a time."""

    # The timers of asyncio, earliest first.
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self) -> None:
        super().__init__()
        self._until: float | None = None
        # Rounds since time has passed.
        self._turns = 0
        # Called when nothing is ready, before time passes: what it makes ready comes first.
        self.on_quiet: Callable[[], None] = lambda: None

    def turn(self, until_s: float) -> None:
        """Run what is ready and what becomes ready up to a time; then the clock is at that time."""
        self._until = until_s
        try:
            self.run_forever()
        finally:
            self._until = None

    def due_at_ms(self) -> float | None:
        """The time of the next timer, if one is set."""
        return self._scheduled[0].when() * 1000 if self._scheduled else None

    def select(self, timeout: float | None) -> list[object]:
        """As in `SimLoop`. While something is ready no time passes, so the number of rounds is bounded."""
        self._turns = self._turns + 1 if timeout == 0 else 0
        if self._turns > TURNS_MAX and self._until is not None:
            self._turns = 0
            raise restless()
        if timeout != 0 and not self._rung.is_set():
            self.on_quiet()
            is_late = self._until is not None and (timeout is None or self._now + timeout > self._until)
            if is_late and not self._rung.is_set():
                assert self._until is not None
                self._now = max(self._now, self._until)
                self.stop()
                return []
        return super().select(timeout)


class HandRuntime(AsyncRuntime):
    """A space in such a loop, used by plain code: the consequences of a write have run before the next statement."""

    def catch_up(self) -> None:
        """Run pending work: in the loop between two awaits, in a thread soon, in the code that owns the loop now."""
        super().catch_up()
        loop = self.loop
        if isinstance(loop, HandLoop) and not loop.is_running() and threading.get_ident() == self._thread:
            loop.turn(loop.time())

    def _woken(self) -> None:
        # During a decision, which may be in this thread.
        super().catch_up()

    def hold(self) -> None:
        """From now on this thread runs the loop."""
        self._thread = threading.get_ident()

    # None yet: during the opening, the loop runs by itself.
    _thread = 0

    async def calm(self) -> None:
        """An opening does not wait for work that takes time: time passes in the block, when the test says so."""
        if self._thread:
            await super().calm()
            return
        while self.is_busy():
            await self.pass_now()

    def _tick(self, due: bool) -> None:  # noqa: FBT001  # asked by the scheduler
        # Called in the middle of a commit, in which nothing may run: the committer catches up after it.
        super(AsyncRuntime, self)._tick(due)  # past the next above, which would catch up now
        if due and not self.is_passing:
            super().catch_up()

    def catch_up_soon(self) -> None:
        """As above."""
        self._tick(True)

    @property
    def is_held(self) -> bool:
        """Whether this code runs the loop."""
        return not self.loop.is_running() and threading.get_ident() == self._thread


class HandOpening(LoopOpening):
    """An app in such a runtime."""

    runtime: HandRuntime
    runtime_kind = HandRuntime

    def wait_for(self, event: EventRecord, timeout_ms: float | None) -> None:
        """Run the loop until an event has ended: as much time passes as that takes."""
        if not self.runtime.is_held:
            super().wait_for(event, timeout_ms)
            return
        self.events.check_waiting(event)
        waiting = asyncio.wait_for(self.until(event), None if timeout_ms is None else timeout_ms / 1000)
        try:
            self.loop.run_until_complete(waiting)
        except TimeoutError:
            raise self.events.timed_out(event, timeout_ms) from None


class LoopStage(Stage):
    """In an event loop, for apps with async functions. The code of the test is outside of the loop, and runs it."""

    def __init__(self, apps: Sequence[App]) -> None:
        super().__init__(apps)
        check_outside_of_loops(apps)
        self.loop = HandLoop()
        self._runner = asyncio.Runner(loop_factory=lambda: self.loop)
        self._planned: list[AsyncOpening] = []

    def now_ms(self) -> float:
        return self.loop.now_ms()

    def open(self, options: Sequence[Options]) -> None:
        each_with_options = zip(self.apps, options, strict=True)
        self._planned = [app.aopen_with(None, each, HandOpening) for app, each in each_with_options]
        self.loop.on_quiet = lambda: None
        self.spaces = self._runner.run(open_all(self._planned))
        self.loop.on_quiet = self._decide
        for space in map(opening_of, self.spaces):
            assert isinstance(space, HandOpening)
            space.runtime.hold()
            # Once more: what is around the loop's code is not around this.
            space.enter()
        self.calm()

    def _decide(self) -> None:
        """Decide the commits that wait for the disk before time passes: a thread would do it at an uncertain time."""
        for space in self.spaces:
            if not space.closed:
                opening_of(space).wait_for_disk()

    def calm(self) -> None:
        self.loop.turn(self.loop.time())

    def due_at(self) -> float | None:
        return None

    def move_to(self, at_ms: float) -> None:
        self.loop.turn(max(round(at_ms, EXACT) / 1000, self.loop.time()))

    def close(self, *, crashed: bool = False) -> None:
        spaces = self.openings()[::-1]
        for space in spaces:
            space.leave()
        if crashed:
            for space in spaces:
                space.abandon()
            self.loop.turn(self.loop.time())
        else:
            self._runner.run(self._close_in_loop())

    async def _close_in_loop(self) -> None:
        async with AsyncExitStack() as each_is_closed:
            for opening in self._planned:
                each_is_closed.push_async_exit(opening.__aexit__)

    def end(self) -> None:
        self._runner.close()


def check_outside_of_loops(apps: Sequence[App]) -> None:
    """Raise UsageError in a running loop: one thread cannot have two."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    names = ", ".join(map(repr, apps))
    message = f"probe(...) has an event loop of its own for {names}, and cannot be used inside of another one"
    raise UsageError(f"{message}; make the test a plain function")


def restless() -> UsageError:
    """The error for an app that does not come to rest."""
    message = "the app does not come to rest: something is always to be done, without any time passing"
    return UsageError(f"{message}; events that are sent for each event? t.space.stats says what ran how often")
