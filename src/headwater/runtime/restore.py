"""Restores the runs of earlier openings, and explains what was not restored.

Length: what is restored, what is forgotten and what is asked of the store have one order.
"""

from __future__ import annotations

import gc
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, Protocol, runtime_checkable

import msgspec

from headwater.cells.span_records import SpanKey
from headwater.cells.transaction import Transaction
from headwater.cells.transaction_states import SETTLED
from headwater.declare.functions.function_options import FunctionOptions
from headwater.declare.functions.function_port import FunctionPort
from headwater.declare.functions.instances import Instances
from headwater.declare.functions.mutables import changed_containers
from headwater.errors import HeadwaterError, UnavailableError
from headwater.runtime.run_cache import RunCache
from headwater.scheduler.graph.node import Node
from headwater.scheduler.runs.persistence import CALLS_KEY
from headwater.scheduler.runs.resumed_node import CHANGED_CODE, NOTHING, Resumed
from headwater.scheduler.runs.span_checks import near_spans
from headwater.scheduler.scheduler_limits import UNREAD_MAX
from headwater.store.backend import ObservationRow
from headwater.store.collection_record import kind_of_index, record_doc
from headwater.store.observations import Arguments
from headwater.store.resumption import Listing
from headwater.values.address import Depth, doc_key, is_far
from headwater.values.ids import BranchId, DocKey, Seq
from headwater.values.tree import Path

GONE_MAX: Final = 256
"""Rows deleted from the store together: each deletion folds the waiting log first."""


@runtime_checkable
class RestorableFunction(Protocol):
    """A function with parameters, as it is used here."""

    @property
    def doc(self) -> str:
        """The prefix of the keys of its results."""
        ...

    @property
    def options(self) -> FunctionOptions:
        """Its declared options."""
        ...

    def restored_call(self, home: FunctionPort, doc: DocKey, stored: Arguments) -> Callable[[], Node] | None:
        """Make the node of a call; None if that is impossible."""
        ...


class RestorePort(FunctionPort):
    """An open space, as functions are restored in it."""

    restorer: Restorer

    @property
    @abstractmethod
    def run_cache(self) -> RunCache:
        """What is stored of runs for the next opening."""

    @abstractmethod
    def note_late(self) -> None:
        """Store observations of runs that had read something undecided in another space."""

    @abstractmethod
    def note_same_answers(self) -> None:
        """Store observations of runs whose answers are the same, though documents have changed since."""

    @abstractmethod
    def announce(self) -> None:
        """The functions of this space are restored: functions of other spaces may read it."""


class Resumption(msgspec.Struct, frozen=True):
    """What an opening restored: how many functions need not run, and why the others must."""

    restored: int
    """The number of functions that need not run: nothing they read has changed."""
    dirty: int
    """The number of functions that run when observed, because a value that they read has changed."""
    fresh: int
    """The number of functions without a stored observation."""
    missed: tuple[Resumed, ...]
    """Each function that was not restored, with the reason."""

    def __str__(self) -> str:
        lines = [f"{self.restored} restored, {self.dirty} dirty, {self.fresh} fresh"]
        lines += [f"  {each.node}: {each.outcome}, {each.reason}" for each in self.missed]
        return "\n".join(lines)


