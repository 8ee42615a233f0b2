"""Workflows of a space: workflow ls, show, pause, resume, now, archive, restore, reprocess."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from headwater.cli.asking import Place, changes, done, told
from headwater.cli.exits import Exit
from headwater.cli.group import Group
from headwater.cli.options import as_list, as_object, on_space
from headwater.cli.output import (
    Column,
    Form,
    Record,
    answer,
    console,
    count_text,
    is_terminal,
    json_text,
    note,
    show,
    write,
)
from headwater.cli.output import table as drawn_table
from headwater.cli.telling import ago, due, flow_hints, hints_drawn, record_of
from headwater.machine import machine
from headwater.values.text import inert

if TYPE_CHECKING:
    from rich.console import RenderableType

    from headwater.inspect.records import Ask, FlowAct
    from headwater.inspect.workflow_answers import FlowReport, WorkflowsPage
    from headwater.workflow.wording.views import FlowView

F = TypeVar("F", bound=Callable[..., Any])

_SENTENCE_MAX: Final = 400
"""Characters of a sentence: an error may be part of it, and `runs show` tells all of that."""

_NONE: Final = "no workflows here; an app declares them with app.workflow(...), `headwater run MODULE:APP` runs them"


@click.group("workflow", cls=Group, default="ls")
def workflow() -> None:
    """Look at workflows, pause them, have them run.

    NAME is a workflow's as `workflow ls` shows it; the part after the dot is enough if that is clear. If a process has
    the space open, it is asked, and does what is to be done.
    """


def following(command: F) -> F:
    """`--follow`."""
    text = "Stay, and show it anew whenever something happens, until Ctrl-C."
    return click.option("--follow", is_flag=True, help=text)(command)


def exit_code(command: F) -> F:
    """`--exit-code`."""
    return click.option("--exit-code", "tells", is_flag=True, help="Exit with 5 if it waits for a person.")(command)


# --- ls -------------------------------------------------------------------------------------------------------


def _records(found: WorkflowsPage) -> list[Record]:
    return [{**record_of(view), "hosted": view.name in found.hosted} for view in found.flows]


def _columns(found: WorkflowsPage, now: int) -> tuple[Column, ...]:
    views = {view.name: view for view in found.flows}

    def view(record: Record) -> FlowView:
        return views[str(record["name"])]

    columns = [
        Column(title="name", text=lambda record: str(record["name"])),
        Column(title="state", text=lambda record: str(record["state"])),
        Column(
            title="sentence",
            text=lambda record: str(record["sentence"]),
            shown=lambda record: _sentence(view(record)),
        ),
        Column(title="pending", text=lambda record: str(sum(view(record).pending.values())), number=True),
        Column(
            title="next",
            text=lambda record: str(record["due_at"] or ""),
            shown=lambda record: due(view(record).due_at, now),
        ),
    ]
    if not is_terminal():
        # People are told below the table.
        columns.append(Column(title="waiting", text=lambda record: str(record["waiting"])))
    return tuple(columns)


def _sentence(view: FlowView) -> str:
    """How it is, and what else somebody should know."""
    line = " ".join(view.sentence[: _SENTENCE_MAX * 2].split())
    line = line if len(line) <= _SENTENCE_MAX else line[: _SENTENCE_MAX - 1] + "…"
    if view.parked:
        line += f" {count_text(view.parked, 'event was', 'events were')} put aside."
    if view.stale:
        line += f" {count_text(view.stale, 'input waits', 'inputs wait')} for more than a week."
    return line


@workflow.command("ls")
@click.option("--all", "every", is_flag=True, help="Archived ones, too.")
@following
@exit_code
@on_space
@as_list
def list_workflows(*, every: bool, follow: bool, tells: bool, url: str | None, space: str | None, form: Form) -> None:
    """List the workflows: how they are, what waits, and when something happens next."""
    from headwater.inspect.workflow_answers import WorkflowsPage

    place = Place(url, space)

    def draw(found: WorkflowsPage, now: int, width: int) -> RenderableType:
        return drawn_table(_records(found), _columns(found, now), width)

    def tell(found: WorkflowsPage) -> None:
        show(_records(found), _columns(found, found.at), "jsonl" if follow and form else form, empty=_NONE)

    if follow:
        _follow(place, place.ask("workflows", every=every), draw, tell, plainly=form is not None)
        return
    found = told(place, WorkflowsPage, "workflows", every=every)
    tell(found)
    active = [view for view in found.flows if view.intent == "active"]
    waiting = sum(view.waiting for view in found.flows)
    if form is None and is_terminal() and waiting:
        wait = f"{count_text(waiting, 'run waits', 'runs wait')} for you"
        note(f"{wait}: `{place.command('runs', '--waiting')}` tells what to type")
    if form is None and is_terminal() and active and not found.hosted:
        note(f"nobody runs {'it' if len(active) == 1 else 'them'} now; `{place.command('run', 'MODULE:APP')}` does")
    if tells and any(view.block_kind is not None for view in found.flows):
        raise click.exceptions.Exit(Exit.WAITS_FOR_PERSON)


def _follow(
    place: Place,
    ask: Ask,
    draw: Callable[[WorkflowsPage, int, int], RenderableType],
    tell: Callable[[WorkflowsPage], None],
    *,
    plainly: bool,
) -> None:
    """On a terminal one picture that is drawn anew; else each answer that is different."""
    import sys

    from headwater.inspect.workflow_answers import WorkflowsPage

    answers = changes(place, WorkflowsPage, lambda _: ask)
    if plainly or not is_terminal():
        for found in answers:
            if found is not None:
                tell(found)
                sys.stdout.flush()
        note("it was closed")
        return
    screen = console()
    last: WorkflowsPage | None = None
    heard = 0.0
    try:
        with screen.screen() as shown:
            for found in answers:
                if found is not None:
                    last, heard = found, machine().monotonic()
                if last is not None:
                    # Also if nothing has happened: "in 3 s" is no longer true.
                    shown.update(draw(last, last.at + int((machine().monotonic() - heard) * 1000), screen.width))
    finally:
        # What was seen last stays in view.
        if last is not None:
            screen.print(draw(last, last.at, screen.width), crop=False)
    note("it was closed")


# --- show -----------------------------------------------------------------------------------------------------


@workflow.command("show")
@click.argument("name")
@following
@exit_code
@on_space
@as_object
def show_workflow(*, name: str, follow: bool, tells: bool, url: str | None, space: str | None, form: Form) -> None:
    """Tell how a workflow is: what it does and when, what waits, what was done last, and what you can do."""
    from headwater.inspect.workflow_answers import WorkflowsPage

    place = Place(url, space)

    def tell(found: WorkflowsPage) -> None:
        [view] = found.flows
        hosted = view.name in found.hosted
        if form is not None:
            write(json_text({**record_of(view), "hosted": hosted, "hints": _commands(place, view, hosted=hosted)}))
        elif is_terminal():
            screen = console()
            screen.print(_drawn(place, found, found.at, screen.width), crop=False)
        else:
            for key, value in _plainly(place, view, hosted=hosted):
                write(f"{key}\t{inert(value)}")

    if follow:
        ask = place.ask("workflows", workflow=name)
        _follow(place, ask, lambda found, now, width: _drawn(place, found, now, width), tell, plainly=form is not None)
        return
    found = told(place, WorkflowsPage, "workflows", workflow=name)
    tell(found)
    if tells and found.flows[0].block_kind is not None:
        raise click.exceptions.Exit(Exit.WAITS_FOR_PERSON)


def _commands(place: Place, view: FlowView, *, hosted: bool) -> list[str]:
    return [command for command, _ in flow_hints(place, view, hosted=hosted)]


def _plainly(place: Place, view: FlowView, *, hosted: bool) -> list[tuple[str, str]]:
    """For a pipe: a name and a value in each line."""
    from headwater.cli.runtime import utc

    lines = [("name", view.name), ("state", view.state), ("sentence", view.sentence), ("schedule", view.schedule)]
    lines += [("next", utc(view.due_at))] if view.due_at is not None else []
    lines += [(f"pending {topic}", str(count)) for topic, count in view.pending.items()]
    lines += [("parked", str(view.parked)), ("waiting", str(view.waiting)), ("stale", str(view.stale))]
    lines += [("failures", str(view.failures))] if view.failures else []
    lines += [("run", str(view.run))] if view.run is not None else []
    lines += [("version", str(view.version)), ("hosted", "yes" if hosted else "no")]
    lines += [("recent", f"{utc(line.at)} {line.text}") for line in view.recent]
    return [*lines, *(("hint", command) for command in _commands(place, view, hosted=hosted))]


_STYLES: Final = {"Running": "green", "Idle": "blue", "Needs attention": "bold red", "Stopped": "yellow"}


def _drawn(place: Place, found: WorkflowsPage, now: int, width: int) -> RenderableType:
    """For people: how it is in a word and a sentence, the facts in a column, what was done last, and what to do."""
    from rich.console import Group as Rows
    from rich.table import Table
    from rich.text import Text

    [view] = found.flows
    hosted = view.name in found.hosted
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column()
    for name, text in _facts(view, now, hosted=hosted):
        facts.add_row(Text(f"  {inert(name)}"), Text(inert(text)))
    headline = Text.assemble((inert(view.name), "bold"), "  ", (view.state, _STYLES.get(view.state, "")))
    parts: list[RenderableType] = [headline, Text(inert(_sentence(view))), Text(), facts]
    if view.recent:
        recent = Table.grid(padding=(0, 2, 0, 0))
        recent.add_column(style="dim", no_wrap=True)
        recent.add_column()
        for line in view.recent:
            recent.add_row(f"  {ago(line.at, now)}", Text(inert(line.text)))
        parts += [Text(), Text("recently", "bold"), recent]
    hints = flow_hints(place, view, hosted=hosted)
    if hints:
        parts += [Text(), Text("what you can do", "bold"), hints_drawn(hints, width)]
    return Rows(*parts)


def _facts(view: FlowView, now: int, *, hosted: bool) -> list[tuple[str, str]]:
    facts = [(handler.name, handler.when) for handler in view.handlers]
    if view.due_at is not None:
        at = due(view.due_at, now)
        facts.append(("next", at if hosted else f"{at}, if somebody runs it"))
    waiting = [f"{count:,} in {topic}" for topic, count in view.pending.items() if count]
    facts.append(("pending", ", ".join(waiting) or "nothing"))
    if view.parked:
        facts.append(("parked", f"{count_text(view.parked, 'event')} put aside because of failures"))
    if view.failures:
        facts.append(("failures", f"{view.failures:,} in a row"))
    if view.run is not None:
        facts.append(("run", str(view.run)))
    return [*facts, ("version", f"{view.version}, deployed {ago(view.deployed_at, now)}")]


# --- doing ----------------------------------------------------------------------------------------------------


def told_done(place: Place, found: FlowReport, form: Form, *, sentence: str, record: Record, plain: object) -> None:
    """What was done, in a sentence; and if nobody runs the workflow, that it waits for somebody who does."""
    answer(record, sentence=sentence, plain=plain, form=form)
    name = found.flow.name
    is_said = bool(found.then)
    if form is None and is_terminal() and not is_said and not found.is_hosted and found.flow.intent == "active":
        note(f"nobody runs {name} now; `{place.command('run', 'MODULE:APP')}` does")


def _act(act: FlowAct, place: Place, name: str, form: Form, sentence: str) -> None:
    found = done(place, act, workflow=name)
    record = {**record_of(found.flow), "act": act, "count": found.count}
    text = sentence.format(name=found.flow.name, events=count_text(found.count, "event"))
    plain = (found.flow.name, found.flow.intent, found.flow.state)
    told_done(place, found, form, sentence=text, record=record, plain=plain)


@workflow.command("pause")
@click.argument("name")
@on_space
@as_object
def pause_workflow(*, name: str, url: str | None, space: str | None, form: Form) -> None:
    """Start nothing more of a workflow; a run that is under way stops before it acts."""
    _act("pause", Place(url, space), name, form, "{name} is paused: nothing is started, and what comes in waits")


@workflow.command("resume")
@click.argument("name")
@on_space
@as_object
def resume_workflow(*, name: str, url: str | None, space: str | None, form: Form) -> None:
    """Let a workflow go on that was paused, or whose trouble is mended."""
    _act("resume", Place(url, space), name, form, "{name} goes on")


@workflow.command("now")
@click.argument("name")
@on_space
@as_object
def run_workflow_now(*, name: str, url: str | None, space: str | None, form: Form) -> None:
    """Run all producers of a workflow now, whatever their schedule; refused while anything of it is under way."""
    _act("now", Place(url, space), name, form, "{name} looks for something to do now")


@workflow.command("archive")
@click.argument("name")
@on_space
@as_object
def archive_workflow(*, name: str, url: str | None, space: str | None, form: Form) -> None:
    """Put a paused workflow out of the way, with all that is known of it."""
    _act("archive", Place(url, space), name, form, "{name} is archived; `workflow ls --all` shows it")


@workflow.command("restore")
@click.argument("name")
@on_space
@as_object
def restore_workflow(*, name: str, url: str | None, space: str | None, form: Form) -> None:
    """Bring an archived workflow back, paused."""
    _act("restore", Place(url, space), name, form, "{name} is back, and paused; `workflow resume` lets it go on")


@workflow.command("reprocess")
@click.argument("name")
@on_space
@as_object
def reprocess_workflow(*, name: str, url: str | None, space: str | None, form: Form) -> None:
    """Try everything again that was put aside because of failures."""
    _act("reprocess", Place(url, space), name, form, "{events} of {name} that had been put aside wait again")
