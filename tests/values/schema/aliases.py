"""Aliases, as the `type` statement of newer Pythons makes them."""

from __future__ import annotations

from types import GenericAlias
from typing import Any, TypeVar, Union

from typing_extensions import TypeAliasType

T = TypeVar("T")


class LateAlias:
    """What `type X = ...` makes: its value is looked up when it is asked for."""

    def __init__(self, name: str, value: Any, type_params: tuple[Any, ...] = ()) -> None:
        self.__name__ = name
        self._value = value
        self.__type_params__ = type_params

    @property
    def __value__(self) -> Any:
        return self._value()

    def __repr__(self) -> str:
        return self.__name__


LateAlias.__name__ = "TypeAliasType"


def either(*options: Any) -> Any:
    return Union.__getitem__(options)


Tree: Any = LateAlias("Tree", lambda: either(int, GenericAlias(list, Tree)))
Forest: Any = LateAlias("Forest", lambda: GenericAlias(list, either(Tree, None)))
Chain: Any = LateAlias("Chain", lambda: either(Chain, int))
Loop: Any = LateAlias("Loop", lambda: Pool)
Pool: Any = LateAlias("Pool", lambda: Loop)
Own: Any = LateAlias("Own", lambda: Own)
Unknown: Any = LateAlias("Unknown", lambda: nowhere)  # type: ignore[name-defined]  # noqa: F821
Pair = TypeAliasType("Pair", tuple[T, T], type_params=(T,))
Number = TypeAliasType("Number", int)
