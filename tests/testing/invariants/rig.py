"""A scheduler with nothing around it: functions of a transaction, documents in memory, and a clock that stands."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from headwater.core import ABSENT, Node, NodeKind, NodeSpec, Scheduler, SetDoc, Transaction, doc_key, freeze, open_space
from headwater.errors import UserCodeError
from headwater.scheduler.trace import RunStarted, TraceRecord
from headwater.testing import SimClock
from headwater.testing.invariants.scheduler_invariants import SchedulerWatch, check, check_trace
from tests.support.naive import NOTHING, plain


class Rig:
    """Everything is looked at: each attempt as it begins, the records after each `settle`, the trace at the end."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.storage = open_space("memory:")
        self.replica = self.storage.attach()
        self.errors: list[UserCodeError] = []
        self.scheduler = Scheduler(self.replica, now=self.now, report=self.errors.append)
        self.watch = SchedulerWatch(self.scheduler)

    def now(self) -> float:
        return float(self.clock.now_ms())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            if kind is None:
                self.check()
        finally:
            self.scheduler.dispose()
            self.storage.close()

    # -- documents -----------------------------------------------------------------------------------------

    def write(self, **values: object) -> None:
        """One commit."""
        self.replica.commit([SetDoc(doc_key(name), freeze(value)) for name, value in values.items()])

    def read(self, name: str) -> Any:
        value = plain(self.replica.read(doc_key(name)))
        return None if value is NOTHING else value

    # -- nodes ---------------------------------------------------------------------------------------------

    def computation(self, name: str, fn: Callable[[Transaction], object], *sides: str, **options: Any) -> Node:
        outputs = (doc_key(name), *map(doc_key, sides))
        return self.scheduler.register(NodeSpec(name=name, fn=fn, outputs=outputs, **options))

    def effect(self, name: str, fn: Callable[[Transaction], object], **options: Any) -> Node:
        return self.scheduler.register(NodeSpec(name=name, fn=fn, kind=NodeKind.EFFECT, **options))

    # -- time ----------------------------------------------------------------------------------------------

    def settle(self) -> list[str]:
        """Run what has to run; returns who did, in this order."""
        start = len(self.records)
        self.scheduler.idle()
        self.check()
        return [record.node.partition("#")[0] for record in self.records[start:] if isinstance(record, RunStarted)]

    def advance(self, ms: int) -> list[str]:
        self.clock.advance(ms)
        return self.settle()

    # -- claims --------------------------------------------------------------------------------------------

    @property
    def records(self) -> list[TraceRecord]:
        return self.watch.records

    def check(self) -> None:
        check(self.scheduler)
        check_trace(self.records)


def look(tx: Transaction, name: str, default: Any = 0) -> Any:
    """What stands in a document."""
    value = tx.read(doc_key(name))
    return default if value is ABSENT else plain(value)
