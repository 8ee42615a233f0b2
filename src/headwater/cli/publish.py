"""Publishing an event to a topic of a workflow: publish."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import click

from headwater.cli.asking import Place, done_as
from headwater.cli.options import as_object, on_space
from headwater.cli.output import Form, is_terminal, note
from headwater.cli.telling import record_of
from headwater.cli.workflow import told_done
from headwater.errors import UsageError

if TYPE_CHECKING:
    from headwater.inspect.workflow_answers import PublishReport

_WORDS: Final = 3

_BEFORE: Final = {
    "pending": "it still waits",
    "reserved": "a run is at it",
    "consumed": "it was handled",
    "skipped": "it was skipped",
    "parked": "it was put aside because of failures",
}


@click.command("publish")
@click.argument("words", metavar="[FILE] WORKFLOW TOPIC JSON", nargs=-1, required=True)
@click.option("--id", "name", metavar="ID", help="What its source calls it: published again, it is the same event.")
@click.option("--title", default="", metavar="TEXT", help="What people are told that came in.")
@on_space
@as_object
def publish_event(
    *, words: tuple[str, ...], name: str | None, title: str, url: str | None, space: str | None, form: Form
) -> None:
    """Publish an event to a TOPIC of a WORKFLOW.

    \b
    headwater publish inbox notes '{"name": "a.txt", "text": "buy milk"}' --id a.txt
    headwater publish inbox.db inbox notes - < note.json

    JSON is one value; - reads it. Without --id, the id is made of the value: the same value again is the same event. By
    the process that has the space open, which checks the value; if nobody has, it is written to the file, and checked
    when it is consumed.
    """  # noqa: D301  # a real backspace: click's mark for lines that stay as they are
    if len(words) == _WORDS + 1 and url is None:
        url, *rest = words
    elif len(words) == _WORDS:
        rest = list(words)
    else:
        raise click.UsageError("Say which WORKFLOW and TOPIC, and what as JSON; the file before that, or with --url.")
    if name == "":
        raise click.UsageError("An id is expected, not an empty text.")
    workflow, topic, text = rest
    place = Place(url, space)
    found = _published(place, workflow, topic, text, name or "", title)
    event = found.event
    record = {"workflow": found.flow.name, **record_of(event), "hosted": found.is_hosted, "then": found.then}
    told_done(place, found, form, sentence=_sentence(found), record=record, plain=(event.id, event.news, found.then))
    if form is None and is_terminal() and not event.checked and event.news != "known":
        note("no program has it open, so whether this is what the topic holds is seen when it is consumed")


def _published(  # noqa: PLR0917  # what was said
    place: Place, workflow: str, topic: str, text: str, name: str, title: str
) -> PublishReport:
    from headwater.cli.change import read_json
    from headwater.inspect.workflow_answers import PublishReport

    try:
        value = json.dumps(read_json(text))
    except UsageError as error:
        hint = f"; text is written in quotes: '{json.dumps(text)}'" if text.isprintable() and text != "-" else ""
        raise UsageError(f"{error.message}{hint}") from None
    return done_as(PublishReport, place, "publish", workflow=workflow, topic=topic, value=value, name=name, title=title)


def _sentence(found: PublishReport) -> str:
    event = found.event
    address = f"{found.flow.name}.{event.topic}"
    match event.news:
        case "new":
            return f"published to {address} as {event.id}. {found.then}"
        case "changed":
            return f"{event.id} was published to {address} before, still waits, and has the new value. {found.then}"
        case "known":
            before = _BEFORE.get(event.status, event.status)
            return f"{event.id} was published to {address} before: {before}, and nothing has changed"
