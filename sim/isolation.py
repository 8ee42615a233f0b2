"""Keeps a world apart from the real machine: libraries draw from a seed, real threads and sockets are errors."""

from __future__ import annotations

import asyncio
import email.utils
import logging
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NoReturn
from unittest.mock import patch

import uvicorn.server

from headwater.machine import machine
from headwater.testing.simulation.conductor import LeakError
from headwater.testing.simulation.sim_files import seed_sqlite, unseed_sqlite


def _leak(what: str) -> Callable[..., NoReturn]:
    def leak(*_: object, **__: object) -> NoReturn:
        raise LeakError(f"a world used {what}: ask headwater.machine.machine() for it")

    return leak


_format_date = email.utils.formatdate


def _date(timeval: float | None = None, *args: bool, **options: bool) -> str:
    return _format_date(machine().time() if timeval is None else timeval, *args, **options)


class _OrderedSet(set[Any]):
    """Its order is that of adding. That of a set of objects depends on their addresses."""

    def __init__(self) -> None:
        super().__init__()
        self._order: dict[Any, None] = {}

    def add(self, item: Any) -> None:
        super().add(item)
        self._order[item] = None

    def discard(self, item: Any) -> None:
        super().discard(item)
        self._order.pop(item, None)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._order)


class _ServerState(uvicorn.server.ServerState):
    """The server of HTTP closes its connections in the order in which they were opened."""

    def __init__(self) -> None:
        super().__init__()
        self.connections = _OrderedSet()
        self.tasks = _OrderedSet()


@contextmanager
def isolated(seed: int) -> Iterator[None]:
    """Inside, all chance is a function of the seed."""
    chance = random.Random(f"libraries-{seed}")
    random.seed(f"global-{seed}")

    def urandom(size: int) -> bytes:
        return chance.randbytes(size)

    replaced: list[tuple[Any, str, Any]] = [
        (os, "urandom", urandom),
        # What `secrets` and `SystemRandom` use.
        (random, "_urandom", urandom),
        (threading.Thread, "start", _leak("a real thread")),
        (socket.socket, "__init__", _leak("a real socket")),
        (asyncio.events, "new_event_loop", _leak("a real event loop")),
        (asyncio, "new_event_loop", _leak("a real event loop")),
        (time, "sleep", _leak("a real sleep")),
        # The date in the answer to an upgrade.
        (email.utils, "formatdate", _date),
        (uvicorn.server, "ServerState", _ServerState),
    ]
    # The salts of SQLite's WAL. It refuses to open files outside of the nodes from now on.
    seed_sqlite(seed)
    with ExitStack() as stack:
        for owner, name, new in replaced:
            stack.enter_context(patch.object(owner, name, new))
        stack.callback(unseed_sqlite)
        # A kind of worlds may turn logging off. That ends with the world.
        stack.callback(logging.disable, logging.root.manager.disable)
        yield
