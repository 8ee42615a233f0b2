"""Compares the log and the documents of a space with what sessions sent and were told."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from headwater.errors import HeadwaterError, StoreFullError
from headwater.host.storage import TABLE_SESSION, Storage
from headwater.store.commit import (
    CommitEntry,
    Committed,
    Conflict,
    Entry,
    ForkEntry,
    OriginCommitted,
    encode_operations,
)
from headwater.store.document import read_entry
from headwater.store.engine import Engine
from headwater.store.verification import verify
from headwater.values.codec import digest
from headwater.values.ids import BranchId, DocKey, Seq
from headwater.values.tree import freeze
from sim.storage.model import MISSING, MisfitError, Model, plain
from sim.storage.sessions import ROWS, Rider, Sent, Session, rider_operations
from sim.world import World


class History:
    """The log as it was found at each opening, also the part that compaction has dropped since."""

    def __init__(self, world: World, sessions: Sequence[Session]) -> None:
        self._world, self._sessions = world, sessions
        self.entries: dict[int, Entry] = {}
        self._numbers: set[tuple[str, int]] = set()
        # Table transactions alone.
        self.riders: list[Rider] = []
        # Branches whose making was acknowledged.
        self.forks: dict[str, int] = {}
        # Sequence numbers between which no decision was told.
        self.gaps: list[tuple[int, int]] = []

    def begin_life(self) -> None:
        """Table transactions of a process that was killed may be stored or not."""

    def opened(self, storage: Storage) -> None:
        """The process has opened the file."""
        storage.call(self.read)

    def read(self, engine: Engine) -> None:
        """Note the log, which must hold everything that was acknowledged."""
        found = {int(row.seq): read_entry(row) for row in engine.backend.log(engine.documents.horizon.seq, engine.head)}
        for number in sorted(self.entries):
            if number > engine.documents.horizon.seq:
                # What was never acknowledged may be lost with the power.
                del self.entries[number]
        self.entries.update(found)
        self._numbers = {
            (each.session, each.local_seq) for each in self.entries.values() if isinstance(each, CommitEntry)
        }
        for session in self._sessions:
            for name, sent in session.sent.items():
                for number, each in sent.items():
                    self._look_up(f"{name} {number}", each, engine.head)

        for branch, seq in self.forks.items():
            fork = self.entries.get(seq)
            if not isinstance(fork, ForkEntry) or fork.name != branch:
                self._world.violate("S1", f"branch {branch} was made at {seq}, where now is {fork}")

    def _look_up(self, name: str, sent: Sent, head: int) -> None:
        for verdict, _ in sent.verdicts:
            if isinstance(verdict, Committed):
                entry = self.entries.get(verdict.seq)
                if sent.is_elided and self._number(sent) not in self._numbers:
                    continue  # its result was stored before
                if verdict.seq > head:
                    self._world.violate("S1", f"{name} was acknowledged at {verdict.seq}, and the log ends with {head}")
                elif not isinstance(entry, CommitEntry) or (entry.session, entry.local_seq) != (
                    sent.commit.session,
                    sent.commit.local_seq,
                ):
                    self._world.violate("S1", f"{name} was acknowledged at {verdict.seq}, where now is {entry}")

    # -- at the end --------------------------------------------------------------------------------------------

    def check(self, storage: Storage) -> None:
        """All rules of the store."""
        report = storage.call(verify)
        if not report.ok:
            self._world.violate("INV-9", f"verify at the end: {report.findings}")
        model = Model()
        model.is_compacted = self._world.counts["compactions"] > 0
        # Those whose place is not known, because their session was killed before it was told.
        model.elided.update(
            self._number(each)
            for session in self._sessions
            for sent in session.sent.values()
            for each in sent.values()
            if each.may_be_elided_before
        )
        decided = self._decisions()
        for seq in sorted(self.entries):
            self._decide_before(model, decided, seq)
            if seq != model.head + 1:
                self._world.violate("INV-9", f"entry {seq} follows {model.head}")
            entry = self.entries[seq]
            if isinstance(entry, CommitEntry):
                self._check_entry(model, seq, entry)
            try:
                model.add(seq, entry)
            except MisfitError:
                self._world.violate("INV-9", f"entry {seq} does not fit: {entry}")
        self._decide_before(model, decided, model.head + 1)
        for after, before in self.gaps:
            for seq in range(after + 1, before):
                if isinstance(untold := self.entries.get(seq), CommitEntry):
                    self._world.violate("INV-6", f"entry {seq} was not told: {untold}")
        self._check_documents(model, storage)
        self._check_rows(model, storage)

    @staticmethod
    def _number(sent: Sent) -> tuple[str, int]:
        return sent.commit.session, sent.commit.local_seq

    def _check_entry(self, model: Model, seq: int, entry: CommitEntry) -> None:  # noqa: C901  # one test for each rule
        world, name = self._world, f"{entry.session} {entry.local_seq}"
        if entry.merged is not None:
            self._check_merge(model, seq, entry)
            return
        if entry.session == TABLE_SESSION:
            self._check_rider(model, seq, entry)
            return
        sent = self._sent(entry)
        if sent is None:
            world.violate("INV-11", f"entry {seq} is of {name}, which was never sent")
            return
        if (entry.session, entry.local_seq) in model.accepted:
            before = model.accepted[entry.session, entry.local_seq]
            world.violate("INV-11", f"{name} is in the log at {before} and at {seq}")
        expected = sent.commit.operations
        if sent.rides:
            expected += rider_operations(sent.act)
        if encode_operations(entry.operations) != encode_operations(expected) or entry.branch != sent.commit.branch:
            world.violate("INV-11", f"{name} has other operations in the log: {entry}")
        if sent.rides in ("refuses", "breaks"):
            world.violate("INV-7", f"{name} is in the log at {seq}, and its table transaction did not succeed")
        if (why := model.complaint(sent.commit, self._commits(entry), digest_of)) is not None:
            world.violate("INV-1", f"{name} was accepted at {seq}: {why}")
        for verdict, _ in sent.verdicts:
            if not isinstance(verdict, Committed):
                world.violate("S1", f"{name} is in the log at {seq}, and its session was told {verdict}")
        if isinstance(sent.error, StoreFullError):
            world.violate("S1", f"{name} is in the log at {seq}, and its session was told {sent.error}")

    def _check_merge(self, model: Model, seq: int, entry: CommitEntry) -> None:
        assert entry.merged is not None
        source, through = entry.merged
        into = entry.branch
        branch = source if source != "main" else into
        back = [each for name, each, _ in model.merges.get(source, ()) if name == into]
        base = max([model.forks[branch][1], *back])
        merges = {at for name, _, at in model.merges.get(into, ()) if name == source}
        met = max(((through, at) for name, through, at in model.merges.get(into, ()) if name == source), default=(0, 0))
        for operation in entry.operations:
            ours = model.write_of(into, operation.doc, seq)
            # Equal at the last merge of the two: neither side had changed it until then.
            is_met = ours[0] <= met[1] and ours[1] == model.value(source, operation.doc, met[0])
            if ours[0] > base and ours[0] not in merges and not is_met:
                self._world.violate(
                    "merge", f"{source} was merged at {seq} over {operation.doc} of {into}, at {ours[0]}"
                )
            theirs = model.value(source, operation.doc, through)
            if plain(getattr(operation, "value", MISSING)) != theirs and theirs is not MISSING:
                self._world.violate(
                    "merge", f"{operation.doc} was merged at {seq} with another value than {source} has"
                )

    def _check_rider(self, model: Model, seq: int, entry: CommitEntry) -> None:
        found = [each for each in self.riders if rider_operations(each.act) == entry.operations]
        if not found or any(each.error is not None and isinstance(each.error, StoreFullError) for each in found):
            self._world.violate("W9", f"entry {seq} is of a table transaction that was refused or never sent: {entry}")
        elif ("rider", found[0].act.number) in model.accepted:
            self._world.violate("W9", f"entry {seq} is of a table transaction that was stored before: {entry}")
        else:
            model.accepted["rider", found[0].act.number] = seq

    def _decisions(self) -> list[tuple[int, str, Sent]]:
        """Decisions without an entry, by the newest commit before them and by their numbers; the last one first."""
        found = []
        for session in self._sessions:
            for name, sent in session.sent.items():
                for number, each in sent.items():
                    for verdict, head in each.verdicts[:1]:
                        if not isinstance(verdict, Committed) or (name, number) not in self._numbers:
                            found.append((head, f"{name} {number}", each))
        return sorted(found, key=lambda each: (each[0], each[2].commit.session, each[2].commit.local_seq), reverse=True)

    def _decide_before(self, model: Model, decided: list[tuple[int, str, Sent]], seq: int) -> None:
        """Look whether decisions before an entry had a reason."""
        while decided and decided[-1][0] < seq:
            head, name, sent = decided.pop()
            verdict = sent.verdicts[0][0]
            if sent.rides or head != model.head:
                continue
            if isinstance(verdict, Conflict) and verdict.reason.startswith("decided before"):
                continue
            session = next(
                each.sent[sent.commit.session] for each in self._sessions if sent.commit.session in each.sent
            )
            commits = {number: one.commit for number, one in session.items()}
            if isinstance(verdict, Committed):
                self._check_elided(model, name, sent)
            elif sent.commit.branch not in model.forks or self._rests_on_elided(sent, session):
                continue
            elif model.excuse(sent.commit, commits, digest_of) is None:
                self._world.violate("V", f"{name} was rejected at {head} without a reason: {verdict}, {sent.commit}")

    def _check_elided(self, model: Model, name: str, sent: Sent) -> None:
        """Accepted without an entry: the result was stored before."""
        commit = sent.commit
        [operation] = commit.operations
        if model.value(commit.branch, operation.doc, model.head) != plain(getattr(operation, "value", MISSING)):
            self._world.violate("INV-11", f"{name} was accepted without an entry, and changes {operation.doc}")
        model.elided.add((commit.session, commit.local_seq))

    def _rests_on_elided(self, sent: Sent, session: dict[int, Sent]) -> bool:
        """On a commit without an entry, which a later opening does not know, nor an engine that was started again."""
        numbers = {int(each.local_seq) for each in sent.commit.preconditions if isinstance(each, OriginCommitted)}
        for read in sent.commit.pending_reads:
            numbers.update(number for first, last in read.layers for number in range(first, last + 1))
        counts = self._world.counts
        # Also after a group that failed, the engine does not know them any more: the commit is made again.
        forgets = counts["interrupts"] or counts["number reused"] or counts["stalled"]
        forgets = forgets or any(each.rides for each in session.values())
        return any(session[each].is_elided and (forgets or session[each].opening != sent.opening) for each in numbers)

    def _check_rows(self, model: Model, storage: Storage) -> None:
        """A table transaction is stored with its commit, or not at all."""
        found = {str(row[0]) for row in storage.call(lambda engine: engine.backend.tables.execute(ROWS))}
        stored = {str(number) for name, number in model.accepted if name == "rider"}
        for session in self._sessions:
            for name, sent in session.sent.items():
                stored |= {
                    str(each.act.number)
                    for number, each in sent.items()
                    if each.rides and (name, number) in model.accepted
                }
        if found != stored:
            self._world.violate(
                "W9", f"rows of tables without their commits, or commits without: {sorted(found ^ stored)}"
            )

    def _check_documents(self, model: Model, storage: Storage) -> None:
        first = storage.call(lambda engine: engine.documents.horizon.seq)
        for branch in sorted(model.forks):
            for doc in model.docs(branch):
                for seq in {model.head, max(first, model.head // 2), max(first, model.head - 3)}:
                    try:
                        found = plain(storage.load(BranchId(branch), DocKey(doc), Seq(seq)).value)
                    except HeadwaterError as error:
                        self._world.violate("INV-9", f"{doc} of {branch} at {seq} cannot be read: {error}")
                        continue
                    expected = model.value(branch, doc, seq)
                    if found != expected:
                        self._world.violate("INV-9", f"{doc} of {branch} at {seq} is {found}, and should be {expected}")

    def _sent(self, entry: CommitEntry) -> Sent | None:
        for session in self._sessions:
            if entry.session in session.sent:
                return session.sent[entry.session].get(entry.local_seq)
        return None

    def _commits(self, entry: CommitEntry) -> dict[int, Any]:
        sent = next(each.sent[entry.session] for each in self._sessions if entry.session in each.sent)
        return {number: each.commit for number, each in sent.items()}


def digest_of(value: object) -> bytes:
    """The digest of a plain value."""
    return digest(freeze(copy.deepcopy(value)))
