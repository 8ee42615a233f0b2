"""Facts about a function from its code: whether it is async or a generator, and its parameters.

The same answers as `inspect`, quicker for plain functions: nearly all are. Attributes that change an answer are looked
up by name: `fn.__dict__` would make a dict for each function.
"""

from __future__ import annotations

from collections.abc import Mapping
from gc import get_referents
from inspect import (
    CO_ASYNC_GENERATOR,
    CO_COROUTINE,
    CO_GENERATOR,
    CO_VARARGS,
    CO_VARKEYWORDS,
    Signature,
    isasyncgenfunction,
    iscoroutinefunction,
    isgeneratorfunction,
    signature,
)
from types import FunctionType, NoneType
from typing import Any, Final, cast, get_type_hints

NO_PARAMETERS: Final = Signature()

_GENERATES: Final = CO_GENERATOR | CO_ASYNC_GENERATOR
_TAKES_MORE: Final = CO_VARARGS | CO_VARKEYWORDS

_PLAIN_TYPES: Final[dict[str, type]] = {each.__name__: each for each in (bool, bytes, float, int, str)} | {
    "None": NoneType
}
"""The types of most results, as written in a module with `from __future__ import annotations`."""
_NOTHING: Final[dict[str, object]] = {}


def is_async(fn: object) -> bool:
    """Calling it returns an awaitable."""
    if type(fn) is FunctionType and not hasattr(fn, "_is_coroutine_mark") and not hasattr(fn, "__partialmethod__"):
        return bool(fn.__code__.co_flags & CO_COROUTINE)
    return iscoroutinefunction(fn)


def is_generator(fn: object) -> bool:
    """Calling it returns a generator."""
    if type(fn) is FunctionType and not hasattr(fn, "__partialmethod__"):
        return bool(fn.__code__.co_flags & _GENERATES)
    return isgeneratorfunction(fn) or isasyncgenfunction(fn)


def signature_of(fn: object) -> Signature:
    """Its parameters; NO_PARAMETERS if it has none."""
    if type(fn) is FunctionType and not (
        hasattr(fn, "__wrapped__")
        or hasattr(fn, "__signature__")
        or hasattr(fn, "__partialmethod__")
        or hasattr(fn, "_partialmethod")
    ):
        code = fn.__code__
        if not (code.co_argcount or code.co_kwonlyargcount or code.co_flags & _TAKES_MORE):
            return NO_PARAMETERS
    found = signature(fn)  # type: ignore[arg-type]  # it was found to be callable
    # One shared object for all functions without parameters: there may be a hundred thousand of them.
    return found if found.parameters else NO_PARAMETERS


def return_type_of(fn: object) -> tuple[object, bool]:
    """The declared type of its result, and whether there is one. Raises NameError: a type is not defined yet."""
    declared = _unmade_annotations(fn) if type(fn) is FunctionType else None
    if declared is None:
        declared = getattr(fn, "__annotations__", None)
    if declared is not None and not declared:
        return Any, False
    if type(fn) is FunctionType and declared is not None and len(declared) == 1:
        named = declared.get("return")
        # As `get_type_hints` finds it, without compiling the name.
        plain = _PLAIN_TYPES.get(named) if type(named) is str else None
        is_other = plain is None or named in fn.__globals__ or hasattr(fn, "__wrapped__")
        if not is_other and not getattr(fn, "__type_params__", ()):
            return plain, True
    hints = get_type_hints(fn, include_extras=True)
    return hints.get("return", Any), "return" in hints


def _unmade_annotations(fn: FunctionType) -> Mapping[str, object] | None:
    """The annotations of a function for which Python has not made a dict yet; None if it has, or may have.

    `fn.__annotations__` makes that dict and keeps it: 184 bytes for each function of a large program. Until then the
    function refers to nothing, or to a tuple of names and annotations.
    """
    globals_, closure, defaults = fn.__globals__, fn.__closure__, fn.__defaults__
    builtin = cast("Any", fn).__builtins__  # mypy knows it or not, by what it has checked before
    found: tuple[object, ...] | None = None
    # Without a comprehension, which would be a call: each opening asks for each function.
    for each in get_referents(fn):
        kind = type(each)
        if (kind is not tuple and kind is not dict) or not each or each is globals_ or each is builtin:
            continue
        if each is closure or each is defaults:
            continue
        if found is not None or kind is dict:
            return None
        found = each
    if found is None:
        # Later versions of Python have a function that makes them.
        return _NOTHING if getattr(fn, "__annotate__", None) is None else None
    # Not `match`: a class pattern makes a text for each lookup, which the interpreter's cache of attributes keeps.
    if len(found) == 2 and found[0] == "return" and type(found[1]) is str:  # noqa: PLR2004  # a name and its annotation
        return {"return": found[1]}
    return None


def method_of(fn: object) -> str | None:
    """The class in whose body a method is written; None for any other function."""
    if type(fn) is not FunctionType or not fn.__code__.co_argcount:
        return None
    holder = fn.__qualname__.rpartition(".")[0]
    if not holder or holder.endswith("<locals>") or fn.__code__.co_varnames[0] not in ("self", "cls"):
        return None
    return holder.rpartition(".")[2]
