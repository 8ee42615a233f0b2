"""Operations on a whole document, or on the value of a cell. Functions, because a `Doc` has no names of its own."""

from __future__ import annotations

from typing import Any

from headwater.cells.cell import Cell
from headwater.cells.context import find
from headwater.cells.display import shorten
from headwater.cells.document_class import Doc
from headwater.cells.reading import Readable
from headwater.cells.slot import Slot
from headwater.cells.space_port import SpacePort
from headwater.cells.transaction import Transaction
from headwater.errors import AddressError
from headwater.values.author_text import safe_repr
from headwater.values.ids import DocKey
from headwater.values.tree import Path


def exists(thing: Doc | Cell[Any]) -> bool:
    """Whether a document, or the value of a cell, is stored. The read is a dependency, as any other.

    Args:
        thing: A document or a cell.

    Returns:
        True if a value is stored.

    Raises:
        AddressError: HW101. It is neither a document nor a cell.
    """
    return _root(thing)._exists()


def delete(thing: Doc | Cell[Any]) -> None:
    """Delete a document, or the stored value of a cell.

    Links to a deleted document stay and dangle. A field `hw.Link[X | None]` then reads as None.

    Args:
        thing: A document or a cell.

    Raises:
        AddressError: HW101. It is neither a document nor a cell.
        WriteError: HW104. Only reading is allowed here, as in a computed function.

    Example:
        ```python
        import headwater as hw


        class Note(hw.Doc):
            text: str


        app = hw.App("notes")
        with app.open("memory:"):
            note = Note(text="tea")
            hw.delete(note)
            print(hw.exists(note))  # False
        ```
    """
    _root(thing)._remove()


def _root(thing: object) -> Slot:
    if isinstance(thing, Doc):
        name, scope = thing._hw_scope
        return Slot(thing._hw_owner, name, scope=scope, key=thing._hw_key)
    if isinstance(thing, Slot):
        return thing
    raise AddressError(f"{shorten(safe_repr(thing))} is neither a document nor a cell")


def id_of(doc: Doc) -> str:
    """The id of a document: permanent, and the same in every process.

    `space.doc(id, Class)` returns the document again.

    Args:
        doc: The document.

    Returns:
        The id, as text.

    Raises:
        AddressError: HW101. It is not a document.

    Example:
        ```python
        import headwater as hw


        class Note(hw.Doc):
            text: str


        app = hw.App("notes")
        with app.open("memory:") as space:
            note = Note(text="tea")
            print(space.doc(hw.id_of(note), Note).text)  # tea
        ```
    """
    given: object = doc
    if not isinstance(given, Doc):
        raise AddressError(f"{shorten(safe_repr(given))} is not a document")
    return given._hw_scope[0]


def space_of(thing: Doc | Readable, what: str) -> tuple[SpacePort, Transaction | None]:
    """The space of a document or a cell in this context, and the current transaction."""
    return find(thing._hw_owner if isinstance(thing, Doc) else thing._owner, what)


def address_in(thing: Doc | Readable, space: SpacePort) -> tuple[DocKey, Path]:
    """The address of a document or a cell in an open space."""
    if isinstance(thing, Doc):
        return thing._hw_key or space.key(*thing._hw_scope), ()
    return thing._key(space), thing._path


def declared_address(thing: Doc | Readable) -> tuple[str, Path]:
    """The address of a document or a cell before a space is open, for comparisons: all users' instances are equal."""
    if isinstance(thing, Doc):
        name, scope = thing._hw_scope
        return thing._hw_key or f"{scope}/{name}", ()
    name, scope = thing._scope
    return thing._doc or f"{scope}/{name}", thing._path


def identity_key(doc: Doc) -> str:
    """The identity of a document among those of its class: scope and id."""
    name, scope = doc._hw_scope
    return f"{scope}!{name}"
