"""Document classes, by the word that the ids of their documents begin with."""

from __future__ import annotations

from typing import Final, cast
from weakref import WeakSet

from headwater.errors import DeclarationError, SchemaError

RESERVED: Final = frozenset({"schema", "collection", "events", "headwater"})
"""Reserved words: ids of Headwater's own documents begin with them."""

_CLASSES: Final[dict[str, WeakSet[type]]] = {}
"""The document classes of this program, by the word of their ids."""


def kind_of_id(cls: type) -> str:
    """The first word of the ids of new documents: of its collection, if that has a name of its own; not inherited."""
    named = cls.__dict__.get("_hw_kind")
    if named is not None:
        return cast("str", named)
    return "".join(letter for letter in cls.__name__.lower() if letter not in ":/") or "doc"


def register_class(cls: type) -> None:
    """Register a document class. Raises DeclarationError if its word is reserved."""
    word = kind_of_id(cls)
    if word in RESERVED:
        message = (
            f"class {cls.__qualname__}(hw.Doc): ids that begin with {word!r} belong to Headwater; choose another name "
            "for the class"
        )
        raise DeclarationError(message, name=cls.__qualname__)
    _CLASSES.setdefault(word, WeakSet()).add(cls)


def rename_kind(cls: type, word: str) -> None:
    """The ids of new documents of a class begin with this word."""
    type.__setattr__(cls, "_hw_kind", word)
    _CLASSES.setdefault(word, WeakSet()).add(cls)


def check_class(kind: type, doc: str, *, fixed: bool) -> None:
    """Refuse a handle of another class than the document's, by the first word of its id.

    An id without a word, or whose word belongs to no class of this program (the class was renamed), fits every class. A
    class without fields of its own (not `fixed`) fits every id.
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
