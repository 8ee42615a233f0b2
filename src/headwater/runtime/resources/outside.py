"""The part of a runtime for resources, clocks and timers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from headwater.declare.resources.resource_instance import ResourceInstance, ResourceRequest
from headwater.declare.resources.resource_port import ResourcePort
from headwater.runtime.host_parts import RequestRunner, Requests
from headwater.runtime.options import Options
from headwater.runtime.resources.fetching_port import FetchingPort
from headwater.runtime.timers import Timers

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from headwater.runtime.resources.fetcher import Fetcher
    from headwater.runtime.resources.ticking import Ticking


class OutsideParts(FetchingPort, ResourcePort):
    """What both kinds of open spaces have of it. Each kind says where requests run, and how it is woken."""

    _has_parts: bool

    def _face(self, options: Options, requests: Requests) -> None:
        self._requests = requests
        self.timers: Timers = Timers(options.now, options.wall)
        self.jitter: Callable[[], float] = options.jitter
        self._fetcher: Fetcher | None = None
        # By how often they tick, in milliseconds.
        self.clocks: dict[float, Ticking] = {}

    @property
    def fetcher(self) -> Fetcher:
        """What asks for resources here."""
        return self._fetcher or self._made_fetcher()

    @property
    def fetching(self) -> Fetcher | None:
        """Whoever asks the outside here; None if nobody does."""
        return self._fetcher

    def _made_fetcher(self) -> Fetcher:
        from headwater.runtime.resources.fetcher import Fetcher  # noqa: PLC0415  # most programs have none

        with self.lock:
            if self._fetcher is None:
                self._fetcher = Fetcher(self)
                self._has_parts = True
            return self._fetcher

    @property
    def resources(self) -> list[object]:
        """Those that are declared here, and those that were called."""
        return [] if self._fetcher is None else self._fetcher.resources

    def source_of(self, node: object) -> ResourceInstance | None:
        """What a node stands for, if that is a resource with its arguments."""
        return None if self._fetcher is None else self._fetcher.source_of(node)

    # -- each kind of space --------------------------------------------------------------------------------

    @abstractmethod
    def request_loop(self) -> AbstractEventLoop:
        """Where requests run."""

    def request_runner(self, finished: Callable[[ResourceRequest], None]) -> RequestRunner:
        return self._requests(self, self.request_loop, finished)

    @abstractmethod
    def when_on_disk(self, then: Callable[[BaseException | None], None]) -> None:
        """Call when all that was written so far is on disk, or taken back; by whichever thread comes to know."""

    def has_rejected_none(self, since: int) -> bool:  # noqa: ARG002  # as a plain space has it
        """Whether nothing was taken back since so much was: told at once, by any thread. If that cannot be, no."""
        return False

    def wake(self) -> None:
        """Something came from outside: have it taken in. By any thread."""
        self.catch_up_soon()

    # -- passes --------------------------------------------------------------------------------------------

    @property
    def has_come(self) -> bool:
        """Something came from outside, or is to be looked at."""
        return self._fetcher is not None and self._fetcher.has_news

    def _take_in_outside(self) -> None:
        """At the beginning of a pass: what came, and what is due."""
        if self._fetcher is not None:
            self._fetcher.take_in()
            self._fetcher.expire()
        self.timers.fire()

    def _look_outside(self) -> None:
        """At its end: ask for what is wanted now."""
        if self._fetcher is not None:
            self._fetcher.look()
        if self.clocks:
            self.rest_clocks()

    def clock_of(self, every_ms: float) -> Ticking:
        """The clock with this interval, made at its first use."""
        from headwater.runtime.resources.ticking import Ticking  # noqa: PLC0415  # most programs have none

        found = self.clocks.get(every_ms)
        if found is None:
            with self.lock:
                found = self.clocks.get(every_ms) or Ticking(self.scheduler, self.timers, every_ms)
                self.clocks[every_ms] = found
                self._has_parts = True
        return found

    def rest_clocks(self) -> None:
        """Nothing is at work: whoever has read a clock that nobody looks at reads it again when it is called."""
        for ticking in list(self.clocks.values()):
            ticking.rest()
