"""How the node of a declared function asks for the fingerprint of the function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from headwater.declare.functions.fingerprint import Fingerprints


class Fingerprinted(Protocol):
    """A declared function."""

    @property
    def __wrapped__(self) -> Callable[..., object]: ...

    def fingerprint_by(self, fingerprints: Fingerprints) -> bytes:
        """Its fingerprint: the code, and everything besides documents that its results depend on."""
        ...


class FunctionFingerprint:
    """Asks for the fingerprint of a declared function in one session: until the answer is final, then nodes have it."""

    __slots__ = ("_fingerprints", "_function", "is_final")

    def __init__(self, function: Fingerprinted, fingerprints: Fingerprints) -> None:
        self._function = function
        self._fingerprints = fingerprints
        # Whether the last answer will not change in this session (`Node.taken_fingerprint`).
        self.is_final: bool = False

    def __call__(self) -> bytes:
        found = self._function.fingerprint_by(self._fingerprints)
        self.is_final = self._fingerprints.is_final(self._function.__wrapped__)
        return found
