"""Posts: writes to a cell of another space, sent with a transaction and applied there once.

A post reads nothing and has no condition. It is checked by the type of the cell when it is posted, and by the other
space when it is applied.
"""

from __future__ import annotations

from typing import Final, Generic, Literal, TypeAlias, TypeVar

from headwater.cells.context import UNTRACKED, find
from headwater.cells.slot import Slot
from headwater.errors import SchemaError
from headwater.values.hints import freeze_with
from headwater.values.tree import ABSENT, Value, array_of, map_of

T = TypeVar("T")

Verb: TypeAlias = Literal["set", "increment", "append", "add_unique", "remove"]

POST_STREAM: Final = "headwater:post"
"""The stream whose handler every space has."""

PUBLISH_STREAM: Final = "headwater:publish"
"""The stream of events for topics. Every space has its handler, too."""

_ANYWHERE: Final = 2**31
"""An index that lists have and tuples of a fixed length do not."""


class Post(Generic[T]):
    """Writes to a cell of any space, sent with the transaction around this code. Made by `cell.post`.

    No transaction covers two spaces. A post is stored with the transaction that makes it, and applied in the space of
    the cell when that transaction is confirmed: exactly once, in the order of the commits, also after a crash. Outside
    a transaction, it is an event to the space of the cell.
    """

    __slots__ = ("_cell",)

    def __init__(self, cell: Slot) -> None:
        self._cell = cell

    def set(self, value: T) -> None:
        """Write a value. The last post wins.

        Args:
            value: The value.

        Raises:
            SchemaError: HW108. The value does not fit the type.
            WriteError: HW104. Only reading is allowed here, as in a computed function.

        Example:
            ```python
            import headwater as hw

            shop, bank = hw.App("shop"), hw.App("bank")
            sold = shop.cell("sold", 0)
            latest = bank.cell("latest", "")
            with bank.open("memory:"), shop.open("memory:") as space:
                with space.transaction():
                    sold.value += 1
                    latest.post.set("tea")
                space.delivered()
                print(latest.value)  # tea
            ```
        """
        cell = self._cell
        self._send("set", cell._stored(cell._schema, value))

    def increment(self, by: float = 1) -> None:
        """Add to a number.

        Args:
            by: The number to add; negative to subtract.

        Raises:
            SchemaError: HW108. The cell or the step is not a number.
            WriteError: HW104. Only reading is allowed here, as in a computed function.
        """
        cell = self._cell
        step = freeze_with(cell._schema.bare, by, f"the step added to {cell.address}")
        if type(step) is not int and type(step) is not float:
            message = f"cannot add {by!r} to {cell.address}: it is declared as {cell._schema.expected}"
            raise SchemaError(message, expected=cell._schema.expected)
        self._send("increment", step)

    def append(self, item: object) -> None:
        """Append an item to a list.

        Args:
            item: The item.

        Raises:
            SchemaError: HW108. The item does not fit the type, or the value is not a list.
            WriteError: HW104. Only reading is allowed here, as in a computed function.
        """
        self._send("append", self._cell._items([item])[0])

    def add_unique(self, item: object) -> None:
        """Append an item to a list unless the list contains it.

        Args:
            item: The item.

        Raises:
            SchemaError: HW108. The item does not fit the type, or the value is not a list.
            WriteError: HW104. Only reading is allowed here, as in a computed function.
        """
        self._send("add_unique", self._cell._items([item])[0])

    def remove(self, item: object) -> None:
        """Remove every equal element of a list, or one key of a dict. A missing one is not an error.

        Args:
            item: The element, or the key.

        Raises:
            SchemaError: HW108. The value is neither a list nor a dict.
            WriteError: HW104. Only reading is allowed here, as in a computed function.
        """
        cell = self._cell
        if cell._schema.child(_ANYWHERE) is not None:
            self._send("remove", cell._items([item], ruled=False)[0])
            return
        if type(item) is not str or cell._schema.child(item) is None:
            message = f"cannot remove {item!r} from {cell.address}: a list, or a key of a dict, is expected"
            raise SchemaError(f"{message}; it is declared as {cell._schema.expected}", expected=cell._schema.expected)
        self._send("remove", item)

    def _send(self, verb: Verb, value: Value) -> None:
        cell = self._cell
        space, _ = find(cell._owner, cell, UNTRACKED)
        root = cell
        while root._parent is not None:
            root = root._parent
        fields: dict[str, Value] = {
            "doc": cell._key(space),
            "path": array_of(list(cell._path[len(root._path) :])),
            "root": array_of(list(root._path)),
            "verb": verb,
            "value": value,
        }
        if root._default is not ABSENT and root._default:
            # The other space may be open without the app that declares it.
            fields["default"] = root._default
        space.post(map_of(fields))
