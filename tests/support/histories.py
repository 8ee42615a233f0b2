"""What must hold of a history: the log of a space beside what its clients asked, saw and were told.

Each check is a function over records, and raises BrokenError with the name of what does not hold. The log is folded by
the naive model, which shares no code with the product.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.store.backend import LogRow
from headwater.store.commit import Commit, CommitEntry, Committed, ForkEntry, Verdict, decode_entry
from tests.support.naive import NOTHING, Accepted, NaiveSpace, exact, plain


class BrokenError(AssertionError):
    """A promise was not kept."""

    def __init__(self, promise: str, what: str) -> None:
        super().__init__(f"{promise}: {what}")
        self.promise = promise


@dataclass(slots=True)
class Asked:
    """One commit of one session, with what its author has seen, and what the author was told."""

    commit: Commit
    # Whole documents, as they were seen when it was made.
    seen: dict[str, Any] = field(default_factory=dict)
    told: Verdict | None = None
    # It was told that nothing of it was kept; or only that nobody will say any more.
    failed: bool = False
    unknown: bool = False

    @property
    def key(self) -> tuple[str, int]:
        return self.commit.session, self.commit.local_seq


@dataclass(slots=True)
class Held:
    """One document of a replica: what is confirmed, as of which place, what is shown, and what lies between."""

    confirmed: Any
    seq: int
    visible: Any
    layers: list[Commit] = field(default_factory=list)


def naive_log(rows: Iterable[LogRow], log: NaiveSpace | None = None) -> NaiveSpace:
    """The log, for the naive model; or one that is known in part, with what is newer."""
    log = log or NaiveSpace()
    for row in rows:
        if row.seq <= log.head:
            continue
        entry = decode_entry(row.body)
        if isinstance(entry, ForkEntry):
            log.fork(entry.name, entry.parent, entry.fork_seq)
            continue
        log.head += 1
        log.log.append(Accepted(row.seq, entry.branch, entry.session, entry.local_seq, entry.operations))
        # Now, and not from its end: each fold begins with the one before.
        log.fold(entry.branch, log.head)
    return log


def entries(rows: Iterable[LogRow]) -> list[tuple[int, CommitEntry]]:
    """The commits of a log, with their places."""
    found = [(row.seq, decode_entry(row.body)) for row in rows]
    return [(seq, entry) for seq, entry in found if isinstance(entry, CommitEntry)]


# --- of commits and the log -----------------------------------------------------------------------------------


def s1_durable(log: NaiveSpace, asked: Iterable[Asked]) -> None:
    """What was told to be in the log is there, at its place."""
    places = {entry.seq: entry for entry in log.log}
    for each in asked:
        if isinstance(each.told, Committed):
            found = places.get(each.told.seq)
            if found is None or (found.session, found.local_seq) != each.key:
                raise BrokenError("S1", f"{each.key} was told to be at {each.told.seq}; there is {found}")


def inv1_coherent(log: NaiveSpace, asked: Iterable[Asked]) -> None:
    """Whatever an accepted commit has read was so right before it."""
    for each in asked:
        place = log.seq_of(*each.key)
        if place is None:
            continue
        for doc, saw in each.seen.items():
            there = log.value(doc, each.commit.branch, place - 1)
            if exact(saw) != exact(there):
                raise BrokenError("INV-1", f"{each.key} at {place} saw {saw!r} in {doc}; there was {there!r}")


def inv2_overlap(log: NaiveSpace, asked: Iterable[Asked]) -> None:
    """What the engine has accepted, the naive rule accepts (and with it INV-3: each layer that was seen is named)."""
    for each in asked:
        place = log.seq_of(*each.key)
        if place is None:
            continue
        before = NaiveSpace()
        before.log, before.head, before.forks, before._folds = log.log[: place - 1], place - 1, log.forks, log._folds
        if not before.coherent(each.commit):
            raise BrokenError("INV-2", f"{each.key} at {place} rests on what was not so: {each.commit}")


def inv4_cascade(log: NaiveSpace, asked: Iterable[Asked]) -> None:
    """What rests on a commit that is not in the log is not there, either."""
    for each in asked:
        if log.seq_of(*each.key) is None:
            continue
        for read in each.commit.pending_reads:
            for number in (number for first, last in read.layers for number in range(first, last + 1)):
                if log.seq_of(each.commit.session, number) is None:
                    raise BrokenError("INV-4", f"{each.key} is in the log, and rests on {number}, which is not")


def inv5_order(log: NaiveSpace) -> None:
    """The commits of a session stand in the order in which they were made."""
    last: dict[str, int] = {}
    for entry in log.log:
        if entry.session and entry.local_seq <= last.get(entry.session, 0):
            raise BrokenError("INV-5", f"{entry.session} {entry.local_seq} stands after {last[entry.session]}")
        last[entry.session] = entry.local_seq


def inv6_fate(log: NaiveSpace, asked: Iterable[Asked]) -> None:
    """What was told to be rejected, or to have failed, is not in the log."""
    for each in asked:
        rejected = each.failed or not (each.told is None or isinstance(each.told, Committed))
        place = log.seq_of(*each.key)
        if rejected and place is not None:
            raise BrokenError("INV-6", f"{each.key} is at {place}, and was told {each.told or 'that it failed'}")


def inv7_surfaced(asked: Iterable[Asked]) -> None:
    """Everybody was told something."""
    for each in asked:
        if each.told is None and not each.failed and not each.unknown:
            raise BrokenError("INV-7", f"{each.key} has no verdict, and nothing is under way")


def inv11_once(log: NaiveSpace) -> None:
    """No commit is in the log twice."""
    twice = [key for key, count in Counter((e.session, e.local_seq) for e in log.log).items() if count > 1 and key[0]]
    if twice:
        raise BrokenError("INV-11", f"{twice} are in the log more than once")


def check_commits(log: NaiveSpace, asked: Iterable[Asked]) -> None:
    """All of them, when nothing is under way."""
    asked = list(asked)
    inv11_once(log)
    inv5_order(log)
    s1_durable(log, asked)
    inv6_fate(log, asked)
    inv7_surfaced(asked)
    inv4_cascade(log, asked)
    inv2_overlap(log, asked)
    inv1_coherent(log, asked)


# --- of replicas ----------------------------------------------------------------------------------------------


def inv8_whole(log: NaiveSpace, view: Mapping[str, Held], branch: str, who: str) -> int:
    """All documents of a replica are as of one place: so no commit is there in part (and INV-10). Returns the place."""
    place = max((held.seq for held in view.values()), default=0)
    for doc, held in view.items():
        if held.seq != log.revision(doc, branch, place):
            newer = log.revision(doc, branch, place)
            raise BrokenError("INV-8", f"{who} is at {place}, and has {doc} from {held.seq}; it was written at {newer}")
        _check_same("INV-9", who, doc, held.confirmed, log.value(doc, branch, place))
    return place


def layers_once(log: NaiveSpace, view: Mapping[str, Held], place: int, who: str) -> None:
    """What is shown on top of what is confirmed is not in what is confirmed."""
    for doc, held in view.items():
        for commit in held.layers:
            seq = log.seq_of(commit.session, commit.local_seq)
            if seq is not None and seq <= place:
                raise BrokenError("layers", f"{who} shows {commit.local_seq} on {doc}, which is at {seq} <= {place}")


def inv9_fold(log: NaiveSpace, view: Mapping[str, Held], branch: str, who: str) -> None:
    """A replica that is quiet has what the log comes to, and shows that."""
    for doc, held in view.items():
        newest = log.revision(doc, branch)
        if held.seq != newest:
            raise BrokenError("INV-9", f"{who} has {doc} from {held.seq}; it was written at {newest}")
        _check_same("INV-9", who, doc, held.confirmed, log.value(doc, branch))
        _check_same("INV-9", who, doc, held.visible, log.value(doc, branch))
        if held.layers:
            raise BrokenError("INV-9", f"{who} still shows {len(held.layers)} layers on {doc}")


def inv10_snapshot(log: NaiveSpace, seen: Mapping[str, Any], branch: str = "main") -> None:
    """Everything that one transaction has read was so at one place of the log."""
    found = next((p for p in range(log.head, -1, -1) if _is_as_of(log, seen, branch, p)), None)
    if found is None:
        raise BrokenError("INV-10", f"{dict(seen)!r} was so at no place of the log")


def _is_as_of(log: NaiveSpace, seen: Mapping[str, Any], branch: str, place: int) -> bool:
    return all(exact(value) == exact(log.value(doc, branch, place)) for doc, value in seen.items())


def _check_same(promise: str, who: str, doc: str, here: Any, there: Any) -> None:
    here = plain(here)
    if exact(here) != exact(there):
        shown = "nothing" if there is NOTHING else repr(there)
        raise BrokenError(promise, f"{who} has {here!r} in {doc}; by the log it is {shown}")
