"""The commands about documents and branches, as they are typed."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from headwater.cli.output import Column, field_text, json_column, local_time
from headwater.cli.shared_syntax import (
    action,
    as_list,
    as_object,
    at_seq,
    on_branch,
    on_server,
    on_space,
    to_file,
    wait_options,
    with_app,
)

_SIGNS: Final = {"added": "+", "removed": "-", "changed": "~"}

DOCUMENT: Final = (
    Column("document"),
    Column("seq", number=True),
    Column("deleted", "state", text=lambda record: "deleted" if record["deleted"] else "live"),
    json_column("value"),
)
CHANGE: Final = (
    Column("seq", number=True),
    Column("at", "when", shown=lambda record: local_time(record["at"])),
    "branch",
    "session",
    Column("change", elastic=True),
    json_column("value"),
)
DIFFERENCE: Final = (
    Column("change", "", text=lambda record: _SIGNS[str(record["change"])]),
    Column("address"),
    json_column("before"),
    json_column("after"),
)
BRANCH: Final = (
    Column("branch"),
    Column("from"),
    Column("at", number=True),
    Column("merged", text=lambda record: ", ".join(map(field_text, record["merged"]))),  # type: ignore[call-overload]
)


# --- documents ------------------------------------------------------------------------------------------------


@click.command
@click.argument("prefix", required=False, default="")
@click.option("-l", "--long", is_flag=True, help="Show the values, too.")
@click.option("--deleted", is_flag=True, help="List deleted documents, too.")
@click.option("--all", "every", is_flag=True, help="List the documents of events, too: receipts, failed events.")
@action("document_actions", at_seq, on_branch, on_server, as_list(*DOCUMENT))
def list_documents() -> None:
    """List documents, with the sequence number of their last change.

    With PREFIX only those whose address starts with it. Documents of events, and those with the types that apps
    declare, are listed with --all, or if PREFIX names them: `receipt:`, `failed:`, `events:`, `schema:`.
    """


@click.command
@click.argument("path")
@click.option("-r", "--raw", is_flag=True, help="Print text without quotes, and bytes as they are.")
@action("document_actions", at_seq, on_branch, on_server, as_object("address", "branch", "seq", "value"))
def get_value() -> None:
    """Print a document, or the value at a PATH in one, as JSON.

    With --json, an object that also has the address and the sequence number.
    """


@click.command(context_settings={"ignore_unknown_options": True})  # or -5 would be taken for an option
@click.argument("path")
@click.argument("text", metavar="JSON", required=False)
@click.option("--delete", is_flag=True, help="Delete the document, or remove the value at PATH from it.")
@click.option(
    "--create/--no-create",
    default=None,
    help="Create a document that no app has declared. --no-create: create no space.",
)
@click.option("--force", is_flag=True, help="Write a value that does not fit the types of its collection. For owners.")
@action("write_actions", on_branch, on_server, as_object("address", "branch", "seq", "changed"))
def set_value() -> None:
    """Write a JSON value at a PATH and print the commit's sequence number.

    \b
    headwater set notes '{"title": "milk"}'      the whole document
    headwater set notes/title '"tea"'            one value in it; text needs its own quotes
    headwater set notes/items/0 -                from standard input
    headwater set notes/title --delete

    Missing maps on the way are created. In a list, the number after the last appends an element. A value that does not
    fit the type that an app has declared is refused; a document that no app has declared needs --create, if there are
    apps.
    """  # noqa: D301  # a real backspace: lines that stay as they are


@click.command("watch")
@click.argument("path")
@click.option("--jsonl", is_flag=True, help="Print an object for each change: seq, and value if there is one.")
@click.option("--count", metavar="N", type=click.IntRange(min=1), help="Stop after N lines, the first one included.")
@action("watch_actions", on_branch, on_server)
def watch_value() -> None:
    """Print a value of a server's space at each change, until Ctrl-C.

    \b
    headwater watch notes/title --url ws://localhost:8400/home
    headwater watch notes --url ws://localhost:8400/home --jsonl | jq .value

    PATH is a document, or the path of a value in one. While there is no value, nothing is printed, so `--count 1` waits
    for the first value; with --jsonl that is a line, too. A lost connection is made again; changes that were missed
    are then printed as one.
    """  # noqa: D301  # a real backspace: lines that stay as they are


@click.command
@click.argument("path")
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="List only the newest N.")
@action("document_actions", at_seq, on_branch, on_server, as_list(*CHANGE))
def show_history() -> None:
    """List the changes of a document, newest first.

    With a PATH into it, only the changes of that value, and what it changed to.
    """


@click.command
@click.argument("before", metavar="SEQ", type=click.IntRange(min=0))
@click.argument("after", metavar="SEQ", type=click.IntRange(min=0))
@click.argument("prefix", required=False, default="")
@action("document_actions", on_branch, on_space, as_list(*DIFFERENCE))
def show_diff() -> None:
    """Show the differences between two sequence numbers.

    With PREFIX only in documents whose address starts with it.
    """


# --- events ---------------------------------------------------------------------------------------------------


@click.command
@click.argument("handler")
@click.argument("pairs", metavar="[NAME=VALUE]...", nargs=-1)
@click.option("--json", "text", metavar="OBJECT", help="Send this JSON object as the payload; - reads standard input.")
@click.option("--id", "name", metavar="ID", help="Use your own id: an event that is sent again is handled once.")
@click.option("--by", metavar="NAME", help="Name the source of that id, such as a webhook. Default: the actor.")
@wait_options
@click.option("--full", is_flag=True, help="Print one JSON object: event, state, result, reason.")
@action("event_actions", with_app, on_branch, on_space)
def send_event() -> None:
    """Send an event to a HANDLER, and print its result.

    \b
    headwater send submit note=gift              text, if it is no JSON
    headwater send submit amount=3 'tags=["a"]'
    headwater send submit --json '{"amount": 3}' --id order-17
    headwater send "tick of timer eggs"          a handler of a piece

    The process that has the space open sends it; if there is none, the app that --app names. With --no-wait, an event
    that is not handled yet is in the memory of that process only. It is lost if the process is killed, not if it
    closes the space.
    """  # noqa: D301  # a real backspace: lines that stay as they are


# --- the space as lines of JSON -------------------------------------------------------------------------------


@click.command
@to_file
@click.option("--history", is_flag=True, help="Export the whole log: all branches, and the past.")
@action("exchange_actions", at_seq, on_branch, on_space)
def export_space() -> None:
    """Write all documents as lines of JSON, for `headwater import`.

    Without --history one line per document, as of one sequence number; with it the space itself, commit by commit.
    """


@click.command
@click.argument("file")
@click.option("--create/--no-create", default=True, help="Create the space if it is missing. Default: --create.")
@click.option("--force", is_flag=True, help="Import values that do not fit the types of this space, too.")
@action("exchange_actions", on_branch, on_space, as_object("documents", "commits", "changed", "branch", "seq"))
def import_space() -> None:
    """Import an export from a FILE or from standard input (-).

    All lines are checked first: if one is wrong, or does not fit the types that are declared in the space, it is named
    and nothing is imported. Documents that are the same already are left alone, so importing twice is idempotent. An
    export with --history makes a new space, or continues
    a space that has the same past.

    An export that was altered is refused: its last line has a digest of the others. Documents that were edited on
    purpose are imported once "digest" is removed from that line.
    """


# --- branches -------------------------------------------------------------------------------------------------


@click.command
@action("branch_actions", on_space, as_list(*BRANCH))
def list_branches() -> None:
    """List branches with their origins and merges."""


@click.command
@click.argument("name")
@click.option("--from", "parent", metavar="BRANCH", default="main", help="Start from this branch. Default: main.")
@click.option(
    "--at", metavar="SEQ", type=click.IntRange(min=0), help="Start at this sequence number. Default: the newest."
)
@click.option("--to", metavar="FILE", type=Path, help="Create the branch in a copy of the space, a new space.")
@action("branch_actions", on_space, as_object("branch", "from", "at", "seq", "id"))
def fork_branch() -> None:
    """Create a branch.

    Changes there stay apart until they are merged. A branch costs one row, whatever the space holds. A name is never
    used for a second branch. With --to, FILE becomes a copy of the space with an id of its own, and has the branch; the
    space itself stays as it is.
    """


@click.command
@click.argument("source")
@click.option("--into", metavar="BRANCH", default="main", help="Merge into this branch. Default: main.")
@action("branch_actions", on_space, as_object("source", "into", "seq", "documents"))
def merge_branch() -> None:
    """Merge the changed documents of branch SOURCE into another branch.

    Nothing is merged if both changed the same document differently; the documents are listed then (exit 4).
    """
