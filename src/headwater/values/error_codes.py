"""The error class of a code: refusals travel with their code, and are raised as that class."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.errors import HeadwaterError


def class_of(code: str) -> type[HeadwaterError] | None:
    """The class that a code names; None if this version has no such code, or the class is no error of its own."""
    return next((kind for kind in _below(HeadwaterError) if kind.__dict__.get("code") == code), None)


def _below(kind: type[HeadwaterError]) -> Iterator[type[HeadwaterError]]:
    for below in kind.__subclasses__():
        yield below
        yield from _below(below)
