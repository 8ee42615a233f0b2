"""The pass: run what is invalid, wanted and eligible, writers before readers, until nothing is.

A generator: it yields each attempt for the host to perform, and at the end says until when there is nothing to do. It
costs what changed, not what is connected: nodes stand in the queue because a value they read changed while they were
live, or because they became live while they were invalid.

Must never know: event loops, threads, clocks; how a function is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from headwater.errors import UserCodeError
from headwater.scheduler.gates import Gates
from headwater.scheduler.graph import Graph
from headwater.scheduler.invalidation import Invalidation
from headwater.scheduler.limits import NESTED_MAX, RUNS_MAX
from headwater.scheduler.node import Kind, Node, Status
from headwater.scheduler.order import Queue
from headwater.scheduler.runner import Attempt, RetryImmediately, Runner
from headwater.scheduler.steps import Idle, Perform, Step, drive
from headwater.scheduler.trace import Demand, Gated, Pass, Restless, Trace
from headwater.scheduler.trouble import circular, restless

_CLEAN: Final = Status.CLEAN


class TooDeep(BaseException):  # no error: authors' code must not catch it
    """A computation has to run, and the stack is full of others that wait for it: they make way."""

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self.node = node


class Settle:
    """Decides who runs next."""

    def __init__(
        self,
        graph: Graph,
        gates: Gates,
        queue: Queue,
        invalidation: Invalidation,
        runner: Runner,
        trace: Trace,
        now: Callable[[], float],
        report: Callable[[UserCodeError], None],
        tick: Callable[[bool], None],
    ) -> None:
        self._tick = tick
        self._graph = graph
        self._gates = gates
        self._queue = queue
        self._invalidation = invalidation
        self._runner = runner
        self._trace = trace
        self._now = now
        self._report = report
        self.settling = False
        # Somebody further out takes care of what does not fit the stack.
        self._pulling = False
        # Made while others ran, and wanted for that alone.
        self.lent: dict[Node, None] = {}
        # Stop before these.
        self.breakpoints: dict[Node, None] = {}
        self.stopped_at: Node | None = None
        # They rested, and were tried again: whoever is clean when all have had their turn is well.
        self._recovering: dict[Node, None] = {}

    # -- the pass ------------------------------------------------------------------------------------------

    def offer(self, node: Node) -> None:
        """It is live and not clean: its turn will come, at once or when it is eligible."""
        if node.attempt is not None or node.removed:
            # One at a time: it is looked at again when that attempt has ended.
            return
        if node.gate is not None and self._gates.is_held(node):
            self._gates.wait(node)
            if self._trace.on:
                self._trace.emit(Gated(self._now(), node.id, self._gates.eligible_at(node), "not eligible yet"))
            return
        if not node.queued:
            self._queue.put(node)
        if not self.settling:
            self._tick(True)

    def became_live(self, node: Node) -> None:
        """Somebody looks at it."""
        if self._trace.on:
            self._trace.emit(Demand(self._now(), node.id, live=True))
        if node.status is not Status.CLEAN:
            self.offer(node)

    def became_dormant(self, node: Node) -> None:
        """Nobody does any more. If it stands in the queue it is passed over when its turn comes."""
        if self._trace.on:
            self._trace.emit(Demand(self._now(), node.id, live=False))

    def adopt(self, node: Node) -> None:
        """Made by one that is live: wanted until it has run and this pass is over."""
        maker = self._runner.innermost
        if maker is not None and maker.is_live and node.spec.kind is Kind.COMPUTATION:
            self.lent[node] = None
            self._graph.liveness.lend(node)

    def regate(self, node: Node) -> None:
        """A gate was changed: when it may run is looked at anew, and so is until when there is nothing to do."""
        self._gates.regroup(node)
        if self._is_wanted(node):
            self.offer(node)
            if not self.settling:
                self._tick(True)

    def steps(self) -> Iterator[Step]:
        """One pass."""
        if self.settling:
            return
        self.settling = True
        self._runner.pass_number += 1
        runs = self._runner.runs
        exhausted: dict[Node, None] = {}
        try:
            while (node := self._next()) is not None:
                if node.pass_number == self._runner.pass_number and node.pass_runs >= RUNS_MAX:
                    # I6: only who hits the bound rests; everybody else goes on.
                    exhausted[node] = None
                    continue
                if node.gate is not None and node.gate.backoff_ms:
                    self._recovering[node] = None
                attempt = self._runner.begin(node)
                try:
                    yield attempt
                except BaseException as stop:  # noqa: BLE001  # handed on there, but for what is ours
                    yield from self._stopped(attempt, stop)
                else:
                    self._runner.finish(attempt)
        except BaseException:
            # An interrupt, or an error handler that raised: who was not reached has still to run.
            for node in exhausted:
                self._queue.put(node)
            raise
        finally:
            self.settling = False
        self._rest(exhausted)
        self._expire()
        if self._trace.on:
            self._trace.emit(Pass(self._now(), "", self._runner.pass_number, self._runner.runs - runs))
        yield Idle(self._gates.wake_at())

    def _next(self) -> Node | None:
        """Whose turn it is: the lowest rank that is still invalid, live and eligible (I9)."""
        while True:
            if self._invalidation.inbox:
                self._invalidation.drain()
            if self._gates.heap:
                for waiting in self._gates.due():
                    if self._is_wanted(waiting):
                        self.offer(waiting)
            node = self._queue.take()
            if node is None:
                # Said before looking once more: who commits in another thread after the look says it anew.
                self._tick(False)
                if self._invalidation.inbox:
                    continue
                return None
            if node.status is _CLEAN or not node.live_refs or node.attempt is not None or node.removed:
                continue
            if node.gate is not None and self._gates.is_held(node):
                self.offer(node)
                continue
            if self.breakpoints:
                if node in self.breakpoints and self.stopped_at is not node:
                    self.stopped_at = node
                    self._queue.put(node)
                    return None
                self.stopped_at = None
            first = self._promoted(node) if self._graph.envelopes else None
            if first is not None:
                self._queue.put(node)
                return first
            return node

    @staticmethod
    def _is_wanted(node: Node) -> bool:
        return node.status is not Status.CLEAN and node.live_refs > 0 and node.attempt is None and not node.removed

    def _promoted(self, node: Node) -> Node | None:
        """A materializer that may write what this one reads goes before it, and what that one reads before that one."""
        found = {node: None}
        while (first := self._ahead(next(reversed(found)))) is not None and first not in found:
            found[first] = None
        return next(reversed(found)) if len(found) > 1 else None

    def _ahead(self, node: Node) -> Node | None:
        sources = [source for source in self._graph.sources(node) if source.is_materializer]
        for other in [*self._graph.materializers(node), *sources]:
            if self._can_run(other):
                above = self._upstream(other)
                if node not in above:
                    return next(first for first in above if self._can_run(first))
        return None

    def _can_run(self, node: Node) -> bool:
        spent = node.pass_number == self._runner.pass_number and node.pass_runs >= RUNS_MAX
        return self._is_wanted(node) and not spent and not self._gates.is_held(node)

    def _stopped(self, attempt: Attempt, stop: BaseException) -> Iterator[Step]:
        """An attempt did not come to its end. If it has to make room for what it waits for, that is run first."""
        if isinstance(stop, TooDeep):
            self._runner.interrupted(attempt, "made room for what it waits for")
            # If that fails, it will be told when it asks again.
            with suppress(UserCodeError):
                yield from self._pull_in_turn(stop.node)
        elif isinstance(stop, RetryImmediately):
            self._runner.interrupted(attempt, "asked to be run again")
        else:
            self._runner.interrupted(attempt, "interrupted")
            raise stop

    def _rest(self, exhausted: dict[Node, None]) -> None:
        """Who ran as often as may be and is still invalid rests; who rested and is clean now is well again."""
        fresh: list[Node] = []
        for node in exhausted:
            if node.is_clean or node.removed:
                continue
            if self._gates.back_off(node):
                fresh.append(node)
            if self._trace.on:
                self._trace.emit(Restless(self._now(), node.id, node.pass_runs))
            if node.live_refs:
                self.offer(node)
        self._recover()
        if fresh:
            self._report(restless(fresh))

    def _recover(self) -> None:
        for node in self._recovering:
            if node.is_clean:
                self._gates.settled(node)
        self._recovering.clear()

    def _expire(self) -> None:
        """The pass that made them is over: whoever has run, and found no reader, is dormant again."""
        for node in [node for node in self.lent if (node.runs and node.attempt is None) or node.removed]:
            del self.lent[node]
            if not node.removed:
                self._graph.liveness.expire(node)

    # -- for a caller --------------------------------------------------------------------------------------

    def pull(self, node: Node, perform: Perform) -> None:
        """A caller wants the value of a computation: make it valid, or raise what it raised.

        However long the chain is that it is the end of: if too many wait within each other, they are stopped, the one
        that they wait for is run first, and they again. Effects are not stopped; what they have done is done.
        """
        stack = self._runner.stack
        if self._pulling or (stack and stack[-1].outputs):
            drive(self._pull(node), perform)
        else:
            self._pulling = True
            try:
                drive(self._pull_in_turn(node), perform)
            finally:
                self._pulling = False
                if self._recovering and not self.settling:
                    self._recover()
        error = self._runner.raised(node)
        if error is not None:
            raise error

    def _pull_in_turn(self, node: Node) -> Iterator[Step]:
        """As `_pull`, for the outermost: what does not fit the stack is taken in turn."""
        waiting = [node]
        while waiting:
            try:
                yield from self._pull(waiting[-1])
            except TooDeep as deep:
                if deep.node in waiting:
                    raise circular(deep.node) from None
                waiting.append(deep.node)
                continue
            except UserCodeError:
                if len(waiting) == 1:
                    raise
                # Whoever asked for it will be told when it asks again.
            waiting.pop()

    def _pull(self, node: Node) -> Iterator[Step]:
        if node.running:
            raise circular(node)
        stack = self._runner.stack
        self._invalidation.drain()
        if len(stack) >= NESTED_MAX and node.status is not Status.CLEAN:
            raise TooDeep(node)
        if not self.is_surely_valid(node):
            yield from self._make_valid(node)

    def is_surely_valid(self, node: Node) -> bool:
        """Told without a walk: it is clean, nothing above can be invalid, and nobody who asks can be above it."""
        if node.status is not Status.CLEAN or node.running or self._invalidation.inbox:
            return False
        if self._invalidation.invalid and (
            not node.live_refs or node.ring or self._graph.envelopes or self._queue.is_before(node.rank)
        ):
            # Of a live node everything above is live, and stands in the queue with a lower rank if it has to run; but
            # for materializers, which wait for the others.
            return False
        for other in self._runner.stack:
            # One whose result nobody has read is above nobody.
            if other.rank <= node.rank and other.outputs and other.outputs[0] in self._graph.index.docs:
                return False
        return True

    def _make_valid(self, node: Node) -> Iterator[Step]:
        """What it read first, then, if any of that is different now, itself. Without recursion."""
        for _ in range(RUNS_MAX):
            runs, above = node.runs, self._upstream(node)
            ran: list[Node] = []
            for other in above:
                # From above downwards: a run makes those below invalid if it has to.
                if other.status is not Status.CLEAN and other.attempt is None and not self._is_excused(other):
                    ran.append(other)
                    yield from self._attempt_pulled(other)
            if node.runs == runs:
                # It is as it was: made, among others, from what is asking for it now?
                for other in above:
                    if other.running:
                        raise circular(other)
            if node.attempt is not None or self._is_excused(node):
                return
            if node.status is Status.CLEAN and not self._found_more(ran, above):
                return
            # What it read was changed while it ran: once more.
        raise restless([node])

    def _found_more(self, ran: list[Node], above: list[Node]) -> bool:
        """Whether one of these has read, without a call, what another writes that may have to run."""
        if not ran:
            return False
        known = set(above)
        for reader in ran:
            for other in [*self._graph.sources(reader), *self._graph.materializers(reader)]:
                if other in known or other.attempt is not None or self._is_excused(other):
                    continue
                if other.status is not Status.CLEAN or self._invalidation.invalid:
                    return True
        return False

    def _is_excused(self, node: Node) -> bool:
        """It has a value, and a gate says that this one will do for now."""
        return node.gate is not None and node.runs > 0 and self._gates.is_held(node)

    def _attempt_pulled(self, node: Node) -> Iterator[Step]:
        if node.gate is not None and node.gate.backoff_ms:
            self._recovering[node] = None
        attempt = self._runner.begin(node, pulled=True)
        try:
            yield attempt
        except RetryImmediately:
            self._runner.interrupted(attempt, "asked to be run again")
        except BaseException:
            self._runner.interrupted(attempt, "interrupted")
            raise
        else:
            self._runner.finish(attempt)

    def is_under_way(self, node: Node) -> bool:
        """It, or something above it, waits for something outside."""
        return any(other.attempt is not None for other in self._upstream(node))

    def _upstream(self, node: Node) -> list[Node]:
        """The node and everything above it, each after what it reads."""
        # By rank, which is what the order of ranks is for; rings as they were registered.
        found = {node: None}
        todo = [node]
        while todo:
            current = todo.pop()
            for other in [*self._graph.sources(current), *self._graph.materializers(current)]:
                if other not in found:
                    found[other] = None
                    todo.append(other)
        return sorted(found, key=lambda other: (other.rank, other.order))
