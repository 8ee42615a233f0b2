"""People and other programs: they publish events, decide about runs, and finish what waits for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

import headwater as hw
from headwater.errors import HeadwaterError, PoisonedError, StoreError
from headwater.values.codec import decode
from headwater.workflow.rows import EffectOutcome, RunRow, RunStatus
from headwater.workflow.tables import WorkflowTables
from sim.flows.parts import Person, Publish

if TYPE_CHECKING:
    from sim.flows.outside import Outside
    from sim.flows.program import Program

AGAIN_S = 1.5


class Sent(msgspec.Struct):
    """One publication: when it was sent, and when it was acknowledged."""

    operation: Publish
    sent: float
    acknowledged: float | None = None


class People:
    """Everything that is done to the workflows of one process from outside."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.world = program.world
        self.outside = program.outside
        self.sent: list[Sent] = []
        self.in_tx = 0

    # -- publishing ----------------------------------------------------------------------------------------

    def publish(self, operation: Publish) -> None:
        """Publish until it is acknowledged, as a sender with an idempotency key does. In an actor of the world."""
        program, conductor = self.program, self.world.conductor
        sent = Sent(operation, self.world.now)
        self.sent.append(sent)
        while sent.acknowledged is None and not program.is_over:
            conductor.wait(lambda: program.is_open or program.is_over, "an open program")
            if program.ask("publish", lambda: self._publish(operation)):
                sent.acknowledged = self.world.now
                self.world.counts["published"] += 1
            else:
                conductor.sleep(AGAIN_S)

    def _publish(self, operation: Publish) -> bool:
        module = self.program.module
        topic = getattr(module, f"{operation.consumer}x" if operation.second else operation.consumer)
        if not operation.in_tx:
            return bool(topic.publish(operation.value, id=operation.id).sync())
        with self.program.space.transaction():
            module.published.value += 1
            found = topic.publish(operation.value, id=operation.id)
        return bool(found.sync())

    # -- deciding ------------------------------------------------------------------------------------------

    def act(self, person: Person) -> None:
        """In an actor of the node: refusals are answers, which people read."""
        program = self.program
        if not program.is_open:
            return
        try:
            with program.meddles():
                self._act(person)
            self.world.counts[f"did {person.verb}"] += 1
        except StoreError as error:
            program.broke(error)
        except HeadwaterError as error:
            program.refused(person.verb, error)

    def _act(self, person: Person) -> None:
        flow: Any = getattr(self.program.module, person.flow)
        name = flow.full_name
        self.world.say(self.program.part.name, f"{person.verb} {person.flow}")
        match person.verb:
            case "pause":
                flow.pause()
                # From here on, only runs that have acted may go on; unless the next commit was that of a resume.
                self.program.look(lambda tables: note_pauses(tables, self.outside))
                found = self.outside.paused.get(person.flow)
                self.world.sometimes["workflow paused in a run"] += found is not None and bool(found[1])
            case "resume":
                self._resume(person.flow, flow)
            case "now" | "archive" | "restore":
                getattr(flow, person.verb)()
            case "drain":
                self.program.space.workflows.drain()
            case "reprocess":
                flow.reprocess()
            case "skip":
                inputs = flow.inputs()
                if inputs:
                    flow.skip(inputs[-1].id)
            case _:
                run = self.program.look(lambda tables: _chosen(tables, name, person.verb))
                if run is not None:
                    self.decide(flow, person.verb, run)

    def _resume(self, short: str, flow: Any) -> None:  # of a generated program
        self._forgive(flow)
        self.outside.resuming.append(short)
        try:
            flow.resume()
            self.outside.paused.pop(short, None)
        finally:
            self.outside.resuming.remove(short)

    def _forgive(self, flow: Any) -> None:  # likewise
        newest = self.program.look(lambda tables: tables.execute("select coalesce(max(id), 0) from flow_run")[0][0])
        self.program.history.forgiven[flow.full_name] = newest

    def decide(self, flow: Any, verb: str, run: RunRow) -> None:  # likewise
        """Decide about a run, truthfully."""
        match verb:
            case "approve":
                self._approve(flow, run)
            case "reconcile":
                key = self.program.look(lambda tables: _open_key(tables, run.id))
                if key is None:
                    return
                found = self.outside.truth(key)
                flow.reconcile(run.id, hw.NotApplied() if found is None else hw.Applied(found), by="ann")
                said = "not done" if found is None else "done"
                self.world.sometimes[f"needs_reconcile resolved as {said}"] += 1
            case "reconcile skip":
                flow.reconcile(run.id, hw.Skipped(), by="ann")
                self.world.sometimes["needs_reconcile skipped"] += 1
            case "reconcile again":
                flow.reconcile(run.id, hw.Unknown(), by="ann")
            case _:
                self._forgive(flow)
                getattr(flow, verb)(run.id, by="ann")
                if verb == "cancel":
                    self.outside.cancelled.add(run.id)

    def _approve(self, flow: Any, run: RunRow) -> None:  # likewise
        outside, data = self.outside, _plan_of(run.prepare_result)
        outside.approving.append(data)
        if not data:
            # The run is being prepared. If it asks before the approval arrives, that is for the plan it then has.
            outside.approving_runs.append(run.id)
        may_count = False
        try:
            flow.approve(run.id, by="ann")
            query = "select prepare_result from flow_run where id = ?"
            found = None if data else self.program.look(lambda tables: tables.one(query, run.id))
            outside.approved.add(data if found is None else _plan_of(found[0]))
        except PoisonedError:
            # HW204: the disk has failed, and whether the approval is stored is not known.
            may_count = True
            raise
        finally:
            if not may_count:
                outside.approving.remove(data)
                if not data:
                    outside.approving_runs.remove(run.id)
        self.world.sometimes["approval of an older version"] += bool(data) and data[0] != f"v{self.program.revision}"

    # -- finishing -----------------------------------------------------------------------------------------

    def finish(self) -> int:
        """Decide about everything that waits for a person, once. Returns how much that was."""
        done = 0
        for part in self.outside.app.flows:
            flow: Any = getattr(self.program.module, part.name)
            name = flow.full_name
            for verb in self.program.look(lambda tables, name=name: _waits_for(tables, name)):  # type: ignore[misc]
                done += 1
                self.world.say(self.program.part.name, f"at last: {verb} {part.name}")
                self.act(Person(flow=part.name, verb=verb))
        return done


