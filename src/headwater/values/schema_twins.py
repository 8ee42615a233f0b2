"""Frozen twins: instances of authors' own mutable classes that cannot be changed.

A class `Note` gets a hidden subclass of the same name. An instance is made by `Note(...)`, so that all of its checks
have run, and then turned into the twin by assigning its class. The twin is a Note for `isinstance`, `==` from both
sides, `repr`, `__class__` and pattern matching, and every way to make another one from it gives a plain, mutable Note:
`copy`, `deepcopy`, `pickle`, `dataclasses.replace`, `msgspec.structs.replace`, `model_copy`, `type(note)(...)`. Only
writing to its attributes is refused.

Hooks of authors do not run for the twin: neither `__init_subclass__` nor a metaclass is called.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Final, NoReturn, SupportsIndex, cast

import msgspec

from headwater.errors import FrozenError

_set_class: Final[Callable[[object, type], None]] = object.__dict__["__class__"].__set__
"""Bypasses the `__class__` of a twin, which is the original."""


def _refuse(twin: object, verb: str, name: str) -> NoReturn:
    kind, how = type(twin).__name__, cast("type[_Frozen]", type(twin)).hw_replace
    message = (
        f"cannot {verb} {name!r} of a {kind} that was read from a document: what is read is frozen. Assign a new one: "
        f"cell.value = {how.format(name=name)}, or write one field: cell.at({name!r}).value = ..."
    )
    raise FrozenError(message, kind=kind, verb=verb, name=name)


def plain(value: object) -> Any:  # noqa: ANN401  # an instance of the author's class
    """A mutable copy of a twin that shares its fields; any other object itself."""
    kind = type(value)
    if not issubclass(kind, _Frozen):
        return value
    original = kind.hw_original
    if issubclass(original, msgspec.Struct):
        made = cast("Any", msgspec.Struct).__copy__(value)
        _set_class(made, original)
        return made
    made = object.__new__(original)
    # The state of `object` (attributes, slots), even if the author's class overrides it for pickle.
    state = cast("Any", object).__getstate__(value)
    for part in state if isinstance(state, tuple) else (state,):
        for name, item in (part or {}).items():
            object.__setattr__(made, name, item)
    return made


class _Frozen:
    """The first base of all twins."""

    __slots__ = ()

    hw_original: type
    hw_replace: str

    def __init_subclass__(cls) -> None:
        """Does not call the author's class."""

    def __setattr__(self, name: str, value: object) -> None:
        _refuse(self, "set", name)

    def __delattr__(self, name: str) -> None:
        _refuse(self, "delete", name)

    @property  # type: ignore[misc]  # read only, as all of it
    def __class__(self) -> type:
        return type(self).hw_original

    # The author's methods may check types: they get plain copies.

    def __eq__(self, other: object) -> bool:
        return self is other or bool(plain(self) == plain(other))

    def __ne__(self, other: object) -> bool:
        return self is not other and bool(plain(self) != plain(other))

    def __lt__(self, other: object) -> bool:
        return bool(plain(self) < plain(other))

    def __le__(self, other: object) -> bool:
        return bool(plain(self) <= plain(other))

    def __gt__(self, other: object) -> bool:
        return bool(plain(self) > plain(other))

    def __ge__(self, other: object) -> bool:
        return bool(plain(self) >= plain(other))

    __hash__ = None  # type: ignore[assignment]  # each twin has the hash of its class

    def __copy__(self) -> object:
        return plain(self)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> object:
        return copy.deepcopy(plain(self), memo)

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        return cast("str | tuple[Any, ...]", plain(self).__reduce_ex__(protocol))


def make_twin(original: type, how: str) -> type:
    """The frozen twin of a class. `how` is the advice for making a changed copy, with {name} for a field.

    Raises ValueError for a class whose instances have more than attributes (an exception, a dict), or are abstract.
    """
    namespace: dict[str, Any] = {
        "__module__": original.__module__,
        "__qualname__": original.__qualname__,
        "__doc__": original.__doc__,
        "__hash__": original.__hash__,
        "hw_original": original,
        "hw_replace": how,
    }
    if issubclass(original, msgspec.Struct):
        return _struct_twin(original, namespace)
    try:
        object.__new__(original)
    except TypeError as error:
        raise ValueError(f"{original.__name__} cannot be read back: {error}; make it a frozen class") from None
    metaclass = type(original)

    def mro(twin: type) -> list[type]:
        # As a real base it would change the layout of the instances, and the class could not be assigned.
        return [twin, _Frozen, *original.__mro__]

    def call(_twin: type, *args: object, **kwargs: object) -> object:
        return original(*args, **kwargs)

    hidden = type(metaclass.__name__, (metaclass,), {"mro": mro, "__call__": call})
    return type.__new__(hidden, original.__name__, (original,), {**namespace, "__slots__": ()})


def _struct_twin(original: type, namespace: dict[str, Any]) -> type:
    def post_init(made: object) -> None:
        # msgspec made a new instance of the twin: by `replace`, or by type(note)(...).
        _set_class(made, original)
        if hasattr(original, "__post_init__"):
            original.__post_init__(made)

    return type(original)(original.__name__, (_Frozen, original), {**namespace, "__post_init__": post_init})


def freeze_into(instance: object, twin: type) -> None:
    """Turn a fresh instance of the original into one of its twin."""
    _set_class(instance, twin)
