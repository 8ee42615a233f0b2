"""Is everything there, and is it what was written? Reads all, changes nothing.

The database checks its own file; then the hash chain is walked from the first kept commit to the newest; then the
documents are folded from the log once more and compared with what the caches say.

Must never know: repair.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from itertools import islice
from typing import Final

import msgspec

from headwater.errors import CorruptError
from headwater.store.backend import Progress
from headwater.store.commit import CommitEntry
from headwater.store.document import apply_operation, read_entry
from headwater.store.engine import GENESIS, Engine
from headwater.values.codec import encode
from headwater.values.ids import BranchId, DocKey, Seq
from headwater.values.tree import ABSENT, Maybe

_DOCS_AT_ONCE: Final = 10_000
"""Documents folded in one walk over the log: bounds memory; a larger space is walked several times."""

_FINDINGS_MAX: Final = 100
"""After so many the file is beyond doubt; the rest would only scroll."""


class Report(msgspec.Struct):
    """What was looked at and what was wrong with it."""

    commits: int = 0
    documents: int = 0
    snapshots: int = 0
    findings: list[str] = msgspec.field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Nothing found."""
        return not self.findings


def verify(engine: Engine, progress: Progress = lambda _done, _total: None) -> Report:
    """Check one space. Findings are listed, not raised; an unreadable page ends the check with a finding."""
    report = Report()
    try:
        report.findings += engine.backend.integrity()
        engine.fold()
        _check_chain(engine, report, progress)
        if report.ok:
            _check_caches(engine, report)
    except CorruptError as error:
        report.findings.append(error.message)
    del report.findings[_FINDINGS_MAX:]
    return report


def _check_chain(engine: Engine, report: Report, progress: Progress) -> None:
    horizon = engine.documents.horizon
    expected, chain = horizon.seq, horizon.chain or GENESIS
    for row in engine.backend.log(horizon.seq, engine.head):
        expected = Seq(expected + 1)
        if row.seq != expected:
            report.findings.append(f"commits {expected} to {row.seq - 1} are missing from the log")
            expected = row.seq
        elif row.chain != sha256(chain + row.body).digest():
            report.findings.append(f"commit {row.seq} is not the one that was written there: the hash chain breaks")
        chain = row.chain
        report.commits += 1
        if not row.seq % 1024:
            progress(row.seq - horizon.seq, engine.head - horizon.seq)
    progress(engine.head - horizon.seq, engine.head - horizon.seq)


def _check_caches(engine: Engine, report: Report) -> None:
    """Heads, revisions and snapshots against a fresh fold of the log."""
    for branch in list(engine.documents.branches):
        heads = _heads(engine, branch)
        while batch := dict(islice(heads, _DOCS_AT_ONCE)):
            _check_documents(engine, branch, batch, report)
    _check_unlisted(engine, report)


def _heads(engine: Engine, branch: BranchId) -> Iterator[tuple[DocKey, Seq]]:
    after = DocKey("")
    while page := engine.backend.heads(branch, "", after, 512):
        yield from ((row.doc, row.seq) for row in page)
        after = page[-1].doc


def _check_documents(engine: Engine, branch: BranchId, heads: dict[DocKey, Seq], report: Report) -> None:
    documents, backend = engine.documents, engine.backend
    horizon = documents.horizon.seq
    # A branch starts from its parent's documents, and after a horizon from snapshots: they are all there is below it.
    start = max(horizon, documents.branches[branch].fork_seq)
    values = {doc: documents.at(branch, doc, start).value for doc in heads}
    seqs = _refold(engine, branch, values, report)
    for doc, head in heads.items():
        report.documents += 1
        if seqs[doc] and seqs[doc][-1] != head:
            report.findings.append(f"the head of {doc} is said to be {head}, the log says {seqs[doc][-1]}")
        if backend.revisions(branch, doc, horizon, engine.head) != seqs[doc][::-1]:
            report.findings.append(f"the revisions of {doc} are not those in the log")
        elif _body(documents.at(branch, doc, engine.head).value) != _body(values[doc]):
            report.findings.append(f"{doc} reads differently from what the log says")


def _refold(engine: Engine, branch: BranchId, values: dict[DocKey, Maybe], report: Report) -> dict[DocKey, list[Seq]]:
    """Move the documents through the whole log, comparing with every snapshot on the way; returns their revisions."""
    seqs: dict[DocKey, list[Seq]] = {doc: [] for doc in values}
    snapshots = {doc: {row.seq: row.body for row in engine.backend.snapshots(branch, doc)} for doc in values}
    for row in engine.backend.log(engine.documents.horizon.seq, engine.head):
        entry = read_entry(row)
        if not isinstance(entry, CommitEntry) or entry.branch != branch:
            continue
        touched = {operation.doc for operation in entry.operations} & values.keys()
        for operation in entry.operations:
            if operation.doc in touched:
                values[operation.doc], _ = apply_operation(values[operation.doc], operation)
        for doc in touched:
            seqs[doc].append(row.seq)
            if row.seq in snapshots[doc]:
                report.snapshots += 1
                if _body(values[doc]) != snapshots[doc][row.seq]:
                    report.findings.append(f"the snapshot of {doc} at {row.seq} is not what the log says")
    return seqs


def _check_unlisted(engine: Engine, report: Report) -> None:
    """Every document in the log has a head."""
    missing: set[tuple[BranchId, DocKey]] = set()
    known: dict[tuple[BranchId, DocKey], bool] = {}
    for row in engine.backend.log(engine.documents.horizon.seq, engine.head):
        entry = read_entry(row)
        if isinstance(entry, CommitEntry):
            for operation in entry.operations:
                place = (entry.branch, operation.doc)
                if place not in known and len(known) < _DOCS_AT_ONCE * 10:
                    known[place] = True
                    if engine.backend.head(*place) is None:
                        missing.add(place)
    report.findings += [f"{doc} on branch {branch} is in the log, but has no head" for branch, doc in sorted(missing)]


def _body(value: Maybe) -> bytes | None:
    return None if value is ABSENT else encode(value)
