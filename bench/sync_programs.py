"""The processes of table `sync`: servers, and client programs that say when they are ready and what came of it.

Packages of npm are put into a folder of the user's cache, once for each version of bench/sync_peers.

Must never know: what is measured.
"""

from __future__ import annotations

import hashlib
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, Self

ROOT: Final = Path(__file__).resolve().parent.parent
PEERS: Final = Path(__file__).resolve().parent / "sync_peers"
PATIENCE_S: Final = 60.0
NPM_S: Final = 180.0
TERMINATE_S: Final = 5.0


def say(message: str) -> None:
    """Progress: not part of the table."""
    print(f"  sync: {message}", file=sys.stderr, flush=True)


# --- processes ----------------------------------------------------------------------------------------------------


class Process:
    """A process of the table's own. Nothing is left of it after `close`."""

    def __init__(self, command: Sequence[str], *, environment: Mapping[str, str] | None = None, log: Path) -> None:
        self.command = command
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin: IO[bytes] = self._process.stdin
        self._stdout: IO[bytes] = self._process.stdout

    def failure(self, what: str) -> RuntimeError:
        """What to raise, with the end of what it said."""
        said = self._log.read_text(errors="replace")[-2000:]
        return RuntimeError(f"{' '.join(self.command[:8])}: {what}; exit {self._process.poll()}; it said:\n{said}")

    def cpu_s(self) -> float:
        """Processor time so far, of all its threads."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss_kib(self) -> int:
        """Memory that it holds."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0])

    def threads(self) -> int:
        """Threads that it has."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition("Threads:")[2].split()[0])

    def ended(self) -> bool:
        """Whether it is no more."""
        return self._process.poll() is not None

    def close(self) -> None:
        """End it, and wait until it has."""
        self._process.terminate()
        self._stdin.close()
        try:
            self._process.wait(TERMINATE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class Program(Process):
    """A client: `ready()`, `go()`, `result()`."""

    def _line(self) -> bytes:
        found, _, _ = select.select([self._stdout], [], [], PATIENCE_S)
        line = self._stdout.readline() if found else b""
        if not line.endswith(b"\n"):
            raise self.failure(f"nothing more came in {PATIENCE_S:.0f} s" if not found else "it ended too early")
        return line

    def ready(self) -> None:
        """Wait until it is connected."""
        line = self._line()
        if line != b"ready\n":
            raise self.failure(f"it was to say that it is ready, and said {line!r}")

    def go(self) -> None:
        """Let it begin."""
        self._stdin.write(b"go\n")
        self._stdin.flush()

    def result(self) -> dict[str, Any]:
        """What it has counted."""
        found: dict[str, Any] = json.loads(self._line())
        return found


def free_port() -> int:
    """One that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def is_listening(port: int) -> bool:
    """Whether anybody does at that port."""
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


@contextmanager
def served(
    command: Sequence[str],
    port: int,
    log: Path,
    environment: Mapping[str, str] | None = None,
    *,
    is_ready: Callable[[int], bool] = is_listening,
) -> Iterator[Process]:
    """A server, from when it is ready on."""
    with Process(command, environment=environment, log=log) as server:
        until = time.monotonic() + PATIENCE_S
        while not is_ready(port):
            if server.ended() or time.monotonic() > until:
                raise server.failure(f"it is not ready at port {port}")
            time.sleep(0.02)
        yield server


# --- packages of npm ----------------------------------------------------------------------------------------------


def node_folder() -> Path | None:
    """Where Yjs and its server are, with our programs beside; None if they cannot be had, and a line that says why."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        say("node or npm is not there: rows of y-websocket are left out")
        return None
    files = sorted(each for each in PEERS.iterdir() if each.suffix in (".json", ".mjs"))
    version = hashlib.sha256(b"".join(each.read_bytes() for each in files)).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headwater-bench"
    folder = cache / f"sync-{version}"
    if (folder / "complete").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    for each in files:
        shutil.copy(each, folder)
    say("npm ci: y-websocket and yjs")
    # Scripts of packages are not needed here: what has to be compiled comes compiled.
    command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=NPM_S, text=True)
    except (OSError, subprocess.SubprocessError) as error:
        said = str(getattr(error, "stderr", "") or error).strip().splitlines()[-1:]
        say(f"npm ci has failed, rows of y-websocket are left out: {' '.join(said)}")
        return None
    (folder / "complete").touch()
    return folder
