"""Verification of collections: the keys of every index and the feed of shifts against the documents and the log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from headwater.store.backend import ShiftRow
from headwater.store.collection_record import Shift, kind_of, kind_of_index
from headwater.store.commit import CommitEntry
from headwater.store.document import read_entry
from headwater.store.engine import Engine
from headwater.store.entries import ALL
from headwater.store.shifts import decode_shifts, encode_shifts
from headwater.values.ids import BranchId, Seq

FEED: Final = "the feed of what commits did to documents of collections"


def collection_findings(engine: Engine) -> Iterator[str]:
    """What is wrong with indexes and shifts. The log and the documents are checked already, and folded."""
    if engine.collections.is_used:
        yield from _index_findings(engine)
        yield from _shift_findings(engine)


def rebuild_collections(engine: Engine) -> list[str]:
    """Make again what is not what the documents and the log say. Returns what that was, in words.

    The log and the documents are checked already, and folded.
    """
    collections = engine.collections
    if not collections.is_used:
        return []
    damaged = [(branch, name) for branch, name, _ in _damaged_indexes(engine)]
    for branch, name in damaged:
        collections.remake(branch, name)
    rebuilt = [f"the index {name} of branch {branch}" for branch, name in damaged]
    feed: list[ShiftRow] | None = None
    if next(_shift_findings(engine), None) is not None:
        feed = _feed_from_log(engine)
        rebuilt.append(FEED)
    engine.fold_entries(feed)
    if feed is not None:
        collections.renew_feed()
    return rebuilt


def renew_damaged_feed(engine: Engine) -> bool:
    """Make the feed again from the log if it was found damaged. Returns whether it was."""
    if not engine.collections.is_feed_damaged:
        return False
    engine.fold_entries(_feed_from_log(engine))
    engine.collections.renew_feed()
    return True


def _feed_from_log(engine: Engine) -> list[ShiftRow]:
    start = _feed_start(engine)
    return list(encode_shifts(list(engine.collections.shifts_in(_commits(engine, start), after=start))))


def _feed_start(engine: Engine) -> Seq:
    return max(engine.backend.shift_floor(), engine.documents.horizon.seq)


def _commits(engine: Engine, start: Seq) -> Iterator[tuple[Seq, CommitEntry]]:
    """The folded commits of the log after a sequence number."""
    for row in engine.backend.log(start, engine.documents.folded):
        entry = read_entry(row)
        if isinstance(entry, CommitEntry):
            yield row.seq, entry


def _index_findings(engine: Engine) -> Iterator[str]:
    for branch, name, what in _damaged_indexes(engine):
        yield f"the index {name} of branch {branch} {what}"


def _damaged_indexes(engine: Engine) -> Iterator[tuple[BranchId, str, str]]:
    collections, backend = engine.collections, engine.backend
    for row in collections.stored:
        named = collections.index(row.branch, row.name)
        if named is None:
            # Its record no longer has it.
            continue
        if backend.entry_sums(row.branch, row.name) != (row.count, row.digest):
            yield row.branch, row.name, "does not match its checksum"
        elif collections.span(row.branch, row.name, *ALL) != collections.made(row.branch, [named])[0].all_keys():
            yield row.branch, row.name, "is not what the documents say"


def _shift_findings(engine: Engine) -> Iterator[str]:
    """The feed against the shifts of the log, as far as both reach, for the indexes that there were at the time."""
    collections, backend = engine.collections, engine.backend
    folded = engine.documents.folded
    start = _feed_start(engine)
    rows = backend.shifts(start, folded) if start < folded else []
    try:
        stored = None if rows is None else [shift for row in rows for shift in decode_shifts(row)]
    except msgspec.MsgspecError:
        stored = None
    if stored is None:
        yield f"{FEED} is damaged"
        return
    # The log is read by the records of today, which have no dropped indexes.
    rows_now = [row for row in collections.stored if collections.index(row.branch, row.name) is not None]
    since = {(row.branch, row.name): row.since for row in rows_now}
    expected = _known(collections.shifts_in(_commits(engine, start), after=start), since)
    if _known(iter(stored), since) != expected:
        yield f"{FEED} is not what the log says"


def _known(shifts: Iterator[Shift], since: dict[tuple[BranchId, str], Seq]) -> list[Shift]:
    """The shifts with those of their moves whose indexes were there at the time."""
    found: list[Shift] = []
    for shift in shifts:
        there = [name for (branch, name), seq in since.items() if branch == shift.branch and shift.seq > seq]
        if kind_of(shift.doc) in map(kind_of_index, there):
            moves = tuple([move for move in shift.moves if move.index in there])
            found.append(msgspec.structs.replace(shift, moves=moves))
    return found
