"""A document without a class: all of its fields, read and written as attributes."""

from __future__ import annotations

from typing import Any

from headwater.cells.cell import Cell
from headwater.cells.document_class import Doc


class AnyDoc(Doc):
    """A document without a class: each of its fields is an attribute.

    Made by `space.doc(id)`, to read a space without the classes of its app.

    Example:
        ```python
        import headwater as hw

        app = hw.App("notes")
        with app.open("memory:") as space:
            note = space.doc("notes.first")
            note.text = "tea"
            print(note.text)  # tea
        ```
    """

    __slots__ = ()

    _hw_fixed = False

    def _hw_part(self, name: str) -> Cell[Any]:
        part = self._hw_slots.get(name)
        if part is None:
            doc, scope = self._hw_scope
            part = self._hw_slots[name] = Cell[Any](self._hw_owner, doc, (name,), scope=scope, key=self._hw_key)
        return part

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        part = self._hw_part(name)
        if not part.exists:
            raise AttributeError(f"{part.address} does not exist")
        return part.value

    def __setattr__(self, name: str, value: object) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, value)
        else:
            self._hw_part(name).value = value

    def __delattr__(self, name: str) -> None:
        self._hw_part(name).clear()

    def _hw_peek(self) -> list[tuple[str, object]]:
        doc, scope = self._hw_scope
        value = Cell[Any](self._hw_owner, doc, scope=scope, key=self._hw_key)._shown()
        return list(value.items()) if isinstance(value, dict) else []
