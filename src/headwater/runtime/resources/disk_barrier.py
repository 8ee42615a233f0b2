"""An entry of the storage's queue that only reports when everything before it is decided."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headwater.errors import HeadwaterError
from headwater.store.commit import Operation, Tables, Verdict
from headwater.values.ids import DocKey
from headwater.values.tree import Maybe


class Waiting:
    """Calls `then` when everything submitted before is decided, and accepted commits are on disk."""

    def __init__(self, then: Callable[[BaseException | None], None]) -> None:
        self._then: Callable[[BaseException | None], None] | None = then

    def apply(self, _tables: Tables, _look: Callable[[DocKey], Maybe]) -> Sequence[Operation]:
        """Nothing."""
        return ()

    def decided(self, _verdict: Verdict | None, error: HeadwaterError | None) -> None:
        """Called by the deciding thread; after an interruption perhaps again, which has no effect."""
        then, self._then = self._then, None
        if then is not None:
            then(error)
