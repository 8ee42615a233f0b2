"""The results of a list that a run has read, for its next run: only changed elements are read again.

A run of a computed or a sink that reads all of a list depends on each element. Its next run has the elements that have
changed since as its causes (I8), and reuses the others (`cells.kept_reads`). An element is always read again if it
failed, or if reading it reads more than its own document, as a link does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headwater.cells.kept_reads import Keeping, KeptReads, KeyChange
from headwater.cells.pending_commit import ReadKey
from headwater.cells.transaction import Transaction
from headwater.cells.traverse import holds_link
from headwater.declare.lists.each_roster import EachRoster, RowChange
from headwater.errors import NotReadyError
from headwater.scheduler.graph.node import Node
from headwater.scheduler.scheduler import Scheduler
from headwater.values.ids import DocKey
from headwater.values.tree import ABSENT

_UNREAD: Final = object()
"""An element that has to be read."""


class KeptRows:
    """The values of one list in one run."""

    __slots__ = ("again", "roster", "values")

    def __init__(self, roster: EachRoster, values: list[object], again: list[int]) -> None:
        self.roster = roster
        # By index; changed in place by the next run.
        self.values = values
        # The indices that every run reads again.
        self.again = again


class RowReading:
    """One reading of all elements, in a run."""

    def __init__(self, tx: Transaction, roster: EachRoster) -> None:
        self._tx = tx
        self._roster = roster
        self._again: list[int] = []
        self._failed: Exception | None = None

    def read(self, values: list[object], places: Iterable[int]) -> None:
        """Read some of the elements.

        All are read, whatever fails. If one is in progress, the next would else start only after it. If one failed, a
        reader that stops there would drop the elements behind it, and all would run again when that one is fixed.
        """
        entries = self._roster.rows
        journal = self._tx.journal.entries
        for place in places:
            entry = entries[place]
            if entry is None:
                values[place] = None
                continue
            count = len(journal)
            try:
                values[place] = entry.read()
            except NotReadyError as error:
                self._again.append(place)
                self._failed = self._failed or error
                continue
            except Exception as error:  # noqa: BLE001  # raised below
                self._again.append(place)
                if self._failed is None or isinstance(self._failed, NotReadyError):
                    self._failed = error
                continue
            tree = self._tx.document(entry.result)
            is_alone = entry.read_key in journal and len(journal) <= count + 1
            if not is_alone or tree is ABSENT or holds_link(tree):
                self._again.append(place)

    def keep(
        self,
        owner: object,
        values: list[object],
        keys: dict[ReadKey, None],
        change: KeyChange | None = None,
        *,
        is_reused: bool,
    ) -> None:
        """Let the next run reuse these values. Raises the first error; without any, the first NotReadyError."""
        keeping = self._tx.keeping = self._tx.keeping or Keeping()
        keeping.parts[owner] = KeptReads(keys, KeptRows(self._roster, values, self._again), change)
        if is_reused:
            keeping.reuse(self._tx.replica.version)
        if self._failed is not None:
            raise self._failed


def may_keep(tx: Transaction) -> bool:
    """Whether a transaction is a run that may keep its reads.

    Not if it may be suspended: its reads are registered in between. Not if changes of its group do not concern it: they
    are no causes.
    """
    node = tx.node
    if not tx.is_running or tx.peeks or not isinstance(node, Node):
        return False
    return not node.spec.is_async and node.spec.change_group is None


def read_rows(owner: object, scheduler: Scheduler, tx: Transaction, roster: EachRoster) -> list[object]:
    """The values of all elements, in a run that may keep its reads. Read-only for the caller."""
    node = tx.node
    assert isinstance(node, Node)
    kept = None if node.rare.kept is None else node.rare.kept.parts.get(owner)
    reading = RowReading(tx, roster)
    if kept is None or not scheduler.has_valid_inputs(node):
        values: list[object] = [None] * len(roster.entries)
        reading.read(values, range(len(values)))
        journal = tx.journal.entries
        keys: dict[ReadKey, None] = {key: None for key in _keys_of(roster) if key in journal}
        reading.keep(owner, values, keys, is_reused=False)
        return values
    rows, keys = kept.content, kept.keys
    assert isinstance(rows, KeptRows)
    change, other = roster.change, None
    if rows.roster is roster:
        values = rows.values
        todo = set(rows.again)
        for doc, _ in tx.triggers:
            todo.update(_places_of(roster, doc))
        reading.read(values, sorted(todo))
    elif change is not None and change.former is rows.roster.token:
        values, todo = _spliced(node, tx, kept, roster, change)
        reading.read(values, sorted(todo))
        other = _key_change(keys, tx, change)
        keys = _changed(other)
    else:
        values = _moved(node, tx, rows, roster)
        reading.read(values, [place for place, value in enumerate(values) if value is _UNREAD])
        journal, before = tx.journal.entries, keys
        keys = {key: None for key in _keys_of(roster) if key in before or key in journal}
    reading.keep(owner, values, keys, other, is_reused=True)
    return values


def _moved(node: Node, tx: Transaction, rows: KeptRows, roster: EachRoster) -> list[object]:
    """The values of elements that were in the list before, by their new indices."""
    changed = {doc for doc, _ in tx.triggers}
    before, above, old = _index_of(rows.roster), node.above, rows.values
    again = set(rows.again)
    values: list[object] = []
    for row in roster.rows:
        if row is None:
            values.append(None)
            continue
        doc = row.read_key[0]
        place = before.get(doc)
        # Without a node above it, the element has left the list and come back.
        is_kept = place is not None and doc in above and doc not in changed and place not in again
        values.append(old[place] if is_kept and place is not None else _UNREAD)
    return values


def _spliced(
    node: Node, tx: Transaction, kept: KeptReads, roster: EachRoster, change: RowChange
) -> tuple[list[object], set[int]]:
    """The values of all elements, of which some have others in their place; and the indices of those to be read."""
    rows = kept.content
    assert isinstance(rows, KeptRows)
    at, end, shift = change.at, change.at + len(change.gone), len(change.rows) - len(change.gone)
    todo = {place if place < at else place + shift for place in rows.again if not at <= place < end}
    again = {place for place in rows.again if at <= place < end}
    # Of the elements in between, those that have only moved.
    known = {row: rows.values[at + index] for index, row in enumerate(change.gone) if at + index not in again}
    middle: list[object] = []
    for place, row in enumerate(change.rows, at):
        # Without a node above it, the element has left the list and come back.
        is_kept = row in known and row.result in node.above
        middle.append(known[row] if is_kept else _UNREAD)
        if not is_kept:
            todo.add(place)
    for doc, _ in tx.triggers:
        if (doc, (), 0) in kept.keys:
            todo.update(_places_of(roster, doc))
    return [*rows.values[:at], *middle, *rows.values[end:]], todo


def _key_change(before: dict[ReadKey, None], tx: Transaction, change: RowChange) -> KeyChange:
    """How the reads of the elements differ from those before."""
    journal = tx.journal.entries
    gone = [row.read_key for row in change.gone if not row.count and row.read_key in before]
    added = [row.read_key for row in change.rows if row.read_key in journal and row.read_key not in before]
    return KeyChange(before, added, gone)


def _changed(change: KeyChange) -> dict[ReadKey, None]:
    """The reads after a change."""
    keys = change.base.copy()
    for key in change.gone:
        keys.pop(key, None)
    keys.update(dict.fromkeys(change.added))
    return keys


def _keys_of(roster: EachRoster) -> list[ReadKey]:
    """The reads of the results."""
    return [row.read_key for row in roster.by_key.values()]


def _index_of(roster: EachRoster) -> dict[DocKey, int]:
    """By the documents of their results, the indices of the elements; of an element that is there twice, the last."""
    if roster.places is None:
        rows = [(row.read_key[0], place) for place, row in enumerate(roster.rows) if row is not None]
        roster.places = dict(rows)
        roster.has_repeats = len(roster.places) < len(rows)
    return roster.places


def _places_of(roster: EachRoster, doc: DocKey) -> list[int]:
    """All indices of an element."""
    place = _index_of(roster).get(doc)
    if place is None or not roster.has_repeats:
        return [] if place is None else [place]
    row = roster.entries[place]
    return [place for place, entry in enumerate(roster.entries) if entry is row]
