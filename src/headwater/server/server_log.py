"""What the server says while it runs: a line for each thing, for people or for programs.

Must never know: what happened.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Hashable
from datetime import UTC, datetime
from typing import Final, TextIO

from headwater.values.text import inert

_USUAL: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""What every record has. Whatever else it has was said besides."""

SPARING_S: Final = 10.0
"""How often the same thing is said of the same address: who knocks a thousand times a second fills no disk."""

KNOWN_MAX: Final = 10_000
"""Addresses of which that is known."""


class TextLines(logging.Formatter):
    """For people: time, level, words, then what was said besides. Always one line, whatever names hold."""

    def format(self, record: logging.LogRecord) -> str:
        words = [_time(record), record.levelname.lower(), inert(record.getMessage())]
        words += [f"{name}={_quoted(value)}" for name, value in _besides(record).items() if value != ""]
        line = " ".join(words)
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonLines(logging.Formatter):
    """For programs: one object for each line."""

    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, object] = {"at": _time(record), "level": record.levelname.lower(), "event": record.getMessage()}
        told |= _besides(record)
        if record.exc_info:
            told["error"] = self.formatException(record.exc_info)
        return json.dumps(told, default=str)


def set_up(logger: logging.Logger, stream: TextIO, *, json: bool, verbose: bool = False) -> None:
    """From now on the logger writes there. `verbose`: also which pages are asked for."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines() if json else TextLines())
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)


class RepeatLimiter:
    """Says when to say something that may happen very often."""

    def __init__(self) -> None:
        # When it was said last, and how often it was not since.
        self._said: dict[Hashable, tuple[float, int]] = {}

    def left_out(self, what: Hashable, now: float) -> int | None:
        """None: not now. Else how often it was left out since the last time."""
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
    """As it is if it is one plain word; else in quotes: nobody's name can look like something else that was said."""
    text = str(value)
    plain = text.isascii() and text.isprintable() and not set(text) & set(" \"'=\\")
    return text if plain else json.dumps(text)
