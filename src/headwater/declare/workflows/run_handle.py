"""The run that handlers are called in: its facts, and the operations that its phase allows.

The phase matrix is enforced here: reads belong to producers and `prepare`, the one mutation to `mutate`, publishing to
producers and `next`. A violation ends the run, whatever the author's code catches.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any, Final, ParamSpec, TypeVar, cast

from headwater.declare.workflows.connector import Connector, Operation
from headwater.declare.workflows.current_run import HandlerPhase
from headwater.declare.workflows.failure_classes import failure_kind
from headwater.errors import PhaseError
from headwater.workflow.rows import FailureKind, FlowRow, RunRow
from headwater.workflow.run_rows import key_of

P = ParamSpec("P")
R = TypeVar("R")


PHASES: Final[dict[HandlerPhase | None, str]] = {
    HandlerPhase.PRODUCE: "produce",
    HandlerPhase.PREPARE: "prepare",
    HandlerPhase.MUTATE: "mutate",
    HandlerPhase.RECONCILE: "reconcile",
    HandlerPhase.NEXT: "next",
}
"""As authors name them, in `timeout=`."""


class MutationRequested(BaseException):  # no error: mutate has named its call, and ends with it
    """Leaves `mutate` with its one call, past every `except` of the author."""


class Run:
    """One attempt of a run, as its handlers see it."""

    def __init__(
        self,
        flow: FlowRow,
        row: RunRow,
        uses: tuple[Connector, ...],
        on: tuple[type[BaseException], ...] = (),
        *,
        warn: Callable[[str], object],
    ) -> None:
        self.id: int = row.id
        self.workflow: str = flow.name
        self.handler: str = row.handler
        self.attempt: int = row.attempt
        """1, and one more for each run of its chain."""
        self.why: str = str(row.why)
        """What started it: event, wake, schedule, manual, retry, recovery, ..."""
        self.version: int = row.version
        self.title: str = row.title
        self._flow = flow
        self._call = row.call
        self._uses = uses
        self._on = on
        self._warn = warn
        self.doing: HandlerPhase | None = None
        # A violation of the phases: the run ends with it, whatever its code has caught.
        self.violation: PhaseError | None = None
        # A failed read of this phase, unless it is a logic error: the run ends with it, too.
        self.failed: BaseException | None = None
        # The one mutation that `mutate` has named. It is called when `mutate` has ended.
        self.mutation_call: tuple[Operation[..., Any], tuple[object, ...], dict[str, object]] | None = None

    @property
    def key(self) -> str:
        """The idempotency key of the effect. Pass it to the service that is called."""
        # Of the run of the chain that has made the call, if it is another.
        return key_of(self._flow, self._call)

    def call(self, operation: Operation[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call an operation of a connector. A mutation ends `mutate`: no line after it is executed.

        Args:
            operation: The operation, declared with `@connector.read` or `@connector.mutation`.
            args: Its arguments.
            kwargs: Its arguments by name.

        Returns:
            The result of a read.

        Raises:
            PhaseError: HW503. The phase does not allow this operation.
        """
        self._check(operation)
        if not operation.mutates:
            return self.read(operation, *args, **kwargs)
        self.mutation_call = (operation, args, kwargs)
        raise MutationRequested

    def read(self, operation: Operation[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a read of a connector.

        If the service fails or needs a sign-in, the run ends, even if the code catches the error.

        Args:
            operation: The read, declared with `@connector.read`.
            args: Its arguments.
            kwargs: Its arguments by name.

        Returns:
            The result of the read.

        Raises:
            PhaseError: HW503. The operation is a mutation.
        """
        if iscoroutinefunction(operation.fn):
            reading: Any = self._awaited(operation, *args, **kwargs)
            # For the warning that it was never awaited.
            reading.__qualname__ = operation.name
            return cast("R", reading)
        try:
            return operation.fn(*args, **kwargs)
        except BaseException as error:
            self._read_failed(error)
            raise

    async def _awaited(self, operation: Operation[P, Any], *args: P.args, **kwargs: P.kwargs) -> object:
        try:
            return await operation.fn(*args, **kwargs)
        except BaseException as error:
            self._read_failed(error)
            raise

    def _read_failed(self, error: BaseException) -> None:
        if isinstance(error, Exception) and failure_kind(error, self._on) is not FailureKind.LOGIC:
            self.failed = self.failed or error

    def _check(self, operation: Operation[P, R]) -> None:
        if not isinstance(cast("object", operation), Operation):
            raise self.violated(
                f"run.call takes an operation of a connector, not {operation!r}; declare it with @connector.read or "
                "@connector.mutation"
            )
        if operation.connector not in self._uses:
            name = operation.connector.name
            raise self.violated(
                f"{self.handler} calls {operation.name}() and does not say that it uses {name}: declare uses={name}"
            )
        allowed = (
            (HandlerPhase.MUTATE,)
            if operation.mutates
            else (HandlerPhase.PRODUCE, HandlerPhase.PREPARE, HandlerPhase.RECONCILE)
        )
        if self.doing not in allowed:
            kind = "a mutation" if operation.mutates else "a read"
            where = " or ".join(allowed)
            raise self.violated(
                f"{operation.name}() is {kind} and cannot be called in {self.doing or 'no phase'}; call it in {where}"
            )
        # W4: one call in a run.
        if operation.mutates and self.mutation_call is not None:
            raise self.violated(f"{self.handler} has asked for its one mutation; {operation.name}() would be a second")

    def check_direct(self, operation: Operation[P, R]) -> None:
        """Check a plain call of an operation. A mutation that was not recorded first is a violation.

        Allowed is the one effect of a class that acts itself, and a part of the mutation that was named.
        """
        acts_itself = not any(connector.mutates for connector in self._uses)
        if operation.mutates and not (
            self.doing is HandlerPhase.MUTATE and (acts_itself or self.mutation_call is not None)
        ):
            short = operation.name.rpartition(".")[2]
            raise self.violated(
                f"{operation.name}() is a mutation, and {self.handler} calls it directly in {self.doing or 'no phase'}"
                f"; write run.call({short}, ...) in mutate"
            )

    def keeps_state(self, whose: str) -> bool:
        """Whether a state that is assigned now is stored. Raises PhaseError where nothing has happened yet."""
        if self.doing in (None, HandlerPhase.NEXT):
            return True
        message = f"{whose} assigns its state in {self.doing}, where it is not kept: assign it in next"
        if self.doing is HandlerPhase.PREPARE:
            raise self.violated(message)
        # Something may have happened outside: the run continues.
        self._warn(f"run {self.id}: {message}")
        return False

    def violated(self, message: str) -> PhaseError:
        """Record a violation of the phases, and return it."""
        self.violation = self.violation or PhaseError(message, run=self.id)
        return self.violation

    def __repr__(self) -> str:
        return f"<Run {self.id} of {self.workflow}.{self.handler}, attempt {self.attempt}>"
