"""What stands for a function: its code, and everything besides documents that its result can depend on.

The code counts as Python has compiled it: comments, formatting and docstrings do not. With it go default arguments,
what it closes over, and what it names in its module: constants by value, functions and classes of the same package by
their own code, cells and documents by name, type and default, whatever else by what it is called. A print that differs
costs a run; one that is the same although something has changed would be a wrong result. So whatever cannot be told is
counted by its identity, which no two processes share.

Must never know: what a print is for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dis import get_instructions
from enum import Enum
from hashlib import blake2b
from inspect import CO_OPTIMIZED, get_annotations
from os import urandom
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

import msgspec

from headwater._version import __version__
from headwater.cells.doc import Doc
from headwater.cells.reading import Readable
from headwater.cells.whole import told_apart
from headwater.host.declared import Declared

PRINT_BYTES: Final = 8
"""2**32 versions of one function would have to be tried before two are taken for one."""

_RUNTIME: Final = f"{sys.version_info[0]}.{sys.version_info[1]} {__version__}"
_encode: Final = msgspec.msgpack.Encoder().encode
_SCALARS: Final = frozenset({int, str, float, bool, bytes, complex, type(None)})


def _hash(words: Iterable[bytes | str]) -> bytes:
    try:
        body = _encode(list(words))
    except UnicodeEncodeError:
        body = repr(list(words)).encode(errors="backslashreplace")
    return blake2b(body, digest_size=PRINT_BYTES).digest()


class Prints:
    """The prints of one opening. What was met before is not looked at again: programs do not change while they run."""

    def __init__(self) -> None:
        # Of each object that was met, so that it is not another with the same number; and for which package.
        self._met: dict[tuple[int, str], tuple[object, bytes | str]] = {}
        self._named: dict[CodeType, tuple[str, ...]] = {}
        self._chance = urandom(PRINT_BYTES)
        # What could not be told by its value.
        self.unknown: dict[str, None] = {}

    def of(self, fn: Callable[..., object], *besides: str) -> bytes:
        """The print of a function, and of whatever else its results depend on."""
        package = (getattr(fn, "__module__", None) or "").partition(".")[0]
        parts = self._function(fn, package) if type(fn) is FunctionType else self._parts(fn, package, is_ours=True)
        return _hash((_RUNTIME, *besides, *parts))

    def _of(self, value: Any, package: str, *, is_ours: bool = False) -> bytes | str:  # noqa: ANN401  # whatever there is
        kind = type(value)
        if kind in _SCALARS:
            return f"{kind.__name__} {value!r}"
        if isinstance(value, Readable):
            place = value._path or not value._doc  # noqa: SLF001  # only told, and each function names some
            address = value.address if place else value._doc  # noqa: SLF001
            return f"cell {address} {value._schema.expected} {value._default!r}"  # noqa: SLF001
        key = (id(value), package)
        met = self._met.get(key)
        if met is None:
            # Of what contains itself, this much has to do.
            self._met[key] = (value, b"within")
            met = self._met[key] = (value, _hash(self._parts(value, package, is_ours=is_ours)))
        return met[1]

    def _parts(self, value: Any, package: str, *, is_ours: bool) -> Iterator[bytes | str]:  # noqa: ANN401, C901, PLR0912  # one for each kind
        if isinstance(value, CodeType):
            yield from self._code(value, package)
        elif isinstance(value, FunctionType):
            if is_ours or _is_of(package, value.__module__):
                yield from self._function(value, package)
            else:
                yield from ("library", value.__module__ or "", value.__qualname__)
        elif isinstance(value, Doc):
            yield from ("document", told_apart(value), self._of(type(value), package))
        elif isinstance(getattr(value, "declared", None), Declared) or hasattr(value, "__headwater_name__"):
            # Another declared function: its result is a document.
            yield from ("declared", str(getattr(value, "name", "")))
        elif isinstance(value, Enum):
            yield from ("enum", type(value).__qualname__, value.name, repr(value.value))
        elif isinstance(value, MethodType):
            yield from ("method", self._of(value.__self__, package), self._of(value.__func__, package))
        elif isinstance(value, BuiltinFunctionType):
            yield from ("builtin", value.__module__ or "", value.__qualname__)
        elif isinstance(value, ModuleType):
            yield from ("module", value.__name__)
        elif isinstance(value, type):
            yield from self._class(value, package)
        elif isinstance(value, Mapping):
            yield type(value).__name__
            for key, item in value.items():
                yield self._of(key, package)
                yield self._of(item, package)
        elif isinstance(value, set | frozenset):
            yield type(value).__name__
            yield from sorted((self._of(item, package) for item in value), key=repr)
        elif isinstance(value, tuple | list):
            yield type(value).__name__
            for item in value:
                yield self._of(item, package)
        else:
            yield from self._object(value, package)

    # -- functions -----------------------------------------------------------------------------------------

    def _function(self, fn: FunctionType, package: str) -> Iterator[bytes | str]:
        code = fn.__code__
        yield "function"
        yield self._of(code, package)
        if fn.__defaults__:
            yield self._of(fn.__defaults__, package)
        if fn.__kwdefaults__:
            yield self._of(fn.__kwdefaults__, package)
        for cell in fn.__closure__ or ():
            try:
                yield self._of(cell.cell_contents, package)
            except ValueError:
                yield "empty"
        known = fn.__globals__
        for name in self._names_in(code):
            if name in known:
                yield name
                found = known[name]
                yield self._of(found, package)
                if isinstance(found, ModuleType) and _is_of(package, found.__name__):
                    yield from self._attributes(found, code, package)

    def _names_in(self, code: CodeType) -> tuple[str, ...]:
        """What code names, and code within it: once for all functions that are made of it."""
        found = self._named.get(code)
        if found is None:
            found = self._named[code] = tuple(_names(code))
        return found

    def _attributes(self, module: ModuleType, user: CodeType, package: str) -> Iterator[bytes | str]:
        """Of a module of the same package: what the function may mean by `module.name`."""
        for name in _names(user):
            found = module.__dict__.get(name)
            if found is not None and not isinstance(found, ModuleType):
                yield name
                yield self._of(found, package)

    def _code(self, code: CodeType, package: str) -> Iterator[bytes | str]:
        yield from ("code", str(code.co_flags), repr(code.co_varnames), repr(code.co_names), repr(code.co_freevars))
        yield code.co_code
        constants = code.co_consts
        if constants and code.co_flags & CO_OPTIMIZED and not _loads_first(code):
            # What it says of itself, or that it says nothing.
            constants = constants[1:]
        for constant in constants:
            yield self._of(constant, package)

    # -- classes and objects -------------------------------------------------------------------------------

    def _class(self, cls: type, package: str) -> Iterator[bytes | str]:
        yield from ("class", cls.__module__, cls.__qualname__)
        if not _is_of(package, cls.__module__):
            return
        yield repr(sorted((name, str(hint)) for name, hint in get_annotations(cls).items()))
        for name, member in sorted(vars(cls).items()):
            function = getattr(member, "fget", None) or getattr(member, "__func__", member)
            plain = type(member) in _SCALARS and not name.startswith("__")
            if isinstance(function, FunctionType) or plain:
                yield name
                yield self._of(member if plain else function, package)
        for base in cls.__bases__:
            yield self._of(base, package)

    def _object(self, value: object, package: str) -> Iterator[bytes | str]:
        """By its fields, if it says which it has; else nobody knows what it is, and so it is another each time."""
        cls = type(value)
        yield self._of(cls, package)
        names = getattr(value, "__struct_fields__", None) or getattr(value, "__dataclass_fields__", None)
        if names is None:
            self.unknown[f"{cls.__module__}.{cls.__qualname__}"] = None
            yield from (self._chance, str(id(value)))
            return
        for name in names:
            yield str(name)
            yield self._of(getattr(value, name, None), package)


def _is_of(package: str, module: str | None) -> bool:
    """Of the same package: its authors change both. Libraries are told by name."""
    return module is not None and module.partition(".")[0] == package


def _names(code: CodeType) -> Iterator[str]:
    """What code names, and code within it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _loads_first(code: CodeType) -> bool:
    """Whether the first constant is used: a docstring is not."""
    return any(each.opname in ("LOAD_CONST", "RETURN_CONST") and each.arg == 0 for each in get_instructions(code))
