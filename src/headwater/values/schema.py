"""The schema interface: from an author's types to the tree, with checks, and back, frozen.

`store` takes a value of the declared type and returns its tree. `load` takes that tree and returns a value of the
declared type that cannot be changed in place. `load` makes no copy where the tree already is what the author should
see. There is one subclass for each kind of type, in the modules next to this one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable
from types import NoneType
from typing import Final, TypeAlias

from headwater.errors import AddressError, LimitError
from headwater.values.author_text import clean, kind_of
from headwater.values.chunked import ChunkedList, ChunkedMap
from headwater.values.frozen import FrozenDict, FrozenList
from headwater.values.ids import DocKey
from headwater.values.intake import RefusedError
from headwater.values.tree import ABSENT, CONTAINERS, AbsentType, Map, Value, freeze, is_link
from headwater.values.value_limits import CHUNKED_FROM

_SHOWN_MAX: Final = 60
"""Characters of a value that a message shows."""

_DIGITS_MAX: Final = 10**40
"""Larger integers are shown by their size: converting a very large one to text is slow, or refused by Python."""

Forms: TypeAlias = dict[type, frozenset[Value] | None]
"""The trees of a schema, by type: these values only, or (None) every value of that type."""


# --- refusing -----------------------------------------------------------------------------------------------


class LinkFound(Exception):  # noqa: N818  # not an error: the reader follows the link and loads again
    """A link was found where the type has no handle. Collects the path backwards, as RefusedError does."""

    def __init__(self) -> None:
        self.steps: list[str | int] = []


class MisfitError(RefusedError):
    """The value itself is not of the expected type, as opposed to something within it."""


def short(value: object) -> str:
    """Any value for a message: its type and its beginning."""
    kind = kind_of(value)
    try:
        text = _shown(value)
    except BaseException:  # noqa: BLE001  # an author's __repr__, or the __len__ of an author's list, may raise anything
        return kind
    # The repr of most classes is a call, which names the class.
    is_named = value is None or text.partition("(")[0].rpartition(".")[2] == kind
    return text if is_named else f"{kind} {text}"


def _shown(value: object) -> str:
    if value is None or isinstance(value, bool):
        return repr(value)
    if isinstance(value, str | bytes):
        return clean(repr(value[:_SHOWN_MAX]) + ("..." if len(value) > _SHOWN_MAX else ""))
    if isinstance(value, int) and not -_DIGITS_MAX < value < _DIGITS_MAX:
        return f"of {value.bit_length()} bits"
    if isinstance(value, list | tuple | dict | ChunkedList | ChunkedMap) and not hasattr(value, "_fields"):
        return f"of {len(value)} item{'s' * (len(value) != 1)}"
    text = " ".join(clean(repr(value)).split())
    return text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "..."


def misfit(expected: str, value: object) -> MisfitError:
    """The refusal of a value of another type."""
    return MisfitError(f"expected {expected}, got {short(value)}")


def too_deep() -> RefusedError:
    """The refusal of a value that is too deep for the call stack."""
    return RefusedError("nested too deep to walk (does it contain itself?)", limit=True)


# --- the interface ------------------------------------------------------------------------------------------


class Schema:
    """A declared type. Compared by identity only."""

    __slots__ = ("_facts", "expected")

    expected: str
    """How messages name the type."""

    def __init__(self, expected: str) -> None:
        self.expected = expected
        self._facts: tuple[bool, bool] | None = None

    # -- storing and loading ---------------------------------------------------------------------------------

    @abstractmethod
    def store(self, value: object) -> Value:
        """The tree of a value. Raises RefusedError."""

    @abstractmethod
    def load(self, value: Value, binder: object) -> object:
        """The value of a tree. Raises RefusedError if the tree does not fit, LinkMet at a link that is no handle."""

    # -- parts -----------------------------------------------------------------------------------------------

    def child(self, step: str | int) -> Schema | None:  # noqa: ARG002
        """The schema one step below; None if there is no such part."""
        return None

    def field_default(self, step: str | int) -> Value | AbsentType:  # noqa: ARG002
        """The value of a record's field if nothing is stored for it."""
        return ABSENT

    def handle_steps(self) -> Iterable[str]:
        """The fields of a record that are handles: some exist although nothing is stored for them."""
        return ()

    def as_handle(self, *, linked: bool) -> Handle | None:  # noqa: ARG002
        """The handle of this type, if it is one; `linked`: a link is stored here."""
        return None

    def parts(self) -> Iterable[Schema]:
        """The schemas directly below."""
        return ()

    def has_rules(self) -> bool:
        """Whether it may refuse a value whose parts all fit: a write to a part is then checked on the whole first."""
        return False

    def needs(self, step: str | int) -> bool:  # noqa: ARG002
        """Whether it cannot be loaded without that part."""
        return False

    @property
    def bare(self) -> Schema:
        """The type without its added rules."""
        return self

    def settle(self) -> None:
        """Called when all types in it are complete, before anything is stored or loaded."""

    @property
    def has_handles(self) -> bool:
        """This is a handle, or contains one."""
        facts = self._facts
        return self._scan()[0] if facts is None else facts[0]

    @property
    def may_hold_links(self) -> bool:
        """This is Any, or contains it: the tree must be scanned for links."""
        facts = self._facts
        return self._scan()[1] if facts is None else facts[1]

    def _scan(self) -> tuple[bool, bool]:
        if self._facts is None:
            # Iteratively, not by recursion: types may contain themselves.
            seen, todo = {id(self)}, [self]
            handles = links = False
            while todo:
                schema = todo.pop()
                handles = handles or isinstance(schema, Handle)
                links = links or schema is ANY
                for part in schema.parts():
                    if id(part) not in seen:
                        seen.add(id(part))
                        todo.append(part)
            self._facts = (handles, links)
        return self._facts

    # -- for containers and unions ---------------------------------------------------------------------------

    @property
    def plain(self) -> frozenset[type]:
        """Tree types whose values all load as themselves: a container of only these loads as itself."""
        return frozenset()

    @property
    def is_leaf(self) -> bool:
        """Its loaded values have no mutable parts."""
        return False

    def stores_all(self, values: Collection[object]) -> bool:  # noqa: ARG002
        """Whether all of these are stored unchanged, if that is quick to check; else False."""
        return False

    def takes(self) -> tuple[type, ...]:
        """Classes whose instances it may store. Empty: unknown."""
        return ()

    def forms(self) -> Forms:
        """The trees it stores."""
        return {}

    def fits(self, value: Map) -> bool:  # noqa: ARG002
        """Whether the map has the keys and tags by which a union selects this option."""
        return True

    def differs_from(self, other: Schema) -> bool:  # noqa: ARG002
        """Whether its stored values can be distinguished from those of another schema of the same form."""
        return False

    # -- keys of maps ------------------------------------------------------------------------------------------

    is_key = False
    """Whether it can be the K of dict[K, V]."""

    def key_text(self, key: object) -> str:
        """A value of this type as the key of a map. Raises RefusedError; always if `is_key` is not set."""
        raise misfit(f"{self.expected} as key", key)

    def key_of(self, text: str) -> object:
        """The inverse of `key_text`. Raises RefusedError."""
        raise misfit(f"{self.expected} as key", text)

    def store_key(self, key: object) -> str:
        """The step of a key of this dict."""
        raise misfit(self.expected, key)

    def load_key(self, text: str) -> object:
        """The key of a step of this dict."""
        raise misfit(self.expected, text)

    def unfit(self, value: Value) -> Exception:
        """The error of `load` for a tree of another type."""
        return LinkFound() if is_link(value) else misfit(self.expected, value)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.expected}>"


