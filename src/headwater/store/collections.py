"""The collections of a space: their records, the keys of their documents, and what a commit means for both.

The engine asks for the shifts of each commit that it is about to append: they say whether a unique index would have two
equal keys, they conflict with spans that other commits have read, and the indexes follow them.

Length: records, feed and indexes change together with each commit, and are undone together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from headwater.errors import (
    CorruptError,
    DuplicateError,
    HistoryError,
    LocalProtocolError,
    NotFoundError,
    UsageError,
)
from headwater.store.applying import apply_operation
from headwater.store.backend import Backend, EntryFold, Fold, IndexRow
from headwater.store.collection_record import (
    CollectionRecord,
    NamedIndex,
    Shift,
    changed_fields,
    group_width,
    id_of,
    kind_of,
    kind_of_index,
    moves_of,
    record_doc,
    record_of,
    scope_prefix,
)
from headwater.store.collection_rules import Access
from headwater.store.commit import (
    Commit,
    CommitEntry,
    CommitOutcome,
    Committed,
    Conflict,
    Effect,
    Refused,
    SpanRead,
    Submission,
    Verdict,
)
from headwater.store.document import Documents
from headwater.store.entries import Entries
from headwater.store.features import COLLECTIONS, parse
from headwater.store.guard import RECORDS, declares, misfit, objection
from headwater.store.key_changes import KeyChanges, LaterChanges
from headwater.store.sessions import Session, Sessions
from headwater.store.shifts import Feed
from headwater.store.span_conflicts import SpanView, first_hit
from headwater.store.state_cache import StateCache
from headwater.store.store_limits import BODIES_AT_ONCE
from headwater.store.totals import TotalEntries
from headwater.store.unique_keys import check_unique, duplicate_in
from headwater.values.ids import BranchId, DocKey, Seq
from headwater.values.tree import ABSENT, Maybe

_PAGE: Final = 512
_NO_SHIFTS: Final[list[Shift]] = []
_NO_RECORDS: Final[Mapping[str, CollectionRecord]] = {}

IndexKey: TypeAlias = tuple[BranchId, str]


class Collections:
    """The collections of all branches. `is_used` is False in a space without any: then nothing else is asked."""

    def __init__(
        self,
        backend: Backend,
        documents: Documents,
        states: StateCache,
        sessions: Sessions,
        head: Callable[[], Seq],
    ) -> None:
        self._backend = backend
        self._documents = documents
        self._states = states
        self._sessions = sessions
        self._head = head
        self.is_used = COLLECTIONS in parse(backend.features())
        # Indexes that were made again because what was stored was missing or damaged.
        self.rebuilt: list[str] = []
        self._records: dict[BranchId, dict[str, CollectionRecord]] = {}
        self._stored: dict[IndexKey, IndexRow] = {}
        self._entries: dict[IndexKey, Entries] = {}
        # Of the reader that was last behind: one that reads many spans as of one commit goes over later shifts once.
        self._later: dict[IndexKey, LaterChanges] = {}
        # Indexes whose keys are written with the next commits, one at a time. No property: each batch looks at it.
        self.due: dict[IndexKey, None] = {}
        self._feed = Feed(backend, documents.folded)
        # Whether the shifts of the log after the last fold are in the feed.
        self._is_complete = True
        # add(): the last commit that has shifts.
        self.shifted = Seq(0)
        if self.is_used:
            self._start()

    def _start(self) -> None:
        self._stored = {(row.branch, row.name): row for row in self._backend.index_rows()}
        # After a crash, indexes may lag behind the other caches.
        self.due = {key: None for key, row in self._stored.items() if row.through < self._documents.folded}
        self._feed = Feed(self._backend, max(self._documents.folded, self._backend.shift_floor()))
        self._is_complete = False

    def enable(self) -> None:
        """Make the tables, before the first declaration. Durable when it returns."""
        if not self.is_used:
            self._backend.make_collections(self._head())
            self._start()
            self.is_used = True

    def prepare(self, submissions: Sequence[Submission]) -> None:
        """Make the tables if one of these commits declares the first collection."""
        if not self.is_used and any(map(declares, submissions)):
            self.enable()

    # -- records -------------------------------------------------------------------------------------------

    def records(self, branch: BranchId) -> Mapping[str, CollectionRecord]:
        """The records of a branch, by kind."""
        if not self.is_used:
            return _NO_RECORDS
        found = self._records.get(branch)
        if found is None:
            docs = self._documents_on(branch, RECORDS)
            values = [(doc, self._states.get(branch, doc).value) for doc in docs]
            records = [record_of(doc, value) for doc, value in values if value is not ABSENT]
            found = self._records[branch] = {record.kind: record for record in records}
        return found

    def index(self, branch: BranchId, name: str) -> NamedIndex | None:
        """An index of a record of the branch."""
        record = self.records(branch).get(kind_of_index(name))
        if record is None:
            return None
        return next((each for each in record.named if each.name == name), None)

    def has_index(self, branch: BranchId, name: str) -> bool:
        """Whether the keys of an index are here or in the table, and not damaged."""
        if self.index(branch, name) is None or not ((branch, name) in self._entries or (branch, name) in self._stored):
            return False
        self._current(branch, name)
        return True

    def _documents_on(self, branch: BranchId, prefix: str) -> dict[DocKey, Seq]:
        """The documents of a branch and its ancestors whose keys begin so, each with a commit that wrote it."""
        found: dict[DocKey, Seq] = {}
        tail = self._documents.tail.by_document()
        name: BranchId | None = branch
        while name is not None:
            for doc, revisions in tail.get(name, {}).items():
                if doc.startswith(prefix):
                    found.setdefault(doc, revisions[-1].seq)
            after = DocKey("")
            while page := self._backend.heads(name, prefix, after, _PAGE):
                for row in page:
                    found.setdefault(row.doc, row.seq)
                after = page[-1].doc
            name = self._documents.branches[name].parent
        return found

    # -- the shifts of a commit ----------------------------------------------------------------------------

    def shifts_of(
        self, commit: Commit, effects: Iterable[Effect], seq: Seq, access: Access | None = None
    ) -> list[Shift] | Refused:
        """What a commit does to the documents of collections if it becomes the next of the log.

        Refused, in this order, if the session may not do that, if a value does not fit its field, and if two documents
        would have the same unique values.
        """
        records = self.records(commit.branch)
        if access is not None and (refused := objection(effects, records, access)) is not None:
            return refused
        shifts: list[Shift] = _NO_SHIFTS
        for effect in effects:
            doc = effect.doc
            kind = kind_of(doc)
            record = records.get(kind)
            if record is not None:
                if not shifts:
                    shifts = []
                refused = misfit(record, effect, access)
                if refused is not None:
                    return refused
                shift = _shift_of(record, commit, effect, seq)
                if shift is not None:
                    shifts.append(shift)
            elif doc.startswith(RECORDS) and effect.after is not ABSENT:
                refused = self._unfit_record(commit.branch, effect)
                if refused is not None:
                    return refused
        if shifts:
            may_tell = None if access is None else lambda kind: records[kind].rules.may_read(access)
            return duplicate_in(shifts, records, lambda index: self._current(commit.branch, index), may_tell) or shifts
        return shifts

    def _unfit_record(self, branch: BranchId, effect: Effect) -> Refused | None:
        """The refusal of a record that is none, or whose new unique indexes the documents do not fit."""
        try:
            record = record_of(effect.doc, effect.after)
            known = self.records(branch).get(record.kind)
            names = set() if known is None else {each.name for each in known.named}
            new = [each for each in record.named if each.index.unique and each.name not in names]
            for named, entries in zip(new, self.made(branch, new, record), strict=True):
                check_unique(record, named, entries)
        except CorruptError as error:
            return Refused(error.message, effect.doc, code=UsageError.code)
        except DuplicateError as error:
            return Refused(error.message, effect.doc, code=DuplicateError.code)
        return None

    def add(self, commit: Commit, effects: Iterable[Effect], shifts: Sequence[Shift]) -> None:
        """The commit becomes the next of the log."""
        if shifts:
            self._complete()
            self._feed.add(shifts)
            self.shifted = shifts[-1].seq
        for effect in effects:
            if effect.doc.startswith(RECORDS):
                self._change_record(commit.branch, effect)

    def _change_record(self, branch: BranchId, effect: Effect) -> None:
        records = self._records[branch] = dict(self.records(branch))
        kind = effect.doc.removeprefix(RECORDS)
        kept: set[str] = set()
        if effect.after is ABSENT:
            records.pop(kind, None)
        else:
            records[kind] = record_of(effect.doc, effect.after)
            kept = {each.name for each in records[kind].named}
        # From now on, nothing follows the documents for indexes that the record no longer has.
        for key in [key for key in self._entries if key[0] == branch and kind_of_index(key[1]) == kind]:
            if key[1] not in kept:
                del self._entries[key]

    def undo(self, head: Seq, fold: Fold | None) -> None:
        """Commits after the head, and the fold, were not written."""
        if self.is_used:
            self._feed.undo(head)
            self._records.clear()
            for key in [key for key, entries in self._entries.items() if entries.through > head]:
                del self._entries[key]
            for entries in fold.entries if fold is not None else ():
                self.due[entries.row.branch, entries.row.name] = None

    def _complete(self) -> None:
        """After an opening, make the shifts of the log after the last fold, from its documents as of that fold."""
        if self._is_complete:
            return
        self._is_complete = True
        floor = max(self._documents.folded, self._backend.shift_floor())
        self._feed.add(
            list(self.shifts_in(((each.seq, each.entry) for each in self._documents.tail.entries), after=floor))
        )

    def shifts_in(self, entries: Iterable[tuple[Seq, CommitEntry]], after: Seq) -> Iterator[Shift]:
        """The shifts of consecutive commits of the log, by the records of today."""
        values: dict[tuple[BranchId, DocKey], Maybe] = {}
        for seq, entry in entries:
            branch = entry.branch
            records = self.records(branch)
            commit = Commit(entry.session, entry.local_seq, branch=branch)
            before: dict[DocKey, Maybe] = {}
            for operation in entry.operations:
                doc = operation.doc
                if kind_of(doc) not in records:
                    continue
                key = (branch, doc)
                if key not in values:
                    values[key] = self._documents.at(branch, doc, Seq(seq - 1)).value
                before.setdefault(doc, values[key])
                values[key], _ = apply_operation(values[key], operation)
            for doc, value in before.items():
                effect = Effect(doc, value, values[branch, doc], ())
                shift = _shift_of(records[kind_of(doc)], commit, effect, seq) if seq > after else None
                if shift is not None:
                    yield shift

    @property
    def undone(self) -> int:
        """How often commits that were not written have been forgotten: what was known of later ones may be wrong."""
        return self._feed.undone

    def outcome(self, commit: Commit, verdict: Verdict, effects: tuple[Effect, ...]) -> CommitOutcome:
        """The outcome of a commit that was just appended, or was not accepted."""
        if type(verdict) is not Committed:
            return CommitOutcome(commit, verdict)
        return CommitOutcome(commit, verdict, effects, self._feed.newest(verdict.seq))

    def shifts_in_log(self, after: Seq) -> dict[Seq, list[Shift]]:
        """The shifts of later commits, of all branches, by their sequence numbers."""
        self._complete()
        found: dict[Seq, list[Shift]] = {}
        for shift in (self._feed.after(after) or ()) if self.is_used else ():
            found.setdefault(shift.seq, []).append(shift)
        return found

    def shifts_after(self, branch: BranchId, seq: Seq) -> list[Shift] | None:
        """What later commits did to the documents of a branch, oldest first; None if it is not known so far back."""
        self._complete()
        later = self._feed.after(seq)
        if later is None:
            return None
        through = self._visible_through(branch)
        return [shift for shift in later if shift.seq <= through.get(shift.branch, 0)]

    def _visible_through(self, branch: BranchId) -> dict[BranchId, Seq]:
        """For a branch and its ancestors, up to which commit of each the branch sees."""
        found: dict[BranchId, Seq] = {}
        through = Seq(2**63 - 1)
        name: BranchId | None = branch
        while name is not None:
            found[name] = through
            row = self._documents.branches[name]
            through, name = min(through, row.fork_seq), row.parent
        return found

    # -- checks --------------------------------------------------------------------------------------------

    def objection(self, commit: Commit, session: Session) -> Verdict | None:
        """The verdict against the spans that a commit has read; None if all of them are current."""
        for span in commit.spans:
            found = self._outdated(commit, session, span)
            if found is not None:
                return found
        return None

    def _outdated(self, commit: Commit, session: Session, span: SpanRead) -> Verdict | None:
        named = self.index(commit.branch, span.index)
        if named is None:
            reason = f"it has read the index {span.index!r}, which branch {commit.branch!r} does not have"
            return Refused(reason, code=LocalProtocolError.code)
        if span.seq > self._head():
            reason = f"it says to have read {span.index} as of commit {span.seq}, after the end of the log"
            return Refused(reason, code=LocalProtocolError.code)
        for first, last in span.layers:
            missing = self._sessions.first_missing(session, first, last)
            if missing is not None:
                return Conflict(f"rests on commit {missing} of its session, which was not accepted")
        record = self.records(commit.branch)[kind_of_index(span.index)]
        declared = self._states.get(commit.branch, record.doc).seq
        later = None if span.seq < declared else self.shifts_after(commit.branch, span.seq)
        if later is None:
            return Conflict(f"{span.index} was read so long ago that it is not known what has changed since")
        return first_hit(later, SpanView(commit, span, record, named, self._states))

    # -- queries -------------------------------------------------------------------------------------------

    def span(
        self,
        branch: BranchId,
        index: str,
        lo: bytes,
        hi: bytes,
        *,
        limit: int | None = None,
        reverse: bool = False,
        through: Seq | None = None,
    ) -> list[bytes]:
        """The first keys of an index with `lo <= key < hi`, or the last, backwards, as of a commit.

        Raises HistoryError if it is not known what has changed since that commit.
        """
        row = self._documents.branch(branch)
        if through is not None and through < row.fork_seq and row.parent is not None:
            return self.span(row.parent, index, lo, hi, limit=limit, reverse=reverse, through=through)
        entries = self._current(branch, index)
        undone = None
        if through is not None and through < entries.through:
            undone = self._changes_after(branch, index, through) if through >= entries.since else None
            if undone is None:
                message = (
                    f"the keys of {index} as of commit {through} are not known any more; "
                    "`.scan()` reads the documents as of that commit"
                )
                raise HistoryError(message, index=index, seq=through, first=entries.since)
        elif self._later:
            self._later.pop((branch, index), None)
        return entries.span(lo, hi, limit, reverse=reverse, undone=undone)

    def changed_keys(self, branch: BranchId, index: str, since: Seq) -> KeyChanges | None:
        """What commits after this one did to the keys of an index, net; None if it is not known so far back.

        It is valid until the next commit or query.
        """
        entries = self._current(branch, index)
        if since < max(entries.since, self._documents.branch(branch).fork_seq):
            return None
        return self._changes_after(branch, index, since)

    def _changes_after(self, branch: BranchId, index: str, seq: Seq) -> KeyChanges | None:
        """What later commits did to the keys of an index; None if it is not known so far back."""
        known = self._later.get((branch, index))
        if known is None or known.since != seq or known.undone != self._feed.undone:
            known = LaterChanges(seq, seq, self._feed.undone, KeyChanges())
        later = self.shifts_after(branch, known.through)
        if later is None:
            return None
        if later:
            known.changes.lay(
                [(move.before, move.after) for shift in later for move in shift.moves if move.index == index]
            )
            known.through = later[-1].seq
        self._later[branch, index] = known
        return known.changes

    def _current(self, branch: BranchId, index: str) -> Entries:
        """The keys of an index, with all commits that are decided."""
        self._complete()
        key = (branch, index)
        entries = self._entries.get(key)
        if entries is None:
            entries = self._entries[key] = self._load(branch, index)
        later = self._feed.after(entries.through)
        if later is None:
            # The table of shifts is damaged.
            entries = self._entries[key] = self._remade(branch, index)
            later = self._feed.after(entries.through) or []
        if later:
            moves = [
                (move.before, move.after)
                for shift in later
                if shift.branch == branch
                for move in shift.moves
                if move.index == index
            ]
            entries.lay(moves, later[-1].seq)
        return entries

    def _load(self, branch: BranchId, index: str) -> Entries:
        """The keys of an index from the table, or made from the documents if they are not there."""
        named = self.index(branch, index)
        if named is None:
            message = f"branch {branch!r} has no index {index!r}; open the space with the app that declares it"
            raise NotFoundError(message, index=index, branch=branch)
        row = self._stored.get((branch, index))
        if row is None:
            return self.made(branch, [named])[0]
        if named.index.total is None:
            is_whole = self._backend.entry_count(branch, index) == row.count
        else:
            # These rows are few, and a number in them is as good as any other.
            is_whole = self._backend.entry_sums(branch, index) == (row.count, row.digest)
        is_whole = is_whole and self._is_continuous(row)
        record = self.records(branch)[kind_of_index(index)]
        return self._new(branch, record, named, row, row.since) if is_whole else self._remade(branch, index)

    def _new(
        self, branch: BranchId, record: CollectionRecord, named: NamedIndex, row: IndexRow | None, since: Seq
    ) -> Entries:
        if named.index.total is None:
            return Entries(self._backend, branch, named.name, row, since)
        return TotalEntries(self._backend, branch, named.name, row, since, group_width(record, named.index.total))

    def _is_continuous(self, row: IndexRow) -> bool:
        """Whether the record had this index ever since the row was written: otherwise it has missed commits."""
        doc = self.records(row.branch)[kind_of_index(row.name)].doc
        for revision in self._documents.revisions(row.branch, doc, row.through, self._head()):
            value = self._documents.at(row.branch, doc, revision.seq).value
            if value is ABSENT or all(each.name != row.name for each in record_of(doc, value).named):
                return False
        return True

    def remake(self, branch: BranchId, index: str) -> None:
        """Make the keys of an index again, as the documents say."""
        self._entries[branch, index] = self._remade(branch, index)

    @property
    def is_feed_damaged(self) -> bool:
        """Whether rows of the table of shifts were found missing or damaged."""
        return self._feed.is_damaged

    def renew_feed(self) -> None:
        """The table of shifts was written anew. Those after the last fold are made again from the log."""
        self._feed = Feed(self._backend, max(self._documents.folded, self._backend.shift_floor()))
        self._is_complete, self._later = False, {}

    def take_rebuilt(self) -> list[str]:
        """The indexes that were made again since the last time."""
        found, self.rebuilt = self.rebuilt, []
        return found

    def _remade(self, branch: BranchId, index: str) -> Entries:
        self.rebuilt.append(index)
        named = self.index(branch, index)
        assert named is not None
        self.due[branch, index] = None
        return self.made(branch, [named])[0]

    def made(
        self, branch: BranchId, indexes: Sequence[NamedIndex], record: CollectionRecord | None = None
    ) -> list[Entries]:
        """The keys of indexes of one collection, made from the documents as of the end of the log, by one pass."""
        if not indexes:
            return []
        head = self._head()
        record = self.records(branch)[kind_of_index(indexes[0].name)] if record is None else record
        declared = self._states.get(branch, record.doc).seq
        since = min(head, max(declared, self._backend.shift_floor()))
        keys: list[list[bytes]] = [[] for _ in indexes]
        for doc, start, value in self._members(branch, record):
            for named, found in zip(indexes, keys, strict=True):
                found.append(named.key(start, value, id_of(doc)))
        made: list[Entries] = []
        for named, found in zip(indexes, keys, strict=True):
            entries = self._new(branch, record, named, None, since)
            found.sort()
            entries.fill(found, head)
            made.append(entries)
        return made

    def _members(self, branch: BranchId, record: CollectionRecord) -> Iterator[tuple[DocKey, bytes, Maybe]]:
        """The documents of a collection as of the end of the log, each with the beginning of its keys."""
        prefix = f"space/{record.kind}:" if record.scope == "space" else "user:"
        docs = [doc for doc in sorted(self._documents_on(branch, prefix)) if kind_of(doc) == record.kind]
        head = self._head()
        for first in range(0, len(docs), BODIES_AT_ONCE):
            page = docs[first : first + BODIES_AT_ONCE]
            stored = self._documents.many(branch, page, head)
            for doc in page:
                start, value = scope_prefix(record, doc), stored[doc].value
                if start is not None and value is not ABSENT:
                    yield doc, start, value

    # -- folding -------------------------------------------------------------------------------------------

    def adopt(self, entries: Entries) -> None:
        """Take the keys of a new index. They are written with the next fold."""
        key = (entries.branch, entries.name)
        self._entries[key] = entries
        self.due[key] = None

    @property
    def stored(self) -> list[IndexRow]:
        """The indexes in the table."""
        return list(self._stored.values())

    def add_to_fold(self, fold: Fold, *, is_last: bool) -> None:
        """Add rows to a fold of the log; the keys of all indexes only if no commits follow soon."""
        self._complete()
        fold.shifts = self._feed.unfolded()
        unfolded = self._feed.after(self._documents.folded) or ()
        moved = {(shift.branch, move.index) for shift in unfolded for move in shift.moves}
        tail = self._documents.tail.by_document()
        for key, row in self._stored.items():
            if key in moved or record_doc(kind_of_index(row.name)) in tail.get(row.branch, ()):
                self.due[key] = None
            elif key not in self.due:
                fold.entries.append(EntryFold(msgspec.structs.replace(row, through=fold.through), [], []))
        for key, entries in self._entries.items():
            if entries.unfolded or key in moved:
                self.due[key] = None
        fold.shift_floor = min([fold.through, *(row.through for key, row in self._stored.items() if key in self.due)])
        while is_last and self.due:
            self.add_entries(fold)

    def add_entries(self, fold: Fold) -> None:
        """Add the keys of one index: those of all at once would hold up the commits for too long."""
        key = next(iter(self.due))
        del self.due[key]
        if self.index(*key) is not None:
            fold.entries.append(self._current(*key).build_fold(self._head()))

    def after_fold(self, fold: Fold) -> None:
        """The fold is written."""
        self._feed.after_fold(fold.through)
        for folded in fold.entries:
            key = (folded.row.branch, folded.row.name)
            self._stored[key] = folded.row
            entries = self._entries.get(key)
            if entries is not None and (folded.is_new or entries.unfolded or folded.removed or folded.added):
                if entries.through == folded.row.through:
                    entries.after_fold(folded)
                else:
                    # Later commits were applied since: read again.
                    del self._entries[key]


def _shift_of(record: CollectionRecord, commit: Commit, effect: Effect, seq: Seq) -> Shift | None:
    """The shift of one effect; None if it changes nothing that an index or a reader sees."""
    doc, before, after = effect.doc, effect.before, effect.after
    if before is after or scope_prefix(record, doc) is None:
        return None
    moves = moves_of(record, doc, before, after)
    fields = None if before is ABSENT or after is ABSENT else changed_fields(before, after)
    if not moves and fields == ():
        return None
    return Shift(commit.branch, seq, commit.session, commit.local_seq, doc, moves, fields)
