"""One resource with one set of arguments, a request for it, and the stored record of its result."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from headwater.cells.cell import Cell
from headwater.cells.space_port import SpacePort
from headwater.cells.transaction import Transaction
from headwater.declare.resources.resource_options import RequestOptions
from headwater.declare.resources.resource_state import Failed, Pending, Ready, ResultAge, State
from headwater.errors import ResourceError, SchemaError
from headwater.scheduler.graph.node import Node
from headwater.values.address import Depth
from headwater.values.ids import DocKey
from headwater.values.patch import Remove
from headwater.values.tree import ABSENT, Maybe, Value, get, is_link, is_map, map_of, same

READY: Final = "ready"
FAILED: Final = "failed"

FAILED_MS: Final = 5000.0
"""How long a failure counts for calls without `fresh_for`: a loop of calls does not flood a server that is down, and a
repaired server is asked again soon."""


class Cancelable(Protocol):
    """A timer that was set."""

    def cancel(self) -> None:
        """Do not call. Idempotent."""


@dataclass(slots=True, eq=False)
class ResourceRequest:
    """One request, from the decision to its end. Written by the fetcher."""

    source: ResourceInstance
    # The number of rejected commits at the decision.
    rejected: int
    # It waits for the disk, or has left.
    has_left: bool = False
    # Not wanted any more, or requested anew: its result is dropped.
    is_stopped: bool = False
    # Wall time of its end.
    ended_ms: float = 0.0
    # Its result: one of the two, or neither, if it was cancelled.
    value: object = ABSENT
    error: BaseException | None = None


@dataclass(slots=True, eq=False)
class ResourceInstance:
    """One resource with one set of arguments, in one open space. Written by the fetcher, under the space's lock."""

    # Fixed.
    request_options: RequestOptions
    label: str
    doc: DocKey
    call: Callable[[], Coroutine[Any, Any, object]]
    value: Cell[Any]
    # Set once, when its node is registered.
    node: Node = field(init=False)
    # The number of the last call: of the unobserved ones, the oldest are removed first.
    used: int = 0
    # Called by code that does not observe it: wanted until there is a result.
    is_called: bool = False
    # Newly observed; the stored result does not fit its type; a request was demanded, fresh or not.
    is_newly_observed: bool = False
    is_unreadable: bool = False
    is_forced: bool = False
    # The request in progress.
    request: ResourceRequest | None = None
    # Failures in a row, and the time of the next attempt, on the monotonic clock.
    failures: int = 0
    retry_at: float | None = None
    timer: Cancelable | None = None
    # While it is not observed: when its result goes stale.
    stale_at: float | None = None
    # Requests that have left, for people.
    requests: int = 0

    @property
    def is_wanted(self) -> bool:
        """It is observed, or a caller waits for a result."""
        return (self.node.is_live or self.is_called) and not self.node.removed

    def due_at(self, record: Maybe) -> float | None:
        """The wall time of the next request; None: none by itself."""
        state = get(record, ("state",))
        if self.is_forced or self.is_unreadable or state not in (READY, FAILED):
            return 0.0
        if state == FAILED and self.is_newly_observed:
            return 0.0
        came = get(record, ("at" if state == READY else "failed_at",))
        counts_ms = self.counts_ms(record)
        return None if counts_ms is None or not isinstance(came, int | float) else came + counts_ms

    def counts_ms(self, record: Maybe) -> float | None:
        """How long the stored state counts before the next request; None: for ever."""
        fresh_ms = self.request_options.fresh_ms
        if fresh_ms is None and get(record, ("state",)) == FAILED and not self.node.is_live:
            return FAILED_MS
        return fresh_ms

    def state(
        self,
        home: SpacePort,
        tx: Transaction | None,
        wall: Callable[[], float],
        found_unreadable: Callable[[ResourceInstance], None],
    ) -> State[Any]:
        """The stored state, read in a transaction if there is one. Does not depend on its time."""
        source = home.untracked if tx is None else tx
        state = source.read(self.doc, ("state",))
        if state not in (READY, FAILED):
            return Pending()
        try:
            has_value = source.read(self.doc, ("value",), Depth.SHALLOW) is not ABSENT
            value = self.value.value if has_value else None
        except SchemaError:
            # Stored with another type: as if there were no result.
            found_unreadable(self)
            return Pending()
        if state == READY:
            at = get(source.document(self.doc), ("at",))

            def note() -> None:
                if tx is not None and tx.is_open:
                    tx.record(self.doc, ("at",), Depth.DEEP)

            at_ms = float(at) if isinstance(at, int | float) else 0.0
            return Ready(value, ResultAge(at_ms, self.request_options.fresh_ms, wall, note))
        told = source.read(self.doc, ("error",))
        return Failed(self._error(told), value)

    def _error(self, told: Maybe) -> ResourceError:
        kind, text, tries = (get(told, (field,)) for field in ("kind", "text", "tries"))
        times = f" {tries} times" if isinstance(tries, int) and tries > 1 else ""
        message = f"{self.label} failed{times}: {text!s}"
        return ResourceError(message, resource=self.request_options.name, kind=kind, text=text, tries=tries)


def ready_record(value: Value, at_ms: float) -> Value:
    """The record of a result and its time."""
    return map_of({"state": READY, "value": value, "at": int(at_ms)})


def failed_record(before: Maybe, kind: str, text: str, tries: int, at_ms: float) -> Value:
    """The record of a failure. The last good result stays, with its time."""
    record: dict[str, Value] = {
        "state": FAILED,
        "error": map_of({"kind": kind, "text": text, "tries": tries}),
        "failed_at": int(at_ms),
    }
    if is_map(before):
        record |= {name: before[name] for name in ("value", "at") if name in before}
    return map_of(record)


def write_record(tx: Transaction, doc: DocKey, before: Maybe, record: Value) -> None:
    """Write what differs: a result that stays the same is not written again, however large it is."""
    if not is_map(before) or not is_map(record):
        tx.set(doc, (), record)
        return
    for name in [name for name in before if name not in record]:
        tx.patch(doc, Remove((name,)))
    for name, new in record.items():
        old = before.get(name, ABSENT)
        if is_map(old) and is_map(new) and old.keys() == new.keys() and not is_link(old):
            for key in [key for key in new if not same(old[key], new[key])]:
                tx.set(doc, (name, key), new[key])
        elif not same(old, new):
            tx.set(doc, (name,), new)
