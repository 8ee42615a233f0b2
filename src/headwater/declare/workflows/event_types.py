"""Whether the events of a topic fit the type that a consumer declares.

Rejects only what is surely wrong. Types that cannot be compared, such as protocols, are accepted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NewType, TypeVar, Union, get_args, get_origin

from headwater.errors import DeclarationError


def check_events(event: object, topics: Mapping[str, object], where: str) -> None:
    """Raises DeclarationError if a topic has events that the consumer does not expect."""
    if event is None:
        return
    for name, kind in topics.items():
        if not _fits(kind, event):
            meant = " | ".join(dict.fromkeys(map(_written, topics.values())))
            message = f"{where}: topic {name} holds {_written(kind)}, and hw.Consumer[{_written(event)}, ...] expects"
            hint = f"did you mean hw.Consumer[{meant}, ...]?"
            raise DeclarationError(f"{message} {_written(event)}; {hint}", topic=name)


def _fits(given: object, wanted: object) -> bool:
    """Whether each value of one type may be of the other."""
    wants = _members(wanted)
    return all(any(_may_be(each, want) for want in wants) for each in _members(given))


def _members(hint: object) -> list[object]:
    """The members of a union, without annotations that do not change the type."""
    if isinstance(hint, NewType):
        return _members(hint.__supertype__)
    origin = get_origin(hint)
    if origin is Annotated:
        return _members(get_args(hint)[0])
    if origin in (Union, UnionType):
        return [member for part in get_args(hint) for member in _members(part)]
    if origin is Literal:
        return list({type(value) for value in get_args(hint)})
    return [NoneType if hint is None else hint]


def _may_be(given: object, wanted: object) -> bool:
    if Any in (given, wanted) or isinstance(given, TypeVar) or isinstance(wanted, TypeVar):
        return True
    one, other = get_origin(given) or given, get_origin(wanted) or wanted
    if not isinstance(one, type) or not isinstance(other, type):
        return True
    if not _is_kind_of(one, other):
        return False
    ours, theirs = get_args(given), get_args(wanted)
    # Tuples declare each item, or one type for all: their items are not compared.
    if len(ours) != len(theirs) or tuple in (one, other):
        return True
    return all(_fits(mine, yours) for mine, yours in zip(ours, theirs, strict=True))


def _is_kind_of(one: type, other: type) -> bool:
    if one is int and other is float:
        return True
    try:
        # A list is read as a frozen sequence: declaring a tuple is right, too.
        are_lists = issubclass(one, list | tuple) and issubclass(other, Sequence)
        return issubclass(one, other) or (are_lists and not issubclass(other, str | bytes))
    except TypeError:
        # Protocols and typed dicts.
        return True


def _written(hint: object) -> str:
    """As the author writes it."""
    if hint is None or hint is NoneType:
        return "None"
    if isinstance(hint, type) and not get_args(hint):
        return hint.__name__
    if get_origin(hint) in (Union, UnionType):
        return " | ".join(_written(part) for part in get_args(hint))
    if isinstance(hint, NewType):
        return hint.__name__
    if get_args(hint) and get_origin(hint) not in (Annotated, Literal):
        origin = get_origin(hint)
        return f"{getattr(origin, '__name__', origin)}[{', '.join(map(_written, get_args(hint)))}]"
    return "..." if hint is ... else str(hint).replace("typing.", "")
