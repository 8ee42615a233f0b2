"""Runs of workflows: runs ls, show, retry, cancel, abandon; approve, reject, reconcile."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Final

import click
import msgspec

from headwater.cli import output as out
from headwater.cli.json_input import read_json
from headwater.cli.output import Column, Form, Line, Picture, Record
from headwater.cli.run_story import lines_of, picture_of
from headwater.cli.target import Target
from headwater.cli.workflow_actions import report_done
from headwater.cli.workflow_hints import answers, clock, due, hint_lines, record_of
from headwater.cli.workflow_syntax import RUN, WAITING_RUN
from headwater.inspect.command_sentences import run_sentence
from headwater.inspect.paging import newest
from headwater.inspect.workflow_records import DecideRun, ListRuns, RunAction, RunsPage, ShowRun
from headwater.runtime.workflows.process_user import process_user
from headwater.values.suggestions import did_you_mean
from headwater.values.text import inert
from headwater.workflow.rows import RunStatus
from headwater.workflow.wording.views import RunView

_WIDE: Final = 100
"""Columns of a terminal that is wide enough for the subject and the outcome."""

_PAGE: Final = 200
"""Runs in one answer."""


# --- ls -------------------------------------------------------------------------------------------------------


def list_runs(
    *,
    name: str | None,
    status: str | None,
    waiting: bool,
    limit: int,
    every: bool,
    follow: bool,
    target: Target,
    form: Form,
) -> None:
    """Carry out `runs ls`."""
    question = ListRuns(workflow=name or "", status=_status(status), every=every, waiting=waiting)
    if follow:
        if waiting:
            raise click.UsageError("--waiting lists what waits now; `headwater workflow --follow` stays.")
        _follow(target, question, limit, form)
        return
    with target.inspector() as inspector:
        pages = list(newest(inspector, question, limit, lambda page: [run.id for run in page.runs]))
    views = [run for page in pages for run in page.runs]
    now = max((page.at for page in pages), default=0)
    if waiting and form is None and out.is_terminal():
        _draw_waiting(target, views)
        return
    records: list[Record] = list(map(record_of, views))
    fields: Sequence[Column | str] = RUN
    if waiting:
        fields = WAITING_RUN
        commands = [[command for command, _ in answers(target, view)] for view in views]
        records = [{**record, "answers": typed} for record, typed in zip(records, commands, strict=True)]
    empty = "no runs" if every else "no run has done anything; --all lists runs without work, too"
    out.show(records, fields, form, empty=empty, without=_without(views), shown=_shown(views, now))


def _status(text: str | None) -> str:
    """The status, or the prefix of several. Raises BadParameter if there is none."""
    if text is None:
        return ""
    known = [status.value for status in RunStatus]
    if text and any(name.startswith(text) for name in known):
        return text
    hint = did_you_mean(text, [*known, "paused", "failed"]).removeprefix("; ").capitalize()
    message = f"{text!r} is none. {hint or 'There is ' + ', '.join(known) + '.'}"
    raise click.BadParameter(message, click.get_current_context(), param_hint="'--status'")


def _without(views: Sequence[RunView]) -> list[str]:
    """Columns to leave out on a terminal: the outcome if it is narrow, the workflow if there is only one."""
    if not out.is_terminal():
        return []
    same = len({view.workflow for view in views}) == 1
    return [*(["workflow"] if same else []), *(["state"] if out.width() < _WIDE else [])]


def _shown(views: Sequence[RunView], now: int) -> dict[str, Callable[[Record], str]]:
    """Texts of some columns on a terminal."""
    by_id = {view.id: view for view in views}

    def view(record: Record) -> RunView:
        return by_id[int(str(record["id"]))]

    shown: dict[str, Callable[[Record], str]] = {
        "created_at": lambda record: clock(view(record).created_at, now),
        "state": lambda record: outcome(view(record), now),
    }
    if out.is_terminal() and out.width() < _WIDE:
        shown["text"] = lambda record: in_short(view(record), now)
    return shown


def _draw_waiting(target: Target, views: Sequence[RunView]) -> None:
    """Draw the runs, each with the commands that decide about it."""
    if not views:
        out.note("nothing waits for a person")
        return
    parts: list[Picture] = []
    for view in views:
        parts += [Line()] if parts else []
        parts += [Line(f"Run {view.id} of {inert(view.workflow)}", "bold", f"  {inert(view.text)}")]
        parts += [Line(inert(view.sentence)), *hint_lines(answers(target, view), out.width())]
    out.draw(*parts)


def in_short(run: RunView, now: int) -> str:
    """The subject of a run and its outcome; of a committed run only the subject."""
    if run.status == "committed" and run.taken:
        return run.text
    return f"{run.title or run.handler}: {outcome(run, now)}"


def outcome(run: RunView, now: int) -> str:
    """The outcome of a run, and the time of its next attempt."""
    if run.followed_by is not None and run.status in ("paused:approval", "paused:reconciliation"):
        # Other states have a sentence about the error.
        return f"{run.state[0].upper()}{run.state[1:]}."
    if run.retry_at is None or run.retry_at <= now:
        return run.sentence
    return f"{run.sentence.removesuffix(' It is tried again.')} Again {due(run.retry_at, now)}."


# --- ls --follow ----------------------------------------------------------------------------------------------


def _follow(target: Target, question: ListRuns, limit: int, form: Form) -> None:
    """Print the existing runs, oldest first, then each new or changed run."""
    printed: dict[int, RunView] = {}

    def next_question(last: RunsPage | None) -> ListRuns:
        if last is None:
            return msgspec.structs.replace(question, limit=limit)
        watched = tuple(run.id for run in printed.values() if run.may_change)
        return msgspec.structs.replace(question, limit=_PAGE, after=max(printed, default=0), also=watched)

    with target.inspector() as inspector:
        for page in inspector.changes(next_question):
            for run in reversed(page.runs if page is not None else ()):
                if printed.get(run.id) != run:
                    printed[run.id] = run
                    assert page is not None
                    _print(run, page.at, form)
            sys.stdout.flush()
            if page is not None and len(page.runs) >= _PAGE:
                out.note("so much happens that some of it is left out; `runs ls` lists all")
            if len(printed) > _PAGE * 2:
                _forget(printed)
    out.note("it was closed")


def _forget(printed: dict[int, RunView]) -> None:
    """Drop all runs that cannot change, except the newest."""
    newest = max(printed)
    for run in [run for run in printed.values() if not run.may_change and run.id != newest]:
        del printed[run.id]


def _print(run: RunView, now: int, form: Form) -> None:
    if form is not None:
        out.write(out.json_text(record_of(run)))
    elif out.is_terminal():
        what = in_short(run, now) if out.width() < _WIDE else f"{run.text}: {outcome(run, now)}"
        out.draw(Line(inert(f"{clock(run.updated_at, now)}  {run.id:>5}  {run.workflow}  {what}"), cut=True))
    else:
        out.write_row(record_of(run), out.columns_of(RUN))


# --- show -----------------------------------------------------------------------------------------------------


def show_run(*, number: int, timeline: bool, target: Target, form: Form) -> None:
    """Carry out `runs show`."""
    with target.inspector() as inspector:
        found = inspector.ask(ShowRun(run=number))
    details = found.details
    if not timeline:
        calls = [call for call in details.calls if details.call is not None and call.run == details.call.run]
        details = msgspec.structs.replace(details, chain=[details.run], calls=calls)
    if form is not None:
        out.write(out.json_text(record_of(details)))
    elif out.is_terminal():
        out.draw(*picture_of(target, details, found.at))
    else:
        for line in lines_of(target, details, found.at):
            out.write_fields(*line)


# --- decisions ------------------------------------------------------------------------------------------------


def decide_run(
    *, act: RunAction, number: int, by: str, reason: str, target: Target, form: Form, value: str = "null"
) -> None:
    """Carry out a person's decision about one run."""
    command = DecideRun(run=number, action=act, by=by or process_user(), reason=reason, value=value)
    with target.inspector() as inspector:
        done = inspector.do(command)
    run = done.run
    assert run is not None
    record = {**record_of(run), "act": act}
    report_done(
        target, done, form, sentence=run_sentence(act, done), record=record, plain=(run.id, run.state, run.outcome)
    )


def reconcile_run(
    *,
    number: int,
    result: str | None,
    not_applied: bool,
    skip: bool,
    again: bool,
    by: str,
    reason: str,
    target: Target,
    form: Form,
) -> None:
    """Carry out `reconcile`."""
    given: dict[RunAction, bool] = {
        "applied": result is not None,
        "not_applied": not_applied,
        "skip": skip,
        "again": again,
    }
    chosen = [act for act, is_given in given.items() if is_given]
    if len(chosen) != 1:
        raise click.UsageError("Say one of --applied JSON, --not-applied, --skip and --again.")
    value = "null" if result is None else json.dumps(read_json(result))
    decide_run(act=chosen[0], number=number, by=by, reason=reason, target=target, form=form, value=value)
