"""A local commit that waits for its verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from headwater.errors import HeadwaterError, InvariantError
from headwater.store.commit import Commit, Committed, OriginCommitted, Submission, Verdict
from headwater.store.document import StoredDocument
from headwater.values.author_text import add_note, describe
from headwater.values.ids import DocKey, LocalSeq

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
    callbacks: tuple[Callable[[PendingCommit], None], ...] = ()

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
        self.verdict, self.error = verdict, error
        callbacks = self.callbacks
        if callbacks:
            self.callbacks = ()
            if len(callbacks) == 1:
                callbacks[0](self)
            else:
                call_all(callbacks, self)


def ranges(layers: Sequence[PendingCommit]) -> tuple[tuple[LocalSeq, LocalSeq], ...]:
    """The local sequence numbers of the layers, as ranges."""
    first, last = layers[0].commit.local_seq, layers[-1].commit.local_seq
    if last - first + 1 == len(layers):
        # A session that writes one document repeatedly: any number of layers is one range.
        return ((first, last),)
    joined: list[tuple[LocalSeq, LocalSeq]] = []
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
    for read in commit.pending_reads:
        for first, last in read.layers:
            for number in range(first, last + 1):
                if number in dead:
                    return LocalSeq(number)
    return None


def depending_on(pending: PendingCommit, later: Iterable[PendingCommit]) -> list[PendingCommit]:
    """Commits that depend on this one, directly or not. The store will reject them, too."""
    dead = {pending.commit.local_seq}
    found: list[PendingCommit] = []
    for other in later:
        commit = other.commit
        named = [layers for read in commit.pending_reads for layers in read.layers]
        origins = [p.local_seq for p in commit.preconditions if type(p) is OriginCommitted]
        if any(first <= number <= last for first, last in named for number in dead) or dead.intersection(origins):
            dead.add(commit.local_seq)
            found.append(other)
    return found
