"""The entry of a journal."""

from __future__ import annotations

import msgspec

from headwater.cells.pending_commit import Mark
from headwater.values.address import Depth
from headwater.values.ids import DocKey
from headwater.values.tree import Path


class Entry(msgspec.Struct, frozen=True):
    """One entry of the journal."""

    doc: DocKey
    path: Path
    depth: Depth = Depth.DEEP
    flags: int = 0
    mark: Mark | None = None
