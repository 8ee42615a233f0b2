"""Branches: list, fork, merge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from headwater.cli.options import as_list, as_object, on_space
from headwater.cli.output import Column, Form, answer, count_text, show

if TYPE_CHECKING:
    from headwater.values.ids import Seq


_COLUMNS: Final = (
    Column(title="branch", text=lambda record: str(record["branch"])),
    Column(title="from", text=lambda record: str(record["from"] or "")),
    Column(title="at", text=lambda record: "" if record["at"] is None else str(record["at"]), number=True),
    Column(title="merged", text=lambda record: ", ".join(map(str, record["merged"]))),  # type: ignore[call-overload]
)


@click.command
@on_space
@as_list
def list_branches(*, url: str | None, space: str | None, form: Form) -> None:
    """List branches, where each was forked, and what was merged into it."""
    from headwater.cli.spaces import open_space

    with open_space(url, space) as storage:
        rows = storage.call(lambda engine: list(engine.documents.branches.values()))
    records = [
        {
            "branch": row.name,
            "from": row.parent,
            "at": None if row.parent is None else row.fork_seq,
            "merged": list(dict.fromkeys(source for source, _, _ in row.merges)),
        }
        for row in rows
    ]
    show(records, _COLUMNS, form, empty="no branches")


@click.command
@click.argument("name")
@click.option("--from", "parent", metavar="BRANCH", default="main", help="The branch to start from; main unless named.")
@click.option("--at", metavar="SEQ", type=click.IntRange(min=0), help="Start from its past; else from the newest.")
@on_space
@as_object
def fork_branch(*, name: str, parent: str, at: Seq | None, url: str | None, space: str | None, form: Form) -> None:
    """Make a branch: changes there stay apart until they are merged.

    It costs one row, whatever the space holds. A name is never used for a second branch.
    """
    from headwater.cli.spaces import find_branch, open_space

    with open_space(url, space) as storage:
        start = storage.call(lambda engine: engine.head) if at is None else at
        on = storage.call(lambda engine: find_branch(engine, parent))
        seq = storage.fork(name, on, start)
    record = {"branch": name, "from": parent, "at": start, "seq": seq}
    answer(record, sentence=f"branch {name} starts from {parent} at {start}", plain=seq, form=form)


@click.command
@click.argument("source")
@click.option("--into", metavar="BRANCH", default="main", help="The branch that receives them; main unless named.")
@on_space
@as_object
def merge_branch(*, source: str, into: str, url: str | None, space: str | None, form: Form) -> None:
    """Bring what changed on branch SOURCE into another branch, by whole documents.

    Nothing is merged if both changed the same document differently; they are listed then (exit 4).
    """
    from headwater.cli.change import verdict_seq
    from headwater.cli.spaces import find_branch, open_space

    with open_space(url, space) as storage:
        on, to = storage.call(lambda engine: (find_branch(engine, source), find_branch(engine, into)))
        outcome = storage.merge(on, to)
    seq, count = verdict_seq(outcome.verdict), len(outcome.commit.operations)
    record = {"source": source, "into": into, "seq": seq, "documents": count}
    sentence = f"{source} merged into {into} at {seq}: {count_text(count, 'document')} changed"
    answer(record, sentence=sentence, plain=seq, form=form)
