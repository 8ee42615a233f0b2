"""An event loop for async handlers of workflows, beside the threads that execute runs.

Must never know: runs.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

from headwater.host.report import log


class Loop:
    """An event loop for async handlers, in a thread of its own; made when one is needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, work: Coroutine[Any, Any, Any], seconds: float) -> Any:  # noqa: ANN401  # what it comes to
        """To its end, or for so long: then it is cancelled, and TimeoutError raised."""
        future = asyncio.run_coroutine_threadsafe(work, self._started())
        try:
            return future.result(seconds)
        except BaseException:
            future.cancel()
            raise

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="headwater-async", daemon=True)
                self._thread.start()
            return self._loop

    def close(self) -> None:
        """Stop it. What is under way in it is cancelled."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        with_all = asyncio.run_coroutine_threadsafe(_cancel_all(), loop)
        try:
            with_all.result(1)
        except TimeoutError:
            log.warning("an async handler does not end; it is left behind")
        loop.call_soon_threadsafe(loop.stop)
        thread.join(1)
        if not thread.is_alive():
            loop.close()


async def _cancel_all() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
