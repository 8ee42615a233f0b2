"""The one seam to the operating system: threads, locks, time, chance, event loops, pools, ports, files, process state.

Every other module asks `machine()` for them. It returns the machine of the running context: the real one, unless `use`
has put another in its place. Threads, pools and loops that a machine starts belong to the same machine. So a simulator
runs several processes of the product inside one process of the system, each on a machine of its own.

Look the machine up when a thing is made, not when the module is imported. A lock, thread or event is then used without
this module: the seam costs nothing on the way of a write.

Imports nothing of headwater.

Length: one module, because a simulator has to replace all of it, and nothing else.
"""

from __future__ import annotations

import concurrent.futures
import errno
import os
import queue
import random
import secrets
import stat
import threading
import time
from base64 import b32encode, urlsafe_b64encode
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Executor, Future, InvalidStateError
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Protocol, Self, TypeAlias, TypeVar, cast

with suppress(ImportError):  # not every system has it
    import fcntl

if TYPE_CHECKING:
    import asyncio
    import socket
    from asyncio import AbstractEventLoop

T = TypeVar("T")
S = TypeVar("S")
P = ParamSpec("P")
StrPath: TypeAlias = str | os.PathLike[str]

WAIT_MAX: Final = threading.TIMEOUT_MAX
"""The longest timeout, in seconds, that a lock accepts."""

Empty = queue.Empty
"""Raised by `ThreadQueue.get` when the time is over."""

__all__ = [
    "WAIT_MAX",
    "CancelledError",
    "Empty",
    "Executor",
    "File",
    "Files",
    "Future",
    "InvalidStateError",
    "Lock",
    "Machine",
    "Process",
    "StrPath",
    "Thread",
    "ThreadCondition",
    "ThreadEvent",
    "ThreadQueue",
    "machine",
    "use",
]


