"""Log output of the server: one line per record, as text or JSON."""

from __future__ import annotations

import json
import logging
from collections.abc import Hashable
from datetime import UTC, datetime
from typing import Final, TextIO

from headwater.values.text import inert

_USUAL: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""Attributes of every record. Others are extra fields."""

SPARING_S: Final = 10.0
"""Interval between equal lines for one address: frequent refusals must not fill the disk."""

KNOWN_MAX: Final = 10_000
"""Addresses that are tracked."""


class TextLines(logging.Formatter):
    """Text: time, level, message, extra fields. Always one line, whatever the values contain."""

    def format(self, record: logging.LogRecord) -> str:
        words = [_time(record), record.levelname.lower(), inert(record.getMessage())]
        words += [f"{name}={_quoted(value)}" for name, value in _besides(record).items() if value != ""]
        line = " ".join(words)
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonLines(logging.Formatter):
    """JSON: one object per line."""

    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, object] = {"at": _time(record), "level": record.levelname.lower(), "event": record.getMessage()}
        told |= _besides(record)
        if record.exc_info:
            told["error"] = self.formatException(record.exc_info)
        return json.dumps(told, default=str)


def set_up(logger: logging.Logger, stream: TextIO, *, json: bool, verbose: bool = False) -> None:
    """Send the logger's records to a stream. `verbose`: HTTP requests, too."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines() if json else TextLines())
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)


class RepeatLimiter:
    """Limits repeated log lines."""

    def __init__(self) -> None:
        # Time of the last line, and how many were left out since.
        self._said: dict[Hashable, tuple[float, int]] = {}

    def left_out(self, what: Hashable, now: float) -> int | None:
        """How many were left out since the last line; None: leave this one out, too."""
        at, count = self._said.get(what, (float("-inf"), 0))
        if now - at < SPARING_S:
            self._said[what] = at, count + 1
            return None
        self._said.pop(what, None)
        self._said[what] = now, 0
        while len(self._said) > KNOWN_MAX:
            del self._said[next(iter(self._said))]
        return count


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


def _besides(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _USUAL}


def _quoted(value: object) -> str:
    """A plain word as it is, everything else in quotes: no value can imitate another field."""
    text = str(value)
    plain = text.isascii() and text.isprintable() and not set(text) & set(" \"'=\\")
    return text if plain else json.dumps(text)
