"""A scheduler on a replica that others write to as well, with functions made of data: the world of the machine.

Nothing happens by itself: time stands, commits are decided and waiting functions go on when the machine says so. After
each step everything is compared with what a naive engine makes of the same documents.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headwater.core import (
    Attempt,
    Change,
    Depth,
    Node,
    NodeKind,
    NodeSpec,
    Notification,
    Scheduler,
    SetDoc,
    Transaction,
    doc_key,
    freeze,
    is_touched,
)
from headwater.errors import UserCodeError
from headwater.scheduler.trace import (
    NodeInvalidated,
    NodeRegistered,
    NodeRemoved,
    RunDiscarded,
    RunFinished,
    RunStarted,
    TraceRecord,
)
from headwater.testing.invariants.scheduler_invariants import SchedulerWatch, check, check_trace
from headwater.values.ids import DocKey
from headwater.values.overlap import touches
from headwater.values.tree import Maybe
from tests.scheduler.naive import (
    BIG,
    BOARD,
    CELLS,
    LISTS,
    MAPS,
    POINTERS,
    WRITTEN,
    Failed,
    Naive,
    Plan,
    TrialError,
    TxLook,
    Write,
    kid_plan,
    run,
    said,
)
from tests.support.hub import FULL, Hub
from tests.support.naive import NOTHING, plain
from tests.support.spaces import Space

START: dict[str, Any] = {
    **{name: number + 1 for number, name in enumerate(CELLS)},
    **dict.fromkeys(POINTERS, "c0"),
    **{name: [1, 0] for name in LISTS},
    **{name: {"k0": 1} for name in MAPS},
    **dict.fromkeys(WRITTEN, 0),
    BOARD: {},
    BIG: {},
}


@dataclass
class Seen:
    """What a node's last attempt has read, and what was told before it began."""

    told: int
    bases: dict[DocKey, Maybe] = field(default_factory=dict)
    counts: bool = False


