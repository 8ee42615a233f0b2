"""What the server says while it runs: a line for each thing, for people or for programs.

Must never know: what happened.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Final, TextIO

_USUAL: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""What every record has. Whatever else it has was said besides."""


class TextLines(logging.Formatter):
    """For people: time, level, words, then what was said besides."""

    def format(self, record: logging.LogRecord) -> str:
        words = [_time(record), record.levelname.lower(), record.getMessage()]
        words += [f"{name}={value}" for name, value in _besides(record).items()]
        line = " ".join(words).replace("\n", " ")
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonLines(logging.Formatter):
    """For programs: one object for each line."""

    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, object] = {"at": _time(record), "level": record.levelname.lower(), "event": record.getMessage()}
        told |= _besides(record)
        if record.exc_info:
            told["error"] = self.formatException(record.exc_info)
        return json.dumps(told, default=str)


def set_up(logger: logging.Logger, stream: TextIO, *, json: bool) -> None:
    """From now on the logger writes there."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines() if json else TextLines())
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


def _besides(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _USUAL}
