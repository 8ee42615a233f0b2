"""Mistakes in the engine: admission, replay, undo, conflicts, folding, branches."""

from __future__ import annotations

from typing import Final

from sim.mutants.mutant import PROGRAM, SHARED, STORAGE, WORKFLOW, Mutant, maker

_m = maker("store", STORAGE, SHARED, PROGRAM)

MUTANTS: Final[tuple[Mutant, ...]] = (
    # Checks of a commit.
    _m("reads_unchecked", "store.engine:Engine._outdated", "state.seq > read.seq", "False", "INV-1"),
    _m(
        "rests_unchecked",
        "store.engine:Engine._outdated",
        "not are_all_writes(session, state, pending)",
        "False",
        "INV-4",
    ),
    _m("others_overlooked", "store.engine:Engine._is_alone", "self._others <= basis.seq", "True", "INV-1"),
    _m("rejected_overlooked", "store.engine:Engine._is_alone", "session.gap <= basis.local_seq", "True", "INV-4"),
    _m("preconditions_unchecked", "store.preconditions:first_unmet", "unmet is not None", "False", "I11"),
    _m(
        "deleted_is_absent",
        "store.preconditions:unmet_by",
        "states.get(branch, doc).seq",
        "states.get(branch, doc).value is not ABSENT",
        "I11",
    ),
    _m(
        "origin_unchecked",
        "store.preconditions:unmet_by",
        "sessions.seq_of(session, local_seq) is None",
        "False",
        "I10",
    ),
    _m(
        "horizon_ignored", "store.engine:Engine._overwritten", "read.seq < self.documents.horizon.seq", "False", "INV-1"
    ),
    _m("dead_layer_accepted", "store.engine:Engine._undermined", "missing is not None", "False", "INV-4"),
    # A commit that is sent again.
    _m("replay_decided_anew", "store.engine:Engine._decide", "commit.local_seq <= session.last", "False", "INV-11"),
    _m(
        "replay_any_payload",
        "store.engine:Engine._replay",
        "entry is not None and not commit_refusals.is_entry_of(entry, commit, rides=rides)",
        "False",
        "INV-11",
    ),
    _m(
        "tail_forgotten",
        "store.engine:Engine.__init__",
        "self._sessions.record(self._sessions.get(entry.session), entry.local_seq, Committed(row.seq))",
        "pass",
        "INV-11",
    ),
    _m(
        "elided_unrecorded",
        "store.engine:Engine._elide",
        "self._sessions.elide(session, commit.local_seq, found)",
        "pass",
        "INV-11",
    ),
    _m(
        "written_with_fold_forgotten",
        "store.sessions:Sessions.folded",
        "{number: seq for number, seq in session.accepted.items() if seq > through}",
        "{}",
        "INV-11",
    ),
    # A batch that is not written.
    _m(
        "undo_keeps_states",
        "store.engine:Engine._undo",
        "self.states.drop(commit.branch, operation.doc)",
        "pass",
        "INV-9",
    ),
    _m("undo_keeps_sessions", "store.engine:Engine._undo", "self._sessions.forget(batch.decided)", "pass", "INV-11"),
    _m(
        "told_before_written",
        "store.engine:Engine._write",
        """if batch.rows or batch.fold is not None or batch.observed or batch.has_table_writes:
    observed = [(branch, row) for (branch, _), row in batch.observed.items()] if batch.observed else []
    (self._host_append or self.backend.append)(batch.rows, batch.fold, observed)
if batch.fold is not None:
    if batch.fold.through > self.documents.folded:
        self.documents.after_fold(batch.fold)
        self._sessions.folded(batch.fold.through)
    self.collections.after_fold(batch.fold)
self._advance(batch.rows, batch.entries)""",
        """if batch.fold is not None:
    if batch.fold.through > self.documents.folded:
        self.documents.after_fold(batch.fold)
        self._sessions.folded(batch.fold.through)
    self.collections.after_fold(batch.fold)
self._advance(batch.rows, batch.entries)
if batch.rows or batch.fold is not None or batch.observed or batch.has_table_writes:
    observed = [(branch, row) for (branch, _), row in batch.observed.items()] if batch.observed else []
    (self._host_append or self.backend.append)(batch.rows, batch.fold, observed)""",
        "INV-9",
    ),
    _m("head_not_moved", "store.engine:Engine._write", "self._advance(batch.rows, batch.entries)", "pass", "INV-9"),
    _m("chain_not_moved", "store.engine:Engine._advance", "self._chain = rows[-1].chain", "pass", "INV-9"),
    _m(
        "rider_not_undone",
        "store.engine:Engine._apply_tables",
        "self.backend.end_savepoint(keep=accepted)",
        "self.backend.end_savepoint(keep=True)",
        "W9",
        STORAGE,
        WORKFLOW,
    ),
    _m(
        "not_on_disk",
        "store.backends.sqlite_file:_configure",
        '_once(db, f"pragma synchronous = {durability}")',
        '_once(db, "pragma synchronous = normal")',
        "S1",
    ),
    # Which writes touch which reads.
    _m("reshape_unnoticed", "store.conflict:TouchIndex.record", "touch.reshaped", "False", "INV-1"),
    _m("above_unnoticed", "store.conflict:TouchIndex.newest", "newest = max(newest, node.leaf)", "pass", "INV-1"),
    _m(
        "moved_list_seen",
        "store.conflict:_written_path",
        "path[:-1] if path and type(path[-1]) is int and type(op) is not Replace else path",
        "path",
        "INV-1",
    ),
    _m(
        "own_layer_hides",
        "store.conflict:first_unseen",
        "strange += [(Touch(each, reshaped=True), met[0]) for each in written]",
        "pass",
        "INV-1",
    ),
    _m(
        "index_not_extended",
        "store.state_cache:DocState._index_recent",
        "self.recent[self.indexed:]",
        "self.recent[self.indexed:] if not self.indexed else ()",
        "INV-1",
    ),
    # Branches.
    _m(
        "merge_overwrites",
        "store.branching:merge",
        "ours.seq > met.into and not _unchanged(engine, doc, ours, met.there, source)",
        "False",
        "merge",
        STORAGE,
    ),
    _m(
        "compacted_past_fork", "store.compaction:compact", "Seq(min([before, *forks]))", "Seq(before)", "INV-9", STORAGE
    ),
)
