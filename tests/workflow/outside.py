"""A service outside, as unreliable as they are: it counts what it has done, and nobody else can be asked about that."""

from __future__ import annotations

from collections import Counter

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
        match mode:
            case "applies":
                return self._do(key, ids)
            case "says so":
                return hw.Applied(self._do(key, ids))
            case "refuses":
                self._fenced.add(key)
                raise hw.TransientError("busy", definite=True)
            case "is not allowed":
                self._fenced.add(key)
                raise hw.ApprovalError("signed out", service="outside", definite=True)
            case "did not":
                self._fenced.add(key)
                return hw.NotApplied("nothing was done")
            case "applies, then breaks":
                self._do(key, ids)
                raise Broken("connection reset")
            case "breaks":
                raise Broken("connection refused")
            case "applies late":
                self.late[key] = ids
                raise TimeoutError("no answer")
            case "cannot tell":
                self._do(key, ids)
                return hw.Unknown("ask later")
            case "applies, and says nonsense":
                self._do(key, ids)
                return object()
            case _:
                raise AssertionError(mode)

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


MODES = [
    "applies",
    "says so",
    "refuses",
    "is not allowed",
    "did not",
    "applies, then breaks",
    "breaks",
    "applies late",
    "cannot tell",
    "applies, and says nonsense",
]
