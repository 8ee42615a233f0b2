"""The runtime of a space: what openings of different apps share in one thread or event loop.

One replica, one session, one scheduler, one lock, one transaction for code of all of them. Each opening has its own
functions, and joins the runtime and leaves it at any time. The two drivers, for plain code and for an event loop, are
in `host`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Final, cast

from headwater.cells.context import CONTEXT
from headwater.cells.context_frame import ContextFrame
from headwater.cells.transaction import Transaction
from headwater.declare.functions.invocation import Invocation
from headwater.errors import ClosedError, NotOpen, UserCodeError
from headwater.machine import machine
from headwater.runtime.attached_replica import AttachedReplica
from headwater.runtime.bridges import BridgedRuntime, Bridges, SpaceWithBridges
from headwater.runtime.connection import Connection
from headwater.runtime.delivery import DeliveringRuntime, DeliveringSpace, SpaceDelivery, openings_with_delivery
from headwater.runtime.event_service import EventService
from headwater.runtime.host_parts import HostParts
from headwater.runtime.lease import Lease
from headwater.runtime.options import Options
from headwater.runtime.pieces.pieces import Pieces
from headwater.runtime.server_rules import event_server
from headwater.runtime.turns import Turns
from headwater.scheduler.graph.node import Node
from headwater.scheduler.runs.attempt import Attempt, Call
from headwater.scheduler.scheduler import Scheduler
from headwater.values.address import doc_key
from headwater.values.ids import BranchId, SessionId, SpaceId

OPENED: Final = "an app was opened"
"""Why a function runs again that has failed because the app was not open."""


class RuntimePart:
    """The part of one app in a runtime that no other app shares."""

    def seal(self) -> bool:
        """The opening is being closed. Returns whether no other app is open here: then none joins any more."""
        return True

    def end(self) -> bool:
        """The opening is closed, or was not made. Returns whether it was the last one."""
        return True


class RuntimeOpening(DeliveringSpace, SpaceWithBridges):
    """An app that is open in a runtime, as the runtime uses it."""

    runtime: SpaceRuntime
    events: EventService
    part: RuntimePart

    @property
    @abstractmethod
    def has_come(self) -> bool:
        """Whether its parts have work for a pass."""

    @property
    @abstractmethod
    def has_due_pieces(self) -> bool:
        """Whether another thread has left work on pieces."""

    @property
    @abstractmethod
    def running_pieces(self) -> Pieces | None:
        """Its pieces; None without any."""

    @abstractmethod
    def begin_pass(self) -> None:
        """Take in results from outside, and call due timers."""

    @abstractmethod
    def end_pass(self) -> None:
        """Request observed resources."""

    @abstractmethod
    def due_in(self) -> float | None:
        """Milliseconds until its next timer is due."""

    @abstractmethod
    def expire(self) -> None:
        """Invalidate readers of resources that went stale while not observed."""

    @abstractmethod
    def rest_clocks(self) -> None:
        """Idle: readers of clocks that are not observed become invalid."""

    @abstractmethod
    def start_returned(self, attempt: Call, invocation: Invocation[Any]) -> object:
        """Start the pattern that a function has returned."""


class SpaceRuntime(DeliveringRuntime, BridgedRuntime):
    """The shared part of the openings of one space, branch and actor, in one thread or event loop."""

    def __init__(self, lease: Lease, replica: AttachedReplica, options: Options, parts: HostParts) -> None:
        storage = lease.storage
        self.at_server: bool = storage.connection().state != "local"
        # The server decides whose session it is, and what belongs to it.
        # Drawn in any case: what is drawn later does not depend on where the space is.
        drawn = SessionId(options.entropy.token())
        session = replica.session if self.at_server else drawn
        super().__init__(replica, storage.name, session)
        self.actor: str | None = (storage.connection().actor or None) if self.at_server else options.actor
        self.branch = BranchId(options.branch)
        self.storage = storage
        # In the order of joining. Replaced, never changed: a pass of another thread may go through it.
        self.openings: tuple[RuntimeOpening, ...] = ()
        self.delivery: SpaceDelivery | None = None
        self.bridges: Bridges | None = None
        self.only_turns = False
        self._turns = Turns.of_process()
        # The id and the lineage of the space; empty if the server does not tell them.
        self.space_id = SpaceId("")
        self.lineage = b""
        self._take_identity()
        # Equal for all openings of one space.
        self.storage_key: object = (storage, options.branch)
        self.attached = replica
        self.inbox = replica.inbox
        self.now: Callable[[], float] = options.now
        # Held while the scheduler is used: passes of several threads run one after the other.
        self.lock = machine().rlock()
        # Held while an event is queued.
        self.sending = machine().lock()
        self.thread_id = machine().thread_id
        # The thread of the pass in progress.
        self.passing = 0
        # Those with pieces, resources or clocks.
        self.with_parts: tuple[RuntimeOpening, ...] = ()
        self.is_over = False
        self._console = parts.console
        self._listeners = parts.console.listeners
        self.scheduler: Scheduler = Scheduler(
            replica,
            now=options.now,
            perform=self._perform,
            report=self._report,
            tick=self._tick,
            space=self.name,
            wall_ms=options.wall,
            jitter=options.jitter,
            turn=self.lock,
            server=event_server(storage) if self.at_server else None,
        )
        parts.log_steps(self.name, self.scheduler.trace)
        storage.shows(self.scheduler.graph.writers.__contains__)
        # Functions may be async here.
        self.can_await = False
        # Another thread or loop runs what becomes due.
        self.is_woken = True

    # -- openings ------------------------------------------------------------------------------------------

    def join(self, opening: RuntimeOpening) -> None:
        """An opening is complete: its app is found by code of the others."""
        with self.lock:
            self.openings = (*self.openings, opening)
            self.by_owner = {**self.by_owner, opening.owner: opening, opening: opening}
            is_first = len(self.openings) == 1
        if is_first and self.at_server:
            # Last: the thread of the connection may call at once, and requests a pass.
            self.storage.on_connection(self._connection_changed)

    def leave(self, opening: RuntimeOpening, *, is_last: bool) -> None:
        """An opening is closed. The last one ends the runtime: nothing runs any more."""
        with self.lock:
            self.openings = tuple(each for each in self.openings if each is not opening)
            self.with_parts = tuple(each for each in self.with_parts if each is not opening)
            gone = (opening, opening.owner)
            self.by_owner = {owner: space for owner, space in self.by_owner.items() if owner not in gone}
            self.is_over = is_last
            self.look_for_pieces()
        if is_last:
            self.scheduler.dispose()
        else:
            self._remove_nodes(opening)

    def has_others(self, opening: RuntimeOpening) -> bool:
        """Whether apps besides this one are open here."""
        return any(each is not opening for each in self.openings)

    def gained_parts(self, opening: RuntimeOpening) -> None:
        """An opening has its first piece, resource or clock. The caller holds the lock."""
        if opening not in self.with_parts:
            self.with_parts = (*self.with_parts, opening)

    def _remove_nodes(self, opening: RuntimeOpening) -> None:
        """Remove the nodes of an opening that is closed. Their readers keep the last results."""
        with self.lock:
            registry, unread = self.scheduler.registry, self.scheduler.graph.unread
            before = dict(unread)
            # Pieces that these nodes have started are continued by the next opening.
            on_remove, registry.on_remove = registry.on_remove, None
            try:
                for node in [node for node in registry.nodes if node.spec.home is opening]:
                    self.scheduler.remove(node)
            finally:
                registry.on_remove = on_remove
                # Functions of others that only these have called keep their stored runs: the app is opened again.
                for node in [node for node in unread if node not in before]:
                    del unread[node]

    def look_for_pieces(self) -> None:
        """An opening has its first piece, or was closed. The caller holds the lock."""
        found = tuple(pieces for each in self.openings if (pieces := each.running_pieces) is not None)
        scheduler = self.scheduler
        if len(found) == 1:
            # Without a step in between: this is called for every run.
            scheduler.registry.on_remove, scheduler.runner.ended = found[0].removed, found[0].after
            return

        def removed(node: Node) -> None:
            for pieces in found:
                pieces.removed(node)

        def ended(attempt: Attempt) -> None:
            for pieces in found:
                pieces.after(attempt)

        scheduler.registry.on_remove = removed if found else None
        scheduler.runner.ended = ended if found else None

    def retry_unopened(self, app: str) -> None:
        """An app was opened: run functions again that have failed because it was not. The caller holds the lock."""
        scheduler = self.scheduler
        for node in list(scheduler.registry.nodes) if len(self.openings) > 1 else ():
            if isinstance(node.rare.error, NotOpen | ClosedError):
                scheduler.invalidation.mark(node, (doc_key(app), ()), OPENED)
                self._tick(True)

    # -- functions -----------------------------------------------------------------------------------------

    def home_of(self, attempt: Call) -> RuntimeOpening:
        """The opening of the function that an attempt calls."""
        return cast("RuntimeOpening", attempt.tx.node.spec.home or self.openings[0])  # type: ignore[attr-defined]

    def _perform(self, attempt: Call) -> None:
        """Call an author's function, with its transaction and its opening around it."""
        # As `home_of`: every run passes here.
        home: RuntimeOpening = attempt.tx.node.spec.home or self.openings[0]  # type: ignore[attr-defined]
        if self._listeners:
            self._console.run_begins(home)
        token = CONTEXT.set(ContextFrame(home, attempt.tx, CONTEXT.get()))
        try:
            result = attempt.fn(*attempt.arguments)
            attempt.result = home.start_returned(attempt, result) if type(result) is Invocation else result
        except Exception as error:  # noqa: BLE001  # whatever an author's function raises is the author's
            attempt.error = error
        finally:
            CONTEXT.reset(token)
            if self._listeners:
                self._console.run_ends(attempt.tx)

    def _report(self, error: UserCodeError) -> None:
        """An error that belongs to no opening."""
        self.openings[0].report(error)

    # -- passes --------------------------------------------------------------------------------------------

    def _tick(self, due: bool) -> None:  # noqa: FBT001  # asked by the scheduler
        self.has_work, self.only_turns = due, False

    @property
    def is_passing(self) -> bool:
        """Whether this code is called in the middle of a pass."""
        return self.passing == self.thread_id()

    @property
    def has_come(self) -> bool:
        """Whether a pass has work from outside, or from a thread that has changed pieces during the last pass."""
        return any(opening.has_come for opening in self.with_parts)

    def begin_pass(self) -> None:
        """Take in results from outside, and call due timers."""
        for opening in self.with_parts:
            opening.begin_pass()

    def end_pass(self) -> None:
        """Request observed resources."""
        for opening in self.with_parts:
            opening.end_pass()

    def call_due(self) -> None:
        """Call functions whose transactions are on disk."""
        for opening in self.openings:
            if opening.events.due:
                opening.events.call_due()

    def due_in(self) -> float | None:
        """Milliseconds until the next timer of an opening is due."""
        found = [due for opening in self.with_parts if (due := opening.due_in()) is not None]
        return min(found, default=None)

    def wake_in(self) -> float | None:
        """Seconds until something may be due; None: nothing is due without a write or an event."""
        with self.lock:
            wake_at = self.scheduler.outstanding().wake_at
            due_in = self.due_in()
        if wake_at is not None:
            left = max(wake_at - self.now(), 0.0)
            due_in = left if due_in is None else min(left, due_in)
        return None if due_in is None else due_in / 1000

    def catch_up_soon(self) -> None:
        """Ask for a pass."""
        self._tick(True)

    def make_up(self) -> None:
        """Request a pass again that was refused because of the lock. Plain code does so with its next call."""

    def wake(self) -> None:
        """Request a pass for a result from outside. From any thread."""
        self.catch_up_soon()

    @abstractmethod
    def nudge(self) -> None:
        """Run a pass if possible: another space has decided what this one waits for."""

    def await_decision(self, origin: Transaction) -> None:
        """Another space waits for the decision on a transaction of this one."""

    def call_in_loop(self, fn: Callable[..., object], *args: object) -> None:
        """Call a function where the code of this space runs: for plain code, in the current thread."""
        fn(*args)

    def _take_identity(self) -> None:
        """The id and the lineage, as the storage knows them. They stay as long as the runtime."""
        identity = self.storage.identity
        if identity is not None:
            self.space_id, self.lineage = identity
            for opening in self.openings:
                opening.space_id, opening.lineage = identity

    def _connection_changed(self, connection: Connection) -> None:
        if not self.space_id:
            # The server was updated while the space was open, or is reached for the first time.
            self._take_identity()
        if connection.state in ("live", "over") and not self.is_over:
            self.scheduler.lanes.server_is_back()
            self.wake()
            for home in openings_with_delivery() if self.openings else ():
                home.delivery.reconnected(self.openings[0])

    def end(self) -> None:
        """No opening was made: run nothing."""
        self.is_over = True
        self.scheduler.dispose()
        self.attached.detach()
