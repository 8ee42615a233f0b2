"""The job that table `workflows` has done by each engine: a step that reads, one effect outside, a step that commits.

Each step adds a line to a file. The file stands for the world outside: what was done twice or never is counted there.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Final, NamedTuple

PREPARE: Final = "prepare"
MUTATE: Final = "mutate"
COMMIT: Final = "commit"

Data = dict[str, list[int] | str]
Result = dict[str, int]


class Line(NamedTuple):
    """That a step of a job was done."""

    number: int
    step: str
    at: float


class Numbers:
    """Of jobs, each once."""

    def __init__(self, first: int = 0) -> None:
        self._next = first

    def take(self, count: int) -> range:
        self._next += count
        return range(self._next - count, self._next)


class Ledger:
    """A file that lines are added to, each in one write: also by several processes, and by those that are killed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)

    def note(self, number: int, step: str) -> None:
        os.write(self._file, f"{number} {step} {time.perf_counter():.7f}\n".encode())

    def lines(self) -> list[Line]:
        found = [text.split() for text in self._path.read_text(encoding="ascii").splitlines()]
        return [Line(int(number), step, float(at)) for number, step, at in found]

    def has(self, number: int, step: str) -> bool:
        wanted = f"{number} {step} "
        return any(text.startswith(wanted) for text in self._path.read_text(encoding="ascii").splitlines())

    def close(self) -> None:
        os.close(self._file)


class Job:
    """The three steps. `pause_s` is how long the effect takes to be told, once it is there."""

    def __init__(self, ledger: Ledger, pause_s: float = 0.0) -> None:
        self.ledger = ledger
        self._pause_s = pause_s
        self._lock = threading.Lock()
        self._left = 0
        self._done = threading.Event()

    def prepare(self, number: int) -> Data:
        self.ledger.note(number, PREPARE)
        return {"ids": [number], "data": "x" * 100}

    def mutate(self, number: int, data: Data) -> Result:
        self.ledger.note(number, MUTATE)
        if self._pause_s:
            time.sleep(self._pause_s)
        return {"applied": number, "length": len(data["data"])}

    def commit(self, number: int, result: Result) -> int:
        self.ledger.note(number, COMMIT)
        with self._lock:
            self._left -= 1
            if not self._left:
                self._done.set()
        return result["length"]

    # -- for whoever waits ---------------------------------------------------------------------------------

    def expect(self, count: int) -> None:
        """So many are about to be done."""
        self._left = count
        self._done.clear()

    def wait(self, seconds: float = 120.0) -> None:
        """Until the last step of the last of them was called."""
        if not self._done.wait(seconds):
            raise RuntimeError(f"{self._left} jobs are not done after {seconds:g} s")
