"""Async functions in progress: each in a task, in its transaction; waiting callers are notified at the end.

The scheduler knows the reads of a function whenever it waits. The end of a task only records the result: the space
takes it in between two awaits, in its next pass.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import Any, Literal, TypeAlias, cast

from headwater.cells.context import CONTEXT
from headwater.cells.context_frame import ContextFrame
from headwater.declare.functions.invocation import Invocation
from headwater.host.console_capture import console
from headwater.runtime.space_runtime import SpaceRuntime
from headwater.scheduler.runs.attempt import Call
from headwater.scheduler.runs.immediate_retry import RetryImmediately

Landing: TypeAlias = Literal["ended", "cancelled", "again"]
"""By itself; stopped from outside; or it asks to be run again."""


class Watched:
    """A coroutine that calls back whenever it waits."""

    __slots__ = ("_coroutine", "_on_wait")

    def __init__(self, coroutine: Coroutine[Any, Any, object], on_wait: Callable[[], None]) -> None:
        self._coroutine = coroutine
        self._on_wait = on_wait

    def __await__(self) -> Generator[Any, Any, object]:
        coroutine = self._coroutine
        sent: Any = None
        raised: BaseException | None = None
        try:
            while True:
                try:
                    waits_for = coroutine.send(sent) if raised is None else coroutine.throw(raised)
                except StopIteration as end:
                    return end.value
                self._on_wait()
                sent, raised = None, None
                try:
                    sent = yield waits_for
                except BaseException as error:  # noqa: BLE001  # passed on to the waiting caller
                    raised = error
        finally:
            coroutine.close()


class AsyncRuns:
    """The async attempts of one space."""

    def __init__(
        self, runtime: SpaceRuntime, loop: asyncio.AbstractEventLoop, context: Context, tell: Callable[[], None]
    ) -> None:
        self._runtime = runtime
        self._console = console()
        self._loop = loop
        self._context = context
        self._tell = tell
        self._tasks: dict[Call, asyncio.Task[None]] = {}
        # Requested by threads, and not started by the loop yet.
        self._asked: deque[Call] = deque()
        # Cancelled: once only, also if the cleanup takes long.
        self._stopping: set[Call] = set()
        self._ended = False
        # For the space to take in: attempts that wait again, and ended attempts with how they ended.
        self.waits: deque[Call] = deque()
        self.landed: deque[tuple[Call, Landing]] = deque()

    def __bool__(self) -> bool:
        return bool(self._tasks or self.landed or self._asked)

    def start(self, attempt: Call) -> None:
        """Start an attempt. From any thread: the first caller of a value starts it."""
        attempt.suspended = True
        if self._ended:
            # The space is being closed: the attempt would be cancelled at once.
            return
        attempt.stop = lambda: self._cancel(attempt)
        if _is_running_here(self._loop):
            self._launch(attempt)
        else:
            self._asked.append(attempt)
            self._tell()

    def launch(self) -> None:
        """Start attempts that threads have requested. In the loop, with the lock."""
        while self._asked:
            self._launch(self._asked.popleft())

    def _launch(self, attempt: Call) -> None:
        # A task that is cancelled before its first step never reports how it ended.
        how: list[Landing] = ["cancelled"]
        # The context of the code that requests a pass is not the context of the functions that run in it.
        task = self._loop.create_task(self._fly(attempt, how), name=attempt.title, context=self._context.copy())
        self._tasks[attempt] = task
        task.add_done_callback(lambda task: self._land(attempt, task, how[0]))
        if attempt in self._stopping:
            task.cancel()

    def _land(self, attempt: Call, task: asyncio.Task[None], how: Landing) -> None:
        del self._tasks[attempt]
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, KeyboardInterrupt | SystemExit):
            # These end the loop. Other errors that are not the author's go to the loop's exception handler.
            self._loop.call_exception_handler({"message": f"{attempt.title} raised", "exception": error})
        if attempt in self._stopping:
            # Whatever the function did after it was cancelled: an incomplete result does not count.
            self._stopping.remove(attempt)
            how = "cancelled"
        if how != "cancelled" or not self._ended:
            self.landed.append((attempt, how))
        self._tell()

    def _cancel(self, attempt: Call) -> None:
        """Cancel from any thread. A closed loop has cancelled the task already."""
        is_under_way = attempt in self._tasks or attempt in self._asked
        if is_under_way and attempt not in self._stopping and not self._loop.is_closed():
            self._stopping.add(attempt)
            self._loop.call_soon_threadsafe(self._stop, attempt)

    def _stop(self, attempt: Call) -> None:
        task = self._tasks.get(attempt)
        if task is not None:
            task.cancel()

    async def _fly(self, attempt: Call, how: list[Landing]) -> None:
        home = self._runtime.home_of(attempt)
        if self._console.listeners:
            self._console.run_begins(home)
        CONTEXT.set(ContextFrame(home, attempt.tx, None))
        limit = attempt.timeout_ms
        timer = asyncio.timeout(None if limit is None else limit / 1000)
        try:
            async with timer:
                coroutine = cast("Coroutine[Any, Any, object]", attempt.fn(*attempt.arguments))
                attempt.result = await Watched(coroutine, lambda: self._wait(attempt))
            if type(attempt.result) is Invocation:
                attempt.result = home.start_returned(attempt, attempt.result)
            how[0] = "ended"
        except asyncio.CancelledError as stop:
            task = asyncio.current_task()
            if task is not None and not task.cancelling():
                # The task was not cancelled itself: something that it waited for was.
                error = RuntimeError(f"{attempt.title} waited for something that was cancelled")
                error.__cause__ = stop
                attempt.error = error
                how[0] = "ended"
        except RetryImmediately:
            how[0] = "again"
        except TimeoutError as error:
            title = attempt.title
            attempt.error = TimeoutError(f"{title} did not end within {limit:g} ms") if timer.expired() else error
            how[0] = "ended"
        except Exception as error:  # noqa: BLE001  # whatever an author's function raises is the author's
            attempt.error = error
            how[0] = "ended"
        finally:
            if self._console.listeners:
                self._console.run_ends(attempt.tx)

    def _wait(self, attempt: Call) -> None:
        self.waits.append(attempt)
        self._tell()

    def is_inside(self) -> bool:
        """Whether this code is part of an attempt in progress."""
        return asyncio.current_task() in self._tasks.values()

    async def next_landing(self) -> None:
        """Wait until an attempt has ended."""
        if self._tasks and not self.landed:
            await asyncio.wait(list(self._tasks.values()), return_when=asyncio.FIRST_COMPLETED)

    async def end(self, home: object = None) -> None:
        """Cancel all attempts, start no more, and wait for their end. Those that ended before are still taken in.

        `home`: only those of one opening, while others go on.
        """
        if home is not None:
            await self._end_of(home)
            return
        self._ended = True
        self._asked.clear()
        self._stopping.update(attempt for attempt, task in self._tasks.items() if not task.done())
        while self._tasks:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.wait(list(self._tasks.values()))
        self.waits.clear()

    async def _end_of(self, home: object) -> None:
        """Cancel the attempts of an opening, and wait for their end. The next pass takes them in."""
        while True:
            own = {attempt: task for attempt, task in self._tasks.items() if self._runtime.home_of(attempt) is home}
            if not own:
                return
            self._stopping.update(attempt for attempt, task in own.items() if not task.done())
            for task in own.values():
                task.cancel()
            await asyncio.wait(list(own.values()))


def _is_running_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
