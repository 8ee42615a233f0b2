"""What must hold of a history: the log of a space beside what its clients asked, saw and were told.

Each check is a function over records, and raises BrokenError with the name of what does not hold. The log is folded by
the naive model, which shares no code with the product.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any, TypeAlias

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


def places(log: NaiveSpace) -> dict[tuple[str, int], int]:
    """Where each commit is."""
    return {(entry.session, entry.local_seq): entry.seq for entry in log.log}


# --- of commits and the log -----------------------------------------------------------------------------------


def s1_durable(log: NaiveSpace, asked: Iterable[Asked]) -> None:
    """What was told to be in the log is there, at its place."""
    by_place = {entry.seq: entry for entry in log.log}
    for each in asked:
        if isinstance(each.told, Committed):
            found = by_place.get(each.told.seq)
            if found is None or (found.session, found.local_seq) != each.key:
                raise BrokenError("S1", f"{each.key} was told to be at {each.told.seq}; there is {found}")


def inv1_coherent(log: NaiveSpace, asked: Iterable[Asked]) -> None:
    """Whatever an accepted commit has read was so right before it."""
    there = places(log)
    for each in asked:
        place = there.get(each.key)
        if place is None:
            continue
        for doc, saw in each.seen.items():
            was = log.value(doc, each.commit.branch, place - 1)
            if exact(saw) != exact(was):
                raise BrokenError("INV-1", f"{each.key} at {place} saw {saw!r} in {doc}; there was {was!r}")


def inv2_overlap(log: NaiveSpace, asked: Iterable[Asked]) -> None:
    """What the engine has accepted, the naive rule accepts (and with it INV-3: each layer that was seen is named)."""
    there = places(log)
    for each in asked:
        place = there.get(each.key)
        if place is None:
            continue
        before = NaiveSpace()
        before.log, before.head, before.forks, before._folds = log.log[: place - 1], place - 1, log.forks, log._folds
        if not before.coherent(each.commit):
            raise BrokenError("INV-2", f"{each.key} at {place} rests on what was not so: {each.commit}")


def inv4_cascade(log: NaiveSpace, asked: Iterable[Asked]) -> None:
    """What rests on a commit that is not in the log is not there, either."""
    there = places(log)
    for each in asked:
        if each.key not in there:
            continue
        for read in each.commit.pending_reads:
            for number in (number for first, last in read.layers for number in range(first, last + 1)):
                if (each.commit.session, number) not in there:
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
    there = places(log)
    for each in asked:
        rejected = each.failed or not (each.told is None or isinstance(each.told, Committed))
        place = there.get(each.key)
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


# --- of lists that are only appended to -----------------------------------------------------------------------


Written: TypeAlias = tuple[str, int]
"""What was appended, and to which list."""


@dataclass(slots=True)
class Appender:
    """A transaction that was accepted, or may have been: the lists it saw, and what it has put at the end of which."""

    name: str
    session: str
    seen: dict[str, list[int]]
    added: dict[str, int]


def no_cycles(transactions: Iterable[Appender], final: Mapping[str, list[int]]) -> int:
    """Whoever saw something came after it, and before what it did not see: no circle comes of that. Returns the edges.

    Each number is added once, so a list tells in which order, and a shorter one what its reader did not see. Looks at
    what clients saw, and not at the log. The commits of one session come after each other, too.
    """
    transactions = list(transactions)
    after = _after(transactions, final)
    try:
        TopologicalSorter(after).prepare()
    except CycleError as cycle:
        raise BrokenError("cycle", " -> ".join(cycle.args[1])) from None
    return sum(map(len, after.values()))


def _after(transactions: list[Appender], final: Mapping[str, list[int]]) -> dict[str, set[str]]:
    """What came after each."""
    writer = {(doc, number): each for each in transactions for doc, number in each.added.items()}
    after: dict[str, set[str]] = {each.name: set() for each in transactions}

    def order(before: Written | None, later: Written | Appender) -> None:
        first = writer.get(before) if before is not None else None
        then = writer.get(later) if isinstance(later, tuple) else later
        if first is not None and then is not None and first is not then:
            after[first.name].add(then.name)

    for doc, numbers in final.items():
        for before, later in pairwise(numbers):
            order((doc, before), (doc, later))
    for each in transactions:
        for doc, saw in each.seen.items():
            saw_last, missed = _around(each, doc, saw, final.get(doc, []))
            order(saw_last, each)
            if missed is not None and missed in writer and writer[missed] is not each:
                after[each.name].add(writer[missed].name)
    last: dict[str, Appender] = {}
    for each in transactions:
        if each.session in last:
            after[last[each.session].name].add(each.name)
        last[each.session] = each
    return after


def _around(each: Appender, doc: str, saw: list[int], there: list[int]) -> tuple[Written | None, Written | None]:
    """The last that somebody saw of a list, and the first that they did not."""
    if saw != there[: len(saw)]:
        raise BrokenError("cycle", f"{each.name} saw {saw} in {doc}, which never was so: {there}")
    return (doc, saw[-1]) if saw else None, (doc, there[len(saw)]) if len(saw) < len(there) else None


def _check_same(promise: str, who: str, doc: str, here: Any, there: Any) -> None:
    here = plain(here)
    if exact(here) != exact(there):
        shown = "nothing" if there is NOTHING else repr(there)
        raise BrokenError(promise, f"{who} has {here!r} in {doc}; by the log it is {shown}")
