"""The rules of the collections of a served space, and their changes in decided commits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from headwater.store.collection_record import record_of
from headwater.store.collection_rules import NO_RULES, Access, Rules
from headwater.store.commit import CommitOutcome, Committed
from headwater.store.engine import Engine
from headwater.store.guard import RECORDS
from headwater.values.ids import BranchId, DocKey
from headwater.values.tree import ABSENT, Maybe


class SpaceRules:
    """The rules of the collections of a space that have any, as of the newest decided commit."""

    __slots__ = ("_by_branch",)

    def __init__(self) -> None:
        # By branch and kind. Replaced as a whole by the deciding thread, read by all.
        self._by_branch: dict[BranchId, Mapping[str, Rules]] = {}

    def load(self, engine: Engine, branch: BranchId) -> None:
        """Load the rules of a branch, while the storage is locked."""
        if branch not in self._by_branch:
            records = engine.collections.records(branch)
            self._by_branch[branch] = {kind: each.rules for kind, each in records.items() if each.rules.rules}

    def change(self, decided: Iterable[object]) -> None:
        """Take in decided commits, in the deciding thread."""
        if not self._by_branch:
            return
        for branch, kind, rules in changed_rules(decided):
            if branch in self._by_branch:
                others = {each: found for each, found in self._by_branch[branch].items() if each != kind}
                self._by_branch[branch] = {**others, kind: rules} if rules.rules else others

    def kinds(self, branch: BranchId) -> frozenset[str]:
        """The kinds with rules on a branch that is loaded."""
        return frozenset(self._by_branch[branch])

    def may_read(self, branch: BranchId, kind: str, access: Access) -> bool:
        """Whether a session may read the documents of a collection."""
        rules = self._by_branch[branch].get(kind)
        return rules is None or rules.may_read(access)

    def may_change(self, branch: BranchId, kind: str, access: Access) -> bool:
        """Whether there is anything of a collection that a session may write, by its rules."""
        rules = self._by_branch[branch].get(kind)
        return rules is None or rules.may_change(access)


def changed_rules(decided: Iterable[object]) -> Iterator[tuple[BranchId, str, Rules]]:
    """The changes of rules in decided commits: branch, kind and the rules from then on."""
    for outcome in decided:
        if isinstance(outcome, CommitOutcome) and isinstance(outcome.verdict, Committed):
            for effect in outcome.effects:
                if effect.doc.startswith(RECORDS):
                    before, after = _rules(effect.doc, effect.before), _rules(effect.doc, effect.after)
                    if before != after:
                        yield outcome.commit.branch, effect.doc.removeprefix(RECORDS), after


def _rules(doc: DocKey, value: Maybe) -> Rules:
    return NO_RULES if value is ABSENT else record_of(doc, value).rules
