"""The history of a store as its log has it: one state after the other, folded without the caches of the product."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from headwater.store.applying import apply_operation
from headwater.store.commit import CommitEntry
from headwater.store.document import read_entry
from headwater.store.engine import Engine
from headwater.values.ids import MAIN, BranchId
from headwater.values.tree import ABSENT, Maybe

SCOPE = "space/"
"""Documents of the space; those of a user or session have another scope."""


class Moment(msgspec.Struct):
    """One commit: the documents before and after, by their ids without the scope."""

    seq: int
    entry: CommitEntry
    before: dict[str, Any]
    after: dict[str, Any]


def moments(engine: Engine, branch: BranchId = MAIN) -> Iterator[Moment]:
    """All commits of a branch that no other was forked from, from the beginning of the log."""
    values: dict[str, Maybe] = {}
    after: dict[str, Any] = {}
    for row in engine.backend.log(engine.backend.horizon().seq, engine.head):
        entry = read_entry(row)
        if not isinstance(entry, CommitEntry) or entry.branch != branch:
            continue
        before = after
        after = dict(before)
        for operation in entry.operations:
            value, _ = apply_operation(values.get(operation.doc, ABSENT), operation)
            values[operation.doc] = value
            name = operation.doc.removeprefix(SCOPE)
            if value is ABSENT:
                after.pop(name, None)
            else:
                after[name] = value
        yield Moment(row.seq, entry, before, after)


def whole_log(engine: Engine) -> bool:
    """Whether the log begins at the beginning: compaction drops what is older than its horizon."""
    return not engine.backend.horizon().seq


def last_state(engine: Engine, branch: BranchId = MAIN) -> dict[str, Any]:
    """The documents after the last commit."""
    found: dict[str, Any] = {}
    for moment in moments(engine, branch):
        found = moment.after
    return found


Complain = Callable[[str, str], None]
"""Called with a rule and what breaks it."""