def note_pauses(tables: WorkflowTables, outside: Outside) -> None:
    """Of workflows that are paused: the newest run, and the keys of the calls that are on disk already."""
    newest = tables.execute("select coalesce(max(id), 0) from flow_run")[0][0]
    keys = frozenset(row[0] for row in tables.execute("select key from flow_call where status = 'in_flight'"))
    for (name,) in tables.execute("select name from flow where intent <> 'active' order by name"):
        outside.paused.setdefault(name.rpartition(".")[2], (newest, keys))


def _plan_of(stored: bytes | None) -> tuple[str, ...]:
    """What a person is shown of a run. Empty: it has no plan."""
    plan = decode(stored) if stored else None
    return tuple(map(str, plan)) if isinstance(plan, list) else ()


def _open_key(tables: WorkflowTables, run: int) -> str | None:
    """The key of a call that a person can be asked about."""
    query = "select key from flow_call where run = ? and status in ('needs_reconcile', 'indeterminate')"
    row = tables.one(query, run)
    return None if row is None else row[0]


def _chosen(tables: WorkflowTables, name: str, verb: str) -> RunRow | None:
    flow = tables.flow_named(name)
    if flow is None:
        return None
    if verb == "retry":
        aside = tables.one("select id from flow_run where flow = ? and aside = 'kept' order by id limit 1", flow.id)
        if flow.head is None and aside is not None:
            return tables.run(aside[0])
    if flow.head is not None:
        return tables.run(flow.head)
    active = tables.active(flow.id)
    if active is not None:
        return active
    newest = tables.one("select max(id) from flow_run where flow = ?", flow.id)
    return None if newest is None or newest[0] is None else tables.run(newest[0])


def _waits_for(tables: WorkflowTables, name: str) -> list[str]:  # noqa: PLR0911  # one for each state
    """What a person has to do in a workflow."""
    flow = tables.flow_named(name)
    if flow is None:
        return []
    if flow.intent == "archived":
        return ["restore", "resume"]
    if flow.intent == "paused":
        return ["resume"]
    head = None if flow.head is None else tables.run(flow.head)
    if flow.block_kind == "indeterminate":
        return ["reconcile"]
    if flow.block_kind == "hung":
        return []
    if head is not None and head.status == RunStatus.APPROVAL and flow.block is not None:
        return ["approve"]
    if flow.block is not None:
        # After the effect, every other chain is set aside first, and continued later.
        has_acted = head is not None and head.outcome in (EffectOutcome.APPLIED, EffectOutcome.SKIPPED)
        return ["abandon"] if has_acted and head is not None and head.chain % 2 else ["resume"]
    parked = sum(topic.parked for topic in tables.topics(flow.id).values())
    return ["reprocess"] if parked and head is None else []
