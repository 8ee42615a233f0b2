"""Why a resource was requested, or is not: text for authors."""

from __future__ import annotations

from datetime import UTC, datetime

from headwater.declare.resources.resource_instance import FAILED, READY, ResourceInstance
from headwater.declare.resources.resource_port import ResourcePort
from headwater.values.duration import written_ms
from headwater.values.tree import Maybe, get


def why_requested(space: ResourcePort, source: ResourceInstance) -> str:
    """Its state, its request, and when it is requested next."""
    record = space.replica.read(source.doc)
    observed = "observed" if source.node.is_live else "not observed"
    times = "no request was" if not source.requests else f"{source.requests} requests were"
    times = "1 request was" if source.requests == 1 else times
    return "\n".join(
        [
            f"{source.label} is a resource, {observed}; {times} sent in this opening",
            _state_text(record),
            _request_text(space, source),
            _next_request_text(space, source, record),
        ]
    )


def _state_text(record: Maybe) -> str:
    match get(record, ("state",)):
        case "ready":
            return f"Its answer came at {_date(get(record, ('at',)))}"
        case "failed":
            last = get(record, ("at",))
            kept = f"; the last answer came at {_date(last)}" if isinstance(last, int) else ""
            return f"It failed at {_date(get(record, ('failed_at',)))}: {get(record, ('error', 'text'))!s}{kept}"
        case _:
            return "There is no answer yet"


def _request_text(space: ResourcePort, source: ResourceInstance) -> str:
    request = source.request
    if request is None and source.retry_at is not None:
        left = max(source.retry_at - space.timers.now(), 0.0)
        return f"It failed {source.failures} times in a row, and is retried in {written_ms(left)}"
    if request is None:
        return "No request is in progress"
    if request.is_stopped:
        return "A request in progress was cancelled: its answer is not needed any more"
    return "A request is in progress" if request.has_left else "A request waits for the disk, and is sent then"


def _next_request_text(space: ResourcePort, source: ResourceInstance, record: Maybe) -> str:
    if not source.is_wanted:
        return _next_call_text(space, source, record)
    if source.request is not None or source.retry_at is not None:
        return "Its readers run again when its result changes"
    due_at = source.due_at(record)
    is_there = get(record, ("state",)) in (READY, FAILED)
    if due_at is None or not is_there:
        return "It is requested again by refresh() only: it has no fresh_for"
    left = max(due_at - space.timers.wall(), 0.0)
    return f"It is requested again in {written_ms(left)}"


def _next_call_text(space: ResourcePort, source: ResourceInstance, record: Maybe) -> str:
    """Not observed: what the next call would do."""
    state, due_at = get(record, ("state",)), source.due_at(record)
    looking = "by a new observer, and by refresh()" if state == FAILED else "by refresh()"
    if due_at is None:
        return "It is requested again by refresh() only: it has no fresh_for"
    left = due_at - space.timers.wall()
    if state not in (READY, FAILED) or left <= 0:
        return "It is requested when it is observed or called, and by refresh()"
    return f"A call requests it again in {written_ms(left)}; before that it is requested only {looking}"


def _date(ms: Maybe) -> str:
    if not isinstance(ms, int | float):
        return "an unknown time"
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
