"""A list of transitions that commit together, and their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from headwater.errors import HeadwaterError
from headwater.store.commit import Committed, Operation, Tables, Verdict
from headwater.values.ids import DocKey, Millis
from headwater.values.tree import Maybe
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.wording import status_document

TransactionStep: TypeAlias = Callable[[WorkflowTables], Any]
"""One transition. It is called again if the transaction is repeated."""


class WorkflowTransaction:
    """Transitions of workflows, applied in one database transaction."""

    def __init__(
        self,
        now: Callable[[], Millis],
        on_decided: Callable[[WorkflowTransaction], None],
        mark: Callable[[WorkflowTables], None] = lambda _: None,
    ) -> None:
        self._now = now
        # `on_decided` is called with the decision; `mark` before it, after the steps were applied.
        self.on_decided = on_decided
        self._mark = mark
        self.steps: list[TransactionStep] = []
        # The result of each step.
        self.results: list[Any] = []
        self.tables: WorkflowTables | None = None
        # decided(): the decision.
        self.is_decided = False
        self.error: HeadwaterError | None = None
        self.verdict: Verdict | None = None

    def apply(self, raw: Tables, look: Callable[[DocKey], Maybe]) -> Sequence[Operation]:
        """Apply all steps in order, then update the status documents."""
        tables = self.tables = WorkflowTables(raw, self._now(), look)
        try:
            self.results = [step(tables) for step in list(self.steps)]
        except HeadwaterError as error:
            self.error = error
            raise
        self.error = None
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
        self.error = error or self.error
        self.is_decided = True
        self.on_decided(self)

    @property
    def result(self) -> Any:  # noqa: ANN401  # whatever it is
        """The result of the last step."""
        return self.results[-1]

    @property
    def is_committed(self) -> bool:
        """It is on disk."""
        return type(self.verdict) is Committed
