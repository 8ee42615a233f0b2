"""Something that stands in the queue of the storage and does nothing there but tell when its turn has come."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headwater.errors import HeadwaterError
from headwater.store.commit import Operation, Tables, Verdict
from headwater.values.ids import DocKey
from headwater.values.tree import Maybe


class Waiting:
    """All that was submitted before is decided, and what was accepted is on disk, when `then` is called."""

    def __init__(self, then: Callable[[BaseException | None], None]) -> None:
        self._then = then

    def apply(self, _tables: Tables, _look: Callable[[DocKey], Maybe]) -> Sequence[Operation]:
        """Nothing."""
        return ()

    def decided(self, _verdict: Verdict | None, error: HeadwaterError | None) -> None:
        """By whoever decides."""
        self._then(error)
