"""What apps declare of collections, stored in the space: the documents `collection:KIND`.

They are written when an app is opened. An opening only adds: fields, wider types of fields, and indexes. A field that
another program has declared with another type is refused, with both types. Narrower types and other rules are deployed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, cast

from msgspec.structs import replace

from headwater.cells.pending_commit import PendingCommit
from headwater.cells.rejection import rejection
from headwater.errors import AccessError, DeclarationError
from headwater.machine import machine
from headwater.runtime.error_report import log
from headwater.runtime.event_service import EventHost
from headwater.runtime.expiry import OpeningExpiry
from headwater.runtime.lease import Lease
from headwater.runtime.space_runtime import SpaceRuntime
from headwater.runtime.storage_port import LocalStorage
from headwater.store.collection_record import (
    FIELDS,
    OWNER,
    REQUIRED,
    RULES,
    TOTALS,
    TYPES,
    CollectionRecord,
    record_of,
)
from headwater.store.commit import Committed, SetDoc
from headwater.store.declaring import widened
from headwater.values.codec import encode
from headwater.values.ids import BranchId
from headwater.values.shape import Shapes
from headwater.values.tree import ABSENT, Value, array_of, is_array, is_map, map_of, same

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

    Documents of the file expire from now on, also those of other apps. At a server, only an owner may change a record,
    and queries are not available.
    """
    state = opened.connection.state
    if state == "live":
        _declare_at_server(opened, records)
    elif state == "local":
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
        wanted = record if stored is ABSENT else _added(opened.name, record_of(record.doc, stored), record)
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


def _declare_at_server(opened: CollectionHost, records: Sequence[CollectionRecord]) -> None:
    replica = opened.runtime.attached
    written: list[PendingCommit] = []
    replica.hold([record.doc for record in records])
    for record in records:
        stored = replica.read(record.doc)
        known = None if stored is ABSENT else record_of(record.doc, stored)
        wanted = record if known is None else widened(known, _added(opened.name, known, record))
        if wanted == known:
            continue
        if opened.connection.can != "own":
            message = (
                f"space {opened.name!r} lacks something that the collection {record.kind!r} of this app declares, and "
                "the right to own it is missing; ask an owner to deploy the app: `headwater collections deploy "
                "MODULE:APP`"
            )
            raise AccessError(message, space=opened.name, collection=record.kind)
        written.append(replica.commit((SetDoc(wanted.doc, wanted.to_value()),)))
    if written:
        opened.wait_for_disk()
        replica.refresh()
    for pending in written:
        if pending.error is not None or not isinstance(pending.verdict, Committed):
            raise rejection(pending.verdict, pending.error, opened.name)


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


def _added(space: str, stored: CollectionRecord, declared: CollectionRecord) -> CollectionRecord:
    """The declared record with what the stored one has besides. Its rules stay: an old program loosens none."""
    if any(not same(stored.parts.get(key, ABSENT), declared.parts.get(key, ABSENT)) for key in (OWNER, RULES)):
        log.warning(
            "space %r: the rules of the collection %r are not those that the app declares, and stay as they are; "
            "`headwater collections deploy MODULE:APP` replaces them",
            space,
            declared.kind,
        )
    return merged(stored, declared)


def merged(stored: CollectionRecord, declared: CollectionRecord) -> CollectionRecord:
    """The declared record with the fields and types that the stored one has besides, and with the stored rules.

    Raises DeclarationError if a field is declared with a type that does not take all values of the stored one.
    """
    before = stored.parts
    now = {key: value for key, value in declared.parts.items() if key not in (OWNER, RULES)}
    kind = declared.kind
    rest: dict[str, Value] = {
        **before,
        **now,
        FIELDS: _merged_fields(kind, before.get(FIELDS), now.get(FIELDS)),
        TYPES: _merged_types(kind, before.get(TYPES), now.get(TYPES)),
        REQUIRED: _merged_required(before, now),
    }
    totals = _items(before.get(TOTALS))
    totals += [each for each in _items(now.get(TOTALS)) if not any(same(each, other) for other in totals)]
    if totals:
        rest[TOTALS] = array_of(totals)
    return replace(declared, rest=tuple(sorted(rest.items())))


