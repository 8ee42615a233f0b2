"""An event loop for async handlers of workflows, beside the threads that execute runs."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any
from weakref import WeakSet

from headwater.errors import TransitionError
from headwater.machine import CancelledError, Thread, machine
from headwater.runtime.error_report import log
from headwater.runtime.workflows.timed_call import ElapsedError


class _HandlerLoops:
    """State of the process."""

    def __init__(self) -> None:
        self.open: WeakSet[asyncio.AbstractEventLoop] = WeakSet()


def handler_loops() -> WeakSet[asyncio.AbstractEventLoop]:
    """The loops of all spaces. Code in them is part of a workflow run, in the space of that run."""
    return machine().state(_HandlerLoops).open


class Loop:
    """An event loop for async handlers, in a thread of its own; made when one is needed."""

    def __init__(self) -> None:
        self._lock = machine().lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None

    def run(self, work: Coroutine[Any, Any, Any], seconds: float) -> Any:  # noqa: ANN401  # what it comes to
        """Run a coroutine to its end. After `seconds` it is cancelled; ElapsedError is raised when it has ended.

        Not before, because until then it may still act. If it returns a result nevertheless, that is the result.
        """
        future = machine().submit(self._started(), _bounded(work, seconds))
        try:
            result, error = future.result()
        except CancelledError:
            # Cancelled by `close` only.
            raise TransitionError("the host ends before this call has ended", stopped=True) from None
        except BaseException:
            future.cancel()
            raise
        if error is not None:
            raise error
        return result

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = machine().new_loop()
                handler_loops().add(self._loop)
                self._thread = machine().thread(self._loop.run_forever, name="headwater-async")
                self._thread.start()
            return self._loop

    def close(self) -> None:
        """Stop the loop. Its tasks are cancelled."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        with_all = machine().submit(loop, _cancel_all())
        try:
            with_all.result(1)
        except TimeoutError:
            log.warning("an async handler does not end; it is left behind")
        loop.call_soon_threadsafe(loop.stop)
        thread.join(1)
        if not thread.is_alive():
            loop.close()


async def _bounded(work: Coroutine[Any, Any, Any], seconds: float) -> tuple[Any, BaseException | None]:
    task = asyncio.ensure_future(_caught(work))
    done, _ = await asyncio.wait({task}, timeout=seconds)
    if not done:
        task.cancel()
        await asyncio.wait({task})
    if not task.cancelled():
        return task.result()
    return None, CancelledError("it was cancelled") if done else ElapsedError()


async def _caught(work: Coroutine[Any, Any, Any]) -> tuple[Any, BaseException | None]:
    """Return errors that would end the loop, and with it all other tasks, like any other error."""
    try:
        return await work, None
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001  # raised again, where it was waited for
        return None, error


async def _cancel_all() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
