"""Open spaces that can be asked at once, in this process and in others."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import headwater as hw
from headwater.inspect.envelope import WAIT_MS
from headwater.inspect.function_records import OpeningView
from headwater.inspect.names import InspectScope
from headwater.inspect.request import Question
from headwater.inspect.socket_client import SocketInspector
from headwater.inspect.sockets import FileSocket, socket_registry

V = TypeVar("V", bound=OpeningView)

SAFETY_S = 120
"""No test waits this long unless it fails."""

BEGINNING = """
import sys
import headwater as hw
from headwater.inspect import sockets

sockets.GRACE_S = 0

def ready(*words):
    # When there is a door, and whoever reads this can go on.
    for each in list(sockets.socket_registry().sockets.values()):
        assert each.tried.wait(120)
    # In one write: what a handler prints in another thread comes before or after it, never in the middle.
    print(" ".join(words or ["ready"]) + "\\n", end="", flush=True)
"""
"""Of every program below."""

SHOP = (
    BEGINNING
    + """
app = hw.App("shop")
prices = app.cell("prices", [2, 5])
tax = app.cell("tax", 10)

@app.computed
def gross(item: int) -> float:
    return prices.value[item] * (100 + tax.value) / 100

@app.computed
def total() -> float:
    return sum(gross(item) for item in range(len(prices.value)))

@app.computed
def unused() -> int:
    return tax.value

@app.sink
def receipt() -> None:
    total()
"""
)
"""An app with most of what there is to see."""

STAYING = (
    SHOP
    + """
with app.open(sys.argv[1]):
    ready()
    for line in sys.stdin:
        tax.value = int(line)
        ready("done")
"""
)
"""Open until its input ends; each number that it reads becomes the tax."""

BRIEF = SHOP + "\nwith app.open(sys.argv[1]):\n    tax.value = 20\n"


def socket_ready(file: Path | str) -> FileSocket:
    """Of a space that is open here, when it was tried to make one."""
    door = socket_registry().sockets[str(Path(file).resolve())]
    assert door.tried.wait(SAFETY_S)
    return door


def call(file: Path | str, scope: InspectScope | None = None, wait_ms: int = WAIT_MS) -> SocketInspector:
    """The process that has the file open."""
    inspector = SocketInspector.connect(str(Path(file).resolve()), scope, wait_ms)
    assert inspector is not None, f"no process has a socket for {file}"
    return inspector


@contextmanager
def running(program: str, *args: Path | str) -> Iterator[subprocess.Popen[str]]:
    """Another process, after it has said that it is ready. It is killed in the end, if it has not ended."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", program, *map(str, args)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            hear(process, "ready")
            yield process
        finally:
            process.kill()


def hear(process: subprocess.Popen[str], word: str) -> None:
    """It says that."""
    assert process.stdout is not None
    heard = process.stdout.readline().strip()
    if heard != word:
        process.kill()
        raise AssertionError(f"{heard!r} instead of {word!r}\n{process.communicate()[1]}")


def tell(process: subprocess.Popen[str], number: int) -> None:
    """Let it write, and wait until it has."""
    assert process.stdin is not None
    process.stdin.write(f"{number}\n")
    process.stdin.flush()
    hear(process, "done")


def end(process: subprocess.Popen[str]) -> None:
    """Let it come to its end."""
    _, errors = process.communicate(timeout=SAFETY_S)
    assert (process.returncode, errors) == (0, "")


def call_when_ready(file: Path, scope: InspectScope | None = None, wait_ms: int = WAIT_MS) -> SocketInspector:
    socket_ready(file)
    return call(file, scope, wait_ms)


def ask_one(file: Path, question: Question[tuple[V, ...]], wait_ms: int = WAIT_MS) -> V:
    """The view of the only opening."""
    with call(file, wait_ms=wait_ms) as inspector:
        [view] = inspector.ask(question)
    return view


class Counter:
    """A small app."""

    def __init__(self, name: str = "counter") -> None:
        self.app = hw.App(name)
        self.count = self.app.cell("count", 0)
        self.shown: list[int] = []

        @self.app.computed
        def doubled() -> int:
            return self.count.value * 2

        @self.app.sink
        def show() -> None:
            self.shown.append(doubled())

        self.doubled = doubled