class Handle(Schema):
    """A handle instead of a value: reading the containing value returns the handle, and does not read its content."""

    __slots__ = ()

    has_handles = True
    may_hold_links = False
    is_leaf = True
    has_default: bool = False
    """The handle exists although nothing is stored."""
    ceiling: str = "session"
    """The narrowest scope that a link to it may lead to."""
    optional: bool = False
    """It reads as None if its target does not exist."""
    always_link: bool = False
    """It is always stored as a link."""

    def as_handle(self, *, linked: bool) -> Handle:  # noqa: ARG002
        return self

    def sought(self, value: object, space: object) -> DocKey | None:  # noqa: ARG002  # most do not know
        """The document that a link of only an id leads to if it is read as an equal of this value; "" if none does.

        None: only the loaded handle knows.
        """
        return None

    def target(self) -> Schema | type | None:
        """The type of its value, or the class of its document. None: unknown."""
        return None


class LazySchema(Schema):
    """The placeholder of a recursive type while it is being read."""

    __slots__ = ("target",)

    target: Schema

    def store(self, value: object) -> Value:
        return self.target.store(value)

    def load(self, value: Value, binder: object) -> object:
        return self.target.load(value, binder)

    def child(self, step: str | int) -> Schema | None:
        return self.target.child(step)

    def field_default(self, step: str | int) -> Value | AbsentType:
        return self.target.field_default(step)

    def handle_steps(self) -> Iterable[str]:
        return self.target.handle_steps()

    def as_handle(self, *, linked: bool) -> Handle | None:
        return self.target.as_handle(linked=linked)

    def parts(self) -> Iterable[Schema]:
        return (self.target,)

    def has_rules(self) -> bool:
        return self.target.has_rules()

    def needs(self, step: str | int) -> bool:
        return self.target.needs(step)

    @property
    def bare(self) -> Schema:
        return self.target.bare


