"""From a URL to an open space: where data lives is a URL, never a code change.

`x.db` is one space in one file, `folder/` many spaces with a file each, `postgresql://` a database with many spaces,
`memory:` a space that ends with the process.
In a folder the file's name is made from the space's name so that no name can lead outside, and no two names, not even
two that differ only in case, share a file.

Length: opening, sharing, reading and closing files change one state of the process.
"""

from __future__ import annotations

import atexit
import os
import re
import tomllib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Final, cast, get_args
from weakref import WeakSet

from headwater.errors import CorruptError, HeadwaterError, NotFoundError, SpaceHeldError, UsageError
from headwater.host.deciding_threads import DecidingThreads
from headwater.host.postgres import database_opening, owners
from headwater.host.postgres.database_url import DatabaseUrl, is_database, parse_database_url
from headwater.host.socket_paths import place_in_own_folder
from headwater.host.storage import Storage
from headwater.host.system_clock import SystemClock
from headwater.machine import Lock, machine
from headwater.runtime.lease import Lease
from headwater.runtime.space_twins import forget, forget_all, register
from headwater.store.backend import Backend
from headwater.store.backends.memory_backend import MemoryBackend
from headwater.store.backends.sqlite import SqliteBackend
from headwater.store.backends.sqlite_file import Durability
from headwater.values.space_names import check_space_name

DEFAULT_SPACE: Final = "main"
_SPACE_BYTES_MIN: Final = 512
"""The smallest page of a SQLite file."""
READ_HOLD_S: Final = 1.0
"""How long a file may be held by a program that only reads it for a link. A program that opens it waits for that."""
_READ_LOOK_S: Final = 0.02
_SERVER: Final = ("ws:", "wss:")


@dataclass(slots=True, eq=False)
class _Share:
    """One file of this process. Opening and closing exclude each other: a new opening waits for the close."""

    turn: Lock = field(default_factory=lambda: machine().lock())
    # The number of openings, waiting ones included.
    count: int = 0
    storage: Storage | None = None
    durability: Durability = "full"


class _OpenFiles:
    """State of the process."""

    def __init__(self) -> None:
        # Open files by their real path. A second opening must not even touch them: closing any handle of a file drops
        # all locks of the process on it.
        self.held: dict[str, str] = {}
        # Those of them that are open for a moment, to be read for a link, and how they are closed.
        self.readers: dict[str, Callable[[], None]] = {}
        self.held_lock = machine().lock()
        # Spaces that are shared within this process, by their real path.
        self.shared: dict[str, _Share] = {}
        self.sharing = machine().lock()
        # Closed when the program ends: a program that forgets to close does not lose its last commits.
        self.storages: WeakSet[Storage] = WeakSet()


def _state() -> _OpenFiles:
    return machine().state(_OpenFiles)


@dataclass(frozen=True, slots=True)
class Location:
    """Where a space is. No path and no database: in memory."""

    space: str
    path: Path | None
    database: DatabaseUrl | None = None

    @property
    def key(self) -> str | None:
        """Names the space within this process, and its local socket on this machine; None: in memory."""
        if self.database is not None:
            return place_in_own_folder(f"{self.database.key}#{self.space}")
        return None if self.path is None else machine().files.resolve(self.path)


def default_url() -> str:
    """The default URL: HEADWATER_URL, headwater.toml, the only *.db here; otherwise an error asks for one."""
    if url := os.environ.get("HEADWATER_URL"):
        return url
    settings = Path("headwater.toml")
    files = machine().files
    if files.is_file(settings):
        try:
            url = tomllib.loads(files.read(settings).decode()).get("url")
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            message = f"cannot read headwater.toml: {error}"
            raise UsageError(message) from None
        if isinstance(url, str) and url:
            return url
    found = [Path(name) for name in _names(Path()) if name.endswith(".db")]
    if len(found) == 1:
        return str(found[0])
    names = ", ".join(map(str, found[:5])) or "none"
    message = (
        f"which space? There are several *.db files here ({names})" if found else "which space? There is no *.db here"
    )
    raise UsageError(f"{message}; name one with --url FILE.db, or set HEADWATER_URL", found=tuple(map(str, found)))


