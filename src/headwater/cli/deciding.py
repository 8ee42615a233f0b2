"""What a person decides about a run: approve, reject, reconcile."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import click

from headwater.cli.asking import Place, done
from headwater.cli.options import as_object, on_space
from headwater.cli.output import Form
from headwater.cli.telling import record_of
from headwater.cli.workflow import told_done

if TYPE_CHECKING:
    from headwater.inspect.records import FlowAct
    from headwater.workflow.wording.views import RunView


Command = TypeVar("Command", bound=Callable[..., object])


def by_whom(command: Command) -> Command:
    """Options of everything that a person decides about a run: recorded with it."""
    command = click.option("--reason", default="", metavar="TEXT", help="Why: recorded with the decision.")(command)
    return click.option("--by", default="", metavar="NAME", help="Who decides; else the user of this machine.")(command)


def decide(  # what is asked for, and how it is told
    act: FlowAct, place: Place, number: int, form: Form, sentence: str, *, by: str, reason: str, value: str = "null"
) -> None:
    """Have it done to a run, and tell so."""
    from headwater.runtime.workflows.process_user import process_user

    found = done(place, act, number=number, value=value, by=by or process_user(), reason=reason)
    run = found.run
    assert run is not None
    record = {**record_of(run), "act": act}
    text = sentence.format(run=run.id, what=_named(run))
    told_done(place, found, form, sentence=text, record=record, plain=(run.id, run.state, run.outcome))


def _named(run: RunView) -> str:
    return run.title or f"what {run.handler} does"


@click.command
@click.argument("number", metavar="RUN", type=click.IntRange(min=1))
@by_whom
@on_space
@as_object
def approve_run(*, number: int, by: str, reason: str, url: str | None, space: str | None, form: Form) -> None:
    """Say yes to what a run has planned; or: what it waited for is granted.

    `headwater runs show RUN` tells what that is.
    """
    sentence = "approved: {what}; run {run} goes on"
    decide("approve", Place(url, space), number, form, sentence, by=by, reason=reason)


@click.command
@click.argument("number", metavar="RUN", type=click.IntRange(min=1))
@by_whom
@on_space
@as_object
def reject_run(*, number: int, by: str, reason: str, url: str | None, space: str | None, form: Form) -> None:
    """Say no to what a run has planned: it is not done, and what it was about is skipped."""
    sentence = "rejected: {what}; what it was about is skipped"
    decide("reject", Place(url, space), number, form, sentence, by=by, reason=reason)


@click.command
@click.argument("number", metavar="RUN", type=click.IntRange(min=1))
@click.option("--applied", "result", metavar="JSON", help="It happened, and this came of it; - reads it.")
@click.option("--not-applied", is_flag=True, help="It did not happen: it is planned anew.")
@click.option("--skip", is_flag=True, help="Go on without it; what it was about is skipped.")
@click.option("--again", is_flag=True, help="Have the connector look it up once more.")
@by_whom
@on_space
@as_object
def reconcile_run(
    *,
    number: int,
    result: str | None,
    not_applied: bool,
    skip: bool,
    again: bool,
    by: str,
    reason: str,
    url: str | None,
    space: str | None,
    form: Form,
) -> None:
    """Say what became of a call to the outside that nobody knows of.

    Look it up outside first, by its key: `headwater runs show RUN` tells it.
    """
    if [result is not None, not_applied, skip, again].count(True) != 1:
        raise click.UsageError("Say one of --applied JSON, --not-applied, --skip and --again.")
    say = partial(decide, place=Place(url, space), number=number, form=form, by=by, reason=reason)
    if result is not None:
        from headwater.cli.change import read_json

        value = json.dumps(read_json(result))
        say("applied", sentence="it happened: {what}; run {run} goes on from there", value=value)
    elif not_applied:
        say("not_applied", sentence="it did not happen: {what}; it is planned anew")
    elif skip:
        say("skip", sentence="skipped: {what}; run {run} goes on without it")
    else:
        say("again", sentence="whether it happened is looked up once more: {what}")
