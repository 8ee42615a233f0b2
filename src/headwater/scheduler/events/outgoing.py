"""Entries of the outbox for other spaces: what a commit of this space sends there.

An entry names the space that it is for (`to`). It is part of the commit that sends it, so it exists if and only if that
commit was accepted. It is taken out when the other space has handled it, durably.

{"to": space id, "stream": ..., "payload": ..., "order": [seq, number], "sent": milliseconds since 1970}
"branch": of the other space, unless it is the main branch
"once": [by, name]   the identity that its sender gave it; otherwise it is identified by this space and its own id
"apart": true        the payload is large, and a document of its own
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, cast

from headwater.cells.replica import Replica
from headwater.cells.transaction import Transaction
from headwater.scheduler.events import failed_events, outbox, receipts
from headwater.scheduler.events.outbox import OUTBOX, is_map
from headwater.scheduler.events.outgoing_entry import DeliveryTarget, Outgoing
from headwater.values.address import doc_key
from headwater.values.codec import encode
from headwater.values.ids import MAIN, DocKey
from headwater.values.patch import Add, Remove
from headwater.values.tree import ABSENT, Maybe, Value, array_of, freeze, map_of

REJECTED: Final = doc_key("events:rejected")
"""A map from the letters of each event that a handler of another space rejected to when it was."""

INLINE_MAX: Final = 64 * 1024
"""Bytes of a payload in the outbox. A larger one is a document: every later send would copy it."""

_TEXT_MAX: Final = 20_000
"""Characters of a reason that are stored."""


ReadDocument: TypeAlias = Callable[[DocKey], Maybe]
"""Reads a document."""


def payload_of(letters: str) -> DocKey:
    """The document of a large payload."""
    return doc_key(f"outgoing:{letters}")


def put(tx: Transaction, entry: Outgoing) -> None:
    """Send with the transaction."""
    fields: dict[str, Value] = {
        "to": entry.target.space,
        "stream": entry.stream,
        "order": array_of(list(entry.order)),
        "sent": entry.sent_ms,
    }
    if entry.target.branch != MAIN:
        fields["branch"] = entry.target.branch
    if entry.once is not None:
        fields["once"] = array_of(list(entry.once))
    if len(encode(entry.payload)) > INLINE_MAX:
        fields["apart"] = True
        tx.replica.expect_new(payload_of(entry.letters))
        tx.set(payload_of(entry.letters), (), entry.payload)
    else:
        fields["payload"] = entry.payload
    outbox.add(tx, entry.letters, map_of(fields))


def take(tx: Transaction, letters: str) -> None:
    """Remove an entry, with its payload: it was handled, or is listed elsewhere now."""
    found = tx.document(OUTBOX)
    entry = cast("Mapping[str, Value]", found).get(letters) if is_map(found) else None
    if entry is None:
        return
    tx.patch(OUTBOX, Remove((letters,)))
    if is_map(entry) and cast("Mapping[str, Value]", entry).get("apart"):
        tx.delete(payload_of(letters))


def restamp(tx: Transaction, letters: str, order: tuple[int, ...]) -> None:
    """Give an entry of this transaction another position: entries of others were committed first."""
    found = tx.document(OUTBOX)
    if is_map(found) and letters in cast("Mapping[str, Value]", found):
        tx.set(OUTBOX, (letters, "order"), array_of(list(order)))


def entries(replica: Replica) -> list[Outgoing]:
    """All entries for other spaces that are visible, in their order."""
    return entries_in(replica.read(OUTBOX), replica.read)


def entries_in(found: Maybe, read: ReadDocument) -> list[Outgoing]:
    """All entries for other spaces in an outbox, in their order. A large payload is read."""
    if not is_map(found):
        return []
    made = [_parsed(letters, entry, read) for letters, entry in cast("Mapping[str, Value]", found).items()]
    return sorted((entry for entry in made if entry is not None), key=lambda entry: (entry.order, entry.letters))


def count_in(found: Maybe) -> int:
    """The number of entries for other spaces in an outbox."""
    if not is_map(found):
        return 0
    return sum(is_map(entry) and "to" in cast("Mapping[str, Value]", entry) for entry in _values(found))


def _values(found: Maybe) -> list[Value]:
    return list(cast("Mapping[str, Value]", found).values())


def _parsed(letters: str, value: Value, read: ReadDocument) -> Outgoing | None:
    if not is_map(value):
        return None
    fields = cast("Mapping[str, Value]", value)
    to, stream, order, sent = (fields.get(name) for name in ("to", "stream", "order", "sent"))
    if not isinstance(to, str) or not isinstance(stream, str):
        return None
    payload: Maybe = read(payload_of(letters)) if fields.get("apart") else fields.get("payload", ABSENT)
    if payload is ABSENT:
        return None
    branch, once = fields.get("branch"), fields.get("once")
    return Outgoing(
        letters,
        DeliveryTarget(to, branch if isinstance(branch, str) else MAIN),
        stream,
        payload,
        outbox.numbers(order),
        sent if isinstance(sent, int) else 0,
        _pair(once),
    )


def _pair(value: Maybe) -> tuple[str, str] | None:
    parts = [str(part) for part in outbox.items(value)]
    return (parts[0], parts[1]) if len(parts) == 2 else None  # noqa: PLR2004  # a pair


# --- what did not succeed -------------------------------------------------------------------------------------


def store_failure(tx: Transaction, entry: Outgoing, reason: str, *, traceback: str, at_ms: int, kept_max: int) -> None:
    """Move an entry to the failed events, with the reason of the other space."""
    take(tx, entry.letters)
    if not kept_max:
        return
    record: dict[str, object] = {
        "event": entry.event,
        "stream": entry.stream,
        "payload": entry.payload,
        "error": None,
        "reason": reason[:_TEXT_MAX],
        "traceback": traceback[:_TEXT_MAX],
        "attempts": 1,
        "at": at_ms,
        "to": entry.target.space,
        "branch": entry.target.branch,
        "once": None if entry.once is None else list(entry.once),
    }
    failed_events.put_record(tx, entry.letters, freeze(record), at_ms, kept_max)


def failed_entry(record: Maybe, letters: str, order: tuple[int, ...], sent_ms: int) -> Outgoing | None:
    """A failed event for another space as an entry again; None if it is for this space."""
    if not is_map(record):
        return None
    fields = cast("Mapping[str, Value]", record)
    to, branch = fields.get("to"), fields.get("branch")
    if not isinstance(to, str):
        return None
    target = DeliveryTarget(to, branch if isinstance(branch, str) else MAIN)
    stream, payload = str(fields.get("stream")), fields.get("payload")
    return Outgoing(letters, target, stream, payload, order, sent_ms, _pair(fields.get("once")))


def store_rejection(tx: Transaction, entry: Outgoing, rejection: receipts.Rejection, at_ms: int, kept_max: int) -> None:
    """The handler rejected it: an answer, which is listed at the sender and not delivered again."""
    take(tx, entry.letters)
    key = doc_key(f"receipt:{entry.letters}")
    tx.replica.expect_new(key)
    tx.set(key, (), receipts.made(entry.stream, rejection, ABSENT))
    listed = tx.document(REJECTED)
    if not is_map(listed):
        tx.set(REJECTED, (), map_of({entry.letters: at_ms}))
        return
    tx.patch(REJECTED, Add((entry.letters,), at_ms))
    times = cast("Mapping[str, Value]", tx.document(REJECTED))
    for letters in failed_events.oldest(times, len(times) - max(kept_max, 1)):
        tx.patch(REJECTED, Remove((letters,)))
        tx.delete(doc_key(f"receipt:{letters}"))
