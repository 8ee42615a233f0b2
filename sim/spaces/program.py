"""A program with several spaces over its lives."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Final, NamedTuple

import headwater as hw
from headwater.errors import (
    ClosedError,
    ConflictError,
    EventRejectedError,
    EventTimeoutError,
    HeadwaterError,
    InvariantError,
    NotOpen,
    NotReadyError,
    UserCodeError,
)
from headwater.host.space_facade import opening_of
from headwater.machine import machine
from headwater.testing.invariants.scheduler_invariants import check as check_invariants
from headwater.values.address import doc_key
from headwater.values.ids import DocKey
from headwater.values.tree import ABSENT, Maybe
from sim.faults import Pause, SlowDisk
from sim.spaces.generate import NODE
from sim.spaces.market import Market, Model, cell_name, url_of
from sim.spaces.parts import CELLS, DEBOUNCE_S, EXACT, Functions, Spaces, Step
from sim.world import World

REST_S: Final = 600.0
ROUNDS_MAX: Final = 80
RESULT_S: Final = 200.0
BETWEEN: Final = ("restart", "alone")
"""Steps for which all spaces are closed."""


class Promise(NamedTuple):
    """An entry of the ledger that the disk was said to have."""

    name: str
    space: int
    other: int


class SpacesProgram:
    """The node."""

    def __init__(self, world: World) -> None:
        spec, functions = world.plan.nodes[0], world.plan.app
        assert isinstance(spec, Spaces)
        assert isinstance(functions, Functions)
        self.world, self.spec, self.functions = world, spec, functions
        self.steps = [each for each in world.plan.operations if isinstance(each, Step)]
        self.model = Model(functions, self._read)
        self.is_delaying = any(each.is_delayed for each in functions.parts)
        self.first = 0
        self.is_done = self.is_calm = self.is_finished = False
        self.promised: dict[Promise, int] = {}
        # Functions run while one of the spaces is closed, and may need it.
        self.has_closed = any(each.kind == "reopen" for each in self.steps)
        self.begin_life()

    def begin_life(self) -> None:
        """A process starts: its memory is empty."""
        self.market = Market(self.spec.count, self.functions)
        self.spaces: list[hw.Space | None] = [None] * self.spec.count
        self.stack = ExitStack()
        # Until everything is closed in order, a function may run again.
        self.is_exact = False
        self.due: set[str] = set()
        self.last_reads: dict[str, tuple[int | None, ...]] = {}

    def violate(self, rule: str, text: str) -> None:
        """A rule does not hold."""
        self.world.violate(rule, text, NODE)

    def _read(self, space: int, doc: DocKey) -> Maybe:
        home = self.spaces[space]
        return ABSENT if home is None else opening_of(home).replica.read(doc)

    # -- lives ---------------------------------------------------------------------------------------------

    def live(self) -> None:
        """The main thread of a life."""
        self.begin_life()
        while True:
            self.open()
            between = self._work()
            if between is None:
                break
            self.close()
            self._between(between)
        self.is_done = True
        self.world.conductor.wait(lambda: self.is_calm, "calm", None)
        if not self.come_to_rest():
            return
        self.check("at rest")
        self.close()
        if not self.world.violations:
            self.open()
            if self.come_to_rest():
                self.check("after a restart")
            self.close()
        self.is_finished = True

    def _work(self) -> Step | None:
        """Perform steps until all are closed for one: that is returned."""
        if self.spec.threads:
            self._work_in_threads()
            return None
        while self.steps:
            step = self.steps.pop(0)
            if step.gap:
                machine().sleep(step.gap)
            self.world.counts["operations"] += 1
            if self.world.is_recording:
                self.world.say(NODE, repr(step))
            if step.kind in BETWEEN:
                return step
            # What was sent may arrive during any step.
            is_exact = step.kind in EXACT and not self._is_moving()
            self.do(step)
            self._look(is_exact)
        return None

    def _is_moving(self) -> bool:
        return any(home is not None and home.stats.undelivered > 0 for home in self.spaces)

    def _work_in_threads(self) -> None:
        node = self.world.node(NODE)
        lanes = [[step for step in self.steps if step.space == space] for space in range(self.spec.count)]
        actors = [node.start(f"t{space}", partial(self._thread, lane)) for space, lane in enumerate(lanes)]
        for actor in actors:
            self.world.conductor.join(actor)

    def _thread(self, lane: list[Step]) -> None:
        for step in lane:
            if step.gap:
                machine().sleep(step.gap)
            self.world.counts["operations"] += 1
            if self.world.is_recording:
                self.world.say(NODE, repr(step))
            self.steps.remove(step)
            self.do(step)

    def _between(self, step: Step) -> None:
        self.first = step.space
        if step.kind == "alone":
            # Another program: it knows the cells, and none of the functions.
            app = hw.App(f"app{step.space}")
            cell = app.cell(cell_name(step.number % CELLS), 0)
            with app.open(url_of(step.space)):
                cell.value = step.value

    # -- opening and closing -------------------------------------------------------------------------------

    def open(self) -> None:
        """Open all spaces, in an order of the plan."""
        count = self.spec.count
        order = [(self.first + number) % count for number in range(count)]
        self.market = Market(count, self.functions)
        self.market.compare = self._compare
        self.stack = ExitStack()
        if self.spec.together:
            openings = [self.market.apps[space].opening(url_of(space), on_error=self._heard) for space in order]
            opened: Sequence[hw.Space] = self.stack.enter_context(hw.together(*openings))
            for space, home in zip(order, opened, strict=True):
                self.spaces[space] = home
        else:
            for space in order:
                self._open_one(space)
        self._check_promises()
        is_exact, self.is_exact = self.is_exact, self.spec.together and not self.is_delaying
        if is_exact and self.is_exact and not self._is_moving():
            self._look(True)
        else:
            self._take_reads(set(self.market.functions))

    def _open_one(self, space: int) -> None:
        home = self.market.apps[space].open(url_of(space), on_error=self._heard)
        self.stack.enter_context(home)
        self.spaces[space] = home

    def close(self) -> None:
        """Close all of them."""
        with self.stack:
            pass
        self.spaces = [None] * self.spec.count

    def _heard(self, error: HeadwaterError) -> None:
        """An error of a function. What is opened later is not there yet."""
        cause = error.__cause__
        if isinstance(cause, NotOpen | ClosedError) and (self.has_closed or not self.spec.together):
            return
        if isinstance(cause, NotReadyError) and self.spec.threads:
            return
        self.violate("T", f"reported: {type(cause).__name__}: {error}")

    # -- steps ---------------------------------------------------------------------------------------------

    def do(self, step: Step) -> None:
        """Perform a step. An error has to be one that the documents name for this plan."""
        try:
            self._do(step)
        except HeadwaterError as error:
            if not self._is_told(error):
                self.violate("T", f"{step}: {type(error).__name__}: {error}")

    def _is_told(self, error: HeadwaterError) -> bool:
        met = error.__cause__ if isinstance(error, UserCodeError) else error
        if isinstance(met, NotOpen):
            # The last result of a delayed function may be from before the other space was opened.
            return not self.spec.together and self._waits_for_time()
        if isinstance(met, EventTimeoutError):
            return any(isinstance(fault, SlowDisk | Pause) for fault in self.world.plan.faults)
        if isinstance(met, NotReadyError | ConflictError):
            return self.spec.threads
        return isinstance(met, EventRejectedError)

    def _do(self, step: Step) -> None:  # noqa: C901, PLR0912  # one case for each kind
        market, home = self.market, self.spaces[step.space]
        assert home is not None
        names = [each.name for each in self.functions.parts]
        name = names[step.number % len(names)] if names else ""
        fails = step.value == 4  # some do
        match step.kind:
            case "write":
                market.cells[step.space, step.number % CELLS].value = step.value
            case "call" if name:
                # The call may let deliveries go on.
                before, found = self.model.value(name), market.computed[name]()
                if not self.spec.threads and not self.is_delaying and found != before:
                    self._compare(name, found)
            case "deal":
                market.deals[step.space].send(step.to, step.value, step.number % 4, fails=fails)
            case "block":
                market.block(home, step.space, step.to, step.value, fails=fails)
            case "ask" if name:
                ticket = market.asks[step.space].send(name)
                if not self.spec.threads:
                    ticket.result(timeout=f"{RESULT_S:.0f}s")
            case "aside":
                self._write_aside(step)
            case "settle":
                home.settle()
            case "sync":
                home.sync()
                self._promise(step.space)
            case "delivered":
                if not self._waits_for_time():
                    home.delivered(timeout=f"{RESULT_S:.0f}s")
            case "pass":
                self._settle_all()
            case "reopen":
                self._reopen(step.space)
            case _:
                pass

    def _waits_for_time(self) -> bool:
        return self.spec.threads or self.is_delaying

    def _write_aside(self, step: Step) -> None:
        """A session of its own writes what functions have read."""
        app = hw.App(f"app{step.to}")
        cell = app.cell(cell_name(step.number % CELLS), 0)
        with app.open(url_of(step.to), apart=True):
            cell.value = step.value
        self._settle_all()
        self.due |= set(self.market.functions)

    def _reopen(self, space: int) -> None:
        """One space is closed and opened again while the others are open."""
        home = self.spaces[space]
        assert home is not None
        home.close()
        self.spaces[space] = None
        self._settle_all()
        self._open_one(space)
        self._check_promises()
        self.due |= set(self.market.functions)

    def _settle_all(self) -> None:
        for home in self.spaces:
            if home is not None:
                home.settle()

    def _compare(self, name: str, found: int) -> None:
        """What is called in a handler, or in plain code, is current (I4)."""
        if self.spec.threads or any(home is None for home in self.spaces):
            return
        if found != (expected := self.model.value(name)):
            self.violate("I4", f"{name}() is {found}, and {expected} by what is written")

    # -- what has to hold ----------------------------------------------------------------------------------

    def _promise(self, space: int) -> None:
        """The disk has what the space sent and took so far."""
        for other in range(self.spec.count):
            if other != space:
                for name in ("out", "in"):
                    self.promised[Promise(name, space, other)] = self.model.entry(name, space, other)

    def _check_promises(self) -> None:
        for each, least in self.promised.items():
            if self.spaces[each.space] is not None and (found := self.model.entry(*each)) < least:
                self.violate("S1", f"{each} is {found}, and was {least} on the disk")

    def _take_reads(self, due: set[str]) -> None:
        self.last_reads, self.due = self.model.reads(), due
        for name in self.market.ran:
            self.market.ran[name] = 0

    def _look(self, is_exact: bool) -> None:  # noqa: FBT001  # of the step
        """At quiet: what is shown is current, and nothing has run in vain."""
        if self.is_delaying or any(home is None for home in self.spaces):
            return
        self._check_shown("after a step")
        reads = self.model.reads()
        if not is_exact:
            # There were states between.
            self.due |= self.model.fed()
        self.due |= {name for name, found in reads.items() if found != self.last_reads.get(name)}
        self.last_reads = reads
        for name, ran in self.market.ran.items():
            if ran and self.is_exact and is_exact and ran > (name in self.due):
                self.violate("I3", f"{name} ran {ran} times, due: {name in self.due}")
            if ran:
                self.due.discard(name)
            self.market.ran[name] = 0

    def _check_shown(self, when: str) -> None:
        expected = {each.name: self.model.value(each.name) for each in self.functions.parts if each.is_shown}
        if self.market.shown != expected:
            self.violate("V", f"{when} the sinks show {self.market.shown}, and {expected} follows from the cells")

    def come_to_rest(self) -> bool:
        """Everything that was sent arrives, and every function has run that has to (L1)."""
        for _ in range(ROUNDS_MAX):
            self._settle_all()
            if not self.spec.patient:
                self._deliver_all()
            if self._is_at_rest():
                return True
            machine().sleep(DEBOUNCE_S + 0.3)
        left = [home.stats.undelivered for home in self.spaces if home is not None]
        self.violate("L1", f"not at rest, undelivered: {left}")
        return False

    def _deliver_all(self) -> None:
        for home in self.spaces:
            if home is not None:
                try:
                    home.delivered(timeout="5s")
                except EventTimeoutError:
                    # What it waits for may wait for its time.
                    continue

    def _is_at_rest(self) -> bool:
        for home in self.spaces:
            assert home is not None
            left = home.scheduler.outstanding()
            if not left.is_idle or left.gated or home.stats.pending or home.stats.undelivered:
                return False
        return True

    def check(self, when: str) -> None:
        """What has to hold at rest."""
        self._check_shown(when)
        for name in self.market.computed:
            if (found := self._called(name)) != (expected := self.model.value(name)):
                self.violate("V", f"{when} {name}() is {found}, and {expected} follows from the cells")
        for home in self.spaces:
            assert home is not None
            try:
                check_invariants(home.scheduler)
            except InvariantError as error:
                self.violate(error.message.split()[0], f"{when}, {home.name}: {error}")
        self._check_ledger(when)
        self._check_promises()

    def _called(self, name: str) -> int:
        """The result of a function. If it, or one below it, is delayed, its time passes first."""
        found = self.market.computed[name]()
        for _ in self.functions.parts if self.is_delaying else ():
            machine().sleep(DEBOUNCE_S + 0.1)
            self._settle_all()
            found = self.market.computed[name]()
        return found

    def _check_ledger(self, when: str) -> None:
        """I11 over several spaces: each event and post that was committed is handled once, and in order."""
        entry, count = self.model.entry, self.spec.count
        for space in range(count):
            for other in range(count):
                if other == space:
                    continue
                pairs = (
                    ("events", entry("out", space, other), entry("in", other, space)),
                    ("units", entry("units", space, other), entry("taken", other, space)),
                    ("posted units", entry("units", space, other), entry("posted", other, space)),
                )
                for what, sent, arrived in pairs:
                    if sent != arrived:
                        self.violate("I11", f"{when} {sent} {what} sent from {space} to {other}, {arrived} arrived")
                if wrong := entry("disorder", other, space):
                    self.violate("order", f"{when} {wrong} events from {space} to {other} came out of order")
                self.world.counts["events sent across"] += entry("out", space, other)
        for home in self.spaces:
            assert home is not None
            if (outbox := opening_of(home).replica.read(doc_key("events:outbox"))) not in (ABSENT, {}):
                self.violate("I11", f"{when} the outbox of {home.name} has {outbox!r}")
