"""Looking at the pieces of an open space: what is told of them at its door.

Must never know: sockets, and who asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from headwater.inspect import stored_pieces
from headwater.inspect.live_events import settle_disk
from headwater.inspect.records import Ask, Opening, PieceTold
from headwater.values.ids import BranchId

if TYPE_CHECKING:
    from headwater.inspect.view import Window

PIECES_MAX: Final = 5000
"""Pieces in one answer: half a second of reading."""

_PAGE: Final = 200
"""Of these read at once: nobody is kept from the file for longer than that takes."""


def with_pieces(window: Window, opening: Opening, ask: Ask) -> Opening:
    """Those of its app, as far as they are on disk, and which of them are at work."""
    settle_disk(window)
    branch, call, has = BranchId(window.branch), window.storage.call, window.space.has_at_work
    docs = call(lambda engine: stored_pieces.pieces_in(engine, branch, window.app, ask.name))
    shown = docs[: min(ask.limit, PIECES_MAX)]
    pieces: list[PieceTold] = []
    for start in range(0, len(shown), _PAGE):
        page = shown[start : start + _PAGE]
        pieces += call(lambda engine, page=page: stored_pieces.told(engine, branch, page))  # type: ignore[misc]  # bound
    found = tuple(msgspec.structs.replace(each, at_work=has(each.piece)) for each in pieces)
    return msgspec.structs.replace(opening, pieces=found, left_out=len(docs) - len(shown))
