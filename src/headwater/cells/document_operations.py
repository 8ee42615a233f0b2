"""Operations on a whole document, or on the value of a cell. Functions, because a `Doc` has no names of its own."""

from __future__ import annotations

from typing import Any

from headwater.cells.cell import Cell
from headwater.cells.context import UNTRACKED, find
from headwater.cells.display import shorten
from headwater.cells.document_class import Doc
from headwater.cells.linked_spaces import LinkedSpace
from headwater.cells.reading import Readable
from headwater.cells.slot import Slot
from headwater.cells.space_port import SpacePort
from headwater.cells.transaction import Transaction
from headwater.errors import AddressError
from headwater.values.address import Address
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


def address_of(thing: Doc | Readable) -> str:
    """The address of a document, or of a cell, with the id of its space: the same text in every program.

    Args:
        thing: A document, a cell, a list or a map.

    Returns:
        The address, such as `hw://7k3q9d4m2x8v1n6p0c5r/person:5f0c`. A space that is not open need not be found.

    Raises:
        AddressError: HW101. It is neither a document nor a cell.
        NotOpen: HW001. Its app has no open space here.

    Example:
        ```python
        import headwater as hw

        app = hw.App("counter")
        count = app.cell("count", 0)
        with app.open("memory:") as space:
            print(hw.address_of(count) == f"hw://{space.id}/counter.count")  # True
        ```
    """
    given: object = thing
    if not isinstance(given, Doc | Readable):
        raise AddressError(f"{shorten(safe_repr(given))} is neither a document nor a cell")
    owner = thing._hw_owner if isinstance(thing, Doc) else thing._owner
    if isinstance(owner, LinkedSpace):
        space_id, space = owner.space_id, owner.near
    else:
        space, _ = find(owner, "an address", UNTRACKED)
        space_id = space.space_id
    if not space_id:
        raise AddressError(f"the id of space {space.name!r} is not known: its server does not tell it")
    return str(Address(*address_in(thing, space), space_id))


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
