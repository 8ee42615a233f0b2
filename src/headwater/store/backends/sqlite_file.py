"""Opening a SQLite file safely: lock, format, checks before the first write, and SQLite's errors in our words.

Write-ahead log, `synchronous=full` and exclusive locking: in every crash image of a disk this combination loses no
acknowledged commit. Exclusive locking also means one connection, so the index of the log is in memory.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, TypeAlias

import apsw

from headwater.errors import (
    CorruptError,
    HeadwaterError,
    InvariantError,
    MigrationError,
    NotFoundError,
    PoisonedError,
    SpaceHeldError,
    StoreError,
    StoreFullError,
    UnavailableError,
    UnsafeLibraryError,
)
from headwater.machine import machine
from headwater.store.backends import sqlite_schema
from headwater.store.backends.checksums import sum_of
from headwater.store.backends.sqlite_schema import check_schema
from headwater.store.backends.sqlite_tables import keep_plans
from headwater.store.backends.sqlite_wal import lost_transactions, make_durable
from headwater.store.features import check_known
from headwater.values.space_ids import space_id_from

with suppress(ImportError):  # not every system has it
    import fcntl

Durability: TypeAlias = Literal["full", "normal"]
"""`full`: a commit is on disk before it is confirmed. `normal`: a power cut may lose the newest, never half of one."""

APPLICATION_ID: Final = 0x48445752
"""The letters HDWR in the file's header, by which `file` and other tools recognize a space."""

MODE: Final = 0o600
"""Permissions of a space's file: only this user. A server gives access to others."""

FORMAT: Final = 5
"""Raised when the tables change; every later version opens every earlier format."""

SQLITE_SAFE: Final = (3, 51, 3)
"""Before it, resetting the write-ahead log could corrupt the database."""

CHECKPOINT_PAGES: Final = 4000
"""16 MB of log before pages move to the main file: each hot page is then written once for many commits."""

_COPY_PAGES: Final = 256
"""A megabyte between two calls of the progress function."""

_FORMAT_AT: Final = 60
"""The place of `user_version` in a file: section 1.3 of SQLite's file format."""

# The lock bytes of SQLite's file format: one gigabyte in, then one reserved byte, then the shared range.
_LOCK_START: Final = 0x40000000
_LOCK_LENGTH: Final = 512


def check_library() -> None:
    """Raise UnsafeLibraryError if the SQLite of this process may lose data."""
    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    if version < SQLITE_SAFE:
        message = (
            f"SQLite {apsw.sqlite_lib_version()} can corrupt a write-ahead log when it is reset; "
            f"install apsw {'.'.join(map(str, SQLITE_SAFE))} or newer"
        )
        raise UnsafeLibraryError(message, version=version)


def save_memory() -> None:
    """For a process that opens very many files, before it opens the first one: no memory is reserved per connection.

    SQLite reserves 48 KiB for small allocations. Without it, commits take 2 % longer. Has no effect while a connection
    is open.
    """
    if apsw.connections():
        return
    apsw.shutdown()
    apsw.config(apsw.SQLITE_CONFIG_LOOKASIDE, 0, 0)
    apsw.initialize()


def connect(path: str, *, durability: Durability, vfs: str | None, create: bool = True) -> apsw.Connection:
    """The one connection to a space's file. Without `create` neither the file nor the tables in it are made.

    A file of an earlier format is brought to this one. Nothing is written to a file that is refused.
    """
    check_library()
    if create and vfs == machine().files.vfs:  # another VFS of a test need not have files
        make_private(path)
    try:
        flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
        db = apsw.Connection(path, flags=flags, vfs=vfs)
        try:
            _once(db, "pragma locking_mode = exclusive")
            # Before anything is written: a foreign file stays unchanged.
            fresh = _is_fresh(db, path)
            if not fresh:
                found = _once(db, "pragma user_version").get
                _inspect(db, path, vfs, max(int(str(found)), 1))
            if fresh and not create:
                message = f"{path} holds no space; if it should, its newest part (-wal) is missing: restore a backup"
                raise NotFoundError(message, path=path)
            _configure(db, path, durability)
            make_durable(db, path, vfs)
            db.create_scalar_function(sqlite_schema.SUM, sum_of, deterministic=True)
            db.create_scalar_function(sqlite_schema.NEW_ID, _new_id, numargs=1)
            if fresh:
                _make(db)
            else:
                _migrate(db)
            _move_format_to_file(db)
            # Pages that only the opening needed: 200 KiB of a new file.
            db.release_memory()
        except BaseException:
            abandon(db, path)
            raise
    except apsw.Error as error:
        raise explain(error, path) from error
    except UnicodeDecodeError as error:
        message = f"{path} is damaged: a text in it is not UTF-8 ({error}); restore a backup"
        raise CorruptError(message, path=path, found=str(error)) from error
    return db


