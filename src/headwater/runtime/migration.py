"""Migrating the documents of collections: what is stored in a former form is stored in the form of today.

Each document says itself whether it is migrated. So a migration can end at any moment, and the next one finishes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, TypeAlias, cast

from msgspec.structs import replace

from headwater.cells.document_class import Doc, fields_of_class
from headwater.cells.field_changes import ClassChanges, fits
from headwater.declare.collections.collection import Collection
from headwater.errors import HeadwaterError, RejectedError
from headwater.runtime.collection_records import CollectionHost
from headwater.store.browsing import keys
from headwater.store.collection_record import (
    FIELDS,
    RECORD_KIND,
    REQUIRED,
    CollectionRecord,
    kind_of,
    record_doc,
    record_of,
)
from headwater.store.commit import Committed, Operation, PatchDoc, SetDoc
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

    def add_misfit(self, place: str, reason: str) -> None:
        """A document does not fit."""
        self.misfits += 1
        if len(self.places) < PLACES_MAX:
            self.places.append((place, reason))


class MigratedCollection:
    """The documents of one collection in an open space, all scopes included, as its class has them."""

    def __init__(self, opened: CollectionHost, collection: Collection[Any]) -> None:
        self._opened = opened
        self._collection = collection
        self.kind: str = collection.record().kind
        self._scope = collection.record().scope
        self._cls: type[Doc] = collection.document_class
        self._changes: ClassChanges = self._cls._hw_changes  # noqa: SLF001  # no public names
        self._fields = {name: each.resolve() for name, each in fields_of_class(self._cls).items()}

    def keys(self) -> list[DocKey]:
        """The keys of all documents that there ever were."""
        prefix = f"space/{self.kind}:" if self._scope == "space" else "user:"
        branch = self._opened.branch
        found = self._opened.local_storage.call(lambda engine: list(keys(engine, branch, prefix)))
        return [doc for doc in found if kind_of(doc) == self.kind]

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
            for doc, tree in self._read(batch):
                self.examine(doc, tree, findings)
            self._opened.release_documents(batch)
            advance(len(batch))
        return findings

    def migrate(self, docs: Sequence[DocKey], advance: Callable[[int], None]) -> Findings:
        """Store all documents in the form of today, in batches, each of them one commit."""
        findings = Findings(self.kind, self._cls.__qualname__)
        for batch in _batches(docs):
            before = findings.old
            patches = {doc: patch for doc, tree in self._read(batch) if (patch := self.examine(doc, tree, findings))}
            old = findings.old - before
            refused = self._store(patches)
            findings.old -= old
            findings.migrated += old - len(refused)
            for doc, reason in refused.items():
                findings.add_misfit(address_text(doc), reason)
            self._opened.release_documents(batch)
            advance(len(batch))
        return findings

    def _store(self, patches: Mapping[DocKey, list[PatchOp]]) -> dict[DocKey, str]:
        """Commit the patches together, or if that is refused, one by one. Returns those that are refused."""
        if not patches or self._commit(patches) == "":
            return {}
        reasons = {doc: self._commit({doc: patch}) for doc, patch in patches.items()}
        return {doc: reason for doc, reason in reasons.items() if reason}

    def _commit(self, patches: Mapping[DocKey, list[PatchOp]]) -> str:
        """The reason of a refusal; empty if there is none."""
        operations = [PatchDoc(doc, tuple(patch)) for doc, patch in patches.items()]
        return _refusal(self._opened, operations)

    def _read(self, docs: Sequence[DocKey]) -> Iterator[tuple[DocKey, Value]]:
        """Those of the documents that exist, with their values."""
        opened = self._opened
        branch = opened.branch
        found = opened.local_storage.call(lambda engine: engine.documents.many(branch, docs, engine.head))
        for doc in docs:
            value = found[doc].value
            if value is not ABSENT:
                yield doc, value

    # -- the record ----------------------------------------------------------------------------------------

    def narrow(self) -> None:
        """All documents are migrated: the record names former names and types no longer."""
        opened = self._opened
        doc = record_doc(self.kind)
        opened.runtime.attached.refresh()
        stored = opened.replica.read(doc)
        if stored is ABSENT:
            return
        record = record_of(doc, stored)
        narrower = self._narrowed(record)
        if narrower != record:
            refusal = _refusal(opened, [SetDoc(doc, narrower.to_value())])
            if refusal:
                raise RejectedError(f"cannot narrow the record of the collection {self.kind!r}: {refusal}")

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


def _refusal(opened: CollectionHost, operations: Sequence[Operation]) -> str:
    """Commit, and wait for the verdict. Returns the reason of a refusal; empty if there is none."""
    # A replica of its own: what is refused here is no rejected write of the opening.
    replica = opened.local_storage.attach(branch=opened.branch)
    try:
        pending = replica.commit(tuple(operations))
        replica.sync()
    finally:
        replica.detach()
    opened.runtime.attached.refresh()
    if pending.error is not None:
        raise pending.error
    verdict = pending.verdict
    return "" if isinstance(verdict, Committed) else getattr(verdict, "reason", "it was not decided")


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
