"""What apps declare of collections, stored in the space: the documents `collection:KIND`.

They are written when an app is opened. An opening only adds: fields, wider types of fields, and indexes. A field that
another program has declared with another type is refused, with both types. Narrower types and other rules are deployed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, cast

from msgspec.structs import replace

from headwater.cells.pending_commit import PendingCommit
from headwater.cells.query_source import NO_FORMER, DeclaredCollection, FormerFields
from headwater.cells.rejection import rejection
from headwater.errors import AccessError, DeclarationError
from headwater.machine import machine
from headwater.runtime.error_report import log, log_rebuilt
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
    TYPES,
    CollectionRecord,
    record_of,
)
from headwater.store.commit import Committed, SetDoc
from headwater.store.declaring import widened
from headwater.values.ids import BranchId, DocKey
from headwater.values.shape import Shapes
from headwater.values.shape_width import takes_all, union_of
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

    def release_documents(self, docs: Collection[DocKey]) -> None:
        """Release documents from memory."""


def declare_collections(opened: CollectionHost, collections: Sequence[DeclaredCollection]) -> None:
    """Write the records that differ, wait until new indexes are built, and let queries use them.

    Documents of the file expire from now on, also those of other apps. At a server, only an owner may change a record;
    while it is not reached, the records are those that were stored.
    """
    state = opened.connection.state
    if state == "live":
        _declare_at_server(opened, collections)
        _attach_stored(opened, collections)
    elif state == "local":
        if collections:
            _declare(opened, collections)
        opened.expiry.begin()
    else:
        _attach_stored(opened, collections)


def _attach_stored(opened: CollectionHost, collections: Sequence[DeclaredCollection]) -> None:
    """Let queries use the records of a server's space, as far as they are here."""
    replica = opened.runtime.attached
    known = dict(replica.collections)
    for each in collections:
        doc = each.record.doc
        stored = replica.read(doc) if replica.is_loaded(doc) else ABSENT
        if stored is not ABSENT:
            known[each.record.kind] = record_of(doc, stored)
    replica.attach_collections(known)


def _declare(opened: CollectionHost, collections: Sequence[DeclaredCollection]) -> None:
    opened.wait_for_disk()
    replica, storage = opened.runtime.attached, opened.local_storage
    replica.refresh()
    known = dict(replica.collections)
    for each in collections:
        record = each.record
        stored = replica.read(record.doc)
        known_record = None if stored is ABSENT else record_of(record.doc, stored)
        wanted = _added(opened.name, known_record, each)
        with _Patience(
            f"space {opened.name!r}: building the indexes of collection {record.kind!r}; it opens after that"
        ):
            known[record.kind] = storage.declare(wanted, branch=opened.branch)
    for index in storage.call(lambda engine: engine.collections.take_rebuilt()):
        log_rebuilt(opened.name, f"the index {index}", "the documents")
    # A read as of before the declaration would miss what it has built.
    replica.refresh()
    replica.attach_collections(known)


def _declare_at_server(opened: CollectionHost, collections: Sequence[DeclaredCollection]) -> None:
    replica = opened.runtime.attached
    written: list[PendingCommit] = []
    replica.hold([each.record.doc for each in collections])
    for each in collections:
        record = each.record
        stored = replica.read(record.doc)
        known = None if stored is ABSENT else record_of(record.doc, stored)
        wanted = widened(known, _added(opened.name, known, each))
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


def _added(space: str, stored: CollectionRecord | None, declared: DeclaredCollection) -> CollectionRecord:
    """The declared record with what the stored one has besides. Its rules stay: an old program loosens none."""
    record = declared.record
    if stored is None:
        return first(declared)
    if any(not same(stored.parts.get(key, ABSENT), record.parts.get(key, ABSENT)) for key in (OWNER, RULES)):
        log.warning(
            "space %r: the rules of the collection %r are not those that the app declares, and stay as they are; "
            "`headwater collections deploy MODULE:APP` replaces them",
            space,
            record.kind,
        )
    return merged(stored, declared)


