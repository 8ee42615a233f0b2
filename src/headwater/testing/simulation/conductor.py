"""Runs real threads one at a time, in an order drawn from a seed, on virtual time.

An *actor* is a thread of the system that runs only while it holds the baton. It passes the baton on when it waits: for
a lock, an event, a timer or the end of another actor; and, with a probability, at every release and set. The conductor
then draws the next actor among those that can run. If none can, virtual time jumps to the first timer. If there is no
timer either, the world is stuck: the main actor gets a `WorldStuckError` that names what each actor waits for.

Actors belong to *processes*. A process can be killed (its actors never run again, and nothing of theirs is cleaned up)
or paused (its actors are not chosen until a time).

Two strategies choose: `uniform` draws among all that can run; `PCT` gives each actor a random priority, runs the
highest one, and lowers the running actor at a few random points, which finds orders that a uniform draw hardly makes.

Length: one loop of choosing, whose parts share the state of all actors.
"""

from __future__ import annotations

import _thread
import hashlib
import random
import threading
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

# Bound before a world replaces names of these modules.
_new_baton = _thread.allocate_lock
_start_thread = _thread.start_new_thread

SPIN_MAX: Final = 200_000
"""Points at which an actor may pass the baton without once waiting. More is an endless loop."""

UNFAIR_MAX: Final = 300
"""Under PCT, an actor that passes so many points without waiting loses its priority: it may wait for a lower one."""

PCT_STEPS: Final = 4_000
"""Under PCT, priorities are lowered at points below this number: about as many as a usual world has."""


class WorldStuckError(RuntimeError):
    """No actor can run, and none waits for time; or one runs for ever."""


class LeakError(RuntimeError):
    """Code in a world used a real thread, clock or socket. It does not leave `testing`."""


class SimProcess:
    """One simulated process: the actors with this record live and die together.

    Args:
        name: The name of the node.
        rate: The speed of its clocks, in its seconds for each virtual second.
    """

    def __init__(self, name: str, rate: float = 1.0) -> None:
        """A process that runs."""
        self.name = name
        self.rate = rate
        self.is_dead = False
        self.paused_until = 0.0


class Actor:
    """One simulated thread."""

    def __init__(self, name: str, number: int, process: SimProcess) -> None:
        """An actor that has not started."""
        self.name = name
        self.number = number
        self.process = process
        self.baton = _new_baton()
        self.baton.acquire()
        self.is_waiting = False
        self.is_done = False
        # Written by the conductor: whether the last wait ended because its time was over.
        self.has_timed_out = False
        # Counts waits. A timer of an earlier wait has no effect.
        self.wait_number = 0
        self.waits_for = "its first turn"
        self.waits_since = 0.0
        self.ready: Callable[[], bool] | None = None
        self.priority = 0.0
        self.spins = 0
        self.error: BaseException | None = None
        self.joiners: list[Actor] = []
        # The thread object that `SimMachine.current_thread` returns.
        self.thread: object = None

    def __repr__(self) -> str:
        return f"{self.process.name}/{self.name}"


