"""Events in the documents of a space: failed events, waiting events, and receipts of handled events."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, TypeAlias, cast

import msgspec

from headwater.cells.replica import Replica
from headwater.cells.transaction import Transaction
from headwater.errors import NotFoundError, UsageError
from headwater.inspect import stored_pieces
from headwater.inspect.event_records import EventReport
from headwater.scheduler.events import failed_events, outbox, outgoing, receipts
from headwater.scheduler.events.outgoing_entry import DeliveryTarget, Outgoing
from headwater.store.browsing import read
from headwater.store.engine import Engine
from headwater.values.address import doc_key
from headwater.values.codec import to_json
from headwater.values.ids import BranchId, DocKey
from headwater.values.text import listed_text
from headwater.values.tree import ABSENT, Maybe, Value

PAYLOAD_MAX: Final = 2000
"""Characters of a payload in a list. The answer about one event has all of it."""

_NAMED_MAX: Final = 8
"""Events that a message names."""

_WORD: Final = "event:"

Reader: TypeAlias = Callable[[DocKey], Maybe]
"""Reads a document."""


def reader(engine: Engine, branch: BranchId) -> Reader:
    """A reader of the documents of a store."""
    return lambda doc: read(engine, doc, branch).value


# --- what there is --------------------------------------------------------------------------------------------


def failed(read_doc: Reader) -> list[EventReport]:
    """Failed events, oldest first; without long payloads."""
    letters = failed_events.ids_by_age(read_doc(failed_events.FAILED))
    found = (_failed(read_doc, each) for each in letters)
    return [shortened(event) for event in found if event is not None]


def waiting(read_doc: Reader) -> list[EventReport]:
    """Events in the outbox, in the order in which they were sent."""
    found = outbox.entries(read_doc(outbox.OUTBOX))
    return [shortened(_in_file(read_doc, letters, entry)) for letters, entry in found]


def leaving(read_doc: Reader) -> list[EventReport]:
    """Events and posts for other spaces: those that wait, in their order, then those that were rejected there."""
    waits = outgoing.entries_in(read_doc(outbox.OUTBOX), read_doc)
    listed = failed_events.ids_by_age(read_doc(outgoing.REJECTED))
    rejected = [_handled(read_doc, letters) for letters in listed if _receipt(read_doc, letters) is not None]
    return [*(shortened(_outgoing(entry)) for entry in waits), *rejected]


def _outgoing(entry: Outgoing) -> EventReport:
    return EventReport(
        event=entry.event,
        stream=entry.stream,
        state="undelivered",
        at_ms=entry.sent_ms,
        reason=f"space {entry.target.space} has not handled it yet",
        payload=json_of(entry.payload),
        to=entry.target.space,
    )


def shown(read_doc: Reader, text: str, space_id: str) -> EventReport:
    """All details of one event: failed, waiting, or handled. Raises NotFoundError.

    An event that was sent to another space is also known by its id there: its ticket has that.
    """
    leaves = {entry.letters: entry for entry in outgoing.entries_in(read_doc(outbox.OUTBOX), read_doc)}
    stored = dict(outbox.entries(read_doc(outbox.OUTBOX)))
    listed = failed_events.ids_by_age(read_doc(failed_events.FAILED))
    letters = _letters(text)
    meant = _matching(letters, [*listed, *stored, *leaves])
    if not meant and _receipt(read_doc, letters) is None:
        meant = [entry.letters for entry in _sent_away(read_doc) if entry.event_there(space_id) == f"{_WORD}{letters}"]
    if not meant:
        return _handled(read_doc, letters)
    one = _only(text, meant)
    if one in leaves:
        return _outgoing(leaves[one])
    found = _failed(read_doc, one)
    if found is None and one not in stored:
        return _handled(read_doc, one)
    return found if found is not None else _in_file(read_doc, one, stored.get(one, {}))


def _sent_away(read_doc: Reader) -> Iterator[Outgoing]:
    """Events that were sent to other spaces and are listed here: waiting, failed, rejected."""
    yield from outgoing.entries_in(read_doc(outbox.OUTBOX), read_doc)
    for letters in failed_events.ids_by_age(read_doc(failed_events.FAILED)):
        entry = outgoing.failed_entry(read_doc(failed_events.record_of(letters)), letters, (), 0)
        if entry is not None:
            yield entry
    for letters in failed_events.ids_by_age(read_doc(outgoing.REJECTED)):
        receipt = _receipt(read_doc, letters)
        if receipt is not None:
            yield Outgoing(letters, DeliveryTarget(""), str(receipt["stream"]), None, ())


def find_failed(read_doc: Reader, text: str) -> EventReport:
    """The failed event with this id or prefix. Raises NotFoundError, UsageError."""
    listed = failed_events.ids_by_age(read_doc(failed_events.FAILED))
    meant = _matching(_letters(text), listed)
    found = _failed(read_doc, _only(text, meant)) if meant else None
    if found is None:
        raise _missing(read_doc, text)
    return found


def drop(replica: Replica, event: str) -> bool:
    """Delete a failed or waiting event of a closed space. Returns whether it existed; the caller syncs."""
    tx = Transaction(replica, f"dropping {event}")
    letters = _letters(event)
    found = tx.document(outbox.OUTBOX)
    waits = outbox.is_map(found) and letters in cast("Mapping[str, Value]", found)
    if not failed_events.forget(tx, letters) and not waits:
        tx.abort()
        return False
    outgoing.take(tx, letters)
    tx.commit()
    return True


def droppable(event: EventReport) -> EventReport:
    """The event. Raises NotFoundError if it was handled."""
    if event.state in ("pending", "confirmed", "rejected"):
        how = "rejected by its handler" if event.state == "rejected" else "handled"
        raise NotFoundError(f"{event.event} was {how}: there is nothing to drop", event=event.event)
    return event


# --- names ----------------------------------------------------------------------------------------------------


def _letters(text: str) -> str:
    found = text.strip().removeprefix(_WORD)
    if not found:
        raise UsageError(f"{text!r} names no event; an id is expected, or what it begins with", event=text)
    return found


def _matching(letters: str, known: Iterable[str]) -> list[str]:
    """The id itself, or all ids with this prefix."""
    found = list(dict.fromkeys(one for one in known if one.startswith(letters)))
    return [letters] if letters in found else found


def meant_by(text: str, known: Iterable[EventReport]) -> EventReport | None:
    """The event with this id or prefix; None if there is none. Raises UsageError if there are several."""
    by_letters = {_letters(event.event): event for event in known}
    meant = _matching(_letters(text), by_letters)
    return by_letters[_only(text, meant)] if meant else None


def _only(text: str, meant: list[str]) -> str:
    if len(meant) > 1:
        names = listed_text([f"{_WORD}{letters}" for letters in meant], _NAMED_MAX)
        message = f"{text} could be any of {len(meant):,} events: {names}; give more of its letters"
        raise UsageError(message, event=text)
    return meant[0]


def _missing(read_doc: Reader, text: str) -> NotFoundError:
    """The error for an event that has not failed, with its state."""
    stored = dict(outbox.entries(read_doc(outbox.OUTBOX)))
    letters = _letters(text)
    if _matching(letters, stored):
        why = "it has not failed, but waits to be handled; `headwater events ls --waiting` lists those"
    elif _receipt(read_doc, letters) is not None:
        why = f"it was handled or rejected; `headwater events show {text}` shows its result"
    else:
        why = "`headwater events ls` lists them"
    return NotFoundError(f"there is no failed event {text}: {why}", event=text)


# --- records --------------------------------------------------------------------------------------------------


def json_of(value: Value) -> str:
    """A value as JSON."""
    return json.dumps(to_json(value), ensure_ascii=False)


def _failed(read_doc: Reader, letters: str) -> EventReport | None:
    record = read_doc(failed_events.record_of(letters))
    if not outbox.is_map(record):
        return None
    fields = cast("Mapping[str, Value]", record)
    return EventReport(
        event=f"{_WORD}{letters}",
        stream=str(fields.get("stream", "")),
        state="failed",
        at_ms=_whole(fields.get("at")),
        attempts=_whole(fields.get("attempts")),
        reason=str(fields.get("reason") or fields.get("error") or ""),
        traceback=str(fields.get("traceback") or ""),
        payload=json_of(fields.get("payload")),
        to=str(fields.get("to") or ""),
    )


def unhandled(outbox_now: Maybe, handled: Collection[str]) -> list[EventReport]:
    """Events of an outbox in other streams than these."""
    found = outbox.entries(outbox_now)
    return [_waiting(letters, entry) for letters, entry in found if entry["stream"] not in handled]


def _waiting(letters: str, entry: Mapping[str, Value]) -> EventReport:
    return EventReport(
        event=f"{_WORD}{letters}",
        stream=str(entry.get("stream", "")),
        state="waiting",
        at_ms=int(outbox.sent_ms(entry)),
        reason="its app has to be opened",
        payload=json_of(entry.get("payload")),
    )


def _in_file(read_doc: Reader, letters: str, entry: Mapping[str, Value]) -> EventReport:
    """A waiting event, with the piece that it waits for."""
    event = _waiting(letters, entry)
    address = stored_pieces.piece_in(event.stream)
    piece = stored_pieces.piece_of(address, read_doc(doc_key(address))) if address else None
    if piece is None:
        return event
    return msgspec.structs.replace(event, reason=f"{event.reason}, and {piece.pattern} {piece.key} started")


def _handled(read_doc: Reader, letters: str) -> EventReport:
    receipt = _receipt(read_doc, letters)
    if receipt is None:
        message = f"there is no event {_WORD}{letters}: none failed, none waits, and there is no receipt of one"
        raise NotFoundError(f"{message}; `headwater events ls` lists those that failed", event=f"{_WORD}{letters}")
    event, stream = f"{_WORD}{letters}", str(receipt["stream"])
    rejection = receipts.rejection_in(cast("Value", receipt))
    if rejection is not None:
        facts = json_of(rejection.facts) if rejection.facts else None
        return EventReport(event=event, stream=stream, state="rejected", reason=rejection.reason, facts=facts)
    return EventReport(event=event, stream=stream, state="confirmed", result=json_of(receipt["result"]))


def _receipt(read_doc: Reader, letters: str) -> Mapping[str, Value] | None:
    found = read_doc(doc_key(f"receipt:{letters}"))
    return cast("Mapping[str, Value]", found) if receipts.is_receipt(found) else None


SYSTEM: Final = ("receipt:", "failed:", "events:")
"""Prefixes of the names of documents of events."""


def is_system(doc: DocKey, found: Maybe) -> bool:
    """Whether a document is one of these, and not an author's document with such a name."""
    kind, _, letters = doc.removeprefix("space/").partition(":")
    if kind == "events":
        return doc in (outbox.OUTBOX, failed_events.FAILED, outgoing.REJECTED) or letters.startswith("from:")
    if kind not in ("receipt", "failed"):
        return False
    if found is ABSENT:
        return True
    if kind == "receipt":
        return receipts.is_receipt(found)
    return outbox.is_map(found) and cast("Mapping[str, Value]", found).get("event") == f"{_WORD}{letters}"


def shortened(event: EventReport) -> EventReport:
    """The event for a list: without long texts."""
    payload = event.payload if event.payload is not None and len(event.payload) <= PAYLOAD_MAX else None
    return msgspec.structs.replace(event, traceback="", payload=payload)


def _whole(value: Value) -> int:
    return int(value) if isinstance(value, int | float) else 0
