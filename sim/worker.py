"""A child of the runner: it plays the worlds that its parent names, and writes their results to a pipe."""

from __future__ import annotations

import gc
import os
import resource
import signal
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Literal, NamedTuple, NoReturn, TypeAlias

import msgspec

from sim.plan import Outcome

Name: TypeAlias = tuple[str, int]
"""The kind of a world, and its seed."""

Play: TypeAlias = Callable[[str, int], Outcome]

Status: TypeAlias = Literal["ok", "failed", "too slow", "too big", "stuck", "died", "error"]

WAITING: Final = 10
"""So many times as long in real time is too long as well: a thread may wait without computing. A busy machine is slower
than this only if more than ten others want each core."""

# Bound here: inside a world, a real sleep is an error.
_sleep = time.sleep

SIZE: Final = struct.Struct("<I")
"""Before each message of a pipe: its length."""


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


class Work(NamedTuple):
    """What a child does: see `run`."""

    play: Play
    prepare: Callable[[], None] | None
    progress: Callable[[], int] | None


def play_all(tasks: int, results: int, work: Work, stuck_s: float) -> NoReturn:
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
        while (task := receive(tasks)) is not None:
            kind, seed = msgspec.msgpack.decode(task, type=Name)
            playing[:] = [(kind, seed)]
            result = play_here(kind, seed, work.play)
            playing.clear()
            send(results, msgspec.msgpack.encode(result))
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
        rss=memory_of(os.getpid()),
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
            send(results, msgspec.msgpack.encode(Result(kind=kind, seed=seed, status="stuck", text=text)))
            os._exit(4)


def _stacks() -> str:
    """Of the threads that do not wait for the conductor: others are not what hangs."""
    own = threading.get_ident()
    found = {
        ident: "".join(traceback.format_stack(frame)) for ident, frame in sys._current_frames().items() if ident != own
    }
    busy = [text for text in found.values() if "conductor.py" not in text.rsplit("  File ", 2)[-2:][0]]
    return "\n".join(busy or found.values())


def memory_of(pid: int) -> int:
    """Bytes; 0 if this system does not tell."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:  # noqa: PTH123  # asked often
            return int(file.read().split()[1]) * resource.getpagesize()
    except (OSError, IndexError, ValueError):
        return 0


def send(descriptor: int, data: bytes) -> None:
    """Write a message: its size, then the data."""
    view = memoryview(SIZE.pack(len(data)) + data)
    while view:
        view = view[os.write(descriptor, view) :]


def receive(descriptor: int) -> bytes | None:
    """None at the end of the pipe: the parent has no more worlds, or is gone."""
    head = _exactly(descriptor, SIZE.size)
    return None if head is None else _exactly(descriptor, SIZE.unpack(head)[0])


def _exactly(descriptor: int, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        if not (part := os.read(descriptor, size - len(data))):
            return None
        data += part
    return data
