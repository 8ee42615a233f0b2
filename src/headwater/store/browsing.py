"""Queries about a space: the list of documents, the history of one, the differences between two sequence numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import merge
from typing import Final

import msgspec

from headwater.store.commit import CommitEntry, DeleteDoc, Operation, PatchDoc, SetDoc
from headwater.store.document import StoredDocument, read_entry
from headwater.store.engine import Engine
from headwater.values.diff import changes_between
from headwater.values.ids import MAIN, NEVER, BranchId, DocKey, LocalSeq, Millis, Seq, SessionId
from headwater.values.notifications import Change
from headwater.values.tree import ABSENT

_PAGE: Final = 512


class ListedDocument(msgspec.Struct, frozen=True):
    """A document in a listing."""

    doc: DocKey
    seq: Seq
    live: bool


class HistoryEntry(msgspec.Struct, frozen=True):
    """One commit in the history of a document."""

    seq: Seq
    at: Millis
    session: SessionId
    local_seq: LocalSeq
    branch: BranchId
    operations: tuple[Operation, ...]

    @property
    def summary(self) -> str:
        """A short summary: `set`, `replace a/b, append c`."""
        words: list[str] = []
        for operation in self.operations:
            match operation:
                case SetDoc():
                    words.append("set")
                case DeleteDoc():
                    words.append("delete")
                case PatchDoc(_, ops):
                    words += [f"{_tag(op)} {'/'.join(map(str, op.path))}".strip() for op in ops]
        return ", ".join(words)


def _tag(op: msgspec.Struct) -> str:
    return str(op.__struct_config__.tag)


def read_seq(engine: Engine, branch: BranchId, at: Seq | None) -> Seq:
    """The sequence number to read at: the newest, or a given number that must still be available."""
    engine.documents.branch(branch)
    if at is None:
        return engine.head
    engine.documents.check_available(at, engine.head)
    return at


def read(engine: Engine, doc: DocKey, branch: BranchId = MAIN, at: Seq | None = None) -> StoredDocument:
    """A document, current or as of a sequence number."""
    return engine.documents.at(branch, doc, read_seq(engine, branch, at))


def listing(
    engine: Engine, branch: BranchId = MAIN, *, prefix: str = "", at: Seq | None = None, deleted: bool = False
) -> Iterator[ListedDocument]:
    """Documents whose key starts with `prefix`, in key order, as of a sequence number; deleted ones on demand."""
    through = read_seq(engine, branch, at)
    for doc in keys(engine, branch, prefix):
        found = engine.documents.at(branch, doc, through)
        if found.seq and (deleted or found.value is not ABSENT):
            yield ListedDocument(doc, found.seq, found.value is not ABSENT)


def keys(engine: Engine, branch: BranchId, prefix: str = "", after: str = "") -> Iterator[DocKey]:
    """Keys after `after` that the branch or an ancestor of it has ever had, in order, each once. Writes nothing."""
    for key, _ in sized_keys(engine, branch, prefix, after):
        yield key


def sized_keys(engine: Engine, branch: BranchId, prefix: str = "", after: str = "") -> Iterator[tuple[DocKey, int]]:
    """As `keys`, each with the size of its document at the last fold, up to a few KiB; 0: not known. Loads none."""
    chain: list[BranchId] = []
    name: BranchId | None = branch
    while name is not None:
        chain.append(name)
        name = engine.documents.branch(name).parent
    pages = [_own_keys(engine, on, prefix, after) for on in chain]
    # The unfolded tail, too. Its documents come first, because their size has changed.
    pages += [iter(_tail_keys(engine, on, prefix, after)) for on in chain]
    last = None
    for key, size in merge(*pages):
        if key != last:
            yield key, size
        last = key


def _own_keys(engine: Engine, branch: BranchId, prefix: str, after: str) -> Iterator[tuple[DocKey, int]]:
    while page := engine.backend.heads(branch, prefix, DocKey(after), _PAGE):
        for row in page:
            # Without a measured size, the whole write is in the log.
            yield row.doc, max(row.size, row.since)
        after = page[-1].doc


def _tail_keys(engine: Engine, branch: BranchId, prefix: str, after: str) -> list[tuple[DocKey, int]]:
    tail = engine.documents.tail.by_document().get(branch, ())
    return sorted((doc, 0) for doc in tail if doc > after and doc.startswith(prefix))


def history(engine: Engine, doc: DocKey, branch: BranchId = MAIN, at: Seq | None = None) -> Iterator[HistoryEntry]:
    """The commits of a document on a branch and its ancestors, newest first."""
    for revision in engine.documents.revisions(branch, doc, NEVER, read_seq(engine, branch, at)):
        row = engine.backend.row(revision.seq)
        assert row is not None
        entry = read_entry(row)
        assert isinstance(entry, CommitEntry)
        yield HistoryEntry(revision.seq, entry.at, entry.session, entry.local_seq, entry.branch, revision.operations)


def diff(engine: Engine, before: Seq, after: Seq, branch: BranchId = MAIN) -> Iterator[Change]:
    """The differences on a branch between two sequence numbers, document by document."""
    documents = engine.documents
    read_seq(engine, branch, before)
    read_seq(engine, branch, after)
    for doc in sorted(changed_documents(engine, before, after)):
        old, new = documents.at(branch, doc, before), documents.at(branch, doc, after)
        yield from changes_between(doc, old.value, new.value)


def changed_documents(
    engine: Engine, before: Seq, after: Seq, is_over: Callable[[], bool] = lambda: False
) -> set[DocKey]:
    """Documents that were changed on any branch between two sequence numbers, as far as read until `is_over`."""
    changed: set[DocKey] = set()
    for row in engine.backend.log(*sorted((before, after))):
        entry = read_entry(row)
        if isinstance(entry, CommitEntry):
            changed.update(operation.doc for operation in entry.operations)
        if is_over():
            break
    return changed
