"""One process with generated workflows: opened, executed, stopped, killed, and started again.

`Program` belongs to the world and survives the process. Each life compiles the program anew, with `Hands` of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from headwater.errors import HeadwaterError, InvariantError, StoreError, UserCodeError
from headwater.runtime.options import Options
from headwater.runtime.workflows.hub import Hub
from headwater.workflow.tables import WorkflowTables
from sim.faults import Clock, SlowDisk
from sim.flows.hands import Hands
from sim.flows.outside import Outside
from sim.flows.parts import CLOCK_BACK, FlowNode, Person
from sim.flows.people import note_pauses
from sim.flows.source import load, source_of
from sim.oracles.flow_watch import FlowObserver, History
from sim.world import Node, World

T = TypeVar("T")

URL: Final = "/flows.db"
OPEN_AGAIN_S: Final = 2.0
"""Between two attempts to open a file whose disk is full or fails."""


class Program:
    """A node that executes workflows."""

    def __init__(self, world: World, part: FlowNode, outside: Outside) -> None:
        self.world = world
        self.part = part
        self.outside = outside
        self.node: Node = world.node(part.name)
        self.revision = 1
        self.is_clock_moved = any(isinstance(fault, Clock) for fault in world.plan.faults) or any(
            isinstance(one, Person) and one.verb == CLOCK_BACK for one in world.plan.operations
        )
        self.history = History(world, outside.app, is_watched=part.watched, is_clock_moved=self.is_clock_moved)
        self.module: Any = None
        self.hub: Hub | None = None
        self.space: Any = None
        self.is_open = False
        # Set to stop the present life; the time at which the next one starts.
        self.is_asked_to_stop = False
        self.is_over = False
        self.is_broken = False
        self.down_s = 0.1
        self._started = 0
        self._ended_itself = False
        # While a sync takes time, something may become due behind the last look of `drain`.
        self._is_slow = any(isinstance(fault, SlowDisk) for fault in world.plan.faults)
        self.opened = 0
        self._rng = world.rng(f"program-{part.name}")
        self._bell: list[str] = []
        # What others do to the workflows: how much was begun or ended, and how much is under way.
        self.meddled = self.meddling = 0

    # -- lives ---------------------------------------------------------------------------------------------

    def supervise(self) -> None:
        """Start the first life, and another whenever a process has ended. Runs in an actor of the world."""
        node, conductor = self.node, self.world.conductor
        self._begin()
        while not self.is_over:
            conductor.wait(self._is_to_be_started, "the end of a life")
            if self._ended_itself:
                self._ended_itself = False
                conductor.sleep(self.down_s)
                self.down_s = self._rng.choice((0.05, 0.5, 3.0))
                node.restart()
                self._begin()

    def _is_to_be_started(self) -> bool:
        return self.is_over or self._ended_itself

    def restarted(self) -> None:
        """A fault has killed the process, and started a new one."""
        self._begin()

    def changed(self, edit: int) -> None:
        """The next life is of another revision."""
        self.revision = 1 + edit % 3

    def _begin(self) -> None:
        if self._started == self.node.life:
            return
        self._started = self.node.life
        self.is_open = self.is_asked_to_stop = self.is_broken = False
        self.meddling = 0
        self.world.say(self.part.name, f"starts (life {self.node.life}, revision {self.revision})")
        self.node.start("program", self._live)

    def _live(self) -> None:
        """The main thread of a process."""
        life = self.node.life
        keep = self._rng.choice((1.0, 1.0, 0.5, 0.0))
        gives_up = not self._is_drained() and "faults" not in self.world.plan.features and not self.world.plan.faults
        hands = Hands(self.outside, self.part.name, life, lambda: self._end(keep), self.look, gives_up=gives_up)
        text = source_of(self.outside.app, self.revision)
        self.module = load(text, f"flows_{self.part.name}_{life}", hands)
        space = self._open()
        self.space, self.hub = space, space._opening.flows  # the tables of workflows
        assert self.hub is not None
        self.hub.wakers.append(FlowObserver(self, self.hub))
        if self.outside.app.flows:
            try:
                self.look(self._note)
            except StoreError as error:
                # The disk fails under the first look: this life is over.
                self.broke(error)
        with space:
            self.opened += 1
            self.is_open = True
            if self.part.drains:
                self._drain_on()
            else:
                space.workflows.start(self.part.concurrency)
                self.world.conductor.wait(lambda: self.is_asked_to_stop or self.is_broken, "a request to stop")
            self.is_open = False
            try:
                if not self.part.drains:
                    space.workflows.stop()
                space.close()
            except HeadwaterError as error:
                self.world.say(self.part.name, f"closing: {error.code}")
        self.world.say(self.part.name, "stopped")
        self._end(1.0)

    def _is_drained(self) -> bool:
        """Whether runs are executed by a thread that calls `drain`. No other thread keeps the time of their phases."""
        people = [one for one in self.world.plan.operations if isinstance(one, Person)]
        return self.part.drains or any(one.verb == "drain" for one in people)

    def _end(self, keep: float) -> None:
        """The process ends by itself: the supervisor starts another one."""
        self._ended_itself = True
        self.node.kill(keep)

    def _note(self, tables: WorkflowTables) -> None:
        self.history.opened(tables)
        # A person who was resuming may have been successful, or not.
        self.outside.resuming.clear()
        self.outside.paused.clear()
        note_pauses(tables, self.outside)

    def _open(self) -> Any:  # a Space
        options = Options(on_error=self._on_error)
        while True:
            try:
                return self.module.app.open_with(URL, options)
            except StoreError as error:
                self.world.say(self.part.name, f"cannot open: {error.code}")
                self.world.counts["openings refused"] += 1
                self.world.conductor.sleep(OPEN_AGAIN_S)

    def _drain_on(self) -> None:
        """Drain whenever something is due: what a program without a host does."""
        conductor, space = self.world.conductor, self.space
        while not (self.is_asked_to_stop or self.is_broken):
            self._bell.clear()
            before = self.meddled
            try:
                space.workflows.drain()
                at = space.workflows.wake_at
                # Only if nothing was done meanwhile by others: else something may be due again.
                is_alone = before == self.meddled and not self.meddling
                if is_alone:
                    self.history.rested(self, before)
            except StoreError as error:
                self.broke(error)
                conductor.sleep(1.0)
                continue
            now = self.node.machine.now_ms()
            if is_alone and at is not None and at <= now and not self._is_slow:
                self.world.violate("W10", f"drain has ended, and something has been due since {now - at} ms")
            wait = 60.0 if at is None else min(max((at - now) / 1000, 0.001), 60.0)
            conductor.wait(lambda: bool(self._bell) or self.is_asked_to_stop or self.is_broken, "work", wait)

    def ring(self, name: str) -> None:
        """Something has happened to a workflow."""
        self._bell.append(name)

    def broke(self, error: HeadwaterError) -> None:
        """The store is not usable any more, if the error says so: the process ends, and is started again."""
        self.world.say(self.part.name, f"store: {error.code}")
        self.world.counts[f"store errors {error.code}"] += 1
        if error.code in ("HW204", "HW201"):
            self.is_broken = True

    def refused(self, what: str, error: HeadwaterError) -> None:
        """An action was refused, which is an answer; unless it is a defect of the product."""
        self.world.say(self.part.name, f"{what}: {error.code} {error.message[:100]}")
        if isinstance(error, InvariantError):
            self.world.violate("T", f"{what}: {error.message[:400]}")

    def _on_error(self, error: Exception) -> None:
        if isinstance(error, UserCodeError):
            self.world.counts["failures reported"] += 1
        elif isinstance(error, StoreError):
            self.broke(error)
        else:
            self.world.violate("T", f"{self.part.name}: {error!r}")

    def stop(self, revision: int, down_s: float) -> None:
        """Stop the present life, and let the next one be of this revision."""
        self.revision, self.down_s = revision, down_s
        if self.is_open:
            self.is_asked_to_stop = True

    # -- for oracles and people ----------------------------------------------------------------------------

    def look(self, question: Callable[[WorkflowTables], T]) -> T:
        """Query the tables, in an actor of the node."""
        assert self.hub is not None
        return self.hub.look(question)

    @contextmanager
    def meddles(self) -> Iterator[None]:
        """Inside, something is done to the workflows from outside of their runs."""
        self.meddled += 1
        self.meddling += 1
        try:
            yield
        finally:
            self.meddling -= 1
            self.meddled += 1

    def ask(self, name: str, work: Callable[[], T]) -> list[T]:
        """Do something in a thread of the process, and wait for its end. Empty: the process has ended, or it failed."""
        found: list[T] = []
        ended: list[bool] = []

        def body() -> None:
            try:
                with self.meddles():
                    found.append(work())
            except StoreError as error:
                self.broke(error)
            except HeadwaterError as error:
                self.refused(name, error)
            ended.append(True)

        process = self.node.machine.sim_process
        self.node.start(name, body)
        self.world.conductor.wait(lambda: bool(ended) or process.is_dead, name)
        return found


logging.getLogger("headwater").setLevel(logging.CRITICAL)
