"""Answers in words, for authors: why a function ran, or why it does not.

Must never know: how the scheduler comes to know it.
"""

from __future__ import annotations

from typing import Any

from headwater.cells.here import find
from headwater.errors import UsageError
from headwater.host.base_space import BaseSpace
from headwater.host.functions import Computed, Sink
from headwater.host.handlers import Handler
from headwater.host.resources.resource import Resource


def why(
    function: Computed[..., Any] | Sink | Handler[..., Any] | Resource[..., Any], *args: object, **kwargs: object
) -> str:
    """Why a function last ran, why it does not run now, and what would wake it. With arguments: that instance.

    Of a handler: how often it ran, what waits and why, what failed last. Of a resource: what stands there, and when it
    is asked for.
    """
    if isinstance(function, Resource):
        return function.why(*args, **kwargs)
    given: object = function
    if not isinstance(given, Computed | Sink | Handler):
        raise UsageError(f"why() takes a function made with @app.computed, @app.sink or @app.handler, not {given!r}")
    home, _ = find(function.owner, function.name)
    assert isinstance(home, BaseSpace)
    if isinstance(function, Handler):
        return _of_handler(function, home, args or kwargs)
    node = function.node_in(home, *args, **kwargs)
    if node is None:
        if function.within is not None and not args and not kwargs:
            return f"{function.name}() of {function.within.piece} does not run: the piece is stopped"
        return f"{function.name}() with these arguments has not been called here, so there is no node for it"
    return home.told(home.scheduler.why(node))


def _of_handler(function: Handler[..., Any], home: BaseSpace, given: object) -> str:
    if given:
        raise UsageError(f"why({function.name}) takes no arguments: a handler is one, whatever is sent to it")
    record = function.record_in(home)
    if record is None:
        if function.within is not None:
            return f"{function.name}() of {function.within.piece} handles nothing: the piece is stopped"
        return f"{function.name}() handles nothing in space {home.name!r}: another was declared in its place"
    return home.told(home.scheduler.why(record))
