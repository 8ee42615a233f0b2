"""The runtime of an open space: transactions, functions, events, closing.

It composes the parts of a space, for plain code and for code in an event loop alike; `host` has the two drivers and the
facades that authors hold.

Length: one object owns the lock, the scheduler and the order in which the parts of a space are opened and closed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from inspect import iscoroutine
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from msgspec.structs import asdict

from headwater.cells.cell import Cell
from headwater.cells.context import CONTEXT, open_spaces
from headwater.cells.context_frame import ContextFrame
from headwater.cells.document_class import Doc
from headwater.cells.missing_documents import GuardedReads, gate_of
from headwater.cells.pending_commit import call_all
from headwater.cells.transaction import Transaction
from headwater.declare.functions.enclosing_piece import EnclosingPiece
from headwater.declare.functions.fingerprint import Fingerprints
from headwater.declare.functions.instances import Instance, Instances, Key
from headwater.declare.functions.invocation import Invocation
from headwater.declare.patterns.pattern import Pattern
from headwater.declare.patterns.piece import Piece
from headwater.errors import HeadwaterError, UsageError, UserCodeError
from headwater.machine import machine
from headwater.runtime.attached_replica import AttachedReplica
from headwater.runtime.block_commit import commit_block
from headwater.runtime.by_address import ByAddress
from headwater.runtime.connection import Connection
from headwater.runtime.console_port import OnConsole
from headwater.runtime.entered_space import EnteredSpace
from headwater.runtime.error_report import OnError, chosen, tell
from headwater.runtime.event_service import EventService
from headwater.runtime.host_parts import HostParts, WorkflowHost
from headwater.runtime.inspection_port import GraphForm, InspectedSpace, InspectionPort
from headwater.runtime.lease import Lease
from headwater.runtime.options import Options
from headwater.runtime.pieces.piece_host import PieceHost
from headwater.runtime.pieces.pieces import Pieces
from headwater.runtime.resources.outside import OutsideParts
from headwater.runtime.restore import RestorePort, Restorer, Resumption
from headwater.runtime.run_cache import RunCache
from headwater.runtime.run_counts import RunCounts
from headwater.runtime.server_rules import event_server, left
from headwater.runtime.stats import Stats
from headwater.runtime.sync_wait import raise_lost
from headwater.runtime.type_records import TypeRecordsPort
from headwater.runtime.workflows.run_host import RunHost
from headwater.scheduler.events.event import EventRecord, HandlerRecord, HandlerSpec
from headwater.scheduler.graph.node import Node, NodeSpec
from headwater.scheduler.runs.attempt import Attempt, Call
from headwater.scheduler.scheduler import Scheduler
from headwater.store.engine import Engine
from headwater.values.ids import MAIN, BranchId, DocKey
from headwater.values.shrink import shrunk
from headwater.values.tree import Value

if TYPE_CHECKING:
    from headwater.runtime.workflows.hub import Hub

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")
D = TypeVar("D", bound=Doc)


class SpaceRuntime(
    OutsideParts, EnteredSpace, ByAddress, PieceHost, TypeRecordsPort, RestorePort, RunHost, InspectedSpace
):
    """The runtime of an open space, plain or async."""

    def __init__(
        self, lease: Lease, replica: AttachedReplica, owner: object, options: Options, parts: HostParts
    ) -> None:
        super().__init__(replica, lease.storage.name, owner, options.entropy, options.actor)
        self._lease = lease
        self.parts = parts
        self.console = parts.console
        self._attached = replica
        at_server = lease.storage.connection().state != "local"
        if at_server:
            # The server decides whose session it is, and what belongs to it.
            self.session = replica.session
            self.actor: str | None = lease.storage.connection().actor or None
            self.gate = gate_of(replica, self.name)
            self.untracked = GuardedReads(replica, self.gate)
        self.inbox = replica.inbox
        self.on_error: OnError = chosen(options.on_error)
        # Held while the scheduler is used: passes of several threads run one after the other.
        self.lock = machine().rlock()
        self.nodes: dict[object, Node] = {}
        self.counts: RunCounts = RunCounts(self)
        # Functions with parameters: a node for each set of arguments.
        self.instances: dict[object, Instances] = {}
        self.scheduler: Scheduler = Scheduler(
            replica,
            now=options.now,
            perform=self._perform,
            report=self.report,
            tick=self._tick,
            space=self.name,
            demand=options.demand,
            wall_ms=options.wall,
            jitter=options.jitter,
            turn=self.lock,
            keep_failed=options.keep_failed,
            server=event_server(lease.storage) if at_server else None,
        )
        parts.log_steps(self.name, self.scheduler.trace)
        lease.storage.shows(self.scheduler.graph.writers.__contains__)
        is_kept = options.local is not None
        self.events: EventService = EventService(
            self, (lambda: left(lease.storage.connection(), is_kept=is_kept)) if at_server else None
        )
        self.fingerprints: Fingerprints = parts.fingerprints()
        self.restorer: Restorer = Restorer(self, options.branch)
        self._pieces: Pieces | None = None
        self.now: Callable[[], float] = options.now
        self._face(options, parts.resources)
        # The thread of the pass in progress.
        self._passing = 0
        # Pieces, resources or clocks: a pass asks them only if there are some.
        self._has_parts = False
        self._thread_id = machine().thread_id
        self._listeners = parts.console.listeners
        self._face_blocks()
        self._closers: list[Callable[[object], None]] = []
        open_spaces().append(self)
        self.on_console = options.on_console
        self.inspection: InspectionPort = parts.inspection(self, lease, options, replica)
        self.is_in_memory = lease.path is None
        self._wall = options.wall
        self.branch: BranchId = BranchId(options.branch)
        self.is_main: bool = options.branch == MAIN
        self.keeps_types: bool = options.local is None if at_server else lease.path is not None
        self.forces: bool = options.force  # deploy workflows although waiting events would be skipped
        self._workflows: WorkflowHost | None = None
        self._flows: Hub | None = None
        # Functions may be async here.
        self.can_await: bool = False
        # Another thread or loop runs what becomes due.
        self.is_woken: bool = True
        if at_server:
            # Last: the thread of the connection may call at once, and requests a pass.
            lease.storage.on_connection(self._connection_changed)
        if options.prepare is not None:
            options.prepare(self)

    @property
    def on_console(self) -> OnConsole | None:
        """Called with the output and log messages of runs, as `hw.Console`; returns the text to forward."""
        return self.console.handler_of(self)

    @on_console.setter
    def on_console(self, handler: OnConsole | None) -> None:
        if handler is not None:
            self.check_open()
        self.console.listen(self, handler, self.report)

    def report(self, error: UserCodeError) -> None:
        """Report an error of an author's function, unless the start of its piece is being rolled back."""
        error.facts.setdefault("space", self.name)
        if self._pieces is None or not self._pieces.is_taken_back(error.facts.get("piece")):
            tell(self.on_error, error)

    def _tick(self, due: bool) -> None:  # noqa: FBT001  # asked by the scheduler
        self.has_work = due

    def _perform(self, attempt: Call) -> None:
        """Call an author's function, with its transaction around it."""
        if self._listeners:
            self.console.run_begins(self)
        token = CONTEXT.set(ContextFrame(self, attempt.tx, CONTEXT.get()))
        try:
            attempt.result = attempt.fn(*attempt.arguments)
            if type(attempt.result) is Invocation:
                attempt.result = self.start_returned(attempt, attempt.result)
        except Exception as error:  # noqa: BLE001  # whatever an author's function raises is the author's
            attempt.error = error
        finally:
            CONTEXT.reset(token)
            if self._listeners:
                self.console.run_ends(attempt.tx)

    def start_returned(self, attempt: Call, asked: Invocation[Any]) -> object:
        """Start the pattern that a function has returned. Returns the reference to the piece for its result."""
        if not isinstance(attempt, Attempt):
            message = f"{attempt.title} cannot return {asked!r}: only a computed has children; use hw.start(...)"
            raise UsageError(message)
        return self.pieces.start_returned(attempt, asked)

    # -- functions -----------------------------------------------------------------------------------------

    def add_node(self, function: object, spec: NodeSpec) -> Node:
        """Register the node of a declared function."""
        with self.lock:
            node = self.nodes[function] = self.scheduler.register(spec)
            self.restorer.take_over_one(node)
            return node

    def instances_of(self, function: object) -> Instances:
        """The nodes of a function with parameters."""
        found = self.instances.get(function)
        if found is None:
            found = self.instances[function] = Instances(self.scheduler, self.restorer.forget)
        return found

    def add_instance(self, function: object, key: Key, made: Callable[[], tuple[NodeSpec, Cell[Any]]]) -> Instance:
        """Register the node for one set of arguments, unless another thread has done so."""
        with self.lock:
            instances = self.instances_of(function)
            found = instances.get(key)
            if found is None:
                found = instances.put(key, *made())
                around: EnclosingPiece | None = getattr(function, "enclosing_piece", None)
                self.restorer.take_over_one(found.node, "" if around is None else around.prefix)
            return found

    def stop_sink(self, sink: object) -> None:
        """Remove the node of a sink. Its runs stay counted."""
        with self.lock:
            self.counts.stop(sink)
            self.drop(sink)

    def drop(self, function: object) -> None:
        """Remove the nodes of a function that another one has replaced."""
        with self.lock:
            gone = self.instances.pop(function).nodes() if function in self.instances else []
            gone += [self.nodes.pop(function)] if function in self.nodes else []
            self.events.drop(function)
            if self._fetcher is not None:
                self._fetcher.drop(function)
            for node in gone:
                self.scheduler.renew(node)
                self.scheduler.remove(node)

    def shrink(self) -> None:
        """Give back memory after many nodes have gone. The caller holds the lock."""
        self.nodes = shrunk(self.nodes)
        self.scheduler.registry.fit()
        self.replica.shrink()

    def retire(self, function: object, *, notify: bool = False) -> None:
        """Remove a function of a stopped piece. Its readers keep its result, unless they are notified."""
        with self.lock:
            self.counts.leave(function)
            gone = self.instances.pop(function).nodes() if function in self.instances else []
            gone += [self.nodes.pop(function)] if function in self.nodes else []
            self.events.drop(function)
            if self._fetcher is not None:
                # Its readers ask the resource that replaces it.
                self._fetcher.drop(function)
            for node in gone:
                if notify or node.error is not None:
                    # An error is no result: it ends with the function that raised it.
                    self.scheduler.renew(node)
                self.scheduler.remove(node)

    # -- pieces --------------------------------------------------------------------------------------------

    @property
    def pieces(self) -> Pieces:
        """The pieces of this space."""
        if self._pieces is None:
            self.check_open()
            with self.lock:
                # Unless another thread was faster.
                if self._pieces is None:
                    made = Pieces(self, getattr(self.owner, "name", ""))
                    self.scheduler.registry.on_remove = made.removed
                    self.scheduler.runner.ended = made.after
                    self._pieces = made
                    self._has_parts = True
        return self._pieces

    def start(self, pattern: Pattern[P, R], key: str, /, *args: P.args, **inputs: P.kwargs) -> Piece[R]:
        """Start a piece of a pattern under a key, or continue it: `space.start(timer, "kitchen", minutes=3)`.

        The same key is the same piece: with the same inputs nothing happens; with other inputs it is built again, and
        unchanged functions need not run. Without inputs it continues with its last ones. Called by a computed or sink,
        the piece is a child of that function: it is stopped when a run no longer asks for it. In a handler or a
        transaction, the start is part of it.
        """
        return self.pieces.start(pattern, key, args, inputs)

    def has_at_work(self, piece: str) -> bool:
        """Whether the piece with this id was started in this opening, and is not stopped."""
        return self._pieces is not None and piece in self._pieces.running

    def captioned(self, text: str) -> str:
        """A text with the titles of pieces in the place of their ids."""
        return text if self._pieces is None else self._pieces.captioned(text)

    def store_observations(self) -> None:
        """Everything written so far is on disk: store observations, and release what was stopped."""
        self.restorer.keep()
        if self._pieces is not None:
            self._pieces.sweep()
        if self._fetcher is not None:
            self._fetcher.let_go()

    @property
    def has_come(self) -> bool:
        """Whether a pass has work from outside, or from a thread that has changed pieces during the last pass."""
        return super().has_come or (self._pieces is not None and self._pieces.is_due)

    def _begin_pass(self) -> None:
        """Take in results from outside, and call due timers."""
        if self._pieces is not None:
            self._pieces.catch_up()
        self._take_in_outside()

    def _end_pass(self) -> None:
        """Request observed resources."""
        if self._pieces is not None:
            self._pieces.sleeping.end_pass()
        self._look_outside()

    # -- workflows -----------------------------------------------------------------------------------------

    @property
    def flows(self) -> Hub:
        """The workflows of this file."""
        self.check_open()
        if self._flows is None:
            self._flows = self.parts.workflows().hub_of(self._lease.local, self._wall, self.branch)
        return self._flows

    @property
    def workflows(self) -> WorkflowHost:
        """Execution of the workflows: `drain()` what is due, or `start()` a host in the background."""
        if self._workflows is None:
            self._workflows = self.parts.workflows().host(self, self.flows)
        return self._workflows

    def _stop_workflows(self) -> None:
        if self._workflows is not None:
            self._workflows.stop()
            self._workflows = None

    # -- events --------------------------------------------------------------------------------------------

    @property
    def handlers(self) -> dict[object, HandlerRecord]:
        """The record of each handler of the app."""
        return self.events.handlers

    def add_handler(self, function: object, spec: HandlerSpec) -> None:
        """Register a handler."""
        self.events.add(function, spec)

    def around(self) -> tuple[SpaceRuntime, Transaction]:
        """This space, and its transaction around the code, for a function that handles an event."""
        frame = CONTEXT.get()
        assert frame is not None
        assert frame.tx is not None
        return self, frame.tx

    def send(self, stream: str, payload: Value, outside: tuple[str, str] | None = None) -> EventRecord:
        """Send an event to the handler of the stream; see `Handler.send`."""
        return self.events.send(stream, payload, outside)

    def wait_for(self, event: EventRecord, timeout_ms: float | None) -> None:
        """Return when an event has ended. Raises EventTimeoutError. Plain and async runtimes override it."""

    async def until(self, event: EventRecord) -> None:
        """Wait for an event in async code."""
        message = f"{event.id} cannot be awaited: the space was opened for plain code; ask for ticket.result()"
        raise UsageError(f"{message}, or open it with `async with app.aopen(...)`", event=event.id)

    def when_ended(self, event: EventRecord, callback: Callable[[EventRecord], object], named: object = None) -> None:
        """Call once, when an event has ended, with any outcome."""
        self.events.when_ended(event, callback, named)

    def call_soon(self, fn: Callable[[], object]) -> None:
        """Call a function after the next pass, with no transaction around it."""
        self.events.call_soon(fn)

    @property
    def has_bad_news(self) -> bool:
        """Whether a rejection may wait to be taken in."""
        return self._attached.has_bad_news()

    @property
    def is_passing(self) -> bool:
        """Whether this code is called in the middle of a pass."""
        return self._passing == self._thread_id()

    def resume_events(self) -> None:
        """Resume unhandled events of the last opening, except those that other openings in this process handle."""
        with self.lock:
            self.events.resume()

    def catch_up_soon(self) -> None:
        """Ask for a pass."""
        self._tick(True)

    def nudge(self) -> None:
        """Run a pass if possible: another space has decided what this one waits for."""

    def await_decision(self, origin: Transaction) -> None:
        """Another space waits for the decision on a transaction of this one."""

    def detach_coroutine(self, result: object) -> None:
        """Run the coroutine that an author's function returned. Plain code has no loop for it."""
        if iscoroutine(result):
            result.close()
            raise UsageError("an async function needs an event loop: open the app with `async with app.aopen(...)`")

    def ask_store(self, question: Callable[[Engine], T]) -> T:
        """Call a function with the engine, between two groups of commits."""
        return self._lease.local.call(question)

    @property
    def run_cache(self) -> RunCache:
        """The stored observations of runs, for the next opening."""
        return self._lease.storage.run_cache

    def release_documents(self, docs: Collection[DocKey]) -> None:
        """Release documents from memory."""
        self._lease.storage.let_go(self.branch, docs)

    @property
    def connection(self) -> Connection:
        """The state of the connection to the server; of a space in this process, that there is none."""
        return self._lease.storage.connection()

    def on_connection(self, callback: Callable[[Connection], None]) -> Callable[[], None]:
        """Call on every change of the connection: in the connection's thread, or in the loop of this space.

        Returns a function that unsubscribes. The callback must not wait for the server: the connection waits for it.
        """
        given: object = callback
        if not callable(given):
            raise UsageError(f"space.on_connection takes a function of a Connection, not {given!r}")
        self.check_open()
        return self._lease.storage.on_connection(lambda connection: self.call_in_loop(callback, connection))

    def _connection_changed(self, connection: Connection) -> None:
        if connection.state in ("live", "over") and not self.closed:
            self.scheduler.lanes.server_is_back()
            self.wake()

    def call_in_loop(self, fn: Callable[..., object], *args: object) -> None:
        """Call a function where the code of this space runs: for plain code, in the current thread."""
        fn(*args)

    def explain_resume(self) -> Resumption:
        """What this opening restored from earlier ones: which functions need not run, which must, and why."""
        return self.restorer.explain()

    def wait_for_disk(self, timeout: float | None = None) -> None:
        """Return when everything written so far is decided."""
        self._lease.storage.wait(timeout)

    def wake_in(self) -> float | None:
        """Seconds until something may be due; None: nothing is due without a write or an event."""
        with self.lock:
            wake_at = self.scheduler.outstanding().wake_at
            due_in = self.timers.due_in()
        if wake_at is not None:
            left = max(wake_at - self.now(), 0.0)
            due_in = left if due_in is None else min(left, due_in)
        return None if due_in is None else due_in / 1000

    # -- nodes ---------------------------------------------------------------------------------------------

    def computation(self, name: str) -> Node | None:
        """The node of a computed function, by its name."""
        return next((node for node in self.nodes.values() if node.name == name and node.outputs), None)

    def pull(self, node: Node, *, in_run: bool = False) -> None:
        """Make a computation valid for a caller, or raise its error."""
        with self.lock:
            if self._fetcher is not None:
                self._fetcher.expire()
            try:
                self.scheduler.pull(node, in_run=in_run)
            finally:
                if self.clocks and self.scheduler.runner.innermost is None:
                    self.rest_clocks()
            if self.scheduler.graph.unread:
                # Not only after a pass: if nothing is observed, there may be no pass for long.
                self.scheduler.sweep()

    # -- transactions of plain code --------------------------------------------------------------------------

    def begin(self, name: str = "", *, read_only: str = "", cause: object = None) -> Transaction:
        """A new transaction, not yet part of a context."""
        tx = super().begin(name, read_only=read_only, cause=cause)
        tx.failures = self.scheduler.invalidation.failures
        return tx

    def commit_block(self, tx: Transaction) -> None:
        """Commit a transaction of plain code."""
        commit_block(self, tx)

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"open, at {self.replica.seq}"
        return f"<{type(self).__name__} {self.name!r}: {state}>"

    # -- state ---------------------------------------------------------------------------------------------

    @property
    def stats(self) -> Stats:
        """Counts of what has happened here so far."""
        replica = self.replica
        return Stats(
            space=self.name,
            seq=replica.seq,
            commits=replica.commit_count,
            pending=replica.pending_count,
            rejected=self.rejected_count,
            groups=self._lease.storage.groups,
            documents=replica.document_count,
            runs=self.counts.all(),
            events=asdict(self.scheduler.get_event_counts()),
        )

    def graph(self, form: GraphForm = "text") -> str:
        """The functions of this space and the edges between them, drawn: as text, "svg", "mermaid" or "json"."""
        return self.inspection.drawn(form)

    def runs(self, function: object) -> int:
        """The number of runs of a function of the app in this opening; with parameters, for all arguments together.

        Of a resource: the number of requests sent.
        """
        return self.counts.of(function)

    async def synced(self) -> None:
        """Wait, without blocking the event loop, until everything written so far is on disk."""
        self.check_open()
        await machine().to_thread(self._lease.storage.wait)
        self.catch_up()
        self._tell_lost()

    def _tell_lost(self) -> None:
        """Raise if commits were rolled back, or events are only in memory."""
        raise_lost(self, self.scheduler.outcomes)

    def on_close(self, callback: Callable[[], None]) -> None:
        """Call when the space is closed."""
        self._closers.append(lambda _: callback())

    # -- closing -------------------------------------------------------------------------------------------

    def abandon(self) -> None:
        """Close an opening that failed. What was committed is still decided."""
        self.inspection.abandon()
        try:
            self._shut()
        finally:
            with suppress(HeadwaterError):
                self._let_go()

    def _shut(self) -> None:
        """Refuse reads, writes and runs from now on."""
        self.closed = self.needs_check = True
        if self in open_spaces():
            open_spaces().remove(self)
        self.inspection.close()
        if self._fetcher is not None:
            self._fetcher.shut()
        self.scheduler.dispose()
        self.on_console = None
        self.restorer.leave()
        call_all(self._closers, self)

    def _let_go(self) -> None:
        """Detach, and release the lease: the last opening in this process closes the storage. Waits for the disk."""
        self._attached.detach()
        self.inspection.keep()
        self._lease.release()
