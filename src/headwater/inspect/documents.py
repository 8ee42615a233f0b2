"""Documents of a space: lists of documents, and writes of one commit.

The store belongs to a file, to the process that has the space open, or to a server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from headwater.cells.rejection import refusal
from headwater.errors import AddressError, ConflictError, InvariantError, NotFoundError, RejectedError
from headwater.host.storage import Storage
from headwater.inspect import space_reading
from headwater.inspect.document_reading import read_document
from headwater.inspect.document_records import (
    DOCUMENTS_MAX,
    MISSING,
    DocumentQuestion,
    DocumentRow,
    DocumentsPage,
    ListDocuments,
    SetValue,
    WriteReport,
)
from headwater.inspect.lookup import find_branch, key_prefixes, missing_document, missing_value
from headwater.inspect.space_records import SpaceQuestion
from headwater.inspect.stored_events import SYSTEM, is_system
from headwater.runtime.attached_replica import AttachedReplica
from headwater.runtime.type_checks import check_document, check_write, declared_in
from headwater.runtime.type_records import PREFIX, Declared
from headwater.store.browsing import keys, read_seq
from headwater.store.collection_record import kind_of, record_doc
from headwater.store.collection_rules import Access
from headwater.store.commit import Committed, Conflict, DeleteDoc, Operation, PatchDoc, Read, Refused, SetDoc
from headwater.store.engine import Engine
from headwater.values.address import address_text, parse_address, settle_path
from headwater.values.codec import from_json, to_json
from headwater.values.ids import BranchId, DocKey, Seq
from headwater.values.patch import Add, Remove, Replace
from headwater.values.tree import ABSENT, Maybe, Path, Value, freeze, get

PAGE_BYTES: Final = 1024 * 1024
"""Bytes of values, approximately, after which a page of documents ends."""


def answer(
    storage: Storage,
    branch: str,
    question: DocumentQuestion | SpaceQuestion,
    may_see: Callable[[DocKey], bool] | None = None,
) -> object:
    """The answer from an open store. `may_see`: only these documents exist for the asker."""
    if isinstance(question, SpaceQuestion):
        return space_reading.answer(storage, branch, question, may_see)
    if isinstance(question, ListDocuments):
        return storage.call(lambda engine: documents_page(engine, branch, question, may_see))
    doc, _ = parse_address(question.address)
    if may_see is not None and not may_see(doc):
        raise NotFoundError(f"there is no document {address_text(doc)}; `headwater ls` lists them", doc=doc)
    return read_document(storage, branch, question)


# --- listing --------------------------------------------------------------------------------------------------


def documents_page(
    engine: Engine, branch: str, question: ListDocuments, may_see: Callable[[DocKey], bool] | None = None
) -> DocumentsPage:
    """One page of documents. `may_see`: only these exist for the asker."""
    found = _listed(engine, find_branch(engine, branch), question)
    visible = (each for each in found if may_see is None or may_see(each[0]))
    return page_of(visible, question, max(min(question.limit, DOCUMENTS_MAX), 1))


def page_of(
    found: Iterable[tuple[DocKey, Seq, Maybe]], question: ListDocuments, limit: int | None = None
) -> DocumentsPage:
    """A page of at most `limit` documents, filtered by the question."""
    # Documents of events and of declared types.
    hides = not question.every and not question.prefix.removeprefix("space!").startswith((*SYSTEM, PREFIX))
    rows: list[DocumentRow] = []
    hidden, size = 0, 0
    for doc, seq, value in found:
        if hides and doc.startswith(f"space/{PREFIX}"):
            continue
        if hides and is_system(doc, value):
            hidden += 1
            continue
        shown = to_json(value) if question.values and value is not ABSENT else MISSING
        rows.append(DocumentRow(address=address_text(doc), seq=seq, deleted=value is ABSENT, value=shown))
        size += len(msgspec.json.encode(shown)) if question.values and limit is not None else 0
        if limit is not None and (len(rows) >= limit or size >= PAGE_BYTES):
            return DocumentsPage(documents=tuple(rows), hidden=hidden, next=doc)
    return DocumentsPage(documents=tuple(rows), hidden=hidden)


def _listed(engine: Engine, branch: BranchId, question: ListDocuments) -> Iterator[tuple[DocKey, Seq, Maybe]]:
    through = read_seq(engine, branch, None if question.at is None else Seq(question.at))
    for prefix in key_prefixes(question.prefix):
        for doc in keys(engine, branch, prefix, question.after):
            found = engine.documents.at(branch, doc, through)
            if found.seq and (question.deleted or found.value is not ABSENT):
                yield doc, found.seq, found.value


# --- writing --------------------------------------------------------------------------------------------------


def write(storage: Storage, branch: str, command: SetValue, access: Access | None = None) -> WriteReport:
    """Write by one commit, which is on disk at return. Raises what rejects it. `access`: what the writer may do."""
    doc, _ = parse_address(command.address)
    is_new = not storage.call(lambda engine: engine.head)
    on = storage.call(lambda engine: find_branch(engine, branch))
    replica = storage.attach(branch=on)
    if access is not None:
        replica.act_with(access)
    try:
        if command.value is MISSING and replica.read(doc) is ABSENT:
            raise storage.call(lambda engine: missing_document(engine, doc, on, None))
        seq, changed = write_through(replica, command, storage.call(lambda engine: declared_in(engine, on)))
    finally:
        replica.detach()
    return WriteReport(seq=seq, changed=changed, made_space=storage.name if is_new else "")


def write_through(replica: AttachedReplica, command: SetValue, declared: Declared) -> tuple[Seq, bool]:  # noqa: C901  # one case for each verdict
    """Write by one commit of a replica. Returns its number, and whether it changed a value."""
    doc, steps = parse_address(command.address)
    delete = command.value is MISSING
    replica.force(command.force)
    root = replica.read(doc)
    path = settle_path(root, steps)
    if delete and root is ABSENT:
        raise NotFoundError(f"there is no document {address_text(doc)}; `headwater ls` lists them", doc=doc)
    if delete and get(root, path) is ABSENT:
        raise missing_value(doc, path, root)
    if delete:
        operation: Operation = PatchDoc(doc, (Remove(path),)) if path else DeleteDoc(doc)
    else:
        check_document(declared, doc, root, create=command.create)
        operation = _operation(doc, path, root, freeze(from_json(command.value), command.address))
    try:
        if not _is_member(replica, doc):
            check_write(declared, operation, root, path)
        pending = replica.commit([operation], reads=_reads(command, doc))
    except AddressError as error:
        raise AddressError(f"in document {address_text(doc)}: {error.message}", **error.facts) from None
    replica.sync()
    if pending.error is not None:
        raise pending.error
    match pending.verdict:
        case Committed(seq):
            return seq, any(effect.touches for effect in pending.effects)
        case None:
            raise InvariantError("a commit that was waited for has no verdict")
        case Refused() as refused if isinstance(coded := refusal(refused), RejectedError):
            raise coded
        case Conflict() as conflict if command.unless_after is not None:
            name = address_text(doc)
            message = f"{name} was written after commit {command.unless_after}, which was shown"
            raise ConflictError(
                f"{message}; `headwater history {name}` tells what was written", doc=doc, reason=conflict.reason
            )
        case rejected:
            raise RejectedError(rejected.reason)


def _reads(command: SetValue, doc: DocKey) -> tuple[Read, ...]:
    """A read of the document at the commit that was shown: a later write of it is a conflict."""
    return () if command.unless_after is None else (Read(doc, (), Seq(command.unless_after)),)


def _is_member(replica: AttachedReplica, doc: DocKey) -> bool:
    """Whether a document is of a collection, whose types are checked where the commit is decided."""
    kind = kind_of(doc)
    return bool(kind) and replica.read(record_doc(kind)) is not ABSENT


def _operation(doc: DocKey, path: Path, root: Maybe, value: Value) -> Operation:
    if not path:
        return SetDoc(doc, value)
    return PatchDoc(doc, (Add(path, value) if get(root, path) is ABSENT else Replace(path, value),))
