"""Worlds of one process with workflows: an outside with a ledger, people, restarts with other code, faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from unittest.mock import patch

from headwater.errors import InvariantError
from headwater.testing.invariants.workflow_invariants import w11_schedule
from headwater.testing.simulation.conductor import Actor
from headwater.workflow import run_retention
from headwater.workflow.tables import WorkflowTables
from sim.flows.generate import generate
from sim.flows.outside import Outside
from sim.flows.outside import World as Reports
from sim.flows.parts import CLOCK_BACK, FILL, Away, FlowApp, FlowNode, Mood, Person, Publish, Restart
from sim.flows.people import People
from sim.flows.program import Program
from sim.oracles.flow_ledger import Events, check_end, stored_events, unsettled, without_deleted
from sim.performer import perform
from sim.plan import Plan
from sim.world import World

__all__ = ["generate", "play"]

QUIET_S: Final = 600.0
"""After the last fault, everything that needs no person has to be done within this time."""

LOOK_S: Final = 4.0
CLOCK_BACK_S: Final = 3_600.0
FULL_S: Final = 3.0
CLOCK_S: Final = 61.0
"""A host looks at its clock once in a minute."""

ROUNDS: Final = 80
"""How often people finish what waits for them, at the end."""

SKIPS: Final = ("skip", "reject", "cancel", "reconcile skip")


def play(world: World) -> None:
    """One world."""
    # Old runs are deleted every few runs, not every few hundred.
    with patch.object(run_retention, "PRUNE_EVERY", 4):
        FlowWorld(world).play()


class FlowWorld:
    """The parts of a world, and its course."""

    def __init__(self, world: World) -> None:
        plan = world.plan
        self.world = world
        self.plan = plan
        assert isinstance(plan.app, FlowApp)
        moods = tuple(one for one in plan.operations if isinstance(one, Mood))
        aways = tuple(one for one in plan.operations if isinstance(one, Away))
        reports = Reports(
            now=lambda: world.now,
            say=world.say,
            violate=world.violate,
            sometimes=world.sometimes,
            counts=world.counts,
        )
        self.outside = Outside(reports, plan.app, moods, aways)
        part = next((node for node in plan.nodes if isinstance(node, FlowNode)), FlowNode())
        self.program = Program(world, part, self.outside)
        self.people = People(self.program)
        self.outside.is_alive = self._is_alive
        self.outside.on_trigger = self._trigger
        self._publishers: list[Actor] = []
        # Those who decide about runs. In a process that is suspended, an action has not begun yet.
        self._deciders: list[Actor] = []

    def _is_alive(self, node: str, life: int) -> bool:
        found = self.world.node(node)
        return found.life == life and found.is_alive

    def _trigger(self, what: Person | Publish) -> None:
        if isinstance(what, Publish):
            self._publish(what)
        elif what.verb == FILL:
            disk = self.world.node(what.node).disk
            disk.capacity_bytes = disk.used_bytes
            self.world.say(what.node, "no room on the disk")
            self.world.conductor.begin("room", lambda: self._make_room(what), self.world.conductor.main.process)
        elif what.verb == CLOCK_BACK:
            self.world.conductor.begin("clock", lambda: self._set_clock(what), self.world.conductor.main.process)
        else:
            self._deciders.append(self.world.node(what.node).start(what.verb, lambda: self.people.act(what)))

    def _make_room(self, what: Person) -> None:
        self.world.conductor.sleep(FULL_S)
        self.world.node(what.node).disk.capacity_bytes = None

    def _set_clock(self, what: Person) -> None:
        self.world.conductor.sleep(what.delay_s)
        self.world.node(what.node).set_clock(jump=-CLOCK_BACK_S)
        self.world.sometimes["clock set back in a wait"] += 1

    # -- its course ----------------------------------------------------------------------------------------

    def play(self) -> None:
        world, program = self.world, self.program
        if not self.outside.app.flows:
            return
        conductor = world.conductor
        timed = self._timed()
        world.on_restart[program.part.name] = program.restarted
        world.on_code[program.part.name] = program.changed
        conductor.begin("supervisor", program.supervise)
        performer = perform(world)
        for at, action in timed:
            if at > world.now:
                conductor.sleep(at - world.now)
            action()
        performer.calm()
        self._end()

    def _timed(self) -> list[tuple[float, Callable[[], None]]]:
        """The operations at times, in their order. Those at phases wait there."""
        program = self.program
        timed: list[tuple[float, Callable[[], None]]] = []
        for operation in self.plan.operations:
            match operation:
                case Publish() if not any(part.name == operation.consumer for part in self.outside.app.consumers):
                    pass
                case Publish() if not operation.handler:
                    timed.append((operation.at, lambda one=operation: self._publish(one)))  # type: ignore[misc]
                case Person() if not any(part.name == operation.flow for part in self.outside.app.flows):
                    pass
                case Person() | Publish() if operation.handler:
                    place = operation.handler, operation.phase, operation.nth
                    self.outside.triggers.setdefault(place, []).append(operation)
                case Person():
                    timed.append((operation.at, lambda one=operation: self._trigger(one)))  # type: ignore[misc]
                case Restart():
                    timed.append((operation.at, lambda one=operation: program.stop(one.revision, one.down_s)))  # type: ignore[misc]
                case _:
                    pass
        return sorted(timed, key=lambda each: each[0])

    def _publish(self, operation: Publish) -> None:
        actor = self.world.conductor.begin(
            "publisher", lambda: self.people.publish(operation), self.world.conductor.main.process
        )
        self._publishers.append(actor)

    def _end(self) -> None:
        world, program, conductor = self.world, self.program, self.world.conductor
        self.outside.is_calm = True
        conductor.sleep(1.0)
        for publisher in self._publishers:
            if not conductor.join(publisher, QUIET_S):
                world.violate("L1", "a publication is not acknowledged, and no fault is left")
                return
        for _ in range(ROUNDS):
            # What people have begun comes to its end first: it may leave something to do.
            conductor.wait(self._has_been_decided, "people", QUIET_S)
            decided = len(self._deciders)
            if not self._settled():
                return
            done = program.ask("finish", self.people.finish)
            if done and not done[0] and decided == len(self._deciders):
                break
        else:
            world.violate("L1", f"after {ROUNDS} rounds people are still asked")
            return
        self.outside.settle()
        if self.program.is_clock_moved:
            self._check_times()
        self._force_wake()
        program.ask("check", self._check)
        program.is_over = True
        conductor.sleep(0.01)

    def _has_been_decided(self) -> bool:
        """No action of a person is under way: each has ended, or its process is dead."""
        return all(actor.is_done or actor.process.is_dead for actor in self._deciders)

    def _settled(self) -> bool:
        """Wait until nothing is to be done without a person."""
        world, conductor = self.world, self.world.conductor
        until = world.now + QUIET_S
        pause = 0.05
        found: list[list[str]] = []
        while world.now < until:
            if self.program.is_open and not self.program.is_asked_to_stop:
                found = self.program.ask("look", self._unsettled)
                if found == [[]]:
                    return True
            conductor.sleep(pause)
            pause = min(pause * 2, LOOK_S)
        what = "; ".join(found[0]) if found else "the program is not open"
        world.violate("L1", f"{QUIET_S:.0f} s after the last fault: {what}")
        return False

    def _unsettled(self) -> list[str]:
        is_set = self.world.node(self.program.part.name).skew != 0
        return self.program.look(lambda tables: unsettled(tables, self.program, clock_set=is_set))

    def _check_times(self) -> None:
        """W11: a host that looks at its clock once a minute has mended the times that a clock set back has moved."""
        found: list[str] = []
        for _ in range(3):
            self.world.conductor.sleep(CLOCK_S)
            found = [text for texts in self.program.ask("times", self._times) for text in texts]
            if not found:
                return
        self.world.violate("W11", "; ".join(found))

    def _times(self) -> list[str]:
        try:
            self.program.look(w11_schedule)
        except InvariantError as error:
            return [error.message]
        return []

    def _force_wake(self) -> None:
        """L2: if every workflow is woken, nothing changes, except that the runs may delete old ones."""
        program, world = self.program, self.world
        left = program.ask("look", lambda: program.look(lambda tables: unsettled(tables, program, clock_set=False)))
        if left != [[]]:
            # Events that wait for a time, which is far away since the clock was set back.
            return

        def wake() -> Events:
            assert program.hub is not None
            before = program.look(stored_events)
            for name, hosted in program.hub.hosted.items():
                hosted.flags.dirty |= {consumer.name for consumer in hosted.spec.consumers}
                program.hub.ring(name)
            return before

        before = program.ask("wake", wake)
        effects = len(self.outside.effects)
        world.conductor.sleep(2.0)
        if before:
            program.ask("look", lambda: program.look(lambda tables: self._compare(tables, before[0])))
        if effects != len(self.outside.effects):
            world.violate("L2", "a forced wake-up has had an effect")

    def _compare(self, tables: WorkflowTables, before: Events) -> None:
        expected, after = without_deleted(tables, self.program, before), stored_events(tables)
        if expected != after:
            self.world.violate("L2", f"a forced wake-up has changed events: {expected} and {after}")

    def _check(self) -> None:
        program = self.program
        is_skipping = any(isinstance(one, Person) and one.verb in SKIPS for one in self.plan.operations)
        total = program.module.total.value
        program.look(program.history.check)
        program.look(lambda tables: check_end(tables, program, self.people.sent, is_skipping=is_skipping, total=total))


def source(plan: Plan) -> str:
    """The program of a plan, for people."""
    from sim.flows.source import source_of  # noqa: PLC0415  # only here

    assert isinstance(plan.app, FlowApp)
    return source_of(plan.app, 1)
