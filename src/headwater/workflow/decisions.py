"""Decisions of people about runs: who, what, when, why."""

from __future__ import annotations

from typing import Final

import msgspec

from headwater.values.ids import Millis
from headwater.workflow.tables import WorkflowTables

ACTOR_MAX: Final = 200
"""Characters of a name that are kept."""

REASON_MAX: Final = 2000
"""Characters of a reason: a note, not a document."""


class Decision(msgspec.Struct, frozen=True):
    """One of them."""

    run: int
    at: Millis
    actor: str
    """Who: an actor of the space, or the user of the operating system."""
    verb: str
    """approve, reject, cancel, retry, abandon, applied, not_applied, skip or again."""
    reason: str = ""
    """Why, in the person's own words."""


class DecidedBy(msgspec.Struct, frozen=True):
    """Who decides, and why."""

    actor: str
    reason: str = ""


def record(tables: WorkflowTables, run: int, verb: str, by: DecidedBy) -> None:
    """Part of the transaction that does what was decided."""
    query = "insert into flow_decision(run, at, actor, verb, reason) values (?, ?, ?, ?, ?)"
    tables.write(query, run, tables.now, by.actor[:ACTOR_MAX], verb, by.reason[:REASON_MAX])


def decisions(tables: WorkflowTables, runs: list[int]) -> list[Decision]:
    """Those about these runs, oldest first."""
    among = ", ".join("?" * len(runs))
    query = f"select run, at, actor, verb, reason from flow_decision where run in ({among}) order by id"
    return [Decision(*row) for row in tables.execute(query, *runs)]
