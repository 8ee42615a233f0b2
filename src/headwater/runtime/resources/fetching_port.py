"""What the fetcher uses of an open space: its timers, its event loop, and the disk."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection

from headwater.declare.resources.resource_instance import ResourceRequest
from headwater.runtime.pass_port import PassPort
from headwater.runtime.resources.request_port import RequestRunner
from headwater.runtime.timers import Timers
from headwater.values.ids import DocKey


class FetchingPort(PassPort):
    """An open space, as its fetcher sees it."""

    timers: Timers
    jitter: Callable[[], float]

    @abstractmethod
    def request_runner(self, finished: Callable[[ResourceRequest], None]) -> RequestRunner:
        """Runs requests in the event loop of this space. `finished` is called in that loop, at the end of each."""

    @abstractmethod
    def when_on_disk(self, then: Callable[[BaseException | None], None]) -> None:
        """Call when everything written so far is decided, or cannot be; from any thread."""

    @abstractmethod
    def has_rejected_none(self, since: int) -> bool:
        """Whether nothing was rejected since the count was `since`; False if unknown. From any thread."""

    @property
    @abstractmethod
    def rejected_count(self) -> int:
        """All commits of the runtime that were rejected."""

    @property
    @abstractmethod
    def has_bad_news(self) -> bool:
        """Whether a rejection may wait to be taken in. The caller holds the lock."""

    @abstractmethod
    def wake(self) -> None:
        """Request a pass for a result from outside. From any thread."""

    @abstractmethod
    def release_documents(self, docs: Collection[DocKey]) -> None:
        """The store need not hold these documents any longer."""

    @abstractmethod
    def shrink(self) -> None:
        """Give back memory after many nodes have gone. The caller holds the lock."""
