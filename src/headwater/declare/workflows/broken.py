"""What a fixer receives, and what it returns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec


class Broken(msgspec.Struct, frozen=True, kw_only=True):
    """A handler to repair: the run that failed, its code, and its error."""

    workflow: str
    """The name of the workflow."""
    handler: str
    """The name of the producer or consumer."""
    run: int
    """The number of the run."""
    phase: str
    """The phase that failed."""
    error: str
    """The error, as text."""
    details: str
    """The traceback."""
    source: str
    """The source of the class or function, with its decorators; empty if there is none."""
    attempt: int
    """The number of the repair: 1 for the first one since a run succeeded."""


Fixer: TypeAlias = Callable[[Broken], str | Awaitable[str | None] | None]
"""Repairs handlers: returns new source for the handler, or None to give up."""
