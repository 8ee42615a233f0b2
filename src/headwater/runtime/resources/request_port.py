"""What the host provides for requests of resources: a runner, and an event loop in a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from headwater.declare.resources.resource_instance import ResourceRequest

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop


class RequestRunner(Protocol):
    """Runs requests of resources in an event loop."""

    def prepare(self) -> None:
        """Make the loop, if there is none. The caller holds the lock of the space."""

    def start(self, request: ResourceRequest) -> None:
        """Run a request. From any thread."""

    def cancel(self, request: ResourceRequest) -> None:
        """Cancel a request; its end is reported all the same. From any thread."""

    def is_inside(self) -> bool:
        """Whether this code is that of a request."""

    async def end(self) -> None:
        """Cancel all, and let them clean up. In the loop."""


class RequestThread(Protocol):
    """An event loop in a thread of its own, for the requests of a space whose code has none."""

    def started(self) -> AbstractEventLoop:
        """The loop, running."""

    def close(self) -> None:
        """Stop the loop. Its tasks are cancelled."""
