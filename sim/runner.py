"""Plays worlds on all cores: forked children of a warm parent, of which each plays some worlds and ends.

Threads of killed nodes stay blocked for ever, so a process cannot play worlds without end. A fork of a parent that has
imported the product costs less than an import. The parent watches time and memory, because a world that hangs cannot
say so itself.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import resource
import selectors
import signal
import struct
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final, Literal, NamedTuple, NoReturn, TypeAlias

import msgspec

from sim.plan import Outcome

Name: TypeAlias = tuple[str, int]
"""The kind of a world, and its seed."""

Play: TypeAlias = Callable[[str, int], Outcome]

Status: TypeAlias = Literal["ok", "failed", "too slow", "too big", "stuck", "died", "error"]

WORLDS_PER_CHILD: Final = 20
"""So many, because the threads and objects that worlds leave behind slow the later ones down."""

LIMIT_S: Final = 30.0
"""A usual world takes less than one second. Processor time."""

STUCK_S: Final = 10.0
"""An actor that runs for so long without handing over computes in a circle. Processor time."""

WAITING: Final = 10
"""So many times as long in real time is too long as well: a thread may wait without computing. A busy machine is slower
than this only if more than ten others want each core."""

LIMIT_BYTES: Final = 2 << 30
"""A usual world needs 100 MB."""

# Bound here: inside a world, a real sleep is an error.
_sleep = time.sleep

_POLL_S: Final = 0.25
_STACK_SIGNAL: Final = signal.SIGUSR1
_SIZE: Final = struct.Struct("<I")


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One world that was played, or not to its end."""

    kind: str
    seed: int
    status: Status
    outcome: Outcome = Outcome()
    """Empty, if the world did not come to its end."""
    real_s: float = 0.0
    cpu_s: float = 0.0
    rss: int = 0
    """Bytes of memory of the child, after the world."""
    text: str = ""
    """A stack, if there is no outcome."""

    @property
    def name(self) -> Name:
        return self.kind, self.seed

    @property
    def is_failure(self) -> bool:
        return self.status != "ok"


class _Child:
    """A process that plays worlds, as its parent sees it."""

    def __init__(self, pid: int, tasks: int, results: int, stacks: int) -> None:
        self.pid, self.tasks, self.results, self.stacks = pid, tasks, results, stacks
        self.name: Name | None = None
        self.since = self.cpu_since = 0.0
        self.played = 0
        self.received = bytearray()

    def send(self, name: Name) -> None:
        self.name, self.since, self.cpu_since = name, time.monotonic(), _cpu_of(self.pid)
        _write(self.tasks, msgspec.msgpack.encode(name))

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


class _Work(NamedTuple):
    """What a child does: see `run`."""

    play: Play
    prepare: Callable[[], None] | None
    progress: Callable[[], int] | None


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
    crew = _Crew(_Work(play, prepare, progress), limits)
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

    def __init__(self, work: _Work, limits: Limits) -> None:
        self._work, self._limits = work, limits
        self._selector = selectors.DefaultSelector()
        self._children: dict[int, _Child] = {}
        self._idle: list[_Child] = []

    def results(self, seeds: Iterator[Name], jobs: int, tick: Callable[[], bool] | None) -> Iterator[Result]:
        is_over = False
        while True:
            while not is_over and len(self._children) - len(self._idle) < jobs:
                if (name := next(seeds, None)) is None:
                    is_over = True
                    break
                (self._idle.pop() if self._idle else self._fork()).send(name)
            if len(self._children) == len(self._idle):
                return
            for key, _ in self._selector.select(_POLL_S):
                if (result := self._receive(self._children[key.fd])) is not None:
                    yield result
            yield from self._overdue()
            if tick is not None and not tick():
                return

    def end(self) -> None:
        for child in list(self._children.values()):
            self._drop(child)
            child.kill()
        self._selector.close()

    def _drop(self, child: _Child) -> None:
        self._selector.unregister(child.results)
        del self._children[child.results]
        if child in self._idle:
            self._idle.remove(child)

    def _fork(self) -> _Child:
        task_end, tasks = os.pipe()
        results, result_end = os.pipe()
        with tempfile.TemporaryFile() as stacks:
            sys.stdout.flush()
            sys.stderr.flush()
            if not (pid := os.fork()):
                faulthandler.register(_STACK_SIGNAL, file=stacks, all_threads=True)
                # Of its siblings too: a child ends when no process has the other end of its tasks any more.
                for descriptor in (tasks, results, *(each.tasks for each in self._children.values())):
                    os.close(descriptor)
                _play_all(task_end, result_end, self._work, self._limits.stuck_s)
            child = _Child(pid, tasks, results, os.dup(stacks.fileno()))
        os.close(task_end)
        os.close(result_end)
        self._children[results] = child
        self._selector.register(results, selectors.EVENT_READ)
        return child

    def _receive(self, child: _Child) -> Result | None:
        part = os.read(child.results, 1 << 16)
        if not part:
            self._drop(child)
            code = os.waitstatus_to_exitcode(child.close())
            if child.name is None:
                return None
            return self._given_up(child, "died", f"the process ended with exit code {code}")
        child.received += part
        if len(child.received) < _SIZE.size:
            return None
        end = _SIZE.size + _SIZE.unpack_from(child.received)[0]
        if len(child.received) < end:
            return None
        result = msgspec.msgpack.decode(child.received[_SIZE.size : end], type=Result)
        del child.received[:end]
        child.name = None
        child.played += 1
        if result.status in ("stuck", "error") or child.played >= self._limits.worlds_per_child:
            self._drop(child)
            child.kill()
        else:
            self._idle.append(child)
        return result

    def _overdue(self) -> Iterator[Result]:
        for child in list(self._children.values()):
            if child.name is None:
                continue
            status: Status | None = None
            text = ""
            limit, waited = self._limits.real_s, time.monotonic() - child.since
            if waited > limit and (_cpu_of(child.pid) - child.cpu_since > limit or waited > WAITING * limit):
                status, text = "too slow", f"not at its end after {limit:g} s\n{child.stack()}"
            elif (size := _memory_of(child.pid)) > self._limits.memory:
                status, text = "too big", f"{size >> 20} MB of memory\n{child.stack()}"
            if status is not None:
                self._drop(child)
                child.kill()
                yield self._given_up(child, status, text)

    @staticmethod
    def _given_up(child: _Child, status: Status, text: str) -> Result:
        assert child.name is not None
        kind, seed = child.name
        return Result(kind=kind, seed=seed, status=status, real_s=time.monotonic() - child.since, text=text)


