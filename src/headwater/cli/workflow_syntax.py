"""The commands about apps and workflows, as they are typed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from headwater.cli.output import Column
from headwater.cli.shared_syntax import Group, action, as_list, as_object, numbered, on_space, on_space_or_server

F = TypeVar("F", bound=Callable[..., Any])

WORKFLOW: Final = (
    Column("name"),
    Column("state"),
    Column("sentence"),
    *("schedule", "version", "deployed_at", "intent", "block_kind"),
    Column("pending", text=lambda record: str(sum(record["pending"].values())), number=True),  # type: ignore[attr-defined]
    *("parked", "next_at", "retry_at", Column("due_at", "next"), "failures", "run", "can_ask", "has_effect"),
    *(Column("waiting"), "stale", "gone", "runs", "recent", "handlers", "updated_at", "hosted"),
)
RUN: Final = (
    Column("id", "run", number=True),
    Column("created_at", "started"),
    Column("workflow"),
    Column("text", "what", elastic=True),
    Column("state", "what became of it", elastic=True),
    *("handler", "kind", "status", "phase", "outcome", "why", "because", "reached", "sentence", "waits_for", "can_ask"),
    *("attempt", "retry_of", "followed_by", "chain", "version", "title", "offered", "taken", "cancelled", "aside"),
    *("error_kind", "error", "service", "retry_at", "updated_at"),
)
WAITING_RUN: Final = (*RUN, Column("answers", "what to type", text=lambda record: "; ".join(record["answers"])))  # type: ignore[arg-type]
RUN_STORY: Final = (
    *("run", "details", "plan", "result", "call", "events", "inputs", "chain", "calls", "block_kind", "decisions"),
)
INPUT: Final = (
    Column("id", "input", number=True),
    Column("created_at", "came in"),
    Column("workflow"),
    Column("status"),
    Column("title", "what", elastic=True),
    Column("outputs", "done because of it", text=lambda record: ", ".join(record["outputs"]), elastic=True),  # type: ignore[arg-type]
    *("source", "external", "stale"),
)
PUBLISHED: Final = ("workflow", "topic", "id", "status", "news", "checked", "hosted", "then")


# --- run ------------------------------------------------------------------------------------------------------


@click.command("run")
@click.argument("name", metavar="MODULE:APP")
@click.option("--concurrency", type=click.IntRange(1, 1000), metavar="N", help="Workflows that run at the same time.")
@click.option("--force", is_flag=True, help="Deploy although something that waits would be given up.")
@click.option(
    "--ingress", metavar="HOST:PORT", help="Take events for topics by HTTP there; the token is HEADWATER_TOKEN."
)
@click.option("--quiet", is_flag=True, help="Print nothing at the start and at the end.")
@on_space
@action("app_actions")
def run_app() -> None:
    """Run an app and its workflows until Ctrl-C or SIGTERM.

    MODULE is imported as python does it, from the current folder first. The first signal lets runs that are under way
    end, or come to where they can stop; the second one ends at once, and the next start resumes what was left. What
    the app prints goes to standard output.
    """


# --- workflows ------------------------------------------------------------------------------------------------


def _following(command: F) -> F:
    """`--follow`."""
    text = "Stay, and show it anew whenever something happens, until Ctrl-C."
    return click.option("--follow", is_flag=True, help=text)(command)


def _exit_code(command: F) -> F:
    """`--exit-code`."""
    return click.option("--exit-code", "tells", is_flag=True, help="Exit with 5 if it waits for a person.")(command)


@click.group("workflow", cls=Group, default="ls")
def workflow() -> None:
    """List workflows, pause them, run them now.

    NAME is the name of a workflow as `workflow ls` shows it; the part after the dot is enough if it is unique. If a
    process has the space open, it answers, and carries out what is to be done.
    """


@workflow.command("ls")
@click.option("--all", "every", is_flag=True, help="Archived ones, too.")
@_following
@_exit_code
@on_space_or_server
@as_list(*WORKFLOW)
@action("workflow_actions")
def list_workflows() -> None:
    """List the workflows: their state, what waits, and when something happens next."""


@workflow.command("show")
@click.argument("name")
@_following
@_exit_code
@on_space_or_server
@as_object(*WORKFLOW, "hints")
@action("workflow_actions")
def show_workflow() -> None:
    """Show one workflow: what it does and when, what waits, what was done last, and what you can do."""


def _control(name: str, text: str) -> None:
    @workflow.command(name, help=text)
    @click.argument("name")
    @on_space_or_server
    @as_object(*WORKFLOW, "act", "count")
    @action("workflow_actions", act=name)
    def control_workflow() -> None:
        pass


_control("pause", "Start nothing more of a workflow; a run that is under way stops before it acts.")
_control("resume", "Continue a workflow that was paused, or whose problem is fixed.")
_control("now", "Run all producers of a workflow now; refused while anything of it is under way.")
_control("archive", "Hide a paused workflow from the lists. All its data stays.")
_control("restore", "Bring an archived workflow back, paused.")
_control("reprocess", "Try all events again that were parked because of failures.")


# --- runs -----------------------------------------------------------------------------------------------------


def _by_whom(command: F) -> F:
    """Options of the commands by which a person decides about a run: recorded with the decision."""
    command = click.option("--reason", default="", metavar="TEXT", help="Why: recorded with the decision.")(command)
    return click.option("--by", default="", metavar="NAME", help="Who decides; else the user of this machine.")(command)


@click.group("runs", cls=Group, default="ls")
def runs() -> None:
    """List the runs of workflows, try them again, cancel them, put them aside.

    RUN is a number as `runs ls` shows it. A new attempt is another run, of the same chain.
    """


@runs.command("ls")
@click.option("--workflow", "name", metavar="NAME", help="Only those of this workflow.")
@click.option(
    "--status",
    metavar="STATUS",
    help="Only those with this status: active, committed, crashed, paused (paused:transient, paused:approval, "
    "paused:reconciliation: those that still are), failed (failed:logic, failed:internal).",
)
@click.option("--waiting", is_flag=True, help="Only those that wait for a person, with what to type.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most this many.")
@click.option("--all", "every", is_flag=True, help="Also those that had nothing to do, and those of producers.")
@click.option("--follow", is_flag=True, help="Stay, and print each that begins or changes, until Ctrl-C.")
@on_space_or_server
@as_list(*RUN)
@action("run_actions")
def list_runs() -> None:
    """List the runs, newest first: what each was about, and its outcome."""


@runs.command("show")
@numbered("RUN")
@click.option("--timeline/--no-timeline", default=True, help="The whole chain of attempts, or this run alone.")
@on_space_or_server
@as_object(*RUN_STORY)
@action("run_actions")
def show_run() -> None:
    """Show a run: every attempt, what was called with which key, and what is known of it."""


def _decision(group: click.Group | None, name: str, text: str) -> click.Command:
    @(click.command if group is None else group.command)(name, help=text)
    @numbered("RUN")
    @_by_whom
    @on_space_or_server
    @as_object(*RUN, "act")
    @action("run_actions", act=name)
    def decide_run() -> None:
        pass

    return decide_run


_decision(
    runs,
    "retry",
    "Try a failed run again now, as if it had not failed before; or resume one that was put aside.",
)
_decision(runs, "cancel", "Give a run up before it acts; its events are skipped. After it has acted: `runs abandon`.")
_decision(
    runs,
    "abandon",
    """Put a run aside after it has acted: `next` is not called, and its workflow goes on with other events.

    The plan and the result of its call are stored, and its events are parked with them. `headwater runs retry RUN`
    resumes it, from `next` on.""",
)
approve_run = _decision(
    None,
    "approve",
    """Approve what a run has planned; or: what it waited for is granted.

    `headwater runs show RUN` shows what that is.""",
)
reject_run = _decision(None, "reject", "Reject what a run has planned: it is not done, and its events are skipped.")


@click.command
@numbered("RUN")
@click.option("--applied", "result", metavar="JSON", help="It happened, with this result; - reads it.")
@click.option("--not-applied", is_flag=True, help="It did not happen: it is planned anew.")
@click.option("--skip", is_flag=True, help="Go on without it; its events are skipped.")
@click.option("--again", is_flag=True, help="Have the connector look it up once more.")
@_by_whom
@on_space_or_server
@as_object(*RUN, "act")
@action("run_actions")
def reconcile_run() -> None:
    """Record the outcome of an external call whose result is unknown.

    Look it up outside first, by its key: `headwater runs show RUN` shows it.
    """


# --- inputs and topics ----------------------------------------------------------------------------------------


@click.group("inputs", cls=Group, default="ls")
def inputs() -> None:
    """List what came in and what was done because of it, skip it, try it again.

    INPUT is a number as `inputs ls` shows it.
    """


@inputs.command("ls")
@click.option("--workflow", "name", metavar="NAME", help="Only those of this workflow.")
@click.option(
    "--status", type=click.Choice(["pending", "done", "parked", "skipped"]), help="Only those with this status."
)
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most this many.")
@on_space_or_server
@as_list(*INPUT)
@action("input_actions")
def list_inputs() -> None:
    """List what came in, newest first, and what was done because of it."""


def _input_control(name: str, text: str) -> None:
    @inputs.command(name, help=text)
    @numbered("INPUT")
    @on_space_or_server
    @as_object(*INPUT, "act", "count", "then")
    @action("input_actions", act=name)
    def control_input() -> None:
        pass


_input_control(
    "skip",
    """Skip an input: the events that wait because of it are not handled.

    A plan that waits for an approval and is about it is made anew, without it. What a run holds, it finishes.""",
)
_input_control("retry", "Try an input again that was parked because of failures.")


@click.command("publish")
@click.argument("words", metavar="[FILE] WORKFLOW TOPIC JSON", nargs=-1, required=True)
@click.option("--id", "name", metavar="ID", help="The id that its source has for it: published again, it is the same.")
@click.option("--title", default="", metavar="TEXT", help="A title for people.")
@on_space_or_server
@as_object(*PUBLISHED)
@action("input_actions")
def publish_event() -> None:
    """Publish an event to a TOPIC of a WORKFLOW.

    \b
    headwater publish inbox notes '{"name": "a.txt", "text": "buy milk"}' --id a.txt
    headwater publish inbox.db inbox notes - < note.json

    JSON is one value; - reads it. Without --id, the id is made of the value: the same value again is the same event.
    The process that has the space open checks the value; if there is none, it is written to the file, and checked when
    it is consumed.
    """  # a real backspace: click's mark for lines that stay as they are  # noqa: D301  # a real backspace: click's mark for lines that stay as they are