class Conductor:
    """The threads and the time of one world.

    Args:
        seed: The seed of the schedule.
        switch: The probability to pass the baton at a release or set.
        pct_depth: The number of points at which PCT lowers a priority. 0: uniform choice.
        pct_steps: The points are drawn among the first so many.
    """

    def __init__(self, seed: object, *, switch: float = 0.1, pct_depth: int = 0, pct_steps: int = PCT_STEPS) -> None:
        """The caller becomes the main actor, of the process "world"."""
        self._rng = random.Random(f"threads-{seed}")
        self.now = 0.0
        """Virtual seconds since the start of the world."""
        self.switch = switch
        self.switches = self.jumps = 0
        self._pct_points = frozenset(self._rng.randrange(pct_steps) for _ in range(pct_depth))
        self._is_pct = pct_depth > 0
        self._point = 0
        self._lowest = 0.0
        self._count = 0
        self._timer_count = 0
        self._digest = hashlib.sha256()
        self._runnable: list[Actor] = []
        self._polling: list[Actor] = []
        self._timers: list[tuple[float, int, Actor, int]] = []
        self._waiting: dict[int, Actor] = {}
        self._has_paused = False
        self._local = threading.local()
        self.on_error: Callable[[Actor, BaseException], None] = lambda _actor, _error: None
        self.on_note: Callable[[str], None] | None = None
        self.on_switch: Callable[[Actor, Actor], None] | None = None
        self.main = self._new("main", SimProcess("world"))
        self._local.actor = self.main
        self._runnable.append(self.main)

    # -- the digest ----------------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        """Add a fact to the digest. Two runs of one seed note the same facts at the same times.

        Args:
            text: The fact.
        """
        line = f"{self.now:.6f} {self.me!r} {text}"
        self._digest.update(line.encode(errors="surrogatepass"))
        if self.on_note is not None:
            self.on_note(line)

    @property
    def digest(self) -> str:
        """A digest of all notes and all choices so far."""
        return self._digest.hexdigest()[:16]

    # -- actors --------------------------------------------------------------------------------------------

    @property
    def me(self) -> Actor:
        """The actor that runs."""
        found: Actor = self._local.actor
        return found

    @property
    def is_inside(self) -> bool:
        """Whether the calling thread is an actor of this world."""
        return getattr(self._local, "actor", None) is not None

    def _new(self, name: str, process: SimProcess) -> Actor:
        self._count += 1
        actor = Actor(name, self._count, process)
        if self._is_pct:
            actor.priority = 1 + self._rng.random()
        return actor

    def begin(self, name: str, body: Callable[[], object], process: SimProcess | None = None) -> Actor:
        """Start an actor. It can run from now on.

        Args:
            name: Its name, for messages.
            body: What it does. An exception that escapes is passed to `on_error`.
            process: The process it belongs to; by default that of the caller.
        """
        actor = self._new(name, process or self.me.process)

        def run() -> None:
            self._local.actor = actor
            actor.baton.acquire()
            try:
                body()
            except BaseException as error:  # noqa: BLE001  # passed on; a thread has no caller
                if not actor.process.is_dead:
                    self.on_error(actor, error)
            actor.is_done = True
            for joiner in actor.joiners:
                self.wake(joiner)
            self._runnable.remove(actor)
            self._pass_baton(actor)

        if actor.process.is_dead:
            return actor
        self._runnable.append(actor)
        _start_thread(run, ())
        return actor

    def join(self, actor: Actor, timeout: float | None = None) -> bool:
        """Wait for the end of an actor.

        Args:
            actor: The actor.
            timeout: In seconds of the waiting process.

        Returns:
            Whether it has ended.
        """
        if not actor.is_done:
            actor.joiners.append(self.me)
            self.block(f"the end of {actor!r}", timeout)
        return actor.is_done

    def kill(self, process: SimProcess) -> None:
        """SIGKILL: no actor of the process runs again. An actor of the process itself does not return from this.

        Args:
            process: The process.
        """
        if process.is_dead:
            return
        process.is_dead = True
        self.note(f"kill {process.name}")
        self._runnable = [actor for actor in self._runnable if actor.process is not process]
        self._polling = [actor for actor in self._polling if actor.process is not process]
        self._waiting = {number: actor for number, actor in self._waiting.items() if actor.process is not process}
        if self.me.process is process:
            self._pass_baton(self.me)

    def pause(self, process: SimProcess, seconds: float) -> None:
        """SIGSTOP: no actor of the process runs for some time; its clocks go on.

        Args:
            process: The process.
            seconds: Virtual seconds.
        """
        process.paused_until = max(process.paused_until, self.now + seconds)
        self._has_paused = True
        # Time can jump to the end of the pause.
        self._set_timer(process.paused_until, self.main, -1)
        self.note(f"pause {process.name} {seconds:.3f}")
        if self.me.process is process:
            self._pass_baton(self.me)

    # -- waiting -------------------------------------------------------------------------------------------

    def block(self, what: str, timeout: float | None = None) -> bool:
        """Wait until another actor calls `wake` for this one.

        Args:
            what: What is waited for, for messages.
            timeout: In seconds of this process. None: for ever.

        Returns:
            Whether it was woken; False after the timeout.
        """
        me = self.me
        me.wait_number += 1
        me.is_waiting, me.has_timed_out, me.waits_for, me.waits_since = True, False, what, self.now
        me.spins = 0
        self._waiting[me.number] = me
        self._runnable.remove(me)
        if timeout is not None:
            self._set_timer(self.now + max(timeout, 0.0) / me.process.rate, me, me.wait_number)
        self._pass_baton(me)
        if me.error is not None:
            error, me.error = me.error, None
            raise error
        return not me.has_timed_out

    def wake(self, actor: Actor) -> None:
        """Let an actor that waits run again. No effect if it does not wait.

        Args:
            actor: The actor.
        """
        if actor.is_waiting and not actor.process.is_dead:
            actor.is_waiting, actor.ready = False, None
            self._waiting.pop(actor.number, None)
            self._runnable.append(actor)

    def wake_at(self, actor: Actor, when: float) -> None:
        """Let an actor that waits run again at a time, unless it is woken before.

        Args:
            actor: The actor.
            when: Virtual time.
        """
        if actor.is_waiting and not actor.process.is_dead:
            self._set_timer(max(when, self.now), actor, actor.wait_number)

    def wait(self, ready: Callable[[], bool], what: str, timeout: float | None = None) -> bool:
        """Wait for a condition, which is evaluated whenever the baton is passed.

        Args:
            ready: The condition.
            what: What is waited for, for messages.
            timeout: In seconds of this process. None: for ever.

        Returns:
            Whether the condition holds.
        """
        if ready():
            return True
        me = self.me
        me.ready = ready
        self._polling.append(me)
        try:
            self.block(what, timeout)
        finally:
            me.ready = None
            if me in self._polling:
                self._polling.remove(me)
        return ready()

    def sleep(self, seconds: float) -> None:
        """Wait for time to pass.

        Args:
            seconds: In seconds of this process.
        """
        self.block("time", max(seconds, 1e-6))

    def maybe(self) -> None:
        """A point at which another actor may run."""
        me = self.me
        me.spins += 1
        if me.spins > SPIN_MAX:
            me.spins = 0
            raise WorldStuckError(f"at {self.now:.3f} s {me!r} runs for ever: {SPIN_MAX} points without waiting")
        if len(self._runnable) < 2 and not self._polling:  # noqa: PLR2004  # itself and another one
            return
        if self._is_pct:
            self._point += 1
            if self._point in self._pct_points or me.spins % UNFAIR_MAX == 0:
                self._lowest -= 1
                me.priority = self._lowest
            self._pass_baton(me)
        elif self._rng.random() < self.switch:
            self._pass_baton(me)

    def _set_timer(self, at: float, actor: Actor, wait_number: int) -> None:
        self._timer_count += 1
        heappush(self._timers, (at, self._timer_count, actor, wait_number))

    # -- choosing ------------------------------------------------------------------------------------------

    def _pass_baton(self, me: Actor) -> None:
        following = self._next()
        if following is me:
            return
        self.switches += 1
        self._digest.update(b"%d>%d;" % (me.number, following.number))
        if self.on_switch is not None:
            self.on_switch(me, following)
        following.baton.release()
        if not me.is_done:
            # For ever, if the process is dead.
            me.baton.acquire()

    def _next(self) -> Actor:
        while True:
            for actor in tuple(self._polling):
                if actor.is_waiting and actor.ready is not None and actor.ready():
                    self.wake(actor)
            able = self._able()
            if len(able) == 1:
                return able[0]
            if able:
                if self._is_pct:
                    return max(able, key=_priority)
                return able[int(self._rng.random() * len(able))]
            if (woken := self._pass_time()) is not None:
                return woken

    def _able(self) -> list[Actor]:
        if not self._has_paused:
            return self._runnable
        return [actor for actor in self._runnable if actor.process.paused_until <= self.now]

    def _pass_time(self) -> Actor | None:
        """Jump to the next timer. Returns the actor that it wakes; equal timers go in the order of being set."""
        while self._timers:
            at, _, actor, wait_number = heappop(self._timers)
            if wait_number == -1:
                # The end of a pause.
                self.now = max(self.now, at)
                return None
            if not actor.is_waiting or actor.wait_number != wait_number or actor.process.is_dead:
                continue
            self.jumps += 1
            self.now = max(self.now, at)
            actor.has_timed_out = True
            self.wake(actor)
            return actor if actor.process.paused_until <= self.now else None
        self.main.error = self._stuck()
        if self.main not in self._runnable:
            self.wake(self.main)
        return self.main

    def _stuck(self) -> WorldStuckError:
        waits = "; ".join(
            f"{actor!r} waits for {actor.waits_for} since {actor.waits_since:.3f}" for actor in self._waiting.values()
        )
        return WorldStuckError(f"at {self.now:.3f} s no actor can run and none waits for time: {waits}")

    def waits(self) -> list[str]:
        """What each waiting actor waits for, in the order of their start."""
        return [
            f"{actor!r} waits for {actor.waits_for} since {actor.waits_since:.3f}"
            for _, actor in sorted(self._waiting.items())
        ]


def _priority(actor: Actor) -> float:
    return actor.priority
