"""The workflows of an open space: serial within a workflow, fair and concurrent across workflows, idle without work.

`drain` executes what is due in the calling thread; a host executes runs in the background, see `workflow_threads`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from headwater.cells.context import CONTEXT
from headwater.cells.context_frame import ContextFrame
from headwater.declare.workflows.workflow import Workflow
from headwater.errors import StoreError
from headwater.host.loop_thread import Loop
from headwater.host.workflow_threads import Host
from headwater.runtime.error_report import log
from headwater.runtime.host_parts import WorkflowParts
from headwater.runtime.workflows.deploying import deploy_flow
from headwater.runtime.workflows.hub import Hosted, Hub, hub_of
from headwater.runtime.workflows.publishing import publish_handler
from headwater.runtime.workflows.reconciliation import ask_again
from headwater.runtime.workflows.repair import repair
from headwater.runtime.workflows.run_executor import Performance
from headwater.runtime.workflows.run_host import RunHost
from headwater.runtime.workflows.timed_call import TimedCall
from headwater.values.author_text import describe
from headwater.values.duration import Duration, to_ms
from headwater.workflow import transitions
from headwater.workflow.planner import IdleUntil
from headwater.workflow.run_recovery import recover
from headwater.workflow.transitions import Begun, Next, ReconcileCall, Repair
from headwater.workflow.workflow_limits import CONCURRENCY, STOP_MS


class Workflows:
    """The workflows of an open space: run what is due now with `drain`, or `start` a host in the background."""

    def __init__(self, space: RunHost, hub: Hub) -> None:
        self._space = space
        self.hub = hub
        self._loop = Loop()
        self._host: Host | None = None

    @property
    def names(self) -> list[str]:
        """The names of the workflows that this opening has deployed."""
        return list(self.hosted)

    @property
    def hosted(self) -> dict[str, Hosted]:
        """The workflows that this opening has deployed, by name."""
        return self.hub.of(self._space)

    def deployed(self, name: str) -> Hosted | None:
        """A workflow that this opening has deployed."""
        return self.hub.deployed(self._space, name)

    def drain(self, limit: int | None = None) -> int:
        """Execute everything that is due in this thread, one run after the other. Returns the number of runs.

        Runs that are due later are not executed: `wake_at` says when they are due. Raises ClosedError if the space is
        closed, also if that happens meanwhile.
        """
        self._space.check_open()
        done = 0
        line = deque(self.names)
        while line and (limit is None or done < limit):
            name = line.popleft()
            hosted = self.deployed(name)
            if hosted is None:
                # Its workflows are removed when the space is closed.
                self._space.check_open()
                continue
            has_run = False
            found: Next | None = self._next(hosted)
            while found is not None and not isinstance(found, IdleUntil):
                has_run = True
                done += isinstance(found, Begun)
                goes_on = not line and (limit is None or done < limit)
                found = self.perform(hosted, found, goes_on=goes_on)
                self._space.catch_up()
            if found is None:
                line.append(name)
            if has_run:
                # A run of one workflow may publish events for another.
                names = self.names
                if len(names) > 1:
                    line.extend(other for other in names if other not in line and other != name)
        return done

    @property
    def wake_at(self) -> int | None:
        """When something is due, in milliseconds since 1970; None: only after an event or a command."""
        times = [self._until(hosted) for hosted in self.hosted.values()]
        return min((at for at in times if at is not None), default=None)

    def _until(self, hosted: Hosted) -> int | None:
        found = self.hub.look(lambda tables: transitions.peek(tables, hosted.spec.name, hosted.spec, hosted.flags))
        return found.until

    def start(self, concurrency: int = CONCURRENCY) -> None:
        """Execute runs in the background until the space is closed. Idempotent."""
        if self._host is None and self.names:
            self._host = Host(self, concurrency)
            self._host.start()

    @property
    def is_running(self) -> bool:
        """Whether a host runs in the background."""
        return self._host is not None

    @property
    def wakeups(self) -> int:
        """How often the host has looked for due work."""
        return 0 if self._host is None else self._host.wakeups

    def stop(self, timeout: Duration = f"{STOP_MS}ms") -> bool:
        """Stop the host. Runs end, or stop between two phases, never during a call. Returns whether all did."""
        host, self._host = self._host, None
        ended = host is None or host.stop(to_ms(timeout, "workflows.stop(...)") / 1000)
        self._loop.close()
        return ended

    def after_run(self) -> None:
        """Settle after a run in a space without a wake-up: nothing else would."""
        if not self._space.is_woken:
            self._space.nudge()

    # -- one thing at a time -------------------------------------------------------------------------------

    def _next(self, hosted: Hosted) -> Next:
        spec, flags = hosted.spec, hosted.flags
        for run_id, name in list(self.hub.left.items()):
            if name == spec.name:
                # W8: the disk has refused the end of this run.
                self.hub.do(lambda tables, run_id=run_id: recover(tables, run_id))  # type: ignore[misc]  # bound at once
                self.hub.left.pop(run_id, None)
        return self.hub.do(lambda tables: transitions.begin(tables, spec.name, spec, flags))

    def perform(
        self, hosted: Hosted, found: Begun | ReconcileCall | Repair, host: Host | None = None, *, goes_on: bool = False
    ) -> Next | None:
        """Execute a run. After any error, the run is not left marked as running.

        With `goes_on`, the transaction that ends this run also begins the next one, which is returned.
        """
        # The app may be open more than once: code outside of any phase means this space, too.
        token = CONTEXT.set(ContextFrame(hosted.space, None, None))
        try:
            return self._perform(hosted, found, host, goes_on=goes_on)
        finally:
            CONTEXT.reset(token)

    def _perform(
        self, hosted: Hosted, found: Begun | ReconcileCall | Repair, host: Host | None, *, goes_on: bool
    ) -> Next | None:
        watch: Callable[[TimedCall], None] = _unwatched if host is None else host.watch
        if not isinstance(found, Begun):
            try:
                if isinstance(found, ReconcileCall):
                    ask_again(self.hub, hosted, found, self._loop.run, watch)
                else:
                    repair(self.hub, hosted, found, self._loop.run, watch)
            finally:
                hosted.flags.pursued.discard(found.run.id)
            return None
        hub, run_id = self.hub, found.run.id
        hub.alive.add(run_id)
        try:
            performance = Performance(hub, hosted, found, self._loop.run)
            if goes_on:
                spec, flags = hosted.spec, hosted.flags
                performance.then = lambda handler, lane, tables: transitions.begin_after(
                    tables, handler, spec.name, spec, flags, lane=lane
                )
            watch(performance)
            performance.execute()
            return performance.followed_by
        except StoreError:
            # Nothing can be written now. The run is recovered before the next one of its workflow.
            hub.left[run_id] = hosted.spec.name
            raise
        except BaseException as error:
            log.error("run %s of %s was left in the middle: %s", run_id, hosted.spec.name, describe(error))
            hub.do(lambda tables: recover(tables, run_id))
            if host is None:
                raise
            return None
        finally:
            hub.alive.discard(run_id)


def _unwatched(_: TimedCall) -> None:
    """Nothing watches the time: in the thread that calls `drain`, a plain function cannot be interrupted."""


WORKFLOW_PARTS: Final = WorkflowParts(
    declare=Workflow, deploy=deploy_flow, hub_of=hub_of, host=Workflows, publisher=publish_handler
)

__all__ = ["WORKFLOW_PARTS", "Host", "Workflows"]