def solid(schema: Schema) -> Schema:
    """The target of a lazy schema; any other schema itself."""
    while isinstance(schema, LazySchema):
        schema = schema.target
    return schema


# --- anything -----------------------------------------------------------------------------------------------

_SCALARS: Final = frozenset({NoneType, bool, int, float, str, bytes})


class AnySchema(Schema):
    """Every value that `tree.freeze` accepts, loaded unchanged, but chunked containers as dicts and lists."""

    __slots__ = ()

    plain = _SCALARS

    def store(self, value: object) -> Value:
        try:
            return to_chunked(freeze(value))
        except (AddressError, LimitError) as error:
            raise _as_refusal(error) from None

    def load(self, value: Value, binder: object) -> object:  # noqa: ARG002
        return to_flat(value)

    def child(self, step: str | int) -> Schema:  # noqa: ARG002
        return self


ANY: Final[Schema] = AnySchema("Any")


def _as_refusal(error: AddressError | LimitError) -> RefusedError:
    """The error of `freeze` as a refusal, for the walk that called it on a part."""
    reason = str(error.facts["reason"])
    refused = too_deep() if reason == "recursion" else RefusedError(reason, limit=isinstance(error, LimitError))
    path = error.facts["path"]
    assert isinstance(path, tuple)
    refused.steps.extend(reversed(path))
    return refused


def to_chunked(value: Value) -> Value:
    """A long list or dict from `to_flat` as a chunked one: otherwise each later edit would copy all of it."""
    if type(value) is FrozenList and len(value) > CHUNKED_FROM:
        return ChunkedList.of(value)
    if type(value) is FrozenDict and len(value) > CHUNKED_FROM:
        return ChunkedMap.of(value)
    return value


def to_flat(value: Value) -> Value:
    """The tree with all chunked containers as frozen dicts and lists; the identical tree if it has none."""
    kind = type(value)
    if kind is FrozenDict or kind is ChunkedMap:
        return _flat_map(value)  # type: ignore[arg-type]
    if kind is FrozenList or kind is ChunkedList:
        return _flat_array(value)  # type: ignore[arg-type]
    return value


def _flat_map(value: FrozenDict | ChunkedMap) -> FrozenDict:
    if type(value) is ChunkedMap:
        if value.cached is None or value.cached[0] is not ANY:
            value.cached = (ANY, _flat_map(FrozenDict(value.flat())))
        return value.cached[1]  # type: ignore[return-value]
    assert type(value) is FrozenDict
    if CONTAINERS.isdisjoint(map(type, value.values())):
        return value
    changed: dict[str, Value] = {}
    for key, item in value.items():
        if type(item) in CONTAINERS and (inner := to_flat(item)) is not item:
            changed[key] = inner
    return FrozenDict({**value, **changed}) if changed else value


def _flat_array(value: FrozenList | ChunkedList) -> FrozenList:
    if type(value) is ChunkedList:
        if value.cached is None or value.cached[0] is not ANY:
            value.cached = (ANY, _flat_array(FrozenList(value.flat())))
        return value.cached[1]  # type: ignore[return-value]
    assert type(value) is FrozenList
    if CONTAINERS.isdisjoint(map(type, value)):
        return value
    changed: list[Value] | None = None
    for index, item in enumerate(value):
        if type(item) in CONTAINERS and (inner := to_flat(item)) is not item:
            changed = list(value) if changed is None else changed
            changed[index] = inner
    return value if changed is None else FrozenList(changed)
