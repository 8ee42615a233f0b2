"""What an app declares, stored in the file beside its data: the document `schema:APP`.

It is written when the app is opened, if the stored one differs and this opening may write. No part of an app depends on
it. It is for commands that read the data without the program (see `values/shape.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final, cast

from headwater.cells.cell import Cell
from headwater.cells.document_class import Doc, fields_of_class
from headwater.cells.document_kinds import kind_of_id
from headwater.cells.reading import schema_at
from headwater.cells.space_port import ADVISORY
from headwater.declare.collections.collection import Collection
from headwater.errors import HeadwaterError
from headwater.runtime.event_service import EventHost
from headwater.runtime.server_rules import may_write
from headwater.store.commit import SetDoc
from headwater.values.address import doc_key
from headwater.values.ids import DocKey
from headwater.values.schema import ANY, Schema
from headwater.values.shape import Shapes, Shaping
from headwater.values.tree import Maybe, Value, freeze, is_map, same

PREFIX: Final = "schema:"
"""The prefix of documents with declarations of apps."""

_FORMAT: Final = 1

_DECIDED_S: Final = 10.0
"""How long to wait for a server."""


def schema_key(app: str) -> DocKey:
    """The document of an app's declarations."""
    return doc_key(f"{PREFIX}{app}")


# --- writing ------------------------------------------------------------------------------------------------------


def declared_types(declared: Mapping[str, object]) -> Value | None:
    """The declarations of an app in their stored form; None if none of them holds data."""
    shaping = Shaping()
    cells: dict[str, Value] = {}
    docs: dict[str, Value] = {}
    for name, thing in declared.items():
        if type(thing) is Cell:
            cells[name] = shaping.shape(schema_at(thing))
        elif isinstance(thing, Doc):
            kind = type(thing)
            docs[name] = shaping.classes.setdefault(kind, shaping.name(kind, kind.__name__))
        elif isinstance(thing, Collection):
            kind = thing.document_class
            shaping.classes.setdefault(kind, shaping.name(kind, kind.__name__))
    if not cells and not shaping.classes:
        return None
    kinds: dict[str, Value] = {}
    done: set[type] = set()
    while todo := [kind for kind in shaping.classes if kind not in done]:
        for kind in todo:
            done.add(kind)
            assert issubclass(kind, Doc)
            shaping.put(shaping.classes[kind], _fields(kind), [])
            kinds.setdefault(kind_of_id(kind), shaping.classes[kind])
    whole = {"format": _FORMAT, "cells": cells, "docs": docs, "kinds": kinds, "records": shaping.records}
    return freeze({key: item for key, item in whole.items() if item})


def _fields(kind: type[Doc]) -> dict[str, Schema]:
    found: dict[str, Schema] = {}
    for name, field in fields_of_class(kind).items():
        try:
            found[name] = field.resolve()[0]
        except HeadwaterError:
            # The first use of the field reports it.
            found[name] = ANY
    return found


class TypeRecordsPort(EventHost):
    """An open space, as records of types are written to it."""

    keeps_types: bool
    is_main: bool


def keep_types(opened: TypeRecordsPort, app: str, declared: Mapping[str, object]) -> None:
    """Store what an app declares, unless the same is stored already.

    Not in memory, which no other program can read; and not into a folder (`local=`), which is for writes of authors.
    """
    connection = opened.connection
    if not opened.keeps_types or not opened.is_main or not may_write(connection):
        return
    if connection.state not in ("local", "live"):
        return
    types = declared_types(declared)
    key = schema_key(app)
    if types is None:
        return
    with opened.lock:
        if same(opened.replica.read(key), types):
            return
        opened.replica.commit((SetDoc(key, types),), source=ADVISORY)
    if connection.state == "live":
        # Decided before the author writes anything: it must not wait, or be lost, as writes of authors may.
        with suppress(HeadwaterError):
            opened.wait_for_disk(_DECIDED_S)


# --- reading ------------------------------------------------------------------------------------------------------


class Declared:
    """The declarations of apps in a space, by the name of the document."""

    def __init__(self, found: Iterable[tuple[str, Maybe]]) -> None:
        """`found`: the name and the content of each such document."""
        self._types: dict[str, Callable[[], Schema]] = {}
        self._kinds: dict[str, Callable[[], Schema]] = {}
        self.apps: list[str] = []
        for name, value in found:
            if name.startswith(PREFIX) and is_map(value):
                self._add(name.removeprefix(PREFIX), cast("Mapping[str, Value]", value))

    def _add(self, app: str, value: Mapping[str, Value]) -> None:
        shapes = Shapes(value.get("records"))
        self.apps.append(app)

        def of(shape: Value) -> Callable[[], Schema]:
            return lambda: shapes.schema(shape)

        def record(name: Value) -> Callable[[], Schema]:
            return lambda: shapes.record(str(name)) or ANY

        for name, shape in _entries(value, "cells"):
            self._types[f"{app}.{name}"] = of(shape)
        for name, kind in _entries(value, "docs"):
            self._types[f"{app}.{name}"] = record(kind)
        for word, kind in _entries(value, "kinds"):
            self._kinds.setdefault(word, record(kind))

    def __bool__(self) -> bool:
        return bool(self.apps)

    @property
    def names(self) -> list[str]:
        """The documents with fixed names: cells, and documents with a name."""
        return list(self._types)

    def of(self, doc: DocKey) -> Schema | None:
        """The declared type of a document; None if no app has declared it."""
        name = doc.partition("/")[2]
        found = self._types.get(name) or self._kinds.get(name.partition(":")[0] if ":" in name else "")
        return None if found is None else found()


def _entries(value: Mapping[str, Value], key: str) -> Iterable[tuple[str, Value]]:
    part = value.get(key)
    return cast("Mapping[str, Value]", part).items() if is_map(part) else ()
