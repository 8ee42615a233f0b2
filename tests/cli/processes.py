"""The command as users run it: a process of its own, in a pipe or on a terminal."""

import os
import pty
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tests.support.open_spaces import SAFETY_S

COMMAND = [sys.executable, "-P", "-m", "headwater"]

_HOLD = """
import sys
from headwater.host.space_files import open_space
with open_space(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


def run(*args: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run to the end, output in pipes."""
    return subprocess.run([*COMMAND, *args], capture_output=True, check=False, env={**os.environ, **(env or {})})


def on_terminal(*command: str, columns: int = 80, env: Mapping[str, str] | None = None) -> tuple[str, int]:
    """What a terminal would be sent, stdout and stderr together, and the exit code."""
    import fcntl
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    settings = {**inherited, "TERM": "xterm-256color", **(env or {})}
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=settings)
    os.close(theirs)
    seen = b""
    try:
        while chunk := os.read(ours, 65536):
            seen += chunk
    except OSError:
        pass  # how Linux says that the other side has closed
    finally:
        os.close(ours)
    return seen.decode().replace("\r\n", "\n"), process.wait(SAFETY_S)


@contextmanager
def holding(url: str) -> Iterator[int]:
    """Another process that has a space open; its id."""
    with subprocess.Popen([sys.executable, "-c", _HOLD, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process.pid
        process.communicate(timeout=SAFETY_S)
