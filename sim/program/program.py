"""A program over its lives: it opens its sessions, its threads do what the plan says, and it is opened again."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from types import ModuleType
from typing import Any, Final

from headwater.app import App
from headwater.cells.context import CONTEXT
from headwater.cells.context_frame import ContextFrame
from headwater.declare.functions.computed import Computed
from headwater.declare.functions.function_port import FunctionPort
from headwater.errors import HeadwaterError, UnavailableError
from headwater.host.plain_space import Space
from headwater.host.space_facade import opening_of
from headwater.host.storage import Storage, storage_of
from headwater.machine import machine
from headwater.runtime.opening import Opening
from headwater.runtime.options import Options
from headwater.testing.invariants.scheduler_invariants import SchedulerWatch
from sim.apps import parts as p
from sim.apps.edits import version
from sim.apps.module import SCREENS, load
from sim.apps.source import APP, source
from sim.program import operations as o
from sim.program.loop import LoopSpace
from sim.program.quiet import check_quiet
from sim.program.shown import shown
from sim.program.spy import Spy
from sim.program.told import Told
from sim.program.trouble import is_over, is_told
from sim.world import World

URL: Final = "/app.db"
REST_S: Final = 600.0
"""Virtual seconds in which everything comes to rest after the last fault."""

PATIENCE_S: Final = 0.5
"""Before another try to open a space on a failing disk."""

DELAYED: Final = 3
"""Delayed functions, one below the other, at most."""

BESIDE: Final = -1
"""The number of a thread that is one of several at the same time."""

DELAY_S: Final = 0.3
"""Longer than functions of generated apps are delayed."""


class Session:
    """One opening of the app."""

    def __init__(self, space: Space | LoopSpace, watch: SchedulerWatch | None, spy: Spy) -> None:
        # A space in a loop is used like a plain one: see `LoopSpace`.
        self.space: Any = space
        self.spy = spy
        self.loop = space if isinstance(space, LoopSpace) else None
        self.runtime: Opening = space.runtime if isinstance(space, LoopSpace) else opening_of(space)
        self.stopped: set[str] = set()
        self.watch = watch
        self.delayed = 0
        """Delayed functions, one below the other."""
        self.under_way = 0
        """Operations that have begun and not ended."""

    @property
    def storage(self) -> Storage:
        return storage_of(self.runtime._lease)  # the oracles look at the log

    def ask(self, function: Callable[..., Any], *given: object) -> Any:  # its answer
        """Call a function of the app. Plain code does not wait for an async function; `fresh` does.

        A delayed function waits for its time after those above it have run, which this call may let happen.
        """
        for _ in range(self.delayed):
            with suppress(Exception):
                self._ask(function, *given)
            machine().sleep(DELAY_S)
        return self._ask(function, *given)

    def _ask(self, function: Callable[..., Any], *given: object) -> Any:  # its answer
        if self.loop is None or not isinstance(function, Computed):
            return function(*given)
        return self.loop.run(self.space.fresh(function, *given))

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Cells and functions of the app mean this session."""
        token = CONTEXT.set(ContextFrame(self.runtime, None, None))
        try:
            yield
        finally:
            CONTEXT.reset(token)


