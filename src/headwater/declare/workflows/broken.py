"""What a fixer receives, and what it returns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec


class Broken(msgspec.Struct, frozen=True, kw_only=True):
    """A handler to repair: the run that failed, its code, and its error."""

    workflow: str
    handler: str
    run: int
    phase: str
    error: str
    details: str
    """The traceback."""
    source: str
    """Of the class or function as it is now, with its decorators; empty if there is none."""
    attempt: int
    """1 for the first repair since a run succeeded."""


Fixer: TypeAlias = Callable[[Broken], str | Awaitable[str | None] | None]
"""Repairs handlers: returns new source for the handler, or None to give up."""
