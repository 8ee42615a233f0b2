"""Verification of a space: reads everything, changes nothing.

First the database checks its own file. Then the hash chain is checked from the first commit of the log to the newest.
Then the documents are folded from the log again and compared with the caches, and so are the indexes of collections.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from itertools import islice
from typing import Final

import msgspec

from headwater.errors import CorruptError, InvariantError, UsageError
from headwater.store.applying import apply_operation
from headwater.store.backend import GENESIS, SESSIONS_DROPPED, BranchRow, HeadRow, Progress
from headwater.store.collection_checks import collection_findings, rebuild_collections
from headwater.store.commit import CommitEntry, ForkEntry
from headwater.store.compaction import snapshot_digest
from headwater.store.document import Documents, read_entry
from headwater.store.engine import Engine
from headwater.values.codec import encode
from headwater.values.ids import MAIN, NEVER, BranchId, DocKey, Seq
from headwater.values.tree import ABSENT, Maybe

_DOCS_AT_ONCE: Final = 10_000
"""Documents folded in one pass over the log, to bound memory; a larger space takes several passes."""

_FINDINGS_MAX: Final = 100
"""After so many findings the file is certainly damaged."""


class VerificationReport(msgspec.Struct):
    """The counts of what was checked, and the findings."""

    commits: int = 0
    documents: int = 0
    snapshots: int = 0
    observations: int = 0
    findings: list[str] = msgspec.field(default_factory=list)
    rebuilt: list[str] = msgspec.field(default_factory=list)
    """What was not what the documents and the log say, and was made again."""

    @property
    def ok(self) -> bool:
        """No findings."""
        return not self.findings


def verify(
    engine: Engine, progress: Progress = lambda _done, _total: None, *, rebuild: bool = False
) -> VerificationReport:
    """Check one space. Findings are listed, not raised; an unreadable page ends the check with a finding.

    With `rebuild`, indexes of collections that are not what the documents say are made again.
    """
    report = VerificationReport()
    try:
        report.findings += engine.backend.integrity()
        _check_chain(engine, report, progress)
        if report.ok:
            engine.fold()
            _check_entries(engine, report)
            _check_caches(engine, report)
            _check_observations(engine, report)
            if rebuild and report.ok:
                report.rebuilt = rebuild_collections(engine)
            report.findings += collection_findings(engine)
    except (CorruptError, InvariantError, UsageError) as error:
        # The last two: existing rows are folded again, or an operation does not fit its document.
        report.findings.append(error.message)
    del report.findings[_FINDINGS_MAX:]
    return report


def _check_chain(engine: Engine, report: VerificationReport, progress: Progress) -> None:
    horizon = engine.documents.horizon
    expected, chain = horizon.seq, horizon.chain or GENESIS
    for row in engine.backend.log(horizon.seq, engine.head):
        expected = Seq(expected + 1)
        if row.seq != expected:
            report.findings.append(f"commits {expected} to {row.seq - 1} are missing from the log")
            expected = row.seq
        elif row.chain != sha256(chain + row.body).digest():
            report.findings.append(f"commit {row.seq} is not the commit that was written there: the hash chain breaks")
        chain = row.chain
        report.commits += 1
        if not row.seq % 1024:
            progress(row.seq - horizon.seq, engine.head - horizon.seq)
    progress(engine.head - horizon.seq, engine.head - horizon.seq)


def _check_caches(engine: Engine, report: VerificationReport) -> None:
    """Heads, revisions and snapshots against a fresh fold of the log."""
    horizon = engine.documents.horizon
    if horizon.seq and horizon.digest != snapshot_digest(engine, horizon.seq):
        report.findings.append(f"the snapshots as of {horizon.seq} do not match their digest")
    for branch in list(engine.documents.branches):
        heads = _heads(engine, branch)
        while batch := dict(islice(heads, _DOCS_AT_ONCE)):
            _check_documents(engine, branch, batch, report)


def _check_observations(engine: Engine, report: VerificationReport) -> None:
    """Check observations: each row undamaged, none newer than the log. Functions without one just run."""
    damaged = engine.backend.damaged_observations()
    if damaged:
        report.findings.append(f"damaged rows of what functions have read: {damaged}; these functions run once more")
    for branch in engine.documents.branches:
        for row in engine.backend.observations(branch):
            report.observations += 1
            if row.seq > engine.head:
                report.findings.append(f"the observation of {row.doc} is of commit {row.seq}, after the end of the log")


def _heads(engine: Engine, branch: BranchId) -> Iterator[tuple[DocKey, HeadRow]]:
    after = DocKey("")
    while page := engine.backend.heads(branch, "", after, 512):
        yield from ((row.doc, row) for row in page)
        after = page[-1].doc


def _check_documents(
    engine: Engine, branch: BranchId, heads: dict[DocKey, HeadRow], report: VerificationReport
) -> None:
    documents, backend = engine.documents, engine.backend
    horizon = documents.horizon.seq
    # A branch starts from its parent's documents, and after a horizon from snapshots, which replace the log below it.
    start = max(horizon, documents.branches[branch].fork_seq)
    values = {doc: documents.at(branch, doc, start).value for doc in heads}
    seqs = _refold(engine, branch, values, report)
    for doc, head in heads.items():
        report.documents += 1
        snapshot = None if seqs[doc] else backend.snapshot(branch, doc, horizon)
        newest = seqs[doc][-1] if seqs[doc] else snapshot.seq if snapshot is not None else NEVER
        if newest != head.seq:
            report.findings.append(f"the head of {doc} is said to be {head.seq}, the log says {newest}")
        if head.live != (values[doc] is not ABSENT):
            report.findings.append(f"{doc} is said to be {'there' if head.live else 'deleted'}, the log says otherwise")
        if backend.revisions(branch, doc, horizon, engine.head) != seqs[doc][::-1]:
            report.findings.append(f"the revisions of {doc} are not those in the log")
        elif _body(documents.at(branch, doc, engine.head).value) != _body(values[doc]):
            report.findings.append(f"{doc} reads differently from what the log says")


def _refold(
    engine: Engine, branch: BranchId, values: dict[DocKey, Maybe], report: VerificationReport
) -> dict[DocKey, list[Seq]]:
    """Apply the whole log to the documents, compare with every snapshot, and return their revisions."""
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
                if _body(values[doc]) != snapshots[doc].pop(row.seq):
                    report.findings.append(f"the snapshot of {doc} at {row.seq} is not what the log says")
    for doc, rest in snapshots.items():
        forged = [seq for seq in rest if seq > engine.documents.horizon.seq]
        report.findings += [f"there is a snapshot of {doc} at {seq}, where it was not written" for seq in forged]
    return seqs


def _check_entries(engine: Engine, report: VerificationReport) -> None:
    """Check that every document in the log has a head, every commit its session number, every branch its entry."""
    documents, backend = engine.documents, engine.backend
    branches: dict[BranchId, BranchRow] = {MAIN: documents.branches[MAIN]}
    merges: dict[BranchId, list[tuple[BranchId, Seq, Seq]]] = {}
    listed: set[tuple[BranchId, DocKey]] = set()
    # Up to here, commits of old sessions may be forgotten.
    dropped = int(backend.meta(SESSIONS_DROPPED) or 0)
    for row in backend.log(documents.horizon.seq, engine.head):
        entry = read_entry(row)
        if isinstance(entry, ForkEntry):
            branches[entry.name] = BranchRow(entry.name, entry.parent, entry.fork_seq, entry.at)
            continue
        known = backend.replayed(entry.session, entry.local_seq)
        if known != row.seq and (known is not None or row.seq > dropped):
            report.findings.append(f"commit {row.seq} is not known as commit {entry.local_seq} of its sender")
        if entry.merged is not None:
            merges.setdefault(entry.branch, []).append((*entry.merged, row.seq))
        for operation in entry.operations:
            key = (entry.branch, operation.doc)
            if key not in listed and backend.head(*key) is None:
                report.findings.append(f"{operation.doc} on branch {entry.branch} is in the log, but has no head")
            if len(listed) < _DOCS_AT_ONCE:
                listed.add(key)
    _check_branches(documents, branches, merges, report)


def _check_branches(
    documents: Documents,
    forked: dict[BranchId, BranchRow],
    merges: dict[BranchId, list[tuple[BranchId, Seq, Seq]]],
    report: VerificationReport,
) -> None:
    """Branches begin after the horizon; their merges may have been before it."""
    for name in sorted(forked.keys() | documents.branches.keys()):
        found, expected = documents.branches.get(name), forked.get(name)
        if found is not None and expected is not None:
            before = [merge for merge in found.merges if merge[2] <= documents.horizon.seq]
            expected = msgspec.structs.replace(expected, merges=(*before, *merges.get(name, ())))
        if found != expected:
            report.findings.append(f"branch {name} is not as the log says")


def _body(value: Maybe) -> bytes | None:
    return None if value is ABSENT else encode(value)
