"""How a run ends before its commit: failures, and phases that take too long.

Failures are classified here, where they happen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from headwater.declare.workflows.current_run import HandlerPhase
from headwater.declare.workflows.failure_classes import classify
from headwater.declare.workflows.handler_specs import ConsumerDeclaration, Producer
from headwater.declare.workflows.run_handle import PHASES, Run
from headwater.errors import TransitionError, UserCodeError
from headwater.machine import machine
from headwater.runtime.error_report import log
from headwater.runtime.workflows.external_calls import can_reconcile
from headwater.runtime.workflows.hub import Hosted
from headwater.runtime.workflows.run_values import Values
from headwater.runtime.workflows.timed_call import TimedCall
from headwater.values.ids import Millis
from headwater.workflow import transitions
from headwater.workflow.retry_policy import DEFAULT
from headwater.workflow.rows import EffectOutcome, FailureKind, RunStatus
from headwater.workflow.run_recovery import recover
from headwater.workflow.transitions import RunFailure

T = TypeVar("T")


class Ending(Values, TimedCall):
    """An active run, and the ways in which it can end before its commit."""

    hosted: Hosted
    handler: ConsumerDeclaration | Producer
    run: Run
    # `next` is running.
    is_emitting: bool = False
    doing: HandlerPhase | None = None
    # How long each phase may take.
    seconds: dict[str, float]

    def _named(self) -> str:
        return f"{self.row.handler}.{self.doing}" if self.row.kind == "consumer" else f"{self.row.handler}()"

    def _title(self) -> str:
        return f"{self.hosted.spec.name}.{self.row.handler}"

    # -- what goes wrong -----------------------------------------------------------------------------------

    def _do(self, part: Callable[[Any], T]) -> T:
        return self.hub.do(part)

    def _check_violation(self) -> None:
        """End the run after a violation of the phases or a failed read, even if the handler caught the error."""
        if self.run.violation is not None:
            raise self.run.violation
        if self.run.failed is not None:
            raise self.run.failed

    def _failed(self, error: BaseException) -> None:
        self._fail(self._classified(error))

    def _fail(self, why: RunFailure, *, undone: str = "") -> None:
        run_id = self.row.id
        try:
            self._end(why, undone=undone)
        except TransitionError as error:
            # The run was ended by a person or a timeout. Otherwise it must not stay active.
            log.info("run %s: %s", run_id, error.message)
            self._do(lambda tables: recover(tables, run_id))
            return
        self._report(why)

    def _end(self, why: RunFailure, *, undone: str = "") -> None:
        """End the run. Raises TransitionError if it is not at a position where it can end so."""
        retry, spec, run_id, emitting = self.handler.retry, self.hosted.spec, self.row.id, self.is_emitting
        chance = machine().random()
        self._do(
            lambda tables: transitions.failed(
                tables, run_id, why, spec, retry, chance, undone=undone, emitting=emitting
            )
        )

    def _report(self, why: RunFailure) -> None:
        text = f"run {self.row.id} of {self._title()} failed: {why.message}"
        if why.kind in (FailureKind.LOGIC, FailureKind.INTERNAL):
            self.space.report(
                UserCodeError(text, run=self.row.id, workflow=self.hosted.spec.name, event=None, triggers=())
            )
        elif why.kind is not FailureKind.STOPPED:
            log.warning("%s", text)

    def _classified(self, error: BaseException) -> RunFailure:
        """The class of a failure, by the type of the error, never by its text."""
        return classify(error, self.handler.retry.on, self.hub.now())

    # -- being late ----------------------------------------------------------------------------------------

    @property
    def acts(self) -> bool:
        """The call may be having its effect right now."""
        return self.doing is HandlerPhase.MUTATE

    def give_up(self) -> None:
        """End a run that is late. A later result of its call is still stored as the outcome of the call.

        If the call has returned in the meantime, the run continues. Raises TransitionError.
        """
        with self.turn:
            if not self.is_late(machine().monotonic()):
                raise TransitionError(f"{self._title()} has come back in the last moment, and goes on")
            text = f"{self._named()} took longer than {self.seconds.get(PHASES.get(self.doing, ''), 0):g} s"
            try:
                self._give_up(text)
            except TransitionError:
                # A person has ended the run: then only its thread is given up.
                if self.hub.look(lambda tables: tables.run(self.row.id).status) == RunStatus.ACTIVE:
                    raise
            self.is_given_up = True

    def _give_up(self, text: str) -> None:
        run_id = self.row.id
        if self.doing is HandlerPhase.MUTATE and self.row.outcome == EffectOutcome.UNKNOWN:
            can_ask = can_reconcile(self.handler, self._call_row())
            self._do(
                lambda tables: (
                    transitions.hung(tables, run_id, text)
                    if can_ask
                    else transitions.uncertain(tables, run_id, text, None)
                )
            )
        elif self.doing is HandlerPhase.RECONCILE:
            # It only reads: it is called again in the background, even while this call has not returned.
            next_at = Millis(self.hub.now() + DEFAULT.delay_ms(1))
            self._do(lambda tables: transitions.uncertain(tables, run_id, text, next_at))
        else:
            why = RunFailure(kind=FailureKind.TRANSIENT, message=text)
            self._end(why)
            self._report(why)
