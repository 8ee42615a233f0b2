"""The part of a runtime for resources, clocks and timers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from headwater.declare.resources.resource_instance import ResourceInstance, ResourceRequest
from headwater.declare.resources.resource_port import ResourcePort
from headwater.runtime.host_parts import ResourceParts
from headwater.runtime.options import Options
from headwater.runtime.resources.fetching_port import FetchingPort
from headwater.runtime.resources.request_port import RequestRunner
from headwater.runtime.resources.ticking import Ticking
from headwater.runtime.timers import Timers

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from headwater.runtime.resources.fetcher import Fetcher


class OutsideParts(FetchingPort, ResourcePort):
    """Shared by plain and async runtimes, which provide the event loop and the wake-up."""

    @abstractmethod
    def gained_parts(self) -> None:
        """The first resource or clock was made: passes ask this opening from now on. The caller holds the lock."""

    @abstractmethod
    def clock_suffix(self) -> str:
        """Distinguishes its clocks from those of other apps with the same scheduler."""

    def _face(self, options: Options, resource_parts: Callable[[], ResourceParts]) -> None:
        self._resource_parts = resource_parts
        self.timers: Timers = Timers(options.now, options.wall)
        self.jitter: Callable[[], float] = options.jitter
        self._fetcher: Fetcher | None = None
        # By interval in milliseconds.
        self.clocks: dict[float, Ticking] = {}

    @property
    def fetcher(self) -> Fetcher:
        """The fetcher, made at its first use."""
        return self._fetcher or self._made_fetcher()

    @property
    def fetching(self) -> Fetcher | None:
        """The fetcher; None if there are no resources."""
        return self._fetcher

    def _made_fetcher(self) -> Fetcher:
        with self.lock:
            if self._fetcher is None:
                self._fetcher = self._resource_parts().fetcher(self)
                self.gained_parts()
            return self._fetcher

    @property
    def resources(self) -> list[object]:
        """Declared and called resources."""
        return [] if self._fetcher is None else self._fetcher.resources

    def source_of(self, node: object) -> ResourceInstance | None:
        """The resource instance of a node, if it is one."""
        return None if self._fetcher is None else self._fetcher.source_of(node)

    # -- each kind of space --------------------------------------------------------------------------------

    @abstractmethod
    def request_loop(self) -> AbstractEventLoop:
        """The event loop for requests."""

    def request_runner(self, finished: Callable[[ResourceRequest], None]) -> RequestRunner:
        return self._resource_parts().runner(self, self.request_loop, finished)

    @abstractmethod
    def when_on_disk(self, then: Callable[[BaseException | None], None]) -> None:
        """Call when everything written so far is on disk, or rolled back; from any thread."""

    def has_rejected_none(self, since: int) -> bool:  # noqa: ARG002  # as a plain space has it
        """Whether nothing was rolled back since the count was `since`; False if unknown. Never blocks."""
        return False

    # -- passes --------------------------------------------------------------------------------------------

    @property
    def has_come(self) -> bool:
        """Whether the outside has work for a pass."""
        return self._fetcher is not None and self._fetcher.has_news

    def _take_in_outside(self) -> None:
        """At the beginning of a pass: results and timers."""
        if self._fetcher is not None:
            self._fetcher.take_in()
            self._fetcher.expire()
        self.timers.fire()

    def _look_outside(self) -> None:
        """At its end: requests for observed resources."""
        if self._fetcher is not None:
            self._fetcher.look()
        if self.clocks:
            self.rest_clocks()

    def clock_of(self, every_ms: float) -> Ticking:
        """The clock with this interval, made at its first use."""
        found = self.clocks.get(every_ms)
        if found is None:
            with self.lock:
                found = self.clocks.get(every_ms) or Ticking(
                    self.scheduler, self.timers, every_ms, self, self.clock_suffix()
                )
                self.clocks[every_ms] = found
                self.gained_parts()
        return found

    def expire(self) -> None:
        """Invalidate readers of resources that went stale while not observed."""
        if self._fetcher is not None:
            self._fetcher.expire()

    def rest_clocks(self) -> None:
        """Idle: readers of clocks that are not observed become invalid, and read again when called."""
        for ticking in list(self.clocks.values()):
            ticking.rest()
