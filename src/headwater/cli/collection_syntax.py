"""The commands about collections, as they are typed."""

from __future__ import annotations

from typing import Final

import click

from headwater.cli.output import Column, Record, field_text, json_column
from headwater.cli.shared_syntax import Group, action, as_list, as_object, on_branch, on_server


def _changes(record: Record) -> str:
    found = record["changes"]
    assert isinstance(found, list)
    return "; ".join(found)


DEPLOYED: Final = (
    Column("collection"),
    Column("changes", text=_changes, elastic=True),
    Column("seq", shown=lambda record: str(record["seq"] or ""), number=True),
)


KIND: Final = (
    Column("kind"),
    Column("scope"),
    Column("documents", number=True, shown=lambda record: field_text(record["documents"]) or "many"),
    Column("indexes", text=lambda record: ", ".join(map(field_text, record["indexes"])), elastic=True),  # type: ignore[call-overload]
)
MEMBER: Final = (Column("document"), Column("seq", number=True), json_column("value"))
CHECK: Final = (
    Column("kind"),
    Column("class"),
    Column("documents", number=True),
    Column("fit", number=True),
    Column("old", number=True),
    Column("misfits", number=True),
    Column(
        "unknown",
        "unknown fields",
        text=lambda record: ", ".join(f"{name} ({count})" for name, count in record["unknown"].items()),  # type: ignore[attr-defined]
        elastic=True,
    ),
    "places",
)
MIGRATION: Final = (
    Column("kind"),
    Column("class"),
    Column("documents", number=True),
    Column("migrated", number=True),
    Column("old", "left", number=True),
    Column("misfits", number=True),
    "places",
)
INDEX: Final = (
    Column("index", elastic=True),
    Column("kind"),
    Column("fields", text=lambda record: ", ".join(map(field_text, record["fields"]))),  # type: ignore[call-overload]
    Column("unique", text=lambda record: "unique" if record["unique"] else "total" if record["total"] else ""),
)
BUILT: Final = (*INDEX, Column("built", text=lambda record: "built" if record["built"] else "there"))


@click.group("collections", cls=Group, default="ls")
def collections() -> None:
    """List, check, migrate and deploy collections, and manage indexes."""


@collections.command("ls")
@click.argument("kind", required=False)
@click.option(
    "--where", "conditions", metavar="FIELD=VALUE", multiple=True, help="List only documents with this value."
)
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="List at most N documents.")
@action("collection_actions", on_branch, on_server, as_list(*KIND, *MEMBER))
def list_collections() -> None:
    """List collections; with KIND, the documents of one.

    \b
    headwater collections ls
    headwater collections ls order --where state=open --limit 20

    A VALUE is JSON, or text as it is; of a link, the id of the document that it leads to. Several --where are joined by
    "and". Every document of the kind is read.
    """  # noqa: D301  # a real backspace: lines that stay as they are


@collections.command("check")
@click.argument("name", metavar="MODULE:APP")
@action("migration_actions", on_branch, on_server, as_list(*CHECK))
def check_collections() -> None:
    """Compare all documents of the collections of an app with its classes. Nothing is changed.

    For each kind: documents that fit, those in a former form (which `changes=` of the collection names), and those that
    do not fit, the first ten with their place. Kinds that no class of the app declares are listed without a class; at a
    server, if they are collections. There, a collection with rules needs the right to own the space.

    Exit code 1 if some documents do not fit.
    """


@collections.command("migrate")
@click.argument("name", metavar="MODULE:APP")
@click.option("--dry-run", is_flag=True, help="Show what would be changed, and change nothing.")
@action("migration_actions", on_branch, on_server, as_list(*MIGRATION))
def migrate_collections() -> None:
    """Store the documents of the collections of an app in the form of today.

    `changes=` of `app.collection` says what has changed. 500 documents are one commit; a migration that was interrupted
    is finished by the next one. No function of the app runs. Documents that do not fit are left as they are, and
    listed; then the exit code is 1.

    A file must not be open in another process. At a server, programs go on, and none of their writes is lost; this
    needs the right to own the space.
    """


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


@collections.group("index", cls=Group, default="ls")
def index() -> None:
    """List, build and drop indexes."""


@index.command("ls")
@click.argument("kind", required=False)
@action("index_actions", on_branch, on_server, as_list(*INDEX))
def list_indexes() -> None:
    """List the indexes of all collections, or those of one KIND."""


@index.command("build")
@click.argument("name", metavar="MODULE:APP")
@action("index_actions", on_branch, on_server, as_list(*BUILT))
def build_indexes() -> None:
    """Build the indexes that an app declares, ahead of its next opening. No function of the app runs.

    At a server, this needs the right to own the space.
    """


@index.command("drop")
@click.argument("name", metavar="INDEX")
@click.option("--force", is_flag=True, help="Drop a unique index, too. Equal values are no longer refused then.")
@action("index_actions", on_branch, on_server, as_object("index", "kind", "fields", "unique", "total", "seq"))
def drop_index() -> None:
    """Drop an INDEX, by its name in `headwater collections index ls`.

    The space does not know which programs use it. A program that declares it builds it again when it opens the space.
    At a server, this needs the right to own the space.
    """
