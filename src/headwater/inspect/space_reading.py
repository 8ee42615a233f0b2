"""Answers about a space as a whole from an open store: branches, commits, differences, kinds, queries.

Each answer reads for a bounded time, since nothing is committed meanwhile; what was not read is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from headwater.errors import RejectedError, UsageError
from headwater.host.storage import Storage
from headwater.inspect.document_records import MISSING, DocumentRow
from headwater.inspect.lookup import find_branch, key_prefixes
from headwater.inspect.space_records import (
    COMMITS_MAX,
    DIFFERENCES_MAX,
    KINDS_MAX,
    READING_MS,
    BranchReport,
    BranchWritten,
    ChangeBranch,
    CommitReport,
    CommitsAnswer,
    CompareDocuments,
    DescribeType,
    DifferenceReport,
    Differences,
    FindDocuments,
    FoundDocuments,
    KindReport,
    KindsAnswer,
    ListBranches,
    ListCommits,
    ListKinds,
    SpaceQuestion,
    TypeReport,
)
from headwater.inspect.stored_events import SYSTEM, is_system
from headwater.inspect.where_clause import parse_where, satisfies, sort_key, value_at
from headwater.machine import machine
from headwater.runtime.type_checks import declared_in
from headwater.runtime.type_records import PREFIX
from headwater.store.browsing import changed_documents, keys, read_seq
from headwater.store.collection_record import RECORD_KIND, record_doc, record_of
from headwater.store.commit import CommitEntry, Committed
from headwater.store.document import read_entry
from headwater.store.engine import Engine
from headwater.values.address import address_text, parse_address, settle_path
from headwater.values.codec import to_json
from headwater.values.diff import changes_between
from headwater.values.ids import BranchId, DocKey, Seq
from headwater.values.notifications import Change
from headwater.values.schema_records import RecordSchema
from headwater.values.tree import ABSENT, Maybe, get, is_map

MaySee: TypeAlias = Callable[[DocKey], bool]

_NAMED: Final = 5
"""Documents of a commit that are named."""

_WINDOW: Final = 512
"""Rows of the log that are read at once."""

_FIELDS: Final = 200
"""Fields whose types are named."""

_CHECKED: Final = 256
"""Documents between two readings of the clock."""

_SHARE_OF_LOG: Final = 0.5
"""The share of the time in which the changed documents are looked for; the rest is for their values."""


def answer(storage: Storage, branch: str, question: SpaceQuestion, may_see: MaySee | None) -> object:
    """The answer from an open store. `may_see`: only these documents exist for the asker."""
    sees = may_see or _all

    def work(engine: Engine) -> object:
        on = find_branch(engine, branch)
        match question:
            case DescribeType():
                return describe_type(engine, on, question, sees)
            case ListBranches():
                return branches(engine)
            case CompareDocuments():
                return compare(engine, on, question, sees)
            case ListCommits():
                return commits(engine, on, question, sees)
            case ListKinds():
                return kinds(engine, on, question, sees)
            case FindDocuments():
                return find_documents(engine, on, question, sees)

    return storage.call(work)


def _all(_doc: DocKey) -> bool:
    return True


class _Clock:
    """The time that a question may take, or a share of it. `every`: after how many documents it is read."""

    def __init__(self, *, share: float = 1.0, every: int = _CHECKED) -> None:
        self._ends = machine().monotonic() + READING_MS / 1000 * share
        self._every = every
        self._count = 0
        self.was_over = False

    def is_over(self) -> bool:
        """Whether the time is over: then for good. Reads the clock once for many documents."""
        self._count += 1
        if self._count % self._every == 0:
            self.was_over = self.was_over or machine().monotonic() > self._ends
        return self.was_over


def describe_type(engine: Engine, branch: BranchId, question: DescribeType, sees: MaySee) -> TypeReport:
    """The declared type of a value, and of the fields below it."""
    doc, steps = parse_address(question.address)
    # The names of the fields are part of the value.
    schema = declared_in(engine, branch).of(doc) if sees(doc) else None
    root: Maybe = engine.documents.at(branch, doc, engine.head).value
    for step in settle_path(root, steps):
        schema = None if schema is None else schema.child(step)
    if schema is None:
        return TypeReport(type="", fields={})
    value = get(root, settle_path(root, steps))
    names = list(value)[:_FIELDS] if is_map(value) else []
    if isinstance(schema, RecordSchema):
        names = list(dict.fromkeys([*names, *schema.by_key]))[:_FIELDS]
    below = {name: schema.child(name) for name in names}
    return TypeReport(
        type=schema.expected, fields={name: each.expected for name, each in below.items() if each is not None}
    )


def branches(engine: Engine) -> tuple[BranchReport, ...]:
    """All branches, in the order of their making."""
    return tuple(
        BranchReport(
            branch=row.name,
            parent=row.parent,
            at=None if row.parent is None else row.fork_seq,
            merged=tuple(dict.fromkeys(source for source, _, _ in row.merges)),
        )
        for row in engine.documents.branches.values()
    )


def compare(engine: Engine, branch: BranchId, question: CompareDocuments, sees: MaySee) -> Differences:
    """Differences, in the order of the documents."""
    older = Seq(question.older)
    newer = engine.head if question.newer is None else Seq(question.newer)
    found: list[DifferenceReport] = []
    limit = max(min(question.limit, DIFFERENCES_MAX), 1)
    # A commit or a document may be large: the clocks are read for each.
    clock, of_log = _Clock(every=1), _Clock(share=_SHARE_OF_LOG, every=1)
    for change in _changes(engine, branch, question, older, newer, clock=clock, of_log=of_log):
        if not sees(change.doc):
            continue
        if len(found) >= limit:
            return Differences(differences=tuple(found), older=older, newer=newer, is_complete=False)
        sides = {
            side: to_json(value)
            for side, value in (("older", change.before), ("newer", change.after))
            if value is not ABSENT
        }
        found.append(
            DifferenceReport(
                document=address_text(change.doc),
                address=address_text(change.doc, change.path),
                **sides,
            )
        )
    is_complete = not (clock.was_over or of_log.was_over)
    return Differences(differences=tuple(found), older=older, newer=newer, is_complete=is_complete)


def _changes(
    engine: Engine,
    branch: BranchId,
    question: CompareDocuments,
    older: Seq,
    newer: Seq,
    *,
    clock: _Clock,
    of_log: _Clock,
) -> Iterator[Change]:
    documents = engine.documents
    against = find_branch(engine, question.against) if question.against else branch
    read_seq(engine, branch, older)
    read_seq(engine, against, newer)
    if question.address:
        docs: Iterator[DocKey] = iter((parse_address(question.address)[0],))
    elif against == branch:
        docs = iter(sorted(changed_documents(engine, older, newer, of_log.is_over)))
    else:
        docs = iter(sorted({*keys(engine, branch), *keys(engine, against)}))
    for doc in docs:
        if clock.is_over():
            return
        before, after = documents.at(branch, doc, older), documents.at(against, doc, newer)
        yield from changes_between(doc, before.value, after.value)


def commits(engine: Engine, branch: BranchId, question: ListCommits, sees: MaySee) -> CommitsAnswer:
    """One page of commits of the branch and of its ancestors as far as it saw them."""
    bounds = _visible(engine, branch)
    limit = max(min(question.limit, COMMITS_MAX), 1)
    oldest = engine.documents.horizon.seq
    through = min(question.before - 1, engine.head) if question.before > 0 else engine.head
    found: list[CommitReport] = []
    clock = _Clock()
    while through > oldest and len(found) < limit:
        window = list(engine.backend.log(Seq(max(through - _WINDOW, oldest)), Seq(through)))
        for row in reversed(window):
            through = row.seq - 1
            entry = read_entry(row)
            if isinstance(entry, CommitEntry) and row.seq <= bounds.get(entry.branch, -1):
                docs = list(dict.fromkeys(each.doc for each in entry.operations if sees(each.doc)))
                if docs:
                    found.append(_commit(row.seq, entry, docs))
            if len(found) >= limit or clock.is_over():
                break
        if not window or clock.is_over():
            break
    return CommitsAnswer(
        commits=tuple(found), head=engine.head, oldest=oldest, next=through + 1 if through > oldest else 0
    )


def _visible(engine: Engine, branch: BranchId) -> dict[BranchId, Seq]:
    """The newest commit of the branch and of each ancestor that the branch has."""
    bounds: dict[BranchId, Seq] = {branch: engine.head}
    row = engine.documents.branch(branch)
    bound = engine.head
    while row.parent is not None:
        bound = min(bound, row.fork_seq)
        bounds[row.parent] = bound
        row = engine.documents.branch(row.parent)
    return bounds


def _commit(seq: int, entry: CommitEntry, docs: list[DocKey]) -> CommitReport:
    named = tuple(address_text(doc) for doc in docs[:_NAMED])
    return CommitReport(
        seq=seq,
        at_ms=entry.at,
        branch=entry.branch,
        session=entry.session,
        documents=named,
        more=len(docs) - len(named),
    )


def kinds(engine: Engine, branch: BranchId, question: ListKinds, sees: MaySee) -> KindsAnswer:
    """Prefixes up to the first colon or dot, with counts."""
    through = read_seq(engine, branch, None if question.at is None else Seq(question.at))
    counts: dict[str, int] = {}
    hidden = 0
    clock = _Clock()
    is_complete = True
    for doc in keys(engine, branch):
        if clock.is_over():
            is_complete = False
            break
        if not sees(doc):
            continue
        own = doc.removeprefix("space/")
        if own.startswith((*SYSTEM, PREFIX, f"{RECORD_KIND}:")):
            value = engine.documents.at(branch, doc, through).value
            hidden += value is not ABSENT
            continue
        name = _prefix(doc)
        if name in counts or len(counts) < KINDS_MAX:
            # Deleted documents are few, and counted only if they are alone: reading each would take too long.
            counts[name] = counts.get(name, 0) + 1
    declared = _declared(engine, branch)
    for name in [name for name, count in counts.items() if count == 1]:
        found = next((doc for doc in _of(engine, branch, name)), None)
        if found is None or engine.documents.at(branch, found, through).value is ABSENT:
            del counts[name]
    reports = (
        KindReport(prefix=name, count=count, declared=name in declared, fields=declared.get(name, ()))
        for name, count in sorted(counts.items())
    )
    return KindsAnswer(kinds=tuple(reports), hidden=hidden, is_complete=is_complete)


def _of(engine: Engine, branch: BranchId, prefix: str) -> Iterator[DocKey]:
    for start in key_prefixes(prefix):
        yield from keys(engine, branch, start)


def _prefix(doc: DocKey) -> str:
    """`order:` of `order:7`, `shop.` of `shop.count`, `user:ann!` of documents of a user; else the name itself."""
    scope, _, name = doc.partition("/")
    if scope != "space":
        return f"{scope}!"
    places = [at for at in (name.find(":"), name.find(".")) if at >= 0]
    return name[: min(places) + 1] if places else name


def _declared(engine: Engine, branch: BranchId) -> dict[str, tuple[str, ...]]:
    """The fields of each declared collection, by prefix."""
    found: dict[str, tuple[str, ...]] = {}
    for doc in keys(engine, branch, f"space/{RECORD_KIND}:"):
        kind = doc.partition(":")[2]
        value: Maybe = engine.documents.at(branch, doc, engine.head).value
        if doc == record_doc(kind) and value is not ABSENT:
            found[f"{kind}:"] = tuple(record_of(doc, value).checks)
    return found


def find_documents(engine: Engine, branch: BranchId, question: FindDocuments, sees: MaySee) -> FoundDocuments:
    """Documents that satisfy the conditions: a scan within bounds."""
    conditions = parse_where(question.where)
    through = read_seq(engine, branch, None if question.at is None else Seq(question.at))
    clock = _Clock()
    scanned, is_complete = 0, True
    found: list[tuple[DocKey, Seq, Maybe]] = []
    hides = not question.prefix.removeprefix("space!").startswith((*SYSTEM, PREFIX))
    for prefix in key_prefixes(question.prefix):
        for doc in keys(engine, branch, prefix):
            if scanned >= question.documents_max or clock.is_over():
                is_complete = False
                break
            if not sees(doc):
                continue
            state = engine.documents.at(branch, doc, through)
            if state.value is ABSENT or (hides and (doc.startswith(f"space/{PREFIX}") or is_system(doc, state.value))):
                continue
            scanned += 1
            if satisfies(state.value, conditions):
                found.append((doc, state.seq, state.value))
    if question.sort:
        path = tuple(step for step in question.sort.replace(".", "/").split("/") if step)
        found.sort(key=lambda row: sort_key(value_at(row[2], path)), reverse=question.descending)
    start = max(question.after, 0)
    rows = tuple(
        DocumentRow(address=address_text(doc), seq=seq, value=MISSING if value is ABSENT else to_json(value))
        for doc, seq, value in found[start : start + max(min(question.limit, 1000), 1)]
    )
    return FoundDocuments(documents=rows, found=len(found), scanned=scanned, is_complete=is_complete)


# --- branches -------------------------------------------------------------------------------------------------


def change_branch(storage: Storage, branch: str, command: ChangeBranch) -> BranchWritten:
    """Make a branch, or merge one. Raises what rejects it: then nothing was done."""
    on = storage.call(lambda engine: find_branch(engine, branch))
    if command.action == "fork":
        start = storage.call(lambda engine: engine.head) if command.at is None else Seq(command.at)
        return BranchWritten(seq=storage.fork(command.name, on, start), at=start)
    if command.at is not None:
        raise UsageError("a branch is merged as it is now")
    into = storage.call(lambda engine: find_branch(engine, command.name))
    outcome = storage.merge(on, into)
    match outcome.verdict:
        case Committed(seq):
            return BranchWritten(seq=seq, documents=len(outcome.commit.operations))
        case rejected:
            raise RejectedError(rejected.reason)
