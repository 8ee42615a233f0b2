"""A small world with a workflow in it: an app whose handlers do what they are told, a service, a clock, and a disk.

Ids come in through a producer or are published; `Act` does something about them outside, and passes each on to `Tell`,
which counts them in a cell. Whatever happens, what was published is told of once; `finish` sees to that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import headwater as hw
from headwater.errors import InvariantError, NotFoundError, TransitionError
from headwater.host.storage import TABLE_SESSION, storage_of
from headwater.runtime.options import Options
from headwater.store.commit import UNNUMBERED, Commit, SetDoc, Submission
from headwater.testing import SimClock
from headwater.testing.invariants.workflow_invariants import WorkflowWatch
from headwater.values.address import doc_key
from headwater.workflow import run_queries
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.workflow_spec import OnPoison
from headwater.workflow.workflow_transaction import TransactionStep, WorkflowTransaction
from tests.workflow.images import Disk
from tests.workflow.outside import Broken, Service

SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

MISTAKES = (
    *("a mistake in", "an odd one", "a hw.Plan is expected", "take each event once", "connection re", "no answer"),
    *("ask later", "cannot store consumer Act, result", "hw.Plan: wake="),
)
"""What handlers can be told to do wrong, as it is told."""


class Killed(BaseException):  # no error: the process is gone
    """Nothing of this process happens any more."""


@dataclass
class Behaviour:
    """What author code and the service do from now on. The defaults are good."""

    prepare: str = "all"
    wake: object = None
    service: str = "applies"
    reconcile: str = "truth"
    next: str = "ok"
    # Where the process is killed: in a phase.
    dies: str = ""
    # What is sent without being waited for is on disk with what follows it, and not at once.
    lags: bool = False
    # What somebody does meanwhile, and in which phase.
    meanwhile: tuple[str, str | Callable[[], object]] | None = None


class World:
    """Everything there is. Closed with `close`."""

    def __init__(
        self,
        kind: str,
        folder: Path,
        *,
        on_poison: OnPoison = "block",
        retry: hw.Retry | None = None,
        peek: int = 100,
        lanes: str = "",
        rate: str | None = None,
    ) -> None:
        self.clock = SimClock()
        self.disk = Disk(kind, folder)
        self.disk.on_kill = self._killed
        self.service = Service()
        self.watch = WorkflowWatch()
        self.behaviour = Behaviour()
        self.on_poison = on_poison
        self.retry = retry or hw.Retry()
        self.peek = peek
        # How `Act` is declared: without lanes, "keyed" with some, or "each" with one for each event.
        self.lanes = lanes
        self.rate = rate
        self.version = 0
        # Ids that the producer finds, and all that are surely published.
        self.outside: list[str] = []
        self.published: set[str] = set()
        # What went wrong where author code would hide it.
        self.faults: list[BaseException] = []
        self.errors: list[Exception] = []
        self.ran: list[str] = []
        self._begun: set[int] = set()
        self._old: Any = None
        self.open()
        # Whoever watches has to have seen how it began: the clock may be set in the first thing that happens.
        self.check()

    # -- the app -------------------------------------------------------------------------------------------

    def _build(self) -> None:  # noqa: C901  # all handlers of an app, each short
        world = self
        self.app = hw.App("world")
        self.total = self.app.cell("total", 0)
        self.noise = self.app.cell("noise", 0)
        self.flow = self.app.workflow("flow", on_poison=self.on_poison, version=self.version)
        self.incoming = self.flow.topic("incoming", Any)
        key, at_once = ("of.lane", 2) if self.lanes == "keyed" else (None, 3 if self.lanes else None)
        # Other keys in another version: events change their lanes.
        key = "of.other" if key is not None and self.version % 3 == 1 else key
        self.done = self.flow.topic("done", str)

        @self.flow.producer(every="5m", retry=self.retry)
        def poll(run: hw.Run, seen: int = 0) -> int:
            world.enter("poll", run)
            for one in world.outside[seen:]:
                world.put(one)
            world.leave("poll")
            return len(world.outside)

        @self.flow.consumer(
            self.incoming, retry=self.retry, peek=self.peek, key=key, concurrency=at_once, rate=self.rate
        )
        class Act(hw.Consumer[Any, list[str], int]):
            def prepare(self, pending: Sequence[hw.Event[Any]]) -> hw.Plan[list[str]]:
                return world.prepare(self.run, pending)

            def mutate(self, run: hw.Run, data: list[str]) -> Any:
                world.enter("mutate", run)
                world.see_intent(run)
                answer = world.service.call(world.behaviour.service, run.key, tuple(data))
                world.leave("mutate")
                return answer

            def reconcile(self, run: hw.Run, data: list[str]) -> Any:  # noqa: ARG002  # as it is called
                return world.reconcile(run)

            def next(self, run: hw.Run, data: list[str], outcome: hw.Outcome[int]) -> None:
                world.enter("next", run)
                if isinstance(outcome, hw.Applied):
                    for one in data:
                        world.done.publish(one, id=f"done {one}")
                world.stumble()

        @self.flow.consumer(self.done, retry=self.retry, peek=self.peek)
        class Tell(hw.Consumer[str, list[str], None]):
            def prepare(self, pending: Sequence[hw.Event[str]]) -> hw.Plan[list[str]]:
                return world.prepare(self.run, pending)

            def next(self, run: hw.Run, data: list[str], outcome: hw.Outcome[None]) -> None:
                world.enter("next", run)
                if not isinstance(outcome, hw.Skipped):
                    world.total.value += len(data)
                world.stumble()

    # -- what handlers do ----------------------------------------------------------------------------------

    def enter(self, place: str, run: hw.Run) -> None:
        """A handler is called: nobody may be dead, and the run was begun as it should be."""
        if self.disk.is_killed:
            raise Killed
        self.ran.append(f"{run.handler}.{place}" if place != "poll" else place)
        if run.id not in self._begun:
            self._begun.add(run.id)
            dirty = set(self.space._opening.flows.hosted[self.flow.full_name].flags.dirty)
            self._look(lambda tables: self.watch.begun(tables, run.id, dirty))
        if self.behaviour.dies == place:
            self._die()
        if self.behaviour.meanwhile is not None and self.behaviour.meanwhile[0] == place:
            action, self.behaviour.meanwhile = self.behaviour.meanwhile[1], None
            # In a thread of its own: a person is not part of the run.
            work = (lambda: self.act(action, run.id)) if isinstance(action, str) else action
            person = threading.Thread(target=self._guarded, args=(work,))
            person.start()
            person.join()

    def leave(self, place: str) -> None:
        """It has done what it does, and the process ends before that is known."""
        if self.behaviour.dies == f"after {place}":
            self._die()

    def _die(self) -> None:
        self.space._opening._lease.local.call(lambda _: self.disk.kill())
        raise Killed

    def _killed(self) -> None:
        """From here on, the service hears nothing of this process: see `enter`."""
        self.behaviour = Behaviour()

    def _guarded(self, work: Callable[[], object]) -> None:
        """What is found wrong while a handler is called is not the handler's fault."""
        try:
            work()
        except Exception as error:  # noqa: BLE001  # whatever it is, see `check`
            self.faults.append(error)

    def _look(self, question: Callable[[WorkflowTables], None]) -> None:
        self._guarded(lambda: self.space._opening.flows.look(question))

    def see_intent(self, run: hw.Run) -> None:
        """W6: when the service is called, that is on disk."""

        def known(tables: WorkflowTables) -> None:
            call = tables.call_of(tables.run(run.id))
            if call is None or call.status != "in_flight" or call.key != run.key:
                raise InvariantError(f"W6: the service is called by {run}, and what is known is {call}")

        self._look(known)

    def prepare(self, run: hw.Run, pending: Sequence[hw.Event[Any]]) -> hw.Plan[list[str]]:
        """By the mode: of what waits, all, one, some or nothing is taken; or it fails."""
        self.enter("prepare", run)
        mode, wake = self.behaviour.prepare, self.behaviour.wake
        if mode == "fails":
            raise ValueError("a mistake in prepare")
        if mode == "fails on odd" and any(int(one.id[-1]) % 2 for one in pending):
            raise ValueError("an odd one")
        if mode == "passes":
            raise hw.TransientError("too many requests")
        if mode == "signed out":
            raise hw.ApprovalError("signed out", service="outside")
        if mode == "nonsense":
            return [1, 2]  # type: ignore[return-value]  # which is what is tried
        if mode == "idle" or not pending:
            return hw.Plan.idle(wake=wake)  # type: ignore[arg-type]  # nonsense, too
        taken = {"one": pending[:1], "some": pending[:2], "nothing": []}.get(mode, list(pending))
        if mode == "twice":
            taken = [*taken, taken[0]]
        data = [one.id.removeprefix("done ") for one in taken]
        return hw.Plan(data, take=taken, title=f"{len(data)} ids", ask=mode == "asks", wake=wake)  # type: ignore[arg-type]  # likewise

    def reconcile(self, run: hw.Run) -> object:
        """By the mode: the truth, that it is not known, or nothing of use."""
        self.enter("reconcile", run)
        match self.behaviour.reconcile:
            case "truth":
                return self.service.truth(run.key)
            case "unknown":
                return hw.Unknown("no answer yet")
            case "fails":
                raise Broken("cannot be reached")
            case _:
                return "yes"

    def stumble(self) -> None:
        """By the mode: `next` fails, or somebody else writes what it has read."""
        match self.behaviour.next:
            case "fails":
                raise ValueError("a mistake in next")
            case "passes":
                raise hw.TransientError("later")
            case "overtaken":
                self.behaviour.next = "ok"
                read = self.noise.value
                rival = self.space._opening._lease.local.attach()
                rival.read(doc_key("world.noise"))
                rival.commit([SetDoc(doc_key("world.noise"), read + 1)])
                rival.sync()
                rival.detach()
            case _:
                pass
        self.leave("next")

    # -- the host ------------------------------------------------------------------------------------------

    def open(self, *, dies_after: int | None = None) -> None:
        """Open it; if it is killed while that happens, open what is left."""
        self._build()
        self.disk.left = dies_after
        options = Options(wall=self.clock.now_ms, durability="normal", on_error=self._decided)
        with self.disk.opened_here():
            self.space = self.app.open_with(self.disk.url, options)
        self.space._opening.enter()
        self._steady()
        self._recover()

    def _steady(self) -> None:
        """What is not waited for would be on disk sooner or later, as it happens. Here it is so as we say."""
        storage, hub = storage_of(self.space._opening._lease), self.space._opening.flows
        post, submit, wait = hub.post, storage.submit, storage.wait
        held: list[Submission] = []

        def posting(*parts: TransactionStep, soon: bool = True) -> WorkflowTransaction:
            if soon:
                return post(*parts)
            transaction = WorkflowTransaction(hub.now, hub._decided, hub._mark)
            for part in parts:
                transaction.add(part)
            held.append(Submission(Commit(TABLE_SESSION, UNNUMBERED), table_transaction=transaction))
            if not self.behaviour.lags:
                waiting()
            return transaction

        def submitting(submission: Submission, *, helps: bool) -> None:
            # With the lock, so that nobody decides on the one without the other.
            with storage._lock if held else nullcontext():
                while held:
                    submit(held.pop(0), helps=True)
                submit(submission, helps=helps)

        def waiting(timeout: float | None = None) -> None:
            while held:
                submit(held.pop(0), helps=True)
            wait(timeout)

        hub.post, storage.submit, storage.wait = posting, submitting, waiting  # type: ignore[method-assign]

    def _decided(self, error: Exception) -> None:
        if not self.disk.is_killed:
            self.errors.append(error)

    def _recover(self) -> None:
        """If it was killed: what was on disk then is all there is."""
        if not self.disk.is_killed:
            self.disk.left = None
            return
        self.space._opening.leave()
        self.space.close()
        self.disk.turn_on()
        self.open()

    def restart(self, *, version: bool = False, dies_after: int | None = None) -> None:
        """A clean stop, and the next opening."""
        self.close()
        self.version += version
        self.open(dies_after=dies_after)

    def kill(self) -> None:
        """Between two things that happen."""
        self.space._opening._lease.local.call(lambda _: self.disk.kill())
        self._recover()

    def drain(
        self, behaviour: Behaviour | None = None, *, limit: int | None = None, dies_after: int | None = None
    ) -> None:
        """Have what is due done, so."""
        self.behaviour = behaviour or Behaviour()
        self.disk.left = dies_after
        try:
            self.space.workflows.drain(limit)
        except Killed:
            assert self.disk.is_killed
        self.behaviour = Behaviour()
        self._recover()
        self.check()

    def close(self) -> None:
        self.space._opening.leave()
        self.space.close()

    # -- people --------------------------------------------------------------------------------------------

    def publish(self, one: str) -> None:
        """From outside of any handler; it is on disk when this returns."""
        self.put(one)
        self.space.sync()
        self.published.add(one)

    def put(self, one: str) -> None:
        """Publish an event. Its lane and its priority follow from its id."""
        number = sum(map(ord, one))
        fields = {"id": one, "of": {"lane": str(number % 3), "other": str(number % 2)}}
        self.incoming.publish(fields, id=one, title=f"Input {one}", priority=5 + (number % 4 == 0))

    def act(self, action: str, run: int | None = None) -> bool:
        """Something that a person does; whether it was possible. Without a run: the one that is to be finished."""
        chosen = run if run is not None else self.view.run or 0
        try:
            self._act(action, chosen)
        except (TransitionError, NotFoundError):
            return False
        return True

    def _act(self, action: str, run: int) -> None:
        flow = self.flow
        match action:
            case "pause" | "resume" | "now" | "archive" | "restore" | "reprocess":
                getattr(flow, action)()
            case "approve" | "reject" | "retry" | "cancel" | "abandon":
                getattr(flow, action)(run)
            case "reconcile":
                details = self.space._opening.flows.look(lambda tables: run_queries.run_details(tables, run))
                if details.call is not None and details.call.status in ("needs_reconcile", "indeterminate"):
                    flow.reconcile(run, self.service.truth(details.call.key))
                else:
                    flow.reconcile(run, hw.Applied(0))
            case "ask again":
                flow.reconcile(run, hw.Unknown())
            case "skip call":
                flow.reconcile(run, hw.Skipped())
            case "skip":
                waiting = [one.id for one in flow.inputs() if one.status in ("pending", "parked")]
                if waiting:
                    flow.skip(waiting[-1])
            case "publish":
                self.publish(f"meanwhile {len(self.published)}")
            case _:
                self.clock.advance({"put ahead": 30 * DAY, "set back": -HOUR}[action])

    # -- claims --------------------------------------------------------------------------------------------

    def check(self) -> None:
        """What must hold between any two things that happen."""
        for fault in self.faults:
            raise fault
        assert not self.service.twice
        strange = [str(error) for error in self.errors if not any(known in str(error) for known in MISTAKES)]
        assert not strange, strange
        hub = self.space._opening.flows
        hub.look(lambda tables: self.watch.look(tables, hub.alive))
        assert all(count == 1 for count in self.service.effects.values()), self.service.effects

    def rest(self) -> None:
        """Have everything done that is due, well; then nothing is."""
        self.drain()
        self.space._opening.flows.look(self.watch.rest)
        assert self.space.workflows.drain() == 0
        at = self.space.workflows.wake_at
        assert at is None or at > self.clock.now_ms()

    def status(self, topic: str = "incoming") -> dict[str, str]:
        """What became of each event of a topic, by its id."""
        query = (
            "select message, event.status from flow_event as event join flow_topic as t on t.id = topic where name = ?"
        )
        return dict(self.space._opening.flows.look(lambda tables: tables.execute(query, topic)))

    def aside(self) -> set[str]:
        """Events that were put aside with a run, after its effect."""
        query = (
            "select message from flow_event as event join flow_take as take on take.event = event.id "
            "where event.status = 'parked' and take.disposition = 'parked'"
        )
        return {row[0] for row in self.space._opening.flows.look(lambda tables: tables.execute(query))}

    def _skipped_late(self) -> set[str]:
        """Events that were put aside with a run after its effect, and then skipped: it may tell of them all the same.

        Its plan stays as it was made, with what it was made for.
        """
        query = (
            "select message from flow_event as event join flow_take as take on take.event = event.id "
            "where event.status = 'skipped' and take.disposition = 'parked'"
        )
        return {row[0] for row in self.space._opening.flows.look(lambda tables: tables.execute(query))}

    def finish(self) -> None:
        """All is well from now on, time passes, and people answer: then everything comes to its right end.

        Also what was put aside after its effect, and is taken up again.
        """
        self._finish()
        if self.aside():
            assert self.act("reprocess")
            self._finish()
            assert self.aside() == set()

    def _finish(self) -> None:
        self.service.arrive()
        # What a consumer has looked at and left is looked at again when something new comes, and after a restart.
        self.publish(f"last {len(self.published)}")
        if self.lanes:
            self.restart()
        for _ in range(200):
            self.help()
            self.rest()
            if not self._is_unfinished():
                break
            self.clock.advance(MINUTE)
        else:
            raise AssertionError(f"it never ends: {self.flow.status.sentence}, {self.status()}, {self.status('done')}")
        self.verify()

    def help(self) -> None:
        """What a person would do; and it is time for what waits."""
        if self.view.intent == "archived":
            assert self.act("restore")
        if self.view.state == "Needs attention":
            assert self.act("approve") or self.act("reconcile") or self.act("resume"), self.view.sentence
        if self.view.intent == "paused":
            assert self.act("resume")
        at = self.space.workflows.wake_at
        if at is not None and self._is_unfinished():
            self.clock.advance(max(at - self.clock.now_ms(), 0))

    def _is_unfinished(self) -> bool:
        waiting = [*self.status().values(), *self.status("done").values()]
        return "pending" in waiting or "reserved" in waiting or self.view.run is not None

    @property
    def view(self) -> run_queries.FlowView:
        """The workflow, as people see it."""
        return self.space._opening.flows.look(lambda tables: run_queries.flow(tables, self.flow.full_name))

    def verify(self) -> None:
        """Nothing is lost, nothing was done twice, and what was done is what is told."""
        self.service.arrive()
        self.check()
        incoming, done = self.status(), self.status("done")
        assert self.published <= incoming.keys()
        assert set(incoming.values()) <= {"consumed", "skipped", "parked"}, incoming
        consumed = {one for one, status in incoming.items() if status == "consumed"}
        effects = self.service.effects
        assert {one for one in consumed if effects[one] != 1} == set()
        # After the effect, only together with the run that has its result.
        aside = self.aside()
        assert {one for one, status in incoming.items() if status == "parked" and effects[one]} <= aside
        known = consumed | self._skipped_late()
        assert {f"done {one}" for one in consumed} <= done.keys() <= {f"done {one}" for one in known}, (incoming, done)
        told = [status for status in done.values() if status == "consumed"]
        assert self.total.value == len(told)
