"""What an opening takes over from those before it, and what is to be said of that.

Must never know: apps, and when a function runs.
"""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from headwater.scheduler.node import Node
from headwater.scheduler.persistence import NOTHING, Resumed
from headwater.store.resumption import Listing, drop_unclaimed, listing, overlapping_writes, places_of
from headwater.values.address import Depth, doc_key
from headwater.values.ids import BranchId, DocKey, Seq
from headwater.values.tree import Path

if TYPE_CHECKING:
    from headwater.host.base_space import BaseSpace


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


class Resuming:
    """The part of an open space that takes over."""

    def __init__(self, space: BaseSpace, branch: str) -> None:
        self._space = space
        self._branch = BranchId(branch)
        # What nobody has claimed yet: of functions with parameters, which are there when they are called.
        self._left: Listing | None = None

    def take_over(self, app: str, declared: Collection[str]) -> None:
        """Everything is declared: install what is kept of it, before anything runs."""
        space = self._space
        start = doc_key(f"{app}.")
        nodes = [node for node in space.nodes.values() if node.spec.print is not None]
        besides = {doc for node in nodes for doc in node.outputs[1:]}
        found = space.ask_store(lambda engine: listing(engine, self._branch, start, besides))
        if found.rows:
            with _uncollected():
                space.scheduler.persistence.restore_all(nodes, found, self._is_changed)
            if any(node.restored for node in nodes):
                # It is the program that these are of, and not another one that only has its name.
                self._forget(found, start, declared)
        # Of what is called later, how new it is then is looked at then.
        found.places.clear()
        self._left = found

    def take_over_one(self, node: Node) -> None:
        """A node came later, as those of functions with parameters do."""
        left = self._left
        key = node.spec.kept_as or (node.outputs[0] if node.outputs else None)
        if left is None or key not in left.rows or node.spec.print is None or node.has_value:
            return
        row = left.rows[key]
        now = self._space.ask_store(lambda engine: places_of(engine, left, row, node.outputs))
        self._space.scheduler.persistence.restore_all([node], now, self._is_changed)
        del left.rows[key]

    def take_over_piece(self, prefix: str, nodes: list[Node]) -> None:
        """A piece is started again: install what is kept of it, before anything of it runs."""
        kept = [node for node in nodes if node.spec.print is not None and not node.has_value]
        besides = {doc for node in kept for doc in node.outputs[1:]}
        found = self._space.ask_store(lambda engine: listing(engine, self._branch, doc_key(prefix), besides))
        if found.rows:
            self._space.scheduler.persistence.restore_all(kept, found, self._is_changed)

    def _is_changed(self, doc: DocKey, places: list[tuple[Path, Depth]], after: Seq) -> bool:
        if self._space.replica.is_layered(doc):
            # Written here, and not decided yet.
            return True
        found = self._space.ask_store(lambda engine: overlapping_writes(engine, self._branch, doc, places, after))
        return found is None or bool(found)

    def _forget(self, found: Listing, start: str, declared: Collection[str]) -> None:
        """Of functions that the app has no longer."""
        gone = [doc for doc in found.rows if _name(doc, start) not in declared]
        if gone:
            self._space.ask_store(lambda engine: drop_unclaimed(engine, self._branch, gone))
            for doc in gone:
                del found.rows[doc]

    def explain(self) -> Resumption:
        """What came of it."""
        persistence = self._space.scheduler.persistence
        missed = dict(persistence.missed)
        for node in list(self._space.nodes.values()):
            if node.spec.print is not None and not node.restored and node.id not in missed:
                # At the first opening there is nothing to be looked through.
                missed[node.id] = Resumed(node.id, "fresh", NOTHING)
        dirty = sum(each.outcome == "dirty" for each in missed.values())
        return Resumption(persistence.restored, dirty, len(missed) - dirty, tuple(missed.values()))

    def keep(self) -> None:
        """Write down what runs have read that no commit has taken along."""
        notes = self._space.replica.notes.take()
        if notes:
            self._space.ask_store(lambda engine: engine.note(notes))


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
