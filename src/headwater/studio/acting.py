"""Carries deeds out by the commands that the command line uses. Raises what refuses them: then nothing was done."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headwater.errors import ConflictError, NotFoundError, UsageError
from headwater.inspect.command_sentences import input_sentence, publish_sentence, run_sentence, workflow_sentence
from headwater.inspect.declared_records import RefetchResource
from headwater.inspect.document_records import MISSING, GetValue, SetValue
from headwater.inspect.event_records import DropEvent, RedeliverEvent, SendEvent, ShowEvent
from headwater.inspect.function_records import GetGraph
from headwater.inspect.inspector import Inspector
from headwater.inspect.space_records import ChangeBranch
from headwater.inspect.workflow_records import ControlInput, ControlWorkflow, DecideRun, PublishEvent, ShowRun
from headwater.studio import deeds
from headwater.studio.answers import DeedReport
from headwater.studio.deed_words import words_of
from headwater.values.address import address_text, parse_address
from headwater.values.strict_json import parse_json
from headwater.values.text import count_text

EVENT_MS: Final = 5000.0
"""Milliseconds that a page waits for the end of an event."""


def carry_out(inspector: Inspector, deed: deeds.Acted, *, actor: str, place: str) -> DeedReport:
    """Carry out a deed of a person. `place`: the URL, for the command line of the same deed."""
    deed = _resolved(inspector, deed)
    sentence, seq, opens = _done(inspector, deed, actor)
    return DeedReport(sentence=sentence, command=words_of(deed).line(place), seq=seq, opens=opens)


def _resolved(inspector: Inspector, deed: deeds.Acted) -> deeds.Acted:
    """The deed that does what another one means: an old value is set, and changed fields are sent."""
    place = {"space": deed.space, "branch": deed.branch}
    match deed:
        case deeds.RestoreDeed():
            same = {"address": deed.address, "unless_after": deed.unless_after, "force": deed.force}
            try:
                value = inspector.ask(GetValue(address=deed.address, at=deed.at)).value
            except NotFoundError:
                # It did not exist then: putting that back deletes it.
                return deeds.DeleteDeed(**same, **place)  # type: ignore[arg-type]  # the fields above
            text = msgspec.json.encode(value).decode()
            # What was there once is put back also if no app has declared it.
            return deeds.SetDeed(text=text, create=True, **same, **place)  # type: ignore[arg-type]  # likewise
        case deeds.ResendDeed():
            failed = inspector.ask(ShowEvent(event=deed.event))
            handler = failed.handler.removesuffix("()") or failed.stream
            if not handler:
                raise UsageError(f"{deed.event} has no handler that it could be sent to again", event=deed.event)
            return deeds.SendDeed(handler=handler, fields=deed.fields, **place)
        case _:
            return deed


def _done(inspector: Inspector, deed: deeds.Acted, actor: str) -> tuple[str, int, str]:  # noqa: PLR0911  # one for each
    """The sentence, the commit, and what to open."""
    match deed:
        case deeds.SetDeed():
            return _set(inspector, deed, parse_json(deed.text))
        case deeds.DeleteDeed():
            return _set(inspector, deed, MISSING)
        case deeds.ForkDeed():
            made = inspector.do(ChangeBranch(action="fork", name=deed.name, at=deed.at))
            return f"branch {deed.name} starts from {deed.branch} at {made.at}", made.seq, ""
        case deeds.MergeDeed():
            made = inspector.do(ChangeBranch(action="merge", name=deed.into))
            changed = count_text(made.documents, "document")
            return f"{deed.branch} merged into {deed.into} at {made.seq}: {changed} changed", made.seq, ""
        case deeds.SendDeed():
            return _sent(
                inspector, SendEvent(handler=deed.handler, fields=deed.fields, name=deed.id, timeout_ms=EVENT_MS)
            )
        case deeds.RefetchDeed():
            resource = inspector.do(RefetchResource(node=deed.resource))
            return f"{resource.label} is requested now", 0, ""
        case deeds.EventDeed(act="redeliver"):
            found = inspector.do(RedeliverEvent(event=deed.event, timeout_ms=EVENT_MS))
            return f"{found.event} was delivered again: {_ended(found.state, found.reason)}", 0, f"events/{found.event}"
        case deeds.EventDeed():
            found = inspector.do(DropEvent(event=deed.event))
            return f"{found.event} was dropped", 0, ""
        case _:
            return _of_workflows(inspector, deed, actor)


def _set(inspector: Inspector, deed: Any, value: object) -> tuple[str, int, str]:  # noqa: ANN401  # one of three
    _check_writer(inspector, deed)
    done = inspector.do(
        SetValue(
            address=deed.address,
            value=value,
            create=getattr(deed, "create", False),
            make_space=False,
            force=deed.force,
            unless_after=deed.unless_after,
        )
    )
    opens = f"documents/{address_text(parse_address(deed.address)[0])}"
    if not done.changed:
        return f"{deed.address} has this value already; nothing was written", done.seq, opens
    verb = "deleted" if value is MISSING else "written"
    return f"{deed.address} was {verb} at {done.seq}", done.seq, opens


def _check_writer(inspector: Inspector, deed: Any) -> None:  # noqa: ANN401  # one of three
    """A document that a function writes would be overwritten by its next run. Raises UsageError."""
    if deed.force:
        return
    name = address_text(parse_address(deed.address)[0])
    try:
        views = inspector.ask(GetGraph())
    except NotFoundError:
        return
    for view in views:
        for node in () if view.snapshot is None else view.snapshot.nodes:
            if name in node.outputs:
                message = f"{name} is written by {node.name}, whose next run would overwrite it"
                raise UsageError(f"{message}; change what it reads, or force it", doc=name)


def _sent(inspector: Inspector, command: SendEvent) -> tuple[str, int, str]:
    found = inspector.do(command)
    return (
        f"{found.event} was sent to {command.handler}: {_ended(found.state, found.reason)}",
        0,
        f"events/{found.event}",
    )


def _ended(state: str, reason: str) -> str:
    return f"{state}, {reason}" if reason else state


def _of_workflows(inspector: Inspector, deed: deeds.Acted, actor: str) -> tuple[str, int, str]:
    match deed:
        case deeds.RunDeed():
            _check_seen(inspector, deed)
            done = inspector.do(
                DecideRun(run=deed.number, action=deed.act, by=actor, reason=deed.reason, value=deed.text)
            )
            return run_sentence(deed.act, done), 0, f"workflows/{deed.number}"
        case deeds.WorkflowDeed():
            control = inspector.do(ControlWorkflow(workflow=deed.workflow, action=deed.act))
            return workflow_sentence(deed.act, control), 0, f"workflows/{deed.workflow}"
        case deeds.InputDeed():
            control = inspector.do(ControlInput(input=deed.number, action=deed.act))
            return input_sentence(deed.act, control), 0, ""
        case deeds.PublishDeed():
            published = inspector.do(
                PublishEvent(workflow=deed.workflow, topic=deed.topic, value=deed.text, id=deed.id)
            )
            return publish_sentence(published), 0, f"workflows/{deed.workflow}"
        case _:
            raise UsageError(f"{deed.__struct_config__.tag} cannot be done here")


def _check_seen(inspector: Inspector, deed: deeds.RunDeed) -> None:
    """Raise ConflictError if the run has moved on since it was shown."""
    if not deed.seen:
        return
    details = inspector.ask(ShowRun(run=deed.number)).details
    run = details.run
    if run.updated_at == deed.seen:
        return
    said = details.decisions[-1].sentence if details.decisions else run.state
    message = f"run {deed.number} has moved on since it was shown: {said}"
    raise ConflictError(f"{message}. Nothing was done; look at it again", run=deed.number)
