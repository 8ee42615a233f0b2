"""The host: threads that execute runs of workflows in turn, and a thread that watches the time.

A thread watches the time; workers execute runs. After a run, its workflow goes to the end of the queue. Nothing
is polled: each commit wakes the host, and the next time something is due is known. A worker that does not return in
time is abandoned, and replaced.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from headwater.errors import HeadwaterError, UnavailableError
from headwater.machine import Thread, machine
from headwater.runtime.error_report import log
from headwater.runtime.workflows.timed_call import TimedCall
from headwater.values.author_text import describe
from headwater.workflow import transitions
from headwater.workflow.planner import IdleUntil
from headwater.workflow.transitions import Next, ReconcileCall
from headwater.workflow.workflow_limits import CLOCK_MS

if TYPE_CHECKING:
    from headwater.host.workflow_host import Workflows

_SOON_S: Final = 0.05
"""The pause before a late call that could not be abandoned is checked again."""

_ROOM_MS: Final = 2_000
"""The pause before a workflow whose write was refused is checked again: the disk may have room by then."""


class Host:
    """Threads that execute what is due."""

    def __init__(self, workflows: Workflows, concurrency: int) -> None:
        self._workflows = workflows
        self._hub = workflows.hub
        self._concurrency = max(1, concurrency)
        self._changed = machine().condition()
        # Workflows that may have something to do, in the order of their turns; and those with runs in progress, and how
        # many: more than one, if they have lanes.
        self._names = frozenset(workflows.names)
        # Those of which several threads may execute runs.
        self._laned = frozenset(name for name, hosted in workflows.hosted.items() if hosted.has_lanes)
        self._line: deque[str] = deque(workflows.names)
        self._busy: dict[str, int] = {}
        # Woken while a run was in progress.
        self._again: set[str] = set()
        self._times: dict[str, int] = {}
        # Calls in progress, by thread; and threads that did not return in time.
        self._watched: dict[int, TimedCall] = {}
        self._lost: set[int] = set()
        self._workers: list[Thread] = []
        self._waiting = 0
        self._planned: float | None = None
        # The time of the last check.
        self._seen = 0
        self.is_stopping = False
        self.wakeups = 0
        self._timer = machine().thread(self._keep_time, name="headwater-workflows")

    def start(self) -> None:
        self._hub.wakers.append(self)
        self._timer.start()
        with self._changed:
            self._hire()

    # -- wake-ups ------------------------------------------------------------------------------------------

    def wake(self, name: str) -> None:
        """A workflow may have something to do. Called at each commit; does not block."""
        with self._changed:
            if name in self._busy and name not in self._laned:
                self._again.add(name)
            elif name not in self._line and name in self._names:
                self._line.append(name)
                self._hire()

    def watch(self, watched: TimedCall) -> None:
        """Watch that a call keeps its time limit. Called by the thread that makes the call."""
        watched.on_deadline = self._deadline
        with self._changed:
            self._watched[machine().thread_id()] = watched
            watched.is_stopping = self.is_stopping

    def _deadline(self, at: float) -> None:
        with self._changed:
            if self._planned is None or at < self._planned:
                self._changed.notify_all()

    def _hire(self) -> None:
        """A worker for the queue. The condition is held."""
        if self._waiting:
            self._changed.notify_all()
        elif len(self._workers) - len(self._lost) < self._concurrency and not self.is_stopping:
            worker = machine().thread(self._work, name=f"headwater-run-{len(self._workers)}")
            self._workers.append(worker)
            worker.start()

    # -- working -------------------------------------------------------------------------------------------

    def _work(self) -> None:
        me = machine().thread_id()
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
                self._busy[name] = self._busy.get(name, 0) + 1
                self._times.pop(name, None)
                if self._line:
                    self._hire()
            try:
                self._turn(name)
            except BaseException as error:  # noqa: BLE001  # whatever an author raises, this thread has others to serve
                log.error("workflow %s stops here: %s", name, describe(error))
                if not self._is_lost():
                    # Without room on the disk, the workflow has another turn a moment later.
                    has_no_room = isinstance(error, UnavailableError)
                    self._leave(name, self._hub.now() + _ROOM_MS if has_no_room else None, more=False)
            if me in self._lost:
                # Another thread has replaced it.
                with self._changed:
                    self._lost.discard(me)
                    late = self._watched.pop(me)
                    self._workers.remove(machine().current_thread())
                    self._changed.notify_all()
                self._came_back(late)
                return

    def _turn(self, name: str) -> None:
        """Execute one run of one workflow; then other workflows have their turn."""
        self.wakeups += 1
        hosted = self._workflows.deployed(name)
        if hosted is None:
            self._leave(name, None, more=False)
            return
        found: Next | None = self._workflows._next(hosted)  # noqa: SLF001  # two halves of one thing
        while found is not None and not isinstance(found, IdleUntil):
            if isinstance(found, ReconcileCall) and self._is_acting(found.run.id):
                # Its call has not returned, and may still have its effect. Its return wakes the workflow.
                if name in self._laned:
                    found = self._workflows._next(hosted)  # noqa: SLF001  # other lanes go on
                    continue
                found = IdleUntil()
                break
            # If another workflow waits, it has its turn; else the end of this run also begins the next one.
            goes_on = not self._line and not self.is_stopping
            if name in self._laned:
                # Another thread looks for work in other lanes.
                self.wake(name)
            found = self._workflows.perform(hosted, found, self, goes_on=goes_on)
            if self._is_lost():
                # The workflow has continued without this thread.
                self._workflows.after_run()
                return
            self._workflows.after_run()
        self._leave(name, found.until if isinstance(found, IdleUntil) else None, more=found is None)

    def _is_lost(self) -> bool:
        """Whether this thread was replaced because it was late. If not, its call is no longer watched."""
        me = machine().thread_id()
        with self._changed:
            if me not in self._lost:
                self._watched.pop(me, None)
            return me in self._lost

    def _is_acting(self, run_id: int) -> bool:
        with self._changed:
            return any(watched.run_id == run_id and watched.acts for watched in self._watched.values())

    def _leave(self, name: str, until: int | None, *, more: bool) -> None:
        with self._changed:
            self._leaves(name)
            if until is not None:
                self._times[name] = min(until, self._times.get(name, until))
            if more or name in self._again:
                self._again.discard(name)
                if name not in self._line:
                    self._line.append(name)
                self._hire()
            # For the thread that watches the time, or for a caller that waits for the end.
            self._changed.notify_all()

    def _leaves(self, name: str) -> None:
        """A thread executes no run of a workflow any more. The condition is held."""
        left = self._busy.get(name, 0) - 1
        if left > 0:
            self._busy[name] = left
        else:
            self._busy.pop(name, None)

    # -- time ----------------------------------------------------------------------------------------------

    def _keep_time(self) -> None:
        while True:
            with self._changed:
                if self.is_stopping and not self._watched:
                    return
                late = [(thread, each) for thread, each in self._watched.items() if each.is_late(machine().monotonic())]
                now = self._hub.now()
                # W11: the clock was set back: all workflows are checked again.
                is_back, self._seen = now < self._seen, now
                for name, at in list(self._times.items()):
                    is_free = name not in self._busy or name in self._laned
                    if (at <= now or is_back) and name not in self._line and is_free:
                        del self._times[name]
                        self._line.append(name)
                        self._hire()
                if not late:
                    self._planned = self._next_time(now)
                    wait = None if self._planned is None else max(self._planned - machine().monotonic(), 0.001)
                    self._changed.wait(wait)
                    continue
            for thread, watched in late:
                self._give_up(thread, watched)

    def _next_time(self, now: int) -> float | None:
        waits = [at - now for name, at in self._times.items() if name not in self._busy or name in self._laned]
        # W11: by the wall clock, which may be set ahead at any time.
        times = [machine().monotonic() + min(*waits, CLOCK_MS) / 1000] if waits else []
        times += [p.deadline for p in self._watched.values() if p.deadline is not None and not p.is_given_up]
        return min(times, default=None)

    def _give_up(self, thread: int, watched: TimedCall) -> None:
        """A call is late: its thread is abandoned, and the workflow continues without it."""
        try:
            watched.give_up()
        except HeadwaterError as error:
            # The call has just returned, and continues; or the change cannot be written now, and is tried again.
            log.info("run %s: %s", watched.run_id, error.message)
            with self._changed:
                self._changed.wait(_SOON_S)
            return
        hosted = self._workflows.deployed(watched.workflow)
        if hosted is not None and not watched.acts:
            # A question that got no answer is asked again.
            hosted.flags.pursued.discard(watched.run_id)
        with self._changed:
            is_lost = self._watched.get(thread) is watched
            if is_lost:
                self._lost.add(thread)
                self._leave(watched.workflow, None, more=True)
        if not is_lost:
            # The call has returned meanwhile, and its thread continues.
            machine().thread(lambda: self._came_back(watched), name="headwater-run-returned").start()

    def _came_back(self, late: TimedCall) -> None:
        """A late call has returned: its outcome can be reconciled now.

        Without room on the disk, this is stored later. Nothing else would end the wait for the call.
        """
        while True:
            try:
                self._hub.do(partial(transitions.came_back, run_id=late.run_id))
            except UnavailableError:
                machine().sleep(_ROOM_MS / 1000)
                continue
            except HeadwaterError:
                # The space was closed meanwhile, or its disk failed: the next opening knows that no call is left.
                pass
            hosted = self._workflows.deployed(late.workflow)
            if hosted is not None:
                hosted.flags.pursued.discard(late.run_id)
            self._hub.ring(late.workflow)
            return

    # -- the end -------------------------------------------------------------------------------------------

    def stop(self, timeout: float) -> bool:
        """Start nothing more; wait for runs to end or to stop before they act."""
        end = machine().monotonic() + timeout
        with self._changed:
            self.is_stopping = True
            for watched in self._watched.values():
                watched.is_stopping = True
            self._changed.notify_all()
            # Also a thread that is about to begin a call, which is not watched yet.
            while (self._busy and machine().monotonic() < end) or any(map(_is_waited_for, self._watched.values())):
                self._changed.wait(0.1 if machine().monotonic() > end else max(end - machine().monotonic(), 0.01))
            ended = not self._busy
        if self in self._hub.wakers:
            self._hub.wakers.remove(self)
        return ended


def _is_waited_for(watched: TimedCall) -> bool:
    """Whether stopping waits for a call: it does for a mutation, within its time limit."""
    return watched.acts and not watched.is_given_up
