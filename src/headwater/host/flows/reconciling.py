"""Asking what became of a call that nobody knows of: in the background, and after a restart.

Must never know: what else a run does.
"""

from __future__ import annotations

from headwater.errors import HeadwaterError, TransitionError
from headwater.host.flows.calls import answered_bytes, can_reconcile
from headwater.host.flows.hub import Hosted, Hub
from headwater.host.flows.performing import Await, Performance
from headwater.host.flows.plan import Applied, NotApplied, Unknown
from headwater.host.report import log
from headwater.values.ids import Millis
from headwater.workflow import transitions
from headwater.workflow.limits import RECONCILE_MS, RECONCILE_TRIES
from headwater.workflow.policy import DEFAULT
from headwater.workflow.transitions import Ask, Begun


def ask_again(hub: Hub, hosted: Hosted, ask: Ask, awaiting: Await) -> None:
    """In the background, or after a restart: what became of a call that nobody knows of."""
    try:
        _ask(hub, hosted, ask, awaiting)
    except TransitionError as error:
        # A person has said it meanwhile.
        log.info("run %s: %s", ask.run.id, error.message)


def _ask(hub: Hub, hosted: Hosted, ask: Ask, awaiting: Await) -> None:
    begun = Begun(ask.flow, ask.run, hub.look(lambda b: b.handler(ask.run.flow, "consumer", ask.run.handler)).state)
    performance = Performance(hub, hosted, begun, awaiting)
    handler, run_id = performance.handler, ask.run.id
    if not can_reconcile(handler, ask.call):
        hub.do(lambda book: transitions.still_uncertain(book, run_id, ask.call.error or "", ask.call.tries, None))
        return
    performance.handler.timeouts.seconds["reconcile"] = min(
        performance.handler.timeouts.seconds["reconcile"], RECONCILE_MS / 1000
    )
    answer = performance.reconcile()
    told = getattr(answer, "reason", "") or "it cannot tell yet"
    if isinstance(answer, Applied):
        try:
            kept = answered_bytes(handler, ask.call, answer.result)
        except HeadwaterError as misfit:
            answer, told = Unknown(misfit.message), misfit.message
        else:
            hub.do(lambda book: transitions.applied(book, run_id, kept, "reconciliation"))
            return
    if isinstance(answer, NotApplied):
        hub.do(lambda book: transitions.not_applied(book, run_id, told, "reconciliation"))
        return
    tries = ask.call.tries + 1
    next_at = None if tries >= RECONCILE_TRIES else Millis(hub.now() + DEFAULT.delay_ms(tries))
    hub.do(lambda book: transitions.still_uncertain(book, run_id, told, tries, next_at))
