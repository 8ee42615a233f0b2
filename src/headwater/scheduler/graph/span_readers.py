"""The spans of indexes that nodes read: which nodes a change of a document of a collection concerns.

Indexes of other spaces have far names (`cells.span_records.far_index`): bridges bring the changes of these.

Each index has its ranges with their readers: nodes that read its keys, nodes that read fields of the documents too, and
live tallies. A live tally follows the changes for all nodes that have asked one question, and compares answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from headwater.cells.member_shifts import VisibleShift
from headwater.cells.replica import Replica
from headwater.cells.span_entries import SpanBasis
from headwater.cells.span_reads import SpanReads, values_in_key, values_of
from headwater.cells.span_records import Span, SpanKey, SpanQuestion, far_index, is_far_span, split_index
from headwater.cells.span_tallies import Tally, answer_digest
from headwater.errors import ClosedError, HeadwaterError, InvariantError, NotReadyError
from headwater.scheduler.graph.node import NOTHING_RARE, Node
from headwater.store.collection_record import KeyMove, NamedIndex, kind_of_index
from headwater.values.address import far_key
from headwater.values.ids import DocKey
from headwater.values.ranges import RangeIndex
from headwater.values.tree import ABSENT


class LiveTally:
    """The answer to one question about one span, for all nodes that read it."""

    __slots__ = ("digest", "fields", "key", "question", "readers", "tally", "through")

    def __init__(self, key: SpanKey, question: SpanQuestion) -> None:
        self.key = key
        self.question = question
        self.fields = question.fields
        # Of each node: the answer that it has read.
        self.readers: dict[Node, bytes] = {}
        # None: to be filled. Then: the last shift that is in it, and the last answer that the readers know of.
        self.tally: Tally | None = None
        self.through = 0
        self.digest = b""

    def follow(self, shift: VisibleShift, named: NamedIndex) -> None:
        """Take in a change."""
        tally = self.tally
        if tally is None or tally.is_unsure or shift.number <= self.through:
            return
        self.through = shift.number
        move, lo, hi = shift.move(named), self.key.lo, self.key.hi
        if shift.is_blind:
            self._follow_keys(shift, named, move)
            return
        if move.before is not None and lo <= move.before < hi:
            tally.take(move.before, *values_of(self.question, shift.before))
        if move.after is not None and lo <= move.after < hi:
            tally.put(move.after, *values_of(self.question, shift.after))

    def _follow_keys(self, shift: VisibleShift, named: NamedIndex, move: KeyMove) -> None:
        """Take in a change of a document that was not here: by its keys, if they have what is asked about."""
        assert self.tally is not None
        assert shift.record is not None
        for key, tree, step in (
            (move.before, ABSENT, self.tally.take),
            (move.after, shift.after, self.tally.put),
        ):
            if key is None or not self.key.lo <= key < self.key.hi:
                continue
            values = values_of(self.question, tree)
            if tree is ABSENT:
                known = values_in_key(shift.record, named, self.question, key)
                if known is None:
                    # To be counted anew.
                    self.tally = None
                    return
                values = known
            step(key, *values)


Reader: TypeAlias = Node | tuple[Node, tuple[str, ...]] | LiveTally
"""A node that reads keys; a node with the fields that it reads of the documents; the tally of an answer."""


class _Index:
    """The readers of one index."""

    __slots__ = ("count", "fields", "named", "ranges")

    def __init__(self, named: NamedIndex) -> None:
        self.named = named
        self.ranges: RangeIndex[Reader] = RangeIndex()
        # The number of reads; and the fields that any of them reads of the documents, each with its number.
        self.count = 0
        self.fields: dict[str, int] = {}

    def add(self, key: SpanKey, reader: Reader) -> None:
        self.ranges.add(key.lo, key.hi, reader)
        self._count(key.fields, 1)

    def remove(self, key: SpanKey, reader: Reader) -> None:
        self.ranges.remove(key.lo, key.hi, reader)
        self._count(key.fields, -1)

    def _count(self, fields: tuple[str, ...], by: int) -> None:
        self.count += by
        for name in fields:
            left = self.fields.get(name, 0) + by
            if left:
                self.fields[name] = left
            else:
                del self.fields[name]


def _reader(node: Node, key: SpanKey) -> Reader:
    return (node, key.fields) if key.fields else node


class SpanReaders:
    """The reads of indexes of all nodes of a scheduler."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._indexes: dict[str, _Index] = {}
        # By the kind of their documents; of another space, after its id. The replica asks which kinds are read.
        self.kinds: dict[str, dict[str, _Index]] = {}
        self._tallies: dict[SpanKey, LiveTally] = {}
        # Tallies that a run has asked for, until it has ended; and those that a notification has changed.
        self._fresh: dict[LiveTally, None] = {}
        self._touched: dict[LiveTally, DocKey] = {}
        # Those that a notification has touched since the readers were noted last.
        self.unnoted: dict[LiveTally, None] = {}
        # Other spaces that are open, by their ids; and their indexes that were read, which stay known when they are
        # closed.
        self._far: dict[str, Replica] = {}
        self._far_indexes: dict[str, NamedIndex] = {}

    @property
    def visits(self) -> int:
        """The number of files and ranges that matching has visited."""
        return sum(index.ranges.visits for index in self._indexes.values())

    def knows(self, index: str) -> bool:
        """Whether the index of a stored run is one of a collection here."""
        members = self._replica.members
        return members is not None and members.has(index)

    # -- other spaces --------------------------------------------------------------------------------------

    def reach(self, space: str, replica: Replica, named: NamedIndex) -> None:
        """An index of another space is read here."""
        if self._far.get(space) is not replica:
            self._far[space] = replica
            for live in self._tallies.values():
                if split_index(live.key.index)[0] == space:
                    # It has followed the changes of an earlier opening.
                    live.tally = None
        self._far_indexes[far_index(space, named.name)] = named

    def reaches(self, space: str) -> Replica | None:
        """The replica by which an open space is read; None if it is not."""
        return self._far.get(space)

    def lose(self, space: str) -> None:
        """Another space is closed. Its readers keep what they have read."""
        self._far.pop(space, None)

    def nodes_of(self, space: str) -> list[Node]:
        """The nodes that read indexes of another space."""
        found: dict[Node, None] = {}
        for index in [each for name, each in self._indexes.items() if split_index(name)[0] == space]:
            for _, _, reader in index.ranges.entries():
                readers = reader.readers if isinstance(reader, LiveTally) else (reader,)
                found.update((each[0] if isinstance(each, tuple) else each, None) for each in readers)
        return list(found)

    def _at(self, index: str) -> tuple[Replica | None, str]:
        """The replica of an index, and its name there."""
        space, own = split_index(index)
        return (self._far.get(space), own) if space else (self._replica, own)

    # -- readers -------------------------------------------------------------------------------------------

    def apply(self, node: Node, reads: Mapping[SpanKey, bytes]) -> None:
        """Register the reads of a run, with the answers it has got. Only differences are applied."""
        old = node.rare.spans
        for key, answer in reads.items():
            if key.question is not None:
                self._live(key, key.question).readers[node] = answer
            elif key not in old:
                self._index(key.index).add(key, _reader(node, key))
        for key in old:
            if key not in reads:
                self._remove(node, key)
        if reads or node.rare is not NOTHING_RARE:
            node.own_rare().spans = dict(reads)
        if self._fresh:
            self._drop_fresh()

    def _drop_fresh(self) -> None:
        """Drop the tallies that runs have asked for without reading them in the end."""
        for live in list(self._fresh):
            if not live.readers:
                self._drop(live)
        self._fresh.clear()

    def forget(self, node: Node) -> None:
        """A removed node reads nothing."""
        self.apply(node, {})

    def _index(self, name: str) -> _Index:
        found = self._indexes.get(name)
        if found is None:
            named = self._far_indexes.get(name)
            if named is None:
                members = self._replica.members
                if members is None:
                    raise InvariantError("an index was read in a space without collections", index=name)
                named = members.index(name)[1]
            found = self._indexes[name] = _Index(named)
            self.kinds.setdefault(kind_of_index(name), {})[name] = found
        return found

    def _remove(self, node: Node, key: SpanKey) -> None:
        if key.question is not None:
            live = self._tallies[key]
            del live.readers[node]
            if not live.readers:
                self._drop(live)
        else:
            self._indexes[key.index].remove(key, _reader(node, key))
            self._release(key.index)

    def _release(self, name: str) -> None:
        if not self._indexes[name].count:
            kind = kind_of_index(name)
            del self._indexes[name], self.kinds[kind][name]
            if not self.kinds[kind]:
                del self.kinds[kind]

    # -- changes -------------------------------------------------------------------------------------------

    def match(self, shift: VisibleShift, space: str = "") -> list[Node]:
        """The nodes that a shift, of another space if it is named, concerns. Each once.

        Answers are compared later: see `changed_answers`.
        """
        assert shift.record is not None
        found: dict[Node, None] = {}
        kind, doc = shift.record.kind, shift.doc
        if space:
            kind, doc = far_index(space, kind), far_key(space, doc)
        for index in list(self.kinds.get(kind, {}).values()):
            if shift.lost is not None:
                found.update(self._lost(index, shift.lost, doc))
                continue
            move = shift.move(index.named)
            before, after = move.before, move.after
            has_moved = before != after
            if not has_moved and not (index.fields and shift.touches(tuple(index.fields))):
                continue
            keys = [key for key in ((before, after) if has_moved else (before,)) if key is not None]
            for reader in index.ranges.match(keys):
                if isinstance(reader, LiveTally):
                    if has_moved or shift.touches(reader.fields):
                        reader.follow(shift, index.named)
                        self._touched[reader] = doc
                elif has_moved or (isinstance(reader, tuple) and shift.touches(reader[1])):
                    found[reader[0] if isinstance(reader, tuple) else reader] = None
        return list(found)

    def _lost(self, index: _Index, span: Span, doc: DocKey) -> dict[Node, None]:
        """The nodes that have read in a span of which nothing is known any more."""
        found: dict[Node, None] = {}
        for lo, hi, reader in index.ranges.entries() if index.named.name == span.index else ():
            if span.overlaps(lo, hi):
                if isinstance(reader, LiveTally):
                    reader.tally = None
                    self._touched[reader] = doc
                else:
                    found[reader[0] if isinstance(reader, tuple) else reader] = None
        return found

    def changed_answers(self) -> list[tuple[Node, DocKey]]:
        """The nodes that have read another answer than the shifts of a notification lead to, with one such document."""
        if not self._touched:
            return []
        touched, self._touched = self._touched, {}
        found: list[tuple[Node, DocKey]] = []
        for live, doc in touched.items():
            if self._tallies.get(live.key) is not live:
                continue
            before = live.digest
            try:
                with self._replica.without_asking():
                    self._fill(live)
            except NotReadyError:
                # Some keys are at a server: the next runs ask for them.
                live.tally = None
                found += [(node, doc) for node in live.readers]
                continue
            except HeadwaterError:
                if is_far_span(live.key) and self._at(live.key.index)[0] is not None:
                    # The next run meets the same error.
                    found += [(node, doc) for node in live.readers]
                elif not is_far_span(live.key):
                    raise
                continue
            self.unnoted[live] = None
            if live.digest != before:
                found += [(node, doc) for node, seen in live.readers.items() if seen != live.digest]
        return found

    def take_unnoted(self) -> list[Node]:
        """The nodes that have the same answers as before, though documents have changed since they were noted."""
        found: dict[Node, None] = {}
        for live in self.unnoted:
            found.update((node, None) for node, seen in live.readers.items() if seen == live.digest)
        self.unnoted.clear()
        return list(found)

    # -- tallies -------------------------------------------------------------------------------------------

    def tally(self, key: SpanKey) -> Tally:
        """The tally of a question, as of the last shift that was taken in or later. Made for the run that asks."""
        assert key.question is not None
        live = self._live(key, key.question)
        if not live.readers:
            self._fresh[live] = None
        tally = live.tally
        return self._fill(live) if tally is None or tally.is_unsure else tally

    def tally_of(self, key: SpanKey) -> Tally | None:
        """The tally of a question, as far as it has followed the changes; None if there is none."""
        live = self._tallies.get(key)
        return None if live is None or live.tally is None or live.tally.is_unsure else live.tally

    def _live(self, key: SpanKey, question: SpanQuestion) -> LiveTally:
        live = self._tallies.get(key)
        if live is None:
            live = self._tallies[key] = LiveTally(key, question)
            self._index(key.index).add(key, live)
        return live

    def _drop(self, live: LiveTally) -> None:
        key = live.key
        del self._tallies[key]
        self._indexes[key.index].remove(key, live)
        self._touched.pop(live, None)
        self.unnoted.pop(live, None)
        self._release(key.index)

    def _fill(self, live: LiveTally) -> Tally:
        """Make the answer known: by a pass over the span, unless the tally has followed all changes."""
        tally = live.tally
        if tally is None or tally.is_unsure:
            replica, name = self._at(live.key.index)
            members = None if replica is None else replica.members
            if replica is None or members is None:
                raise ClosedError("the space of the index is closed", index=live.key.index)
            key, named = live.key, members.index(name)[1]
            with replica.lock:
                last = members.log.last
            reads = SpanReads(replica, members, lambda _doc, _path: None)
            tally = live.tally = reads.tally(SpanBasis(named, key.lo, key.hi, last), live.question, {})
            live.through = last.number
        live.digest = answer_digest(tally.answer())
        return tally

    # -- invariants ----------------------------------------------------------------------------------------

    def entries(self) -> list[tuple[str, bytes, bytes, Reader]]:
        """All registered ranges with their readers: for the checks of invariants."""
        return [
            (name, lo, hi, reader) for name, index in self._indexes.items() for lo, hi, reader in index.ranges.entries()
        ]

    def ranges(self) -> list[tuple[str, bytes, bytes]]:
        """All spans that are read."""
        return [(name, lo, hi) for name, lo, hi, _ in self.entries()]

    def tallies(self) -> list[LiveTally]:
        """All live tallies."""
        return list(self._tallies.values())
