"""Plays worlds on all cores: forked children of a warm parent, of which each plays some worlds and ends.

Threads of killed nodes stay blocked for ever, so a process cannot play worlds without end. A fork of a parent that has
imported the product costs less than an import. The parent watches time and memory, because a world that hangs cannot
say so itself.
"""

from __future__ import annotations

import faulthandler
import os
import selectors
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final

import msgspec

from sim.worker import SIZE, WAITING, Name, Play, Result, Status, Work, memory_of, play_all, send

WORLDS_PER_CHILD: Final = 20
"""So many, because the threads and objects that worlds leave behind slow the later ones down."""

LIMIT_S: Final = 30.0
"""A usual world takes less than one second. Processor time."""

STUCK_S: Final = 10.0
"""An actor that runs for so long without handing over computes in a circle. Processor time."""

LIMIT_BYTES: Final = 2 << 30
"""A usual world needs 100 MB."""

_AHEAD: Final = 2
"""Worlds that a child has been given, with the one that it plays."""

_POLL_S: Final = 0.25
_STACK_SIGNAL: Final = signal.SIGUSR1


class _Child:
    """A process that plays worlds, as its parent sees it."""

    def __init__(self, pid: int, tasks: int, results: int, stacks: int) -> None:
        self.pid, self.tasks, self.results, self.stacks = pid, tasks, results, stacks
        self.names: deque[Name] = deque()
        """The world that it plays, and the next one: it does not wait for its parent in between."""
        self.since = self.cpu_since = 0.0
        self.played = 0
        self.core = -1
        self.received = bytearray()

    def send(self, name: Name) -> None:
        self.names.append(name)
        if len(self.names) == 1:
            self._begins()
        # A child that has just died has no reader: its results end, and the world is given to another one.
        with suppress(BrokenPipeError):
            send(self.tasks, msgspec.msgpack.encode(name))

    def next_result(self) -> bytes | None:
        """The first of those that were received; None: not all of it is here."""
        if len(self.received) < SIZE.size:
            return None
        end = SIZE.size + SIZE.unpack_from(self.received)[0]
        if len(self.received) < end:
            return None
        data = bytes(self.received[SIZE.size : end])
        del self.received[:end]
        return data

    def ended(self) -> None:
        """The result of a world is here."""
        self.names.popleft()
        self.played += 1
        self._begins()

    def _begins(self) -> None:
        self.since, self.cpu_since = time.monotonic(), _cpu_of(self.pid)

    def close(self) -> int:
        """The status of `waitpid`."""
        for descriptor in (self.tasks, self.results, self.stacks):
            os.close(descriptor)
        return os.waitpid(self.pid, 0)[1]

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.close()

    def stack(self) -> str:
        """What all threads of the child do: written by faulthandler, which needs no hold of the interpreter."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, _STACK_SIGNAL)
        before = -1
        for _ in range(20):
            time.sleep(0.05)
            size = os.fstat(self.stacks).st_size
            if size == before:
                break
            before = size
        return os.pread(self.stacks, 1 << 20, 0).decode(errors="replace")


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """When a world is given up, and a child replaced."""

    worlds_per_child: int = WORLDS_PER_CHILD
    real_s: float = LIMIT_S
    stuck_s: float = STUCK_S
    memory: int = LIMIT_BYTES


def run(
    seeds: Iterable[Name],
    play: Play,
    *,
    jobs: int = 2,
    on_result: Callable[[Result], None] | None = None,
    prepare: Callable[[], None] | None = None,
    progress: Callable[[], int] | None = None,
    tick: Callable[[], bool] | None = None,
    limits: Limits = Limits(),  # noqa: B008  # frozen
) -> bool:
    """Play these worlds. False: it was interrupted by Ctrl-C.

    `seeds` is asked for the next world when a child is free: it ends the run by ending, so it may look at the clock.
    `on_result` gets results as they come. `prepare` is called in each child before its first world. `progress` is
    asked in the child, from another thread, for a number that grows while actors hand over. `tick` is called a few
    times a second; if it is false, no world is begun any more and those that are played are given up.
    """
    hand = on_result or (lambda _: None)
    crew = _Crew(Work(play, prepare, progress), limits)
    try:
        for result in crew.results(iter(seeds), jobs, tick):
            hand(result)
    except KeyboardInterrupt:
        return False
    finally:
        crew.end()
    return True


class _Crew:
    """The children that are alive."""

    def __init__(self, work: Work, limits: Limits) -> None:
        self._work, self._limits = work, limits
        self._selector = selectors.DefaultSelector()
        self._children: dict[int, _Child] = {}
        self._returned: deque[Name] = deque()
        """Worlds that were not begun by a child that is gone."""

    def results(self, seeds: Iterator[Name], jobs: int, tick: Callable[[], bool] | None) -> Iterator[Result]:
        is_over = False
        while True:
            while (self._returned or not is_over) and (child := self._free(jobs)) is not None:
                name = self._returned.popleft() if self._returned else next(seeds, None)
                if name is None:
                    is_over = True
                else:
                    child.send(name)
            if not any(child.names for child in self._children.values()):
                return
            for key, _ in self._selector.select(_POLL_S):
                yield from self._receive(self._children[key.fd])
            yield from self._overdue()
            if tick is not None and not tick():
                return

    def _free(self, jobs: int) -> _Child | None:
        """The child that gets the next world: without work, or new, or with one world left."""
        children = self._children.values()
        least = min(children, key=lambda child: len(child.names), default=None)
        if least is not None and not least.names:
            return least
        if len(children) < jobs:
            return self._fork(jobs)
        last = self._limits.worlds_per_child - 1
        return next((each for each in children if len(each.names) < _AHEAD and each.played < last), None)

    def end(self) -> None:
        for child in list(self._children.values()):
            self._drop(child)
            child.kill()
        self._selector.close()

    def _drop(self, child: _Child) -> None:
        self._selector.unregister(child.results)
        del self._children[child.results]
        self._returned += list(child.names)[1:]

    def _fork(self, jobs: int) -> _Child:
        task_end, tasks = os.pipe()
        results, result_end = os.pipe()
        core = self._idle_core(jobs)
        with tempfile.TemporaryFile() as stacks:
            sys.stdout.flush()
            sys.stderr.flush()
            if not (pid := os.fork()):
                faulthandler.register(_STACK_SIGNAL, file=stacks, all_threads=True)
                # Of its siblings too: a child ends when no process has the other end of its tasks any more.
                for descriptor in (tasks, results, *(each.tasks for each in self._children.values())):
                    os.close(descriptor)
                _pin(core)
                play_all(task_end, result_end, self._work, self._limits.stuck_s)
            child = _Child(pid, tasks, results, os.dup(stacks.fileno()))
            child.core = core
        os.close(task_end)
        os.close(result_end)
        self._children[results] = child
        self._selector.register(results, selectors.EVENT_READ)
        return child

    def _idle_core(self, jobs: int) -> int:
        """A core that no other child has; -1 if there is none, or if this system does not tell.

        Children that leave cores to others are placed by the system: a second run would choose the same cores.
        """
        cores = _cores()
        if jobs < len(cores):
            return -1
        return min(cores - {each.core for each in self._children.values()}, default=-1)

    def _receive(self, child: _Child) -> Iterator[Result]:
        """Results that have arrived, after an attempt to read more."""
        part = os.read(child.results, 1 << 16)
        if not part:
            self._drop(child)
            code = os.waitstatus_to_exitcode(child.close())
            if child.names:
                yield self._given_up(child, "died", f"the process ended with exit code {code}")
            return
        child.received += part
        while (data := child.next_result()) is not None:
            result = msgspec.msgpack.decode(data, type=Result)
            child.ended()
            if result.status in ("stuck", "error") or child.played >= self._limits.worlds_per_child:
                # Its next world may have begun: it is played again, and gives the same.
                self._returned += child.names
                child.names.clear()
                self._drop(child)
                child.kill()
                yield result
                return
            yield result

    def _overdue(self) -> Iterator[Result]:
        for child in list(self._children.values()):
            if not child.names:
                continue
            status: Status | None = None
            text = ""
            limit, waited = self._limits.real_s, time.monotonic() - child.since
            if waited > limit and (_cpu_of(child.pid) - child.cpu_since > limit or waited > WAITING * limit):
                status, text = "too slow", f"not at its end after {limit:g} s\n{child.stack()}"
            elif (size := memory_of(child.pid)) > self._limits.memory:
                status, text = "too big", f"{size >> 20} MB of memory\n{child.stack()}"
            if status is not None:
                self._drop(child)
                child.kill()
                yield self._given_up(child, status, text)

    @staticmethod
    def _given_up(child: _Child, status: Status, text: str) -> Result:
        kind, seed = child.names[0]
        return Result(kind=kind, seed=seed, status=status, real_s=time.monotonic() - child.since, text=text)


def _cores() -> set[int]:
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def _pin(core: int) -> None:
    """Stay on one core: the actors of a world run one at a time, and a hand-over to another core is slow."""
    if core >= 0 and hasattr(os, "sched_setaffinity"):
        with suppress(OSError):
            os.sched_setaffinity(0, {core})


def _cpu_of(pid: int) -> float:
    """Seconds of processor time of a process; real time if this system does not tell."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123  # asked often
            # The second field is a name, which may have spaces.
            fields = file.read().rpartition(b")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return time.monotonic()
