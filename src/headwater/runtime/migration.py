"""Migrating the documents of collections: what is stored in a former form is stored in the form of today.

Each document says itself whether it is migrated. So a migration can end at any moment, and the next one finishes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, cast

from msgspec.structs import replace

from headwater.cells.document_class import Doc, fields_of_class
from headwater.cells.field_changes import ClassChanges, fits
from headwater.declare.collections.collection import Collection
from headwater.errors import HeadwaterError, LimitError, RejectedError
from headwater.runtime.attached_replica import AttachedReplica
from headwater.runtime.collection_records import CollectionHost
from headwater.store.browsing import keys
from headwater.store.collection_record import (
    FIELDS,
    RECORD_KIND,
    REQUIRED,
    CollectionRecord,
    CollectionScope,
    kind_of,
    record_doc,
    record_of,
)
from headwater.store.commit import Committed, Conflict, Operation, PatchDoc, PendingRead, Read, SetDoc, SpanRead
from headwater.store.engine import Engine
from headwater.values.address import address_text
from headwater.values.ids import BranchId, DocKey
from headwater.values.patch import Add, PatchOp, Remove, Replace
from headwater.values.shape import Shaping, misfit_of
from headwater.values.tree import ABSENT, Maybe, Value, array_of, child, is_array, is_map, map_of

Progress: TypeAlias = Callable[[int, int], None]

BATCH: Final = 500
"""Documents of one transaction: a migration that ends early loses the work on so many at most."""

PLACES_MAX: Final = 10
"""Misfits that are listed one by one."""

TRIES_MAX: Final = 20
"""How often a document is tried that others change meanwhile. After that it is left as it is."""

LOOKS_MAX: Final = 5
"""How often a collection is looked through until nothing is written meanwhile in a former form."""

_OWN_KINDS: Final = frozenset({RECORD_KIND, "schema", "events", "headwater", "receipt", "failed", "cursor"})


@dataclass(slots=True)
class Findings:
    """What was found of the documents of one kind."""

    kind: str
    name: str
    """The class; empty for a kind that no class declares."""
    fit: int = 0
    old: int = 0
    """In a former form, which a migration changes."""
    migrated: int = 0
    misfits: int = 0
    places: list[tuple[str, str]] = field(default_factory=list)
    """Of the first misfits: where, and why."""
    unknown: dict[str, int] = field(default_factory=dict)
    """Fields that the class does not have, and in how many documents."""

    @property
    def documents(self) -> int:
        """The number of documents."""
        return self.fit + self.old + self.migrated + self.misfits

    def add(self, other: Findings) -> None:
        """What was found of other documents of the kind."""
        self.fit += other.fit
        self.old += other.old
        self.migrated += other.migrated
        self.misfits += other.misfits
        self.places += other.places[: PLACES_MAX - len(self.places)]
        for name, count in other.unknown.items():
            self.unknown[name] = self.unknown.get(name, 0) + count

    def add_misfit(self, place: str, reason: str) -> None:
        """A document does not fit."""
        self.misfits += 1
        if len(self.places) < PLACES_MAX:
            self.places.append((place, reason))


class Refusal(NamedTuple):
    """Why a commit was not accepted."""

    reason: str
    is_conflict: bool
    """Others have changed what it was based on: it can be made again."""


class MigratedDocuments(Protocol):
    """The documents of a space, where it is."""

    def keys(self, kind: str, scope: CollectionScope) -> list[DocKey]:
        """The keys of the documents of a kind; of deleted ones, too, perhaps."""
        ...

    def read(self, docs: Sequence[DocKey]) -> Mapping[DocKey, Value]:
        """Those of the documents that exist."""
        ...

    def commit(self, operations: Sequence[Operation], spans: Sequence[SpanRead] = ()) -> Refusal | None:
        """Commit, based on the documents as they were read, and wait. None: it is stored."""
        ...

    def since_keys(self, kind: str, fields: Sequence[str]) -> list[SpanRead] | None:
        """What a commit has to name, so that no document of a kind has changed since its keys were read.

        None: not all documents of the kind can be read here.
        """
        ...

    def release(self, docs: Sequence[DocKey]) -> None:
        """Release documents from memory."""


class FileDocuments:
    """The documents of a space that no other process has open, all scopes included."""

    def __init__(self, opened: CollectionHost) -> None:
        self._opened = opened

    def keys(self, kind: str, scope: CollectionScope) -> list[DocKey]:
        """The keys of all documents that there ever were."""
        prefix = f"space/{kind}:" if scope == "space" else "user:"
        branch = self._opened.branch
        found = self._opened.local_storage.call(lambda engine: list(keys(engine, branch, prefix)))
        return [doc for doc in found if kind_of(doc) == kind]

    def read(self, docs: Sequence[DocKey]) -> Mapping[DocKey, Value]:
        """Those of the documents that exist."""
        branch = self._opened.branch
        found = self._opened.local_storage.call(lambda engine: engine.documents.many(branch, docs, engine.head))
        return {doc: value for doc in docs if (value := found[doc].value) is not ABSENT}

    def commit(self, operations: Sequence[Operation], spans: Sequence[SpanRead] = ()) -> Refusal | None:
        """Commit, and wait for the verdict."""
        opened = self._opened
        # A replica of its own: what is refused here is no rejected write of the opening.
        replica = opened.local_storage.attach(branch=opened.branch)
        try:
            refusal = refusal_of(replica, operations, spans=spans)
        finally:
            replica.detach()
        opened.runtime.attached.refresh()
        return refusal

    def since_keys(self, kind: str, fields: Sequence[str]) -> list[SpanRead] | None:  # noqa: ARG002  # as above
        """Nothing: no other process writes."""
        return []

    def release(self, docs: Sequence[DocKey]) -> None:
        """Release documents from memory."""
        self._opened.release_documents(docs)


def refusal_of(
    replica: AttachedReplica,
    operations: Sequence[Operation],
    *,
    reads: Sequence[Read | PendingRead] = (),
    spans: Sequence[SpanRead] = (),
) -> Refusal | None:
    """Commit, and wait for the verdict. Raises what has prevented one."""
    pending = replica.commit(tuple(operations), reads=reads, spans=tuple(spans))
    replica.sync()
    if isinstance(pending.error, LimitError):
        # More than one frame may have: in smaller parts.
        return Refusal(pending.error.message, is_conflict=False)
    if pending.error is not None:
        raise pending.error
    verdict = pending.verdict
    if isinstance(verdict, Committed):
        return None
    reason = "it was not decided" if verdict is None else verdict.reason
    return Refusal(reason, is_conflict=isinstance(verdict, Conflict))


class MigratedCollection:
    """The documents of one collection in an open space, as its class has them."""

    def __init__(
        self, opened: CollectionHost, collection: Collection[Any], documents: MigratedDocuments | None = None
    ) -> None:
        self._opened = opened
        self._documents: MigratedDocuments = documents or FileDocuments(opened)
        self._collection = collection
        self.kind: str = collection.record().kind
        self._scope: CollectionScope = collection.record().scope
        self._cls: type[Doc] = collection.document_class
        self._changes: ClassChanges = self._cls._hw_changes  # noqa: SLF001  # no public names
        self._fields = {name: each.resolve() for name, each in fields_of_class(self._cls).items()}

    def keys(self) -> list[DocKey]:
        """The keys of all documents that there are; of deleted ones, too, perhaps."""
        return self._documents.keys(self.kind, self._scope)

    # -- one document --------------------------------------------------------------------------------------

    def examine(self, doc: DocKey, tree: Value, findings: Findings) -> list[PatchOp]:
        """Count a document. Returns what migrates it."""
        where = address_text(doc)
        try:
            now = self._changes.current(tree, where, self._opened, is_strict=True)
        except HeadwaterError as error:
            findings.add_misfit(where, error.message)
            return []
        patch = self._patch(tree, now)
        self._count_unknown(now, findings)
        misfit = self._misfit(now)
        if misfit is not None:
            findings.add_misfit("/".join([where, *map(str, misfit[0])]), misfit[1])
            return []
        if patch:
            findings.old += 1
        else:
            findings.fit += 1
        return patch

    def _patch(self, tree: Value, now: Maybe) -> list[PatchOp]:
        if not is_map(tree) or not is_map(now):
            return []
        gone = [name for name in tree if name not in now or name in self._changes.dropped]
        patch: list[PatchOp] = [
            (Replace if name in tree else Add)((name,), value)
            for name, value in now.items()
            if child(tree, name) is not value
        ]
        return [*patch, *[Remove((name,)) for name in gone]]

    def _count_unknown(self, tree: Maybe, findings: Findings) -> None:
        for name in tree if is_map(tree) else ():
            if name not in self._fields and name not in self._changes.dropped:
                findings.unknown[name] = findings.unknown.get(name, 0) + 1

    def _misfit(self, tree: Maybe) -> tuple[tuple[str | int, ...], str] | None:
        if not is_map(tree):
            return (), "it is no map of fields"
        for name, (schema, default) in self._fields.items():
            value = child(tree, name)
            if value is ABSENT:
                if default is ABSENT and not fits(schema, None):
                    return (name,), f"the field is missing, and has no default; expected {schema.expected}"
            elif schema.has_handles:
                if not fits(schema, value):
                    return (name,), f"expected {schema.expected}"
            elif (found := misfit_of(schema, value)) is not None:
                return (name, *found[0]), found[1]
        return None

    # -- all documents -------------------------------------------------------------------------------------

    def check(self, docs: Sequence[DocKey], advance: Callable[[int], None]) -> Findings:
        """Count all documents. Nothing is changed."""
        findings = Findings(self.kind, self._cls.__qualname__)
        for batch in _batches(docs):
            for doc, tree in self._documents.read(batch).items():
                self.examine(doc, tree, findings)
            self._documents.release(batch)
            advance(len(batch))
        return findings

    def migrate(self, docs: Sequence[DocKey], advance: Callable[[int], None]) -> Findings:
        """Store all documents in the form of today, in batches, each of them one commit."""
        findings = Findings(self.kind, self._cls.__qualname__)
        for batch in _batches(docs):
            self._store(batch, findings)
            advance(len(batch))
        return findings

    def _store(self, docs: Sequence[DocKey], findings: Findings) -> None:
        """Migrate documents together; what is refused or was changed meanwhile, in two halves."""
        found = Findings(self.kind, self._cls.__qualname__)
        for _ in range(TRIES_MAX):
            found = Findings(self.kind, self._cls.__qualname__)
            read = self._documents.read(docs)
            patches = {doc: tuple(patch) for doc, tree in read.items() if (patch := self.examine(doc, tree, found))}
            refusal = self._documents.commit([PatchDoc(*each) for each in patches.items()]) if patches else None
            self._documents.release(docs)
            if refusal is None:
                found.migrated, found.old = found.old, 0
                findings.add(found)
                return
            if len(docs) > 1:
                half = len(docs) // 2
                self._store(docs[:half], findings)
                self._store(docs[half:], findings)
                return
            if not refusal.is_conflict:
                found.old = 0
                found.add_misfit(address_text(docs[0]), refusal.reason)
                break
        # Or it is being changed all the time, and left.
        findings.add(found)

    # -- the record ----------------------------------------------------------------------------------------

    def narrow(
        self,
        findings: Findings,
        advance: Callable[[int], None] = lambda _: None,
        expect: Callable[[int], None] = lambda _: None,
    ) -> bool:
        """All documents are migrated: the record names former names and types no longer.

        Where other programs write meanwhile, the documents are looked through until nothing was left to migrate, and
        nothing is written before the record is. Returns whether the record is narrow now.

        `findings`: of the migration. `expect` is called with the number of documents that are read again.
        """
        doc = record_doc(self.kind)
        for _ in range(LOOKS_MAX):
            stored = self._documents.read([doc]).get(doc, ABSENT)
            if stored is ABSENT:
                return True
            record = record_of(doc, stored)
            narrower = self._narrowed(record)
            if narrower == record:
                return True
            spans = self._documents.since_keys(self.kind, self._changed_fields())
            if spans is None:
                return False
            refusal: Refusal | None = None
            if not spans or not findings.migrated:
                refusal = self._documents.commit([SetDoc(doc, narrower.to_value())], spans)
                if refusal is None:
                    return True
                if not refusal.is_conflict:
                    message = f"cannot narrow the record of the collection {self.kind!r}: {refusal.reason}"
                    raise RejectedError(message)
            docs = self.keys()
            expect(len(docs))
            findings = self.migrate(docs, advance)
            if findings.old or findings.misfits:
                return False
        return False

    def _changed_fields(self) -> list[str]:
        """The fields by whose values documents are in the form of today, or in a former one."""
        names = {name for name, change in self._changes.by_field.items() for name in (name, *change.was)}
        return sorted(names | set(self._changes.dropped))

    def _narrowed(self, record: CollectionRecord) -> CollectionRecord:
        rest = dict(record.rest)
        fields = dict(cast("Mapping[str, Value]", rest[FIELDS])) if is_map(rest.get(FIELDS)) else {}
        shaping = Shaping()
        for name, change in self._changes.by_field.items():
            for former in change.was:
                fields.pop(former, None)
            if change.retype is not None:
                fields[name] = shaping.shape(self._fields[name][0])
        for name in self._changes.dropped:
            fields.pop(name, None)
        required = rest.get(REQUIRED)
        names = {str(name) for name in required} if is_array(required) else set[str]()
        names |= {name for name in self._changes.by_field if name in fields and self._fields[name][1] is ABSENT}
        rest |= {FIELDS: map_of(fields), REQUIRED: array_of(sorted(names))}
        return replace(record, rest=tuple(sorted(rest.items())))


def orphans(engine: Engine, branch: BranchId, declared: Iterable[str]) -> dict[str, int]:
    """The kinds of documents that none of these is, with the number of their documents."""
    known = {*declared, *_OWN_KINDS}
    found: dict[str, int] = {}
    for batch in _batches(doc for doc in keys(engine, branch) if (kind := kind_of(doc)) and kind not in known):
        stored = engine.documents.many(branch, batch, engine.head)
        for doc in batch:
            if stored[doc].value is not ABSENT:
                kind = kind_of(doc)
                found[kind] = found.get(kind, 0) + 1
    return found


def _batches(docs: Iterable[DocKey]) -> Iterator[list[DocKey]]:
    source = iter(docs)
    while batch := list(islice(source, BATCH)):
        yield batch
