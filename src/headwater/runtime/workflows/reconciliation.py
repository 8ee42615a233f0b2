"""Reconciles external calls with an unknown outcome: in the background, and after a restart."""

from __future__ import annotations

from collections.abc import Callable

from headwater.errors import TransitionError
from headwater.runtime.error_report import log
from headwater.runtime.workflows.external_calls import can_reconcile, settle
from headwater.runtime.workflows.hub import Hosted, Hub
from headwater.runtime.workflows.run_executor import Await, Performance
from headwater.runtime.workflows.timed_call import TimedCall
from headwater.values.ids import Millis
from headwater.workflow import transitions
from headwater.workflow.retry_policy import DEFAULT
from headwater.workflow.transitions import Begun, ReconcileCall
from headwater.workflow.workflow_limits import RECONCILE_MS, RECONCILE_TRIES


class ReconcileAttempt(Performance):
    """The call of `reconcile` for a run that has stopped."""

    def __init__(self, hub: Hub, hosted: Hosted, ask: ReconcileCall, awaiting: Await) -> None:
        state = hub.look(lambda tables: tables.handler(ask.run.flow, "consumer", ask.run.handler)).state
        super().__init__(hub, hosted, Begun(ask.flow, ask.run, state), awaiting)
        self.call = ask.call
        self.seconds["reconcile"] = min(self.seconds["reconcile"], RECONCILE_MS / 1000)

    def unanswered(self, why: str) -> None:
        """Store that there was no answer: `reconcile` is called again later; after the last time, a person is asked."""
        tries = self.call.tries + 1
        next_at = None if tries >= RECONCILE_TRIES else Millis(self.hub.now() + DEFAULT.delay_ms(tries))
        self.hub.do(lambda tables: transitions.still_uncertain(tables, self.run_id, why, tries, next_at))

    def _give_up(self, text: str) -> None:
        self.unanswered(text)


def ask_again(
    hub: Hub, hosted: Hosted, ask: ReconcileCall, awaiting: Await, watch: Callable[[TimedCall], None] = lambda _: None
) -> None:
    """Reconcile one call with an unknown outcome, in the background or after a restart."""
    try:
        _ask(hub, hosted, ask, awaiting, watch)
    except TransitionError as error:
        # A person has reported the outcome in the meantime.
        log.info("run %s: %s", ask.run.id, error.message)


def _ask(hub: Hub, hosted: Hosted, ask: ReconcileCall, awaiting: Await, watch: Callable[[TimedCall], None]) -> None:
    question = ReconcileAttempt(hub, hosted, ask, awaiting)
    if not can_reconcile(question.handler, ask.call):
        hub.do(
            lambda tables: transitions.still_uncertain(tables, ask.run.id, ask.call.error or "", ask.call.tries, None)
        )
        return
    watch(question)
    answer = question.reconcile()
    why = settle(hub, question.handler, ask.call, answer)
    if why is not None and not question.is_given_up:
        question.unanswered(why)