def deployed(stored: CollectionRecord, declared: CollectionRecord) -> CollectionRecord:
    """The stored record with the fields, types and rules that are declared, and no others. Its indexes stay."""
    kept = {key: value for key, value in stored.parts.items() if key not in (OWNER, RULES, TOTALS)}
    added = widened(stored, declared)
    return replace(added, rest=tuple(sorted({**kept, **declared.parts}.items())))


def changes_of_record(stored: CollectionRecord | None, wanted: CollectionRecord) -> list[str]:
    """What differs between two records of a collection, in words; empty if nothing does."""
    before: Mapping[str, Value] = {} if stored is None else stored.parts
    known, fields = _entries(before.get(FIELDS)), _entries(wanted.parts.get(FIELDS))
    found = ["new"] if stored is None else []
    for name in dict.fromkeys((*known, *fields)):
        here, there = known.get(name, ABSENT), fields.get(name, ABSENT)
        if not same(here, there):
            what = " becomes ".join(
                [Shapes(None).schema(each).expected for each in (here, there) if each is not ABSENT]
            )
            found.append(f"field {name}{' dropped' if there is ABSENT else ''}: {what}")
    for key, what in ((TYPES, "types of records"), (REQUIRED, "fields without a default"), (TOTALS, "totals")):
        if stored is not None and not same(before.get(key, ABSENT), wanted.parts.get(key, ABSENT)):
            found.append(f"{what} changed")
    names = set() if stored is None else {each.name for each in stored.named}
    found += [f"index {each.name}" for each in wanted.named[1:] if each.name not in names]
    if not same(before.get(OWNER, ABSENT), wanted.parts.get(OWNER, ABSENT)):
        found.append(f"owner: {wanted.rules.owner or 'none'}")
    rules = wanted.rules.rules
    if not same(before.get(RULES, ABSENT), wanted.parts.get(RULES, ABSENT)):
        found.append(f"rules: {', '.join(rule.role for rule in rules) or 'none'}")
    return found or ([] if stored is None or same(stored.to_value(), wanted.to_value()) else ["other parts"])


def _entries(tree: Value) -> Mapping[str, Value]:
    return cast("Mapping[str, Value]", tree) if is_map(tree) else {}


def _items(tree: Value) -> list[Value]:
    return list(tree) if is_array(tree) else []


def _merged_fields(kind: str, stored: Value, declared: Value, of: str = "") -> Value:
    merged = dict(_entries(stored))
    for name, shape in _entries(declared).items():
        known = merged.get(name)
        if known is not None and not _takes(shape, known):
            here, there = (Shapes(None).schema(each).expected for each in (shape, known))
            message = (
                f"the field {of + name!r} of the collection {kind!r} is declared as {here}, and this space has it as "
                f"{there}; declare a type that takes both, or give the new field another name"
            )
            raise DeclarationError(message, collection=kind, field=of + name)
        merged[name] = shape
    return map_of(merged)


def _merged_types(kind: str, stored: Value, declared: Value) -> Value:
    """The records that types name. Those of one name are one class: their fields are merged, too."""
    merged = dict(_entries(stored))
    for name, table in _entries(declared).items():
        known = merged.get(name)
        if known is None or same(known, table):
            merged[name] = table
            continue
        before, now = _entries(known), _entries(table)
        fields = _merged_fields(kind, before.get(FIELDS), now.get(FIELDS), f"{name}.")
        merged[name] = map_of({**before, **now, FIELDS: fields, REQUIRED: _merged_required(before, now)})
    return map_of(merged)


def _merged_required(before: Mapping[str, Value], now: Mapping[str, Value]) -> Value:
    """The fields without a default: a field that has one in either declaration is not among them."""
    if REQUIRED not in before:
        return now.get(REQUIRED, array_of([]))
    known, declared = _entries(before.get(FIELDS)), _entries(now.get(FIELDS))
    old, new = _items(before[REQUIRED]), _items(now.get(REQUIRED))
    kept = [name for name in old if name not in declared or name in new]
    return array_of(sorted({str(name) for name in kept + [each for each in new if each not in known]}))


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
