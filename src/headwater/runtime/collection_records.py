"""What apps declare of collections, stored in the space: the documents `collection:KIND`.

They are written when an app is opened. An opening only adds: fields, wider types of fields, and indexes. A field that
another program has declared with another type is refused, with both types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, cast

from msgspec.structs import replace

from headwater.errors import DeclarationError
from headwater.machine import machine
from headwater.runtime.error_report import log
from headwater.runtime.event_service import EventHost
from headwater.runtime.expiry import OpeningExpiry
from headwater.runtime.lease import Lease
from headwater.runtime.space_runtime import SpaceRuntime
from headwater.runtime.storage_port import LocalStorage
from headwater.store.collection_record import CollectionRecord, record_of
from headwater.values.codec import encode
from headwater.values.ids import BranchId
from headwater.values.shape import Shapes
from headwater.values.tree import ABSENT, Value, is_array, is_map, map_of, same

FIELDS: Final = "fields"
"""The key of a record with the types of the fields, as shapes."""
TYPES: Final = "types"
"""The key of a record with the records that these types name."""

PATIENCE_S: Final = 1.0
"""After this time a line says that indexes are being built."""


class CollectionHost(EventHost):
    """An open space, as collections are declared in it."""

    runtime: SpaceRuntime
    branch: BranchId
    expiry: OpeningExpiry
    _lease: Lease

    @property
    def local_storage(self) -> LocalStorage:
        """The storage in this process. Raises UsageError if a server has it."""
        return self._lease.local


def declare_collections(opened: CollectionHost, records: Sequence[CollectionRecord]) -> None:
    """Write the records that differ, wait until new indexes are built, and let queries use them.

    Documents of the file expire from now on, also those of other apps. At a server nothing is written: queries are not
    available there.
    """
    if opened.connection.state == "local":
        if records:
            _declare(opened, records)
        opened.expiry.begin()


def _declare(opened: CollectionHost, records: Sequence[CollectionRecord]) -> None:
    opened.wait_for_disk()
    replica, storage = opened.runtime.attached, opened.local_storage
    replica.refresh()
    known = dict(replica.collections)
    for record in records:
        stored = replica.read(record.doc)
        known_record = None if stored is ABSENT else record_of(record.doc, stored)
        wanted = record if known_record is None else _merged(known_record, record)
        with _Patience(
            f"space {opened.name!r}: building the indexes of collection {record.kind!r}; it opens after that"
        ):
            known[record.kind] = storage.declare(wanted, branch=opened.branch)
    for index in storage.call(lambda engine: engine.collections.take_rebuilt()):
        log.warning(
            "space %r: the index %s was damaged, and was made again from the documents; run `headwater verify` to "
            "check the rest of the file",
            opened.name,
            index,
        )
    # A read as of before the declaration would miss what it has built.
    replica.refresh()
    replica.attach_collections(known)


class _Patience:
    """Logs a line if its block takes long."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._running = machine().lock()

    def __enter__(self) -> None:
        self._running.acquire()
        machine().thread(self._wait, name="headwater-patience").start()

    def _wait(self) -> None:
        if self._running.acquire(timeout=PATIENCE_S):
            self._running.release()
        else:
            log.warning("%s", self._text)

    def __exit__(self, *_error: object) -> None:
        self._running.release()


def _merged(stored: CollectionRecord, declared: CollectionRecord) -> CollectionRecord:
    """The declared record with the fields that the stored one has besides."""
    before, now = dict(stored.rest), dict(declared.rest)
    fields = _merged_fields(declared.kind, before.get(FIELDS), now.get(FIELDS))
    types = {**_entries(before.get(TYPES)), **_entries(now.get(TYPES))}
    rest = tuple({**before, **now, FIELDS: fields, TYPES: map_of(types)}.items())
    return replace(declared, rest=rest)


def _entries(tree: Value) -> Mapping[str, Value]:
    return cast("Mapping[str, Value]", tree) if is_map(tree) else {}


def _merged_fields(kind: str, stored: Value, declared: Value) -> Value:
    merged = dict(_entries(stored))
    for name, shape in _entries(declared).items():
        known = merged.get(name)
        if known is not None and not _takes(shape, known):
            here, there = (Shapes(None).schema(each).expected for each in (shape, known))
            message = (
                f"the field {name!r} of the collection {kind!r} is declared as {here}, and this space has it as "
                f"{there}; declare a type that takes both, or give the new field another name"
            )
            raise DeclarationError(message, collection=kind, field=name)
        merged[name] = shape
    return map_of(merged)


def _takes(shape: Value, other: Value) -> bool:
    """Whether a type takes every value of another one."""
    options = _options(shape)
    return "any" in options or all(_is_among(each, options) for each in _options(other))


def _is_among(option: Value, options: list[Value]) -> bool:
    if any(same(option, each) for each in options):
        return True
    if option == "int":
        return "float" in options
    choices = _part(option, "choice")
    if is_array(choices):
        listed = {encode(each) for found in options if is_array(many := _part(found, "choice")) for each in many}
        return all(encode(each) in listed or _WORDS.get(type(each), "") in options for each in choices)
    return False


_WORDS: Final[dict[type, str]] = {str: "str", int: "int", bool: "bool", float: "float", bytes: "bytes"}


def _options(shape: Value) -> list[Value]:
    """The options of a union; the type itself. Rules do not count: they are checked by programs."""
    inner = _part(shape, "of")
    if inner is not None:
        return _options(inner)
    union = _part(shape, "union")
    if is_array(union):
        return [option for each in union for option in _options(each)]
    if is_map(shape) and _part(shape, "link") is not None and _part(shape, "optional") is True:
        return [map_of({"link": _part(shape, "link"), "optional": False}), "null"]
    return [shape]


def _part(shape: Value, word: str) -> Value:
    return shape.get(word) if is_map(shape) else None
