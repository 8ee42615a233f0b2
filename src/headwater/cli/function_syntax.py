"""The commands about functions, events and pieces, as they are typed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from headwater.cli.output import Column, Record, json_column, json_text, local_time, number, preview
from headwater.cli.shared_syntax import (
    Group,
    action,
    as_list,
    as_object,
    of_app,
    on_branch,
    on_server,
    to_file,
    wait_options,
    with_app,
)

F = TypeVar("F", bound=Callable[..., Any])


def _count(name: str, title: str | None = None) -> Column:
    return Column(name, title, shown=lambda record: f"{number(record[name]):,.0f}", number=True)


def _duration(name: str, title: str) -> Column:
    return Column(name, title, shown=lambda record: f"{number(record[name]):,.2f}", number=True)


def _called(record: Record) -> str:
    return str(record["function"]) + ("(…)" if record["has_arguments"] else "")


# --- functions ------------------------------------------------------------------------------------------------

EXPLANATION: Final = ("app", "node", "id", "piece", "words", "live", "at")
ACTIVITY: Final = (
    Column("app"),
    Column("function", shown=_called, elastic=True),
    *("kind", "has_arguments", _count("nodes"), "live", "running", "failed", "invalid", "never_ran", "waiting"),
    *("restored", _count("runs"), _count("invalidated"), _duration("mean_ms", "mean ms")),
    *(_duration("total_ms", "total ms"), "last_ms", Column("status")),
)
ORDERS: Final[dict[str, Callable[[Record], object]]] = {
    "total": lambda record: -number(record["total_ms"]),
    "mean": lambda record: -number(record["mean_ms"]),
    "runs": lambda record: -number(record["runs"]),
    "invalidated": lambda record: -number(record["invalidated"]),
    "name": lambda record: str(record["function"]),
}
COUNTS: Final = ("app", "space", "branch", "live", "pid", "at", "busy", "running", "counts")
COUNT: Final = (Column("app"), Column("what"), _count("count"), Column("meaning", "", elastic=True))
STEP: Final = (
    Column("app"),
    Column("at", "when", shown=lambda record: local_time(record["at"], "%H:%M:%S.%f")[:-3]),
    Column("node", shown=lambda record: without_number(record["node"])),
    Column("type", "what"),
)


def without_number(node: object) -> str:
    """The name of a node, without the number that makes it unique."""
    name = str(node).removeprefix("handler:")
    return name.rpartition("#")[0] or name


@click.command
@click.option("--svg", "style", flag_value="svg", help="Draw an SVG picture.")
@click.option("--mermaid", "style", flag_value="mermaid", help="Write a Mermaid diagram, for Markdown.")
@click.option("--json", "style", flag_value="json", help="Print one JSON object: nodes, sources, edges.")
@to_file
@click.option("--live", is_flag=True, help="Draw the graph again at each change, until Ctrl-C.")
@action("graph_actions", of_app, on_server)
def show_graph() -> None:
    """Draw the functions of an app with reads, run counts and status.

    The graph of an open space is current. Otherwise it is as of the last closing.
    """


@click.command
@click.argument("node")
@action("graph_actions", of_app, on_server, as_list(*EXPLANATION))
def explain_node() -> None:
    """Explain why a function ran, and what would make it run again.

    NODE is a function, APP.FUNCTION, or one of several by its arguments: `row(3)`; in `row(…)` the dots stand for
    anything. One of a piece is `label of timer eggs`; `label of timer` are those of all pieces of the pattern.
    """


@click.command
@click.option("--once", is_flag=True, help="Print the table once, also on a terminal.")
@click.option(
    "--sort", type=click.Choice(list(ORDERS)), default="total", show_default=True, help="Sort by this column."
)
@action("activity_actions", of_app, on_server, as_list(*ACTIVITY))
def show_top() -> None:
    """Show the busiest functions with run counts, times and status.

    On a terminal the table stays and follows an open space, until Ctrl-C.
    """


@click.command
@click.option("--resume", is_flag=True, help="Show which functions were restored, and why others were not.")
@action("activity_actions", of_app, on_server, as_list(*COUNTS))
def show_stats() -> None:
    """Show the counters of an app since it opened the space."""


@click.command
@click.option("--kind", metavar="KIND", help="Show only one kind, such as started, finished or invalidated.")
@click.option("-f", "--follow", is_flag=True, help="Follow new steps until Ctrl-C.")
@action("trace_actions", of_app, on_server, as_list(*STEP))
def show_trace() -> None:
    """Show the recorded steps of functions: causes, runs and results.

    An open space records steps if its program says so. With --follow they are recorded while the command runs.
    """


# --- events ---------------------------------------------------------------------------------------------------

_EVENT_ID: Final = re.compile(r"\b(event:[a-z0-9]{8})[a-z0-9]+")


def shorter_ids(text: str) -> str:
    """The text with shorter ids of events."""
    return _EVENT_ID.sub(lambda found: found[1], text)


EVENT: Final = (
    Column("event"),
    Column("at", "failed", shown=lambda record: local_time(record.get("at"), "%m-%d %H:%M:%S")),
    Column("stream"),
    Column("state"),
    Column("attempts", "tries", text=lambda record: str(record.get("attempts", 0)), number=True),
    Column("reason", "why", elastic=True),
    json_column("payload", none="…"),
    *("handler", "app", "to", "traceback", "result", "facts"),
)
DELIVERY: Final = (
    Column("event"),
    Column("stream"),
    Column("state"),
    Column(
        "result",
        text=lambda record: json_text(record["result"]) if "result" in record else str(record.get("reason", "")),
        elastic=True,
    ),
)


def which(command: F) -> F:
    """EVENT... or --all."""
    command = click.option("--all", "every", is_flag=True, help="Choose all failed events.")(command)
    return click.argument("names", metavar="[EVENT]...", nargs=-1)(command)


@click.group("events", cls=Group)
def events() -> None:
    """List, redeliver and drop events that failed or wait.

    An event that fails is stored, with its payload and the reason. EVENT is an id as `events ls` shows it, or the
    beginning of one. If a process has the space open, it answers, and carries out what is to be done.
    """


@events.command("ls")
@click.option("--waiting", is_flag=True, help="List events that wait, instead of failed events.")
@click.option("--outgoing", is_flag=True, help="List events and posts for other spaces, instead of failed events.")
@action("event_actions", on_branch, on_server, as_list(*EVENT))
def list_events() -> None:
    """List failed events, oldest first.

    With --waiting, list waiting events with the reason. They are in the process that has the space open; if there is
    none, in the file. With --outgoing, list what was sent to other spaces and is not handled there, or was rejected.
    """


@events.command("show")
@click.argument("event")
@action("event_actions", on_branch, on_server, as_object(*EVENT))
def show_event() -> None:
    """Show one event: its payload, and why it failed or waits.

    For a handled event, name the whole id. The output is then its result, or why it was rejected.
    """


@events.command("redeliver")
@click.option("--to", default="", metavar="ID", help="Send it to the space with this id instead.")
@action("event_actions", which, wait_options, with_app, on_branch, on_server, as_list(*EVENT))
def redeliver_events() -> None:
    """Redeliver failed events, and show their results.

    The process that has the space open does it; if there is none, and at a server, the app that --app names. An event
    or post for another space waits again for its delivery.
    """


@events.command("drop")
@action("event_actions", which, on_branch, on_server, as_list("event", "stream"))
def drop_events() -> None:
    """Drop events that failed or wait.

    They are deleted for good, and not handled any more.
    """


# --- pieces ---------------------------------------------------------------------------------------------------


def _in_short(record: Record) -> str:
    """The inputs as arguments of a call."""
    inputs = record["inputs"]
    if not isinstance(inputs, dict):
        return ""
    return ", ".join(f"{name}={_link(value) or preview(value)}" for name, value in inputs.items())


def _link(value: object) -> str:
    """The address of a link; empty if the value is no link."""
    match value:
        case {"/": {"link@1": {"id": str(doc), "path": list(path)}}}:
            return "/".join([doc, *map(str, path)])
        case {"/": {"link@1": {"id": str(doc)}}}:
            return doc
        case _:
            return ""


PIECE: Final = (
    Column("app"),
    Column("pattern"),
    Column("key"),
    Column("status"),
    Column("generation", number=True),
    Column("inputs", shown=_in_short, elastic=True),
    Column("piece"),
    *("at_work", "by"),
)


@click.group("pieces", cls=Group, default="ls")
def pieces() -> None:
    """List the pieces that were started from patterns.

    `headwater get PIECE` prints all that is stored of one.
    """


@pieces.command("ls")
@click.option("--pattern", metavar="NAME", help="List only pieces of this pattern.")
@click.option("--status", type=click.Choice(["running", "stopped"]), help="List only pieces with this status.")
@action("piece_actions", on_branch, on_server, as_list(*PIECE))
def list_pieces() -> None:
    """List pieces with pattern, key, status, generation and inputs.

    `running` is a piece that was not stopped. After a restart it runs once the program has started it again: `at_work`
    in JSON, if a process has the space open.
    """
