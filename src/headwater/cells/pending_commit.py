"""A local commit that waits for its verdict, and the versions of documents that such commits make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

import msgspec

from headwater.errors import HeadwaterError, InvariantError
from headwater.store.commit import Commit, Committed, OriginCommitted, PendingRead, Read, Submission, Verdict
from headwater.store.document import StoredDocument
from headwater.values.address import Depth
from headwater.values.author_text import add_note, describe
from headwater.values.ids import DocKey, LocalSeq, Seq
from headwater.values.tree import ABSENT, Maybe, Path

_T = TypeVar("_T")


def joined(first: BaseException | None, other: BaseException) -> BaseException:
    """The first of several errors, to be raised, with another one as a note."""
    if first is None:
        return other
    add_note(first, f"besides: {describe(other)}")
    return first


def call_all(functions: Iterable[Callable[[_T], None]], fact: _T) -> None:
    """Call all functions, even if one raises. Then raise the first error, with the others as notes."""
    raised: BaseException | None = None
    for function in functions:
        try:
            function(fact)
        except BaseException as failure:  # noqa: BLE001  # re-raised below
            raised = joined(raised, failure)
    if raised is not None:
        raise raised


class Failure(msgspec.Struct, frozen=True):
    """The store could not decide a commit: nothing of it was stored, and the error says why.

    But after a PoisonedError only a new opening can read what is on the disk.
    """

    commit: Commit
    error: HeadwaterError


class Pulled(msgspec.Struct, frozen=True, gc=False):
    """A document as stored, for a replica that has missed its changes."""

    doc: DocKey
    found: StoredDocument


SHALLOW_BIT: Final = 32
"""How the journal and the reader index encode a shallow read, beside the flags of reads."""

ReadKey: TypeAlias = tuple[DocKey, Path, int]
"""Address and depth: 0 (deep) or SHALLOW_BIT."""


Ranges: TypeAlias = tuple[tuple[LocalSeq, LocalSeq], ...]
"""Local sequence numbers, as ranges from first to last."""

_NAMED_MAX: Final = 8
"""Among how many of the newest layers names to continue are searched."""


class PendingCommit(Submission, eq=False):
    """A local commit, from the moment it is visible until it is settled by a verdict or an error.

    Submission, layer and handle in one record, and a Struct rather than a dataclass: one is made for every write, and
    three objects, or a slower one, would be most of the cost of a write.
    """

    # Passed through to the notifications: the transaction of the commit.
    source: object = None
    # replica.integrate(): exactly one of the two, once.
    verdict: Verdict | None = None
    error: HeadwaterError | None = None
    # replica._render(): the effects were recomputed on another base.
    is_rebased: bool = False
    # The versions that it has read, while they are not named in `commit`: the store rarely has to check them.
    unnamed: Mapping[ReadKey, Mark | None] | None = None
    callbacks: tuple[Callable[[PendingCommit], None], ...] = ()
    # layers_through(): the layers of a document up to this one, as a read names them. With the document, the number of
    # the first layer, and how many they are: with these they are the same layers.
    named: tuple[DocKey, LocalSeq, int, Ranges] | None = None

    def name_reads(self) -> Commit:
        """The commit with its reads. Called by several threads: all of them name the same versions."""
        versions = self.unnamed
        if versions:
            marks = [
                mark.read(doc, path, Depth.SHALLOW if bits & SHALLOW_BIT else Depth.DEEP)
                for (doc, path, bits), mark in versions.items()
                if mark is not None
            ]
            self.commit = msgspec.structs.replace(
                self.commit,
                reads=tuple(read for read in marks if type(read) is Read),
                pending_reads=tuple(read for read in marks if type(read) is PendingRead),
            )
        self.unnamed = None
        return self.commit

    @property
    def settled(self) -> bool:
        """It has a verdict or an error."""
        return self.verdict is not None or self.error is not None

    @property
    def accepted(self) -> bool:
        """In the log."""
        return type(self.verdict) is Committed

    def on_settled(self, callback: Callable[[PendingCommit], None]) -> None:
        """Call back when it is settled; at once if it is."""
        if self.settled:
            callback(self)
        else:
            self.callbacks = (*self.callbacks, callback)

    def settle(self, verdict: Verdict | None, error: HeadwaterError | None) -> None:
        """Settle it, once. Callbacks run after the documents have changed, and are released."""
        if self.verdict is not None or self.error is not None:
            raise InvariantError(f"commit {self.commit.local_seq} was settled twice", pending=self)
        self.verdict = verdict
        if error is not None:
            self.error = error
        elif type(verdict) is Committed:
            # Versions hold the commits that made them, which hold versions: nothing asks for the reads any more.
            self.unnamed = None
        callbacks = self.callbacks
        if callbacks:
            self.callbacks = ()
            if len(callbacks) == 1:
                callbacks[0](self)
            else:
                call_all(callbacks, self)


class Mark(msgspec.Struct, eq=False, frozen=True):
    """A version of a document in a replica: confirmed as of `seq`, with pending layers of its session on top.

    `layers` is the replica's list itself. It only grows at its end, so its first `count` items do not change. All
    readers of a version share one mark: two marks of a document are the same version if they are the same object.
    """

    seq: Seq
    layers: list[PendingCommit]
    count: int
    value: Maybe = ABSENT

    def read(self, doc: DocKey, path: Path, depth: Depth) -> Read | PendingRead:
        """The read that a commit names if it is based on this version."""
        if not self.count:
            return Read(doc, path, self.seq, depth)
        return PendingRead(doc, path, self.seq, layers_through(doc, self.layers, self.count), depth)

    def written_since(self, earlier: Mark, doc: DocKey) -> list[Path]:
        """The paths that may have been written since an earlier version; the root if another session has written."""
        if self.layers is earlier.layers and self.count == earlier.count and self.seq == earlier.seq:
            return []
        seen = earlier.layers[: earlier.count]
        own = seen[-1].verdict if seen else None
        if self.seq != earlier.seq and not (type(own) is Committed and own.seq == self.seq):
            return [()]
        before = set(map(id, seen))
        fresh = [layer for layer in self.layers[: self.count] if id(layer) not in before]
        return [
            touch.path for layer in fresh for effect in layer.effects if effect.doc == doc for touch in effect.touches
        ]


def layers_through(doc: DocKey, layers: Sequence[PendingCommit], count: int) -> Ranges:
    """The numbers of the first `count` layers of a document, as ranges.

    Remembered with the newest of them, and continued from there: behind a slow disk a document has hundreds, and each
    result that stays the same names them again. Several threads may ask: they find the same.
    """
    newest, first = layers[count - 1], layers[0].commit.local_seq
    last = newest.commit.local_seq
    if last - first + 1 == count:
        # A session that writes one document repeatedly: any number of layers is one range.
        return ((first, last),)
    for place in range(count, max(count - _NAMED_MAX, 0), -1):
        known = layers[place - 1].named
        if known is not None and known[0] == doc and known[1] == first and known[2] == place:
            if place == count:
                return known[3]
            found = ranges(layers[place:count], known[3])
            # One of them remembers it, since all together would take the square of their number.
            layers[place - 1].named = None
            break
    else:
        found = ranges(layers[:count])
    newest.named = (doc, first, count, found)
    return found


def ranges(layers: Sequence[PendingCommit], before: Ranges = ()) -> Ranges:
    """The local sequence numbers of the layers, as ranges; behind those of layers `before`."""
    first, last = layers[0].commit.local_seq, layers[-1].commit.local_seq
    if not before and last - first + 1 == len(layers):
        return ((first, last),)
    joined: list[tuple[LocalSeq, LocalSeq]] = list(before)
    for layer in layers:
        number = layer.commit.local_seq
        if joined and joined[-1][1] + 1 == number:
            joined[-1] = (joined[-1][0], number)
        else:
            joined.append((number, number))
    return tuple(joined)


def rejected_layer(commit: Commit, dead: Mapping[LocalSeq, None]) -> LocalSeq | None:
    """The number of a rejected commit that this one is based on."""
    if not dead:
        return None
    for first, last in layers_named(commit):
        for number in range(first, last + 1):
            if number in dead:
                return LocalSeq(number)
    return None


def layers_named(commit: Commit) -> list[tuple[LocalSeq, LocalSeq]]:
    """The ranges of pending commits that a commit has read through: in documents, and in indexes."""
    named = [layers for read in commit.pending_reads for layers in read.layers]
    return [*named, *[layers for span in commit.spans for layers in span.layers]] if commit.spans else named


def depending_on(pending: PendingCommit, later: Iterable[PendingCommit]) -> list[PendingCommit]:
    """Commits that depend on this one, directly or not. The store will reject them, too."""
    dead = {pending.commit.local_seq}
    found: list[PendingCommit] = []
    for other in later:
        commit = other.name_reads()
        named = layers_named(commit)
        origins = [p.local_seq for p in commit.preconditions if type(p) is OriginCommitted]
        if any(first <= number <= last for first, last in named for number in dead) or dead.intersection(origins):
            dead.add(commit.local_seq)
            found.append(other)
    return found
