"""What a collection asks of a commit: values that fit the types of its fields, and writes that its rules allow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from headwater.errors import AccessError, RuleError
from headwater.store.collection_record import (
    RECORD_KIND,
    CollectionRecord,
    changed_fields,
    kind_of,
    scope_prefix,
)
from headwater.store.collection_rules import Access
from headwater.store.commit import Effect, Refused, Submission
from headwater.values.address import address_text
from headwater.values.ids import DocKey
from headwater.values.tree import ABSENT

RECORDS: Final = f"space/{RECORD_KIND}:"
"""What the keys of the records of collections begin with."""

RECEIPTS: Final = "space/receipt:"
"""What the keys of receipts begin with: they say that an event was handled here."""


def declares(submission: Submission) -> bool:
    """Whether an owner changes records of collections, from outside of this process: such a commit is decided alone."""
    access = submission.access
    if access is None or not access.may_own:
        return False
    return any(operation.doc.startswith(RECORDS) for operation in submission.commit.operations)


def misfit(record: CollectionRecord, effect: Effect, access: Access | None) -> Refused | None:
    """The refusal of a value that does not fit its field, as far as the commit has changed the field."""
    found = record.misfit(effect.before, effect.after)
    if found is None or (access is not None and access.is_forced) or scope_prefix(record, effect.doc) is None:
        return None
    path, why = found
    return Refused(f"{address_text(effect.doc, path)}: {why}", effect.doc, code=RuleError.code)


def objection(
    effects: Iterable[Effect], records: Mapping[str, CollectionRecord], access: Access | None
) -> Refused | None:
    """The refusal of a commit of a session that may not do this; None if it may."""
    if access is None or access.may_own:
        return None
    receipts: list[DocKey] = []
    by_rule = False
    for effect in effects:
        doc = effect.doc
        if doc.startswith(RECORDS):
            return _missing_right("own", doc)
        record = records.get(kind_of(doc))
        if record is not None and record.rules.rules:
            refused = _by_rules(record, effect, access)
            if refused is not None:
                return refused
            by_rule = True
        elif not access.may_write:
            if not (doc.startswith(RECEIPTS) and effect.before is ABSENT):
                return _missing_right("write", doc)
            receipts.append(doc)
    # That an event was handled is said only together with what was allowed because of it.
    return _missing_right("write", receipts[0]) if receipts and not by_rule else None


def _by_rules(record: CollectionRecord, effect: Effect, access: Access) -> Refused | None:
    before, after = effect.before, effect.after
    fields = None if before is ABSENT or after is ABSENT else changed_fields(before, after)
    why = record.rules.objection(access, before, after, fields)
    return Refused(f"{address_text(effect.doc)}: {why}", effect.doc, code=RuleError.code) if why else None


def _missing_right(right: str, doc: DocKey) -> Refused:
    reason = f"the right to {right} it is missing, for {address_text(doc)}; use a token that has it"
    return Refused(reason, doc, code=AccessError.code)
