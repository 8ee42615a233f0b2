"""Runs of workflows: runs ls, show, retry, cancel, abandon."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from headwater.cli.asking import Place, Source, changes, looking, runs_in_pages, told
from headwater.cli.deciding import by_whom, decide
from headwater.cli.group import Group
from headwater.cli.options import as_list, as_object, on_space
from headwater.cli.output import Column, Form, Record, console, is_terminal, json_text, note, show, write
from headwater.cli.telling import answers, clock, due, hints_drawn, record_of
from headwater.values.text import inert

if TYPE_CHECKING:
    from headwater.inspect.records import Ask
    from headwater.inspect.workflow_answers import RunsPage
    from headwater.workflow.wording.views import RunView

_LIMIT: Final = 50

_WIDE: Final = 100
"""Columns of a terminal that has room for both what came in and what became of it."""

_PAGE: Final = 200
"""Changes in one answer."""


@click.group("runs", cls=Group, default="ls")
def runs() -> None:
    """Look at what workflows have done, try it again, cancel it, put it aside.

    RUN is a number as `runs ls` shows it. An attempt that is made again is another run, of the same chain.
    """


def _status(_ctx: click.Context, _option: click.Parameter, value: str | None) -> str:
    """One of those there are, or what some begin with."""
    if value is None:
        return ""
    from headwater.cli.spaces import did_you_mean
    from headwater.workflow.rows import RunStatus

    known = [status.value for status in RunStatus]
    if value and any(name.startswith(value) for name in known):
        return value
    hint = did_you_mean(value, [*known, "paused", "failed"]).removeprefix("; ").capitalize()
    raise click.BadParameter(f"{value!r} is none. {hint or 'There is ' + ', '.join(known) + '.'}")


# --- ls -------------------------------------------------------------------------------------------------------


@runs.command("ls")
@click.option("--workflow", "name", metavar="NAME", help="Only those of this workflow.")
@click.option(
    "--status",
    metavar="STATUS",
    callback=_status,
    help="Only those that are so: active, committed, crashed, paused (paused:transient, paused:approval, "
    "paused:reconciliation: those that still are), failed (failed:logic, failed:internal).",
)
@click.option("--waiting", is_flag=True, help="Only those that wait for a person, with what to type.")
@click.option("--limit", type=click.IntRange(min=1), default=_LIMIT, show_default=True, help="So many at most.")
@click.option("--all", "every", is_flag=True, help="Also those that had nothing to do, and those of producers.")
@click.option("--follow", is_flag=True, help="Stay, and tell of each that begins or changes, until Ctrl-C.")
@on_space
@as_list
def list_runs(
    *,
    name: str | None,
    status: str,
    waiting: bool,
    limit: int,
    every: bool,
    follow: bool,
    url: str | None,
    space: str | None,
    form: Form,
) -> None:
    """List the runs, newest first: what they were about, and what became of them."""
    place = Place(url, space)
    wanted: dict[str, object] = {"workflow": name or "", "status": status, "every": every, "waiting": waiting}
    if follow:
        if waiting:
            raise click.UsageError("--waiting lists what waits now; `headwater workflow --follow` stays.")
        _follow(place, wanted, limit, form)
        return

    def ask(source: Source) -> tuple[int, list[RunView]]:
        found = list(runs_in_pages(source, place, limit, **wanted))
        return max((page.at for page, _ in found), default=0), [run for _, run in found]

    now, views = looking(place, ask)
    if waiting:
        _show_waiting(place, views, now, form)
        return
    empty = "no runs" if every else "no run has done anything; --all lists those that found nothing to do"
    show(map(record_of, views), _columns(views, now), form, empty=empty)


def _columns(views: list[RunView], now: int) -> tuple[Column, ...]:
    by_id = {view.id: view for view in views}

    def view(record: Record) -> RunView:
        return by_id[int(str(record["id"]))]

    columns = [
        Column(title="run", text=lambda record: str(record["id"]), number=True),
        Column(
            title="started",
            text=lambda record: str(record["created_at"]),
            shown=lambda record: clock(view(record).created_at, now),
        ),
        Column(title="workflow", text=lambda record: str(record["workflow"])),
        Column(title="what", text=lambda record: str(record["text"]), elastic=True),
        Column(
            title="what became of it",
            text=lambda record: str(record["state"]),
            shown=lambda record: became(view(record), now),
            elastic=True,
        ),
    ]
    if is_terminal() and console().width < _WIDE:
        columns[3:] = [Column(title="what", text=lambda record: in_short(view(record), now), elastic=True)]
    if is_terminal() and len({view.workflow for view in views}) == 1:
        # The same in each line: room for the rest.
        del columns[2]
    return tuple(columns)


def _show_waiting(place: Place, views: list[RunView], now: int, form: Form) -> None:
    """Each with what a person can type about it."""
    if form is None and is_terminal():
        _draw_waiting(place, views)
        return
    by_id = {view.id: [command for command, _ in answers(place, view)] for view in views}
    records = [{**record_of(view), "answers": by_id[view.id]} for view in views]
    more = Column(title="what to type", text=lambda record: "; ".join(by_id[int(str(record["id"]))]))
    show(records, (*_columns(views, now), more), form, empty="")


def _draw_waiting(place: Place, views: list[RunView]) -> None:
    from rich.text import Text

    if not views:
        note("nothing waits for a person")
        return
    screen = console()
    for number, view in enumerate(views):
        if number:
            screen.print()
        screen.print(Text.assemble((f"Run {view.id} of {inert(view.workflow)}", "bold"), f"  {inert(view.text)}"))
        screen.print(Text(inert(view.sentence)))
        screen.print(hints_drawn(answers(place, view), screen.width), crop=False)


def in_short(run: RunView, now: int) -> str:
    """What it was about and what became of it: of what is done, only the former."""
    if run.status == "committed" and run.taken:
        return run.text
    return f"{run.title or run.handler}: {became(run, now)}"


def became(run: RunView, now: int) -> str:
    """What became of it, and when that goes on."""
    if run.followed_by is not None and run.status in ("paused:approval", "paused:reconciliation"):
        # The others say what went wrong.
        return f"{run.state[0].upper()}{run.state[1:]}."
    if run.retry_at is None or run.retry_at <= now:
        return run.sentence
    return f"{run.sentence.removesuffix(' It is tried again.')} Again {due(run.retry_at, now)}."


# --- ls --follow ----------------------------------------------------------------------------------------------


def _follow(place: Place, wanted: dict[str, object], limit: int, form: Form) -> None:
    """Those there are, oldest first, and each that begins or changes from then on."""
    from headwater.inspect.workflow_answers import RunsPage

    told_of: dict[int, RunView] = {}

    def ask(last: RunsPage | None) -> Ask:
        if last is None:
            return place.ask("runs", limit=limit, **wanted)
        watched = tuple(run.id for run in told_of.values() if run.may_change)
        return place.ask("runs", limit=_PAGE, after=max(told_of, default=0), also=watched, **wanted)

    for found in changes(place, RunsPage, ask):
        for run in reversed(found.runs if found is not None else ()):
            if told_of.get(run.id) != run:
                told_of[run.id] = run
                assert found is not None
                _tell(run, found.at, form)
        sys.stdout.flush()
        if found is not None and len(found.runs) >= _PAGE:
            note("so much happens that some of it is left out; `runs ls` lists all")
        if len(told_of) > _PAGE * 2:
            _forget(told_of)
    note("it was closed")


def _forget(told_of: dict[int, RunView]) -> None:
    """All that cannot change any more, but for the newest."""
    newest = max(told_of)
    for run in [run for run in told_of.values() if not run.may_change and run.id != newest]:
        del told_of[run.id]


def _tell(run: RunView, now: int, form: Form) -> None:
    if form is not None:
        write(json_text(record_of(run)))
    elif is_terminal():
        from rich.text import Text

        screen = console()
        what = in_short(run, now) if screen.width < _WIDE else f"{run.text}: {became(run, now)}"
        line = f"{clock(run.updated_at, now)}  {run.id:>5}  {run.workflow}  {what}"
        screen.print(Text(inert(line)), no_wrap=True, overflow="ellipsis")
    else:
        record = record_of(run)
        write("\t".join(inert(column.text(record)) for column in _columns([run], now)))


# --- show -----------------------------------------------------------------------------------------------------


@runs.command("show")
@click.argument("number", metavar="RUN", type=click.IntRange(min=1))
@click.option("--timeline/--no-timeline", default=True, help="The whole chain of attempts, or this run alone.")
@on_space
@as_object
def show_run(*, number: int, timeline: bool, url: str | None, space: str | None, form: Form) -> None:
    """Tell the story of a run: every attempt, what was called with which key, and what is known of it."""
    import msgspec

    from headwater.cli.timeline import drawn, plainly
    from headwater.inspect.workflow_answers import RunReport

    place = Place(url, space)
    found = told(place, RunReport, "run", number=number)
    if not timeline:
        details = found.details
        calls = [call for call in details.calls if details.call is not None and call.run == details.call.run]
        alone = msgspec.structs.replace(details, chain=[details.run], calls=calls)
        found = msgspec.structs.replace(found, details=alone)
    if form is not None:
        write(json_text(record_of(found.details)))
    elif is_terminal():
        screen = console()
        screen.print(drawn(place, found, screen.width), crop=False)
    else:
        for line in plainly(place, found):
            write("\t".join(map(inert, line)))


# --- doing ----------------------------------------------------------------------------------------------------


@runs.command("retry")
@click.argument("number", metavar="RUN", type=click.IntRange(min=1))
@by_whom
@on_space
@as_object
def retry_run(*, number: int, by: str, reason: str, url: str | None, space: str | None, form: Form) -> None:
    """Try again now what has failed, as if it had not failed before; or take up what was put aside."""
    sentence = "it is tried again: {what}"
    decide("retry", Place(url, space), number, form, sentence, by=by, reason=reason)


@runs.command("cancel")
@click.argument("number", metavar="RUN", type=click.IntRange(min=1))
@by_whom
@on_space
@as_object
def cancel_run(*, number: int, by: str, reason: str, url: str | None, space: str | None, form: Form) -> None:
    """Give a run up before it acts; what it was about is skipped. After it has acted: `runs abandon`."""
    sentence = "cancelled: {what}; what it was about is skipped"
    decide("cancel", Place(url, space), number, form, sentence, by=by, reason=reason)


@runs.command("abandon")
@click.argument("number", metavar="RUN", type=click.IntRange(min=1))
@by_whom
@on_space
@as_object
def abandon_run(*, number: int, by: str, reason: str, url: str | None, space: str | None, form: Form) -> None:
    """Put a run aside after it has acted: `next` is not called, and its workflow goes on with other events.

    The plan and what came of its call are kept, and what it was about is parked with them. `headwater runs retry RUN`
    takes it up again, from `next` on.
    """
    sentence = "put aside: {what}; its result is kept, and the workflow goes on without it"
    decide("abandon", Place(url, space), number, form, sentence, by=by, reason=reason)