class Restorer:
    """Restores the functions of one open space."""

    def __init__(self, space: RestorePort, branch: str) -> None:
        self._space = space
        self._branch = BranchId(branch)
        # Observations without a node yet: of functions with parameters, whose nodes are made by calls.
        self._left: Listing | None = None
        # The same for active pieces, by the prefix of their documents.
        self._left_of: dict[str, Listing] = {}
        # Functions with parameters, by the prefix of their results; rebuilt when one is not found.
        self._functions: dict[str, tuple[FunctionPort, RestorableFunction]] = {}
        # Functions whose observations are to be deleted, with the last commit that carries one.
        self._gone: dict[DocKey, Transaction | None] = {}

    def take_over(self, app: str, declared: Collection[str]) -> None:
        """Restore all declared functions, before anything runs."""
        space = self._space
        start = doc_key(f"{app}.")
        nodes = [node for node in space.nodes.values() if node.fingerprint is not None]
        # Made for calls of other apps in the same runtime, which were restored before.
        nodes += [node for each in space.instances.values() for node in each.nodes() if _is_fresh(node)]
        besides = {doc for node in nodes for doc in node.outputs[1:]} | self._written_besides()
        found = space.run_cache.listing(self._branch, start, besides)
        if found.rows:
            with uncollected():
                self._restore(nodes, found)
            if any(node.restored for node in nodes):
                # The observations belong to this program, and not to another one with its name.
                self._forget(found, start, declared)
            self._set_gates(found)
        # For later calls, changes are checked at the call.
        found.heads.clear()
        self._left = found
        space.announce()

    def take_over_one(self, node: Node, piece: str = "") -> None:
        """Restore a node that was made later, as for functions with parameters and pieces."""
        if node.fingerprint is not None:
            # Before anything runs that could change what the function uses.
            node.taken_fingerprint()
        left = self._left_of.get(piece) if piece else self._left
        key = node.stored_as or (node.outputs[0] if node.outputs else None)
        if self._gone and key is not None:
            self._gone.pop(key, None)
        if left is None or key not in left.rows or node.fingerprint is None or node.has_value:
            return
        self._restore([node], Listing(left.branch, left.seq, {}, {}))

    def take_over_piece(self, prefix: str, nodes: list[Node]) -> None:
        """Restore the functions of a piece that is started again, before any of them runs."""
        kept = [node for node in nodes if node.fingerprint is not None and not node.has_value]
        besides = {doc for node in kept for doc in node.outputs[1:]} | self._written_besides()
        with suppress(UnavailableError):
            # Including runs without writes. Without room for them a function runs again; but the piece is built as a
            # whole, also where a start that had no room is undone.
            self.keep()
        found = self._space.run_cache.listing(self._branch, doc_key(prefix), besides)
        if found.rows:
            self._restore(kept, found)
            self._set_gates(found)
            if self._space.replica.pending_count:
                for node in kept:
                    if node.restored and node.is_clean:
                        self._space.scheduler.persistence.note_again(node)
        if found.rows:
            found.heads.clear()
            self._left_of[prefix] = found

    def _set_gates(self, found: Listing) -> None:
        """Restore debounce and throttle settings of earlier openings."""
        scheduler = self._space.scheduler
        gates = scheduler.gates
        if gates.settings.load(found):
            for node in scheduler.registry.nodes:
                gate = gates.of(node)
                if (gate.debounce_ms, gate.throttle_ms) != gates.settings.of(node):
                    gates.configure(node)

    # -- calls ---------------------------------------------------------------------------------------------

    def _restore(self, nodes: Sequence[Node], found: Listing) -> None:
        """Restore nodes, and transitively the calls with arguments that their runs made."""
        persistence = self._space.scheduler.persistence
        batch, todo, unmade = dict.fromkeys(nodes), list(nodes), set[Node]()
        while todo:
            node = todo.pop()
            row = found.rows.get(node.stored_as or node.outputs[0]) or self._row_of(node, found)
            if row is None or CALLS_KEY not in row.body:
                continue
            calls = persistence.calls_of(node, row, found)
            made = self._remake(calls) if calls else []
            if made is None:
                unmade.add(node)
                continue
            for each in made:
                if each in batch or not _is_fresh(each):
                    continue
                home: object = each.spec.home
                if home is self._space:
                    batch[each] = None
                    todo.append(each)
                elif isinstance(home, RestorePort):
                    # Of another app, which has its own rows; unless that is restored after this one.
                    home.restorer.take_over_one(each)
        persistence.restore_all(batch, found, self._is_changed, unmade, self._shifted)
        self._hold_reads(batch)
        for node in batch if persistence.missed else ():
            missed = persistence.missed.get(node.id)
            if missed is not None and missed.reason == CHANGED_CODE and (names := changed_containers(node.origin)):
                used = f"it uses {', '.join(names)}, which the program has changed since the function was declared"
                persistence.missed[node.id] = msgspec.structs.replace(missed, reason=f"{CHANGED_CODE}: {used}")

    def _hold_reads(self, nodes: Iterable[Node]) -> None:
        """A client is notified only of documents that it holds: load what the restored runs have read."""
        replica = self._space.replica
        if not replica.is_partial:
            return
        restored = [node for node in nodes if node.restored and node.is_clean]
        newer: Collection[DocKey] = ()
        # Away, or more than the server lets watch: they run when they are observed.
        with suppress(HeadwaterError):
            newer = set(replica.hold(dict.fromkeys(doc for node in restored for doc in _docs_here(node))))
        for node in restored:
            late = [doc for doc in _docs_here(node) if doc in newer or not replica.is_loaded(doc)]
            if late:
                self._space.scheduler.persistence.outdate(node, late[0])
        self._hold_spans([node for node in restored if node.is_clean and near_spans(node)])

    def _hold_spans(self, nodes: Sequence[Node]) -> None:
        """The same for spans of indexes: be notified of what changes there, without asking for keys."""
        replica = self._space.replica
        keys = list(dict.fromkeys(key for node in nodes for key in near_spans(node)))
        changed: Collection[SpanKey] = keys
        with suppress(HeadwaterError):
            changed = replica.hold_spans(keys)
        for node in nodes if changed else ():
            late = next((key for key in near_spans(node) if key in changed), None)
            if late is not None:
                self._space.scheduler.persistence.outdate(node, record_doc(kind_of_index(late.index)))

    def _row_of(self, node: Node, found: Listing) -> ObservationRow | None:
        """Its row; one from another listing is moved here, with the current versions of its reads."""
        key = node.stored_as or node.outputs[0]
        if key in found.rows:
            return found.rows[key]
        pieces = (left for prefix, left in self._left_of.items() if key.startswith(doc_key(prefix)))
        left = next(pieces, self._left)
        if left is None or left is found or key not in left.rows:
            return None
        row = left.rows.pop(key)
        found.heads |= self._space.run_cache.heads_of(left, row, node.outputs).heads
        if key in left.inherited:
            found.inherited |= {key}
        found.rows[key] = row
        return row

    def _remake(self, calls: Sequence[tuple[DocKey, Arguments]]) -> list[Node] | None:
        """Nodes for these calls: all of them, or none."""
        makers: list[Callable[[], Node]] = []
        for doc, arguments in calls:
            home, function = self._function_of(doc)
            make = None if function is None else function.restored_call(home, doc, arguments)
            if make is None:
                return None
            makers.append(make)
        return [make() for make in makers]

    def remake(self, doc: DocKey, arguments: Arguments | None) -> bool:
        """Make the node of a call that a run of another space has made. Returns whether it exists."""
        made = None if arguments is None else self._remake([(doc, arguments)])
        for node in made or ():
            self.take_over_one(node)
        return bool(made)

    def _function_of(self, doc: DocKey) -> tuple[FunctionPort, RestorableFunction | None]:
        """The function with parameters of a result, and its opening: also of another app in the same runtime."""
        name = Instances.function_of(doc)
        home, function = self._functions.get(name, (self._space, None))
        if function not in home.instances:
            self._functions = {
                doc_key(each.doc): (home, each)
                for home in self._space.runtime.by_owner.values()
                if isinstance(home, FunctionPort)
                for each in home.instances
                if isinstance(each, RestorableFunction)
            }
            home, function = self._functions.get(name, (self._space, None))
        return home, function

    def _written_besides(self) -> set[DocKey]:
        """Documents that functions with parameters write besides their results."""
        functions = [each for each in self._space.instances if isinstance(each, RestorableFunction)]
        return {doc for each in functions for doc in each.options.write_surface(self._space)[0]}

    def leave_piece(self, prefix: str) -> None:
        """Forget a stopped piece."""
        self._left_of.pop(prefix, None)

    # -- what goes -----------------------------------------------------------------------------------------

    def forget(self, node: Node) -> None:
        """Delete the observation of an instance that is not needed; its result stays in the store."""
        key = node.stored_as or node.outputs[0]
        self._space.replica.observations.drop(key)
        self._gone[key] = node.commit
        if len(self._gone) >= GONE_MAX:
            self._drop_gone()

    def _drop_gone(self) -> None:
        """Functions whose last commit is decided: its observation is stored by then, or never will be."""
        gone = [doc for doc, tx in list(self._gone.items()) if tx is None or tx.status in SETTLED]
        if not gone:
            return
        for doc in gone:
            self._gone.pop(doc, None)
            self._space.replica.release(doc)
        self._space.run_cache.forget(self._branch, gone, let_go=True)

    def leave(self) -> None:
        """Of observations that this opening did not use, keep the newest: they may be called again."""
        functions = [function for function in self._space.instances if isinstance(function, RestorableFunction)]
        found: dict[str, list[ObservationRow]] = {doc_key(function.doc): [] for function in functions}
        for doc, row in self._left.rows.items() if self._left is not None else ():
            if (whose := doc.partition(":")[0]) in found:
                found[whose].append(row)
        for rows in found.values():
            rows.sort(key=lambda row: row.seq)
            self._gone.update((row.doc, None) for row in rows[: max(len(rows) - UNREAD_MAX, 0)])
        with suppress(HeadwaterError):
            # A failing store has reported that already.
            self._drop_gone()

    def _is_changed(self, doc: DocKey, places: list[tuple[Path, Depth]], after: Seq) -> bool:
        if self._space.replica.is_layered(doc):
            # Written here, not decided yet.
            return True
        return self._space.run_cache.is_changed(self._branch, doc, places, after)

    def _shifted(self, rows: Sequence[tuple[tuple[SpanKey, ...], Seq]]) -> Sequence[Sequence[DocKey]]:
        return self._space.run_cache.shifted(self._branch, rows)

    def _forget(self, found: Listing, start: str, declared: Collection[str]) -> None:
        """Delete observations of functions that were removed from the app."""
        gone = [doc for doc in found.rows if _name(doc, start) not in declared]
        if gone:
            self._space.run_cache.forget(self._branch, gone)
            for doc in gone:
                del found.rows[doc]

    def explain(self) -> Resumption:
        """The result of restoring."""
        space, persistence = self._space, self._space.scheduler.persistence
        missed, restored = dict(persistence.missed), persistence.restored
        nodes = list(space.scheduler.registry.nodes)
        home: object = space
        own = [node for node in nodes if node.spec.home is home]
        if len(own) < len(nodes):
            # Other apps are open in the same runtime.
            others = {node.id for node in nodes} - {node.id for node in own}
            missed = {node: each for node, each in missed.items() if node not in others}
            restored = sum(node.restored and node.id not in missed for node in own)
        for node in list(space.nodes.values()):
            if node.fingerprint is not None and not node.restored and node.id not in missed:
                # Nothing to search at the first opening.
                missed[node.id] = Resumed(node.id, "fresh", NOTHING)
        dirty = sum(each.outcome == "dirty" for each in missed.values())
        return Resumption(restored, dirty, len(missed) - dirty, tuple(missed.values()))

    def keep(self) -> None:
        """Store observations that no commit has carried."""
        replica = self._space.replica
        if self._space.scheduler.graph.spans.unnoted:
            self._space.note_same_answers()
        if self._space.scheduler.persistence.late:
            # Also those among these that have read something undecided.
            self._space.note_late()
        notes = replica.decided_observations()
        if notes:
            try:
                self._space.run_cache.note(notes)
            except HeadwaterError:
                with replica.lock:
                    replica.observations.put_back(notes)
                raise
        if self._gone:
            self._drop_gone()


@contextmanager
def uncollected() -> Iterator[None]:
    """Without garbage collection: every record stays, and restoring takes a third less time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _docs_here(node: Node) -> list[DocKey]:
    """The documents of this space that a node has read. Those of others are held there (`Bridge.install`)."""
    return [doc for doc, _, _ in node.reads if not is_far(doc)]


def _is_fresh(node: Node) -> bool:
    return node.fingerprint is not None and not node.has_value


def _name(doc: DocKey, start: str) -> str:
    return doc[len(start) :].partition(":")[0]
