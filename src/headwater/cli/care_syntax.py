"""The commands about servers, files and Headwater itself, as they are typed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from headwater.cli.output import Column, Record, json_text, local_time, preview
from headwater.cli.shared_syntax import Group, action, as_list, as_object, on_space, on_space_or_server

F = TypeVar("F", bound=Callable[..., Any])

LISTEN: Final = "127.0.0.1:8400"


# --- serve ----------------------------------------------------------------------------------------------------


@click.command("serve")
@click.option(
    "--store",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="The folder of the spaces: a file for each. Created if it does not exist.",
)
@click.option("--listen", default=LISTEN, show_default=True, metavar="HOST:PORT", help="Port 0 is any that is free.")
@click.option("--tls-cert", type=click.Path(path_type=Path), metavar="FILE", help="A certificate (PEM), for wss://.")
@click.option("--tls-key", type=click.Path(path_type=Path), metavar="FILE", help="Its private key (PEM).")
@click.option("--insecure", is_flag=True, help="Listen for other machines without a certificate, as behind a proxy.")
@click.option("--host", "hosts", multiple=True, metavar="NAME", help="Another name that clients may use for it.")
@click.option("--origin", "origins", multiple=True, metavar="URL", help="An origin whose web pages may connect.")
@click.option("--no-create", is_flag=True, help="Serve only the spaces that exist.")
@click.option(
    "--log",
    type=click.Choice(["text", "json", "off"]),
    default="text",
    show_default=True,
    help="The log on stderr: lines for people or for programs.",
)
@click.option("--verbose", is_flag=True, help="Log requests for pages, too.")
@click.option("--quiet", is_flag=True, help="Print nothing at the start and at the end.")
@action("serve_actions")
def serve() -> None:
    """Serve the spaces of a folder to programs elsewhere, until Ctrl-C or SIGTERM.

    \b
    headwater serve --store spaces/
    headwater serve --store spaces/ --listen 0.0.0.0:8400 --tls-cert cert.pem --tls-key key.pem

    Programs open them with app.open("ws://HOST:PORT/SPACE"). Those of the same user on this machine need no token;
    others need one of `headwater token create`.

    \b
    Pages: /healthz  the process is alive      /metrics  numbers, for Prometheus
           /readyz   it accepts requests       /spaces/SPACE/backup  a copy, with the right to own
    POST /spaces/SPACE/topics/WORKFLOW/TOPIC   an event (JSON, with an Idempotency-Key)

    The first signal drains it: no more is accepted, what was sent is decided and answered, and clients are asked to
    try again later. The second one ends it at once. Acknowledged commits are on disk either way.
    """  # a real backspace: click's mark for lines that stay as they are  # noqa: D301  # a real backspace: click's mark for lines that stay as they are


# --- token ----------------------------------------------------------------------------------------------------


def _actor(record: Record) -> str:
    return str(record["actor"] or ("any" if record["any_actor"] else "none"))


def _expires(record: Record) -> str:
    return "expired" if record["expired"] else local_time(record["expires"], "%Y-%m-%d %H:%M") or "never"


def _facts_in_short(record: Record) -> str:
    facts = record["facts"]
    assert isinstance(facts, dict)
    known = {name: value for name, value in facts.items() if value not in (None, "")}
    return "  ".join(f"{name}={value if isinstance(value, str) else preview(value)}" for name, value in known.items())


GRANT: Final = (
    Column("id"),
    Column("kind"),
    Column("space"),
    Column("can"),
    Column("actor", text=_actor),
    "any_actor",
    Column("created", shown=lambda record: local_time(record["created"], "%Y-%m-%d %H:%M")),
    Column("expires", shown=_expires),
    "expired",
    Column("note", elastic=True),
    "public",
)
AUDIT: Final = (
    Column("n", number=True),
    Column("at", shown=lambda record: local_time(record["at"], "%Y-%m-%d %H:%M")),
    Column("event"),
    Column("facts", text=lambda record: json_text(record["facts"]), shown=_facts_in_short, elastic=True),
)


def _in_store(command: F) -> F:
    """`--store`."""
    help_text = "The server's data; else $HEADWATER_STORE, or this folder if it has access.json."
    return click.option("--store", metavar="DIR", type=Path, help=help_text)(command)


@click.group("token", cls=Group)
def token() -> None:
    """Manage who may use a server: tokens and keys.

    Changes take effect at once, also while the server runs. DIR is the one of `headwater serve --store`.
    """


@token.command("create")
@_in_store
@click.option("--space", metavar="S", required=True, help="Which space; '*' for every one.")
@click.option("--can", type=click.Choice(["read", "write", "own"]), required=True, help="Its right there.")
@click.option("--actor", metavar="NAME", help="The user it acts as. Without one there are no user documents.")
@click.option("--any-actor", is_flag=True, help="It acts as any user the program names, and reads their documents.")
@click.option("--expires", metavar="30d", help="How long it is valid: 90m, 12h, 30d. Without end unless given.")
@click.option("--note", "remark", metavar="TEXT", default="", help="For you: who has it, and what for.")
@click.option("--key", metavar="PUBLIC", help="Register this public key; no token is made.")
@as_object(*GRANT, "token")
@action("token_actions")
def create_token() -> None:
    """Make a token, or register a public key.

    The token is shown once; only its hash is stored. A pipe gets the token alone.
    """


@token.command("ls")
@_in_store
@as_list(*GRANT)
@action("token_actions")
def list_tokens() -> None:
    """List tokens and keys: the right of each, its actor, and until when. The tokens themselves are not stored."""


@token.command("revoke")
@click.argument("grant_id", metavar="ID")
@_in_store
@as_object(*GRANT)
@action("token_actions")
def revoke_token() -> None:
    """Revoke a token or key. Clients that are connected with it are disconnected."""


@token.command("keygen")
@click.argument("file", type=Path)
@as_object("file", "public")
@action("token_actions")
def make_key() -> None:
    """Write a new private key into FILE, which only you can read, and print its public key.

    The public key is for the administrator of the server: `headwater token create --key PUBLIC`. It needs PyNaCl, from
    `pip install "pynacl>=1.5"`.
    """


@token.command("audit")
@click.option("--limit", metavar="N", type=click.IntRange(min=0), help="Only the newest N. All are checked.")
@_in_store
@as_list(*AUDIT)
@action("token_actions")
def show_audit() -> None:
    """Show the audit log, oldest first, and check that it was not changed. Exit 1 if it was.

    Each line has the hash of the one before. Lines that are missing at the very end cannot be detected.
    """


# --- care of files --------------------------------------------------------------------------------------------


@click.command
@on_space
@as_list("path", "space", "state", "commits", "documents", "observations", "findings")
@action("care_actions")
def verify_spaces() -> None:
    """Check that a space, or every space of a folder, holds what was written.

    The database checks its file, the hash chain of the commits is walked, all documents are computed again from the log
    and compared, and the tables of workflows are checked for consistency. Exit 1 if anything is wrong, 4 if a space
    could not be checked because it is open elsewhere.
    """


@click.command
@click.option("--before", metavar="SEQ", type=click.IntRange(min=0), help="Drop the past up to this number, for good.")
@on_space
@as_object("freed", "bytes", "commits_dropped", "first", "observations_dropped")
@action("care_actions")
def compact_space() -> None:
    """Make a space's file as small as it can be, and print how many bytes were freed.

    With --before the log up to SEQ is dropped: documents stay as they are, but their past up to there cannot be
    read any more. It stays from where a branch was forked on. Observations of functions whose results were deleted are
    dropped in any case.
    """


@click.command
@click.argument("file", type=Path)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.option("--unverified", is_flag=True, help="Copy it as it is, even a damaged space.")
@on_space_or_server
@as_object("file", "space", "seq", "bytes")
@action("copy_actions")
def back_up() -> None:
    """Copy a space into a new FILE, which is a space itself. It is verified, and there whole or not at all.

    A server's space stays in use meanwhile; it takes a token with the right to own it.
    """


@click.command
@click.argument("file", type=Path)
@click.option("--force", is_flag=True, help="Replace the space if it exists.")
@on_space
@as_object("space", "path", "seq")
@action("copy_actions")
def restore_space() -> None:
    """Restore a backup to the file that --url names, after verifying it.

    The backup is only read. The space keeps its name, unless --space gives it another.
    """


# --- this machine ---------------------------------------------------------------------------------------------

CHECK: Final = (
    Column("check"),
    Column("state", shown=lambda record: str(record["state"]).replace("failed", "FAILED")),
    Column("found"),
)
ERROR: Final = (
    Column("code"),
    Column("error"),
    Column("summary", "what it says", elastic=True),
    *("meaning", "tree", "exit"),
)


@click.command
@click.option(
    "--url",
    metavar="URL",
    help="Where the data lives, or ws://...; else $HEADWATER_URL, headwater.toml, or this folder.",
)
@click.option(
    "--token-file", type=click.Path(path_type=Path), metavar="FILE", help="For a server: a file with the token."
)
@as_object("ok", "failed", "warnings", "checks")
@action("doctor_actions")
def examine() -> None:
    """Check that this machine is fit: libraries, SQLite, the folder, free space.

    Of a server (ws://HOST:PORT/SPACE): whether it is reached, how fast it answers, and the rights there.
    Exit 0 if nothing failed (warnings may be shown), 1 if something did, 3 if there is no such file or folder.
    """


@click.command
@click.argument("code", required=False)
@as_list(*ERROR)
@action("about_actions")
def explain() -> None:
    """Explain an error by its CODE, such as HW202; without one, list them all."""


@click.command
@as_object("headwater", "python", "apsw", "msgspec", "click", "rich", "platform")
@action("about_actions")
def show_version() -> None:
    """Print the version; with --json also those of Python and the libraries."""
