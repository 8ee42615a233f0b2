"""Workflows: workflow ls, show, pause, resume, now, archive, restore, reprocess."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import click

from headwater.cli import output as out
from headwater.cli.exits import Exit
from headwater.cli.output import Form, Grid, Line, Picture, Record, Table
from headwater.cli.target import Target
from headwater.cli.workflow_hints import ago, due, flow_hints, hint_lines, record_of
from headwater.cli.workflow_syntax import WORKFLOW
from headwater.inspect.command_sentences import workflow_sentence
from headwater.inspect.inspector import Inspector
from headwater.inspect.workflow_records import ControlWorkflow, FlowReport, ListWorkflows, WorkflowAction, WorkflowsPage
from headwater.machine import machine
from headwater.values.text import count_text, inert
from headwater.workflow.wording.views import FlowView, LaneView

_SENTENCE_MAX: Final = 400
"""Characters of a sentence. It may contain an error, which `runs show` prints in full."""

_NONE: Final = "no workflows here; an app declares them with app.workflow(...), `headwater run MODULE:APP` runs them"


# --- ls -------------------------------------------------------------------------------------------------------


def _records(page: WorkflowsPage) -> list[Record]:
    return [{**record_of(view), "hosted": view.name in page.hosted} for view in page.flows]


def _shown(page: WorkflowsPage, now: int) -> dict[str, Callable[[Record], str]]:
    """Texts of some columns on a terminal."""
    views = {view.name: view for view in page.flows}
    return {
        "sentence": lambda record: _sentence(views[str(record["name"])]),
        "due_at": lambda record: due(views[str(record["name"])].due_at, now),
    }


def _sentence(view: FlowView) -> str:
    """The state of a workflow, and what needs attention."""
    line = " ".join(view.sentence[: _SENTENCE_MAX * 2].split())
    line = line if len(line) <= _SENTENCE_MAX else line[: _SENTENCE_MAX - 1] + "…"
    if view.parked:
        line += f" {count_text(view.parked, 'event was', 'events were')} put aside."
    if view.stale:
        line += f" {count_text(view.stale, 'input waits', 'inputs wait')} for more than a week."
    return line


def list_workflows(*, every: bool, follow: bool, tells: bool, target: Target, form: Form) -> None:
    """Carry out `workflow ls`."""
    # On a terminal a note below the table has this number.
    without = ["waiting"] if out.is_terminal() else []

    def picture(page: WorkflowsPage, now: int) -> list[Picture]:
        return [Table(_records(page), out.columns_of(WORKFLOW, without, _shown(page, now)))]

    def print_page(page: WorkflowsPage) -> None:
        as_form: Form = "jsonl" if follow and form else form
        out.show(_records(page), WORKFLOW, as_form, empty=_NONE, without=without, shown=_shown(page, page.at))

    question = ListWorkflows(every=every)
    with target.inspector() as inspector:
        if follow:
            _follow(inspector, question, picture, print_page, plainly=form is not None)
            return
        found = inspector.ask(question)
    print_page(found)
    waiting = sum(view.waiting for view in found.flows)
    if form is None and out.is_terminal() and waiting:
        wait = f"{count_text(waiting, 'run waits', 'runs wait')} for you"
        out.note(f"{wait}: `{target.command('runs', '--waiting')}` tells what to type")
    active = [view for view in found.flows if view.intent == "active"]
    if form is None and out.is_terminal() and active and not found.hosted:
        out.note(
            f"no process runs {'it' if len(active) == 1 else 'them'} now; `{target.command('run', 'MODULE:APP')}` does"
        )
    if tells and any(view.block_kind is not None for view in found.flows):
        raise click.exceptions.Exit(Exit.WAITS_FOR_PERSON)


def _follow(
    inspector: Inspector,
    question: ListWorkflows,
    picture: Callable[[WorkflowsPage, int], Sequence[Picture]],
    print_page: Callable[[WorkflowsPage], None],
    *,
    plainly: bool,
) -> None:
    """Draw a picture again at each change; without a terminal, print each new answer."""
    changes = inspector.changes(lambda _last: question)
    if plainly or not out.is_terminal():
        for page in changes:
            if page is not None:
                print_page(page)
                sys.stdout.flush()
        out.note("it was closed")
        return

    def frames() -> Iterator[Sequence[Picture]]:
        last: WorkflowsPage | None = None
        received = 0.0
        for page in changes:
            if page is not None:
                last, received = page, machine().monotonic()
            if last is not None:
                # Also without a change: "in 3 s" is outdated.
                yield picture(last, last.at + int((machine().monotonic() - received) * 1000))

    out.stay(frames())


# --- show -----------------------------------------------------------------------------------------------------


def show_workflow(*, name: str, follow: bool, tells: bool, target: Target, form: Form) -> None:
    """Carry out `workflow show`."""

    def print_page(page: WorkflowsPage) -> None:
        [view] = page.flows
        hosted = view.name in page.hosted
        if form is not None:
            hints = [command for command, _ in flow_hints(target, view, hosted=hosted)]
            out.write(out.json_text({**record_of(view), "hosted": hosted, "hints": hints}))
        elif out.is_terminal():
            out.draw(*_picture(target, page, page.at))
        else:
            for line in _lines(target, view, hosted=hosted):
                out.write_fields(*line)

    question = ListWorkflows(workflow=name)
    with target.inspector() as inspector:
        if follow:
            _follow(
                inspector,
                question,
                lambda page, now: _picture(target, page, now),
                print_page,
                plainly=form is not None,
            )
            return
        found = inspector.ask(question)
    print_page(found)
    if tells and found.flows[0].block_kind is not None:
        raise click.exceptions.Exit(Exit.WAITS_FOR_PERSON)


def _lines(target: Target, view: FlowView, *, hosted: bool) -> list[tuple[str, str]]:
    """The lines for a pipe: a name and a value each."""
    lines = [("name", view.name), ("state", view.state), ("sentence", view.sentence), ("schedule", view.schedule)]
    lines += [("next", out.utc(view.due_at))] if view.due_at is not None else []
    lines += [(f"pending {topic}", str(count)) for topic, count in view.pending.items()]
    lines += [("parked", str(view.parked)), ("waiting", str(view.waiting)), ("stale", str(view.stale))]
    lines += [("failures", str(view.failures))] if view.failures else []
    lines += [("run", str(view.run))] if view.run is not None else []
    lines += [("version", str(view.version)), ("hosted", "yes" if hosted else "no")]
    lines += [
        (f"lane {lane.name}", f"{lane.state}, {count_text(lane.pending, 'event')}: {lane.sentence}")
        for lane in view.lanes
    ]
    lines += [("recent", f"{out.utc(line.at)} {line.text}") for line in view.recent]
    return [*lines, *(("hint", command) for command, _ in flow_hints(target, view, hosted=hosted))]


_STYLES: Final = {"Running": "green", "Idle": "blue", "Needs attention": "bold red", "Stopped": "yellow"}


def _picture(target: Target, page: WorkflowsPage, now: int) -> list[Picture]:
    """The picture for a terminal: the state, the facts, recent runs and commands."""
    [view] = page.flows
    hosted = view.name in page.hosted
    parts: list[Picture] = [
        Line(inert(view.name), "bold", f"  {view.state}", _STYLES.get(view.state, "")),
        Line(inert(_sentence(view))),
        Line(),
        Grid([(Line(f"  {inert(name)}", "dim"), inert(text)) for name, text in _facts(view, now, hosted=hosted)]),
    ]
    if view.lanes:
        lanes = [(Line(f"  {inert(lane.name)}", "dim"), inert(_lane(lane, now))) for lane in view.lanes]
        parts += [Line(), Line("lanes", "bold"), Grid(lanes)]
    if view.recent:
        recent = [(Line(f"  {ago(line.at, now)}", "dim"), inert(line.text)) for line in view.recent]
        parts += [Line(), Line("recently", "bold"), Grid(recent)]
    hints = flow_hints(target, view, hosted=hosted)
    if hints:
        parts += [Line(), Line("what you can do", "bold"), *hint_lines(hints, out.width())]
    return parts


def _lane(lane: LaneView, now: int) -> str:
    """What a lane does, or waits for."""
    run = "" if lane.run is None else f"run {lane.run}: "
    more = f" {count_text(lane.pending, 'event')}." if lane.pending else ""
    again = "" if lane.retry_at is None or lane.retry_at <= now else f" Again {due(lane.retry_at, now)}."
    return f"{run}{lane.sentence}{again}{more}"


def _facts(view: FlowView, now: int, *, hosted: bool) -> list[tuple[str, str]]:
    facts = [(handler.name, handler.when) for handler in view.handlers]
    if view.due_at is not None:
        at = due(view.due_at, now)
        facts.append(("next", at if hosted else f"{at}, if a process runs it"))
    waiting = [f"{count:,} in {topic}" for topic, count in view.pending.items() if count]
    facts.append(("pending", ", ".join(waiting) or "nothing"))
    if view.parked:
        facts.append(("parked", f"{count_text(view.parked, 'event')} put aside because of failures"))
    if view.failures:
        facts.append(("failures", f"{view.failures:,} in a row"))
    if view.run is not None:
        facts.append(("run", str(view.run)))
    return [*facts, ("version", f"{view.version}, deployed {ago(view.deployed_at, now)}")]


# --- control --------------------------------------------------------------------------------------------------


def control_workflow(*, act: WorkflowAction, name: str, target: Target, form: Form) -> None:
    """Carry out a command about one workflow."""
    with target.inspector() as inspector:
        done = inspector.do(ControlWorkflow(workflow=name, action=act))
    flow = done.flow
    record = {**record_of(flow), "act": act, "count": done.count}
    sentence = workflow_sentence(act, done)
    report_done(target, done, form, sentence=sentence, record=record, plain=(flow.name, flow.intent, flow.state))


def report_done(target: Target, done: FlowReport, form: Form, *, sentence: str, record: Record, plain: object) -> None:
    """Report what was done. If no process runs the workflow, note the command that does."""
    out.answer(record, sentence=sentence, plain=plain, form=form)
    is_idle = not done.then and not done.is_hosted and done.flow.intent == "active"
    if form is None and out.is_terminal() and is_idle:
        out.note(f"no process runs {done.flow.name} now; `{target.command('run', 'MODULE:APP')}` does")
