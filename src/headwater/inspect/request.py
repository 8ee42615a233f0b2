"""The base classes of questions and commands. Each record names the type of its answer."""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar, get_args

import msgspec

A_co = TypeVar("A_co", covariant=True)


class _Asked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Fields with their default are not sent, and unknown fields are refused."""


class Question(_Asked, Generic[A_co], frozen=True, kw_only=True, tag_field="question"):
    """A question that is answered with a record of type A_co. Asking changes nothing."""


class Command(_Asked, Generic[A_co], frozen=True, kw_only=True, tag_field="command"):
    """A command that is reported with a record of type A_co; an error means that nothing was done."""

    again: ClassVar[str] = "Done twice, it is refused"
    """Whether the command can be repeated if its outcome is unknown."""


def answer_type(request: type[msgspec.Struct]) -> Any:  # noqa: ANN401  # a type, or a generic alias of one
    """The type of the answer to a question or a command."""
    return get_args(request.__orig_bases__[0])[0]  # type: ignore[attr-defined]