def locate(url: str, space: str | None = None) -> Location:
    """The file that a URL and a space's name refer to."""
    if not isinstance(cast("object", url), str):
        message = f"{url!r} is not a URL: the text FILE.db, FOLDER/, memory: or ws://HOST:PORT/SPACE is expected"
        raise UsageError(message, url=url)
    if url == "memory:":
        return Location(check_space_name(DEFAULT_SPACE if space is None else space), None)
    if url.startswith(_SERVER):
        message = (
            f"{url} is a server's, and this needs the file itself. Programs open servers with app.open(...); all "
            "commands do but diff, export, import, fork, merge, verify, compact, restore and run"
        )
        raise UsageError(message, url=url)
    if is_database(url):
        database = parse_database_url(url)
        if space is not None and database.space not in {None, space}:
            raise UsageError(f"{database.shown} names the space {database.space!r}, not {space!r}; leave one out")
        return Location(check_space_name(space or database.space or DEFAULT_SPACE), None, database)
    if not url or "\0" in url or "://" in url:
        message = (
            f"{url!r} is not a URL: FILE.db, FOLDER/, memory:, postgresql://HOST/DATABASE or ws://HOST:PORT/SPACE is "
            "expected"
        )
        raise UsageError(message, url=url)
    path, files = Path(url), machine().files
    if url.endswith(("/", os.sep)) or files.is_dir(path):
        name = check_space_name(DEFAULT_SPACE if space is None else space)
        main = path / file_name(name)
        if space is None and not files.exists(main) and len(found := spaces_in(path)) == 1:
            # No name is given, and there is only one. The file contains its own name.
            return Location(name, found[0])
        return Location(name, main)
    return Location(check_space_name((path.stem or DEFAULT_SPACE) if space is None else space), path)


def file_name(space: str) -> str:
    """A readable name, unique on every file system, whatever its rules for case, dots and reserved words."""
    slug = re.sub(r"[^a-z0-9]+", "-", space.lower()).strip("-")[:40] or "space"
    return f"{slug}-{sha256(space.encode()).hexdigest()[:10]}.db"


def spaces_in(folder: Path) -> list[Path]:
    """The files of a folder that may be spaces, in order."""
    files = machine().files
    paths = [folder / name for name in _names(folder) if name.endswith(".db")]
    return [path for path in paths if files.is_file(path) and not files.is_symlink(path)]


def _names(folder: Path) -> list[str]:
    try:
        return machine().files.names(folder)
    except OSError:
        return []


def files_of(space: Path) -> list[Path]:
    """The file of a space, and the existing files that SQLite keeps beside it."""
    beside = (space.with_name(space.name + side) for side in ("-wal", "-shm", "-journal"))
    return [space, *(path for path in beside if machine().files.exists(path))]


def open_space(
    url: str,
    space: str | None = None,
    *,
    create: bool = True,
    durability: Durability = "full",
    group_max: int | None = None,
    threads: DecidingThreads | None = None,
) -> Storage:
    """Open a space for this process. Raises SpaceHeldError, naming the process, if another has it.

    With `threads`, the storage has no thread of its own.
    """
    location, files = locate(url, space), machine().files
    if durability not in get_args(Durability):
        # It would go into a pragma, and SQLite reads an unknown word as a weaker level.
        known = " or ".join(map(repr, get_args(Durability)))
        raise UsageError(f"durability={durability!r} is not known: {known} is expected", durability=durability)
    if location.database is not None:
        return _open_database(location, durability, group_max, threads, create=create)
    if location.path is None:
        return _storage(MemoryBackend(), location.space, group_max, None)
    path = location.path
    if not create and not files.exists(path):
        message = f"there is no space {location.space!r} at {url} (looked for {path})"
        raise NotFoundError(message, url=url, path=str(path))
    if not create and files.is_file(path) and (size := files.stat(path).st_size) < _SPACE_BYTES_MIN:
        # SQLite would treat it as a new database, and overwrite it.
        message = f"{path} has {size} bytes: there is no space in it; if there was one, restore a backup"
        raise NotFoundError(message, url=url, path=str(path))
    if files.is_symlink(path):
        message = f"{path} is a symbolic link; name the file itself"
        raise UsageError(message, path=str(path))
    if url.endswith(("/", os.sep)) and create:
        files.make_folders(path.parent, 0o700)
    real = files.resolve(path)
    state = _state()
    state.readers.get(real, _nothing)()
    _hold(real, location.space, str(path))
    try:
        backend = _backend(path, durability, create=create)
        storage = _storage(backend, location.space, group_max, real, threads)
        if space is not None and storage.name != space:
            storage.close()
            message = (
                f"{path} holds the space {storage.name!r}, not {space!r}; leave out the name, or name another file"
            )
            raise NotFoundError(message, path=str(path), found=storage.name)
        return storage
    except BaseException:
        _release(real)
        raise


