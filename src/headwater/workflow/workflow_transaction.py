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
"""One transition. It may be called more than once, if the disk has refused what it was part of."""


class WorkflowTransaction:
    """What a commit takes along."""

    def __init__(
        self,
        now: Callable[[], Millis],
        on_decided: Callable[[WorkflowTransaction], None],
        mark: Callable[[WorkflowTables], None] = lambda _: None,
    ) -> None:
        self._now = now
        # Told when it is decided; and before that, when it has been done but may yet come to nothing.
        self.on_decided = on_decided
        self._mark = mark
        self.steps: list[TransactionStep] = []
        # What each part came to.
        self.results: list[Any] = []
        self.tables: WorkflowTables | None = None
        # decided(): what became of it.
        self.is_decided = False
        self.error: HeadwaterError | None = None
        self.verdict: Verdict | None = None

    def apply(self, raw: Tables, look: Callable[[DocKey], Maybe]) -> Sequence[Operation]:
        """All parts, in order; then the status documents follow."""
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
        """It is on disk, or not. Told again after an interruption, it is no news."""
        if self.is_decided:
            return
        self.verdict = verdict
        self.error = error or self.error
        self.is_decided = True
        self.on_decided(self)

    @property
    def result(self) -> Any:  # noqa: ANN401  # whatever it is
        """What the last part came to."""
        return self.results[-1]

    @property
    def is_committed(self) -> bool:
        """It is on disk."""
        return type(self.verdict) is Committed
