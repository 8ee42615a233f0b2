"""The commands about servers, files and Headwater itself, as they are typed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from headwater.cli.output import Column, Record, json_text, local_time, preview
from headwater.cli.shared_syntax import Group, action, as_list, as_object, on_server, on_space

F = TypeVar("F", bound=Callable[..., Any])

LISTEN: Final = "127.0.0.1:8400"


# --- studio ---------------------------------------------------------------------------------------------------


@click.command("studio")
@click.argument("place", required=False, metavar="[FILE|FOLDER|URL]")
@click.option("--read-only", is_flag=True, help="Show the page, and let it change nothing.")
@click.option("--no-browser", is_flag=True, help="Print the link, and open no browser.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    metavar="N",
    help="Listen at this port. Default: the first free one from 8411.",
)
@action("studio_actions", on_server)
def serve_studio() -> None:
    r"""Show a space on a web page, and act on it.

    \b
    headwater studio shop.db
    headwater studio --read-only --no-browser shop.db
    headwater studio ws://host:8400/shop

    Only you can open the page: its link works once, for 60 seconds. A program may have the file open or not.
    """


# --- serve ----------------------------------------------------------------------------------------------------


@click.command("serve")
@click.option(
    "--store",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="Serve the spaces of this folder. It is created if it does not exist.",
)
@click.option(
    "--listen",
    default=LISTEN,
    show_default=True,
    metavar="HOST:PORT",
    help="Listen at this address. Port 0 is any free port.",
)
@click.option(
    "--tls-cert", type=click.Path(path_type=Path), metavar="FILE", help="Use this certificate (PEM), for wss://."
)
@click.option("--tls-key", type=click.Path(path_type=Path), metavar="FILE", help="Use this private key (PEM).")
@click.option("--insecure", is_flag=True, help="Listen for other machines without a certificate, as behind a proxy.")
@click.option("--host", "hosts", multiple=True, metavar="NAME", help="Accept another host name from clients.")
@click.option(
    "--origin", "origins", multiple=True, metavar="URL", help="Accept connections from web pages of this origin."
)
@click.option("--no-create", is_flag=True, help="Serve only the spaces that exist.")
@click.option("--studio", "has_studio", is_flag=True, help="Serve the Studio at /studio/, for people with a token.")
@click.option(
    "--spaces-max",
    type=click.IntRange(1, 100_000),
    default=2_000,
    show_default=True,
    metavar="N",
    help="Serve at most so many open spaces at the same time.",
)
@click.option(
    "--retain",
    "kept",
    multiple=True,
    metavar="WHAT=TIME",
    help="Keep receipts or sessions for a time, such as receipts=90d. Repeatable.",
)
@click.option(
    "--log",
    type=click.Choice(["text", "json", "off"]),
    default="text",
    show_default=True,
    help="Log to stderr as text or as JSON.",
)
@click.option("--verbose", is_flag=True, help="Log requests for pages, too.")
@click.option("--quiet", is_flag=True, help="Print nothing at the start and at the end.")
@action("serve_actions")
def serve() -> None:
    """Serve the spaces of a folder until Ctrl-C or SIGTERM.

    \b
    headwater serve --store spaces/
    headwater serve --store spaces/ --listen 0.0.0.0:8400 --tls-cert cert.pem --tls-key key.pem
    headwater serve --store spaces/ --studio

    Programs open them with app.open("ws://HOST:PORT/SPACE"). Those of the same user on this machine need no token;
    others need one of `headwater token create`.

    \b
    Pages: /healthz  the process is alive      /metrics  numbers, for Prometheus
           /readyz   it accepts requests       /spaces/{space}/backup  a copy, for owners
           /studio/  the Studio, with --studio
    POST /spaces/{space}/topics/WORKFLOW/TOPIC   an event (JSON, with an Idempotency-Key)
    POST /spaces/{space}/inspect   a question about the space, or a command (JSON)

    The first signal drains it: no more is accepted, what was sent is decided and answered, and clients are asked to
    try again later. The second one ends it at once. Acknowledged commits are on disk either way.
    """  # noqa: D301  # a real backspace: lines that stay as they are


# --- token ----------------------------------------------------------------------------------------------------


def _actor(record: Record) -> str:
    return str(record["actor"] or ("any" if record["any_actor"] else "none"))


def _roles(record: Record) -> str:
    roles = record["roles"]
    assert isinstance(roles, list)
    return ", ".join(roles)


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
    Column("roles", text=_roles),
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
    help_text = "Use the data of this server. Default: $HEADWATER_STORE, or this folder if it has access.json."
    return click.option("--store", metavar="DIR", type=Path, help=help_text)(command)


@click.group("token", cls=Group)
def token() -> None:
    """Manage the tokens and keys of a server.

    Changes take effect at once, also while the server runs. DIR is the one of `headwater serve --store`.
    """


@token.command("create")
@_in_store
@click.option("--space", metavar="S", required=True, help="Grant access to this space; '*' means every space.")
@click.option("--can", type=click.Choice(["read", "write", "own"]), required=True, help="Grant this right.")
@click.option("--actor", metavar="NAME", help="Act as this user. Without a user there are no user documents.")
@click.option("--role", "roles", metavar="ROLE", multiple=True, help="Give a role that rules of collections name.")
@click.option("--any-actor", is_flag=True, help="Act as any user that the program names, and read their documents.")
@click.option("--expires", metavar="30d", help="Expire after this time: 90m, 12h, 30d. Default: never.")
@click.option("--note", "remark", metavar="TEXT", default="", help="Add a note, such as the owner and the purpose.")
@click.option("--key", metavar="PUBLIC", help="Register this public key, and create no token.")
@action("token_actions", as_object(*GRANT, "token"))
def create_token() -> None:
    """Create a token, or register a public key.

    The token is shown once; only its hash is stored. A pipe gets the token alone.
    """


@token.command("ls")
@action("token_actions", _in_store, as_list(*GRANT))
def list_tokens() -> None:
    """List tokens and keys with their rights, actors and expiry times."""


@token.command("revoke")
@click.argument("grant_id", metavar="ID")
@action("token_actions", _in_store, as_object(*GRANT))
def revoke_token() -> None:
    """Revoke a token or key. Clients that are connected with it are disconnected."""


@token.command("keygen")
@click.argument("file", type=Path)
@action("token_actions", as_object("file", "public"))
def make_key() -> None:
    """Write a new private key to FILE, and print its public key.

    Only you can read FILE. The public key is for the administrator of the server: `headwater token create --key
    PUBLIC`. It needs PyNaCl, from `pip install "pynacl>=1.5"`.
    """


@token.command("audit")
@click.option("--limit", metavar="N", type=click.IntRange(min=0), help="Show only the newest N. All are checked.")
@action("token_actions", _in_store, as_list(*AUDIT))
def show_audit() -> None:
    """Show the audit log, oldest first, and check its hashes.

    Exit 1 if it was changed. Each line has the hash of the one before. Lines that are missing at the very end cannot be
    detected.
    """


# --- care of files --------------------------------------------------------------------------------------------


@click.command
@click.option("--rebuild", is_flag=True, help="Make damaged indexes of collections again from the documents.")
@action(
    "care_actions",
    on_space,
    as_list("path", "space", "state", "commits", "documents", "observations", "rebuilt", "findings"),
)
def verify_spaces() -> None:
    """Verify a space, or every space of a folder.

    The database checks its file, the hash chain of the commits is walked, all documents are computed again from the log
    and compared, and the indexes of collections and the tables of workflows are checked for consistency. With
    --rebuild, indexes and totals of collections that are damaged are made again, if the log is sound. Exit 1 if
    anything is wrong, 4 if a space could not be checked because it is open elsewhere.
    """


@click.command
@click.option("--before", metavar="SEQ", type=click.IntRange(min=0), help="Drop the past up to this number, for good.")
@action("care_actions", on_space, as_object("freed", "bytes", "commits_dropped", "first", "observations_dropped"))
def compact_space() -> None:
    """Compact the file of a space, and print the number of freed bytes.

    With --before the log up to SEQ is dropped: documents stay as they are, but their past up to there cannot be
    read any more. It stays from where a branch was forked on. Documents and receipts that had expired by then are
    dropped whole: their ids are new again. Observations of functions whose results were deleted are dropped in any
    case.
    """


@click.command
@click.argument("file", type=Path)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.option("--unverified", is_flag=True, help="Copy the space as it is, even if it is damaged.")
@click.option("--as-new", is_flag=True, help="Give the copy a new id, so that it is a space of its own.")
@action("copy_actions", on_server, as_object("file", "space", "seq", "bytes"))
def back_up() -> None:
    """Copy a space to a new FILE.

    The copy is the same space, with the same id, as it is now. It is verified, and exists whole or not at all. With
    --as-new it is a space of its own, as with `headwater copy`. A server's space stays in use meanwhile; it takes a
    token with the right to own it.
    """


@click.command
@click.argument("file", type=Path)
@click.option("--force", is_flag=True, help="Replace the space if it exists.")
@action("copy_actions", on_space, as_object("space", "path", "seq"))
def restore_space() -> None:
    """Restore a backup to the file that --url names.

    The backup is verified first, and only read. The space keeps its name, unless --space gives it another.
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
    help="Check this file, folder or server. Default: $HEADWATER_URL, headwater.toml, or this folder.",
)
@click.option(
    "--token-file", type=click.Path(path_type=Path), metavar="FILE", help="Read the token for a server from a file."
)
@action("doctor_actions", as_object("ok", "failed", "warnings", "checks"))
def examine() -> None:
    """Check this machine: libraries, SQLite, the folder, free space.

    Of a server (ws://HOST:PORT/SPACE): whether it is reached, how fast it answers, and the rights there.
    Of a database (postgresql://HOST/DATABASE): what it promises about acknowledged commits, and the rights there.
    Exit 0 if nothing failed (warnings may be shown), 1 if something did, 3 if there is no such file or folder.
    """


@click.command
@click.argument("code", required=False)
@action("about_actions", as_list(*ERROR))
def explain() -> None:
    """Explain an error by its CODE, such as HW202.

    Without a CODE, list all errors.
    """


@click.command
@action("about_actions", as_object("headwater", "python", "apsw", "msgspec", "click", "rich", "platform"))
def show_version() -> None:
    """Print the version. With --json, add those of Python and the libraries."""
