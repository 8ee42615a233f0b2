"""Finds the spaces that links name, by their ids: in a folder, or where a function of the author says.

Found files are opened for reading, at most 64 at a time; the least recently used is closed first.
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Final

from headwater.cells.context import CONTEXT
from headwater.errors import HeadwaterError, LimitError, NotFoundError, SpaceHeldError, SpaceNotOpenError
from headwater.host.read_only_space import ReadOnlyFile, ReadOnlySpace
from headwater.host.space_files import is_open_here, locate, spaces_in
from headwater.machine import machine
from headwater.runtime.options import Where
from headwater.store.backends.sqlite_peek import peek
from headwater.store.space_identity import ID_KEY
from headwater.values.ids import SpaceId
from headwater.values.space_ids import is_space_id, stored_space_id
from headwater.values.text import listed_text

OPEN_MAX: Final = 64
"""Spaces that are open for reading at a time. Each has documents in memory, and for moments an open file."""

_NAMED_MAX: Final = 4
"""Copies that a message names."""


class SpaceResolver:
    """The spaces that links of one opening have led to."""

    def __init__(self, where: Where, actor: str | None) -> None:
        self._where = where
        self._actor = actor
        self._lock = machine().rlock()
        # The least recently used first.
        self._open: OrderedDict[SpaceId, ReadOnlySpace] = OrderedDict()
        # What a file was found to hold, by its path, while the file is unchanged.
        self._seen: dict[Path, tuple[tuple[int, ...], str]] = {}
        # The transaction that reads, and the spaces that it has read.
        self._reading: tuple[object, set[SpaceId]] = (None, set())

    def find(self, space_id: SpaceId) -> ReadOnlySpace | None:
        """The space; None if it is not found.

        Raises LimitError if one transaction reads too many, and SpaceNotOpenError if several files have this id.
        """
        with self._lock:
            self._count(space_id)
            known = self._open.get(space_id)
            if known is not None and (known.file.is_changed()):
                self._close(space_id)
                known = None
            if known is None:
                known = self._opened(space_id)
                if known is None:
                    return None
                self._open[space_id] = known
                while len(self._open) > OPEN_MAX:
                    self._close(next(iter(self._open)))
            self._open.move_to_end(space_id)
            return known

    def close(self) -> None:
        """Close all of them."""
        with self._lock:
            for space_id in list(self._open):
                self._close(space_id)

    def _count(self, space_id: SpaceId) -> None:
        frame = CONTEXT.get()
        tx = None if frame is None else frame.tx
        if tx is None:
            return
        if self._reading[0] is not tx:
            self._reading = (tx, set())
        read = self._reading[1]
        if space_id not in read and len(read) >= OPEN_MAX:
            message = (
                f"one transaction follows links into more than {OPEN_MAX} spaces that are not open. Keep what is shown "
                "together, such as names, in the space of the links, or open these spaces in the program"
            )
            raise LimitError(message, spaces=OPEN_MAX)
        read.add(space_id)

    def _opened(self, space_id: SpaceId) -> ReadOnlySpace | None:
        url = self._url(space_id)
        if url is None:
            return None
        try:
            path = locate(url).path
            if path is None or is_open_here(path):
                return None
            made = ReadOnlySpace(ReadOnlyFile(path), self._actor)
        except (NotFoundError, SpaceHeldError):
            return None
        if made.space_id == space_id:
            return made
        _end(made)
        return None

    def _url(self, space_id: SpaceId) -> str | None:
        if callable(self._where):
            found = self._where(space_id)
            return None if found is None else str(found)
        paths = [path for path in spaces_in(Path(self._where)) if self._id_in(path) == space_id]
        if len(paths) > 1:
            # Either could be the copy.
            message = (
                f"{listed_text([str(path) for path in paths], _NAMED_MAX)} all have the id {space_id}: all but one are "
                "copies. `headwater spaces new-id FILE` makes a copy a space of its own; or move it to another folder"
            )
            raise SpaceNotOpenError(message, space=space_id)
        return str(paths[0]) if paths else None

    def _id_in(self, path: Path) -> str:
        """The id of the space in a file; empty if it is none, or is open in this program."""
        files = machine().files
        try:
            found = files.stat(path)
        except OSError:
            return ""
        stamp = (found.st_ino, found.st_size, found.st_mtime_ns)
        known = self._seen.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        if is_open_here(path):
            return ""
        facts = peek(files.resolve(path), files.vfs) or {}
        try:
            made = str(stored_space_id(facts.get(ID_KEY, "")))
        except HeadwaterError:
            made = ""
        self._seen[path] = (stamp, made)
        return made if is_space_id(made) else ""

    def _close(self, space_id: SpaceId) -> None:
        _end(self._open.pop(space_id))


def _end(space: ReadOnlySpace) -> None:
    space.closed = True
    space.file.release()
