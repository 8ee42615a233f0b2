"""Documents of an open store: the value at an address, and the history of one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from headwater.host.storage import Storage
from headwater.inspect.document_records import (
    CHANGES_MAX,
    MISSING,
    ChangeView,
    GetHistory,
    GetValue,
    HistoryPage,
    ValueView,
)
from headwater.inspect.lookup import find_branch, find_value, missing_document
from headwater.store.browsing import HistoryEntry, history, read
from headwater.store.engine import Engine
from headwater.values.address import address_text, parse_address, settle_path
from headwater.values.codec import to_json
from headwater.values.ids import BranchId, DocKey, Seq
from headwater.values.tree import ABSENT, Maybe, get, same


def read_document(storage: Storage, branch: str, question: GetValue | GetHistory) -> ValueView | HistoryPage:
    """The answer from an open store. Raises NotFoundError, HistoryError."""
    if isinstance(question, GetValue):
        return storage.call(lambda engine: value_at(engine, branch, question))
    return storage.call(lambda engine: history_page(engine, branch, question))


def value_at(engine: Engine, branch: str, question: GetValue) -> ValueView:
    """The value at an address. Raises NotFoundError, HistoryError."""
    at = None if question.at is None else Seq(question.at)
    found = find_value(engine, question.address, find_branch(engine, branch), at)
    return ValueView(
        address=address_text(found.doc, found.path), branch=branch, seq=found.seq, value=to_json(found.value)
    )


def history_page(engine: Engine, branch: str, question: GetHistory) -> HistoryPage:
    """One page of a history. Raises NotFoundError, HistoryError."""
    doc, steps = parse_address(question.address)
    on, at = find_branch(engine, branch), None if question.at is None else Seq(question.at)
    if not read(engine, doc, on, at).seq:
        raise missing_document(engine, doc, on, at)
    # Each page reads from the newest commit on: older states may be compacted, and cannot be read by number.
    events = (event for event in history(engine, doc, on, at) if not question.before or event.seq < question.before)
    changes = _changes_at(engine, doc, steps, on, events) if steps else map(_change, events)
    limit = max(min(question.limit, CHANGES_MAX), 1)
    found = tuple(islice(changes, limit))
    return HistoryPage(changes=found, next=found[-1].seq if len(found) == limit and found[-1].seq > 1 else 0)


def _change(event: HistoryEntry, value: object = MISSING) -> ChangeView:
    return ChangeView(
        seq=event.seq, at_ms=event.at, branch=event.branch, session=event.session, change=event.summary, value=value
    )


def _changes_at(
    engine: Engine, doc: DocKey, steps: tuple[str, ...], branch: BranchId, events: Iterator[HistoryEntry]
) -> Iterator[ChangeView]:
    """The commits that changed the value at a path, with the new value."""

    def value_of(seq: int) -> Maybe:
        root = read(engine, doc, branch, Seq(seq)).value
        return get(root, settle_path(root, steps))

    for event in events:
        after = value_of(event.seq)
        if not same(value_of(event.seq - 1), after):
            yield _change(event, MISSING if after is ABSENT else to_json(after))