class Lock(Protocol):
    """A lock between threads. A reentrant one can be acquired again by the thread that holds it."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...  # noqa: FBT001, FBT002  # as threading has it
    def release(self) -> None: ...
    def __enter__(self) -> bool: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class ThreadEvent(Protocol):
    """A flag that threads wait for."""

    def is_set(self) -> bool: ...
    def set(self) -> None: ...
    def clear(self) -> None: ...
    def wait(self, timeout: float | None = None) -> bool: ...


class ThreadCondition(Protocol):
    """A lock with waiting and notification."""

    def wait(self, timeout: float | None = None) -> bool: ...
    def wait_for(self, predicate: Callable[[], T], timeout: float | None = None) -> T: ...
    def notify(self, n: int = 1) -> None: ...
    def notify_all(self) -> None: ...
    def __enter__(self) -> bool: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class Thread(Protocol):
    """A daemon thread."""

    @property
    def ident(self) -> int | None: ...
    def start(self) -> None: ...
    def join(self, timeout: float | None = None) -> None: ...
    def is_alive(self) -> bool: ...


class ThreadQueue(Protocol[T]):
    """An unbounded queue. A signal handler may put into it, whatever the interrupted code holds."""

    def put(self, item: T, /) -> None: ...
    def get(self, block: bool = True, timeout: float | None = None) -> T: ...  # noqa: FBT001, FBT002  # as queue has it
    def empty(self) -> bool: ...


_ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP})


class File:
    """An open file."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read(self, size: int) -> bytes:
        """At most so many bytes, from where the last read ended; none at the end of the file."""
        return os.read(self._descriptor, size)

    def read_at(self, size: int, at: int) -> bytes:
        """At most so many bytes from a position."""
        return os.pread(self._descriptor, size, at)

    def write(self, data: bytes) -> None:
        """Every byte, or an OSError."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        """What was written is on disk when this returns."""
        os.fsync(self._descriptor)

    def stat(self) -> os.stat_result:
        return os.fstat(self._descriptor)

    def set_mode(self, mode: int) -> None:
        os.fchmod(self._descriptor, mode)

    def set_owner(self, user: int, group: int) -> None:
        os.fchown(self._descriptor, user, group)

    def try_lock(self) -> bool:
        """Lock the file until it is closed or the process ends. False: another opening of it has the lock."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def close(self, _close: Callable[[int], None] = os.close) -> None:
        # Bound early: a destructor may call this when modules are gone.
        _close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Files:
    """The file system. Everything raises OSError as the system does.

    `vfs` names the VFS through which SQLite opens its files; None: SQLite's own. A simulated file system gives both.
    """

    vfs: str | None = None

    def open(self, path: StrPath, flags: int, mode: int = 0o600) -> File:
        """`flags` as of `os.open`. A new file gets `mode`, less what the mask of the process forbids."""
        return File(os.open(path, flags, mode))

    def read(self, path: StrPath) -> bytes:
        """All of a file."""
        parts: list[bytes] = []
        with self.open(path, os.O_RDONLY) as file:
            while part := file.read(1 << 20):
                parts.append(part)
        return b"".join(parts)

    def replace(self, source: StrPath, target: StrPath) -> None:
        """Give a file another name, in the place of the file that has it."""
        os.replace(source, target)

    def unlink(self, path: StrPath) -> None:
        os.unlink(path)

    def mkdir(self, path: StrPath, mode: int = 0o777) -> None:
        os.mkdir(path, mode)

    def set_mode(self, path: StrPath, mode: int) -> None:
        os.chmod(path, mode)

    def names(self, folder: StrPath) -> list[str]:
        """The names in a folder, sorted."""
        return sorted(os.listdir(folder))

    def stat(self, path: StrPath) -> os.stat_result:
        """Of the file that a symbolic link leads to."""
        return os.stat(path)

    def lstat(self, path: StrPath) -> os.stat_result:
        """Of a symbolic link itself."""
        return os.lstat(path)

    def resolve(self, path: StrPath) -> str:
        """The absolute path without symbolic links."""
        return os.path.realpath(path)

    def can_write(self, path: StrPath) -> bool:
        """Whether the rights of this user allow it."""
        return os.access(path, os.W_OK)

    # -- in terms of those above ---------------------------------------------------------------------------

    def exists(self, path: StrPath) -> bool:
        return self._mode(self.stat, path) is not None

    def lexists(self, path: StrPath) -> bool:
        """Whether there is anything of that name that can be found, also a link that leads nowhere."""
        try:
            return self._mode(self.lstat, path) is not None
        except OSError:
            return False

    def is_file(self, path: StrPath) -> bool:
        return stat.S_ISREG(self._mode(self.stat, path) or 0)

    def is_dir(self, path: StrPath) -> bool:
        return stat.S_ISDIR(self._mode(self.stat, path) or 0)

    def is_symlink(self, path: StrPath) -> bool:
        return stat.S_ISLNK(self._mode(self.lstat, path) or 0)

    def is_same(self, path: StrPath, other: StrPath) -> bool:
        """Whether two paths lead to one file: a hard link, a folder mounted twice."""
        return os.path.samestat(self.stat(path), self.stat(other))

    def remove(self, path: StrPath) -> None:
        """Unlink a file, if there is one."""
        with suppress(FileNotFoundError):
            self.unlink(path)

    def make_folders(self, path: StrPath, mode: int = 0o777) -> None:
        """Make a folder with this mode, and those above it, unless they are there."""
        try:
            self.mkdir(path, mode)
        except FileNotFoundError:
            above = os.path.dirname(path)
            if not above or above == os.fspath(path) or self.is_dir(above):
                # The file system makes no folders there, such as /proc.
                raise
            self.make_folders(above)
            self.make_folders(path, mode)
        except OSError:
            # Also a folder that is there on a file system that cannot be written.
            if not self.is_dir(path):
                raise

    def sync_folder(self, folder: StrPath) -> None:
        """The names in a folder are on disk when this returns."""
        with self.open(folder, os.O_RDONLY) as file:
            file.sync()

    @staticmethod
    def _mode(look: Callable[[StrPath], os.stat_result], path: StrPath) -> int | None:
        """None: there is no such file, or there cannot be. As in pathlib, other errors are raised."""
        try:
            return look(path).st_mode
        except OSError as error:
            if error.errno not in _ABSENT:
                raise
        except ValueError:
            # A null byte in the path.
            pass
        return None


