"""Make one computation valid for a caller.

A call in Python has to return a value, so a computation that is not current runs in the middle of its caller, in a
transaction of its own, after everything above it that has to run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from headwater.errors import UserCodeError
from headwater.scheduler.graph.edges import Graph
from headwater.scheduler.graph.node import Node, NodeStatus
from headwater.scheduler.graph.order import Queue
from headwater.scheduler.runs.attempt import Attempt
from headwater.scheduler.runs.function_errors import circular, restless
from headwater.scheduler.runs.gates import Gates
from headwater.scheduler.runs.immediate_retry import RetryImmediately
from headwater.scheduler.runs.invalidation import Invalidation
from headwater.scheduler.runs.runner import Runner
from headwater.scheduler.runs.steps import PassStep, Perform, drive
from headwater.scheduler.scheduler_limits import NESTED_MAX, RUNS_MAX
from headwater.values.notifications import Kind

_CLEAN: Final = NodeStatus.CLEAN

MADE_ROOM: Final = "made room for what it waits for"
"""The reason of a discarded attempt that does not count against the bound of a pass."""


class TooDeep(BaseException):  # no error: authors' code must not catch it
    """Raised when a computation has to run and the stack is full: its waiting callers are discarded, and run later."""

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self.node = node


class Puller:
    """Makes computations valid for callers."""

    def __init__(self, graph: Graph, gates: Gates, queue: Queue, invalidation: Invalidation, runner: Runner) -> None:
        self._graph = graph
        self._gates = gates
        self._queue = queue
        self._invalidation = invalidation
        self._runner = runner
        # An outer pull runs what does not fit on the stack.
        self._pulling = False
        # The caller is in the middle of a pass; in a run, which a resumed one is outside of a pass.
        self._in_pass = self._in_run = False
        # Nodes in backoff that were tried again: those that are clean at the end have recovered.
        self.recovering: dict[Node, None] = {}

    def pull(self, node: Node, perform: Perform, *, in_pass: bool, in_run: bool) -> None:
        """Make a computation valid for a caller, or raise its error.

        The chain above it may be longer than the stack: if too many runs wait for each other, they are discarded, the
        node that they wait for runs first, and they run again. Effects are not discarded.
        """
        stack = self._runner.stack
        self._in_pass, self._in_run = in_pass, in_run
        if self._pulling or (stack and stack[-1].outputs):
            drive(self._pull(node), perform)
        else:
            self._pulling = True
            try:
                drive(self.in_turn(node), perform)
            finally:
                self._pulling = False
                if self.recovering and not in_pass:
                    self._recover_dormant()
        error = self._runner.raised(node)
        if error is not None:
            raise error

    def recover(self) -> None:
        """A pass has ended: end the backoff of nodes that rested and are clean now."""
        for node in self.recovering:
            if node.is_clean:
                self._gates.settled(node)
        self.recovering.clear()

    def _recover_dormant(self) -> None:
        """A call outside of a pass has ended: end the backoff of nodes that are not live, and clean.

        Live ones wait for the end of a pass (I6): the nodes that make them invalid again may not have run yet.
        """
        for node in [node for node in self.recovering if not node.live_refs]:
            del self.recovering[node]
            if node.is_clean:
                self._gates.settled(node)

    def in_turn(self, node: Node) -> Iterator[PassStep]:
        """As `_pull`, for the outermost caller: nodes that do not fit on the stack run one after the other."""
        waiting = [node]
        turns: dict[Node, int] = {}
        while waiting:
            try:
                yield from self._pull(waiting[-1])
            except TooDeep as deep:
                if deep.node in waiting:
                    raise circular(deep.node) from None
                turns[deep.node] = turns.get(deep.node, 0) + 1
                if turns[deep.node] > RUNS_MAX:
                    # I6: it reached its limit of runs, and is still invalid.
                    raise restless([deep.node]) from None
                waiting.append(deep.node)
                continue
            except UserCodeError:
                if len(waiting) == 1:
                    raise
                # Its caller gets the error with its next call.
            waiting.pop()

    def _pull(self, node: Node) -> Iterator[PassStep]:
        if node.running:
            raise circular(node)
        stack = self._runner.stack
        if self._runner.look is not None:
            self._runner.look()
        self._invalidation.drain()
        if len(stack) >= NESTED_MAX and self._has_to_run(node):
            raise TooDeep(node)
        if not self.is_surely_valid(node):
            if node.status is NodeStatus.CLEAN and self._runner.is_hidden(node):
                self._invalidation.mark(node, (node.outputs[0], ()), Kind.REVERT)
            yield from self._make_valid(node)

    def is_surely_valid(self, node: Node) -> bool:
        """Whether it is valid without a search: it is clean, no input can be invalid, and no caller is above it."""
        if node.status is not _CLEAN or node.running or self._invalidation.inbox:
            return False
        if node.commit is not None and self._runner.is_hidden(node):
            return False
        if self._invalidation.invalid and (
            not node.live_refs
            or node.rare.cycle
            or self._graph.envelopes
            or self._queue.is_before(node.rank)
            or (self._gates.heap and self._gates.is_due(self._gates.heap[0][0]))
        ):
            # Everything above a live node is live, and queued with a lower rank if it has to run; except
            # materializers, which run after the others, and nodes whose time has come since the last pass.
            return False
        for other in self._runner.stack:
            # A node without readers is above no other node.
            if other.rank <= node.rank and other.outputs and other.outputs[0] in self._graph.index.docs:
                return False
        return True

    def has_valid_inputs(self, node: Node) -> bool:
        """Whether all that the last run of the running node has read is valid, without a search; as above."""
        if (
            self._invalidation.inbox
            or len(self._runner.stack) != 1
            or node.rare.kept is None
            or node.rare.kept.is_overtaken
        ):
            return False
        if not node.live_refs or node.rare.cycle or self._graph.envelopes:
            return False
        return not self._queue.is_before(node.rank)

    def _make_valid(self, node: Node) -> Iterator[PassStep]:
        """Run its invalid inputs, then, if one of them changed, the node itself. Without recursion."""
        for _ in range(RUNS_MAX):
            runs, above = node.runs, self.upstream(node)
            ran: list[Node] = []
            for other in above:
                # From top to bottom: a run invalidates the nodes below it if necessary.
                if self._has_to_run(other):
                    ran.append(other)
                    yield from self._attempt_pulled(other)
            if node.runs == runs:
                # It is unchanged: does it depend on its own caller?
                for other in above:
                    if other.running:
                        raise circular(other, node)
            if node.attempt is not None or node.removed:
                return
            if (node.status is NodeStatus.CLEAN or self._is_excused(node)) and not self._found_more(ran, above):
                if node.status is NodeStatus.CLEAN or node.has_value:
                    return
                break
            # One of its reads changed during the run: run again.
        raise restless([node])

    def _found_more(self, ran: list[Node], above: list[Node]) -> bool:
        """Whether a node above has to run again, or has read the output of an invalid node without a call."""
        if not ran:
            return False
        for other in above:
            # In a cycle: the last run has changed a read of the first.
            if self._has_to_run(other):
                return True
        known = set(above)
        # Also for nodes that did not run: a run may have registered a new writer of their reads.
        for reader in above if self._invalidation.invalid else ran:
            for other in self._sources(reader):
                if other in known or other.attempt is not None or self._is_excused(other):
                    continue
                if other.status is not NodeStatus.CLEAN or self._invalidation.invalid:
                    return True
        return False

    def _has_to_run(self, node: Node) -> bool:
        if node.status is NodeStatus.CLEAN or node.attempt is not None or node.removed:
            return False
        return not self._is_excused(node)

    def _is_excused(self, node: Node) -> bool:
        """Its current value is used: a gate delays it, or it reached the bound of this pass (I6).

        A function whose result the store does not take waits only where it would be tried again and again: plain code
        that calls it gets the result of now.
        """
        if node.gate is not None and node.has_value and self._runner.has_result(node):
            is_held = self._gates.is_held if self._in_run else self._gates.is_held_by_itself
            if is_held(node):
                return True
        return self._in_pass and node.pass_runs >= RUNS_MAX and node.pass_number == self._runner.pass_number

    def _attempt_pulled(self, node: Node) -> Iterator[PassStep]:
        if node.gate is not None and node.gate.backoff_ms:
            self.recovering[node] = None
        attempt = self._runner.begin(node, pulled=True)
        try:
            yield attempt
        except RetryImmediately:
            self._runner.interrupted(attempt, "asked to be run again")
        except TooDeep as deep:
            self.made_room(attempt, deep.node)
            raise
        except BaseException:
            self._runner.interrupted(attempt, "interrupted")
            raise
        else:
            self._runner.finish(attempt)

    def made_room(self, attempt: Attempt, waited: Node) -> None:
        """It was discarded because the stack was full: its input runs first. Does not count as restless at first."""
        runner = self._runner
        is_first = waited.pass_number != runner.pass_number
        runner.interrupted(attempt, MADE_ROOM if is_first else "made room once more")
        # I6: a start that was discarded for a node without a run in this pass does not count.
        attempt.node.pass_runs -= is_first

    def run(self, node: Node) -> Iterator[PassStep]:
        """Run a node whose inputs are current. Nodes that do not fit on the stack run first."""
        try:
            yield from self._attempt_pulled(node)
        except TooDeep as deep:
            # If that fails, the caller gets the error with its next call.
            with suppress(UserCodeError):
                yield from self.in_turn(deep.node)

    def is_under_way(self, node: Node) -> bool:
        """Whether it, or a node above it, is suspended."""
        return any(other.attempt is not None for other in self.upstream(node))

    def upstream(self, node: Node) -> list[Node]:
        """The node and all nodes above it, each after its sources."""
        if not node.above and not self._graph.envelopes:
            return [node]
        # By rank; within cycles, in the order of registration.
        found = {node: None}
        todo = [node]
        while todo:
            for other in self._sources(todo.pop()):
                if other not in found:
                    found[other] = None
                    todo.append(other)
        return sorted(found, key=lambda other: (other.rank, other.position))

    def _sources(self, node: Node) -> list[Node]:
        """The writers of its reads, with materializers that may write them."""
        graph = self._graph
        found = list(graph.sources(node)) if node.above else []
        return found + graph.materializers(node) if graph.envelopes else found
