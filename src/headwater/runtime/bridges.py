"""All bridges of one open space: the spaces that its functions read, and those whose functions read it.

Length: the scheduler and the runtime ask the same tables.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from headwater.cells.context import Addressed, open_spaces
from headwater.cells.far import FarReads, FarSpace
from headwater.cells.pending_commit import Mark, ReadKey
from headwater.cells.space_port import SpacePort
from headwater.cells.span_reads import span_reads_now
from headwater.cells.span_records import SpanKey, own_span, split_index
from headwater.cells.transaction import Transaction
from headwater.errors import ClosedError, HeadwaterError, NotOpen
from headwater.machine import machine
from headwater.runtime.attached_replica import AttachedReplica
from headwater.runtime.bridge import Bridge, BridgedSpace
from headwater.runtime.far_progress import bridge_of, hurry, runs_of
from headwater.runtime.ring import ChainedRuntime, RingSpace
from headwater.runtime.turns import Turns, TurnTaker
from headwater.scheduler.graph.node import DocPath, Node, NodeStatus
from headwater.scheduler.runs.failing import failure_of
from headwater.scheduler.runs.persistence import SINCE
from headwater.scheduler.runs.span_checks import set_noted_spans, with_same_answers
from headwater.store.collection_record import kind_of_index, record_doc
from headwater.store.observations import FarSeen
from headwater.store.resumption import FarRow, far_rows
from headwater.values.address import far_key, is_far, split_far
from headwater.values.ids import BranchId, DocKey
from headwater.values.notifications import FarInvalid
from headwater.values.tree import Path


class Bridges:
    """The bridges of one runtime. What the scheduler knows of other spaces (`Far`)."""

    def __init__(self, space: BridgedSpace) -> None:
        # The opening that acts for the runtime: another one, when that is closed.
        self._space = space
        # By the other space.
        self.out: dict[SpacePort, Bridge] = {}
        # From spaces whose functions read this one. Most spaces have none, and every pass asks.
        self.readers: tuple[Bridge, ...] = ()
        # The spaces that stored runs have read, by their ids.
        self._by_id: dict[str, BridgedSpace] = {}
        # Nodes of stored runs that have read a space which is not open.
        self._unasked: dict[Node, tuple[FarSeen, ...]] = {}
        # Nodes whose stored runs have called functions that do not exist any more.
        self._unmade: dict[Node, DocKey] = {}

    # -- bridges -------------------------------------------------------------------------------------------

    def to(self, other: BridgedSpace) -> Bridge:
        """The bridge to another space."""
        found = self.out.get(other)
        if found is None:
            other = other.bridges.acting
            with other.replica.lock:
                found = self.out.get(other)
                if found is None:
                    found = self.out[other] = Bridge(self._space, other)
                    other.bridges.attach(found)
                    self._space.scheduler.runner.far = self
                    Turns.of_process().changed()
        return found

    def attach(self, bridge: Bridge) -> None:
        """Functions of another space read this one."""
        self.readers = (*self.readers, bridge)
        scheduler = self._space.scheduler
        scheduler.invalidation.abroad, scheduler.invalidation.failed_abroad = self._became_invalid, self._failed
        scheduler.graph.on_writers = self._rewritten

    def detach(self, bridge: Bridge) -> None:
        """They do so no more."""
        self.readers = tuple(each for each in self.readers if each is not bridge)
        if not self.readers:
            scheduler = self._space.scheduler
            scheduler.invalidation.abroad = scheduler.invalidation.failed_abroad = scheduler.graph.on_writers = None

    def _became_invalid(self, node: Node) -> None:
        for bridge in self.readers:
            bridge.became_invalid(node)

    def _failed(self, node: Node) -> None:
        for bridge in self.readers:
            bridge.failed(node)

    def _rewritten(self, doc: DocKey) -> None:
        for bridge in self.readers:
            bridge.rewritten(doc)

    @property
    def acting(self) -> BridgedSpace:
        """The opening that acts for the runtime."""
        return self._space

    def move_from(self, closed: BridgedSpace, others: Iterable[BridgedSpace]) -> None:
        """An opening is closed: another one of the runtime acts from now on; without any, the bridges are closed."""
        if closed is not self._space:
            return
        home = next(iter(others), None)
        if home is None:
            self.close()
            return
        self._space = home
        for bridge in self.out.values():
            bridge.near = bridge.here = home
        for bridge in self.readers:
            bridge.far = bridge.there = home
            bridge.here.bridges.out[home] = bridge.here.bridges.out.pop(closed)
        Turns.of_process().changed()

    def close(self) -> None:
        """The space is closed."""
        for bridge in self.readers:
            if bridge.here.scheduler.persistence.late:
                # A failing store reports that itself.
                with suppress(HeadwaterError):
                    bridge.here.note_late()
        for bridge in self.out.values():
            bridge.close()
            bridge.there.bridges.detach(bridge)
        for bridge in self.readers:
            bridge.close()
            bridge.here.bridges.out.pop(self._space, None)
        self.out, self.readers, self._by_id = {}, (), {}
        Turns.of_process().changed()

    # -- runs ----------------------------------------------------------------------------------------------

    def with_far(self, tx: Transaction, reads: dict[ReadKey, Mark | None]) -> dict[ReadKey, Mark | None]:
        """The reads of a run, with those in other spaces under far keys."""
        whole = dict(reads)
        for view, bridge in _views(tx):
            bridge.enter(view, whole)
        return whole

    @staticmethod
    def keys_of(tx: Transaction, reads: Iterable[ReadKey]) -> tuple[object, ...]:
        """What a run has read: equal to that of its last run if it has read the same, in the same order."""
        found: list[object] = [tuple(reads)]
        views = tx.views
        for view in () if views is None else views.values():
            if isinstance(view, FarReads) and isinstance(view.far, Bridge):
                tx.reads_outside = tx.reads_outside or view.reads_outside
                journal = view.journal
                # Two spaces may have documents with the same keys, as copies of a file have.
                found += (view.far, tuple(journal.entries if journal.is_plain else journal.reads()))
        return tuple(found)

    def is_outdated(self, tx: Transaction) -> bool:
        """Whether something that a run has read in another space is another value now, or another error."""
        views = tx.views
        for view in () if views is None else views.values():
            if not isinstance(view, FarReads) or not isinstance(view.far, Bridge):
                continue
            bridge = view.far
            is_same = view.version == view.replica.version and view.called is None
            if is_same and view.failures == bridge.there.scheduler.invalidation.failures:
                continue
            if bridge.is_outdated(view):
                return True
        return False

    def look(self) -> None:
        """Let the other spaces take in what they were notified of: then it is known which proxy nodes are current.

        Spaces may read each other, and what has changed here may be an input there.
        """
        for bridge in self.out.values():
            if bridge.there.bridges.out or bridge.there.scheduler.invalidation.inbox:
                self._look_into(bridge.there, {self._space})

    def _look_into(self, space: BridgedSpace, seen: set[BridgedSpace]) -> None:
        seen.add(space)
        for other in list(space.bridges.out):
            if isinstance(other, BridgedSpace) and other not in seen:
                self._look_into(other, seen)
        invalidation = space.scheduler.invalidation
        if invalidation.inbox and space.lock.acquire(blocking=False):
            try:
                invalidation.drain()
            finally:
                space.lock.release()
                space.make_up()

    def arrive(self, thread: int) -> None:
        """Let the other spaces of this thread take in what others have written there, as at a server."""
        turns = Turns.of_process()
        todo: list[BridgedSpace] = [self._space]
        seen: set[SpacePort] = {self._space}
        while todo:
            found = [each for each in todo.pop().bridges.out if isinstance(each, SpaceWithBridges) and each not in seen]
            seen.update(found)
            todo += found
            for space in found:
                if space.is_of(thread) and space.inbox:
                    turns.add(space, thread)
        turns.take(thread)

    def add_turn(self, thread: int) -> None:
        """A pass has ended, and something is due that has come from another space at its very end."""
        space = self._space
        if self.out and not space.scheduler.is_stopped and isinstance(space, SpaceWithBridges):
            Turns.of_process().add(space, thread)

    def make_current(self, proxy: Node) -> None:
        """A proxy node has run: if the far functions are not current nevertheless, it waits."""
        bridge = bridge_of(self._space, proxy)
        if bridge is not None:
            bridge.await_current(proxy, split_far(proxy.outputs[0])[1])

    def hurry(self, proxy: Node) -> None:
        """The functions that a proxy node waits for run without their debounce."""
        hurry(self._space, proxy)

    def runs_of(self, proxy: Node) -> int:
        """How often the functions that a proxy node stands for have run."""
        return runs_of(self._space, proxy)

    def demand_from(self, node: Node) -> int:
        """How many documents that live functions of other spaces read it writes: each is a reason to be live."""
        return sum(bridge.demand_for(node) for bridge in self.readers)

    @staticmethod
    def take_invalid(notice: FarInvalid) -> None:
        """Functions of another space are not current."""
        assert isinstance(notice.source, Bridge)
        notice.source.take_in()

    # -- stored runs ---------------------------------------------------------------------------------------

    def seen(self, reads: Iterable[ReadKey], spans: Mapping[SpanKey, bytes]) -> tuple[FarSeen, ...] | None:
        """What an observation has of the far ones among these reads, and of these far spans, which are current."""
        apart: dict[str, list[ReadKey]] = {}
        for key, path, bits in reads:
            if is_far(key):
                space, doc = split_far(key)
                apart.setdefault(space, []).append((doc, path, bits))
        spans_of: dict[str, dict[SpanKey, bytes]] = {}
        for span, answer in spans.items():
            spans_of.setdefault(split_index(span.index)[0], {})[own_span(span)] = answer
        found: list[FarSeen] = []
        for space in dict.fromkeys([*apart, *spans_of]):
            bridge = next((each for far, each in self.out.items() if far.space_id == space), None)
            seen = None if bridge is None else bridge.seen(apart.get(space, []), spans_of.get(space, {}))
            if seen is None:
                return None
            found.append(seen)
        return tuple(found)

    def wait_decided(self) -> None:
        """Wait until everything that functions here have read in other spaces is decided."""
        for bridge in list(self.out.values()):
            if not bridge.is_closed:
                bridge.there.take_in_decided()

    def absent(self, seen: Sequence[FarSeen]) -> str:
        """The space that is not open here, of those that a stored run has read; empty if all are."""
        return next((each.space for each in seen if self._open(each) is None), "")

    def _open(self, seen: FarSeen) -> BridgedSpace | None:
        known = self._by_id.get(seen.space)
        if known is not None and not known.closed:
            return known
        for space in open_spaces():
            if space.space_id == seen.space and self._is_elsewhere(space) and isinstance(space, BridgedSpace):
                self._by_id[seen.space] = space
                return space
        return None

    def _is_elsewhere(self, space: SpacePort) -> bool:
        return space.runtime is not self._space.runtime

    def install(self, node: Node, seen: Sequence[FarSeen]) -> tuple[ReadKey, ...]:
        """The reads of a stored run in other spaces. Changes of them are notified from now on."""
        found: list[ReadKey] = []
        self._unasked.pop(node, None)
        for each in seen:
            space = self._open(each)
            assert space is not None
            bridge = self.to(space)
            reads, is_whole = bridge.install(each)
            found += reads
            spans = bridge.install_spans(each) if each.spans else {}
            if spans:
                graph = self._space.scheduler.graph
                graph.spans.apply(node, {**node.rare.spans, **spans})
                set_noted_spans(node)
            if spans is None:
                self._unmade[node] = _record_of(each)
            elif not is_whole:
                self._unmade[node] = reads[0][0]
        return tuple(found)

    def changed_since(self, rows: Sequence[tuple[Node, Sequence[FarSeen]]]) -> dict[Node, list[DocPath]]:
        """What has changed in other spaces since these stored runs. One question for each space."""
        causes: dict[Node, list[DocPath]] = {}
        asked: dict[Bridge, list[tuple[Node, FarRow]]] = {}
        homes: dict[str, tuple[Bridge, str, str]] = {}
        for node, seen in rows:
            if node in self._unmade:
                causes[node] = [(self._unmade.pop(node), ())]
            for each in seen:
                home = homes.get(each.space)
                if home is None:
                    space = self._open(each)
                    if space is None:
                        continue
                    home = homes[each.space] = (self.to(space), space.lineage.hex(), space.branch)
                bridge, lineage, branch = home
                is_same = lineage == each.lineage and branch == each.branch
                for row in far_rows(each):
                    if not is_same:
                        causes.setdefault(node, []).append((bridge.watch(row[0]), ()))
                    else:
                        asked.setdefault(bridge, []).append((node, row))
        for bridge, questions in asked.items():
            self._ask(bridge, questions, causes)
        for bridge, spanned in self._spans_of(rows, causes).items():
            self._ask_spans(bridge, spanned, causes)
        return {node: found for node, found in causes.items() if found}

    @staticmethod
    def _ask(bridge: Bridge, questions: list[tuple[Node, FarRow]], causes: dict[Node, list[DocPath]]) -> None:
        far = bridge.there
        answers = far.run_cache.changed_since(BranchId(far.branch), [row for _, row in questions])
        for (node, (doc, _, _)), changed in zip(questions, answers, strict=True):
            places: list[Path] = changed
            if far.replica.is_layered(doc) or any(failure_of(each) is not None for each in bridge.writers(doc)):
                # Written there, and not decided yet; or another outcome than the document shows.
                places = [()]
            if places:
                causes.setdefault(node, []).extend([(bridge.keys[doc], path) for path in places])

    def _spans_of(
        self, rows: Sequence[tuple[Node, Sequence[FarSeen]]], causes: dict[Node, list[DocPath]]
    ) -> dict[Bridge, list[tuple[Node, FarSeen]]]:
        """The stored reads of indexes, by the bridge to their space. Those of another log have changed."""
        found: dict[Bridge, list[tuple[Node, FarSeen]]] = {}
        for node, each in [(node, each) for node, seen in rows for each in seen if each.spans]:
            space = self._open(each)
            if space is not None and (space.lineage.hex(), space.branch) == (each.lineage, each.branch):
                found.setdefault(self.to(space), []).append((node, each))
            elif space is not None:
                causes.setdefault(node, []).append((_record_of(each), ()))
        return found

    @staticmethod
    def _ask_spans(bridge: Bridge, questions: list[tuple[Node, FarSeen]], causes: dict[Node, list[DocPath]]) -> None:
        far = bridge.there
        rows = [(seen.spans, seen.seq) for _, seen in questions]
        answers = far.run_cache.shifted(BranchId(far.branch), rows)
        for (node, seen), changed in zip(questions, answers, strict=True):
            keys = [SpanKey(each.index, each.lo, each.hi, each.fields) for each in seen.spans]
            with far.replica.lock:
                # Written there, and not decided: the store does not know of it yet.
                layered = [doc for read in span_reads_now(far.replica, keys) for doc in read.layered]
            docs = dict.fromkeys([*changed, *layered])
            causes.setdefault(node, []).extend((far_key(seen.space, doc), ()) for doc in docs)

    def is_open(self, space: str) -> bool:
        """Whether a space that functions here have read, by its id, is connected: changes there are notified."""
        return any(far.space_id == space for far in self.out)

    def await_space(self, node: Node, seen: Sequence[FarSeen]) -> None:
        """A stored run has read a space that is not open."""
        self._unasked[node] = tuple(seen)

    def opened(self) -> None:
        """This space is open: functions of others that have asked for it in vain may read it now."""
        for other in list(open_spaces()):
            if not isinstance(other, BridgedSpace) or not self._is_elsewhere(other):
                continue
            # Never waits for the lock: this thread holds that of this space, and the other one may be opened, too.
            if other.lock.acquire(blocking=False):
                try:
                    other.bridges.found(self._space)
                finally:
                    other.lock.release()
                    other.make_up()
            elif not other.closed:
                other.call_soon(partial(other.bridges.found_meanwhile, self._space))

    def found_meanwhile(self, space: BridgedSpace) -> None:
        """Another space was opened while the lock was not free."""
        with self._space.lock:
            if not space.closed and not self._space.closed:
                self.found(space)

    def found(self, space: BridgedSpace) -> None:
        """Another space was opened. The caller holds the lock."""
        here = self._space
        for node, seen in list(self._unasked.items()):
            if not self.absent(seen):
                del self._unasked[node]
                if node.status is NodeStatus.NEVER_RAN and not node.removed:
                    here.restorer.take_over_one(node)
        scheduler = here.scheduler
        met = [node for node in scheduler.registry.nodes if isinstance(node.error, NotOpen | ClosedError)]
        for node in met:
            scheduler.invalidation.mark(node, (node.outputs[0] if node.outputs else DocKey("space/?"), ()), SINCE)
        lost = {key for key in scheduler.graph.index.docs if is_far(key) and split_far(key)[0] == space.space_id}
        # Not for another opening of a space that is read already, as with `apart=True`.
        if lost and all(each.space_id != space.space_id for each in self.out):
            bridge = self.to(space)
            for key in lost:
                bridge.watch(split_far(key)[1])
                for node in scheduler.graph.index.of_doc(key):
                    # It was closed meanwhile, and may have been changed.
                    scheduler.invalidation.mark(node, (key, ()), SINCE)
        if self._ask_indexes_again(space) or met or lost:
            here.notice(space)

    def _ask_indexes_again(self, space: BridgedSpace) -> bool:
        """Another space was opened. Invalidate what has read indexes of an earlier opening; whether there is any."""
        scheduler = self._space.scheduler
        if scheduler.graph.spans.reaches(space.space_id) is not None:
            return False
        found = scheduler.graph.spans.nodes_of(space.space_id)
        for node in found:
            scheduler.invalidation.mark(node, (far_key(space.space_id, DocKey("space/?")), ()), SINCE)
        return bool(found)


class PlainFar(FarSpace):
    """Another space, for transactions of plain code: nothing is to be notified, and no lock is held."""

    def pull(self, node: object) -> None:
        """Make a function of that space current, or raise its error."""
        assert isinstance(self.far, BridgedSpace)
        assert isinstance(node, Node)
        self.far.pull(node, in_run=False)


class BridgedRuntime(ChainedRuntime):
    """The runtime of a space, as its bridges use it."""

    attached: AttachedReplica
    bridges: Bridges | None = None
    passing: int = 0
    """The thread of the pass."""
    only_turns: bool = False
    """There is work for other spaces only."""


class SpaceWithBridges(RingSpace):
    """The part of an opening for other spaces."""

    runtime: BridgedRuntime
    bridges: Bridges

    def _face_spaces(self) -> None:
        """Openings with one runtime have the same bridges: they have one scheduler."""
        runtime = self.runtime
        if runtime.bridges is None:
            runtime.bridges = Bridges(self)
            self.scheduler.reach_out(runtime.bridges)
        self.bridges = runtime.bridges
        self._this_thread = machine().thread_id
        self._home_thread = self._this_thread()
        self._turns = Turns.of_process()

    def reads_in(self, tx: Transaction, other: SpacePort, what: str | Addressed) -> Transaction:
        """The reads of a transaction of this space in another space."""
        # For cells: a run has one opening of each app in reach. Plain code may have several.
        key: object = other if tx.node is None or other.owner is None else other.owner
        views = tx.views
        view = None if views is None else views.get(key)
        if view is None:
            if other.closed:
                other.check(what)
            view = self._first_read(tx, other)
            if views is None:
                tx.views = {key: view}
            else:
                views[key] = view
        view.peeks = tx.peeks
        return view

    def _first_read(self, tx: Transaction, other: SpacePort) -> FarReads:
        if tx.node is None or not isinstance(other, BridgedSpace):
            # Of plain code: no function has to be notified. A function that reads what a resolver has opened is
            # not notified either, and its run is not kept: the next opening runs it again.
            tx.reads_outside = tx.reads_outside or tx.node is not None
            view = FarReads(tx, PlainFar(self, other))
            view.gate = other.gate
            return view
        bridge = self.bridges.to(other)
        view = FarReads(tx, bridge)
        view.failures = other.scheduler.invalidation.failures
        # In the handling of an event, results are made current.
        view.gate = other.gate if tx.event is None else bridge.gate(tx, view)
        return view

    def notice(self, source: BridgedSpace) -> None:
        """Something has changed in a space that functions of this one read: a pass is due. Called in any thread."""
        runtime = self.runtime
        if self.can_await:
            runtime.follow(source.runtime)
            self.catch_up_soon()
            return
        runtime.has_work, runtime.only_turns = True, False
        thread = self._this_thread()
        if thread != self._home_thread:
            # With its next read.
            self.runtime.attached.poke()
        elif runtime.passing != thread:
            self._turns.add(self, thread)
            source.give_turns()

    def is_of(self, thread: int) -> bool:
        """Whether it is used by this thread, and by no event loop."""
        return not self.can_await and self._home_thread == thread

    def tell_decided(self) -> None:
        """Everything written here is decided: what functions of other spaces have read can be stored."""
        for bridge in self.bridges.readers:
            reader = bridge.here
            # Never waits for the lock: a space that is closed holds its own, and the other one may do the same.
            if reader.lock.acquire(blocking=False):
                try:
                    reader.note_decided()
                finally:
                    reader.lock.release()
                    reader.make_up()
            else:
                reader.call_soon(reader.note_decided)

    @abstractmethod
    def wait_for_disk(self, timeout: float | None = None) -> None:
        """Return when everything written so far is decided."""

    def take_in_decided(self) -> None:
        """Wait until everything written so far is decided, and take the decisions in."""
        self.wait_for_disk()
        self.runtime.attached.refresh()

    def give_turns(self) -> None:
        """Other spaces of this thread are due: the end of the write that has changed something lets them settle."""
        if self.can_await:
            self.catch_up_soon()
        elif not self.runtime.has_work:
            self.runtime.has_work = self.runtime.only_turns = True

    @property
    def sources(self) -> Iterable[TurnTaker]:
        """The spaces that it reads."""
        return [bridge.there for bridge in self.bridges.out.values() if isinstance(bridge.there, SpaceWithBridges)]

    def note_late(self) -> None:
        """Store observations of runs that had read something undecided in another space."""
        self.bridges.wait_decided()
        self.note_decided()

    def note_decided(self) -> None:
        """The same, for what is decided already."""
        with self.lock:
            self.scheduler.invalidation.drain()
            self.scheduler.persistence.note_late()

    def note_same_answers(self) -> None:
        """Store observations of runs whose answers are the same, though documents have changed since."""
        with self.lock:
            self.scheduler.invalidation.drain()
            for node in with_same_answers(self.scheduler.graph):
                self.scheduler.persistence.note_again(node)

    def announce(self) -> None:
        """The space is open, and its functions are restored."""
        self.bridges.opened()


def _views(tx: Transaction) -> list[tuple[FarReads, Bridge]]:
    """The reads of a run in other spaces."""
    views = (tx.views or {}).values()
    return [(view, view.far) for view in views if isinstance(view, FarReads) and isinstance(view.far, Bridge)]


def _record_of(seen: FarSeen) -> DocKey:
    """The record of a collection whose index a stored run has read: the cause, where no document is known."""
    return far_key(seen.space, record_doc(kind_of_index(seen.spans[0].index)))