def _new_id(*random: apsw.SQLiteValue) -> str:
    """The function that makes the id of a new space, in SQL."""
    [found] = random
    assert isinstance(found, bytes)
    return space_id_from(found)


def _once(db: apsw.Connection, statements: str) -> apsw.Cursor:
    """Execute statements of the opening. They are not kept prepared: those of a new file take 250 KiB."""
    return db.execute(statements, can_cache=False)


def make_private(path: str) -> None:
    """Create an empty file that only this user can access: with SQLite, all users could read it.

    Other files of SQLite beside it get the same permissions. Errors are ignored, because SQLite reports them, too.
    """
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW
    with suppress(OSError), machine().files.open(path, flags, MODE) as file:
        file.set_mode(MODE)  # independent of the umask of this process


def abandon(db: apsw.Connection, path: str) -> None:
    """Close a refused file without a checkpoint: its write-ahead log stays unchanged."""
    log, files = f"{path}-wal", machine().files
    # An empty log was made by this opening.
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(files.is_file(log) and files.stat(log).st_size > 0))
    db.close()


def _configure(db: apsw.Connection, path: str, durability: Durability) -> None:
    # Compared with the result: SQLite returns the old mode if it could not change it.
    mode = _once(db, "pragma journal_mode = wal").fetchall()
    if mode != [("wal",)]:
        message = f"{path} cannot use a write-ahead log (SQLite kept {mode}); is it on a network file system?"
        raise UnavailableError(message, path=path)
    _once(db, f"pragma synchronous = {durability}")
    _once(db, "pragma mmap_size = 0")
    _once(db, "pragma foreign_keys = on")
    # The undo data of a savepoint fits into memory: commits are small.
    _once(db, "pragma temp_store = memory")
    _once(db, "pragma trusted_schema = off")
    _once(db, "pragma cell_size_check = on")
    keep_plans(db)
    # Checkpoints are our own step (see `SqliteBackend._write`): an automatic one that fails would report the commit
    # before it, which is durable by then, as failed.
    _once(db, "pragma wal_autocheckpoint = 0")
    # Takes the lock now, not at the first write: a second opening fails at once.
    _once(db, "begin immediate; commit")


def _is_fresh(db: apsw.Connection, path: str) -> bool:
    """Whether the file is empty. Raises MigrationError if it is not a space of a known format."""
    application, version = _once(db, "pragma application_id").get, _once(db, "pragma user_version").get
    if not application and not _once(db, "select count(*) from sqlite_schema").get:
        return True
    if application != APPLICATION_ID:
        message = f"{path} is a SQLite database, but not a Headwater space; choose another file"
        raise MigrationError(message, path=path)
    if not isinstance(version, int) or version > FORMAT:
        message = f"{path} has format {version}, this Headwater reads up to {FORMAT}; install a newer Headwater"
        raise MigrationError(message, path=path, found=version, known=FORMAT)
    return False


def _make(db: apsw.Connection) -> None:
    """Create the tables of a new space."""
    marks = f"pragma application_id = {APPLICATION_ID}; pragma user_version = {FORMAT}"
    _once(db, f"begin immediate; {sqlite_schema.statements(FORMAT)} {marks}; commit")


def _migrate(db: apsw.Connection) -> None:
    """Migrate format by format in one transaction: after a crash the old format is migrated again."""
    found = _once(db, "pragma user_version").get
    if isinstance(found, int) and found < FORMAT:
        steps = " ".join(sqlite_schema.MIGRATIONS[number] for number in range(max(found, 1), FORMAT))
        _once(db, f"begin immediate; {steps} pragma user_version = {FORMAT}; commit")


def _move_format_to_file(db: apsw.Connection) -> None:
    """Move the tables of this format from the write-ahead log to the main file, before anything else is committed.

    A file without them was never complete, or is of a format that does not record whether holes in its log are
    expected: commits after a damaged migration would be lost in silence. After a kill, this opening completes it.
    """
    _, found = db.read("main", 0, _FORMAT_AT, 4)
    if int.from_bytes(found, "big") != FORMAT:
        _once(db, "pragma wal_checkpoint(truncate)").fetchall()


