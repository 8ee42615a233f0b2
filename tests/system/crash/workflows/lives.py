"""Lives of a process, many of them short: each is forked from one that has imported everything, and costs little.

`Nursery` is that process, as a test sees it: `nursery.live(Life(...))` returns how it ended. In it, a life opens the
post office, does everything that is due and reports; or it is killed when it is about to execute the N-th line of what
is looked at here: of the workflows, of the storage below them, and of the author's handlers. All threads count.

The nursery has no threads of its own, so that to fork it is safe, and it has nothing open.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import select
import signal
import subprocess
import sys
import threading
from itertools import count
from pathlib import Path
from types import FrameType
from typing import IO, Any, NoReturn, Self

import msgspec

import headwater as hw
import headwater.host.workflow_host
import headwater.runtime.workflows.deploying  # here, so that it is not imported in every life
from headwater.host.plain_space import Space
from headwater.host.space_files import use_vfs
from headwater.runtime.options import Options
from headwater.testing import powerloss
from headwater.testing.sim_clock import SimClock
from tests.system.crash.workflows import post

ROOT = Path(__file__).parents[4]
LIFE_S = 300.0
"""A life that takes longer hangs."""

ROUNDS = 60
"""Times that the clock is put forward to what is due next, before a life is taken for one that never ends."""

_PACKAGE = Path(hw.__file__).parent
_FOLDERS = tuple(
    str(_PACKAGE / name) for name in ("workflow/", "declare/workflows/", "runtime/workflows/", "host/workflow_")
)
_FILES = {str(_PACKAGE / "store/engine.py"), str(_PACKAGE / "host/storage.py"), post.__file__}


class Life(msgspec.Struct, frozen=True, kw_only=True):
    """What one life is to do."""

    path: str
    url: str
    kind: str = "class"
    kill_at: int = 0
    """The line that it does not live to execute; 0: none."""
    start_ms: int = 0
    """What its clock shows at first."""
    patience: float = 10.0
    """How many seconds it waits for the service."""
    vfs: str = ""
    says: dict[int, int | None] = {}
    """What a person says about calls whose end nobody knows, by run: the receipt, or None if it did not happen."""
    resumes: bool = False
    """A person says that what was in the way is mended."""


class End(msgspec.Struct, frozen=True, kw_only=True):
    """How a life ended."""

    killed: bool
    lines: int = 0
    runs: int = 0
    done: bool = False
    state: str = ""
    sentence: str = ""
    run: int | None = None
    sent: dict[str, int] = {}
    noted: dict[str, int] = {}
    error: str = ""


# --- in a life ------------------------------------------------------------------------------------------------


class Wire:
    """Counts lines as they are about to be executed; at the one that it waits for, this process is no more."""

    def __init__(self, kill_at: int) -> None:
        self._kill_at = kill_at
        self._count = count(1)
        self._known: dict[object, bool] = {}

    def stretch(self) -> None:
        threading.settrace(self._enter)
        sys.settrace(self._enter)

    def take_down(self) -> int:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]  # as sys.settrace has it
        return next(self._count) - 1

    def _enter(self, frame: FrameType, _event: str, _arg: object) -> Any:
        code = frame.f_code
        is_watched = self._known.get(code)
        if is_watched is None:
            name = code.co_filename
            # Not the loop in which the storage's thread waits: how often it turns is a matter of time.
            is_idle = name.endswith("storage.py") and code.co_name == "_run"
            is_watched = (name in _FILES or name.startswith(_FOLDERS)) and not is_idle
            self._known[code] = is_watched
        return self._step if is_watched else None

    def _step(self, _frame: FrameType, event: str, _arg: object) -> Any:
        if event == "line" and next(self._count) == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return self._step


def live(life: Life) -> End:
    """The whole of it."""
    if life.vfs:
        assert life.vfs == powerloss.NAME
        use_vfs(powerloss.register())
    clock = SimClock(life.start_ms)
    office = post.Office(life.url, life.kind, patience=life.patience)
    wire = Wire(life.kill_at)
    wire.stretch()
    with office.app.open_with(life.path, Options(wall=clock.now_ms)) as space:
        for run, receipt in life.says.items():
            office.flow.reconcile(run, hw.NotApplied() if receipt is None else hw.Applied(receipt))
        if life.resumes:
            office.flow.resume()
        runs = work(space, office, clock)
        status = office.flow.status
        end = End(
            killed=False,
            runs=runs,
            done=office.is_done,
            state=status.state,
            sentence=status.sentence,
            run=status.run,
            sent=dict(office.sent.value),
            noted=dict(office.noted.value),
        )
    return msgspec.structs.replace(end, lines=wire.take_down())


def work(space: Space, office: post.Office, clock: SimClock) -> int:
    """Everything that is due, and then what is due next, until all is done or nothing goes on by itself."""
    runs = 0
    for _ in range(ROUNDS):
        runs += space.workflows.drain()
        at = space.workflows.wake_at
        if office.is_done or at is None:
            break
        clock.advance(max(at - clock.now_ms(), 0))
    return runs


# --- the nursery ----------------------------------------------------------------------------------------------


def main() -> None:
    """In the process that is forked: one life after the other, as they are ordered."""
    gc.collect()
    gc.freeze()
    for line in sys.stdin.buffer:
        life = msgspec.json.decode(line, type=Life)
        sys.stdout.buffer.write(msgspec.json.encode(_raise(life)) + b"\n")
        sys.stdout.buffer.flush()


def _raise(life: Life) -> End:
    ear, mouth = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ear)
        _be(life, mouth)
    os.close(mouth)
    said = b""
    with os.fdopen(ear, "rb", buffering=0) as pipe:
        while select.select([pipe], [], [], LIFE_S)[0]:
            part = pipe.read(65536)
            if not part:
                break
            said += part
        else:
            os.kill(child, signal.SIGABRT)  # with the stacks of its threads
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if said:
        return msgspec.json.decode(said, type=End)
    return End(killed=code == -signal.SIGKILL, error="" if code == -signal.SIGKILL else f"it ended with {code}")


def _be(life: Life, mouth: int) -> NoReturn:
    """In the child. It never returns to what its parent was doing."""
    code = 1
    try:
        faulthandler.enable()
        os.write(mouth, msgspec.json.encode(live(life)))
        code = 0
    except BaseException:  # noqa: BLE001  # told, and then it ends
        sys.settrace(None)
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]  # there is one
    finally:
        sys.stderr.flush()
        os._exit(code)


class Nursery:
    """The process that lives are forked from, as a test sees it."""

    def __init__(self, folder: Path) -> None:
        self._told = folder / "told.txt"
        self._file: IO[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        code = f"from {__name__} import main; main()"
        self._file = self._told.open("wb")
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=pipe, stdout=pipe, stderr=self._file, cwd=ROOT
        )
        return self

    def __exit__(self, *_error: object) -> None:
        assert self._process is not None and self._file is not None
        self._process.communicate(timeout=LIFE_S * 2)
        self._file.close()

    def live(self, life: Life) -> End:
        """One life, to its end."""
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        process.stdin.write(msgspec.json.encode(life) + b"\n")
        process.stdin.flush()
        end = msgspec.json.decode(process.stdout.readline(), type=End)
        assert not end.error, f"{end.error}\n{self._told.read_text(errors='replace')[-4000:]}"
        return end


__all__ = ["End", "Life", "Nursery", "main"]
