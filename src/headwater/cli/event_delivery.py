"""Delivery of events by the process that has the space open, or by an app that the command opens."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from headwater.cli.app_loading import load_app, while_open
from headwater.cli.output import note
from headwater.cli.target import Target
from headwater.declare.events.ticket import rejected_error, reused_error
from headwater.errors import EventFailedError, EventRefusedError, EventTimeoutError, HeadwaterError, UserCodeError
from headwater.inspect.event_records import EventReport, RedeliverEvent, SendEvent
from headwater.inspect.inspector import Inspector
from headwater.inspect.live_inspector import LiveInspector
from headwater.inspect.names import InspectScope
from headwater.inspect.opening_inspection import OpeningInspection
from headwater.inspect.resolve import reach
from headwater.runtime.options import Options
from headwater.scheduler.events.receipts import REUSED
from headwater.values.duration import to_ms
from headwater.values.ids import BranchId

Delivery: TypeAlias = SendEvent | RedeliverEvent
Outcome: TypeAlias = EventReport | HeadwaterError
Report: TypeAlias = Callable[[Outcome], None]

_ID_SHOWN: Final = len("event:") + 12
"""Characters of an id that are unique in practice."""


def timeout_ms(timeout: str, *, no_wait: bool) -> float | None:
    """How long a delivery waits for the end of its event; None: not at all."""
    limit = to_ms(timeout, "--timeout")
    return None if no_wait else limit


def deliver(target: Target, commands: Sequence[Delivery], report: Report) -> None:
    """Carry out all of these, one after the other, and report each. Raises UsageError if no app can."""
    if target.module is None:
        with target.inspector() as inspector:
            for command in commands:
                report(_outcome(inspector, command) if inspector.is_live else inspector.do(command))
        return
    if target.server is not None:
        _open_and_deliver(target, commands, report)
        return
    # The scope finds the opening of this app only.
    scope = InspectScope(space=target.space or "", app=load_app(target.module).name, branch=target.branch)
    found = reach(target.url, target.space, lambda: _open_and_deliver(target, commands, report), scope)
    if found is not None:
        with found:
            for command in commands:
                report(_outcome(found, command))


def _outcome(inspector: Inspector, command: Delivery) -> Outcome:
    try:
        return inspector.do(command)
    except HeadwaterError as error:
        return error


def _open_and_deliver(target: Target, commands: Sequence[Delivery], report: Report) -> None:
    """Open the app in this process, and deliver there."""
    assert target.module is not None
    app = load_app(target.module)
    path = target.path if target.server is None else None
    is_new = path is not None and not path.exists()
    errors: list[UserCodeError] = []
    outcomes: list[Outcome] = []

    def work(window: OpeningInspection) -> None:
        inspector = LiveInspector([window], InspectScope(space=target.space or "", branch=target.branch))
        outcomes.extend(_outcome(inspector, command) for command in commands)

    options = Options(
        space=target.space,
        branch=BranchId(target.branch),
        create=path is not None,
        token=None if target.server is None else target.server.token,
        on_error=errors.append,
    )
    try:
        while_open(app, target.given_url, options, work)
    finally:
        # Report also if closing fails: the events are handled.
        for outcome in outcomes:
            report(outcome)
    if is_new:
        note(f"made {path}")
    ours = {each.event for each in outcomes if not isinstance(each, HeadwaterError)}
    for error in errors:
        if error.facts.get("event") not in ours:
            note(f"{type(error).__name__} {error}")


def failure_of(report: EventReport) -> HeadwaterError | None:
    """Why an event has no result; None if it has one."""
    handler, event, reason = report.handler, report.event, report.reason
    if report.result is not None:
        return None
    match report.state:
        case "failed":
            message = f"{handler} did not handle {event}: {reason}. Nothing of it was written; it is kept"
            return EventFailedError(f"{message}, see `headwater events show {event[:_ID_SHOWN]}`", event=event)
        case "rejected":
            return rejected_error(event, handler, reason, None if report.facts is None else json.loads(report.facts))
        case "refused" if reason == REUSED:
            return reused_error(event, handler)
        case "refused":
            return EventRefusedError(f"{event} was not handled by {handler}: {reason}", event=event)
        case state:
            message = f"{handler} has not handled {event} in time. It is {state}, and goes on"
            message += f": {reason}" if reason else ""
            return EventTimeoutError(message, event=event, state=state)
