"""The host of workflows: serial within one, fair and concurrent across them, and asleep when nothing is due.

A thread keeps the times; workers execute runs. A workflow that has had its turn goes to the end of the line. Nobody
polls: whoever commits something rings, and the next time something is due is known.

Must never know: phases.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final

from headwater.cells.here import HERE, Frame
from headwater.errors import HeadwaterError, StoreError
from headwater.host.flows.fixing import repair
from headwater.host.flows.hub import Hosted, Hub
from headwater.host.flows.loop import Loop
from headwater.host.flows.performing import Performance
from headwater.host.flows.reconciling import ask_again
from headwater.host.flows.run import Doing
from headwater.host.report import log
from headwater.values.describe import describe
from headwater.workflow import transitions
from headwater.workflow.limits import CLOCK_MS, CONCURRENCY, STOP_MS
from headwater.workflow.planner import Rest
from headwater.workflow.recovery import recover
from headwater.workflow.transitions import Ask, Begun, Next, Repair

if TYPE_CHECKING:
    from headwater.host.base_space import BaseSpace

EARLY_MS: Final = 1
"""A time that is so near has come: clocks and waits do not agree to the microsecond."""


class Workflows:
    """The workflows of an open space: run what is due now with `drain`, or `start` a host that stays."""

    def __init__(self, space: BaseSpace, hub: Hub) -> None:
        self._space = space
        self.hub = hub
        self._loop = Loop()
        self._host: Host | None = None

    @property
    def names(self) -> list[str]:
        """Those that are deployed by this opening."""
        return list(self.hosted)

    @property
    def hosted(self) -> dict[str, Hosted]:
        """The same, by name."""
        return self.hub.of(self._space)

    def drain(self, limit: int | None = None) -> int:
        """Execute everything that is due, here and now, one run after the other; how many there were.

        What is due later stays: `wake_at` says when that is.
        """
        done = 0
        line = deque(self.names)
        while line and (limit is None or done < limit):
            name = line.popleft()
            hosted = self.hosted[name]
            found: Next | None = self._next(hosted)
            while found is not None and not isinstance(found, Rest):
                done += isinstance(found, Begun)
                goes_on = not line and (limit is None or done < limit)
                found = self.perform(hosted, found, goes_on=goes_on)
                self._space.catch_up()
            if isinstance(found, Rest):
                continue
            line.append(name)
            # What one publishes may be for another.
            line.extend(other for other in self.names if other not in line)
        return done

    @property
    def wake_at(self) -> int | None:
        """When something is due, in milliseconds since 1970; None: not before something happens."""
        times = [self._until(hosted) for hosted in self.hosted.values()]
        return min((at for at in times if at is not None), default=None)

    def _until(self, hosted: Hosted) -> int | None:
        found = self.hub.look(lambda book: transitions.peek(book, hosted.spec.name, hosted.spec, hosted.flags))
        return found.until

    def start(self, concurrency: int = CONCURRENCY) -> None:
        """Have a host execute runs in the background, until the space is closed. Once more is no harm."""
        if self._host is None and self.names:
            self._host = Host(self, concurrency)
            self._host.start()

    @property
    def is_running(self) -> bool:
        """A host is at work."""
        return self._host is not None

    @property
    def wakeups(self) -> int:
        """Times that the host looked whether something is due."""
        return 0 if self._host is None else self._host.wakeups

    def stop(self, timeout: float = STOP_MS / 1000) -> bool:
        """Let runs come to an end, or to where they can stop; whether all did. Never in the middle of a call."""
        host, self._host = self._host, None
        ended = host is None or host.stop(timeout)
        self._loop.close()
        return ended

    def after_run(self) -> None:
        """What follows from a run in a space that nobody wakes: nobody else might come for it."""
        if not self._space.is_woken:
            self._space.nudge()

    # -- one thing at a time -------------------------------------------------------------------------------

    def _next(self, hosted: Hosted) -> Next:
        spec, flags = hosted.spec, hosted.flags
        return self.hub.do(lambda book: transitions.begin(book, spec.name, spec, flags))

    def perform(
        self, hosted: Hosted, found: Begun | Ask | Repair, host: Host | None = None, *, goes_on: bool = False
    ) -> Next | None:
        """Execute what was begun. Whatever happens in it, the run is not left as if somebody were at it.

        If it `goes_on`, the next run is begun in the transaction that ends this one: that is returned.
        """
        # The app may be open more than once: what is kept and opened outside of any phase means this space, too.
        token = HERE.set(Frame(hosted.space, None, None))
        try:
            return self._perform(hosted, found, host, goes_on=goes_on)
        finally:
            HERE.reset(token)

    def _perform(self, hosted: Hosted, found: Begun | Ask | Repair, host: Host | None, *, goes_on: bool) -> Next | None:
        if isinstance(found, Ask):
            ask_again(self.hub, hosted, found, self._loop.run)
            return None
        if isinstance(found, Repair):
            repair(self.hub, hosted, found, self._loop.run)
            return None
        hub, run_id = self.hub, found.run.id
        hub.alive.add(run_id)
        try:
            performance = Performance(hub, hosted, found, self._loop.run)
            if goes_on:
                spec, flags = hosted.spec, hosted.flags
                performance.then = lambda handler, book: transitions.begin_after(book, handler, spec.name, spec, flags)
            if host is not None:
                host.watch(performance)
            performance.execute()
            return performance.followed_by
        except StoreError:
            raise
        except BaseException as error:
            log.error("run %s of %s was left in the middle: %s", run_id, hosted.spec.name, describe(error))
            hub.do(lambda book: recover(book, run_id))
            if host is None:
                raise
            return None
        finally:
            hub.alive.discard(run_id)


class Host:
    """Threads that execute what is due."""

    def __init__(self, workflows: Workflows, concurrency: int) -> None:
        self._workflows = workflows
        self._hub = workflows.hub
        self._concurrency = max(1, concurrency)
        self._changed = threading.Condition()
        # Workflows that may have something to do, in the order of their turns; and those at work.
        self._names = frozenset(workflows.names)
        self._line: deque[str] = deque(workflows.names)
        self._busy: set[str] = set()
        # Rung while they were at work.
        self._again: set[str] = set()
        self._times: dict[str, int] = {}
        self._watched: dict[int, Performance] = {}
        # Threads that a run did not come back from in time.
        self._lost: set[int] = set()
        self._workers: list[threading.Thread] = []
        self._waiting = 0
        self._planned: float | None = None
        # What time it was at the last look.
        self._seen = 0
        self.is_stopping = False
        self.wakeups = 0
        self._timer = threading.Thread(target=self._keep_time, name="headwater-workflows", daemon=True)

    def start(self) -> None:
        self._hub.wakers.append(self)
        self._timer.start()
        with self._changed:
            self._hire()

    # -- being told ----------------------------------------------------------------------------------------

    def wake(self, name: str) -> None:
        """A workflow may have something to do. Called by whoever commits: waits for nobody."""
        with self._changed:
            if name in self._busy:
                self._again.add(name)
            elif name not in self._line and name in self._names:
                self._line.append(name)
                self._hire()

    def watch(self, performance: Performance) -> None:
        """See that it does not take longer than it may."""
        run_id = performance.row.id
        performance.on_deadline = self._deadline
        with self._changed:
            self._watched[run_id] = performance
            performance.is_stopping = self.is_stopping

    def _deadline(self, at: float) -> None:
        with self._changed:
            if self._planned is None or at < self._planned:
                self._changed.notify_all()

    def _hire(self) -> None:
        """Somebody for the line. The condition is held."""
        if self._waiting:
            self._changed.notify_all()
        elif len(self._workers) - len(self._lost) < self._concurrency and not self.is_stopping:
            worker = threading.Thread(target=self._work, name=f"headwater-run-{len(self._workers)}", daemon=True)
            self._workers.append(worker)
            worker.start()

    # -- working -------------------------------------------------------------------------------------------

    def _work(self) -> None:
        me = threading.get_ident()
        while True:
            with self._changed:
                self._waiting += 1
                while not self._line and not self.is_stopping:
                    self._changed.wait()
                self._waiting -= 1
                if self.is_stopping:
                    self._changed.notify_all()
                    return
                name = self._line.popleft()
                self._busy.add(name)
                self._times.pop(name, None)
                if self._line:
                    self._hire()
            try:
                self._turn(name)
            except BaseException as error:  # noqa: BLE001  # whatever an author raises, this thread has others to serve
                log.error("workflow %s stops here: %s", name, describe(error))
                with self._changed:
                    self._busy.discard(name)
            if me in self._lost:
                # Another took its place long ago.
                with self._changed:
                    self._lost.discard(me)
                    self._workers.remove(threading.current_thread())
                with suppress(HeadwaterError):
                    # What became of its call can be asked now; not if the space was closed meanwhile.
                    self._hub.do(partial(transitions.came_back, name=name))
                self._hub.ring(name)
                return

    def _turn(self, name: str) -> None:
        """One run of one workflow; then it is the others' turn."""
        self.wakeups += 1
        hosted = self._workflows.hosted.get(name)
        if hosted is None:
            self._leave(name, None, more=False)
            return
        found: Next | None = self._workflows._next(hosted)  # noqa: SLF001  # two halves of one thing
        while found is not None and not isinstance(found, Rest):
            if isinstance(found, Ask) and found.run.id in self._watched:
                # Its call has not come back: it may still have its effect. When it has, it rings.
                found = Rest()
                break
            run_id = found.run.id
            performance: Performance | None = None
            try:
                # Whoever waits for a turn gets one; else the next run is begun with the end of this one.
                found = self._workflows.perform(hosted, found, self, goes_on=not self._line and not self.is_stopping)
            except BaseException:
                self._leave(name, None, more=False)
                raise
            finally:
                with self._changed:
                    performance = self._watched.pop(run_id, None)
            self._workflows.after_run()
            if performance is not None and performance.is_given_up:
                # The workflow has gone on without it.
                return
        self._leave(name, found.until if isinstance(found, Rest) else None, more=found is None)

    def _leave(self, name: str, until: int | None, *, more: bool) -> None:
        with self._changed:
            self._busy.discard(name)
            if until is not None:
                self._times[name] = until
            if more or name in self._again:
                self._again.discard(name)
                if name not in self._line:
                    self._line.append(name)
                self._hire()
            # For the time, or for whoever waits for the end.
            self._changed.notify_all()

    # -- time ----------------------------------------------------------------------------------------------

    def _keep_time(self) -> None:
        while True:
            with self._changed:
                if self.is_stopping and not self._watched:
                    return
                late = [p for p in self._watched.values() if p.is_late(monotonic())]
                now = self._hub.now()
                # W11: the clock was set back: all of them are looked at anew.
                is_back, self._seen = now < self._seen, now
                for name, at in list(self._times.items()):
                    if (at <= now + EARLY_MS or is_back) and name not in self._line and name not in self._busy:
                        del self._times[name]
                        self._line.append(name)
                        self._hire()
                if not late:
                    self._planned = self._next_time(now)
                    wait = None if self._planned is None else max(self._planned - monotonic(), 0.001)
                    self._changed.wait(wait)
                    continue
            for performance in late:
                self._give_up(performance)

    def _next_time(self, now: int) -> float | None:
        waits = [at - now for name, at in self._times.items() if name not in self._busy]
        # W11: by the clock on the wall, which may be put ahead while nobody looks.
        times = [monotonic() + min(*waits, CLOCK_MS) / 1000] if waits else []
        times += [p.deadline for p in self._watched.values() if p.deadline is not None and not p.is_given_up]
        return min(times, default=None)

    def _give_up(self, performance: Performance) -> None:
        """It is late. Its thread is left to itself, and the workflow goes on without it."""
        name = performance.hosted.spec.name
        try:
            performance.give_up()
        except HeadwaterError as error:
            log.info("run %s: %s", performance.row.id, error.message)
        with self._changed:
            if performance.thread is not None:
                self._lost.add(performance.thread)
        self._leave(name, None, more=True)

    # -- the end -------------------------------------------------------------------------------------------

    def stop(self, timeout: float) -> bool:
        """Start nothing more; wait for runs to end or to stop before they act."""
        end = monotonic() + timeout
        with self._changed:
            self.is_stopping = True
            for performance in self._watched.values():
                performance.is_stopping = True
            self._changed.notify_all()
            # Also one that is about to begin something, which nobody watches yet.
            while (self._busy and monotonic() < end) or any(self._acts(p) for p in self._watched.values()):
                self._changed.wait(0.1 if monotonic() > end else max(end - monotonic(), 0.01))
            ended = not self._busy
        if self in self._hub.wakers:
            self._hub.wakers.remove(self)
        return ended

    @staticmethod
    def _acts(performance: Performance) -> bool:
        """One that acts is waited for as long as it may take."""
        return performance.doing is Doing.MUTATE and not performance.is_given_up


__all__ = ["Host", "Workflows"]
