"""Verification of collections: the keys of every index and the feed of shifts against the documents and the log."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from headwater.store.collection_record import Shift, kind_of, kind_of_index
from headwater.store.commit import CommitEntry
from headwater.store.document import read_entry
from headwater.store.engine import Engine
from headwater.store.entries import ALL
from headwater.store.shifts import decode_shifts
from headwater.values.ids import BranchId, Seq


def collection_findings(engine: Engine) -> Iterator[str]:
    """What is wrong with indexes and shifts. The log and the documents are checked already, and folded."""
    if engine.collections.is_used:
        yield from _index_findings(engine)
        yield from _shift_findings(engine)


def _index_findings(engine: Engine) -> Iterator[str]:
    collections, backend = engine.collections, engine.backend
    for row in collections.stored:
        named = collections.index(row.branch, row.name)
        if named is None:
            # Its record no longer has it.
            continue
        on = f"the index {row.name} of branch {row.branch}"
        if backend.entry_sums(row.branch, row.name) != (row.count, row.digest):
            yield f"{on} does not match its checksum"
        elif collections.span(row.branch, row.name, *ALL) != collections.made(row.branch, [named])[0].all_keys():
            yield f"{on} is not what the documents say"


def _shift_findings(engine: Engine) -> Iterator[str]:
    """The feed against the shifts of the log, as far as both reach, for the indexes that there were at the time."""
    collections, backend = engine.collections, engine.backend
    folded = engine.documents.folded
    start = max(backend.shift_floor(), engine.documents.horizon.seq)
    rows = backend.shifts(start, folded) if start < folded else []
    try:
        stored = None if rows is None else [shift for row in rows for shift in decode_shifts(row)]
    except msgspec.MsgspecError:
        stored = None
    if stored is None:
        yield "the feed of what commits did to documents of collections is damaged"
        return
    # The log is read by the records of today, which have no dropped indexes.
    rows_now = [row for row in collections.stored if collections.index(row.branch, row.name) is not None]
    since = {(row.branch, row.name): row.since for row in rows_now}
    entries = ((row.seq, read_entry(row)) for row in backend.log(start, folded))
    commits = ((seq, entry) for seq, entry in entries if isinstance(entry, CommitEntry))
    expected = _known(collections.shifts_in(commits, after=start), since)
    if _known(iter(stored), since) != expected:
        yield "the feed of what commits did to documents of collections is not what the log says"


def _known(shifts: Iterator[Shift], since: dict[tuple[BranchId, str], Seq]) -> list[Shift]:
    """The shifts with those of their moves whose indexes were there at the time."""
    found: list[Shift] = []
    for shift in shifts:
        there = [name for (branch, name), seq in since.items() if branch == shift.branch and shift.seq > seq]
        if kind_of(shift.doc) in map(kind_of_index, there):
            moves = tuple([move for move in shift.moves if move.index in there])
            found.append(msgspec.structs.replace(shift, moves=moves))
    return found
