"""The actions of people on a workflow and its runs: the methods of `Workflow`, and of inspecting commands."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial

from headwater.declare.workflows.plan import Answer, Applied, NotApplied, Skipped, Unknown
from headwater.declare.workflows.workflow_port import HubPort
from headwater.errors import TransitionError, UsageError
from headwater.values.codec import encode
from headwater.values.tree import freeze
from headwater.workflow import operator_actions, run_queries
from headwater.workflow.decisions import DecidedBy, record
from headwater.workflow.rows import CallRow, RunRow
from headwater.workflow.run_queries import InputView, RunView
from headwater.workflow.tables import WorkflowTables


class Controls(ABC):
    """Pauses workflows, decides about runs, and lists them. Each change is on disk at return, or raises why not."""

    @abstractmethod
    def _target(self) -> tuple[HubPort, str]:
        """The hub where it is deployed, and its full name."""

    def pause(self) -> None:
        """Pause: start no more runs. A run in progress stops before its effect.

        Raises:
            NotOpen: HW001. The app has no open space here.
            TransitionError: HW507. The workflow is paused or archived already.
        """
        hub, name = self._target()
        hub.do(lambda tables: operator_actions.pause(tables, name))

    def resume(self) -> None:
        """Resume a paused workflow: the obstacle is fixed.

        Raises:
            NotOpen: HW001. The app has no open space here.
            TransitionError: HW507. The workflow is not paused, or a run of it waits for a person.
        """
        hub, name = self._target()
        hub.do(lambda tables: operator_actions.resume(tables, name))

    def now(self) -> None:
        """Run every producer now.

        Raises:
            NotOpen: HW001. The app has no open space here.
            TransitionError: HW507. A run is in progress or waits for a person, or the workflow is paused.
        """
        hub, name = self._target()
        hub.do(lambda tables: operator_actions.run_now(tables, name))

    def archive(self) -> None:
        """Deactivate a paused workflow, and keep all of its data.

        Raises:
            NotOpen: HW001. The app has no open space here.
            TransitionError: HW507. The workflow is not paused.
        """
        hub, name = self._target()
        hub.do(lambda tables: operator_actions.archive(tables, name))

    def restore(self) -> None:
        """Restore an archived workflow. It is paused then.

        Raises:
            NotOpen: HW001. The app has no open space here.
            TransitionError: HW507. The workflow is not archived.
        """
        hub, name = self._target()
        hub.do(lambda tables: operator_actions.restore(tables, name))

    # -- runs ----------------------------------------------------------------------------------------------

    # Each records who decided it, and why: `by`, else the actor of the open space, else the user of this process.

    def approve(self, run: int, *, by: str = "", reason: str = "") -> None:
        """Accept the plan of a run, or confirm that a missing approval was granted.

        Args:
            run: The number of the run.
            by: Who decides, for the record.
            reason: Why, for the record.

        Raises:
            NotFoundError: HW106. There is no such run.
            TransitionError: HW507. The run does not wait for an approval.
        """
        self._decide("approve", run, operator_actions.approve, by, reason)

    def reject(self, run: int, *, by: str = "", reason: str = "") -> None:
        """Decline the plan of a run: it is not done, and its events are skipped.

        Args:
            run: The number of the run.
            by: Who decides, for the record.
            reason: Why, for the record.

        Raises:
            NotFoundError: HW106. There is no such run.
            TransitionError: HW507. The run does not wait for an approval.
        """
        self._decide("reject", run, operator_actions.reject, by, reason)

    def retry(self, run: int, *, by: str = "", reason: str = "") -> None:
        """Retry a failed or set-aside run now.

        Args:
            run: The number of the run.
            by: Who decides, for the record.
            reason: Why, for the record.

        Raises:
            NotFoundError: HW106. There is no such run.
            TransitionError: HW507. The run has not failed.
        """
        self._decide("retry", run, operator_actions.retry, by, reason)

    def cancel(self, run: int, *, by: str = "", reason: str = "") -> None:
        """Cancel a run before its effect: it does not act, and its events are skipped.

        Args:
            run: The number of the run.
            by: Who decides, for the record.
            reason: Why, for the record.

        Raises:
            NotFoundError: HW106. There is no such run.
            TransitionError: HW507. The run has acted already, or has ended.
        """
        self._decide("cancel", run, operator_actions.cancel, by, reason)

    def abandon(self, run: int, *, by: str = "", reason: str = "") -> None:
        """Give up a run after its effect: `next` is not called any more, and other events go on.

        The plan and the result of the call are stored. The events are set aside with them; `retry` continues the run.

        Args:
            run: The number of the run.
            by: Who decides, for the record.
            reason: Why, for the record.

        Raises:
            NotFoundError: HW106. There is no such run.
            TransitionError: HW507. The run has not acted yet, or has ended.
        """
        self._decide("abandon", run, operator_actions.abandon, by, reason)

    def _decide(self, verb: str, run: int, part: Callable[[WorkflowTables, int], object], by: str, reason: str) -> None:
        hub, _ = self._target()
        who = DecidedBy(self._actor(by), reason)

        def both(tables: WorkflowTables) -> object:
            done = part(self._own(tables, run), run)
            record(tables, run, verb, who)
            return done

        hub.do(both)

    def _actor(self, by: str) -> str:
        return by or self._target()[0].user()

    def reconcile(self, run: int, answer: Answer[object] | Skipped, *, by: str = "", reason: str = "") -> None:
        """Record the outcome of a call that is unknown.

        Args:
            run: The number of the run.
            answer: `hw.Applied(result)`, `hw.NotApplied()` or `hw.Skipped()`. With `hw.Unknown()`, `reconcile` is
                called again.
            by: Who decides, for the record.
            reason: Why, for the record.

        Raises:
            NotFoundError: HW106. There is no such run.
            TransitionError: HW507. The outcome of the run is known.
            UsageError: HW100. The answer is none of these.
        """
        hub, _ = self._target()

        given: object = answer
        if not isinstance(given, Applied | NotApplied | Skipped | Unknown):
            message = f"the outcome of run {run} is hw.Applied(result), hw.NotApplied(), hw.Skipped() or hw.Unknown()"
            raise UsageError(f"{message}, not {answer!r}", run=run)

        # Here, in the context of the opening; and not for a run of another workflow.
        kept = b""
        if isinstance(answer, Applied):
            row, call = hub.look(lambda tables: self._run_and_call(tables, run))
            kept = self._stored_result(row, call, answer.result)

        match answer:
            case Applied():
                self._decide("applied", run, partial(operator_actions.reconcile_applied, result=kept), by, reason)
            case NotApplied():
                self._decide("not_applied", run, operator_actions.reconcile_not_applied, by, reason)
            case Skipped():
                self._decide("skip", run, operator_actions.reconcile_skip, by, reason)
            case Unknown():
                self._decide("again", run, operator_actions.reconcile_again, by, reason)

    def _run_and_call(self, tables: WorkflowTables, run: int) -> tuple[RunRow, CallRow | None]:
        row = self._own(tables, run).run(run)
        return row, tables.call_of(row)

    def _stored_result(self, run: RunRow, call: CallRow | None, result: object) -> bytes:  # noqa: ARG002  # for overrides
        """The stored form of a result. An override knows its type."""
        return encode(freeze(result, f"the result of run {run.id}"))

    def _own(self, tables: WorkflowTables, run: int) -> WorkflowTables:
        """Check that a run belongs to this workflow. Raises TransitionError."""
        given: object = run
        if type(given) is not int:
            raise UsageError(f"{given!r} is no run; its number is expected, as flow.runs() has it: run.id", run=run)
        _, name = self._target()
        owner = tables.flow(tables.run(run).flow).name
        if name and owner != name:
            raise TransitionError(f"run {run} is not one of {name}, but of {owner}: decide about it there", run=run)
        return tables

    def _own_input(self, tables: WorkflowTables, input_id: int) -> WorkflowTables:
        """Check that an input belongs to this workflow. Raises TransitionError."""
        given: object = input_id
        if type(given) is not int:
            raise UsageError(f"{given!r} is no input; its number is expected, as flow.inputs() has it: input.id")
        _, name = self._target()
        owner = tables.flow(operator_actions.find_input(tables, input_id).flow).name
        if name and owner != name:
            message = f"input {input_id} is not one of {name}, but of {owner}: decide about it there"
            raise TransitionError(message, input=input_id)
        return tables

    # -- inputs --------------------------------------------------------------------------------------------

    def skip(self, input_id: int) -> int:
        """Skip the events that wait because of an input.

        Args:
            input_id: The number of the input.

        Returns:
            The number of skipped events.

        Raises:
            NotFoundError: HW106. There is no such input.
        """
        hub, _ = self._target()
        return hub.do(lambda tables: operator_actions.skip_input(self._own_input(tables, input_id), input_id))

    def reprocess(self, input_id: int | None = None) -> int:
        """Queue parked events again.

        Args:
            input_id: The number of an input. By default, the events of all inputs.

        Returns:
            The number of queued events.

        Raises:
            NotFoundError: HW106. There is no such input.
            TransitionError: HW507. Nothing is parked.
        """
        hub, name = self._target()
        if input_id is None:
            return hub.do(lambda tables: operator_actions.reprocess(tables, name))
        return hub.do(lambda tables: operator_actions.reprocess(self._own_input(tables, input_id), name, input_id))

    # -- looking -------------------------------------------------------------------------------------------

    def runs(self, limit: int = 50, *, waiting: bool = False) -> list[RunView]:
        """The newest runs, newest first.

        Args:
            limit: How many at most.
            waiting: Whether only runs are returned that wait for a person.

        Returns:
            The runs.

        Raises:
            NotOpen: HW001. The app has no open space here.
        """
        hub, name = self._target()
        return hub.look(lambda tables: run_queries.runs(tables, name, limit=limit, waiting=waiting))

    def inputs(self, limit: int = 50) -> list[InputView]:
        """The newest inputs, newest first.

        Args:
            limit: How many at most.

        Returns:
            The inputs.

        Raises:
            NotOpen: HW001. The app has no open space here.
        """
        hub, name = self._target()
        return hub.look(lambda tables: run_queries.inputs(tables, name, limit=limit))
