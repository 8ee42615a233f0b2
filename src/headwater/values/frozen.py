"""The containers of documents: a dict and a list that cannot be changed in place.

They are real dicts and lists (`==`, `json.dumps`, `isinstance` and pattern matching work), so an author reads the
stored tree itself, not a copy. The keys of a map are always sorted: two equal maps are then also iterated in the same
order, in whatever order their keys were written.

Two gaps remain: C code that writes into any list or dict without calling its methods, as `heapq` does, and a second
call of `__init__`. Pass `list(value)` to algorithms that work in place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn, Self, final

from headwater.errors import FrozenError

if TYPE_CHECKING:  # the tree is made of these containers, and their items are trees
    from headwater.values.tree import Value


_INSTEAD: Final = {
    "list": "cell.append(...), or assign a new list: cell.value = [...]; in a Doc, use hw.List",
    "dict": "cell.key('k').value = ..., or assign a new dict: cell.value = {...}; in a Doc, use hw.Map",
}


def _refuse(kind: str, verb: str) -> NoReturn:
    message = (
        f"cannot {verb} a {kind} that was read from a document: what is read is shared and frozen. "
        f"Write through the cell: {_INSTEAD[kind]}; or change a copy made with {kind}(...)"
    )
    raise FrozenError(message, kind=kind, verb=verb)


class Immutable:
    """A copy of an immutable object is the object itself."""

    __slots__ = ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


class ImmutableMap(Immutable):
    """Refuses every way to change a map in place. Must come before `dict` in the bases."""

    __slots__ = ()

    def __setitem__(self, key: object, value: object) -> NoReturn:
        _refuse("dict", f"set {key!r} in")

    def __delitem__(self, key: object) -> NoReturn:
        _refuse("dict", f"delete {key!r} from")

    def __ior__(self, other: object) -> NoReturn:
        _refuse("dict", "update")

    def clear(self) -> NoReturn:
        _refuse("dict", "clear")

    def pop(self, *_args: object) -> NoReturn:
        _refuse("dict", "pop from")

    def popitem(self) -> NoReturn:
        _refuse("dict", "pop from")

    def setdefault(self, *_args: object) -> NoReturn:
        _refuse("dict", "set a default in")

    def update(self, *_args: object, **_kwargs: object) -> NoReturn:
        _refuse("dict", "update")


class ImmutableList(Immutable):
    """Refuses every way to change an array in place. Must come before `list` in the bases."""

    __slots__ = ()

    def __setitem__(self, index: object, value: object) -> NoReturn:
        _refuse("list", "assign into")

    def __delitem__(self, index: object) -> NoReturn:
        _refuse("list", "delete from")

    def __iadd__(self, other: object) -> NoReturn:
        _refuse("list", "extend")

    def __imul__(self, other: object) -> NoReturn:
        _refuse("list", "repeat")

    def append(self, _item: object) -> NoReturn:
        _refuse("list", "append to")

    def extend(self, _items: object) -> NoReturn:
        _refuse("list", "extend")

    def insert(self, *_args: object) -> NoReturn:
        _refuse("list", "insert into")

    def remove(self, _item: object) -> NoReturn:
        _refuse("list", "remove from")

    def pop(self, *_args: object) -> NoReturn:
        _refuse("list", "pop from")

    def clear(self) -> NoReturn:
        _refuse("list", "clear")

    def sort(self, **_kwargs: object) -> NoReturn:
        _refuse("list", "sort")

    def reverse(self) -> NoReturn:
        _refuse("list", "reverse")


@final
class FrozenDict(ImmutableMap, dict[str, "Value"]):
    """A map with sorted keys. Build with `tree.freeze` or `codec.decode`, which sort and check."""

    __slots__ = ()

    def __reduce__(self) -> tuple[type[FrozenDict], tuple[dict[str, Value]]]:
        return FrozenDict, (dict(self),)


@final
class FrozenList(ImmutableList, list["Value"]):
    """An array. Build with `tree.freeze` or `codec.decode`, which check."""

    __slots__ = ()

    def __reduce__(self) -> tuple[type[FrozenList], tuple[list[Value]]]:
        return FrozenList, (list(self),)
