"""Document classes, by the word that the ids of their documents begin with."""

from __future__ import annotations

from typing import Final
from weakref import WeakSet

from headwater.errors import DeclarationError, SchemaError

RESERVED: Final = frozenset({"schema", "collection", "events", "headwater"})
"""Words that no class of an author's may have: documents of Headwater are called so."""

_CLASSES: Final[dict[str, WeakSet[type]]] = {}
"""The classes of this program, by their word."""


def kind_of_id(cls: type) -> str:
    """The word in front of the ids of new documents."""
    return "".join(letter for letter in cls.__name__.lower() if letter not in ":/") or "doc"


def register_class(cls: type) -> None:
    """A class was made. Raises DeclarationError if its word is taken."""
    word = kind_of_id(cls)
    if word in RESERVED:
        message = (
            f"class {cls.__qualname__}(hw.Doc): ids that begin with {word!r} belong to Headwater; choose another name "
            "for the class"
        )
        raise DeclarationError(message, name=cls.__qualname__)
    _CLASSES.setdefault(word, WeakSet()).add(cls)


def check_class(kind: type, doc: str, *, fixed: bool) -> None:
    """Refuse a handle of a class that is not the document's. Its id tells, where it was made by a class.

    An id whose word no class of this program has (the class was renamed), or without any, fits every class; so does
    every id a class without fields of its own (not `fixed`).
    """
    word, mark, _ = doc.partition(":")
    if not mark or not fixed:
        return
    made_by = list(_CLASSES.get(word, ()))
    if made_by and not any(issubclass(kind, each) or issubclass(each, kind) for each in made_by):
        names = " or ".join(sorted({each.__qualname__ for each in made_by}))
        message = (
            f"{doc} is a document of class {names}, not of {kind.__qualname__}; use that class, or space.doc({doc!r}) "
            "for its fields whatever they are"
        )
        raise SchemaError(message, doc=doc, kind=kind.__qualname__)
