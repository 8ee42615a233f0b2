"""Runs requests: in the event loop of an async space, or in a loop of their own beside a plain one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from typing import Final

from headwater.cells.context import CONTEXT
from headwater.cells.context_frame import ContextFrame
from headwater.cells.space_port import SpacePort
from headwater.declare.resources.resource_instance import ResourceRequest
from headwater.host.loop_thread import Loop
from headwater.runtime.error_report import log
from headwater.runtime.host_parts import ResourceParts
from headwater.runtime.resources.fetcher import Fetcher

PATIENCE_S: Final = 1.0
"""How long closing waits for cancelled requests to clean up. A request that does not end then is abandoned."""


class BesideLoop(Loop):
    """An event loop in a thread of its own, for a space whose code has none."""

    def started(self) -> asyncio.AbstractEventLoop:
        """The loop, running."""
        return self._started()


class LoopRequests:
    """Runs the requests of one space. `landed` is called in the loop with each ended request."""

    def __init__(
        self, home: SpacePort, loop: Callable[[], asyncio.AbstractEventLoop], landed: Callable[[ResourceRequest], None]
    ) -> None:
        self._home = home
        self._loop = loop
        self._landed = landed
        self._tasks: dict[ResourceRequest, asyncio.Task[None]] = {}

    def prepare(self) -> None:
        """Start the loop, if there is none. The caller holds the lock."""
        self._loop()

    def start(self, request: ResourceRequest) -> None:
        """Start a request. From any thread."""
        with suppress(RuntimeError):
            # The loop is closed.
            self._loop().call_soon_threadsafe(self._launch, request)

    def cancel(self, request: ResourceRequest) -> None:
        """Cancel a request; its end is reported nevertheless. From any thread."""
        with suppress(RuntimeError):
            self._loop().call_soon_threadsafe(self._cancel, request)

    def _cancel(self, request: ResourceRequest) -> None:
        task = self._tasks.get(request)
        if task is not None:
            task.cancel()

    def _launch(self, request: ResourceRequest) -> None:
        if request.is_stopped:
            self._landed(request)
            return
        # The context of the code that reads a resource is not the context of its request.
        context = Context()
        context.run(CONTEXT.set, ContextFrame(self._home, None, None))
        task = self._loop().create_task(_perform(request), name=request.source.label, context=context)
        self._tasks[request] = task
        task.add_done_callback(lambda _: self._land(request))

    def _land(self, request: ResourceRequest) -> None:
        self._tasks.pop(request, None)
        self._landed(request)

    def is_inside(self) -> bool:
        """Whether this code is part of a request."""
        return asyncio.current_task() in self._tasks.values()

    async def end(self) -> None:
        """Cancel all requests, and let them clean up. In the loop."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            _, left = await asyncio.wait(tasks, timeout=PATIENCE_S)
            for task in left:
                log.warning("the request %s does not end although it was cancelled; it is left behind", task.get_name())


async def _perform(request: ResourceRequest) -> None:
    asking = request.source.request_options
    limit = asking.timeout_ms
    timer = asyncio.timeout(None if limit is None else limit / 1000)
    try:
        async with timer:
            request.value = await request.source.call()
    except asyncio.CancelledError as stop:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        error = RuntimeError(f"{request.source.label} waited for something that was cancelled")
        error.__cause__ = stop
        request.error = error
    except TimeoutError as error:
        message = f"{request.source.label} did not answer within {limit or 0:g} ms"
        request.error = TimeoutError(message) if timer.expired() else error
    except BaseException as error:  # noqa: BLE001  # whatever an author's function raises is the author's
        # Also errors that end a program: they would end the loop, which all requests share.
        request.error = error


RESOURCE_PARTS: Final = ResourceParts(fetcher=Fetcher, runner=LoopRequests, thread=BesideLoop)
