"""The spaces of a folder: name, id, lineage and size of each, also of those that a process has open."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from headwater.errors import HeadwaterError, NameRefusedError
from headwater.host.space_files import open_space, spaces_in
from headwater.machine import machine
from headwater.store.backends.sqlite_file import holder
from headwater.store.backends.sqlite_peek import peek
from headwater.store.space_identity import ID_KEY, LINEAGE_KEY
from headwater.values.ids import SpaceId
from headwater.values.space_ids import stored_space_id


class ListedSpace(NamedTuple):
    """One file of a folder. None: not known, as for a file of an earlier format that was not opened since."""

    path: Path
    name: str | None
    id: SpaceId | None
    lineage: str | None
    bytes: int
    process: int | None
    """The process that has it open."""


def listed(path: Path) -> ListedSpace:
    """The facts about one file. A file that is open elsewhere is not touched."""
    files, process = machine().files, holder(str(path))
    log = path.with_name(f"{path.name}-wal")
    size = files.stat(path).st_size
    if process is None and files.is_file(log) and files.stat(log).st_size:
        # A program ended without closing it: the newest facts are in the log.
        try:
            with open_space(str(path), create=False) as storage:
                made, lineage = storage.identity
                return ListedSpace(path, storage.name, made, lineage.hex(), size, None)
        except HeadwaterError:
            pass
    facts = peek(files.resolve(path), files.vfs) or {}
    return ListedSpace(path, facts.get("space"), _id(facts), facts.get(LINEAGE_KEY), size, process)


def list_folder(folder: Path) -> list[ListedSpace]:
    """The spaces of a folder, in the order of their files."""
    return [listed(path) for path in spaces_in(folder)]


def _id(facts: dict[str, str]) -> SpaceId | None:
    try:
        return stored_space_id(facts.get(ID_KEY, ""))
    except NameRefusedError:
        return None