def explain(error: apsw.Error, path: str) -> HeadwaterError:  # noqa: PLR0911  # one line per kind of error
    """SQLite's error in our words. A PoisonedError means that the connection must not be used again."""
    match error:
        case apsw.BusyError():
            return held(path)
        case apsw.FullError():
            message = (
                f"no room to write {path}: the disk is full; the last writes are not stored, and reads still work. "
                "Make room"
            )
            return StoreFullError(message, path=path)
        case apsw.CorruptError() | apsw.NotADBError() | apsw.SQLError() if _is_damage(error):
            message = f"{path} is damaged: {error}; run `headwater verify`, then restore a backup"
            if isinstance(error, apsw.NotADBError):
                message = (
                    f"{path} is not a space at all, or damaged at its very beginning: restore a backup if it was one"
                )
            return CorruptError(message, path=path, found=str(error))
        case apsw.CantOpenError():
            return _cannot_open(path)
        case apsw.ReadOnlyError():
            message = f"cannot write {path}: the file or its folder is read-only"
            return UnavailableError(message, path=path)
        case apsw.ConnectionClosedError():
            return UnavailableError(f"{path} was closed", path=path)
        case apsw.IOError() if machine().files.exists(path) and not machine().files.can_write(path):
            return UnavailableError(f"cannot write {path}: the file is read-only", path=path)
        case apsw.IOError():
            is_read = getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_READ
            message = (
                f"the disk failed while {'reading' if is_read else 'writing'} {path} ({error}); its content is unknown "
                "now, so this opening is over; every confirmed commit was on disk before; check the disk, then open "
                "the space again"
            )
            return PoisonedError(message, path=path, found=str(error))
        case _:
            return InvariantError(f"SQLite refused what we asked of {path}: {error}", path=path, found=str(error))


def _is_damage(error: apsw.Error) -> bool:
    """Whether the error means damage: our statements are fixed, so a missing table existed when the file was made."""
    return not isinstance(error, apsw.SQLError) or "no such table" in str(error) or "no such column" in str(error)


def _cannot_open(path: str) -> StoreError | NotFoundError:
    folder = Path(path).parent
    if not machine().files.is_dir(folder):
        return NotFoundError(f"cannot open {path}: there is no folder {folder}; make it first", path=path)
    return UnavailableError(f"cannot open {path}: is it a file, and may this user write {folder}?", path=path)


def held(path: str) -> SpaceHeldError:
    """The error that names the process holding a space's file."""
    pid = holder(path)
    who = "another process" if pid is None else f"process {pid} ({_command(pid)})"
    message = (
        f"{path} is open in {who}; one process at a time owns a space: close it there first; or, for several processes "
        "at once, have a server own it: `headwater serve --store FOLDER`, and open ws://HOST:PORT/SPACE in each of them"
    )
    return SpaceHeldError(message, path=path, pid=pid)


def holder(path: str) -> int | None:
    """The process that holds SQLite's lock. Never for a file that this process has open: closing drops its locks."""
    if sys.platform != "linux":
        return None  # the record below has the layout of Linux
    layout = "hhqqi4x"
    question = struct.pack(layout, fcntl.F_WRLCK, os.SEEK_SET, _LOCK_START, _LOCK_LENGTH, 0)
    try:
        with Path(path).open("r+b") as file:
            answer = fcntl.fcntl(file, fcntl.F_GETLK, question)
    except OSError:
        return None
    kind, _, _, _, pid = struct.unpack(layout, answer)
    return int(pid) if kind != fcntl.F_UNLCK and pid > 0 else None


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return "its command is not known"
    return b" ".join(words).decode(errors="replace").strip()[:200]


def copying(db: apsw.Connection, path: str) -> Generator[tuple[int, int], None, None]:
    """Copy an open database to a new file in steps: yields the pages done and the total.

    Writes of this connection in between are included: the copy is as of the last step.
    """
    target = apsw.Connection(path, vfs=machine().files.vfs)
    try:
        with target.backup("main", db, "main") as backup:
            while not backup.done:
                backup.step(_COPY_PAGES)
                yield backup.page_count - backup.remaining, backup.page_count
    finally:
        target.close()


_FIRST_WITH_FACTS = 4
"""The first format whose files contain their features and durability."""


def _inspect(db: apsw.Connection, path: str, vfs: str | None, version: int) -> None:
    """Raise CorruptError or MigrationError if the file of this format must not be opened."""
    check_schema(db, path, version)
    if version < _FIRST_WITH_FACTS:
        return
    check_known(_fact(db, path, "features"), path)
    lost = lost_transactions(db, path, vfs)
    # Without a sync for each commit, a power cut may lose earlier ones and keep later ones: that is expected.
    if lost is None or _fact(db, path, "durability") != "full":
        return
    count = (
        "1 transaction after that was"
        if lost.transactions == 1
        else f"{lost.transactions} transactions after that were"
    )
    way_out = (
        "; the file itself has a part of it. Restore a backup"
        if lost.is_copied
        else ". Restore a backup; or, to open the space without that, keep a copy of both files, and cut the log: "
        f"`truncate -s {lost.offset} {path}-wal`"
    )
    message = f"{path}-wal is damaged at byte {lost.offset:,}: {count} committed, and cannot be read{way_out}"
    raise CorruptError(message, path=path, transactions=lost.transactions, offset=lost.offset)


def _fact(db: apsw.Connection, path: str, key: str) -> str:
    found = db.execute("select value, sum from meta where key = ?", (key,), can_cache=False).fetchall()
    if not found or sum_of(key, found[0][0]) != found[0][1]:
        message = f"{path} is damaged: the space's {key} does not match its checksum; restore a backup"
        raise CorruptError(message, path=path, found=key)
    return str(found[0][0])
