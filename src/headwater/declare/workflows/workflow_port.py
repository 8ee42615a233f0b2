"""What workflows and topics use of an open space: the hub that stores their transitions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol, TypeVar

from headwater.cells.space_port import SpacePort
from headwater.cells.transaction import Transaction
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.workflow_spec import FlowSpec
from headwater.workflow.workflow_transaction import TransactionStep, WorkflowTransaction

T = TypeVar("T")


class DeployedWorkflow(Protocol):
    """A workflow that this process has deployed."""

    spec: FlowSpec


class HubPort(Protocol):
    """Stores the transitions of the workflows of one file."""

    @property
    def hosted(self) -> Mapping[str, DeployedWorkflow]:
        """The deployed workflows, by full name."""

    def post(self, *steps: TransactionStep, soon: bool = True) -> WorkflowTransaction:
        """Send a transaction of the tables, without waiting for the disk."""

    def do(self, step: Callable[[WorkflowTables], T]) -> T:
        """Write the tables. On disk at return. Raises what rejected it."""

    def look(self, question: Callable[[WorkflowTables], T]) -> T:
        """Query the tables."""

    def along(self, tx: Transaction) -> WorkflowTransaction:
        """The transaction of the tables that commits with a transaction."""

    def wait(self, timeout: float | None = None) -> None:
        """Block until all that was sent is on disk. Raises UnavailableError after the timeout."""

    def settled(self, transaction: WorkflowTransaction) -> Any:  # noqa: ANN401  # the result of its last step
        """The result of a decided transaction of the tables. Raises what rejected it."""

    def in_thread(self, work: Callable[[], T]) -> Coroutine[Any, Any, T]:
        """Run blocking work beside the event loop."""

    def user(self) -> str:
        """The user of this process, for decisions without a name."""


class WorkflowPort(SpacePort):
    """An open space, as workflows and topics see it."""

    is_main: bool
    """It is open on the main branch: only there are workflows."""

    @property
    @abstractmethod
    def flows(self) -> HubPort:
        """The workflows of the file of this space. Raises UsageError on other branches."""