# --- in the child --------------------------------------------------------------------------------------------------


def _play_all(tasks: int, results: int, work: _Work, stuck_s: float) -> NoReturn:
    """Never returns: a child must not unwind into the code of its parent."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        gc.disable()
        gc.freeze()
        playing: list[Name] = []
        if work.progress is not None:
            threading.Thread(target=_watch, args=(results, playing, work.progress, stuck_s), daemon=True).start()
        if work.prepare is not None:
            work.prepare()
        while (task := _read(tasks)) is not None:
            kind, seed = msgspec.msgpack.decode(task, type=Name)
            playing[:] = [(kind, seed)]
            result = play_here(kind, seed, work.play)
            playing.clear()
            _write(results, msgspec.msgpack.encode(result))
            gc.collect()
            # What is left belongs to blocked threads, and stays: the next collection need not look at it.
            gc.freeze()
        code = 0
    except BaseException:  # noqa: BLE001  # see above
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def play_here(kind: str, seed: int, play: Play) -> Result:
    """Play one world in this process."""
    begin, cpu = time.monotonic(), time.process_time()
    outcome, text = Outcome(), ""
    status: Status
    try:
        outcome = play(kind, seed)
        status = "failed" if outcome.violations else "ok"
    except Exception:  # noqa: BLE001  # a mistake of the simulator, or of a plan
        status, text = "error", traceback.format_exc()
    return Result(
        kind=kind,
        seed=seed,
        status=status,
        outcome=outcome,
        real_s=time.monotonic() - begin,
        cpu_s=time.process_time() - cpu,
        rss=_memory_of(os.getpid()),
        text=text,
    )


def _watch(results: int, playing: list[Name], progress: Callable[[], int], stuck_s: float) -> None:
    """End the process if its actors do not hand over."""
    last, since, cpu_since = -1, time.monotonic(), time.process_time()
    while True:
        _sleep(stuck_s / 10)
        found = progress() if playing else -1
        if found != last or not playing:
            last, since, cpu_since = found, time.monotonic(), time.process_time()
        elif time.process_time() - cpu_since > stuck_s or time.monotonic() - since > WAITING * stuck_s:
            kind, seed = playing[0]
            text = f"no hand-over for {stuck_s:g} s\n{_stacks()}"
            _write(results, msgspec.msgpack.encode(Result(kind=kind, seed=seed, status="stuck", text=text)))
            os._exit(4)


def _stacks() -> str:
    """Of the threads that do not wait for the conductor: others are not what hangs."""
    own = threading.get_ident()
    found = {
        ident: "".join(traceback.format_stack(frame)) for ident, frame in sys._current_frames().items() if ident != own
    }
    busy = [text for text in found.values() if "conductor.py" not in text.rsplit("  File ", 2)[-2:][0]]
    return "\n".join(busy or found.values())


def _memory_of(pid: int) -> int:
    """Bytes; 0 if this system does not tell."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:  # noqa: PTH123  # asked often
            return int(file.read().split()[1]) * resource.getpagesize()
    except (OSError, IndexError, ValueError):
        return 0


def _cpu_of(pid: int) -> float:
    """Seconds of processor time of a process; real time if this system does not tell."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123  # asked often
            # The second field is a name, which may have spaces.
            fields = file.read().rpartition(b")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return time.monotonic()


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(_SIZE.pack(len(data)) + data)
    while view:
        view = view[os.write(descriptor, view) :]


def _read(descriptor: int) -> bytes | None:
    """None at the end of the pipe: the parent has no more worlds, or is gone."""
    data = b""
    while len(data) < _SIZE.size or len(data) < _SIZE.size + _SIZE.unpack_from(data)[0]:
        if not (part := os.read(descriptor, 1 << 16)):
            return None
        data += part
    return data[_SIZE.size :]
