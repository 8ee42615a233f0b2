"""The Events and Pieces screens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headwater.errors import HeadwaterError
from headwater.inspect.declared_records import ListHandlers, ListResources
from headwater.inspect.document_records import MISSING
from headwater.inspect.event_records import EventReport, ListEvents, ListPieces, ShowEvent
from headwater.inspect.function_records import GetActivity
from headwater.inspect.inspector import Inspector
from headwater.studio import answers, questions
from headwater.studio.limits import PAGE_MAX
from headwater.studio.value_texts import first_line, optional_text, value_text

_VALUE_BYTES: Final = 2048
"""Bytes of a value in a list."""


def _listed(inspector: Inspector, state: str) -> tuple[EventReport, ...]:
    return inspector.ask(ListEvents(waiting=state == "waiting", outgoing=state == "outgoing"))


def handler_of(event: EventReport) -> str:
    """The name of its handler."""
    return event.handler.removesuffix("()") or event.stream


def events(inspector: Inspector, question: questions.Events) -> answers.EventsPage:
    """One page of events, newest first, and the groups of all."""
    counts: dict[str, int] = {}
    found: tuple[EventReport, ...] = ()
    for state in ("failed", "waiting", "outgoing"):
        listed = _listed(inspector, state)
        counts[state] = len(listed)
        if state == question.state:
            found = listed
    chosen = [
        event
        for event in sorted(found, key=lambda event: (-event.at_ms, event.event))
        if (not question.handler or handler_of(event) == question.handler)
        and (not question.reason or first_line(event.reason) == question.reason)
    ]
    ids = [event.event for event in chosen]
    start = ids.index(question.after) + 1 if question.after in ids else 0
    page = chosen[start : start + max(1, min(question.limit, PAGE_MAX))]
    more = start + len(page) < len(chosen)
    return answers.EventsPage(
        groups=groups(found),
        events=tuple(page),
        total=len(chosen),
        next=page[-1].event if more and page else "",
        counts=counts,
    )


def groups(events: Sequence[EventReport]) -> tuple[answers.EventGroup, ...]:
    """Events of one handler with the same reason, the most numerous first."""
    found: dict[tuple[str, str], list[EventReport]] = {}
    for event in events:
        found.setdefault((handler_of(event), first_line(event.reason)), []).append(event)
    rows = [
        answers.EventGroup(
            handler=handler, reason=reason, count=len(members), newest_ms=max(each.at_ms for each in members)
        )
        for (handler, reason), members in found.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.count, row.handler, row.reason)))


def event(inspector: Inspector, question: questions.EventQuestion) -> answers.EventAnswer:
    """One event. Raises NotFoundError."""
    found = inspector.ask(ShowEvent(event=question.event))
    failed = found.state == "failed"
    is_live = inspector.is_live
    why_not = "" if is_live else "no program has the space open, so nothing can be delivered"
    if not failed and found.state != "undelivered":
        why_not = f"it is {found.state}: only a failed event is delivered again"
    return answers.EventAnswer(
        event=found, may_redeliver=not why_not, may_drop=found.state in ("failed", "waiting"), why_not=why_not
    )


def handlers(inspector: Inspector, _question: questions.Handlers) -> answers.HandlersView:
    """The handlers of all openings; of a closed file their names."""
    rows = [
        answers.HandlerLine(
            name=each.handler,
            app=each.app,
            known=True,
            parameters=tuple(
                answers.Parameter(
                    name=parameter.name,
                    type=parameter.type,
                    default=None if parameter.default is MISSING else value_text(parameter.default).text,
                )
                for parameter in each.parameters
            ),
        )
        for each in inspector.ask(ListHandlers())
    ]
    if not rows:
        rows = _stored_handlers(inspector)
    return answers.HandlersView(handlers=tuple(sorted(rows, key=lambda row: (row.app, row.name))))


def _stored_handlers(inspector: Inspector) -> list[answers.HandlerLine]:
    try:
        views = inspector.ask(GetActivity())
    except HeadwaterError:
        return []
    return [
        answers.HandlerLine(name=each.name, app=view.label, parameters=(), known=False)
        for view in views
        for each in view.activities
        if each.kind == "handler"
    ]


def pieces(inspector: Inspector, question: questions.PiecesQuestion) -> answers.PiecesAnswer:
    """One page of pieces, by pattern and key."""
    found = inspector.ask(ListPieces(pattern=question.pattern)).pieces
    patterns: dict[str, int] = {}
    for piece in found:
        patterns[piece.pattern] = patterns.get(piece.pattern, 0) + 1
    start = max(question.after, 0)
    page = found[start : start + max(1, min(question.limit, PAGE_MAX))]
    end = start + len(page)
    return answers.PiecesAnswer(pieces=page, patterns=patterns, total=len(found), next=end if end < len(found) else 0)


def resources(inspector: Inspector, question: questions.Resources) -> answers.ResourcesPage:
    """One page of resources."""
    found = sorted(inspector.ask(ListResources()), key=lambda each: (each.app, each.label))
    start = max(question.after, 0)
    page = found[start : start + max(1, min(question.limit, PAGE_MAX))]
    end = start + len(page)
    rows = tuple(
        answers.ResourceRow(
            node=each.node,
            name=each.label,
            app=each.app,
            state="requesting" if each.requesting else each.state,
            why=each.why,
            requests=each.requests,
            error=each.error,
            observed=each.observed,
            value=optional_text(each.value, _VALUE_BYTES),
            at_ms=each.at_ms,
        )
        for each in page
    )
    return answers.ResourcesPage(resources=rows, total=len(found), next=end if end < len(found) else 0)
