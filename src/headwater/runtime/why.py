"""Answers in words, for authors: why a function ran, or why it does not."""

from __future__ import annotations

from typing import Any

from headwater.cells.context import UNTRACKED, find
from headwater.declare.events.handler import Handler
from headwater.declare.functions.computed import Computed
from headwater.declare.functions.instances import missing_arguments_error
from headwater.declare.functions.sink import Sink
from headwater.declare.resources.resource import Explainable
from headwater.errors import UsageError
from headwater.runtime.pieces.piece_host import PieceHost


def why(function: Computed[..., Any] | Sink | Handler[..., Any] | Explainable, *args: object, **kwargs: object) -> str:
    """Explain why a function last ran, why it does not run now, and what would run it.

    Args:
        function: A computed function, a sink, a handler or a resource.
        args: Arguments, to ask about one instance of a function with parameters.
        kwargs: Arguments by name.

    Returns:
        The explanation, for people.

    Raises:
        UsageError: HW100. The function is not declared in an app.
        NotOpen: HW001. The app has no open space here.

    Example:
        ```python
        import headwater as hw

        app = hw.App("shop")
        price = app.cell("price", 250)


        @app.computed
        def gross() -> int:
            return price.value * 12 // 10


        with app.open("memory:"):
            gross()
            print(hw.why(gross))
        ```
    """
    if isinstance(function, Explainable):
        return function.why(*args, **kwargs)
    given: object = function
    if not isinstance(given, Computed | Sink | Handler):
        message = "why() takes a function made with @app.computed, @app.sink, @app.handler or @app.resource"
        raise UsageError(f"{message}, not {given!r}")
    home, _ = find(function.owner, function.name, UNTRACKED)
    assert isinstance(home, PieceHost)
    if isinstance(function, Handler):
        return _of_handler(function, home, args or kwargs)
    if isinstance(function, Sink) and (args or kwargs):
        raise UsageError(f"why({function.name}) takes no arguments: a sink has none")
    try:
        node = function.node_in(home, *args, **kwargs)
    except TypeError as error:
        found = home.instances.get(function)
        known = [] if found is None else [each.name for each in reversed(found.nodes())]
        raise missing_arguments_error(f"why({function.name})", error, known) from None
    if node is None:
        if function.enclosing_piece is not None and not args and not kwargs:
            return f"{function.name}() of {function.enclosing_piece.title} does not run: the piece is stopped"
        if isinstance(function, Sink):
            reason = "it was stopped with stop(), or another was declared in its place; the next opening starts it"
            return f"{function.name}() does not run in space {home.name!r}: {reason}"
        return f"{function.name}() with these arguments has not been called here, so there is no node for it"
    return home.captioned(home.scheduler.why(node))


def _of_handler(function: Handler[..., Any], home: PieceHost, given: object) -> str:
    if given:
        raise UsageError(f"why({function.name}) takes no arguments: a handler is one, whatever is sent to it")
    record = function.record_in(home)
    if record is None:
        if function.enclosing_piece is not None:
            reason = home.pieces.why_not(function.enclosing_piece.prefix[:-1])
            return f"{function.name}() of {function.enclosing_piece.title} handles nothing: {reason}"
        return f"{function.name}() handles nothing in space {home.name!r}: another was declared in its place"
    return home.captioned(home.scheduler.why(record))
