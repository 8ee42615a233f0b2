"""The commands about spaces as a whole, as they are typed: their names, ids and copies."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from headwater.cli.output import Column
from headwater.cli.shared_syntax import Group, action, as_list, as_object, on_space
from headwater.values.text import size_text

SPACE: Final = (
    Column("space", elastic=True),
    Column("id"),
    Column("lineage"),
    Column("bytes", "size", shown=lambda record: size_text(int(str(record["bytes"]))), number=True),
    Column("state", shown=lambda record: str(record["state"] or "")),
    "process",
    Column("path", elastic=True),
)
_NEW: Final = ("space", "id", "lineage", "path", "dropped")


@click.group("spaces", cls=Group, default="ls")
def spaces() -> None:
    """List spaces, and change what identifies them.

    The id of a space is made with its file, and names it in links. The name is for people, and may change.
    """


@spaces.command("ls")
@click.argument("folder", required=False, default=".")
@action("space_actions", as_list(*SPACE))
def list_spaces() -> None:
    """List the spaces of a folder or a database.

    FOLDER may be postgresql://HOST/DATABASE. Without it, those of this folder. Nothing is opened for writing, so
    spaces in use are listed too.
    """


@spaces.command("new-id")
@click.argument("file", type=Path)
@action("space_actions", as_object(*_NEW))
def renew_id() -> None:
    """Give the copy of a space an id of its own.

    FILE is a file that was copied by hand: its id is that of the original. The log is kept. Links that name the former
    id go on leading to the original. What the space was about to send to other spaces is dropped, because the original
    sends it.
    """


@spaces.command("rename")
@click.argument("name")
@action("space_actions", on_space, as_object("space", "before", "id", "path"))
def rename_space() -> None:
    """Give a space another NAME. It keeps its id, so links lead to it as before.

    In a folder of spaces, its file is renamed too. Tokens are for names: create new ones.
    """


@click.command("copy")
@click.argument("source", metavar="A")
@click.argument("destination", metavar="B")
@click.option("--space", metavar="NAME", help="Choose a space of the folder A. Default: main.")
@click.option("--name", metavar="NAME", help="Give the copy this name. Default: the same name.")
@click.option("--force", is_flag=True, help="Replace the space at B if it exists.")
@click.option("--token-file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Read the token.")
@action("space_actions", as_object(*_NEW, "seq", "bytes"))
def copy_space() -> None:
    """Copy the space A to B, as a new space with an id of its own.

    A is FILE.db, FOLDER/ or ws://HOST:PORT/SPACE, B is FILE.db or FOLDER/. The copy has the same documents and the same
    past. No session continues in it, and nothing that A is about to send to other spaces is sent from there.
    """
