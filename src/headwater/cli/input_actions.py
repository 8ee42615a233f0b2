"""Inputs of workflows: inputs ls, skip, retry; publish."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final, Literal

import click

from headwater.cli.json_input import read_json
from headwater.cli.output import Form, Record, is_terminal, note, show
from headwater.cli.target import Target
from headwater.cli.workflow_actions import report_done
from headwater.cli.workflow_hints import ago, clock, record_of
from headwater.cli.workflow_syntax import INPUT
from headwater.errors import UsageError
from headwater.inspect.command_sentences import input_sentence, publish_sentence
from headwater.inspect.paging import newest
from headwater.inspect.workflow_records import ControlInput, ListInputs, PublishEvent
from headwater.workflow.wording.views import InputView

# --- inputs ---------------------------------------------------------------------------------------------------


def list_inputs(*, name: str | None, status: str | None, limit: int, target: Target, form: Form) -> None:
    """Carry out `inputs ls`."""
    with target.inspector() as inspector:
        question = ListInputs(workflow=name or "", status=status or "")
        pages = list(newest(inspector, question, limit, lambda page: [each.id for each in page.inputs]))
    views = [each for page in pages for each in page.inputs]
    now = max((page.at for page in pages), default=0)
    empty = f"no input is {status}" if status is not None else "nothing has come in yet"
    # One workflow: its name in each line is redundant.
    without = ["workflow"] if is_terminal() and len({view.workflow for view in views}) == 1 else []
    show(map(record_of, views), INPUT, form, empty=empty, without=without, shown=_shown(views, now))


def _shown(views: Sequence[InputView], now: int) -> dict[str, Callable[[Record], str]]:
    by_id = {view.id: view for view in views}
    return {
        "created_at": lambda record: clock(by_id[int(str(record["id"]))].created_at, now),
        "status": lambda record: _state(by_id[int(str(record["id"]))], now),
    }


def _state(view: InputView, now: int) -> str:
    if view.stale:
        return f"waits since {ago(view.created_at, now).removesuffix(' ago')}"
    return {"pending": "waits", "parked": "put aside"}.get(view.status, view.status)


def control_input(*, act: Literal["skip", "retry"], number: int, target: Target, form: Form) -> None:
    """Carry out a command about one input."""
    with target.inspector() as inspector:
        done = inspector.do(ControlInput(input=number, action=act))
    view = done.input
    assert view is not None
    record = {**record_of(view), "act": f"{act}_input", "count": done.count, "then": done.then}
    plain = (view.id, view.status, done.count, done.then)
    report_done(target, done, form, sentence=input_sentence(act, done), record=record, plain=plain)


# --- publish --------------------------------------------------------------------------------------------------

_WORDS: Final = 3


def publish_event(
    *, words: tuple[str, ...], name: str | None, title: str, priority: int, target: Target, form: Form
) -> None:
    """Carry out `publish`."""
    if len(words) == _WORDS + 1 and target.given_url is None:
        url, *words_left = words
        target = target.at(url)
    elif len(words) == _WORDS:
        words_left = list(words)
    else:
        raise click.UsageError("Say which WORKFLOW and TOPIC, and what as JSON; the file before that, or with --url.")
    if name == "":
        raise click.UsageError("An id is expected, not an empty text.")
    workflow, topic, text = words_left
    command = PublishEvent(
        workflow=workflow, topic=topic, value=_value(text), id=name or "", title=title, priority=priority
    )
    with target.inspector() as inspector:
        done = inspector.do(command)
    event = done.event
    record = {"workflow": done.flow.name, **record_of(event), "hosted": done.is_hosted, "then": done.then}
    plain = (event.id, event.news, done.then)
    report_done(target, done, form, sentence=publish_sentence(done), record=record, plain=plain)
    if form is None and is_terminal() and not event.checked and event.news != "known":
        note("no program has it open, so whether this is what the topic holds is seen when it is consumed")


def _value(text: str) -> str:
    try:
        return json.dumps(read_json(text))
    except UsageError as error:
        hint = f"; text is written in quotes: '{json.dumps(text)}'" if text.isprintable() and text != "-" else ""
        raise UsageError(f"{error.message}{hint}") from None