class ProgramWorld:
    """The node of a program."""

    def __init__(self, world: World) -> None:
        plan = world.plan
        node, app = plan.nodes[0], plan.app
        assert isinstance(node, o.Program)
        assert isinstance(app, p.App)
        self.world, self.spec, self.first_app = world, node, app
        self.version = 0
        self.app = app
        self.module = ModuleType("none")
        self.sessions: list[Session] = []
        self.told = Told()
        self.errors: list[HeadwaterError] = []
        self.queues: list[deque[o.Operation]] = [deque() for _ in node.threads]
        for operation in plan.operations:
            assert isinstance(operation, o.Operation)
            self.queues[operation.thread % len(self.queues)].append(operation)
        self._gated = sorted({each.fn for each in plan.operations if isinstance(each, o.Gate)})
        self.is_stopping = self.is_done = self.is_calm = self.is_finished = False
        self.reopening: o.Reopen | None = None
        self.documents: Mapping[str, Any] = {}
        """At the last rest."""
        self.is_clean = True
        """Whether the last life ended by closing, without faults."""
        self.perform: Callable[[ProgramWorld, o.Operation, Session, int], None]
        self.check: Callable[[ProgramWorld], None]
        self.order = self.opening = 0
        SCREENS.clear()
        logging.disable(logging.CRITICAL)

    # -- a life --------------------------------------------------------------------------------------------

    def main(self) -> None:
        """The main thread of a life."""
        self.told.forget()
        while True:
            self.open()
            self.is_stopping = False
            if any(self.queues):
                self._work()
            if not any(self.queues):
                break
            self._close_between()
        self.is_done = True
        self.world.conductor.wait(lambda: self.is_calm, "calm", None)
        if any(each.runtime.closed for each in self.sessions):
            self.open()
        self.check(self)
        self.is_finished = True

    def _work(self) -> None:
        node = self.world.node(self.spec.name)
        actors = [
            node.start(f"t{index}", partial(self._thread, index, session))
            for index, session in enumerate(self.spec.threads)
        ]
        for actor in actors:
            self.world.conductor.join(actor)

    def _thread(self, index: int, number: int) -> None:
        session, queue = self.sessions[number], self.queues[index]
        with session.entered():
            while queue and not self.is_stopping:
                self._step(queue.popleft(), session, index)

    def _step(self, operation: o.Operation, session: Session, thread: int) -> None:
        if operation.gap:
            machine().sleep(operation.gap)
            check_quiet(self, session)
        self.world.counts["operations"] += 1
        if isinstance(operation, o.Together):
            self._together(operation)
        else:
            session.under_way += 1
            self.do(operation, session, thread)
            session.under_way -= 1
        self.told.look()
        check_quiet(self, session)

    def _together(self, operation: o.Together) -> None:
        node = self.world.node(self.spec.name)
        actors = [node.start(f"u{index}", partial(self._beside, lane)) for index, lane in enumerate(operation.lanes)]
        for actor in actors:
            self.world.conductor.join(actor)

    def _beside(self, lane: o.Lane) -> None:
        session = self.sessions[lane.session % len(self.sessions)]
        with session.entered():
            for operation in lane.operations:
                if not self.is_stopping:
                    self._step(operation, session, BESIDE)

    def do(self, operation: o.Operation, session: Session, thread: int) -> None:
        """Perform an operation. An error has to be one that is documented for the faults of the plan."""
        name = self.spec.name
        if self.world.is_recording:
            self.world.say(name, f"t{thread} {shown(operation, self.app)}".replace("\n", "\n   "))
        try:
            self.perform(self, operation, session, thread)
        except Exception as error:  # noqa: BLE001  # sorted there
            self.met(error, f"t{thread} {type(operation).__name__}")

    def met(self, error: BaseException, where: str) -> None:
        """An error reached the workload."""
        told = is_told(self.world.plan, error, self.module)
        if self.world.is_recording:
            self.world.say(self.spec.name, f"{where}: {type(error).__name__}: {_text(error)}")
        if not told:
            self.world.violate("T", f"{where}: {type(error).__name__}: {_text(error)}", self.spec.name)
        if is_over(error):
            self.is_stopping = True

    # -- opening and closing -------------------------------------------------------------------------------

    def load(self) -> None:
        """The code of this version, as a new process imports it."""
        self.app = version(self.first_app, self.version)
        self.module = load(source(self.app))

    def open(self) -> None:
        """Open all sessions, trying again while the disk fails."""
        self.load()
        self.opening += 1
        self.sessions = []
        while True:
            try:
                for _ in range(self.spec.sessions):
                    self.sessions.append(self.session())
            except Exception as error:  # noqa: BLE001  # sorted there
                self.met(error, "open")
                self.leave()
                self.sessions = []
                machine().sleep(PATIENCE_S)
                continue
            return

    def session(self, **options: Any) -> Session:  # of app.open
        watches: list[SchedulerWatch] = []
        spies: list[Spy] = []

        def prepare(port: FunctionPort) -> None:
            # Before anything is restored or runs.
            spies.append(Spy(port.scheduler, self.app))
            for name in self._gated:
                # Set by hand: the setting outlives the opening.
                spies[0].loosened(name)
            if self.spec.watched:
                watches.append(SchedulerWatch(port.scheduler))

        given = Options(
            demand=self.spec.demand,
            durability=self.spec.durability,
            on_error=lambda error: self._heard(error, spies[0]),
            prepare=prepare,
            **options,
        )
        app: App = self.module.app
        if self.spec.loop:
            space: Space | LoopSpace = LoopSpace(app, URL, given, self.world.node(self.spec.name).start)
        else:
            space = app.open_with(URL, given)
        session = Session(space, watches[0] if watches else None, spies[0])
        session.delayed = DELAYED if "gates" in self.world.plan.features else 0
        return session

    def _heard(self, error: HeadwaterError, spy: Spy) -> None:
        self.errors.append(error)
        # Not the report of a function that has called one whose result could not be stored.
        is_own = error.message.startswith("the result of ") and "could not be stored" in error.message
        if is_own and isinstance(error.__cause__, UnavailableError):
            spy.unstored(str(error.facts["node"]), str(error))

    def leave(self) -> bool:
        """Close all sessions. Returns whether all were closed in order."""
        is_well = True
        for session in self.sessions:
            try:
                session.space.close()
            except Exception as error:  # noqa: BLE001  # sorted there
                self.met(error, "close")
                is_well = False
            if session.watch is not None:
                session.watch.end()
            self.world.counts["rejected runs"] += sum(session.spy.rejected.values())
            self.world.counts["rejected commits"] += session.space.stats.rejected
        self.told.look()
        return is_well

    def _close_between(self) -> None:
        reopening, self.reopening = self.reopening, None
        if reopening is not None and not self.world.plan.faults and not reopening.edit and not reopening.abrupt:
            self.check(self)
        elif self.leave():
            self.told.leave()
        self.told.forget()
        if reopening is not None and reopening.aside:
            self._write_aside(reopening.aside)
        if reopening is not None and reopening.edit:
            self.version += 1

    def _write_aside(self, written: tuple[tuple[str, int], ...]) -> None:
        """Another program has the file open, and writes what this one has read, or its results."""
        try:
            with App("aside").open(URL) as space:
                for name, value in written:
                    if name in self.app.named():
                        space.cell(f"{APP}.{name}", int).value = value
        except Exception as error:  # noqa: BLE001  # sorted there
            self.met(error, "another program")

    def edit(self, _number: int) -> None:
        """The next life has other code."""
        self.version += 1


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  # an odd error
        return "no text"
