"""The fingerprint of a function: a hash of its code, and of everything besides documents that its result depends on.

The code counts as compiled: comments, formatting and docstrings do not, nor does the unit that it was compiled in.
Default arguments, the closure and the globals that it loads count, too: constants by value, functions and classes of
the same package by their own code, cells and documents by name, type and default, everything else by name. A different
fingerprint costs a run. A fingerprint that stays the same although something has changed would be a wrong result. So a
value that cannot be compared counts by its identity, which no two processes share.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from dis import get_instructions
from enum import Enum
from fractions import Fraction
from hashlib import blake2b
from importlib.util import resolve_name
from inspect import CO_OPTIMIZED, get_annotations
from logging import Logger
from pathlib import PurePath
from re import Pattern
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, Final, TypeAlias
from uuid import UUID

import msgspec

from headwater._version import __version__
from headwater.cells.document_class import Doc, DocHandle
from headwater.cells.document_field import DocField
from headwater.cells.document_operations import identity_key
from headwater.cells.reading import Readable
from headwater.declare.functions.bytecode import is_first_constant_used, names_of, portable_code
from headwater.declare.functions.function_options import FunctionOptions
from headwater.values.schema import ANY, Schema
from headwater.values.schema_ruled import RuledSchema

FINGERPRINT_BYTES: Final = 8
"""2**32 versions of one function would have to be tried before two of them collide."""

_RUNTIME: Final = f"{sys.version_info[0]}.{sys.version_info[1]} {__version__}"
_encode: Final = msgspec.msgpack.Encoder().encode
_SCALARS: Final = frozenset({int, str, float, bool, bytes, complex, type(None)})
_DESCRIPTORS: Final = (MemberDescriptorType, GetSetDescriptorType, WrapperDescriptorType, MethodDescriptorType)
_TOLD: Final = (Decimal, Fraction, datetime, date, time, timedelta, tzinfo, UUID, Pattern, PurePath, range, slice)
"""Values whose repr is complete."""
_MEANT: Final = 0x3FF
"""The flags of code that say how it is called. The others name features of the unit that it was compiled in."""


SameAuthors: TypeAlias = Callable[[str, str | None], bool]
"""Whether a module (the second) is part of the program that a package (the first) belongs to, and no library."""


_Visited: TypeAlias = dict[tuple[int, str], tuple[object, bytes | str]]
"""By the id of an object and the package that it is visited for: the object, and its part of a fingerprint."""


def _exists(known: dict[str, Any], name: str) -> bool:
    return name in known or name in vars(builtins)


def _hash(words: Iterable[bytes | str]) -> bytes:
    told = words if isinstance(words, list) else list(words)
    try:
        body = _encode(told)
    except UnicodeEncodeError:
        body = repr(told).encode(errors="backslashreplace")
    return blake2b(body, digest_size=FINGERPRINT_BYTES).digest()


class Fingerprints:
    """The fingerprints of one session. An object is visited once: programs do not change while they run."""

    def __init__(self, nonce: bytes, is_of: SameAuthors, outer: Fingerprints | None = None) -> None:
        # Counts for a value that cannot be compared: no two openings share it.
        self._nonce = nonce
        self._is_of = is_of
        # Objects that an outer, longer-lived instance has visited.
        self._outer_visited: _Visited = {} if outer is None else outer._visited  # noqa: SLF001
        # Visited objects, each held so that its id is not reused; and for which package.
        self._visited: _Visited = {}
        self._named: dict[CodeType, tuple[str, ...]] = {} if outer is None else outer._named  # noqa: SLF001
        # Global names that do not exist yet, each with the globals to look in.
        self._missing: list[tuple[dict[str, Any], str]] = []
        # Functions that use such names: valid as long as none of them exists.
        self._partial: dict[FunctionType, tuple[tuple[bytes | str, ...], list[tuple[dict[str, Any], str]], bytes]] = {}
        # By the other parts of a fingerprint, and by function.
        self._finished: dict[tuple[bytes | str, ...], dict[FunctionType, bytes]] = {}
        # The same by the other parts as given, if these are texts and plain types.
        self._finished_plain: dict[tuple[str | Schema, ...], dict[FunctionType, bytes]] = {}
        # The parts of plain types in a fingerprint: their names.
        self._plain_types: dict[Schema, bytes | str] = {}
        # Types of values that could not be compared.
        self.unknown: dict[str, None] = {}

    def nested(self, maker: Callable[..., object]) -> Fingerprints:
        """For functions that another function makes: objects that only they name are forgotten with them."""
        self.of(maker)
        return Fingerprints(self._nonce, self._is_of, self)

    def of(self, fn: Callable[..., object], *besides: str | Schema) -> bytes:
        """The fingerprint of a function and of the other parts given, as they were at the first call.

        A value that the program changes while it runs, such as a list that a function appends to, is no change of code.
        """
        known = self._finished_plain.get(besides)
        if known is not None and type(fn) is FunctionType and (taken := known.get(fn)) is not None:
            return taken
        package = (getattr(fn, "__module__", None) or "").partition(".")[0]
        told = tuple([each if isinstance(each, str) else self._type(each, package) for each in besides])
        if type(fn) is not FunctionType:
            return _hash((_RUNTIME, *told, *self._parts(fn, package, is_ours=True)))
        finished = self._finished.get(told)
        if finished is None:
            finished = self._finished[told] = {}
        if known is None and all(isinstance(each, str) or each in self._plain_types for each in besides):
            self._finished_plain[besides] = finished
        if (taken := finished.get(fn)) is not None:
            return taken
        partial = self._partial.get(fn)
        if partial is not None and partial[0] == told and not any(_exists(*each) for each in partial[1]):
            return partial[2]
        before, self._missing = len(self._visited), []
        found = _hash([_RUNTIME, *told, *self._function(fn, package)])
        if not self._missing:
            finished[fn] = found
            return found
        for key in list(self._visited)[before:]:
            # A name does not exist yet: visit the function again when it does.
            del self._visited[key]
        self._partial[fn] = (told, self._missing, found)
        return found

    def is_final(self, fn: Callable[..., object]) -> bool:
        """Whether `of` has answered for good: it is a function, and all names that it uses exist."""
        return type(fn) is FunctionType and fn not in self._partial

    def _of(self, value: Any, package: str, *, is_ours: bool = False) -> bytes | str:  # noqa: ANN401  # any value
        kind = type(value)
        if kind in _SCALARS:
            return f"{kind.__name__} {value!r}"
        if isinstance(value, Readable):
            place = value._path or not value._doc  # noqa: SLF001  # read only, and each function names some
            address = value.address if place else value._doc  # noqa: SLF001
            return f"cell {address} {self._type(value._schema, package)!r} {value._default!r}"  # noqa: SLF001
        key = (id(value), package)
        met = self._visited.get(key) or self._outer_visited.get(key)
        if met is None:
            # For a value that contains itself.
            self._visited[key] = (value, b"within")
            is_own = kind is FunctionType and (is_ours or self._is_of(package, value.__module__))
            parts = self._function(value, package) if is_own else self._parts(value, package, is_ours=is_ours)
            met = self._visited[key] = (value, _hash(parts))
        return met[1]

    def _type(self, schema: Schema, package: str) -> bytes | str:
        """A declared type: by its name, and by the classes that it consists of."""
        plain = self._plain_types.get(schema)
        if plain is None and schema is ANY:
            # It has no classes, which could count differently in another package.
            plain = self._plain_types[schema] = self._of(schema, package)
        if plain is None and schema.is_leaf and not schema.has_handles and schema.bare is schema:
            plain = self._plain_types[schema] = schema.expected
        return self._of(schema, package) if plain is None else plain

    def _parts(self, value: Any, package: str, *, is_ours: bool) -> Iterator[bytes | str]:  # noqa: ANN401, C901, PLR0912  # one branch for each kind
        if isinstance(value, CodeType):
            yield from self._code(value, package)
        elif isinstance(value, FunctionType):
            if is_ours or self._is_of(package, value.__module__):
                yield from self._function(value, package)
            else:
                yield from ("library", value.__module__ or "", value.__qualname__)
        elif isinstance(value, Doc):
            yield from ("document", identity_key(value), self._of(type(value), package))
        elif isinstance(getattr(value, "options", None), FunctionOptions) or hasattr(value, "__headwater_name__"):
            # Another declared function: its result is a document.
            yield from ("declared", str(getattr(value, "name", "")))
        elif (told := getattr(type(value), "__headwater_print__", None)) is not None:
            for each in told(value):
                yield self._of(each, package)
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
        elif isinstance(value, Schema):
            # First the name: a schema has none before its class is resolved.
            named = value.kind if isinstance(value, DocHandle) else getattr(value, "cls", None)
            yield from ("type", value.expected, "" if named is None else self._of(named, package))
            # The target of a handle is no part of it.
            inner = getattr(value, "inner", None)
            for part in (*value.parts(), *([] if inner is None else [inner])):
                yield self._type(part, package)
            if isinstance(value, RuledSchema):
                for extra in value.extras:
                    yield self._of(extra, package)
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

    def _function(self, fn: FunctionType, package: str) -> list[bytes | str]:
        # A list, not a generator: each opening calls this for each function.
        code = fn.__code__
        parts = ["function", self._of(code, package)]
        if fn.__defaults__ or fn.__kwdefaults__:
            parts += [self._of(defaults, package) for defaults in (fn.__defaults__, fn.__kwdefaults__) if defaults]
        for cell in fn.__closure__ or ():
            try:
                parts.append(self._of(cell.cell_contents, package))
            except ValueError:
                parts.append("empty")
        known, names = fn.__globals__, names_of(code)
        for name in names.loaded:
            if name in known:
                found = known[name]
                parts += (name, self._of(found, package))
                if isinstance(found, ModuleType) and self._is_of(package, found.__name__):
                    parts += self._attributes(found, code, package)
        if names.required:
            self._missing += [(known, name) for name in names.required if not _exists(known, name)]
        for user in names.importing:
            parts += self._imported(user, known.get("__package__") or "", package)
        return parts

    def _names_in(self, code: CodeType) -> tuple[str, ...]:
        """The names in code and in nested code, shared by all functions with that code."""
        found = self._named.get(code)
        if found is None:
            found = self._named[code] = tuple(_names(code))
        return found

    def _attributes(self, module: ModuleType, user: CodeType, package: str) -> Iterator[bytes | str]:
        """For a module of the same package: the values of `module.name` and `module.other.name`."""
        names = self._names_in(user)
        seen, todo = {id(module)}, [module]
        while todo:
            known = vars(todo.pop())
            for name in names:
                found = known.get(name)
                if not isinstance(found, ModuleType):
                    if name in known:
                        yield name
                        yield self._of(found, package)
                elif id(found) not in seen and self._is_of(package, found.__name__):
                    seen.add(id(found))
                    todo.append(found)

    def _imported(self, code: CodeType, home: str, package: str) -> Iterator[bytes | str]:
        """Imports in a body count as imports of the module. A module that is not loaded yet cannot be compared."""
        loaded: list[object] = [0, None]
        name = ""
        for each in get_instructions(code):
            if each.opname == "IMPORT_FROM" and each.argval not in vars(sys.modules.get(name, sys)):
                if self._is_of(package, name):
                    # A module that the first run imports.
                    yield from (each.argval, self._nonce)
                continue
            if each.opname != "IMPORT_NAME":
                loaded.append(each.argval)
                continue
            level = loaded[-2] if isinstance(loaded[-2], int) else 0
            name = resolve_name("." * level + each.argval, home) if level else each.argval
            if self._is_of(package, name):
                module = sys.modules.get(name)
                yield from (name, self._nonce) if module is None else self._attributes(module, code, package)

    def _code(self, code: CodeType, package: str) -> Iterator[bytes | str]:
        flags = code.co_flags & _MEANT
        yield from ("code", str(flags), repr(code.co_varnames), repr(code.co_names), repr(code.co_freevars))
        yield _encode(portable_code(code))
        constants = code.co_consts
        if constants and code.co_flags & CO_OPTIMIZED and not is_first_constant_used(code):
            # Without the docstring.
            constants = constants[1:]
        for constant in constants:
            yield self._of(constant, package)

    # -- classes and objects -------------------------------------------------------------------------------

    def _class(self, cls: type, package: str) -> Iterator[bytes | str]:
        yield from ("class", cls.__module__, cls.__qualname__)
        if not self._is_of(package, cls.__module__):
            return
        yield repr(sorted((name, str(hint)) for name, hint in get_annotations(cls).items()))
        if issubclass(cls, Enum):
            yield repr([(name, member.value) for name, member in cls.__members__.items()])
        for name, member in sorted(vars(cls).items()):
            function = getattr(member, "fget", None) or getattr(member, "__func__", None) or member
            # A cached property, or a cached function.
            function = getattr(function, "func", None) or getattr(function, "__wrapped__", None) or function
            if isinstance(function, FunctionType):
                yield name
                yield self._of(function, package)
            elif isinstance(member, DocField):
                schema, default = member.resolve()
                yield from (name, self._type(schema, package), repr(default))
            elif not name.startswith(("__", "_hw_", "_abc_")) and not isinstance(member, _DESCRIPTORS):
                yield name
                yield self._of(member, package)
        for default in vars(cls).get("__struct_defaults__", ()):
            yield self._of(default, package) if type(default) in _SCALARS else type(default).__name__
        for base in cls.__bases__:
            yield self._of(base, package)

    def _object(self, value: object, package: str) -> Iterator[bytes | str]:
        """By its fields, if it has declared fields; else it cannot be compared, and differs in each session."""
        cls = type(value)
        yield self._of(cls, package)
        if isinstance(value, _TOLD):
            yield repr(value)
            return
        if isinstance(value, Logger):
            # Logging is no part of any result.
            yield value.name
            return
        wrapped = getattr(value, "__wrapped__", None) or getattr(value, "func", None)
        if isinstance(wrapped, FunctionType):
            # A cached function, or a partial one.
            yield self._of(wrapped, package)
            yield self._of((getattr(value, "args", ()), getattr(value, "keywords", {})), package)
            return
        names = getattr(value, "__struct_fields__", None) or getattr(value, "__dataclass_fields__", None)
        if names is None:
            self.unknown[f"{cls.__module__}.{cls.__qualname__}"] = None
            yield from (self._nonce, str(id(value)))
            return
        for name in names:
            yield str(name)
            yield self._of(getattr(value, name, None), package)


def _names(code: CodeType) -> Iterator[str]:
    """The names in code and in nested code."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
