"""Changes of the rules of collections in decided commits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headwater.store.collection_record import record_of
from headwater.store.collection_rules import NO_RULES, Rules
from headwater.store.commit import CommitOutcome, Committed
from headwater.store.guard import RECORDS
from headwater.values.ids import BranchId, DocKey
from headwater.values.tree import ABSENT, Maybe


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
