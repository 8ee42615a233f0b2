"""Headwater keeps results current: plain functions over documents, re-run exactly when what they read changes.

    import headwater as hw

    app = hw.App("counter")
    count = app.cell("count", 0)

Everything an author needs is here; `headwater.core` is the engine beneath, `headwater.testing` its test tools. Names
are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from headwater._version import __version__

if TYPE_CHECKING:
    from headwater.app import App
    from headwater.cells.anydoc import AnyDoc
    from headwater.cells.cell import Cell
    from headwater.cells.collection import List, Map
    from headwater.cells.doc import Doc, Link
    from headwater.cells.transaction import Transaction
    from headwater.cells.whole import delete, exists, id_of
    from headwater.errors import (
        EventError,
        EventFailedError,
        EventRefusedError,
        EventTimeoutError,
        HeadwaterError,
        NotReadyError,
        UserCodeError,
    )
    from headwater.host.after import after_commit
    from headwater.host.async_space import AsyncSpace
    from headwater.host.console import Console
    from headwater.host.functions import Computed, Sink
    from headwater.host.handlers import Handler, Stream
    from headwater.host.resuming import Resumption
    from headwater.host.space import Space
    from headwater.host.stats import Stats
    from headwater.host.ticket import Ticket
    from headwater.host.words import why

_HOMES = {
    "App": "headwater.app",
    "AnyDoc": "headwater.cells.anydoc",
    "AsyncSpace": "headwater.host.async_space",
    "Cell": "headwater.cells.cell",
    "Computed": "headwater.host.functions",
    "Console": "headwater.host.console",
    "Doc": "headwater.cells.doc",
    "EventError": "headwater.errors",
    "EventFailedError": "headwater.errors",
    "EventRefusedError": "headwater.errors",
    "EventTimeoutError": "headwater.errors",
    "Handler": "headwater.host.handlers",
    "HeadwaterError": "headwater.errors",
    "Link": "headwater.cells.doc",
    "List": "headwater.cells.collection",
    "Map": "headwater.cells.collection",
    "NotReadyError": "headwater.errors",
    "Resumption": "headwater.host.resuming",
    "Sink": "headwater.host.functions",
    "Space": "headwater.host.space",
    "Stats": "headwater.host.stats",
    "Stream": "headwater.host.handlers",
    "Ticket": "headwater.host.ticket",
    "Transaction": "headwater.cells.transaction",
    "UserCodeError": "headwater.errors",
    "after_commit": "headwater.host.after",
    "delete": "headwater.cells.whole",
    "exists": "headwater.cells.whole",
    "id_of": "headwater.cells.whole",
    "why": "headwater.host.words",
}

__all__ = [
    "AnyDoc",
    "App",
    "AsyncSpace",
    "Cell",
    "Computed",
    "Console",
    "Doc",
    "EventError",
    "EventFailedError",
    "EventRefusedError",
    "EventTimeoutError",
    "Handler",
    "HeadwaterError",
    "Link",
    "List",
    "Map",
    "NotReadyError",
    "Resumption",
    "Sink",
    "Space",
    "Stats",
    "Stream",
    "Ticket",
    "Transaction",
    "UserCodeError",
    "__version__",
    "after_commit",
    "delete",
    "exists",
    "id_of",
    "why",
]


def _load(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'headwater' has no attribute {name!r}")
    found: object = getattr(import_module(home), name)
    globals()[name] = found
    return found


if not TYPE_CHECKING:  # type checkers shall know no other names than those above
    __getattr__ = _load


def __dir__() -> list[str]:
    return __all__