def _hold(real: str, space: str, shown: str) -> None:
    """Note that this process has a space open. Raises SpaceHeldError if it has it already."""
    state = _state()
    with state.held_lock:
        holding = next((held for held in state.held if _is_same_file(held, real)), None)
        if holding is not None:
            message = (
                f"{shown} is open in this process ({machine().process_id()}) already, as space "
                f"{state.held[holding]!r}; attach another replica to that one instead"
            )
            raise SpaceHeldError(message, path=shown, pid=machine().process_id())
        state.held[real] = space


def _open_database(
    location: Location, durability: Durability, group_max: int | None, threads: DecidingThreads | None, *, create: bool
) -> Storage:
    """Become the owner of a space of a database."""
    database, key = location.database, location.key
    assert database is not None
    assert key is not None
    _hold(key, location.space, database.shown)
    try:
        backend = database_opening.open_owned(
            database, location.space, is_relaxed=durability == "normal", create=create
        )
        return _storage(backend, location.space, group_max, key, threads)
    except BaseException:
        _release(key)
        raise


def open_for_questions(url: str, space: str | None) -> Storage | None:
    """A space of a database as it is now, also if it is open elsewhere; None for a file."""
    location = locate(url, space)
    if location.database is None:
        return None
    backend = database_opening.open_reader(location.database, location.space)
    return Storage(backend, SystemClock(), machine(), name=backend.meta("space") or location.space)


def _backend(path: Path, durability: Durability, *, create: bool) -> SqliteBackend:
    """The file, opened. If another program reads it for a moment, that is waited for."""
    deadline = machine().monotonic() + 2 * READ_HOLD_S
    while True:
        try:
            return SqliteBackend(str(path), durability=durability, vfs=machine().files.vfs, create=create)
        except SpaceHeldError as error:
            if machine().monotonic() > deadline or not _is_read_by(path, error.facts.get("pid")):
                raise
        machine().sleep(_READ_LOOK_S)


def open_for_reading(path: Path, release: Callable[[], None]) -> Storage:
    """Open the file of a space for a moment, at most READ_HOLD_S. `release` closes it: this program wants to open it.

    The mark beside the file tells other programs to wait for that.
    """
    files, real = machine().files, machine().files.resolve(path)
    mark = _mark(path)
    with suppress(OSError), files.open(mark, os.O_CREAT | os.O_WRONLY | os.O_TRUNC) as file:
        file.write(str(machine().process_id()).encode())
    try:
        storage = open_space(str(path), create=False)
    except BaseException:
        with suppress(OSError):
            files.remove(mark)
        raise
    _state().readers[real] = release
    return storage


def is_open_here(path: Path) -> bool:
    """Whether this program has the file open, otherwise than to read it for a link."""
    state, real = _state(), machine().files.resolve(path)
    with state.held_lock:
        return real not in state.readers and any(_is_same_file(held, real) for held in state.held)


def _nothing() -> None:
    """No reader has the file open."""


def _mark(path: Path) -> Path:
    return path.with_name(f"{path.name}-reading")


def _is_read_by(path: Path, pid: object) -> bool:
    """Whether the holder of a file is a program that reads it for a moment."""
    try:
        marked = machine().files.read(_mark(path)).decode(errors="replace")
    except OSError:
        return False
    return pid is None or marked == str(pid)


