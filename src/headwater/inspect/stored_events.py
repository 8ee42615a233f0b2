"""Events as they stand in a space: those that failed, those that wait, and receipts of those that were handled.

What is read here is on disk, whoever has the file open, or as a server has it. Nothing is held for it, and nobody is
kept waiting.

Must never know: who asks, and how an answer looks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, TypeAlias, cast

import msgspec

from headwater.cells.replica import Replica
from headwater.cells.transaction import Transaction
from headwater.errors import NotFoundError, UsageError
from headwater.inspect import stored_pieces
from headwater.inspect.records import EventTold
from headwater.scheduler.events import failed_events, outbox, receipts
from headwater.store.browsing import read
from headwater.store.engine import Engine
from headwater.values.address import doc_key
from headwater.values.codec import to_json
from headwater.values.ids import BranchId, DocKey
from headwater.values.tree import ABSENT, Maybe, Value

PAYLOAD_MAX: Final = 2000
"""Characters of a payload in a list. Longer ones are told of when one event is asked for."""

_NAMED_MAX: Final = 8
"""Events that are named if it could be any of several."""

_WORD: Final = "event:"

Look: TypeAlias = Callable[[DocKey], Maybe]
"""How a document stands, wherever that is looked up."""


def looking(engine: Engine, branch: BranchId) -> Look:
    """In a file."""
    return lambda doc: read(engine, doc, branch).value


# --- what there is --------------------------------------------------------------------------------------------


def failed(look: Look) -> list[EventTold]:
    """Those that failed and are kept, oldest first; without what is long."""
    letters = failed_events.ids_by_age(look(failed_events.FAILED))
    found = (_failed(look, each) for each in letters)
    return [shortened(event) for event in found if event is not None]


def waiting(look: Look) -> list[EventTold]:
    """Those that stand in the outbox, in the order in which they were sent."""
    found = outbox.entries(look(outbox.OUTBOX))
    return [shortened(_in_file(look, letters, entry)) for letters, entry in found]


def shown(look: Look, text: str) -> EventTold:
    """All that is known of one: of a failed one, one that waits, or one that was handled. Raises NotFoundError."""
    stored = dict(outbox.entries(look(outbox.OUTBOX)))
    listed = failed_events.ids_by_age(look(failed_events.FAILED))
    letters = _letters(text)
    meant = _matching(letters, [*listed, *stored])
    if not meant:
        return _handled(look, letters)
    one = _only(text, meant)
    found = _failed(look, one)
    return found if found is not None else _in_file(look, one, stored.get(one, {}))


def find_failed(look: Look, text: str) -> EventTold:
    """The failed event that an id, or what it begins with, means. Raises NotFoundError, UsageError."""
    listed = failed_events.ids_by_age(look(failed_events.FAILED))
    meant = _matching(_letters(text), listed)
    found = _failed(look, _only(text, meant)) if meant else None
    if found is None:
        raise _missing(look, text)
    return found


def drop(replica: Replica, event: str) -> bool:
    """Forget one that failed or waits, in a file that nobody has open. Whether it was there; the caller syncs."""
    tx = Transaction(replica, f"dropping {event}")
    letters = _letters(event)
    waits = letters in dict(outbox.entries(tx.document(outbox.OUTBOX)))
    if not failed_events.forget(tx, letters) and not waits:
        tx.abort()
        return False
    outbox.take(tx, letters)
    tx.commit()
    return True


def droppable(event: EventTold) -> EventTold:
    """The same. Raises NotFoundError if it was handled."""
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
    """Exactly the one, or all that begin so."""
    found = list(dict.fromkeys(one for one in known if one.startswith(letters)))
    return [letters] if letters in found else found


def meant_by(text: str, known: Iterable[EventTold]) -> EventTold | None:
    """The one of these that an id, or what it begins with, means. Raises UsageError if it could be several."""
    by_letters = {_letters(event.event): event for event in known}
    meant = _matching(_letters(text), by_letters)
    return by_letters[_only(text, meant)] if meant else None


def _only(text: str, meant: list[str]) -> str:
    if len(meant) > 1:
        names = ", ".join(f"{_WORD}{letters}" for letters in meant[:_NAMED_MAX])
        more = f" and {len(meant) - _NAMED_MAX:,} more" if len(meant) > _NAMED_MAX else ""
        message = f"{text} could be any of {len(meant):,} events: {names}{more}; give more of its letters"
        raise UsageError(message, event=text)
    return meant[0]


def _missing(look: Look, text: str) -> NotFoundError:
    """Say what is known of it, if anything is."""
    stored = dict(outbox.entries(look(outbox.OUTBOX)))
    letters = _letters(text)
    if _matching(letters, stored):
        why = "it has not failed, but waits to be handled; `headwater events ls --waiting` lists those"
    elif _receipt(look, letters) is not None:
        why = f"it was handled or rejected; `headwater events show {text}` tells what came of it"
    else:
        why = "`headwater events ls` lists them"
    return NotFoundError(f"there is no failed event {text}: {why}", event=text)


# --- records --------------------------------------------------------------------------------------------------


def json_of(value: Value) -> str:
    """A value as people and scripts see it."""
    return json.dumps(to_json(value), ensure_ascii=False)


def _failed(look: Look, letters: str) -> EventTold | None:
    record = look(failed_events.record_of(letters))
    if not outbox.is_map(record):
        return None
    told = cast("Mapping[str, Value]", record)
    return EventTold(
        event=f"{_WORD}{letters}",
        stream=str(told.get("stream", "")),
        state="failed",
        at_ms=_whole(told.get("at")),
        attempts=_whole(told.get("attempts")),
        reason=str(told.get("reason") or told.get("error") or ""),
        traceback=str(told.get("traceback") or ""),
        payload=json_of(told.get("payload")),
    )


def unhandled(outbox_now: Maybe, handled: Collection[str]) -> list[EventTold]:
    """Those in an outbox that are in streams besides these."""
    found = outbox.entries(outbox_now)
    return [_waiting(letters, entry) for letters, entry in found if entry["stream"] not in handled]


def _waiting(letters: str, entry: Mapping[str, Value]) -> EventTold:
    return EventTold(
        event=f"{_WORD}{letters}",
        stream=str(entry.get("stream", "")),
        state="waiting",
        at_ms=int(outbox.sent_ms(entry)),
        reason="its app has to be opened",
        payload=json_of(entry.get("payload")),
    )


def _in_file(look: Look, letters: str, entry: Mapping[str, Value]) -> EventTold:
    """The same, and for which piece it waits if it is for one."""
    event = _waiting(letters, entry)
    address = stored_pieces.piece_in(event.stream)
    piece = stored_pieces.piece_of(address, look(doc_key(address))) if address else None
    if piece is None:
        return event
    return msgspec.structs.replace(event, reason=f"{event.reason}, and {piece.pattern} {piece.key} started")


def _handled(look: Look, letters: str) -> EventTold:
    told = _receipt(look, letters)
    if told is None:
        message = f"there is no event {_WORD}{letters}: none failed, none waits, and there is no receipt of one"
        raise NotFoundError(f"{message}; `headwater events ls` lists those that failed", event=f"{_WORD}{letters}")
    event, stream = f"{_WORD}{letters}", str(told["stream"])
    rejection = receipts.rejection_in(cast("Value", told))
    if rejection is not None:
        facts = json_of(rejection.facts) if rejection.facts else None
        return EventTold(event=event, stream=stream, state="rejected", reason=rejection.reason, facts=facts)
    return EventTold(event=event, stream=stream, state="confirmed", result=json_of(told["result"]))


def _receipt(look: Look, letters: str) -> Mapping[str, Value] | None:
    found = look(doc_key(f"receipt:{letters}"))
    return cast("Mapping[str, Value]", found) if receipts.is_receipt(found) else None


SYSTEM: Final = ("receipt:", "failed:", "events:")
"""How documents are called that hold what is kept of events."""


def is_system(doc: DocKey, value: Callable[[], Maybe]) -> bool:
    """Whether a document is one of these, and not one of an author's class that is called so."""
    kind, _, letters = doc.removeprefix("space/").partition(":")
    if kind == "events":
        return doc in (outbox.OUTBOX, failed_events.FAILED)
    if kind not in ("receipt", "failed"):
        return False
    found = value()
    if found is ABSENT:
        return True
    if kind == "receipt":
        return receipts.is_receipt(found)
    return outbox.is_map(found) and cast("Mapping[str, Value]", found).get("event") == f"{_WORD}{letters}"


def shortened(event: EventTold) -> EventTold:
    """As in a list: without what is long."""
    payload = event.payload if event.payload is not None and len(event.payload) <= PAYLOAD_MAX else None
    return msgspec.structs.replace(event, traceback="", payload=payload)


def _whole(value: Value) -> int:
    return int(value) if isinstance(value, int | float) else 0
