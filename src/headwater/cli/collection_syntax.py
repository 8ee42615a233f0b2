"""The commands about collections, as they are typed."""

from __future__ import annotations

from typing import Final

import click

from headwater.cli.output import Column, Record
from headwater.cli.shared_syntax import Group, action, as_list, on_branch, on_server


def _changes(record: Record) -> str:
    found = record["changes"]
    assert isinstance(found, list)
    return "; ".join(found)


DEPLOYED: Final = (
    Column("collection"),
    Column("changes", text=_changes, elastic=True),
    Column("seq", shown=lambda record: str(record["seq"] or ""), number=True),
)


@click.group("collections", cls=Group)
def collections() -> None:
    """Manage the collections of a space: their fields, indexes and rules."""


@collections.command("deploy")
@click.argument("name", metavar="MODULE:APP")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@action("deploy_actions", on_branch, on_server, as_list(*DEPLOYED))
def deploy_collections() -> None:
    """Replace fields, types and rules by those that an app declares.

    Opening an app only adds: fields, indexes, wider types. This also takes away: fields, narrower types, other rules.
    Documents are not changed, and indexes stay. At a server, it needs the right to own the space; sessions that the new
    rules concern connect again.
    """