class Process:
    """What lives as long as one process of the product: the state that modules share between all their objects."""

    def __init__(self, started: float, make_lock: Callable[[], Lock]) -> None:
        self.started = started
        """Wall time in seconds."""
        self._make_lock = make_lock
        self._parts: dict[type[object], object] = {}
        # Reentrant: a part may ask for another one while it is made.
        self._making = make_lock()

    def forked(self) -> None:
        """This process is a copy of the one whose record this is."""
        self._making = self._make_lock()

    def state(self, kind: type[S]) -> S:
        """The only instance of `kind` in this process. It is made, without arguments, at the first call."""
        found = self._parts.get(kind)
        if found is None:
            with self._making:
                found = self._parts.get(kind)
                if found is None:
                    found = self._parts[kind] = kind()
        return cast("S", found)


class Machine:
    """The real machine. A simulated one derives from it and overrides what it simulates."""

    def __init__(self) -> None:
        self.process = Process(self.time(), self.rlock)
        self.files = Files()

    def state(self, kind: type[S]) -> S:
        """The only instance of `kind` in this process: see `Process.state`."""
        return self.process.state(kind)

    # -- threads -------------------------------------------------------------------------------------------

    def lock(self) -> Lock:
        return threading.Lock()

    def rlock(self) -> Lock:
        """A reentrant lock."""
        return threading.RLock()

    def event(self) -> ThreadEvent:
        return threading.Event()

    def condition(self) -> ThreadCondition:
        """A condition with a reentrant lock of its own."""
        return threading.Condition()

    def queue(self) -> ThreadQueue[Any]:
        return queue.SimpleQueue()

    def future(self) -> Future[Any]:
        """A result that another thread waits for."""
        return Future()

    def thread(self, target: Callable[..., object], *, name: str, args: tuple[Any, ...] = ()) -> Thread:
        """A daemon thread of this machine, to be started. It inherits no other context variable."""
        return threading.Thread(target=self._inside, args=(target, *args), name=name, daemon=True)

    def current_thread(self) -> Thread:
        return threading.current_thread()

    def is_main_thread(self) -> bool:
        """Whether this is the thread that receives signals."""
        return threading.current_thread() is threading.main_thread()

    # Asked for by every pass: without a call of Python.
    thread_id = staticmethod(threading.get_ident)
    """A number that no other thread alive has."""

    def process_id(self) -> int:
        """The number of this process."""
        return os.getpid()

    def is_process(self, pid: int) -> bool:
        """Whether a process of that number exists and belongs to this user. Numbers of ended processes are reused."""
        if pid <= 0:
            return False
        try:
            os.kill(pid, 0)
        except (OSError, OverflowError):
            return False
        return True

    def pipe(self) -> tuple[int, int]:
        """Descriptors to read and to write, with which a thread that waits for sockets is woken.

        A machine without sockets raises OSError: spaces then have no inspection socket.
        """
        return os.pipe()

    def pool(self, size: int, name: str) -> Executor:
        """At most `size` threads that execute what is submitted."""
        # Not imported by name: concurrent.futures loads its pools when they are asked for.
        return concurrent.futures.ThreadPoolExecutor(size, name, initializer=_current.set, initargs=(self,))

    def _inside(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `work` in a thread that has no machine yet."""
        _current.set(self)
        return work(*args, **kwargs)

    # -- event loops ---------------------------------------------------------------------------------------

    def new_loop(self) -> AbstractEventLoop:
        made: AbstractEventLoop = _module("asyncio").new_event_loop()
        return made

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end, in a loop of its own."""
        found: T = _module("asyncio").run(main)
        return found

    def submit(self, loop: AbstractEventLoop, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine in the loop of another thread."""
        found: Future[T] = _module("asyncio").run_coroutine_threadsafe(work, loop)
        return found

    async def to_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `work` in a thread of the loop's pool, with the context of the caller."""
        found: T = await _module("asyncio").to_thread(work, *args, **kwargs)
        return found

    def in_pool(self, loop: AbstractEventLoop, pool: Executor | None, work: Callable[[], T]) -> asyncio.Future[T]:
        """Call `work` in a thread of `pool`, by default the loop's own, without the context of the caller."""
        return loop.run_in_executor(pool, self._inside, work)

    # -- ports ---------------------------------------------------------------------------------------------

    def address_of(self, host: str, port: int) -> tuple[str, int]:
        """The IP address of a host to listen at, and its address family. Raises OSError, UnicodeError."""
        socket = _module("socket")
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        return str(address[0]), family

    def send_now(self, transport: asyncio.Transport, data: bytes) -> int:
        """Write to a connection from a thread that is not the thread of its loop. Returns how many bytes were taken.

        Does not wait. The transport must be open, with an empty buffer. If the connection is broken, all counts as
        taken: its loop notices that.
        """
        socket = transport.get_extra_info("socket")
        if socket is None or os.name != "posix" or transport.get_extra_info("sslcontext") is not None:
            return 0
        try:
            return os.write(socket.fileno(), data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            return len(data)

    def listen(self, address: str, port: int, *, family: int, backlog: int) -> socket.socket:
        """Accept connections at an IP address. Port 0: any free one. Raises OSError."""
        made: socket.socket = _module("socket").create_server((address, port), family=family, backlog=backlog)
        return made

    # -- time ----------------------------------------------------------------------------------------------

    def monotonic(self) -> float:
        """Seconds on a clock that is never set: for durations and deadlines."""
        return time.monotonic()

    def steady_ms(self) -> float:
        """The same clock in milliseconds."""
        return time.monotonic() * 1000

    def time(self) -> float:
        """Wall time: seconds since 1970, UTC."""
        return time.time()

    def now_ms(self) -> int:
        """Wall time in whole milliseconds."""
        return time.time_ns() // 1_000_000

    def local_time(self, seconds: float, form: str = "%Y-%m-%d %H:%M:%S") -> str:
        """A wall time in the time zone of this machine, in a form of `strftime`."""
        return time.strftime(form, time.localtime(seconds))

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    # -- chance --------------------------------------------------------------------------------------------

    def random(self) -> float:
        """A number from 0 up to but not including 1, to spread retries. Not for secrets."""
        return random.random()  # noqa: S311  # as it says

    def token_bytes(self, size: int) -> bytes:
        """So many bytes that cannot be guessed. All other tokens are made of them."""
        return secrets.token_bytes(size)

    def token_hex(self, size: int) -> str:
        """So many bytes that cannot be guessed, as hexadecimal digits."""
        return self.token_bytes(size).hex()

    def token_urlsafe(self, size: int) -> str:
        """So many bytes that cannot be guessed, as letters, digits, `-` and `_`."""
        return urlsafe_b64encode(self.token_bytes(size)).decode().rstrip("=")

    def token(self) -> str:
        """A name of 128 random bits, as lowercase letters and digits."""
        return b32encode(self.token_bytes(16)).decode().rstrip("=").lower()


def _module(name: str) -> Any:  # noqa: ANN401  # the module
    """Load it now: a program without coroutines, or that does not listen, need not wait for these modules."""
    return import_module(name)


_REAL: Final = Machine()

if hasattr(os, "register_at_fork"):  # not where there is no fork
    # A thread of the parent may hold the lock, and is not there in the child.
    os.register_at_fork(after_in_child=_REAL.process.forked)

_current: Final[ContextVar[Machine]] = ContextVar("headwater-machine", default=_REAL)


def machine() -> Machine:
    """The machine of this context."""
    return _current.get()


@contextmanager
def use(other: Machine) -> Iterator[Machine]:
    """Inside the block, this context and the threads it starts are on another machine."""
    token = _current.set(other)
    try:
        yield other
    finally:
        _current.reset(token)