def first(declared: DeclaredCollection) -> CollectionRecord:
    """The record of a collection that the space does not have yet: its documents may be from before its changes."""
    record, former = declared
    return replace(record, rest=tuple(sorted(_open_to(former, record.parts, {}).items())))


def merged(stored: CollectionRecord, declared: DeclaredCollection) -> CollectionRecord:
    """The declared record with the fields and types that the stored one has besides, and with the stored rules.

    Raises DeclarationError if a field is declared with a type that does not take all values of the stored one.
    """
    record, former = declared
    before = stored.parts
    now = {key: value for key, value in record.parts.items() if key not in (OWNER, RULES)}
    kind = record.kind
    rest: dict[str, Value] = {
        **before,
        **now,
        FIELDS: _merged_fields(kind, before.get(FIELDS), now.get(FIELDS), former=former.types),
        TYPES: _merged_types(kind, before.get(TYPES), now.get(TYPES)),
        REQUIRED: _merged_required(before, now),
    }
    return replace(record, rest=tuple(sorted(_open_to(former, rest, before).items())))


def _open_to(former: FormerFields, parts: Mapping[str, Value], stored: Mapping[str, Value]) -> dict[str, Value]:
    """The parts of a record, so that documents are taken in their former form, too, unless all are migrated."""
    fields, known = dict(_entries(parts.get(FIELDS))), _entries(stored.get(FIELDS))
    for name, was in former.types.items():
        # A stored record with the new type alone is that of documents that are migrated.
        if name not in known:
            fields[name] = union_of([fields[name], was])
    optional = {name for names in former.renamed.values() for name in names} | {*former.dropped}
    if former.renamed and REQUIRED in stored:
        kept = _items(stored[REQUIRED])
        optional |= {name for name in former.renamed if name not in kept}
    else:
        optional |= {*former.renamed}
    required = [name for name in _items(parts.get(REQUIRED)) if name not in optional]
    types = {**former.records, **_entries(parts.get(TYPES))}
    return {**parts, FIELDS: map_of(fields), REQUIRED: array_of(required), TYPES: map_of(types)}


def deployed(stored: CollectionRecord, declared: DeclaredCollection) -> CollectionRecord:
    """The stored record with the fields, types and rules that are declared, and no others. Its indexes stay."""
    record, former = declared
    kept = {key: value for key, value in stored.parts.items() if key not in (OWNER, RULES)}
    # A type that is narrow already stays so.
    known = _entries(stored.parts.get(FIELDS))
    fields = _entries(record.parts.get(FIELDS))
    types = {
        name: was for name, was in former.types.items() if name not in known or not takes_all(fields[name], known[name])
    }
    opened = _open_to(former._replace(types=types), record.parts, {REQUIRED: kept.get(REQUIRED, array_of([]))})
    return replace(widened(stored, record), rest=tuple(sorted({**kept, **opened}.items())))


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
    for key, what in ((TYPES, "types of records"), (REQUIRED, "fields without a default")):
        if stored is not None and not same(before.get(key, ABSENT), wanted.parts.get(key, ABSENT)):
            found.append(f"{what} changed")
    names = set() if stored is None else {each.name for each in stored.named}
    new = [each for each in wanted.named[1:] if each.name not in names]
    found += [f"{'index' if each.index.total is None else 'total'} {each.name}" for each in new]
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


def _merged_fields(
    kind: str, stored: Value, declared: Value, of: str = "", former: Mapping[str, Value] = NO_FORMER.types
) -> Value:
    merged = dict(_entries(stored))
    for name, shape in _entries(declared).items():
        known = merged.get(name)
        if known is not None and not takes_all(shape, known):
            if name in former and takes_all(wider := union_of([shape, former[name]]), known):
                # Until the documents are migrated, both types are stored.
                merged[name] = wider
                continue
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