def share_space(url: str, space: str | None = None, *, create: bool = True, durability: Durability = "full") -> Lease:
    """Open a space for this process, or share the existing opening: for several apps, or one app several times."""
    location = locate(url, space)
    real, shown = location.key, str(location.path if location.database is None else location.database.shown)
    if real is None:
        return Lease(open_space(url, space, durability=durability), None)
    state = _state()
    with state.sharing:
        share = state.shared.setdefault(real, _Share())
        share.count += 1
    try:
        with share.turn:
            if share.storage is None:
                share.storage = _registered(open_space(url, space, create=create, durability=durability), shown)
                share.durability = durability
            elif durability == "full" and share.durability != "full":
                message = (
                    f"{shown} is open in this process already, with durability={share.durability!r}, which is less "
                    "than is asked for now; open it with the same durability everywhere"
                )
                raise UsageError(message, path=shown, durability=share.durability)
            elif space is not None and share.storage.name != space:
                message = f"{shown} holds the space {share.storage.name!r}, not {space!r}; leave out the name"
                raise NotFoundError(message, path=shown, found=share.storage.name)
            else:
                # Earlier writes of this process are decided: the new opening sees them from the start.
                share.storage.wait()
            return Lease(share.storage, real, lambda: _leave(real))
    except BaseException:
        _leave(real)
        raise


def _registered(storage: Storage, shown: str) -> Storage:
    """The storage, if no other file that is open in this process has its id."""
    try:
        register(storage, shown, is_file=True)
    except BaseException:
        storage.close()
        raise
    return storage


def _leave(real: str) -> None:
    state = _state()
    share = state.shared.get(real)
    if share is None:
        return  # disowned
    with share.turn:
        with state.sharing:
            share.count -= 1
            if share.count:
                return
        # An opening during the close waits for its lock.
        storage, share.storage = share.storage, None
        try:
            if storage is not None:
                forget(storage)
                storage.close()
        finally:
            with state.sharing:
                if not share.count:
                    del state.shared[real]


def _is_same_file(one: str, other: str) -> bool:
    """Whether two paths are one file: the same name, a hard link, or a folder mounted twice."""
    try:
        return one == other or machine().files.is_same(one, other)
    except OSError:
        return False


def _storage(
    backend: Backend, space: str, group_max: int | None, real: str | None, threads: DecidingThreads | None = None
) -> Storage:
    try:
        name = backend.meta("space")
        if name is None:
            backend.set_meta("space", space)
        elif real is not None and Path(real).name == file_name(space) and name != space:
            message = f"{real} holds the space {name!r}, not {space!r}: the file was swapped; put the right one back"
            raise CorruptError(message, path=real, found=name)
        storage = Storage(
            backend,
            SystemClock(),
            machine(),
            name=name or space,
            group_max=group_max,
            on_close=lambda: _release(real),
            threads=threads,
        )
        _state().storages.add(storage)
        return storage
    except BaseException:
        backend.close()
        raise


def _release(real: str | None) -> None:
    if real is not None:
        state = _state()
        with state.held_lock:
            state.held.pop(real, None)
        if state.readers.pop(real, None) is not None:
            with suppress(OSError):
                machine().files.remove(_mark(Path(real)))


def use_vfs(name: str | None) -> None:
    """Open files through a VFS that was registered with SQLite from now on; None: SQLite's own.

    For tests and measurements, which register their own.
    """
    machine().files.vfs = name


def _disown_all() -> None:
    """In a forked child: disown what the parent has open. The child has no threads to decide commits."""
    state = _state()
    state.held.clear()
    state.shared.clear()
    state.readers.clear()
    forget_all()
    owners.disown_all()
    for storage in list(state.storages):
        storage.disown()


if hasattr(os, "register_at_fork"):  # not where there is no fork
    os.register_at_fork(after_in_child=_disown_all)


@atexit.register
def _close_all() -> None:
    for storage in list(_state().storages):
        with suppress(HeadwaterError):
            storage.close()
