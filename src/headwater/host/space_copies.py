"""Copies of the file of a space: checked before they are put in place, whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

from headwater.errors import CorruptError, HeadwaterError, MigrationError, NotFoundError, SpaceHeldError, StoreError
from headwater.host.space_files import open_space
from headwater.host.storage import Storage
from headwater.host.whole_files import RefusalError, beside, put_in_place
from headwater.machine import machine
from headwater.scheduler.events.outbox import OUTBOX
from headwater.store.backends.sqlite_file import held, holder
from headwater.store.commit import PatchDoc
from headwater.store.space_identity import SpaceIdentity, renew_identity
from headwater.store.verification import verify
from headwater.values.author_text import kind_of, text_of
from headwater.values.ids import BranchId
from headwater.values.patch import Remove
from headwater.values.tree import is_map

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the amount done and the total; 0: the total is unknown."""

_CHUNK: Final = 1024 * 1024


def check_backup(part: Path, advance: Progress) -> None:
    """Verify a new backup. Raises CorruptError."""
    with open_space(str(part), create=False) as copy:
        findings = copy.call(lambda engine: verify(engine, advance)).findings
    if findings:
        message = f"the space is damaged: {findings[0]}; no backup was made (--unverified copies it as it is)"
        raise CorruptError(message, findings=tuple(findings))


def copy_space(source: Path, target: Path, advance: Progress) -> None:
    """Copy the file, and its write-ahead log, which has the newest commits after a crash."""
    files = machine().files
    if holder(str(source)) is not None:
        raise held(str(source))
    pairs = [
        (source, target),
        *((a, b) for a, b in zip(beside(source), beside(target), strict=True) if files.is_file(a)),
    ]
    total, done = sum(files.stat(path).st_size for path, _ in pairs), 0
    for path, copy in pairs:
        with path.open("rb") as reading, copy.open("wb") as writing:
            while chunk := reading.read(_CHUNK):
                writing.write(chunk)
                done += len(chunk)
                advance(done, total)


def check_restored(part: Path, file: Path, advance: Progress, prepare: Callable[[Storage], None]) -> None:
    """Verify the copy of a backup, and prepare it. Raises what prevents the restore.

    Messages name the backup, not the temporary copy.
    """
    try:
        with open_space(str(part), create=False) as storage:
            checked = storage.call(lambda engine: verify(engine, advance))
            prepare(storage)
    except HeadwaterError as error:
        message = error.message.replace(str(part), str(file))
        raise type(error)(f"nothing was restored: {message}", **error.facts) from error
    except Exception as error:
        # A damaged file can raise any error.
        message = f"nothing was restored: {file} cannot be read: {kind_of(error)} {text_of(error)}".strip()
        raise CorruptError(message, path=str(file)) from error
    if checked.findings:
        findings = "; ".join(checked.findings[:3]).replace(str(part), str(file))
        message = f"nothing was restored: {file} is damaged: {findings}"
        raise CorruptError(message, path=str(file), findings=tuple(checked.findings))


def make_new_space(storage: Storage) -> tuple[SpaceIdentity, int]:
    """Make a copy a space of its own: a new id and a new lineage, so no session continues in it.

    Entries of the outbox for other spaces are dropped first, because the original sends them. Returns how many.
    """
    dropped = 0
    for branch in storage.call(lambda engine: list(engine.documents.branches)):
        dropped += _drop_outgoing(storage, branch)
    identity = storage.call(lambda engine: renew_identity(engine.backend, machine().token_bytes))
    storage.identity = identity
    return identity, dropped


def _drop_outgoing(storage: Storage, branch: BranchId) -> int:
    replica = storage.attach(branch=branch)
    try:
        found = replica.read(OUTBOX)
        gone = [key for key, entry in found.items() if is_map(entry) and "to" in entry] if is_map(found) else []
        if gone:
            pending = replica.commit((PatchDoc(OUTBOX, tuple(Remove((key,)) for key in gone)),))
            replica.sync()
            if pending.error is not None:
                raise pending.error
        return len(gone)
    finally:
        replica.detach()


def replace_space(part: Path, target: Path) -> None:
    """Put a finished file in place of a space. No process may have the existing space open."""
    files = machine().files
    if files.is_symlink(target):
        raise RefusalError(f"{target} is a symbolic link; name the file itself")
    if files.exists(target):
        if holder(str(target)) is not None:
            raise held(str(target))
        try:
            # Opening and closing removes its write-ahead log, which SQLite would apply to the new file.
            open_space(str(target), create=False).close()
        except (SpaceHeldError, MigrationError):
            raise
        except (StoreError, NotFoundError):
            # A damaged space is replaced.
            pass
        for leftover in beside(target):
            files.remove(leftover)
    put_in_place(part, target)
