"""Exceptions as authors write them by mistake, or to annoy: none of them can be shown in the usual way."""

from __future__ import annotations

from typing import Any, NoReturn


class NoStrError(Exception):
    """`str()` raises."""

    def __str__(self) -> str:
        return self.missing  # type: ignore[attr-defined, no-any-return]


class ExitingStrError(Exception):
    """`str()` and `repr()` raise what is no Exception."""

    def __str__(self) -> NoReturn:
        raise SystemExit(3)

    __repr__ = __str__


class InterruptedStrError(Exception):
    def __str__(self) -> NoReturn:
        raise KeyboardInterrupt


class NumberStrError(Exception):
    def __str__(self) -> str:
        return 3  # type: ignore[return-value]  # noqa: PLE0307


class Text(str):  # noqa: SLOT000  # as an author would
    """A text that resists."""

    def __len__(self) -> NoReturn:
        raise RuntimeError

    def __format__(self, spec: str) -> NoReturn:
        raise RuntimeError

    def __getitem__(self, key: Any) -> NoReturn:
        raise RuntimeError

    def __str__(self) -> NoReturn:
        raise RuntimeError


class SubclassStrError(Exception):
    def __str__(self) -> str:
        return Text("a text of another class")


class HalfCharacterError(Exception):
    """Cannot be encoded, and so not be stored."""

    def __str__(self) -> str:
        return "half \ud800"


class BadNotesError(Exception):
    @property
    def __notes__(self) -> NoReturn:
        raise GeneratorExit

    @__notes__.setter
    def __notes__(self, value: object) -> NoReturn:
        raise GeneratorExit


class NumberNotesError(Exception):
    __notes__ = 3  # type: ignore[assignment]


class BadCauseError(Exception):
    @property
    def __cause__(self) -> NoReturn:  # type: ignore[override]
        raise RuntimeError

    @property
    def __traceback__(self) -> NoReturn:  # type: ignore[override]
        raise RuntimeError

    def with_traceback(self, _: Any, /) -> NoReturn:  # type: ignore[override]
        raise RuntimeError

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise RuntimeError


class EndlessError(Exception):
    def __str__(self) -> str:
        return str(self)


class HugeError(Exception):
    def __str__(self) -> str:
        return "x" * 3_000_000


class BadMeta(type):
    @property
    def __name__(cls) -> NoReturn:  # type: ignore[override]
        raise RuntimeError


class OfMetaError(Exception, metaclass=BadMeta):
    pass


ODD: list[type[Exception]] = [
    NoStrError,
    ExitingStrError,
    InterruptedStrError,
    NumberStrError,
    SubclassStrError,
    HalfCharacterError,
    BadNotesError,
    NumberNotesError,
    BadCauseError,
    EndlessError,
    HugeError,
    OfMetaError,
]


def odd_id(kind: type[Exception]) -> str:
    """For parametrize, which would ask a class for its name."""
    return kind.__qualname__


class OddValue:
    """A value that cannot be shown, and that no cell takes."""

    def __repr__(self) -> NoReturn:
        raise SystemExit(3)

    __str__ = __repr__
