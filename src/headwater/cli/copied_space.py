"""A copy of a space in a new file, for backup, copy and fork: of a file, or of a server."""

from __future__ import annotations

from pathlib import Path

from headwater.cli.output import progress
from headwater.cli.target import Target
from headwater.client.backup_download import download
from headwater.errors import UsageError
from headwater.values.ids import Seq


def copied_to(part: Path, target: Target) -> tuple[Seq, str]:
    """Copy a space to a new file. Returns its newest sequence number and its name."""
    if target.server is not None:
        with progress("downloading") as advance:
            return Seq(download(target.server.url, target.server.token, part, advance)), target.server.url.space
    if target.database is not None:
        message = (
            f"{target.shown} is a database, which has no file to copy: back it up with pg_dump, or export the space "
            "with `headwater export --history`"
        )
        raise UsageError(message)
    with target.open() as storage:
        target.file_for("")  # refuses memory
        with progress("backing up") as advance:
            storage.call(lambda engine: engine.backend.backup(str(part), advance))
        return storage.call(lambda engine: engine.head), storage.name


def is_same_file(path: Path, file: Path) -> bool:
    """Whether two existing paths are one file."""
    return path.exists() and file.exists() and path.samefile(file)
