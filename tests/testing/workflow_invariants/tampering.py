"""Tables that were written behind the program's back: with nothing in the database that would refuse it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headwater.errors import InvariantError
from headwater.workflow.tables import WorkflowTables
from tests.workflow.world import World

UNGUARDED = (
    "pragma foreign_keys = off",
    "pragma ignore_check_constraints = on",
    "drop index if exists flow_run_active",
)


def tamper(world: World, query: str, *values: object) -> None:
    """Write, whatever it is."""

    def write(tables: WorkflowTables) -> None:
        for statement in UNGUARDED:
            tables.execute(statement)
        for (name,) in tables.execute("select name from sqlite_schema where type = 'trigger'"):
            tables.execute(f"drop trigger {name}")
        tables.execute(query, *values)

    world.space._opening.flows.look(write)


def set_to(world: World, table: str, changes: str, *values: object, where: str = "1") -> None:
    """Columns of a table, as in `status = 'crashed'`."""
    tamper(world, f"update {table} set {changes} where {where}", *values)  # noqa: S608  # of a test's


def copy_run(world: World, run: int, **changes: object) -> None:
    """One more row, as that of a run, but for some columns."""

    def write(tables: WorkflowTables) -> None:
        [columns] = tables.execute("select group_concat(name) from pragma_table_info('flow_run') where name <> 'id'")
        names = [name for name in columns[0].split(",") if name not in changes]
        given = ", ".join([*names, *changes])
        marks = ", ".join([*names, *("?" for _ in changes)])
        query = f"insert into flow_run({given}) select {marks} from flow_run where id = ?"  # noqa: S608  # of a test's
        tables.execute(query, *changes.values(), run)

    tamper(world, "select 1")
    world.space._opening.flows.look(write)


def is_found(world: World, claim: Callable[[WorkflowTables], object], text: str) -> None:
    """The claim does not hold any more, and says so with the record."""
    with pytest.raises(InvariantError, match=text):
        world.space._opening.flows.look(claim)


def rows(world: World, query: str, *values: object) -> list[Any]:
    """What is there."""
    return world.space._opening.flows.look(lambda tables: tables.execute(query, *values))
