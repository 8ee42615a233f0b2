"""A scheduler on a desk: documents in memory, a clock that stands still until it is told, and a log of what ran."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headwater.cells.transaction import Transaction
from headwater.core import NodeKind, NodeSpec, SetDoc, doc_key, freeze
from headwater.errors import UserCodeError
from headwater.scheduler.graph.node import Node
from headwater.scheduler.scheduler import Scheduler
from headwater.values.tree import ABSENT, Value
from tests.cells.replica.desk import Desk, see

START_MS = 1000.0


class Workshop:
    """Nodes are named like the documents they write. Nothing runs before `run`, nothing is decided before `decide`."""

    def __init__(self, *, demand: str = "lazy", desk: Desk | None = None) -> None:
        self.desk = desk or Desk()
        self.replica = self.desk.replica("here")
        self.time = START_MS
        self.log: list[str] = []
        self.errors: list[UserCodeError] = []
        self.ticks: list[bool] = []
        self.scheduler = Scheduler(
            self.replica,
            now=lambda: self.time,
            report=self.errors.append,
            tick=self.ticks.append,
            space="shop",
            demand=demand,
        )

    # -- documents -----------------------------------------------------------------------------------------

    def put(self, **documents: object) -> None:
        """Write whole documents, each in a commit of its own. Nothing runs yet."""
        for name, value in documents.items():
            self.replica.commit((SetDoc(doc_key(name), freeze(value)),))

    def see(self, name: str) -> Any:
        """A document, as built-in containers; NOTHING if it is not there."""
        return see(self.replica, name)

    # -- nodes ---------------------------------------------------------------------------------------------

    def computation(self, name: str, fn: Callable[[Transaction], object], **spec: Any) -> Node:
        """Its result is the document of its name."""
        spec.setdefault("outputs", (doc_key(name),))
        return self.scheduler.register(NodeSpec(name=name, fn=self._logged(name, fn), **spec))

    def effect(self, name: str, fn: Callable[[Transaction], object], **spec: Any) -> Node:
        return self.scheduler.register(
            NodeSpec(name=name, fn=self._logged(name, fn), kind=NodeKind.EFFECT, **spec),
        )

    def sum(self, name: str, *sources: str, **spec: Any) -> Node:
        """The sum of documents."""
        return self.computation(name, lambda tx: sum(number(tx, source) for source in sources), **spec)

    def show(self, name: str, *sources: str, **spec: Any) -> Node:
        """An effect that only reads."""
        return self.effect(name, lambda tx: [number(tx, source) for source in sources], **spec)

    def _logged(self, name: str, fn: Callable[[Transaction], object]) -> Callable[[Transaction], object]:
        def run(tx: Transaction) -> object:
            self.log.append(name)
            return fn(tx)

        return run

    # -- time ----------------------------------------------------------------------------------------------

    def run(self) -> list[str]:
        """Run until nothing is left but what waits for time. Returns who ran, in order."""
        self.scheduler.idle()
        return self.taken()

    def after(self, ms: float) -> list[str]:
        """Let time pass, and run."""
        self.time += ms
        return self.run()

    def taken(self) -> list[str]:
        log, self.log = self.log, []
        return log

    def wake_in(self) -> float | None:
        """Milliseconds until there may be something to do."""
        wake_at = self.scheduler.outstanding().wake_at
        return None if wake_at is None else wake_at - self.time

    def decide(self) -> None:
        """The store decides on everything that waits, and everybody is told."""
        self.desk.settle()


def number(tx: Transaction, name: str) -> Any:
    """A document that holds a number; 0 if there is none."""
    value = tx.read(doc_key(name))
    return 0 if value is ABSENT else value


def write(tx: Transaction, name: str, value: Value) -> None:
    tx.set(doc_key(name), (), value)