class World:
    def __init__(self) -> None:
        self.time = 1000.0
        self.hub = Hub(Space("memory", Path()))
        self.other = self.hub.attach("other")
        self.here = self.hub.attach("here")
        self.other.commit(*(SetDoc(doc_key(name), freeze(value)) for name, value in START.items()))
        self.hub.settle()
        self.begin()

    def begin(self) -> None:
        """A scheduler that knows of nothing."""
        self.errors: list[UserCodeError] = []
        self.scheduler = Scheduler(
            self.here.replica, now=lambda: self.time, perform=self.perform, report=self.errors.append
        )
        self.watch = SchedulerWatch(self.scheduler)
        # As the scheduler itself: only of documents that somebody reads, or it would be told of more because of us.
        self.told: list[Notification | Change] = []
        self.here.replica.listen(self.told.append, self.scheduler.graph.index)
        self.nodes: dict[str, Node] = {}
        self.plans: dict[Node, Plan] = {}
        self.seen: dict[Node, Seen] = {}
        self.shown: dict[Node, int | Failed] = {}
        self.failing: dict[Node, str | None] = {}
        # In this step: who, in which pass, and whether it has turned to documents that it did not read before.
        self.attempts: list[tuple[Node, int, bool]] = []
        self.docs: dict[Node, frozenset[DocKey]] = {}
        self.flights: dict[Attempt, Generator[None, None, tuple[int, list[Write]]]] = {}
        # Which of them were stopped, wait once more, are done: to be taken in.
        self.cancelled: list[Attempt] = []
        self.waits: list[Attempt] = []
        self.landed: list[Attempt] = []
        # Whose next attempt is to be interrupted, and how.
        self.trap: tuple[str, type[BaseException]] | None = None
        self.needless: list[str] = []
        # How many records there were when a gate was changed.
        self.regated: dict[Node, int] = {}
        self.looked = 0
        self.has_cycles = False
        # Passes in which there were some, though they may be gone by now: what is only declared ends with a first run.
        self.ringed: set[int] = set()
        self.scheduler.runner.after = self.ended
        # Something was taken back, and what rests on it is not decided: results may be missing until it is.
        self.shaken = False
        self.here.replica.on_rejected = self.shake

    # -- nodes ---------------------------------------------------------------------------------------------

    def add(self, plan: Plan, **gate: Any) -> Node:
        envelope = ((doc_key(BIG), ()),) if plan.materializes else ()
        declared = [name for name in (plan.formula.a, plan.formula.b) if name] if plan.declared else []
        spec = NodeSpec(
            name=plan.name,
            fn=lambda tx: self.function(plan, tx),
            kind=NodeKind.EFFECT if plan.effect else NodeKind.COMPUTATION,
            outputs=() if plan.effect else (doc_key(plan.name), *map(doc_key, plan.sides())),
            side_write_envelope=envelope,
            declared_reads=tuple(map(doc_key, declared)),
            eager=plan.eager,
            is_async=plan.waits > 0,
            on_invalid="finish" if plan.finishes else "restart",
            **gate,
        )
        node = self.scheduler.register(spec)
        self.nodes[plan.name] = node
        self.plans[node] = plan
        return node

    def remove(self, name: str) -> None:
        node = self.nodes.pop(name)
        plan = self.plans.pop(node)
        if node.error is not None:
            # As a host does: who was told of an error is told of its end.
            self.scheduler.renew(node)
            self.told.append(Change(doc_key(name), (), None, None))
        self.scheduler.remove(node)
        self.seen.pop(node, None)
        if plan.spawns:
            for kid in [other for other in self.nodes if other.startswith(f"{name}.kid")]:
                self.remove(kid)

    def make_kids(self, plan: Plan, wanted: list[int]) -> None:
        kids = {f"{plan.name}.kid{item}": item for item in wanted}
        for name in [other for other in self.nodes if other.startswith(f"{plan.name}.kid") and other not in kids]:
            self.remove(name)
        for name, item in kids.items():
            if name not in self.nodes:
                self.add(kid_plan(plan.name, item))

    # -- running -------------------------------------------------------------------------------------------

    def function(self, plan: Plan, tx: Transaction) -> Generator[None, None, tuple[int, list[Write]]]:
        look = TxLook(tx, (lambda name: self.call(plan, name)) if plan.calls else None)
        return run(plan, look, lambda wanted: self.make_kids(plan, wanted))

    def call(self, plan: Plan, name: str) -> None:
        """As a function of an app that calls another."""
        node = self.nodes.get(name)
        if node is not None and node.outputs and node.name != plan.name:
            self.scheduler.pull(node)

    def perform(self, attempt: Attempt) -> None:
        node = attempt.node
        if self.scheduler.graph.liveness.has_cycles:
            self.ringed.add(self.scheduler.runner.pass_number)
        self.judge(node)
        if not attempt.pulled:
            self.judge_time(node)
        self.seen[node] = Seen(len(self.told))
        if self.trap is not None and self.trap[0] == node.name:
            (_, kind), self.trap = self.trap, None
            raise kind
        attempt.stop = lambda: self.cancelled.append(attempt)  # as a host does
        self.flights[attempt] = node.fn(attempt.tx)  # type: ignore[assignment]  # of an async node, a generator
        self.go_on(attempt)

    def go_on(self, attempt: Attempt) -> bool:  # noqa: C901  # one end after another
        """Until it waits again, or is done; tells whether it is."""
        node, plan = attempt.node, self.plans.get(attempt.node)
        steps = self.flights[attempt]
        try:
            next(steps)
        except StopIteration as end:
            value, writes = end.value
            for write in writes:
                attempt.tx.set(doc_key(write.name), write.path, write.value)
            attempt.result = value
            if plan is not None and plan.effect:
                self.shown[node] = value
                if value == plan.ends_at:
                    self.remove(plan.name)
        except (TrialError, UserCodeError) as error:
            # The latter is what a circle comes to.
            attempt.error = error
            if plan is not None and plan.effect:
                self.shown[node] = Failed(said(error))
        except BaseException:
            # Somebody it has called was interrupted.
            del self.flights[attempt]
            raise
        else:
            attempt.suspended = True
            return False
        del self.flights[attempt]
        attempt.suspended = False
        reads = attempt.tx.journal.reads()
        docs = frozenset(doc for doc, _, _ in reads)
        if not attempt.pulled:
            self.attempts.append((node, node.pass_number, not docs <= self.docs.get(node, frozenset())))
        self.docs[node] = docs
        if node in self.seen:
            self.seen[node].bases = {doc: attempt.tx.snapshot_of(doc) for doc, _, _ in reads}
        if plan is not None and plan.aborts and not plan.writes and len(self.watch.records) % 2:
            attempt.tx.abort()
        return True

    def ended(self, attempt: Attempt) -> None:
        """An attempt that counts. What it wrote itself it is not told of."""
        node = attempt.node
        if node in self.seen:
            error = None if node.error is None else said(node.error)
            if error != self.failing.get(node):
                # Readers are told, although the document is as it was.
                self.failing[node] = error
                self.told.append(Change(doc_key(node.name), (), None, None))
            seen = self.seen[node]
            seen.counts = True
            plan = self.plans[node]
            own = [plan.name, *plan.sides(), plan.writes, BIG if plan.materializes else ""]
            for name in filter(None, own):
                if doc_key(name) in seen.bases:
                    seen.bases[doc_key(name)] = self.here.replica.read(doc_key(name))

    def go_on_with(self, number: int) -> None:
        """One of those that wait goes on. The scheduler hears of it when it has its turn."""
        waiting = [attempt for attempt in self.flights if attempt not in self.cancelled]
        if waiting:
            attempt = waiting[number % len(waiting)]
            (self.landed if self.go_on(attempt) else self.waits).append(attempt)

    def settle(self) -> None:
        """Run all there is to run. Attempts that were cancelled end, as in an event loop."""
        while True:
            while self.waits:
                self.scheduler.look_again(self.waits.pop())
            while self.landed:
                self.scheduler.resume(self.landed.pop())
            self.scheduler.idle()
            if not self.cancelled:
                return
            while self.cancelled:
                attempt = self.cancelled.pop()
                if attempt in self.flights:
                    del self.flights[attempt]
                    attempt.suspended = False
                    self.scheduler.cancelled(attempt)

    # -- claims --------------------------------------------------------------------------------------------

    def judge(self, node: Node) -> None:
        """I3, the slow way: a node that starts again has read something that was changed by somebody else since."""
        seen = self.seen.get(node)
        if seen is None or not seen.counts or self.is_taken_back(node):
            return
        since = self.told[seen.told :]
        for told in since:
            if isinstance(told, Change):
                if any(doc == told.doc for doc, _, _ in node.reads):
                    return
                continue
            own = isinstance(told.source, Transaction) and told.source.node is node
            if own and told.kind.value == "commit":
                continue
            for change in told.changes:
                for doc, path, bits in node.reads:
                    if doc == change.doc and is_touched(path, Depth.SHALLOW if bits else Depth.DEEP, change):
                        return
        last = [record for record in self.watch.records if record.node == node.id]
        starts = [index for index, record in enumerate(last) if isinstance(record, RunStarted)]
        if not any(isinstance(record, RunDiscarded) for record in last[starts[-2] :]):
            self.needless.append(f"{node} ran, and nothing it had read was changed by anybody else")

    def is_taken_back(self, node: Node) -> bool:
        """Its result was taken back, as it rests on a commit that failed or was overtaken: that run did not count.

        It would run again with the verdict. A caller cannot wait for that: the same run is made for the first of them.
        Only the node itself writes its result, so without an error it is missing for no other reason.
        """
        return bool(node.outputs) and self.failing.get(node) is None and self.value(node.name) is NOTHING

    def judge_time(self, node: Node) -> None:
        """A node that waits for quiet has had it; one that runs at most so often has not run since."""
        gate = node.gate
        if gate is None:
            return
        mine = [record for record in self.watch.records if record.node == node.id]
        since = [record for record in self.watch.records[self.regated.get(node, 0) :] if record.node == node.id]
        changed = self.changed_at(since)
        ended = [record.at_ms for record in mine if isinstance(record, RunFinished)]
        if gate.debounce_ms and changed:
            assert self.time >= changed[-1] + gate.debounce_ms, f"{node} has had no quiet"
        if gate.throttle_ms and ended:
            assert self.time >= ended[-1] + gate.throttle_ms, f"{node} runs too often"

    def changed_at(self, records: Sequence[TraceRecord]) -> list[float]:
        """When these changes were made: one by a run that a caller asked for is as old as the news for that run."""
        demands = {record.node: record.demand for record in self.watch.records if isinstance(record, RunStarted)}
        found = [record for record in records if isinstance(record, NodeInvalidated)]
        return [record.at_ms for record in found if demands.get(record.by) != "pulled"]

    def is_waiting(self, node: Node) -> bool:
        """It may not run yet: it ran a moment ago, rests, or something above it was changed within its quiet."""
        gate = node.gate
        if gate is None or not self.scheduler.gates.is_held(node):
            return False
        if max(gate.throttle_until, gate.backoff_until) > self.time or node in self.regated or not gate.debounce_ms:
            return True
        changed = self.changed_at(self.watch.records)
        assert changed, f"{node} waits, and nothing has changed"
        assert self.time < changed[-1] + gate.debounce_ms, f"{node} waits, and has had its quiet"
        return True

    def verify(self) -> None:
        """Everything, at rest."""
        check(self.scheduler)
        check_trace(self.watch.records)
        assert not self.needless, self.needless
        self.verify_inputs()
        if not self.shaken:
            self.verify_results()
        self.verify_counts()
        self.attempts.clear()

    def verify_inputs(self) -> None:
        """I1, the slow way: what a clean node has read is still so, whether anybody looks at it or not."""
        for node, seen in self.seen.items():
            if not node.is_clean or node.attempt is not None or not seen.counts:
                continue
            for doc, path, bits in node.reads:
                now = self.here.replica.read(doc)
                depth = Depth.SHALLOW if bits else Depth.DEEP
                assert not touches(path, depth, seen.bases[doc], now), f"{node} has read {doc}{path} as it was before"

    def verify_results(self) -> None:
        """What is there is what a naive engine comes to."""
        resting = {node: plan for node, plan in self.plans.items() if node.is_clean and node.attempt is None}
        current = {node: plan for node, plan in resting.items() if node.is_live and node.rare.cycle is None}
        made = [plan for node, plan in current.items() if node.error is None and not plan.effect]
        errors = {node.name: said(node.error) for node in self.plans if node.error is not None}
        naive = Naive(made, self.value, errors)
        for node, plan in current.items():
            if (plan.writes and plan.writes in plan.formula) or self.is_hopeless(node):
                continue
            outcome = naive.outcome(plan)
            if isinstance(outcome, Failed) or node.error is not None:
                assert outcome == Failed(said(node.error)), f"{node} should have come to {outcome}"
                continue
            value, writes = outcome
            if plan.effect:
                assert self.shown[node] == value, f"{node} should have seen {value}"
                continue
            assert self.value(plan.name) == value, f"{node} should have come to {value}"
            for write in writes:
                assert self.value(write.name, *write.path) == write.value, f"{node} should have written {write}"

    def is_hopeless(self, node: Node) -> bool:
        """It goes round in a circle by calls, or something that it calls does."""
        return any(isinstance(each.error, UserCodeError) for each in (node, *self.scheduler.graph.sources(node)))

    def verify_pulled(self, node: Node) -> None:
        """A caller gets what a naive engine comes to: all above has run, if it may, and so it is now."""
        if node.removed:
            return
        above = {node}
        todo = [node]
        while todo:
            for source in self.scheduler.graph.sources(todo.pop()):
                if source not in above:
                    above.add(source)
                    todo.append(source)
        if any(each.attempt is not None or self.is_waiting(each) for each in above):
            return
        for each in above:
            assert each.is_clean, f"{node} was pulled, and {each} has not run"
        if not self.shaken and all(each.error is None and not each.rare.cycle for each in above):
            naive = Naive([self.plans[each] for each in above], self.value, {})
            assert self.value(node.name) == naive.value(node.name), f"{node} was pulled"

    def value(self, name: str, *path: str) -> Any:
        value = plain(self.here.replica.read(doc_key(name)))
        for step in path:
            value = value[step]
        return value

    def verify_counts(self) -> None:
        """Nobody runs twice in a pass, but for what cannot be known before: who turns to something new, or a circle."""
        records = self.watch.records
        unusual = {*self.odd_passes(records), *self.ringed}
        # There are rings now, or there were some before the step.
        had_rings, self.has_cycles = self.has_cycles, self.scheduler.graph.liveness.has_cycles
        last: dict[tuple[Node, int], bool] = {}
        for node, number, has_turned in self.attempts:
            is_known = not last.get((node, number), True)
            if is_known and number not in unusual and not had_rings and not self.has_cycles:
                raise AssertionError(f"{node} ran twice in pass {number}")
            last[node, number] = has_turned

    def odd_passes(self, records: list[TraceRecord]) -> list[int]:
        """In which something came or went, did not count, or was written by those whose writes nobody can foresee."""
        odd: list[int] = []
        number = self.scheduler.runner.pass_number
        for record in records[self.looked :]:
            if isinstance(record, RunStarted):
                number = record.pass_number
            wild = [node.id for node, plan in self.plans.items() if plan.writes or plan.materializes or plan.spawns]
            if isinstance(record, RunDiscarded | NodeRegistered | NodeRemoved) or (
                isinstance(record, RunFinished) and record.node in wild
            ):
                odd.append(number)
        self.looked = len(records)
        return odd

    # -- others --------------------------------------------------------------------------------------------

    def write(self, values: dict[str, Any]) -> None:
        self.here.commit(*(SetDoc(doc_key(name), freeze(value)) for name, value in values.items()))

    def write_elsewhere(self, values: dict[str, Any]) -> None:
        self.other.commit(*(SetDoc(doc_key(name), freeze(value)) for name, value in values.items()))

    def shake(self, *_: object) -> None:
        self.shaken = True

    def decide(self, count: int) -> None:
        self.hub.decide(count)
        self.take_in()

    def fail(self) -> None:
        self.hub.fail(FULL, 1)
        self.take_in()

    def take_in(self) -> None:
        self.other.refresh()
        self.here.refresh()
        if not self.here.replica.pending_count:
            self.shaken = False

    def come_to_rest(self) -> None:
        """Until everything is decided, and what followed from that."""
        for _ in range(20):
            self.settle()
            if not self.here.replica.pending_count:
                break
            self.decide(1000)
        else:
            raise AssertionError("it never comes to rest")
        self.verify()
