"""The bases of all questions and commands: one record each, which names the record that answers it."""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar, get_args

import msgspec

A_co = TypeVar("A_co", covariant=True)


class _Asked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What questions and commands have in common: fields with their default are not sent, unknown ones are refused."""


class Question(_Asked, Generic[A_co], frozen=True, kw_only=True, tag_field="question"):
    """A question that is answered with a record of type A_co. Asking changes nothing."""


class Command(_Asked, Generic[A_co], frozen=True, kw_only=True, tag_field="command"):
    """A command that is reported with a record of type A_co; an error means that nothing was done."""

    again: ClassVar[str] = "Done twice, it is refused"
    """Whether the command can be given again if it is not known whether it was done."""


def answer_type(request: type[msgspec.Struct]) -> Any:  # noqa: ANN401  # a type, or a generic alias of one
    """The type that a question or a command is answered with."""
    return get_args(request.__orig_bases__[0])[0]  # type: ignore[attr-defined]
