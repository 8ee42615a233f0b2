"""A list of transitions that commit together, and their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from headwater.errors import HeadwaterError
from headwater.store.commit import Committed, Operation, Tables, Verdict
from headwater.values.ids import DocKey, Millis
from headwater.values.tree import Maybe
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.wording import status_document

TransactionStep: TypeAlias = Callable[[WorkflowTables], Any]
"""One transition. It is called again if the transaction is repeated."""

FIRST_STEP: Final = 1
"""The number of the first step."""


class WorkflowTransaction:
    """Transitions of workflows, applied in one database transaction."""

    def __init__(
        self,
        now: Callable[[], Millis],
        on_decided: Callable[[WorkflowTransaction], None],
        mark: Callable[[WorkflowTables], None] = lambda _: None,
        *steps: TransactionStep,
    ) -> None:
        self._now = now
        # `on_decided` is called with the decision; `mark` before it, after the steps have published events.
        self._on_decided = on_decided
        self._mark = mark
        # The steps and their results, by number. A decided transaction keeps the results only: a step holds a payload.
        self.steps: dict[int, TransactionStep] = dict(enumerate(steps, FIRST_STEP))
        self.results: dict[int, Any] = {}
        self._next = FIRST_STEP + len(steps)
        self.tables: WorkflowTables | None = None
        # decided(): the decision.
        self.is_decided = False
        self.is_committed = False
        """It is on disk."""
        self.error: HeadwaterError | None = None
        self.verdict: Verdict | None = None
        # Set by a caller that waits for the decision. Called last, when all others know it.
        self.when_decided: Callable[[], None] | None = None

    def add(self, step: TransactionStep) -> int:
        """Append a step. Returns its number."""
        number, self._next = self._next, self._next + 1
        self.steps[number] = step
        return number

    def drop(self, number: int) -> None:
        """Remove a step: its savepoint was rolled back, or another transaction does it. Idempotent."""
        self.steps.pop(number, None)

    def apply(self, raw: Tables, look: Callable[[DocKey], Maybe]) -> Sequence[Operation]:
        """Apply all steps in order, then update the status documents."""
        if not self.steps:
            # All of them were dropped, also if they were applied before a repetition.
            self.tables, self.results, self.error = None, {}, None
            return ()
        tables = self.tables = WorkflowTables(raw, self._now(), look)
        results: dict[int, Any] = {}
        try:
            for number, step in list(self.steps.items()):
                results[number] = step(tables)
        except HeadwaterError as error:
            self.error = error
            raise
        self.results, self.error = results, None
        if tables.published:
            self._mark(tables)
        operations: list[Operation] = []
        for flow in tables.touched:
            operations += status_document.operations(tables, flow)
        return operations

    def decided(self, verdict: Verdict | None, error: HeadwaterError | None) -> None:
        """Record the decision. Idempotent: it may be reported again after an interruption."""
        if self.is_decided:
            return
        self.verdict = verdict
        self.is_committed = type(verdict) is Committed
        self.error = error or self.error
        self.is_decided = True
        self._on_decided(self)
        self.steps, self.tables = {}, None
        if self.when_decided is not None:
            self.when_decided()

    @property
    def result(self) -> Any:  # noqa: ANN401  # whatever it is
        """The result of the last step."""
        return next(reversed(self.results.values()))

    def last(self, count: int) -> list[Any]:
        """The results of the last steps."""
        return list(self.results.values())[-count:]
