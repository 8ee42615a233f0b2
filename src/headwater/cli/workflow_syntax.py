"""The commands about apps and workflows, as they are typed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from headwater.cli.output import Column
from headwater.cli.shared_syntax import Group, action, as_list, as_object, numbered, on_server, on_space
from headwater.workflow.workflow_limits import PRIORITY, PRIORITY_MAX

F = TypeVar("F", bound=Callable[..., Any])

WORKFLOW: Final = (
    Column("name"),
    Column("state"),
    Column("sentence"),
    *("schedule", "version", "deployed_at", "intent", "block_kind"),
    Column("pending", text=lambda record: str(sum(record["pending"].values())), number=True),  # type: ignore[attr-defined]
    *("parked", "next_at", "retry_at", Column("due_at", "next"), "failures", "run", "can_ask", "has_effect"),
    *(Column("waiting"), "stale", "gone", "runs", "recent", "handlers", "lanes", "working", "updated_at", "hosted"),
)
RUN: Final = (
    Column("id", "run", number=True),
    Column("created_at", "started"),
    Column("workflow"),
    Column("text", "what", elastic=True),
    Column("state", "outcome", elastic=True),
    *("handler", "kind", "status", "phase", "outcome", "why", "because", "reached", "sentence", "waits_for", "can_ask"),
    *("attempt", "retry_of", "followed_by", "chain", "version", "title", "offered", "taken", "cancelled", "aside"),
    *("error_kind", "error", "service", "retry_at", "lane", "updated_at"),
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
@click.option(
    "--concurrency", type=click.IntRange(1, 1000), metavar="N", help="Run at most N workflows at the same time."
)
@click.option("--force", is_flag=True, help="Deploy even if this gives up waiting runs or events.")
@click.option("--ingress", metavar="HOST:PORT", help="Accept events by HTTP at this address, with HEADWATER_TOKEN.")
@click.option("--quiet", is_flag=True, help="Print nothing at the start and at the end.")
@action("app_actions", on_space)
def run_app() -> None:
    """Run an app and its workflows until Ctrl-C or SIGTERM.

    MODULE is imported as python does it, from the current folder first. The first signal lets runs that are under way
    end, or come to where they can stop; the second one ends at once, and the next start resumes what was left. What
    the app prints goes to standard output.
    """


# --- dev ------------------------------------------------------------------------------------------------------


@click.command("dev")
@click.argument("name", metavar="MODULE:APP")
@click.option(
    "--concurrency", type=click.IntRange(1, 1000), metavar="N", help="Run at most N workflows at the same time."
)
@click.option("--force", is_flag=True, help="Deploy even if this gives up waiting runs or events.")
@click.option("--ingress", metavar="HOST:PORT", help="Accept events by HTTP at this address, with HEADWATER_TOKEN.")
@click.option("--port", type=click.IntRange(0, 65535), metavar="N", help="Serve the Studio at this port.")
@click.option("--read-only", is_flag=True, help="Show the Studio read-only.")
@click.option("--no-browser", is_flag=True, help="Print the link to the Studio, and open no browser.")
@click.option("--no-studio", is_flag=True, help="Run without the Studio.")
@click.option("--program", "is_program", is_flag=True, hidden=True, help="Run as the process that `dev` starts.")
@action("dev_actions", on_server)
def dev() -> None:
    """Run an app and its Studio, and restart it when sources change.

    It ends with Ctrl-C or SIGTERM. The app runs in a process of its own, as with `headwater run`. When a file of it
    changes, the process comes to where it can stop, and is started again: everything it has in the space stays. A
    mistake that keeps it from starting is shown, and the next change is awaited. Without --url, and without a *.db
    here, MODULE.db is used.
    """


# --- workflows ------------------------------------------------------------------------------------------------


def _following(command: F) -> F:
    """`--follow`."""
    text = "Stay and show each change, until Ctrl-C."
    return click.option("--follow", is_flag=True, help=text)(command)


def _exit_code(command: F) -> F:
    """`--exit-code`."""
    return click.option("--exit-code", "tells", is_flag=True, help="Exit with 5 if a workflow waits for a person.")(
        command
    )


@click.group("workflow", cls=Group, default="ls")
def workflow() -> None:
    """List and control workflows.

    NAME is the name of a workflow as `workflow ls` shows it; the part after the dot is enough if it is unique. If a
    process has the space open, it answers, and carries out what is to be done.
    """


@workflow.command("ls")
@click.option("--all", "every", is_flag=True, help="List archived workflows too.")
@action("workflow_actions", _following, _exit_code, on_server, as_list(*WORKFLOW))
def list_workflows() -> None:
    """List workflows with their state, waiting events and next run."""


@workflow.command("show")
@click.argument("name")
@action("workflow_actions", _following, _exit_code, on_server, as_object(*WORKFLOW, "hints"))
def show_workflow() -> None:
    """Show one workflow: its schedule, events, recent runs and commands."""


def _control(name: str, text: str) -> None:
    @workflow.command(name, help=text)
    @click.argument("name")
    @action("workflow_actions", on_server, as_object(*WORKFLOW, "act", "count"), act=name)
    def control_workflow() -> None:
        pass


_control("pause", "Pause a workflow. A run that is under way stops before it acts.")
_control("resume", "Resume a workflow that was paused, or whose problem is fixed.")
_control("now", "Run all producers of a workflow now. Refused while a run is under way.")
_control("archive", "Archive a paused workflow. Lists hide it, and all its data stays.")
_control("restore", "Restore an archived workflow, paused.")
_control("reprocess", "Reprocess all events that were parked because of failures.")


# --- runs -----------------------------------------------------------------------------------------------------


def _by_whom(command: F) -> F:
    """`--by` and `--reason`, which are recorded with a decision."""
    command = click.option("--reason", default="", metavar="TEXT", help="Record this reason with the decision.")(
        command
    )
    return click.option(
        "--by", default="", metavar="NAME", help="Record who decides. Default: the user of this machine."
    )(command)


@click.group("runs", cls=Group, default="ls")
def runs() -> None:
    """List, retry, cancel and abandon runs of workflows.

    RUN is a number as `runs ls` shows it. A new attempt is another run, of the same chain.
    """


@runs.command("ls")
@click.option("--workflow", "name", metavar="NAME", help="List only runs of this workflow.")
@click.option(
    "--status",
    metavar="STATUS",
    help="List only runs with this status. One of active, committed, crashed, paused (paused:transient, "
    "paused:approval, paused:reconciliation), failed (failed:logic, failed:internal).",
)
@click.option("--waiting", is_flag=True, help="List only runs that wait for a person, with commands to type.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="List at most this many.")
@click.option("--all", "every", is_flag=True, help="List runs of producers, and runs without work, too.")
@click.option("--follow", is_flag=True, help="Stay and print each new or changed run, until Ctrl-C.")
@action("run_actions", on_server, as_list(*RUN))
def list_runs() -> None:
    """List runs, newest first, with their subjects and outcomes."""


@runs.command("show")
@numbered("RUN")
@click.option("--timeline/--no-timeline", default=True, help="Show the whole chain of attempts, or this run alone.")
@action("run_actions", on_server, as_object(*RUN_STORY))
def show_run() -> None:
    """Show a run with its attempts, its calls and their keys."""


def _decision(group: click.Group | None, name: str, text: str) -> click.Command:
    @(click.command if group is None else group.command)(name, help=text)
    @numbered("RUN")
    @action("run_actions", _by_whom, on_server, as_object(*RUN, "act"), act=name)
    def decide_run() -> None:
        pass

    return decide_run


_decision(
    runs,
    "retry",
    "Retry a failed run now, or resume a run that was put aside.",
)
_decision(runs, "cancel", "Cancel a run before it acts; its events are skipped. After it has acted: `runs abandon`.")
_decision(
    runs,
    "abandon",
    """Abandon a run after it has acted; its workflow continues.

    `next` is not called. The plan and the result of its call are stored, and its events are parked with them.
    `headwater runs retry RUN` resumes it, from `next` on.""",
)
approve_run = _decision(
    None,
    "approve",
    """Approve the plan of a run, or grant what it waits for.

    `headwater runs show RUN` shows the plan.""",
)
reject_run = _decision(None, "reject", "Reject the plan of a run; its events are skipped.")


@click.command
@numbered("RUN")
@click.option("--applied", "result", metavar="JSON", help="Record that it happened, with this result; - reads it.")
@click.option("--not-applied", is_flag=True, help="Record that it did not happen: it is planned again.")
@click.option("--skip", is_flag=True, help="Continue without it; its events are skipped.")
@click.option("--again", is_flag=True, help="Let the connector look it up again.")
@action("run_actions", _by_whom, on_server, as_object(*RUN, "act"))
def reconcile_run() -> None:
    """Record the outcome of an external call whose result is unknown.

    Look it up outside first, by its key: `headwater runs show RUN` shows it.
    """


# --- inputs and topics ----------------------------------------------------------------------------------------


@click.group("inputs", cls=Group, default="ls")
def inputs() -> None:
    """List, skip and retry inputs of workflows.

    INPUT is a number as `inputs ls` shows it.
    """


@inputs.command("ls")
@click.option("--workflow", "name", metavar="NAME", help="List only inputs of this workflow.")
@click.option(
    "--status", type=click.Choice(["pending", "done", "parked", "skipped"]), help="List only inputs with this status."
)
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="List at most this many.")
@action("input_actions", on_server, as_list(*INPUT))
def list_inputs() -> None:
    """List inputs, newest first, with their outputs."""


def _input_control(name: str, text: str) -> None:
    @inputs.command(name, help=text)
    @numbered("INPUT")
    @action("input_actions", on_server, as_object(*INPUT, "act", "count", "then"), act=name)
    def control_input() -> None:
        pass


_input_control(
    "skip",
    """Skip an input: its waiting events are not handled.

    A plan that waits for an approval and is about it is made anew, without it. What a run holds, it finishes.""",
)
_input_control("retry", "Retry an input that was parked because of failures.")


@click.command("publish")
@click.argument("words", metavar="[FILE] WORKFLOW TOPIC JSON", nargs=-1, required=True)
@click.option("--id", "name", metavar="ID", help="Use this id: an event that is published again is the same event.")
@click.option("--title", default="", metavar="TEXT", help="Give the event a title.")
@click.option(
    "--priority",
    type=click.IntRange(0, PRIORITY_MAX),
    default=PRIORITY,
    show_default=True,
    help="Send this event before waiting ones of a lower priority.",
)
@action("input_actions", on_server, as_object(*PUBLISHED))
def publish_event() -> None:
    """Publish an event to a TOPIC of a WORKFLOW.

    \b
    headwater publish inbox notes '{"name": "a.txt", "text": "buy milk"}' --id a.txt
    headwater publish inbox.db inbox notes - < note.json

    JSON is one value; - reads it. Without --id, the id is made of the value: the same value again is the same event.
    The process that has the space open checks the value; if there is none, it is written to the file, and checked when
    it is consumed.
    """  # noqa: D301  # a real backspace: lines that stay as they are
