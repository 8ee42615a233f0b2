"""The effect of an operation on a document."""

from __future__ import annotations

from headwater.store.commit import Operation, PatchDoc, SetDoc
from headwater.store.conflict import EVERYTHING
from headwater.values.patch import Touch, Touches
from headwater.values.patching import apply_patch
from headwater.values.tree import ABSENT, Maybe, same


def apply_operation(before: Maybe, operation: Operation) -> tuple[Maybe, Touches]:
    """The document after an operation, and the touches. Raises AddressError if a patch does not fit."""
    kind = type(operation)
    if kind is PatchDoc:
        ops = operation.ops  # type: ignore[union-attr]
        if len(ops) == 1:
            return apply_patch(before, ops[0])
        after = before
        touches: list[Touch] = []
        for op in ops:
            after, touched = apply_patch(after, op)
            touches += touched
        return after, tuple(touches)
    after = operation.value if kind is SetDoc else ABSENT  # type: ignore[union-attr]
    return (before, ()) if same(before, after) else (after, EVERYTHING)
