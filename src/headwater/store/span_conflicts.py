"""Conflicts of spans: whether a later commit changed what a commit has read of an index. Never too little."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.store.collection_record import CollectionRecord, NamedIndex, Shift, id_of, kind_of, scope_prefix
from headwater.store.commit import Commit, Conflict, SpanRead
from headwater.store.state_cache import StateCache
from headwater.values.address import address_text
from headwater.values.tree import ABSENT


class SpanView:
    """A span that a commit has read, with the index and the documents of today."""

    __slots__ = ("commit", "named", "record", "span", "states")

    def __init__(
        self, commit: Commit, span: SpanRead, record: CollectionRecord, named: NamedIndex, states: StateCache
    ) -> None:
        self.commit = commit
        self.span = span
        self.record = record
        self.named = named
        self.states = states


def first_hit(later: Iterable[Shift], view: SpanView) -> Conflict | None:
    """The conflict with the first of the later commits that changed what was read; None if there is none."""
    for shift in later:
        if _is_hit(view, shift):
            reason = f"{address_text(shift.doc)} was written since {view.span.index} was read"
            return Conflict(reason, shift.doc, seq=shift.seq)
    return None


def _is_hit(view: SpanView, shift: Shift) -> bool:
    span = view.span
    is_own = shift.session == view.commit.session
    if is_own and any(first <= shift.local_seq <= last for first, last in span.layers):
        return False
    for move in shift.moves:
        if move.index == span.index and (_is_in(move.before, span) or _is_in(move.after, span)):
            return True
    return (shift.doc in span.layered and not is_own) or _changes_field(view, shift)


def _changes_field(view: SpanView, shift: Shift) -> bool:
    """Whether it changed one of the fields that were read of each document in the span."""
    fields, record = view.span.fields, view.record
    if not fields or kind_of(shift.doc) != record.kind:
        return False
    if shift.fields is not None and not any(field in shift.fields for field in fields):
        return False
    # Its key is still the one it had then, or a later shift has moved it out of the span and is found itself.
    prefix = scope_prefix(record, shift.doc)
    value = view.states.get(view.commit.branch, shift.doc).value
    if prefix is None or value is ABSENT:
        return False
    return _is_in(view.named.key(prefix, value, id_of(shift.doc)), view.span)


def _is_in(key: bytes | None, span: SpanRead) -> bool:
    return key is not None and span.lo <= key < span.hi
