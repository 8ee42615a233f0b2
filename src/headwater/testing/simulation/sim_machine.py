"""The machine of one simulated process: threads, time, chance, files and loops of a world instead of the real ones.

Everything of the product that runs on it runs unchanged: it asks `headwater.machine.machine()` for these things only.
"""

from __future__ import annotations

import asyncio
import random
import socket
import time
from asyncio import AbstractEventLoop
from collections.abc import Callable, Coroutine
from typing import Any, Final, ParamSpec, TypeVar, cast

from headwater.machine import Executor, Files, Future, Lock, Machine, Thread, ThreadCondition, ThreadEvent, ThreadQueue
from headwater.testing.simulation.actor_loop import ActorLoop, run
from headwater.testing.simulation.conductor import Conductor, LeakError, SimProcess
from headwater.testing.simulation.sim_network import SimNetwork
from headwater.testing.simulation.sim_threads import (
    SimCondition,
    SimEvent,
    SimFuture,
    SimLock,
    SimPool,
    SimQueue,
    SimRLock,
    SimThread,
)

T = TypeVar("T")
P = ParamSpec("P")

START_S: Final = 1_700_000_000.0
"""Wall time at the start of a world."""

LOOP_POOL: Final = 32
"""Threads of a loop's own pool, as asyncio has on a large machine."""


class SimMachine(Machine):
    """One simulated process.

    Args:
        name: The name of the node.
        conductor: The conductor of the world.
        files: The node's file system.
        network: The network of the world.
        seed: The seed of the node's randomness: each life of a node needs another.
        skew: Seconds by which its wall clock is wrong.
        rate: The speed of its clocks.
    """

    def __init__(
        self,
        name: str,
        conductor: Conductor,
        *,
        files: Files,
        network: SimNetwork | None = None,
        seed: object = 0,
        skew: float = 0.0,
        rate: float = 1.0,
    ) -> None:
        """A process that has just started."""
        self.name = name
        self.conductor = conductor
        self.network = network
        self.sim_process = SimProcess(name, rate)
        self.skew = skew
        self._rng = random.Random(f"ids-{name}-{seed}")
        # Clocks since the rate was last changed: virtual time, monotonic time.
        self._rated_at = (conductor.now, conductor.now)
        self._pid = 1_000 + self._rng.randrange(30_000)
        super().__init__()
        self.files = files

    def set_rate(self, rate: float) -> None:
        """Let the clocks go faster or slower from now on.

        Args:
            rate: Seconds of this process for each virtual second.
        """
        self._rated_at = (self.conductor.now, self.monotonic())
        self.sim_process.rate = rate

    # -- threads -------------------------------------------------------------------------------------------

    def lock(self) -> Lock:
        return SimLock(self.conductor)

    def rlock(self) -> Lock:
        return SimRLock(self.conductor)

    def event(self) -> ThreadEvent:
        return SimEvent(self.conductor)

    def condition(self) -> ThreadCondition:
        return SimCondition(self.conductor)

    def queue(self) -> ThreadQueue[Any]:
        return SimQueue(self.conductor)

    def future(self) -> Future[Any]:
        return SimFuture(self.conductor)

    def thread(self, target: Callable[..., object], *, name: str, args: tuple[Any, ...] = ()) -> Thread:
        return SimThread(self.conductor, self.sim_process, lambda: self._inside(target, *args), name)

    def current_thread(self) -> Thread:
        actor = self.conductor.me
        if not isinstance(actor.thread, SimThread):
            # An actor that the world started.
            actor.thread = found = SimThread(self.conductor, self.sim_process, lambda: None, actor.name)
            found._actor = actor  # noqa: SLF001  # its own thread
        return actor.thread

    def is_main_thread(self) -> bool:
        # No signals are delivered in a world.
        return False

    def thread_id(self) -> int:
        return self.conductor.me.number

    def process_id(self) -> int:
        return self._pid

    def is_process(self, pid: int) -> bool:
        return pid == self._pid

    def pipe(self) -> tuple[int, int]:
        raise OSError("a simulated machine has no pipes")

    def pool(self, size: int, name: str) -> Executor:
        return SimPool(size, name, self.conductor, self._spawn)

    def _spawn(self, target: Callable[[], object], name: str) -> None:
        self.thread(target, name=name).start()

    # -- event loops ---------------------------------------------------------------------------------------

    def send_now(self, transport: asyncio.Transport, data: bytes) -> int:
        transport.write(data)
        return len(data)

    def new_loop(self) -> ActorLoop:
        return ActorLoop(self, self.name, self.conductor, self.network)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        return run(self.new_loop(), main)

    def submit(self, loop: AbstractEventLoop, work: Coroutine[Any, Any, T]) -> Future[T]:
        future: Future[T] = SimFuture(self.conductor)

        def begin() -> None:
            try:
                asyncio.futures._chain_future(  # type: ignore[attr-defined]  # noqa: SLF001  # as run_coroutine_threadsafe
                    asyncio.ensure_future(work, loop=loop), future
                )
            except BaseException as error:
                if future.set_running_or_notify_cancel():
                    future.set_exception(error)
                raise

        loop.call_soon_threadsafe(begin)
        return future

    # -- ports ---------------------------------------------------------------------------------------------

    def address_of(self, host: str, port: int) -> tuple[str, int]:
        *_, (address, _) = self._has_network().addresses(host, port)[0]
        return address, 0

    def listen(self, address: str, port: int, *, family: int, backlog: int) -> socket.socket:  # noqa: ARG002  # as Machine has it
        return cast("socket.socket", self._has_network().listen(self.name, address, port))

    def _has_network(self) -> SimNetwork:
        if self.network is None:
            raise LeakError(f"{self.name} has no network")
        return self.network

    # -- time ----------------------------------------------------------------------------------------------

    def monotonic(self) -> float:
        at, was = self._rated_at
        return was + (self.conductor.now - at) * self.sim_process.rate

    def steady_ms(self) -> float:
        return self.monotonic() * 1000

    def time(self) -> float:
        return START_S + self.monotonic() + self.skew

    def now_ms(self) -> int:
        return int(self.time() * 1000)

    def local_time(self, seconds: float, form: str = "%Y-%m-%d %H:%M:%S") -> str:
        return time.strftime(form, time.gmtime(seconds))

    def sleep(self, seconds: float) -> None:
        self.conductor.sleep(seconds)

    # -- chance --------------------------------------------------------------------------------------------

    def random(self) -> float:
        return self._rng.random()

    def token_bytes(self, size: int) -> bytes:
        return self._rng.randbytes(size)
