"""Async functions under way: each in a task, its transaction around it, and whoever waits for it told when it lands.

What a function has read is known to the scheduler whenever it waits. Landing only notes what came of it: the space
takes it in between two awaits, when it has its turn.

Must never know: which function runs when.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import Any, Literal, TypeAlias, cast

from headwater.cells.here import HERE, Frame
from headwater.cells.home import Home
from headwater.host.console import LISTENERS, run_begins, run_ends
from headwater.scheduler.runner import Attempt, RetryImmediately

Landing: TypeAlias = Literal["ended", "cancelled", "again"]
"""By itself; stopped from outside; or it asks to be run again."""


class Watched:
    """A coroutine that tells whenever it waits."""

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
                except BaseException as error:  # noqa: BLE001  # handed on: it is meant for whoever waits
                    raised = error
        finally:
            coroutine.close()


class Flights:
    """The async attempts of one space."""

    def __init__(self, home: Home, loop: asyncio.AbstractEventLoop, context: Context, tell: Callable[[], None]) -> None:
        self._home = home
        self._loop = loop
        self._context = context
        self._tell = tell
        self._tasks: dict[asyncio.Task[None], Attempt] = {}
        # For the space to take in: attempts that wait once more, and those that have landed, with how.
        self.waits: deque[Attempt] = deque()
        self.landed: deque[tuple[Attempt, Landing]] = deque()

    def __bool__(self) -> bool:
        return bool(self._tasks or self.landed)

    def start(self, attempt: Attempt) -> None:
        """Have it run; it goes on when it can."""
        attempt.suspended = True
        # What is around the code that asks for a pass is not around what runs in it.
        task = self._loop.create_task(self._fly(attempt), name=attempt.node.title, context=self._context.copy())
        self._tasks[task] = attempt
        attempt.cancel = lambda: self._cancel(task)  # type: ignore[method-assign]  # as it is meant

    def _cancel(self, task: asyncio.Task[None]) -> None:
        """From any thread; a loop that is closed has cancelled it already."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(task.cancel)

    async def _fly(self, attempt: Attempt) -> None:
        if LISTENERS:
            run_begins(self._home)
        HERE.set(Frame(self._home, attempt.tx, None))
        how: Landing = "ended"
        limit = attempt.node.spec.timeout_ms
        timer = asyncio.timeout(None if limit is None else limit / 1000)
        try:
            async with timer:
                coroutine = cast("Coroutine[Any, Any, object]", attempt.node.fn())
                attempt.result = await Watched(coroutine, lambda: self._wait(attempt))
        except asyncio.CancelledError:
            how = "cancelled"
        except RetryImmediately:
            how = "again"
        except TimeoutError as error:
            title = attempt.node.title
            attempt.error = TimeoutError(f"{title} did not end within {limit:g} ms") if timer.expired() else error
        except Exception as error:  # noqa: BLE001  # whatever an author's function raises is the author's
            attempt.error = error
        except BaseException:
            how = "cancelled"
            raise
        finally:
            task = asyncio.current_task()
            if task is not None:
                self._tasks.pop(task, None)
            attempt.suspended = False
            self.landed.append((attempt, how))
            self._tell()
            if LISTENERS:
                run_ends(attempt.tx)

    def _wait(self, attempt: Attempt) -> None:
        self.waits.append(attempt)
        self._tell()

    async def next_landing(self) -> None:
        """Until one has landed."""
        if self._tasks and not self.landed:
            await asyncio.wait(list(self._tasks), return_when=asyncio.FIRST_COMPLETED)

    async def end(self) -> None:
        """Stop all, and wait until they have stopped."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for task in tasks:
            # One that was stopped before its first step has said nothing.
            self._tasks.pop(task, None)
        self.landed.clear()
        self.waits.clear()
