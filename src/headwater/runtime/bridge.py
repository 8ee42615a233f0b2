"""A bridge: what a space knows of another space, which its functions read.

A read in the other space is a read like any other, under a far key. The bridge listens to the other replica, and puts
each change of a document that is read here into the inbox of this scheduler: matching and order are the same code.

A far document that functions there write has a proxy node here. Its output is that document, and to run it is to make
those functions current. While it is live, they are. So liveness, order, calls and the preflight of events reach across.

Locks: code of one space takes the lock of another only if that is free. Otherwise the work waits for the next pass
there, and a call uses the last result.

Length: changes, proxy nodes and stored reads share the two tables of one bridge.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

from headwater.cells.far import FarReads, FarSpace
from headwater.cells.member_shifts import FarShift, VisibleShift
from headwater.cells.pending_commit import SHALLOW_BIT, Mark, ReadKey
from headwater.cells.space_port import SpacePort
from headwater.cells.span_reads import span_reads_now
from headwater.cells.span_records import SpanKey, far_index, far_span, question_of
from headwater.cells.transaction import Transaction
from headwater.errors import HeadwaterError, NotReadyError, QueryError, UsageError
from headwater.runtime.pass_port import PassPort
from headwater.runtime.restore import RestorePort, Restorer
from headwater.scheduler.graph.node import Node, NodeSignal, NodeSpec
from headwater.scheduler.runs.failing import failure_of
from headwater.scheduler.runs.seen_failures import has_news, other_outcome
from headwater.scheduler.runs.span_checks import span_seen
from headwater.store.observations import Called, FarSeen, SeenRead, seen_reads
from headwater.values.address import address_text, far_key, split_far
from headwater.values.frozen import FrozenDict
from headwater.values.ids import BranchId, DocKey
from headwater.values.notifications import Change, FarInvalid, Kind, Notification
from headwater.values.tree import ABSENT, Value

_SOMETHING: Final[Value] = FrozenDict()
"""Differs from nothing at every path, by the rules of matching."""

NOT_CURRENT: Final = "functions there are not current"
"""The cause of a proxy node."""

RETRY_MS: Final = 50.0
"""How long a proxy node waits for a far function that is suspended, or whose space is in use by another thread. The
bridge wakes it earlier if a result changes."""


class BridgeEnds(Protocol):
    """All bridges of one space."""

    out: dict[SpacePort, Bridge]
    """To the spaces that its functions read."""

    @property
    def acting(self) -> BridgedSpace:
        """The opening that acts for the runtime."""

    def attach(self, bridge: Bridge) -> None:
        """Functions of another space read this one."""

    def detach(self, bridge: Bridge) -> None:
        """They do so no more."""

    def look(self) -> None:
        """Let the other spaces take in what they were notified of."""

    def hurry(self, proxy: Node) -> None:
        """The functions that a proxy node waits for run without their debounce."""

    def found(self, space: BridgedSpace) -> None:
        """Another space was opened. The caller holds the lock."""

    def found_meanwhile(self, space: BridgedSpace) -> None:
        """Another space was opened while the lock was not free."""


class BridgedSpace(PassPort, RestorePort):
    """An open space whose functions read others, and which others read."""

    bridges: BridgeEnds
    restorer: Restorer
    branch: BranchId
    now: Callable[[], float]

    @abstractmethod
    def notice(self, source: BridgedSpace) -> None:
        """Something has changed in a space that functions of this one read: a pass is due. Called in any thread."""

    @abstractmethod
    def give_turns(self) -> None:
        """Other spaces of this thread are due: the end of the write that has changed something lets them settle."""

    @abstractmethod
    def note_decided(self) -> None:
        """Store observations of runs that had read something in another space which is decided now."""

    @abstractmethod
    def take_in_decided(self) -> None:
        """Wait until everything written so far is decided, and take the decisions in."""


class Bridge(FarSpace):
    """The reads of one space in another one."""

    def __init__(self, near: BridgedSpace, far: BridgedSpace) -> None:
        super().__init__(near, far)
        self.here = near
        self.there = far
        # The far key of each document that is, or was, read here. The other replica asks it for each change.
        self.keys: dict[DocKey, DocKey] = {}
        self.proxies: dict[DocKey, Node] = {}
        # The far functions that are live because of a proxy node.
        self._wanted: dict[DocKey, tuple[Node, ...]] = {}
        # Far functions that this thread could not run.
        self._postponed: dict[Node, None] = {}
        # Written by the other space, taken by this one: functions that became invalid, documents with other writers,
        # documents that are not read any more, and results that a proxy node may wait for. One notice for all of them.
        self._invalid: dict[Node, None] = {}
        self._rewritten: dict[DocKey, None] = {}
        self._unread: dict[DocKey, None] = {}
        self._come: dict[DocKey, None] = {}
        self._is_told = False
        self.is_closed = False
        # The kinds of documents there whose indexes are read here.
        self._kinds: FarKinds | None = None
        self._end_kinds: Callable[[], None] = lambda: None
        self._unlisten = far.replica.listen(self._receive, self.keys)
        near.scheduler.graph.far_names[far.space_id] = far.name

    # -- reads ---------------------------------------------------------------------------------------------

    def enter(self, view: FarReads, whole: dict[ReadKey, Mark | None]) -> None:
        """Add the reads of a run here, under far keys. Changes of them are notified from now on."""
        keys = self.keys
        for (doc, path, bits), mark in view.reads_there().items():
            whole[keys.get(doc) or self.watch(doc), path, bits] = mark

    def watch(self, doc: DocKey) -> DocKey:
        """A document is read here from now on. Returns its far key."""
        key = self.keys.get(doc)
        if key is None:
            key = self.keys[doc] = far_key(self.there.space_id, doc)
            if self.writers(doc):
                self.proxy_of(doc)
        return key

    def read_index(self, index: str) -> None:
        """An index of a collection is read there. Changes of it are notified from now on."""
        spans, replica, space = self.here.scheduler.graph.spans, self.there.replica, self.there.space_id
        known = spans.reaches(space)
        if known is not None and known is not replica:
            message = (
                f"space {self.there.name!r} is open twice in this program, and queries of one opening are read here "
                "already; use one of them, or read documents by their links"
            )
            raise QueryError(message, space=self.there.name, index=index)
        with replica.lock:
            members = replica.members
            if not space or members is None or self.is_closed:
                raise QueryError(f"space {self.there.name!r} has no collections here", space=self.there.name)
            spans.reach(space, replica, members.index(index)[1])
            if self._kinds is None:
                self._kinds = FarKinds(spans.kinds, space)
                self._end_kinds = replica.read_kinds(self._kinds)
        self.span_space = space

    def is_outdated(self, view: FarReads) -> bool:
        """Whether something that a run has read there is another value now, or another error."""
        if view.is_outdated():
            return True
        if view.spans is not None and view.spans.overtaken({}) is not None:
            return True
        scheduler = self.there.scheduler
        if not has_news(view, scheduler.invalidation.failures):
            return False
        return other_outcome(view, (key[0] for key in view.reads_there()), scheduler.graph) is not None

    def gate(self, tx: Transaction, view: FarReads) -> Callable[[DocKey], None]:
        """Called before the first read of each document in the handling of an event: its writers are made current."""
        arrive = self.there.gate

        def gate(doc: DocKey) -> None:
            if arrive is not None:
                arrive(doc)
            if tx.gate is not None and self.writers(doc):
                self.proxy_of(doc)
                tx.gate(self.watch(doc))
                # Running them may have taken in changes.
                view.version = -1

        return gate

    # -- what comes from there -----------------------------------------------------------------------------

    def _receive(self, notification: Notification) -> None:
        """Documents have changed there. Called by the other space, in its thread."""
        keys, read = self.keys, self.here.scheduler.graph.index.docs
        changes: list[Change] = []
        for change in notification.changes:
            key = keys.get(change.doc)
            if key is None:
                continue
            if key in read:
                changes.append(Change(key, change.path, change.before, change.after))
                proxy = self.proxies.get(change.doc)
                if proxy is not None and not proxy.is_clean:
                    self._come[change.doc] = None
            else:
                self._unread[change.doc] = None
        shifts: tuple[FarShift, ...] = ()
        if self._kinds is not None and notification.shifts:
            shifts = tuple(self._far_shifts(self._kinds, notification.shifts))
        if changes or shifts:
            told = Notification(notification.kind, tuple(changes), notification.source, shifts)
            self.here.scheduler.invalidation.inbox.append(told)
            self.here.notice(self.there)
        if self._come or (self._unread and not (changes or shifts)):
            self._tell()

    def _far_shifts(self, kinds: FarKinds, shifts: Iterable[object]) -> Iterator[FarShift]:
        for shift in shifts:
            if isinstance(shift, VisibleShift) and shift.record is not None and shift.record.kind in kinds:
                yield FarShift(self.span_space, shift)

    def became_invalid(self, node: Node) -> None:
        """A far function is not current. Called by the other space."""
        if self.proxies:
            self._invalid[node] = None
            self._tell()

    def failed(self, node: Node) -> None:
        """A far function fails, no longer, or in another way: its callers here get something else."""
        key = self.keys.get(node.outputs[0]) if node.outputs else None
        if key is not None:
            change = Change(key, (), ABSENT, _SOMETHING)
            self.here.scheduler.invalidation.inbox.append(Notification(Kind.COMMIT, (change,)))
            self.here.notice(self.there)

    def rewritten(self, doc: DocKey) -> None:
        """Other functions write a far document."""
        if doc in self.keys:
            self._rewritten[doc] = None
            self._tell()

    def _tell(self) -> None:
        if not self._is_told:
            self._is_told = True
            self.here.scheduler.invalidation.inbox.append(FarInvalid(self))
            self.here.notice(self.there)

    def take_in(self) -> None:
        """Taken from the inbox of this space, in its own thread."""
        self._is_told = False
        if self.is_closed:
            self._close_proxies()
            return
        while self._rewritten:
            doc, _ = self._rewritten.popitem()
            self._regroup(doc)
        while self._unread:
            doc, _ = self._unread.popitem()
            if self.keys.get(doc) not in self.here.scheduler.graph.index.docs and doc not in self.proxies:
                self.keys.pop(doc, None)
        while self._come:
            doc, _ = self._come.popitem()
            if doc in self.proxies:
                self._retry(self.proxies[doc])
        if self._invalid:
            invalid, self._invalid = self._invalid, {}
            for doc in self._results_below(invalid):
                self._invalidate(self.proxies[doc])
                self._retry(self.proxies[doc])

    def _results_below(self, invalid: Iterable[Node]) -> list[DocKey]:
        """The results read here that depend on functions which are still not current there."""
        graph, proxies = self.there.scheduler.graph, self.proxies
        # An async function whose run is in progress is clean, and not current.
        todo = [node for node in invalid if not node.removed and (not node.is_clean or node.attempt is not None)]
        seen = dict.fromkeys(todo)
        found: dict[DocKey, None] = {}
        while todo:
            node = todo.pop()
            found.update((doc, None) for doc in node.outputs if doc in proxies)
            for reader in graph.readers(node):
                if reader not in seen:
                    seen[reader] = None
                    todo.append(reader)
        return list(found)

    # -- proxy nodes ---------------------------------------------------------------------------------------

    def writers(self, doc: DocKey) -> tuple[Node, ...]:
        """The far functions that write a document."""
        graph = self.there.scheduler.graph
        found = graph.writers_of(doc)
        if graph.envelopes and doc in graph.envelopes:
            found = (*found, *(writer for _, writer in graph.envelopes[doc]))
        return found

    def proxy_of(self, doc: DocKey) -> Node:
        """The node for a far document that far functions write."""
        found = self.proxies.get(doc)
        if found is not None:
            return found
        key = self.keys.setdefault(doc, far_key(self.there.space_id, doc))
        scheduler = self.here.scheduler
        node = scheduler.registry.add(
            NodeSpec(
                name=address_text(key, (), scheduler.graph.far_names),
                fn=partial(self._run, doc),
                outputs=(key,),
                is_proxy=True,
                on_live=partial(self._want, doc),
                on_dormant=partial(self._let_go, doc),
                on_unread=partial(self._drop, doc),
            ),
            None,
        )
        self.proxies[doc] = node
        scheduler.runner.look = self.here.bridges.look
        node.signal(NodeSignal.RESTORED)
        scheduler.invalidation.forget(node)
        if not self._is_current(doc):
            self._invalidate(node)
        return node

    def _is_current(self, doc: DocKey) -> bool:
        return not self._not_current(doc) and all(map(self.there.scheduler.is_valid, self.writers(doc)))

    def _invalidate(self, node: Node) -> None:
        if node.is_clean and not node.running:
            # Its readers are notified of changes of the result alone.
            self.here.scheduler.invalidation.mark(node, (node.outputs[0], ()), NOT_CURRENT)

    def _retry(self, proxy: Node) -> None:
        """What a proxy node waited for may have come: the next pass or call runs it."""
        scheduler = self.here.scheduler
        if not proxy.is_clean and scheduler.gates.is_held(proxy):
            scheduler.gates.hold(proxy, 0.0)
            scheduler.invalidation.offer_again(proxy)
            if scheduler.invalidation.abroad is not None:
                # Proxy nodes of other spaces wait for this one.
                scheduler.invalidation.abroad(proxy)

    def _run(self, doc: DocKey) -> None:
        """Make the far functions current."""
        for writer in self.writers(doc):
            # Their callers get the error.
            with suppress(Exception):
                self.pull(writer)

    def pull(self, node: object) -> None:
        """Make a far function current, or raise its error.

        Where this thread cannot use its space, because another one does or has its event loop, the function runs there
        later, and its last result is used.
        """
        assert isinstance(node, Node)
        far = self.there
        if self._is_usable() and far.lock.acquire(blocking=False):
            try:
                far.pull(node, in_run=True)
            finally:
                far.lock.release()
                far.make_up()
            return
        self._postponed[node] = None
        far.call_soon(partial(self._pull_there, node))
        if far.replica.read(node.outputs[0]) is ABSENT:
            message = f"{node.title} of space {far.name!r} has no value yet, and this thread cannot run it"
            raise NotReadyError(f"{message}; its readers run again when it is ready", node=node.name)

    def _is_usable(self) -> bool:
        far = self.there
        if far.needs_check:
            try:
                far.check("a function")
            except UsageError:
                return False
        return True

    def _pull_there(self, node: Node) -> None:
        """Called after a pass of the other space."""
        self._postponed.pop(node, None)
        if not node.removed and not self.is_closed:
            with suppress(Exception):
                self.there.pull(node, in_run=False)

    def await_current(self, node: Node, doc: DocKey) -> None:
        """A proxy node has run. If the far functions are not current nevertheless, it waits until they may be."""
        far, gates = self.there, self.there.scheduler.gates
        until, quiets = 0.0, list[float]()
        for writer in self._not_current(doc):
            if writer in self._postponed or (writer.attempt is not None and writer.spec.is_async):
                until = max(until, RETRY_MS)
                quiets.append(0.0)
            elif not writer.is_clean and gates.is_held(writer):
                until = max(until, gates.eligible_at(writer) - far.now(), 1.0)
                quiets.append(gates.quiet_of(writer) if gates.is_only_quiet(writer) else 0.0)
        if until:
            self.here.scheduler.gates.hold(node, self.here.now() + until, max(quiets) if all(quiets) else 0.0)
            self._invalidate(node)

    def hurry(self, node: Node) -> None:
        """A far function runs without its debounce."""
        gates = self.there.scheduler.gates
        if node.spec.is_proxy or gates.is_only_quiet(node):
            self._there(partial(gates.at_once, node))

    def not_current_above(self, proxy: Node) -> list[Node]:
        """The far functions above a proxy node that are not current. Of a proxy node of another bridge: none."""
        doc = split_far(proxy.outputs[0])[1]
        return self._not_current(doc) if self.proxies.get(doc) is proxy else []

    def _not_current(self, doc: DocKey) -> list[Node]:
        """The far functions above a document that are not current, or suspended: a clean one may be below these."""
        scheduler, writers = self.there.scheduler, self.writers(doc)
        found = dict.fromkeys(writers)
        todo = list(writers) if scheduler.invalidation.invalid or scheduler.runner.in_flight else []
        while todo:
            node = todo.pop()
            for above in (*scheduler.graph.sources(node), *scheduler.graph.materializers(node)):
                if above not in found:
                    found[above] = None
                    todo.append(above)
        return [node for node in found if not node.is_clean or node.attempt is not None or node in self._postponed]

    # -- liveness there ------------------------------------------------------------------------------------

    def _want(self, doc: DocKey) -> None:
        self._there(partial(self._demand, doc))

    def _let_go(self, doc: DocKey) -> None:
        self._there(partial(self._release, doc))

    def _demand(self, doc: DocKey) -> None:
        proxy = self.proxies.get(doc)
        if doc in self._wanted or proxy is None or not proxy.is_live:
            return
        self._wanted[doc] = writers = self.writers(doc)
        for writer in writers:
            self.there.scheduler.graph.liveness.demand(writer)

    def _release(self, doc: DocKey, *, always: bool = False) -> None:
        proxy = self.proxies.get(doc)
        if proxy is not None and proxy.is_live and not always:
            # Live again meanwhile.
            return
        for writer in self._wanted.pop(doc, ()):
            if not writer.removed:
                self.there.scheduler.graph.liveness.release(writer)

    def demand_for(self, node: Node) -> int:
        """How many documents that are wanted here a far function writes."""
        return sum(node in writers for writers in self._wanted.values())

    def _there(self, work: Callable[[], None]) -> None:
        """Change something in the other scheduler: now, if its lock is free, or after its next pass."""
        far = self.there
        if far.lock.acquire(blocking=False):
            try:
                work()
            finally:
                far.lock.release()
                far.make_up()
        elif not far.closed:
            far.call_soon(work)

    def _regroup(self, doc: DocKey) -> None:
        """Other functions write a far document."""
        proxy, writers = self.proxies.get(doc), self.writers(doc)
        if proxy is None:
            if writers and self.keys.get(doc) in self.here.scheduler.graph.index.docs:
                self.proxy_of(doc)
            return
        if not writers:
            self._drop(doc)
            return
        if doc in self._wanted:
            self._there(partial(self._release, doc, always=True))
            self._want(doc)
        self._invalidate(proxy)

    def _drop(self, doc: DocKey) -> None:
        """No function here reads it any more, or no function there writes it."""
        if self.keys.get(doc) not in self.here.scheduler.graph.index.docs:
            # The next read makes the proxy node again.
            self.keys.pop(doc, None)
        node = self.proxies.pop(doc, None)
        if node is not None:
            self._there(partial(self._release, doc, always=True))
            self.here.scheduler.remove(node)

    # -- what is stored ------------------------------------------------------------------------------------

    def seen(self, reads: list[ReadKey], spans: Mapping[SpanKey, bytes]) -> FarSeen | None:
        """What an observation has of these reads, as they are named in the other space, if all of them are decided."""
        far = self.there
        if not far.space_id or not far.lineage or self.is_closed:
            return None
        replica = far.replica
        with replica.lock:
            if self.here.scheduler.invalidation.inbox:
                # A change that the run has not seen may be among them.
                return None
            if not self._are_decided(reads, spans):
                return None
            seq = replica.seq
        calls: list[Called] = []
        for index, (doc, _, _) in enumerate(reads):
            for writer in self.writers(doc):
                if failure_of(writer) is not None:
                    return None
                if writer.spec.is_instance:
                    if writer.called_with is None or doc != writer.outputs[0]:
                        return None
                    calls.append(Called(index, writer.called_with))
        lineage, places = far.lineage.hex(), tuple(seen_reads(reads))
        spans_seen = tuple([span_seen(key, answer) for key, answer in spans.items()])
        return FarSeen(far.space_id, lineage, far.branch, seq, places, tuple(calls), spans_seen)

    def _are_decided(self, reads: list[ReadKey], spans: Iterable[SpanKey]) -> bool:
        replica = self.there.replica
        if any(replica.is_layered(doc) or not doc.startswith("space/") for doc, _, _ in reads):
            return False
        return not any(each.layered for each in span_reads_now(replica, spans))

    def install(self, seen: FarSeen) -> tuple[tuple[ReadKey, ...], bool]:
        """The reads of a stored run, under far keys; and whether all functions that it has called there exist."""
        with self.there.lock:
            remade = [
                self.there.restorer.remake(_read(seen.reads[call.read])[0], call.arguments) for call in seen.calls
            ]
            reads = [_read(read) for read in seen.reads]
            if self.there.replica.is_partial:
                self.there.replica.hold(dict.fromkeys(doc for doc, _, _ in reads))
            return tuple((self.watch(doc), path, bits) for doc, path, bits in reads), all(remade)

    def install_spans(self, seen: FarSeen) -> dict[SpanKey, bytes] | None:
        """The spans of a stored run, under far names, with its answers. None: they are not all known there now."""
        found: dict[SpanKey, bytes] = {}
        with suppress(HeadwaterError, ValueError, TypeError):
            for each in seen.spans:
                self.read_index(each.index)
                key = SpanKey(each.index, each.lo, each.hi, each.fields, question_of(each.question))
                found[far_span(self.span_space, key)] = each.answer
            return found
        return None

    # -- the end -------------------------------------------------------------------------------------------

    def close(self) -> None:
        """One of the two spaces is closed."""
        if self.is_closed:
            return
        self.is_closed = True
        self._unlisten()
        self._end_kinds()
        spans = self.here.scheduler.graph.spans
        if self.span_space and spans.reaches(self.span_space) is self.there.replica:
            spans.lose(self.span_space)
        if not self.there.closed:
            for doc in list(self._wanted):
                self._there(partial(self._release, doc, always=True))
        self._is_told = False
        if not self.here.closed:
            self._tell()

    def _close_proxies(self) -> None:
        """The other space is closed. Readers keep what they have."""
        self._wanted.clear()
        for doc in list(self.proxies):
            self.here.scheduler.remove(self.proxies.pop(doc))


class FarKinds:
    """The kinds of documents of one other space whose indexes nodes of this one read."""

    def __init__(self, kinds: Container[str], space: str) -> None:
        self._kinds = kinds
        self._space = space

    def __contains__(self, kind: object) -> bool:
        return far_index(self._space, str(kind)) in self._kinds


def _read(read: SeenRead) -> ReadKey:
    if isinstance(read, tuple):
        doc, path, shallow = read
        return doc, path, SHALLOW_BIT if shallow else 0
    return read, (), 0
