"""An event loop in simulated time.

While anything is ready, its clock stands still; then it jumps to the next timer. Work for threads runs in the loop
itself, one piece after another, so two runs of a program do the same in the same order. Other threads can wake the loop
with `call_soon_threadsafe`. It waits for them in real time only if nothing is ready and no timer is set.
"""

from __future__ import annotations

import asyncio
import threading
from asyncio.base_events import BaseEventLoop
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

PATIENCE_S: Final = 10.0
"""Real seconds to wait for another thread when nothing else can happen."""

RESOLUTION_S: Final = 1e-6
"""The resolution of timers. A finer one would be lost in the rounding of large times, and the loop would spin."""


class StuckError(RuntimeError):
    """Nothing is ready, no timer is set, and no thread wakes the loop: it would wait for ever."""


class SimLoop(BaseEventLoop):
    """An event loop under simulated time. Its clock begins at zero, and it has no network.

    Use it as `asyncio.Runner(loop_factory=SimLoop)`, or through `simulate`.

    Args:
        patience_s: How long, in real seconds, it waits for a thread when nothing else is left to do.
    """

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        super().__init__()
        self._now = 0.0
        self._patience_s = patience_s
        self._rung = threading.Event()
        self._clock_resolution = RESOLUTION_S
        # The loop is its own selector.
        self._selector = self

    def time(self) -> float:
        """The simulated seconds since the loop began."""
        return self._now

    def now_ms(self) -> float:
        """The simulated milliseconds since the loop began."""
        return self._now * 1000

    # -- what asyncio asks of a loop -----------------------------------------------------------------------

    def select(self, timeout: float | None) -> list[object]:
        """Called when nothing is ready, with the time to the next timer. Only threads can wake the loop."""
        if self._rung.is_set():
            self._rung.clear()
        elif timeout is not None:
            self._now += timeout
        elif not self._rung.wait(self._patience_s):
            raise StuckError(
                f"at {self._now:.6f} s nothing is ready, no timer is set, and no thread has woken the loop"
            )
        else:
            self._rung.clear()
        return []

    def _process_events(self, _events: object) -> None:
        pass

    def _write_to_self(self) -> None:
        self._rung.set()

    def run_in_executor(self, _executor: object, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Run the function here, in its turn. A thread that waits for the loop would wait for ever."""
        future: asyncio.Future[T] = self.create_future()

        def work() -> None:
            if future.cancelled():
                return
            try:
                result = func(*args)
            except Exception as error:  # noqa: BLE001  # handed to the future
                future.set_exception(error)
            else:
                future.set_result(result)

        self.call_soon(work)
        return future


def simulate(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a `SimLoop`, as `asyncio.run`, without waiting for time to pass.

    Args:
        main: The coroutine.

    Returns:
        The result of the coroutine.

    Example:
        ```python
        import asyncio
        from headwater.testing import simulate


        async def main() -> str:
            await asyncio.sleep(3600)
            return "an hour later"


        print(simulate(main()))  # an hour later
        ```
    """
    with asyncio.Runner(loop_factory=SimLoop) as runner:
        return runner.run(main)
