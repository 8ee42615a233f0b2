"""Restores the runs of earlier openings, and explains what was not restored."""

from __future__ import annotations

import gc
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, Protocol, runtime_checkable

import msgspec

from headwater.cells.transaction import Transaction
from headwater.cells.transaction_states import SETTLED
from headwater.declare.functions.function_options import FunctionOptions
from headwater.declare.functions.function_port import FunctionPort
from headwater.declare.functions.instances import Instances
from headwater.declare.functions.mutables import changed_containers
from headwater.errors import HeadwaterError
from headwater.runtime.run_cache import RunCache
from headwater.scheduler.graph.node import Node
from headwater.scheduler.passes.persistence import CHANGED_CODE, NOTHING, Resumed
from headwater.scheduler.scheduler_limits import UNREAD_MAX
from headwater.store.backend import ObservationRow
from headwater.store.observations import Arguments
from headwater.store.resumption import Listing
from headwater.values.address import Depth, doc_key
from headwater.values.ids import BranchId, DocKey, Seq
from headwater.values.tree import Path

GONE_MAX: Final = 256
"""Rows that are dropped from the store together. Each time it is asked, and what waits to be folded is."""


@runtime_checkable
class RestorableFunction(Protocol):
    """A function with parameters, as much as is asked of it here."""

    @property
    def doc(self) -> str:
        """What the names of its results begin with."""
        ...

    @property
    def options(self) -> FunctionOptions:
        """What its author said of it."""
        ...

    def restored_call(self, home: FunctionPort, doc: DocKey, stored: Arguments) -> Callable[[], Node] | None:
        """Makes the node of a call; None if that cannot be made."""
        ...


class RestorePort(FunctionPort):
    """An open space, as functions are restored in it."""

    @property
    @abstractmethod
    def run_cache(self) -> RunCache:
        """What is stored of runs for the next opening."""


class Resumption(msgspec.Struct, frozen=True):
    """What an opening made of what was kept."""

    restored: int
    """Functions that need not run: nothing they read has changed."""
    dirty: int
    """Functions that have to run, if somebody looks: something they read has changed since."""
    fresh: int
    """Functions of which nothing is kept that is good."""
    missed: tuple[Resumed, ...]
    """Each that was not simply restored, and why."""

    def __str__(self) -> str:
        lines = [f"{self.restored} restored, {self.dirty} dirty, {self.fresh} fresh"]
        lines += [f"  {each.node}: {each.outcome}, {each.reason}" for each in self.missed]
        return "\n".join(lines)


