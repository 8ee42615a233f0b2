"""The records of the collections of a served space, with their rules, and their changes in decided commits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from headwater.store.collection_record import CollectionRecord, IndexName, record_of
from headwater.store.collection_rules import NO_RULES, Access, Rules
from headwater.store.commit import CommitOutcome, Committed
from headwater.store.engine import Engine
from headwater.store.guard import RECORDS
from headwater.values.ids import BranchId, DocKey
from headwater.values.tree import ABSENT, Maybe


class SpaceRules:
    """The collections of a space, and the rules of those that have any, as of the newest decided commit."""

    __slots__ = ("_by_branch", "_records")

    def __init__(self) -> None:
        # By branch and kind. Replaced as a whole by the deciding thread, read by all.
        self._by_branch: dict[BranchId, Mapping[str, Rules]] = {}
        self._records: dict[BranchId, Mapping[str, CollectionRecord]] = {}

    def load(self, engine: Engine, branch: BranchId) -> None:
        """Load the rules of a branch, while the storage is locked."""
        if branch not in self._by_branch:
            records = self._records[branch] = dict(engine.collections.records(branch))
            self._by_branch[branch] = {kind: each.rules for kind, each in records.items() if each.rules.rules}

    def change(self, decided: Iterable[object]) -> None:
        """Take in decided commits, in the deciding thread."""
        if not self._by_branch:
            return
        for branch, kind, _, record in changed_records(decided):
            if branch in self._by_branch:
                records = {each: found for each, found in self._records[branch].items() if each != kind}
                self._records[branch] = records if record is None else {**records, kind: record}
                others = {each: found for each, found in self._by_branch[branch].items() if each != kind}
                has_rules = record is not None and record.rules.rules
                self._by_branch[branch] = {**others, kind: record.rules} if record and has_rules else others

    def kinds(self, branch: BranchId) -> frozenset[str]:
        """The kinds with rules on a branch that is loaded."""
        return frozenset(self._by_branch[branch])

    def record(self, branch: BranchId, kind: str) -> CollectionRecord | None:
        """The record of a collection; None if there is none."""
        return self._records[branch].get(kind)

    def may_read(self, branch: BranchId, kind: str, access: Access) -> bool:
        """Whether a session may read the documents of a collection."""
        rules = self._by_branch[branch].get(kind)
        return rules is None or rules.may_read(access)

    def may_change(self, branch: BranchId, kind: str, access: Access) -> bool:
        """Whether there is anything of a collection that a session may write, by its rules."""
        rules = self._by_branch[branch].get(kind)
        return rules is None or rules.may_change(access)


def changed_records(
    decided: Iterable[object],
) -> Iterator[tuple[BranchId, str, CollectionRecord | None, CollectionRecord | None]]:
    """The changes of records in decided commits: branch, kind, and the record before and from then on."""
    for outcome in decided:
        if isinstance(outcome, CommitOutcome) and isinstance(outcome.verdict, Committed):
            for effect in outcome.effects:
                if effect.doc.startswith(RECORDS):
                    before, after = _record(effect.doc, effect.before), _record(effect.doc, effect.after)
                    yield outcome.commit.branch, effect.doc.removeprefix(RECORDS), before, after


def are_rules_changed(before: CollectionRecord | None, after: CollectionRecord | None) -> bool:
    """Whether a record has other rules than before."""
    return (NO_RULES if before is None else before.rules) != (NO_RULES if after is None else after.rules)


def dropped_indexes(before: CollectionRecord | None, after: CollectionRecord | None) -> set[IndexName]:
    """The indexes that a record does not have any more."""
    left = set() if after is None else {each.name for each in after.named}
    return set() if before is None else {each.name for each in before.named} - left


def _record(doc: DocKey, value: Maybe) -> CollectionRecord | None:
    return None if value is ABSENT else record_of(doc, value)
