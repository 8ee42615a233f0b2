"""Code that acts as another program would: with neither the space nor the transaction of its caller around it."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import Any, TypeVar

import headwater as hw

T = TypeVar("T")


def apart(fn: Callable[[], T]) -> T:
    """Call it in an empty context, in this thread."""
    return Context().run(fn)


def overtake(other: hw.Space, cell: hw.Cell[Any], value: object) -> None:
    """Write through another opening, and have it on disk."""

    def write() -> None:
        cell.value = value
        other.sync()

    apart(write)