class Restorer:
    """The part of an open space that takes over."""

    def __init__(self, space: RestorePort, branch: str) -> None:
        self._space = space
        self._branch = BranchId(branch)
        # What nobody has claimed yet: of functions with parameters, which are there when they are called.
        self._left: Listing | None = None
        # The same of pieces that are at work, by what the names of their documents begin with.
        self._left_of: dict[str, Listing] = {}
        # Functions with parameters, by what the names of their results begin with; made anew when one is not found.
        self._functions: dict[str, RestorableFunction] = {}
        # Of whom nothing is to be kept any more, with the last commit that took something along.
        self._gone: dict[DocKey, Transaction | None] = {}

    def take_over(self, app: str, declared: Collection[str]) -> None:
        """Everything is declared: install what is kept of it, before anything runs."""
        space = self._space
        start = doc_key(f"{app}.")
        nodes = [node for node in space.nodes.values() if node.spec.fingerprint is not None]
        besides = {doc for node in nodes for doc in node.outputs[1:]} | self._written_besides()
        found = space.run_cache.listing(self._branch, start, besides)
        if found.rows:
            with _uncollected():
                self._restore(nodes, found)
            if any(node.restored for node in nodes):
                # It is the program that these are of, and not another one that only has its name.
                self._forget(found, start, declared)
            self._set_gates(found)
        # Of what is called later, how new it is then is looked at then.
        found.heads.clear()
        self._left = found

    def take_over_one(self, node: Node, piece: str = "") -> None:
        """A node came later, as those of functions with parameters do; perhaps those of a piece."""
        if node.spec.fingerprint is not None:
            # Before anything runs that may change what the function uses.
            node.spec.fingerprint()
        left = self._left_of.get(piece) if piece else self._left
        key = node.spec.stored_as or (node.outputs[0] if node.outputs else None)
        if self._gone and key is not None:
            self._gone.pop(key, None)
        if left is None or key not in left.rows or node.spec.fingerprint is None or node.has_value:
            return
        self._restore([node], Listing(left.branch, left.seq, {}, {}))

    def take_over_piece(self, prefix: str, nodes: list[Node]) -> None:
        """A piece is started again: install what is kept of it, before anything of it runs."""
        kept = [node for node in nodes if node.spec.fingerprint is not None and not node.has_value]
        besides = {doc for node in kept for doc in node.outputs[1:]} | self._written_besides()
        # Also of its runs that had nothing to write.
        self.keep()
        found = self._space.run_cache.listing(self._branch, doc_key(prefix), besides)
        if found.rows:
            self._restore(kept, found)
            self._set_gates(found)
        if found.rows:
            found.heads.clear()
            self._left_of[prefix] = found

    def _set_gates(self, found: Listing) -> None:
        """Debounce and throttle as they were set in openings before."""
        scheduler = self._space.scheduler
        gates = scheduler.gates
        if gates.settings.load(found):
            for node in scheduler.registry.nodes:
                gate = gates.of(node)
                if (gate.debounce_ms, gate.throttle_ms) != gates.settings.of(node):
                    gates.configure(node)

    # -- calls ---------------------------------------------------------------------------------------------

    def _restore(self, nodes: Sequence[Node], found: Listing) -> None:
        """Install what is kept of nodes, and of what their runs called with arguments, and so on."""
        persistence = self._space.scheduler.persistence
        batch, todo, unmade = dict.fromkeys(nodes), list(nodes), set[Node]()
        while todo:
            node = todo.pop()
            row = self._row_of(node, found)
            calls = [] if row is None else persistence.calls_of(node, row, found)
            made = self._remake(calls) if calls else []
            if made is None:
                unmade.add(node)
                continue
            for each in made:
                if each not in batch and each.spec.fingerprint is not None and not each.has_value:
                    batch[each] = None
                    todo.append(each)
        persistence.restore_all(batch, found, self._is_changed, unmade)
        for node in batch:
            missed = persistence.missed.get(node.id)
            if missed is not None and missed.reason == CHANGED_CODE and (names := changed_containers(node.spec.origin)):
                used = f"it uses {', '.join(names)}, which the program has changed since the function was declared"
                persistence.missed[node.id] = msgspec.structs.replace(missed, reason=f"{CHANGED_CODE}: {used}")

    def _row_of(self, node: Node, found: Listing) -> ObservationRow | None:
        """Its row; if it is in another listing, it is moved, with how new everything is now that it names."""
        key = node.spec.stored_as or node.outputs[0]
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
        """Nodes for these calls: all, or none if one cannot be made."""
        makers: list[Callable[[], Node]] = []
        for doc, arguments in calls:
            function = self._function_of(doc)
            make = None if function is None else function.restored_call(self._space, doc, arguments)
            if make is None:
                return None
            makers.append(make)
        return [make() for make in makers]

    def _function_of(self, doc: DocKey) -> RestorableFunction | None:
        """The function with parameters that a result is of."""
        name = Instances.function_of(doc)
        if self._functions.get(name) not in self._space.instances:
            self._functions = {
                doc_key(each.doc): each for each in self._space.instances if isinstance(each, RestorableFunction)
            }
        return self._functions.get(name)

    def _written_besides(self) -> set[DocKey]:
        """What functions with parameters write besides their results."""
        functions = [each for each in self._space.instances if isinstance(each, RestorableFunction)]
        return {doc for each in functions for doc in each.options.write_surface(self._space)[0]}

    def leave_piece(self, prefix: str) -> None:
        """A piece is stopped."""
        self._left_of.pop(prefix, None)

    # -- what goes -----------------------------------------------------------------------------------------

    def forget(self, node: Node) -> None:
        """Nobody asks for it any more: nothing is kept of it, in the store nor here, but its result in the store."""
        key = node.spec.stored_as or node.outputs[0]
        self._space.replica.observations.drop(key)
        self._gone[key] = node.commit
        if len(self._gone) >= GONE_MAX:
            self._drop_gone()

    def _drop_gone(self) -> None:
        """Those whose last commit is decided: what that takes along is in the store by then, or never will be."""
        gone = [doc for doc, tx in list(self._gone.items()) if tx is None or tx.status in SETTLED]
        if not gone:
            return
        for doc in gone:
            self._gone.pop(doc, None)
            self._space.replica.release(doc)
        self._space.run_cache.forget(self._branch, gone, let_go=True)

    def leave(self) -> None:
        """Of what this opening has not asked for, the newest is kept: it may be called again, and may be not."""
        functions = [function for function in self._space.instances if isinstance(function, RestorableFunction)]
        found: dict[str, list[ObservationRow]] = {doc_key(function.doc): [] for function in functions}
        for doc, row in self._left.rows.items() if self._left is not None else ():
            if (whose := doc.partition(":")[0]) in found:
                found[whose].append(row)
        for rows in found.values():
            rows.sort(key=lambda row: row.seq)
            self._gone.update((row.doc, None) for row in rows[: max(len(rows) - UNREAD_MAX, 0)])
        with suppress(HeadwaterError):
            # A store that fails has said so already.
            self._drop_gone()

    def _is_changed(self, doc: DocKey, places: list[tuple[Path, Depth]], after: Seq) -> bool:
        if self._space.replica.is_layered(doc):
            # Written here, and not decided yet.
            return True
        return self._space.run_cache.is_changed(self._branch, doc, places, after)

    def _forget(self, found: Listing, start: str, declared: Collection[str]) -> None:
        """Of functions that the app has no longer."""
        gone = [doc for doc in found.rows if _name(doc, start) not in declared]
        if gone:
            self._space.run_cache.forget(self._branch, gone)
            for doc in gone:
                del found.rows[doc]

    def explain(self) -> Resumption:
        """What came of it."""
        persistence = self._space.scheduler.persistence
        missed = dict(persistence.missed)
        for node in list(self._space.nodes.values()):
            if node.spec.fingerprint is not None and not node.restored and node.id not in missed:
                # At the first opening there is nothing to be looked through.
                missed[node.id] = Resumed(node.id, "fresh", NOTHING)
        dirty = sum(each.outcome == "dirty" for each in missed.values())
        return Resumption(persistence.restored, dirty, len(missed) - dirty, tuple(missed.values()))

    def keep(self) -> None:
        """Write down what runs have read that no commit has taken along."""
        notes = self._space.replica.observations.take()
        if notes:
            self._space.run_cache.note(notes)
        if self._gone:
            self._drop_gone()


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without looking for garbage, of which there is none: every record that is made stays. It takes a third less."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _name(doc: DocKey, start: str) -> str:
    return doc[len(start) :].partition(":")[0]
