"""An asyncio event loop for each simulated thread. It waits with the conductor instead of a selector.

Coroutines, protocols and libraries made of them run on it unchanged. `create_connection` and `create_server` give
transports in memory, see `sim_network`. Threads of `run_in_executor` are threads of the loop's machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from asyncio import events, futures
from asyncio.base_events import BaseEventLoop
from collections.abc import Callable, Coroutine
from contextvars import Context
from itertools import count
from typing import Any, Final, TypeVar

from headwater.machine import Executor, Machine
from headwater.testing.simulation.conductor import Actor, Conductor, LeakError
from headwater.testing.simulation.sim_network import SimListener, SimNetwork

T = TypeVar("T")

BUSY_TURNS: Final = 300
"""Turns of a loop at one moment, before time passes: code that polls takes time as well."""

BUSY_S: Final = 1e-3
"""How much time passes then."""

RESOLUTION_S: Final = 1e-9
"""Times that differ by less are equal: clocks with a rate are rounded."""

POOL_SIZE: Final = 6
"""Threads of the default pool: as many as asyncio has on a machine with two cores."""


class ActorLoop(BaseEventLoop):
    """The loop of one thread of a simulated machine."""

    def __init__(self, machine: Machine, node: str, conductor: Conductor, network: SimNetwork | None) -> None:
        super().__init__()
        self.machine = machine
        self.node = node
        self._conductor = conductor
        self._wires = network
        # The selector is the loop itself: BaseEventLoop calls nothing but `select` of it.
        self._selector = self
        self._clock_resolution = 1e-6
        self._rung = False
        # What comes from other nodes, by the time at which it arrives, in the time of the world.
        self._arrivals: list[tuple[float, int, Callable[[], None], Context]] = []
        self._numbers = count()
        # The actor that waits in `select`.
        self._waiting: Actor | None = None
        # How many turns at one moment.
        self._busy, self._busy_at = 0, -1.0
        self._pool: Executor | None = None
        self._has_ended_pool = False

    def time(self) -> float:
        return self.machine.monotonic()

    # -- waiting -------------------------------------------------------------------------------------------

    def select(self, timeout: float | None) -> list[object]:
        """Wait for a timer, a call from another thread, or bytes."""
        conductor = self._conductor
        if conductor.now != self._busy_at:
            self._busy_at, self._busy = conductor.now, 0
        self._busy += 1
        if self._busy > BUSY_TURNS:
            self._busy = 0
            conductor.sleep(BUSY_S)
        elif timeout is not None and timeout <= 0:
            conductor.maybe()
        elif not self._rung and not self._is_due():
            self._wait(timeout)
        self._rung = False
        self._take_arrivals()
        return []

    def _wait(self, timeout: float | None) -> None:
        conductor = self._conductor
        me = conductor.me
        if self._arrivals:
            first = max(self._arrivals[0][0] - conductor.now, 0.0) * me.process.rate
            timeout = first if timeout is None else min(timeout, first)
        self._waiting = me
        try:
            conductor.block("its loop", timeout)
        finally:
            self._waiting = None

    def _is_due(self) -> bool:
        return bool(self._arrivals) and self._arrivals[0][0] <= self._conductor.now + RESOLUTION_S

    def arrive_at(self, when: float, do: Callable[[], None], context: Context) -> None:
        """Call a function in this loop at a time of the world. Callable from any node.

        Args:
            when: The time.
            do: What is called.
            context: The context it is called in: one of the loop's machine, not that of the caller.
        """
        heapq.heappush(self._arrivals, (when, next(self._numbers), do, context))
        if self._waiting is not None:
            self._conductor.wake_at(self._waiting, when)

    def _take_arrivals(self) -> None:
        while self._is_due():
            _, _, do, context = heapq.heappop(self._arrivals)
            self._ready.append(events.Handle(do, (), self, context))  # type: ignore[attr-defined]  # of BaseEventLoop

    def _process_events(self, _events: object) -> None: ...

    def _write_to_self(self) -> None:
        self._rung = True
        if self._waiting is not None:
            self._conductor.wake(self._waiting)
            self._conductor.maybe()

    # -- what a simulated process does not have ------------------------------------------------------------

    def add_signal_handler(self, *_args: object) -> None:
        """Signals go to the real process."""

    def remove_signal_handler(self, _sig: int) -> bool:
        return False

    def add_reader(self, *_args: object) -> None:
        """A listener in memory is not read."""

    def remove_reader(self, _file: object) -> bool:
        return False

    # -- threads -------------------------------------------------------------------------------------------

    def run_in_executor(self, executor: Executor | None, func: Callable[..., T], *args: object) -> asyncio.Future[T]:
        """In a thread of this machine."""
        self._check_closed()  # type: ignore[attr-defined]  # of BaseEventLoop
        if executor is None:
            if self._has_ended_pool:
                raise RuntimeError("Executor shutdown has been called")
            if self._pool is None:
                self._pool = self.machine.pool(POOL_SIZE, "asyncio")
            executor = self._pool
        return futures.wrap_future(executor.submit(func, *args), loop=self)

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109, ARG002
        """Wait for its threads."""
        self._has_ended_pool = True
        pool, self._pool = self._pool, None
        if pool is None:
            return
        future = self.create_future()

        def end() -> None:
            pool.shutdown(wait=True)
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self.call_soon_threadsafe(future.set_result, None)

        self.machine.thread(end, name="asyncio-ends").start()
        await future

    # -- network -------------------------------------------------------------------------------------------

    async def getaddrinfo(  # type: ignore[override]  # sockets are not looked up
        self, host: str | None, port: str | int | None, **_options: object
    ) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        """Names of the simulated network."""
        return self._network.addresses(str(host), int(port or 0))

    async def create_connection(  # type: ignore[override]  # only what is simulated
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        **options: object,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Connect to a listener of any node. Raises OSError; LeakError for TLS and real sockets."""
        if options.get("ssl") is not None or host is None or port is None:
            raise LeakError("a world used TLS or a real socket: the simulated network has neither")
        return await self._network.connect(self, protocol_factory, host, port)

    async def create_server(  # type: ignore[override]  # only what is simulated
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        *,
        sock: SimListener | None = None,
        **_options: object,
    ) -> SimListener:
        """Accept connections of a listener that `Machine.listen` made."""
        if sock is None:
            sock = self._network.listen(self.node, str(host), int(port or 0))
        return self._network.serve(self, sock, protocol_factory)

    @property
    def _network(self) -> SimNetwork:
        if self._wires is None:
            raise LeakError(f"{self.node} has no network")
        return self._wires


def run(loop: ActorLoop, main: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`, without its signal handlers: also cancels the tasks that are left, and ends the pool."""
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(main)
    finally:
        try:
            _cancel_all(loop)
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            asyncio.set_event_loop(None)
            loop.close()


def _cancel_all(loop: ActorLoop) -> None:
    # A set, ordered by hash: cancelled in the order of their names, which are numbered.
    tasks = sorted(asyncio.all_tasks(loop), key=lambda task: (len(task.get_name()), task.get_name()))
    if not tasks:
        return
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    for task in tasks:
        if not task.cancelled() and task.exception() is not None:
            loop.call_exception_handler(
                {"message": "unhandled exception during shutdown", "exception": task.exception(), "task": task}
            )
