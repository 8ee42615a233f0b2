"""An opening: one app, open at a space, with its functions, events, pieces and resources, and how it is closed.

What it shares with openings of other apps is in its `SpaceRuntime`. `host` has the two kinds, for plain code and for
code in an event loop, and the facades that authors hold.

Length: one object owns the order in which the parts of an opening are made and closed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from inspect import iscoroutine
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from msgspec.structs import asdict

from headwater.cells.cell import Cell
from headwater.cells.context import CONTEXT, open_spaces
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
from headwater.runtime.block_commit import commit_block
from headwater.runtime.by_address import ByAddress
from headwater.runtime.collection_records import CollectionHost
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
from headwater.runtime.restore import Restorer, Resumption
from headwater.runtime.run_cache import RunCache
from headwater.runtime.run_counts import RunCounts
from headwater.runtime.server_rules import left
from headwater.runtime.space_runtime import RuntimeOpening, RuntimePart, SpaceRuntime
from headwater.runtime.stats import Stats
from headwater.runtime.sync_wait import raise_lost
from headwater.runtime.workflows.run_host import RunHost
from headwater.scheduler.events.event import EventRecord, HandlerRecord, HandlerSpec
from headwater.scheduler.graph.node import Node, NodeSpec
from headwater.scheduler.runs.attempt import Attempt, Call
from headwater.scheduler.scheduler import Scheduler
from headwater.store.engine import Engine
from headwater.values.ids import MAIN, BranchId, DocKey, Millis
from headwater.values.shrink import shrunk
from headwater.values.tree import Value

if TYPE_CHECKING:
    from headwater.runtime.workflows.hub import Hub

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")
D = TypeVar("D", bound=Doc)


class Opening(
    OutsideParts, EnteredSpace, ByAddress, PieceHost, RunHost, InspectedSpace, CollectionHost, RuntimeOpening
):
    """An app that is open at a space, plain or async."""

    runtime: SpaceRuntime

    def __init__(self, lease: Lease, runtime: SpaceRuntime, owner: object, options: Options, parts: HostParts) -> None:
        replica = runtime.attached
        super().__init__(replica, runtime.name, owner, options.entropy, runtime.actor, runtime)
        self._lease = lease
        self.space_id, self.lineage = runtime.space_id, runtime.lineage
        self.parts = parts
        self.console = parts.console
        self.storage_key = runtime.storage_key
        if runtime.at_server:
            self.gate = gate_of(replica, self.name)
            self.untracked = GuardedReads(replica, self.gate)
        self.inbox = replica.inbox
        self.on_error: OnError = chosen(options.on_error)
        self.is_eager: bool = options.demand == "eager"
        self.keep_failed: int = options.keep_failed
        # Those of the runtime, here for parts that use them often.
        self.lock = runtime.lock
        self.sending = runtime.sending
        self.scheduler: Scheduler = runtime.scheduler
        self.nodes: dict[object, Node] = {}
        self.counts: RunCounts = RunCounts(self)
        # Functions with parameters: a node for each set of arguments.
        self.instances: dict[object, Instances] = {}
        is_kept = options.local is not None
        self.events: EventService = EventService(
            self, (lambda: left(lease.storage.connection(), is_kept=is_kept)) if runtime.at_server else None
        )
        self._face_others(lambda: parts.workflows().publisher(self))
        self.fingerprints: Fingerprints = parts.fingerprints()
        self.restorer: Restorer = Restorer(self, options.branch)
        self._pieces: Pieces | None = None
        self.now: Callable[[], float] = options.now
        self._face(options, parts.resources)
        self._face_blocks()
        self._face_spaces()
        self._closers: list[Callable[[object], None]] = self._face_links(options, parts)
        # Of this app in its runtime. Replaced if others may join.
        self.part: RuntimePart = RuntimePart()
        self.is_sole: bool = False
        open_spaces().append(self)
        self.on_console = options.on_console
        self.inspection: InspectionPort = parts.inspection(self, lease, options, replica)
        self.is_in_memory = lease.path is None
        self.branch: BranchId = runtime.branch
        self.is_main: bool = options.branch == MAIN
        self.keeps_types: bool = options.local is None if runtime.at_server else lease.path is not None
        self.forces: bool = options.force  # deploy workflows although waiting events would be skipped
        self._workflows: WorkflowHost | None = None
        self._flows: Hub | None = None
        self.can_await: bool = runtime.can_await
        self.is_woken: bool = runtime.is_woken
        runtime.join(self)
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

    def start_returned(self, attempt: Call, invocation: Invocation[Any]) -> object:
        """Start the pattern that a function has returned. Returns the reference to the piece for its result."""
        if not isinstance(attempt, Attempt):
            message = f"{attempt.title} cannot return {invocation!r}: only a computed has children; use hw.start(...)"
            raise UsageError(message)
        return self.pieces.start_returned(attempt, invocation)

    # -- functions -----------------------------------------------------------------------------------------

    def add_node(self, function: object, spec: NodeSpec) -> Node:
        """Register the node of a declared function."""
        spec.home = self
        with self.lock:
            node = self.nodes[function] = self.scheduler.register(spec)
            self.restorer.take_over_one(node)
            return node

    def instances_of(self, function: object) -> Instances:
        """The nodes of a function with parameters."""
        found = self.instances.get(function)
        if found is None:
            found = self.instances[function] = Instances(self.scheduler, self.restorer.forget, self)
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
                    self._pieces = Pieces(self, self.app_name)
                    self.runtime.look_for_pieces()
                    self.gained_parts()
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
        self.tell_decided()
        self.restorer.keep()
        if self._pieces is not None:
            self._pieces.sweep()
        if self._fetcher is not None:
            self._fetcher.let_go()

    @property
    def app_name(self) -> str:
        """The name of the app."""
        return str(getattr(self.owner, "name", ""))

    @property
    def running_pieces(self) -> Pieces | None:
        """The pieces; None without any."""
        return self._pieces

    @property
    def has_come(self) -> bool:
        """Whether a pass has work from outside, or from a thread that has changed pieces during the last pass."""
        return super().has_come or self.has_due_pieces

    @property
    def has_due_pieces(self) -> bool:
        """Whether another thread has left work on pieces."""
        return self._pieces is not None and self._pieces.is_due

    def gained_parts(self) -> None:
        """The first piece, resource or clock was made. The caller holds the lock."""
        self.runtime.gained_parts(self)

    def clock_suffix(self) -> str:
        """Distinguishes its clocks from those of other apps with the same scheduler."""
        return f":{self.app_name}" if self.runtime.has_others(self) else ""

    def due_in(self) -> float | None:
        """Milliseconds until the next timer is due."""
        return self.timers.due_in()

    def begin_pass(self) -> None:
        """Take in results from outside, and call due timers."""
        if self._pieces is not None:
            self._pieces.catch_up()
        self._take_in_outside()

    def end_pass(self) -> None:
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
            self._flows = self.parts.workflows().hub_of(
                self._lease.local, cast("Callable[[], Millis]", self.timers.wall), self.branch
            )
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
        spec.home = self
        self.events.add(function, spec)

    def around(self) -> tuple[Opening, Transaction]:
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
        return self.runtime.attached.has_bad_news()

    @property
    def rejected_count(self) -> int:
        """All commits of the runtime that were rejected."""
        return self.runtime.rejected_count

    @property
    def is_passing(self) -> bool:
        """Whether this code is called in the middle of a pass."""
        runtime = self.runtime
        return runtime.passing == runtime.thread_id()

    def resume_events(self) -> None:
        """Resume unhandled events of the last opening, except those that other openings in this process handle."""
        with self.lock:
            self.events.resume()
            self.delivery.open()

    def catch_up_soon(self) -> None:
        """Ask for a pass."""
        self.runtime.catch_up_soon()

    def make_up(self) -> None:
        """Called by another thread that has released the lock: request a pass again that was refused meanwhile."""
        self.runtime.make_up()

    def nudge(self) -> None:
        """Run a pass if possible: another space has decided what this one waits for."""
        self.runtime.nudge()

    def await_decision(self, origin: Transaction) -> None:
        """Another space waits for the decision on a transaction of this one."""
        self.runtime.await_decision(origin)

    def wake(self) -> None:
        """Request a pass for a result from outside. From any thread."""
        self.runtime.wake()

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

    def call_in_loop(self, fn: Callable[..., object], *args: object) -> None:
        """Call a function where the code of this space runs: for plain code, in the current thread."""
        self.runtime.call_in_loop(fn, *args)

    def _face_links(self, options: Options, parts: HostParts) -> list[Callable[[object], None]]:
        """Set where spaces that links name are looked for. Returns what to do at the end."""
        self.resolver = resolver = parts.resolver(options.resolve, options.actor) if options.resolve else None
        return [] if resolver is None else [lambda _: resolver.close()]

    def explain_resume(self) -> Resumption:
        """What this opening restored from earlier ones: which functions need not run, which must, and why."""
        return self.restorer.explain()

    def wait_for_disk(self, timeout: float | None = None) -> None:
        """Return when everything written so far is decided."""
        self._lease.storage.wait(timeout)

    def wake_in(self) -> float | None:
        """Seconds until something may be due; None: nothing is due without a write or an event."""
        return self.runtime.wake_in()

    # -- nodes ---------------------------------------------------------------------------------------------

    def computation(self, name: str) -> Node | None:
        """The node of a computed function, by its name."""
        return next((node for node in self.nodes.values() if node.name == name and node.outputs), None)

    def pull(self, node: Node, *, in_run: bool = False) -> None:
        """Make a computation valid for a caller, or raise its error."""
        with self.lock:
            parts = self.runtime.with_parts
            if parts:
                for opening in parts:
                    opening.expire()
            try:
                self.scheduler.pull(node, in_run=in_run)
            finally:
                if parts and self.scheduler.runner.innermost is None:
                    for opening in parts:
                        opening.rest_clocks()
            if self.scheduler.graph.unread:
                # Not only after a pass: if nothing is observed, there may be no pass for long.
                self.scheduler.sweep()

    # -- transactions of plain code --------------------------------------------------------------------------

    def begin(self, name: str = "", *, read_only: str = "", cause: object = None) -> Transaction:
        """A new transaction, not yet part of a context."""
        tx = Transaction(self.replica, name, read_only=read_only, cause=cause)
        tx.failures = self.scheduler.invalidation.failures
        return tx

    def commit_block(self, tx: Transaction) -> None:
        """Commit a transaction of plain code."""
        if self.scheduler.streams.sending:
            self.scheduler.streams.restamp(tx)
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
            rejected=self.runtime.rejected_count,
            groups=self._lease.storage.groups,
            documents=replica.document_count,
            runs=self.counts.all(),
            events=asdict(self.scheduler.get_event_counts()),
            undelivered=self.delivery.count,
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
        raise_lost(self.runtime, self.scheduler.outcomes)

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
        is_last = self.part.end()
        others = [opening for opening in self.runtime.openings if opening is not self]
        self.bridges.move_from(self, [] if is_last else others)
        self.delivery.move_from(self, [] if is_last else others)
        self.runtime.leave(self, is_last=is_last)
        self.events.remove_handlers()
        self.on_console = None
        self.restorer.leave()
        call_all(self._closers, self)

    def _let_go(self) -> None:
        """Detach, and release the lease: the last opening in this process closes the storage. Waits for the disk."""
        if self.runtime.is_over:
            self.runtime.attached.detach()
        self.inspection.keep()
        self._lease.release()
