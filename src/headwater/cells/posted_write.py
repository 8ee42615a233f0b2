"""Applying a post: one write to a cell, as another space has sent it, in the transaction of its handling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from headwater.cells.cell import Cell
from headwater.cells.detached_value import DetachedValue
from headwater.cells.slot import Slot
from headwater.cells.space_port import SpacePort
from headwater.cells.transaction import Transaction
from headwater.errors import SchemaError
from headwater.values.ids import DocKey
from headwater.values.schema import ANY, Schema
from headwater.values.tree import ABSENT, Path, Value, is_array

_ANYWHERE: Final = 2**31
"""An index that lists have and tuples of a fixed length do not."""


def posted_document(payload: Value) -> DocKey:
    """The document that a post writes."""
    return DocKey(str(cast("Mapping[str, Value]", payload)["doc"]))


def posted_path(payload: Value) -> Path:
    """The path that a post writes, in its document."""
    fields = cast("Mapping[str, Value]", payload)
    return (*_path(fields["root"]), *_path(fields["path"]))


def is_posted_to(declared: object, payload: Value) -> bool:
    """Whether a post writes to a declared cell, or to a part of it."""
    return isinstance(declared, Cell) and declared._path == _path(cast("Mapping[str, Value]", payload)["root"])


def apply_post(space: SpacePort, tx: Transaction, payload: Value, declared: object) -> None:
    """Apply a post. `declared` is the cell as an app declares it, or None. Raises SchemaError if it does not fit."""
    fields, doc = cast("Mapping[str, Value]", payload), posted_document(payload)
    schema, default = ANY, fields.get("default", ABSENT)
    if isinstance(declared, Cell):
        schema, default = declared._schema, declared._default
    root = _path(fields["root"])
    cell: Slot = Cell[Any](space, doc.partition("/")[2], root, schema=schema, default=default, key=doc)
    for step in _path(fields["path"]):
        cell = cell._part(step)
    _write(space, tx, cast("Cell[Any]", cell), str(fields["verb"]), fields["value"])


def _write(space: SpacePort, tx: Transaction, cell: Cell[Any], verb: str, tree: Value) -> None:
    element = cell._schema.child(_ANYWHERE)
    match verb:
        case "set":
            cell.value = _loaded(space, tx, cell, cell._schema, tree)
        case "increment" if isinstance(tree, int | float):
            cell.increment(tree)
        case "append" if element is not None:
            cell.append(_loaded(space, tx, cell, element, tree))
        case "add_unique" if element is not None:
            cell.add_unique(_loaded(space, tx, cell, element, tree))
        case "remove":
            cell.remove(tree if element is None else _loaded(space, tx, cell, element.bare, tree))
        case _:
            message = f"{cell.address} cannot be posted to with {verb}: it is declared as {cell._schema.expected}"
            raise SchemaError(message, expected=cell._schema.expected)


def _loaded(space: SpacePort, tx: Transaction, cell: Slot, schema: Schema, tree: Value) -> object:
    """A posted value as an author's value. Raises SchemaError."""
    return DetachedValue(space, cell._scope[0], ("posted",), schema=schema).from_tree(space, tx, tree)


def _path(value: Value) -> Path:
    return tuple(step for step in value if isinstance(step, str | int)) if is_array(value) else ()
