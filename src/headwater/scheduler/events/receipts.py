"""The content of receipts.

{"stream": ..., "result": ...}                           handled
{"stream": ..., "rejected": {"reason": ..., "facts": ...}}   its handler raised `hw.Reject`
"payload": digest                                        besides, of an event that may be sent again
"sender": [space, lineage, order]                        besides, of an event that another space has delivered
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from headwater.errors import Reject
from headwater.values.codec import digest
from headwater.values.tree import ABSENT, Maybe, Value, freeze, map_of

_STREAM: Final = "stream"
_RESULT: Final = "result"
_REJECTED: Final = "rejected"
_PAYLOAD: Final = "payload"
_SENDER: Final = "sender"
_BESIDES: Final = {_PAYLOAD, _SENDER}
_EITHER: Final = ({_STREAM, _RESULT}, {_STREAM, _REJECTED})

REUSED: Final = "its id was used before, for an event with another payload"
"""The reason of an event that is refused because its id belongs to another event."""


class Rejection(NamedTuple):
    """Why a handler rejected an event: a sentence, and facts as values."""

    reason: str
    # A map.
    facts: Value


def rejection_of(error: Reject) -> Rejection:
    """The stored form. Raises AddressError or LimitError if a fact cannot be stored."""
    return Rejection(error.reason, freeze(error.facts, "the facts of hw.Reject"))


def made(stream: str, outcome: Value | Rejection, payload: Maybe, sender: Maybe = ABSENT) -> Value:
    """A receipt; with a digest of the payload, unless that is ABSENT, and the position at its sender, if it has one."""
    fields: dict[str, Value] = {_STREAM: stream}
    if isinstance(outcome, Rejection):
        fields[_REJECTED] = map_of({"reason": outcome.reason, "facts": outcome.facts})
    else:
        fields[_RESULT] = outcome
    if payload is not ABSENT:
        fields[_PAYLOAD] = digest(payload).hex()
    if sender is not ABSENT:
        fields[_SENDER] = sender
    return map_of(fields)


def is_receipt(value: Maybe) -> bool:
    """Whether a value is a receipt: an author's class may have the same name."""
    return isinstance(value, Mapping) and value.keys() - _BESIDES in _EITHER


def rejection_in(receipt: Maybe) -> Rejection | None:
    """Why the event was rejected; None if it was not."""
    told = receipt.get(_REJECTED) if isinstance(receipt, Mapping) else None
    if not isinstance(told, Mapping):
        return None
    facts = told.get("facts")
    return Rejection(str(told.get("reason", "")), facts if isinstance(facts, Mapping) else map_of({}))


def result_in(receipt: Maybe) -> Value:
    """The stored result of its handler."""
    return receipt.get(_RESULT) if isinstance(receipt, Mapping) else None


def is_of_another(receipt: Maybe, payload: Value) -> bool:
    """Whether it is the receipt of an event with the same id and another payload. Older receipts have no digest."""
    kept = receipt.get(_PAYLOAD) if isinstance(receipt, Mapping) else None
    return kept is not None and kept != digest(payload).hex()
