"""What apps declare of collections, stored in the space: the documents `collection:KIND`.

They are written when an app is opened. An opening only adds: fields, wider types of fields, and indexes. A field that
another program has declared with another type is refused, with both types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, cast

from headwater.errors import DeclarationError
from headwater.runtime.event_service import EventHost
from headwater.store.collection_record import CollectionRecord, Index, record_of
from headwater.store.commit import SetDoc
from headwater.values.codec import encode
from headwater.values.shape import Shapes
from headwater.values.tree import ABSENT, Value, is_array, is_map, map_of, same

FIELDS: Final = "fields"
"""The key of a record with the types of the fields, as shapes."""


def declare_collections(opened: EventHost, records: Sequence[CollectionRecord]) -> None:
    """Write the records that differ, wait until new indexes are built, and let queries use them.

    At a server nothing is written: queries are not available there.
    """
    if opened.connection.state != "local":
        return
    replica, is_new = opened.replica, False
    known = dict(replica.collections)
    with opened.lock:
        for record in records:
            stored = replica.read(record.doc)
            merged = record if stored is ABSENT else _merged(record_of(record.doc, stored), record)
            tree = merged.to_value()
            if not same(stored, tree):
                replica.commit((SetDoc(record.doc, tree),))
                is_new = True
            known[record.kind] = merged
    if is_new:
        opened.wait_for_disk()
    with opened.lock:
        replica.attach_collections(known)


def _merged(stored: CollectionRecord, declared: CollectionRecord) -> CollectionRecord:
    """The stored record with what is declared besides. Raises DeclarationError where they disagree."""
    if stored.scope != declared.scope:
        message = (
            f"the collection {declared.kind!r} is declared with scope={declared.scope!r}, and this space has it with "
            f"scope={stored.scope!r}; use that, or another name="
        )
        raise DeclarationError(message, collection=declared.kind)
    indexes: dict[Index, None] = dict.fromkeys((*stored.indexes, *declared.indexes))
    before, now = dict(stored.rest), dict(declared.rest)
    fields = _merged_fields(declared.kind, before.get(FIELDS), now.get(FIELDS))
    rest = tuple({**before, **now, FIELDS: fields}.items())
    return CollectionRecord(stored.kind, stored.scope, tuple(indexes), rest)


def _merged_fields(kind: str, stored: Value, declared: Value) -> Value:
    merged = dict(cast("Mapping[str, Value]", stored)) if is_map(stored) else {}
    for name, shape in (cast("Mapping[str, Value]", declared) if is_map(declared) else {}).items():
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
