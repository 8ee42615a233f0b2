"""What a test run is given by the shell that started it, and how long a test may take.

A run must not depend on either: `./hw test &` and `nohup ./hw test` start it with SIGINT ignored, and a developer's
shell sets variables that change how Python buffers. And a test that hangs must fail, not hang the run.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import pytest

LIMIT_S = 900.0
"""For one test, on a machine that is busy with other work. The slowest takes about a minute of an idle core."""

AGAIN_S = 30.0
"""For what a test does to clean up after its limit; then that is interrupted, too."""

EXIT_S = 300.0
"""For the threads that are left when all tests are done."""


KEPT = {"HEADWATER_HYPOTHESIS", "HEADWATER_BROWSER", "HEADWATER_PG", "HEADWATER_PG_BIN"}
"""What says how to test, and not how to run."""


def scrub() -> None:
    """Processes of tests start as they do on a machine without settings of a developer."""
    for name in [name for name in os.environ if name.startswith(("PYTHON", "HEADWATER_"))]:
        if name not in KEPT:
            del os.environ[name]


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGINT is not ignored here, and so not by the processes that are started from here."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before if before is not None else signal.SIG_DFL)


@contextmanager
def limited(name: str, limit_s: float = LIMIT_S, again_s: float = AGAIN_S) -> Iterator[None]:
    """Fail what takes longer, with the stack of every thread; and end the processes that it waits for."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def overrun(_number: int, frame: FrameType | None) -> None:
        stacks = _stacks(frame)
        for pid in descendants(os.getpid()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        pytest.fail(f"{name} took longer than {limit_s:g} s, and was ended. Its threads were here:\n{stacks}")

    before = signal.signal(signal.SIGALRM, overrun)
    outer = signal.setitimer(signal.ITIMER_REAL, limit_s, again_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *outer)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def loggers_restored() -> Iterator[None]:
    """What decides whether a line is logged is after a test what it was before it, for every logger.

    Worlds of the simulator turn logging off in their process. Tests that make one here would silence all later ones.
    """
    before = {
        name: (logger.level, logger.propagate, logger.disabled, list(logger.handlers)) for name, logger in _loggers()
    }
    level, disabled, factory = logging.root.level, logging.root.manager.disable, logging.getLogRecordFactory()
    try:
        yield
    finally:
        for name, logger in _loggers():
            if name in before:  # one that is new has what its module gave it
                own, logger.propagate, logger.disabled, logger.handlers[:] = before[name]
                logger.setLevel(own)
        logging.root.setLevel(level)
        logging.setLogRecordFactory(factory)
        logging.disable(disabled)


def _loggers() -> list[tuple[str, logging.Logger]]:
    known = logging.Logger.manager.loggerDict.items()
    return [(name, each) for name, each in known if name.startswith("headwater") and isinstance(each, logging.Logger)]


@contextmanager
def spaces_closed() -> Iterator[None]:
    """No space that is opened inside is open after it. A test that leaves one fails, and the ones after it do not.

    Code outside of every space means the one that is open. With others, it would not know which one.
    """
    # The variables of a developer's shell are gone by now.
    from headwater.cells.context import open_spaces

    before = list(open_spaces())
    try:
        yield
    finally:
        left = [space for space in open_spaces() if space not in before]
        for space in left:
            with suppress(Exception):
                space.abandon()  # type: ignore[attr-defined]  # every opening has it
        open_spaces()[:] = [space for space in open_spaces() if space not in left]
    if left:
        names = ", ".join(repr(space.name) for space in left[:5])
        pytest.fail(f"it left {len(left)} open: {names}; open each in a `with` block, or close it in a fixture")


def exit_soon() -> None:
    """All tests are done: what is left may take a while, not for ever."""
    faulthandler.dump_traceback_later(EXIT_S, exit=True, file=sys.__stderr__)


def descendants(pid: int) -> list[int]:
    """The processes that this one has started, and those that these have started. Empty where there is no /proc."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, path.read_text().split()):
                found += [child, *descendants(child)]
    return found


def _stacks(main: FrameType | None) -> str:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames() | ({threading.main_thread().ident or 0: main} if main is not None else {})
    return "\n".join(
        f"{names.get(ident, ident)}:\n{''.join(traceback.format_stack(frame))}" for ident, frame in frames.items()
    )
