"""What the records that answer a page are made of.

A value travels as JSON text: 1 and 1.0 differ, and 2**63 is not rounded by a browser. Times are milliseconds since
1970. Sentences are made here and by the engine; a page only shows them.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Tone: TypeAlias = Literal["failed", "running", "waiting", "invalid", "clean", "never-ran", "dormant", "document"]
"""The state of a box: the first that one of its members has, in this order."""


class AnswerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """All fields are always sent."""


class AnswerArray(msgspec.Struct, frozen=True, array_like=True):
    """Sent as an array, in the order of the fields."""


class ValueText(AnswerRecord, frozen=True, kw_only=True):
    """A value as JSON text."""

    text: str
    size: int
    """Bytes of the whole text."""
    cut: bool = False
    """`text` is only the beginning, and no JSON."""
    hidden: str = ""
    """Why it is not shown; then `text` is empty."""


class Part(AnswerRecord, frozen=True, kw_only=True):
    """A piece of a sentence; with `kind`, a link to the thing."""

    text: str
    kind: Literal["", "document", "function", "run", "event", "workflow"] = ""
    target: str = ""
