"""Answers in words, for authors: why a function ran, or why it does not.

Must never know: how the scheduler comes to know it.
"""

from __future__ import annotations

from typing import Any

from headwater.cells.here import find
from headwater.errors import UsageError
from headwater.host.base_space import BaseSpace
from headwater.host.functions import Computed, Sink


def why(function: Computed[..., Any] | Sink, *args: object, **kwargs: object) -> str:
    """Why a function last ran, why it does not run now, and what would wake it. With arguments: that instance."""
    given: object = function
    if not isinstance(given, Computed | Sink):
        raise UsageError(f"why() takes a function made with @app.computed or @app.sink, not {given!r}")
    home, _ = find(function.owner, function.name)
    assert isinstance(home, BaseSpace)
    node = function.node_in(home, *args, **kwargs)
    if node is None:
        return f"{function.name}() with these arguments has not been called here, so there is no node for it"
    return home.scheduler.why(node)
