"""Folds and observations as parts of the statement of a group: arrays of columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from zlib import crc32

import msgspec

from headwater.store.backend import BranchRow, EntryFold, Fold, IndexRow, ObservationRow, ReplayRow
from headwater.store.backends.checksums import head_sum, snapshot_sum, sum_of
from headwater.store.backends.postgres.commit_group import FencedGroup
from headwater.store.backends.postgres.long_keys import stored, whole
from headwater.values.ids import BranchId, DocKey, Seq

_KEYED: Final = ("bytea", "bytea")
_REVISIONS: Final = (
    "insert into hw_revision select own.id, t.branch, t.doc, t.seq, coalesce(t.before, h.seq, 0) from own "
    "cross join unnest(%b::bytea[], %b::bytea[], %b::bigint[], %b::bigint[]) t(branch, doc, seq, before) "
    "left join hw_head h on t.before is null and h.space = own.id and h.branch = t.branch and h.doc = t.doc"
)
_UNOBSERVED: Final = (
    "delete from hw_observation o using own, unnest(%b::bytea[], %b::bytea[], %b::bigint[]) t(branch, doc, seq) "
    "where o.space = own.id and o.branch = t.branch and o.doc = t.doc and o.seq < t.seq"
)
_OBSERVED: Final = (
    "insert into hw_observation select own.id, t.branch, t.doc, t.seq, t.body, t.whole, t.sum from own cross join "
    "unnest(%b::bytea[], %b::bytea[], %b::bigint[], %b::bytea[], %b::bytea[], %b::bigint[], %b::bigint[]) "
    "t(branch, doc, seq, body, whole, sum, below) "
    "left join hw_observation o on o.space = own.id and o.branch = t.branch and o.doc = t.doc "
    "where o.seq is null or o.seq < t.below on conflict (space, branch, doc) do update "
    "set seq = excluded.seq, body = excluded.body, sum = excluded.sum"
)
_ENTRIES_GONE: Final = (
    "delete from hw_entry e using own, unnest(%b::int[], %b::bytea[]) t(idx, key) "
    "where e.space = own.id and e.idx = t.idx and e.key = t.key"
)
_INDEX_GONE: Final = "delete from hw_entry e using own where e.space = own.id and e.idx = any(%b::int[])"
_SHIFTS_GONE: Final = "delete from hw_shift s using own where s.space = own.id and not s.seq = any(%b::bigint[])"

_encode: Final = msgspec.msgpack.encode


def text(value: str) -> bytes:
    """A text as the tables have it."""
    return value.encode()


def doc_id(doc: str) -> bytes:
    """The key of a document as the tables have it."""
    return stored(doc.encode())


def _fact_rows(facts: Iterable[tuple[str, str]]) -> list[tuple[object, ...]]:
    return [(text(key), text(value), sum_of(key, value)) for key, value in facts]


def add_facts(group: FencedGroup, facts: Iterable[tuple[str, str]]) -> None:
    """Set properties of the space."""
    then = "on conflict (space, key) do update set value = excluded.value, sum = excluded.sum"
    group.insert("hw_fact", ("bytea", "bytea", "bigint"), _fact_rows(facts), then)


def branch_sum(row: BranchRow) -> int:
    """The checksum of a branch."""
    return sum_of(row.name, row.parent, row.fork_seq, row.at, _encode(row.merges).hex())


def replay_sum(row: ReplayRow) -> int:
    """The checksum of commits of a session."""
    return sum_of(row.session, int(row.first), int(row.last), int(row.seq))


def index_sum(row: IndexRow) -> int:
    """The checksum of an index."""
    return sum_of(row.branch, row.name, row.since, row.through, row.count, row.digest)


def observation_sum(branch: str, doc: str, seq: int, body: bytes) -> int:
    """The checksum of an observation."""
    return crc32(body, crc32(f"{branch}\0{doc}\0{seq}".encode()))


def shift_sum(seq: int, body: bytes) -> int:
    """The checksum of a shift."""
    return crc32(body, sum_of(seq))


def add_fold(group: FencedGroup, fold: Fold, numbers: dict[BranchId, int]) -> None:
    """The rows of a fold, besides observations. `numbers`: the order of the known branches; new ones are added."""
    _add_branches(group, fold.branches, numbers)
    revisions: list[tuple[object, ...]] = []
    for name, doc, seqs in fold.revisions:
        on, of = text(name), doc_id(doc)
        revisions += [(on, of, seq, before) for seq, before in zip(seqs, [None, *seqs], strict=False)]
    group.matching(_REVISIONS, revisions)
    group.insert(
        "hw_head",
        (*_KEYED, "bigint", "bool", "bigint", "bigint", "bytea", "bigint"),
        [
            (text(b), doc_id(h.doc), h.seq, h.live, h.size, h.since, whole(h.doc.encode()), head_sum(b, h))
            for b, h in fold.heads
        ],
        "on conflict (space, branch, doc) do update set seq = excluded.seq, live = excluded.live, "
        "size = excluded.size, since = excluded.since, sum = excluded.sum",
    )
    group.insert(
        "hw_snapshot",
        (*_KEYED, "bigint", "bytea", "bigint"),
        [(text(b), doc_id(s.doc), s.seq, s.body, snapshot_sum(b, s.doc, s.seq, s.body)) for b, s in fold.snapshots],
    )
    group.insert(
        "hw_replay",
        ("bytea", "bigint", "bigint", "bigint", "bigint"),
        [(doc_id(r.session), r.first, r.last, r.seq, replay_sum(r)) for r in fold.replays],
    )


def _add_branches(group: FencedGroup, rows: Sequence[BranchRow], numbers: dict[BranchId, int]) -> None:
    for row in rows:
        numbers.setdefault(row.name, len(numbers) + 1)
    group.insert(
        "hw_branch",
        ("bytea", "int", "bytea", "bigint", "bigint", "bytea", "bigint"),
        [
            (
                *(text(b.name), numbers[b.name], None if b.parent is None else text(b.parent)),
                *(b.fork_seq, b.at, _encode(b.merges), branch_sum(b)),
            )
            for b in {row.name: row for row in rows}.values()
        ],
        "on conflict (space, name) do update set merges = excluded.merges, sum = excluded.sum",
    )


def add_observations(
    group: FencedGroup, fold: Fold | None, observed: Sequence[tuple[BranchId, ObservationRow]]
) -> None:
    """Observations of a fold, those beside it, and those to delete: at most one write for each document.

    In this order: delete stored ones that are older than `unobserved`; of the fold, replace older ones; of `observed`,
    replace those that are not newer.
    """
    gone: dict[tuple[BranchId, DocKey], Seq] = {}
    # The row to write, and that it replaces stored rows below this commit.
    rows: dict[tuple[BranchId, DocKey], tuple[ObservationRow, int]] = {}
    if fold is not None:
        for branch, doc, seq in fold.unobserved:
            gone[branch, doc] = max(seq, gone.get((branch, doc), seq))
        for branch, row in fold.observations:
            known = rows.get((branch, row.doc))
            if known is None or known[0].seq < row.seq:
                rows[branch, row.doc] = (row, row.seq)
    for branch, row in observed:
        known = rows.get((branch, row.doc))
        if known is None or known[0].seq <= row.seq:
            rows[branch, row.doc] = (row, row.seq + 1)
    group.matching(
        _UNOBSERVED,
        [(text(branch), doc_id(doc), seq) for (branch, doc), seq in gone.items() if (branch, doc) not in rows],
    )
    group.matching(
        _OBSERVED,
        [
            (
                *(text(b), doc_id(doc), row.seq, row.body, whole(doc.encode())),
                *(observation_sum(b, doc, row.seq, row.body), max(below, gone.get((b, doc), 0))),
            )
            for (b, doc), (row, below) in rows.items()
        ],
    )


def add_collections(group: FencedGroup, fold: Fold, ids: dict[tuple[BranchId, str], int]) -> None:
    """The part of a fold that collections have. `ids`: the numbers of the known indexes.

    An index that is made again gets another number: its old keys are deleted by the statement that writes the new ones.
    """
    gone: list[int] = []
    removed: list[tuple[object, ...]] = []
    added: list[tuple[object, ...]] = []
    rows: list[tuple[object, ...]] = []
    for entries in _one_for_each(fold.entries):
        row = entries.row
        number = ids.get((row.branch, row.name))
        if number is None or entries.is_new:
            if number is not None:
                gone.append(number)
            number = ids[row.branch, row.name] = max(ids.values(), default=0) + 1
        staying = set(entries.added)
        removed += [(number, stored(key)) for key in entries.removed if key not in staying and not entries.is_new]
        added += [(number, stored(key), whole(key)) for key in staying]
        rows.append(
            (
                *(number, text(row.branch), text(row.name), row.since, row.through, row.count, row.digest),
                index_sum(row),
            )
        )
    group.insert(
        "hw_index",
        ("int", "bytea", "bytea", "bigint", "bigint", "bigint", "bigint", "bigint"),
        rows,
        "on conflict (space, branch, name) do update set id = excluded.id, since = excluded.since, "
        "through = excluded.through, count = excluded.count, digest = excluded.digest, sum = excluded.sum",
    )
    if gone:
        group.part(_INDEX_GONE, gone)
    group.matching(_ENTRIES_GONE, removed)
    group.insert("hw_entry", ("int", "bytea", "bytea"), added, "on conflict do nothing")
    if fold.is_new_feed:
        group.part(_SHIFTS_GONE, [row.seq for row in fold.shifts] or [0])
    group.insert(
        "hw_shift",
        ("bigint", "bytea", "bigint"),
        [(row.seq, row.body, shift_sum(row.seq, row.body)) for row in fold.shifts],
        "on conflict (space, seq) do update set body = excluded.body, sum = excluded.sum",
    )


def _one_for_each(entries: Sequence[EntryFold]) -> Iterable[EntryFold]:
    """The folds of the same index as one."""
    found: dict[tuple[BranchId, str], EntryFold] = {}
    for fold in entries:
        key = (fold.row.branch, fold.row.name)
        before = found.get(key)
        if before is None or fold.is_new:
            found[key] = fold
            continue
        added = set(before.added) - set(fold.removed) | set(fold.added)
        removed = (set(before.removed) | set(fold.removed)) - added
        found[key] = EntryFold(fold.row, sorted(removed), sorted(added), before.is_new)
    return found.values()
