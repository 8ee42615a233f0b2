"""Is a computation what it has to be: the same again for the same inputs? Tried by running each a second time.

For tests. The second run is in a transaction that is never committed; nothing that is decided elsewhere depends on it.

Must never know: who runs next.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec

from headwater.cells.replica import Replica
from headwater.cells.transaction import Transaction
from headwater.scheduler.attempt import Attempt, RetryImmediately
from headwater.scheduler.node import Node
from headwater.scheduler.pull import TooDeep
from headwater.scheduler.runner import Runner
from headwater.scheduler.steps import Perform
from headwater.scheduler.trouble import shown
from headwater.values.address import address_text
from headwater.values.tree import Maybe, same


class Difference(msgspec.Struct, frozen=True):
    """Something that came out differently the second time."""

    node: str
    place: str
    first: object
    second: object

    def __str__(self) -> str:
        return (
            f"{self.node}() is not idempotent: run again on the same inputs, {self.place} was {self.second!r} "
            f"instead of {self.first!r}; move what differs (time, chance, counters) into a cell or a handler"
        )


class Diagnosis:
    """The idempotency check."""

    def __init__(self, runner: Runner, replica: Replica, perform: Perform) -> None:
        self._runner = runner
        self._replica = replica
        self._perform = perform
        self.differences: list[Difference] = []

    def check_idempotency(self, *, on: bool) -> None:
        """From now on, or no longer."""
        self._runner.after = self._recheck if on else None

    def _recheck(self, attempt: Attempt) -> None:
        node = attempt.node
        if not node.outputs or node.spec.is_async or not node.is_clean:
            # An effect may do what it likes; and of what was changed meanwhile nothing can be said.
            return
        tx = Transaction(self._replica, f"{node.title} again", read_only=node.spec.read_only, cause=attempt.tx.cause)
        tx.node, tx.triggers, tx.surface = node, attempt.causes, node.surface
        again = Attempt(self._runner, node, tx, self._replica.version, attempt.started, pulled=True)
        self._runner.stack.append(node)
        node.running = True
        try:
            # What asks to be run again, or for room, is not compared.
            with suppress(RetryImmediately, TooDeep):
                self._perform(again)
                self._compare(node, again)
        finally:
            node.running = False
            self._runner.stack.pop()
            if tx.is_open:
                tx.abort()

    def _compare(self, node: Node, again: Attempt) -> None:
        if shown(again.error) != shown(node.error):
            self._differs(node, "what it raised", node.error, again.error)
        if again.error is not None or node.error is not None:
            return
        output = node.outputs[0]
        if not node.breadth:
            self._look(node, output, self._replica.read(output), node.spec.store(again.result))
        for doc, value in again.tx.written():
            self._look(node, doc, self._replica.read(doc), value)

    def _look(self, node: Node, doc: str, first: Maybe, second: Maybe) -> None:
        if not same(first, second):
            self._differs(node, address_text(doc, ()), first, second)  # type: ignore[arg-type]

    def _differs(self, node: Node, place: str, first: object, second: object) -> None:
        self.differences.append(Difference(node.name, place, first, second))
