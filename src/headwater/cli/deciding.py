"""What a person decides about a run: approve, reject, reconcile."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from headwater.cli.asking import Place, done
from headwater.cli.options import as_object, on_space
from headwater.cli.output import Form
from headwater.cli.telling import record_of
from headwater.cli.workflow import told_done

if TYPE_CHECKING:
    from headwater.host.told import FlowAct
    from headwater.workflow.views import RunView


def decide(act: FlowAct, place: Place, number: int, form: Form, sentence: str, *, value: str = "null") -> None:
    """Have it done to a run, and tell so."""
    found = done(place, act, number=number, value=value)
    run = found.run
    assert run is not None
    record = {**record_of(run), "act": act}
    text = sentence.format(run=run.id, what=_named(run))
    told_done(place, found, form, sentence=text, record=record, plain=(run.id, run.state, run.outcome))


def _named(run: RunView) -> str:
    return run.title or f"what {run.handler} does"


@click.command
@click.argument("number", metavar="RUN", type=click.IntRange(min=1))
@on_space
@as_object
def approve_run(*, number: int, url: str | None, space: str | None, form: Form) -> None:
    """Say yes to what a run has planned; or: what it waited for is granted.

    `headwater runs show RUN` tells what that is.
    """
    decide("approve", Place(url, space), number, form, "approved: {what}; run {run} goes on")


@click.command
@click.argument("number", metavar="RUN", type=click.IntRange(min=1))
@on_space
@as_object
def reject_run(*, number: int, url: str | None, space: str | None, form: Form) -> None:
    """Say no to what a run has planned: it is not done, and what it was about is skipped."""
    decide("reject", Place(url, space), number, form, "rejected: {what}; what it was about is skipped")


@click.command
@click.argument("number", metavar="RUN", type=click.IntRange(min=1))
@click.option("--applied", "result", metavar="JSON", help="It happened, and this came of it; - reads it.")
@click.option("--not-applied", is_flag=True, help="It did not happen: it is planned anew.")
@click.option("--skip", is_flag=True, help="Go on without it; what it was about is skipped.")
@click.option("--again", is_flag=True, help="Have the connector look it up once more.")
@on_space
@as_object
def reconcile_run(
    *,
    number: int,
    result: str | None,
    not_applied: bool,
    skip: bool,
    again: bool,
    url: str | None,
    space: str | None,
    form: Form,
) -> None:
    """Say what became of a call to the outside that nobody knows of.

    Look it up outside first, by its key: `headwater runs show RUN` tells it.
    """
    if [result is not None, not_applied, skip, again].count(True) != 1:
        raise click.UsageError("Say one of --applied JSON, --not-applied, --skip and --again.")
    place = Place(url, space)
    if result is not None:
        from headwater.cli.change import read_json

        value = json.dumps(read_json(result))
        decide("applied", place, number, form, "it happened: {what}; run {run} goes on from there", value=value)
    elif not_applied:
        decide("not_applied", place, number, form, "it did not happen: {what}; it is planned anew")
    elif skip:
        decide("skip", place, number, form, "skipped: {what}; run {run} goes on without it")
    else:
        decide("again", place, number, form, "whether it happened is looked up once more: {what}")
