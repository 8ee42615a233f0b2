"""Unique indexes: whether a commit, or an index that is being made, gives two documents the same values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from headwater.errors import DuplicateError
from headwater.store.collection_record import CollectionRecord, NamedIndex, Shift, doc_of, kind_of
from headwater.store.commit import Refused
from headwater.store.entries import Entries
from headwater.values.address import address_text
from headwater.values.sortkey import AFTER, doc_id_of, encode_id, fields_of
from headwater.values.tree import ABSENT

_RIVALS: Final = 8
"""Keys with the same values that are checked: documents of one commit may have left them."""

_SHOWN: Final = 10


def duplicate_in(
    shifts: Sequence[Shift],
    records: Mapping[str, CollectionRecord],
    entries: Callable[[str], Entries],
    may_tell: Callable[[str], bool] | None = None,
) -> Refused | None:
    """The refusal of a commit that gives two documents the same values. Its net counts.

    `may_tell`: whether the session of the commit may know of other documents of a kind; None: of all.
    """
    for record in {kind: records[kind] for kind in map(kind_of, [shift.doc for shift in shifts])}.values():
        for named in record.named:
            if named.index.unique:
                refused = _duplicate_of(record, named, shifts, entries)
                if refused is not None:
                    if may_tell is None or may_tell(record.kind):
                        return refused
                    return Refused(f"a unique field of {record.kind!r} has a value that is taken", code=refused.code)
    return None


def _duplicate_of(
    record: CollectionRecord, named: NamedIndex, shifts: Sequence[Shift], entries: Callable[[str], Entries]
) -> Refused | None:
    moves = [move for shift in shifts for move in shift.moves if move.index == named.name]
    left = {move.before for move in moves}
    taken: dict[bytes, bytes] = {}
    for move in moves:
        key = move.after
        start = None if key is None else unique_part(record, key)
        if key is None or start is None:
            continue
        rival = taken.get(start)
        if rival is None:
            stored = entries(named.name).span(start, start + AFTER, _RIVALS + len(left), reverse=False, undone=None)
            rival = next((each for each in stored if each not in left), None)
        if rival is not None:
            other = doc_of(record, rival)
            mine = address_text(doc_of(record, key))
            reason = f"{mine} has the same {described(named, key)} as {address_text(other)}"
            return Refused(reason, other, code=DuplicateError.code)
        taken[start] = key
    return None


def check_unique(record: CollectionRecord, named: NamedIndex, entries: Entries) -> None:
    """Raise DuplicateError if documents have the same values in a new unique index."""
    found = [pair for pair, _ in zip(_duplicates(record, entries), range(_SHOWN), strict=False)]
    if found:
        docs = [(address_text(doc_of(record, first)), address_text(doc_of(record, other))) for first, other in found]
        parts = [
            f"{first} and {other} have the same {described(named, pair[0])}"
            for (first, other), pair in zip(docs, found, strict=True)
        ]
        message = (
            f"cannot make a unique index of {record.kind!r}: {'; '.join(parts)}; change or delete one document of each "
            "pair"
        )
        raise DuplicateError(message, kind=record.kind, documents=docs)


def _duplicates(record: CollectionRecord, entries: Entries) -> Iterator[tuple[bytes, bytes]]:
    """Pairs of keys whose documents have the same values."""
    for part, group in groupby(entries.all_keys(), key=lambda key: unique_part(record, key)):
        if part is not None:
            first, *others = group
            yield from [(first, other) for other in others]


def unique_part(record: CollectionRecord, key: bytes) -> bytes | None:
    """The part of a key that no other document may have; None if a field is None: such documents are not compared."""
    fields = fields_of(key)[1 if record.scope == "user" else 0 :]
    if any(field is None or field is ABSENT for field in fields):
        return None
    return key[: -len(encode_id(doc_id_of(key, record.kind)))]


def described(named: NamedIndex, key: bytes) -> str:
    """The fields of a unique index with their values, for people."""
    names = [field.name for field in named.index.fields]
    values = fields_of(key)[-len(names) :]
    return ", ".join(f"{name} {value!r}" for name, value in zip(names, values, strict=True))
