"""What the product logs while a world is played: an exception that it did not expect is a violation (T)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from headwater.errors import HeadwaterError, InvariantError
from headwater.testing.simulation.conductor import WorldStuckError
from sim.world import World

LOGGERS: Final = ("headwater", "asyncio", "uvicorn", "websockets")


class _Watch(logging.Handler):
    def __init__(self, world: World, expected: tuple[type[BaseException], ...]) -> None:
        super().__init__()
        self._world, self._expected = world, expected

    def emit(self, record: logging.LogRecord) -> None:
        conductor = self._world.conductor
        if not conductor.is_inside:
            return
        node, text = conductor.me.process.name, record.getMessage()
        self._world.say(node, f"logs {record.levelname.lower()}: {text[:200]}")
        if record.levelno < logging.ERROR:
            return
        error = record.exc_info[1] if record.exc_info else None
        if error is None or isinstance(error, WorldStuckError):
            return
        if isinstance(error, InvariantError) or not isinstance(error, (HeadwaterError, OSError, *self._expected)):
            self._world.violate("T", f"{node} logged {type(error).__name__}: {error} ({text})", node)


@contextmanager
def watched_logs(world: World, *expected: type[BaseException]) -> Iterator[None]:
    """Inside, log records are lines of the timeline, and go nowhere else. `expected`: what the app raises."""
    watch = _Watch(world, expected)
    kept = [(each, each.handlers, each.propagate, each.level) for each in map(logging.getLogger, LOGGERS)]
    for logger, *_ in kept:
        logger.handlers, logger.propagate = [watch], False
        logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        for logger, handlers, propagate, level in kept:
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(level)
