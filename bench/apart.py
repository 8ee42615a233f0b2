"""Measurements that need a process of their own: they may never end, or look at the memory of all of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")


def apart(limit_s: float, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R | None:
    """What a function of a module returns in a new process; None if it takes longer than that."""
    processes = get_context("spawn")
    ours, theirs = processes.Pipe(duplex=False)
    child = processes.Process(target=_answer, args=(theirs, work, args, kwargs))
    child.start()
    theirs.close()
    try:
        return cast("R", ours.recv()) if ours.poll(limit_s) else None
    except EOFError:
        raise RuntimeError(f"{work.__name__} ended without an answer in a process of its own; see above") from None
    finally:
        child.kill()
        child.join()


@contextmanager
def traced() -> Iterator[None]:
    """Processes that are started meanwhile count what they hand out, from their very beginning."""
    os.environ["PYTHONTRACEMALLOC"] = "1"
    try:
        yield
    finally:
        del os.environ["PYTHONTRACEMALLOC"]


def _answer(pipe: Connection, work: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    pipe.send(work(*args, **kwargs))
