"""A service outside, as unreliable as they are: it counts what it has done, and nobody else can be asked about that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import headwater as hw


class Broken(Exception):  # noqa: N818  # as the author's code knows it
    """The connection broke: who called cannot know whether it happened."""


class Service:
    """Does something with ids, under a key, as often as it is told to."""

    def __init__(self) -> None:
        # By key, what it was called with: a second call with the same key is told.
        self.calls: dict[str, tuple[str, ...]] = {}
        self.done: list[tuple[str, tuple[str, ...]]] = []
        # On their way still.
        self.late: dict[str, tuple[str, ...]] = {}
        # Said to have not happened: from then on they cannot.
        self._fenced: set[str] = set()
        self.twice: list[str] = []

    def call(self, mode: str, key: str, ids: tuple[str, ...]) -> object:
        """One request. The mode says what becomes of it, and what the caller gets."""
        if key in self.calls:
            self.twice.append(key)
        self.calls[key] = ids
        if mode in _SURELY_NOT:
            # Nor will it: whoever refuses has ended it.
            self._fenced.add(key)
            return _SURELY_NOT[mode]()
        if mode == "applies late":
            self.late[key] = ids
            raise TimeoutError("no answer")
        if mode == "breaks":
            raise Broken("connection refused")
        count = self._do(key, ids)
        if mode == "applies, then breaks":
            raise Broken("connection reset")
        return _ANSWERS[mode](count)

    def _do(self, key: str, ids: tuple[str, ...]) -> int:
        self.done.append((key, ids))
        return len(ids)

    def arrive(self) -> None:
        """What was on its way is there, unless it was said that it will not be."""
        late, self.late = self.late, {}
        for key, ids in late.items():
            if key not in self._fenced:
                self._do(key, ids)

    def truth(self, key: str) -> hw.Applied[int] | hw.NotApplied:
        """What became of a call. Once it is said that nothing did, nothing will."""
        for done, ids in self.done:
            if done == key:
                return hw.Applied(len(ids))
        self._fenced.add(key)
        return hw.NotApplied()

    @property
    def effects(self) -> Counter[str]:
        """How often something was done about each id."""
        return Counter(one for _, ids in self.done for one in ids)


def _refuse() -> object:
    raise hw.TransientError("busy", definite=True)


def _lock_out() -> object:
    raise hw.ApprovalError("signed out", service="outside", definite=True)


_SURELY_NOT: dict[str, Callable[[], object]] = {
    "refuses": _refuse,
    "is not allowed": _lock_out,
    "did not": lambda: hw.NotApplied("nothing was done"),
}
_ANSWERS: dict[str, Callable[[int], object]] = {
    "applies": lambda count: count,
    "says so": hw.Applied,
    "cannot tell": lambda _: hw.Unknown("ask later"),
    "applies, and says nonsense": lambda _: object(),
}
MODES = [*_ANSWERS, *_SURELY_NOT, "applies, then breaks", "breaks", "applies late"]
