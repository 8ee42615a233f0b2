"""Pieces in a store: one document each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final, cast

from headwater.inspect.event_records import PieceReport
from headwater.store.browsing import listing, read
from headwater.store.engine import Engine
from headwater.values.address import address_text
from headwater.values.codec import to_json
from headwater.values.ids import BranchId, DocKey
from headwater.values.tree import Maybe, Value, is_map

_PIECE: Final = re.compile(r"(?P<app>.*)\+(?P<pattern>\w+):[a-z2-7]{32}")
"""The address of the document of a piece. Its cells have a longer address."""


def piece_in(address: str) -> str:
    """The piece of a stream or a document; empty if there is none."""
    found = _PIECE.match(address)
    return found[0] if found is not None and address[found.end() :][:1] == "." else ""


def pieces_in(engine: Engine, branch: BranchId, app: str = "", pattern: str = "") -> list[DocKey]:
    """The documents of all pieces, or of the pieces of an app or a pattern."""
    found: list[DocKey] = []
    for listed in listing(engine, branch, prefix=f"space/{app}+" if app else "space/"):
        called = _PIECE.fullmatch(address_text(listed.doc))
        if called is not None and pattern in ("", called["pattern"]):
            found.append(listed.doc)
    return found


def reports(engine: Engine, branch: BranchId, docs: Iterable[DocKey]) -> list[PieceReport]:
    """The pieces of these documents. Other documents with such an address are skipped."""
    found = (piece_of(address_text(doc), read(engine, doc, branch).value) for doc in docs)
    return [piece for piece in found if piece is not None]


def ordered(pieces: Iterable[PieceReport]) -> list[PieceReport]:
    """The pieces in the order of app, pattern and key."""
    return sorted(pieces, key=lambda each: (each.app, each.pattern, each.key, each.piece))


def piece_of(address: str, value: Maybe) -> PieceReport | None:
    """The piece that a document describes; None if it is another document with such an address."""
    called = _PIECE.fullmatch(address)
    if called is None or not is_map(value):
        return None
    fields = cast("Mapping[str, Value]", value)
    key, status, generation = fields.get("key"), fields.get("status"), fields.get("generation")
    if not isinstance(key, str) or not isinstance(status, str) or not isinstance(generation, int):
        return None
    return PieceReport(
        piece=address,
        app=called["app"],
        pattern=called["pattern"],
        key=key,
        status=status,
        generation=generation,
        inputs=json.dumps(to_json(fields.get("arguments")), ensure_ascii=False),
        by=str(fields.get("pattern", "")),
    )
