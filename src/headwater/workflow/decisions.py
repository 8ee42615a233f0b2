"""Decisions of people about runs: actor, action, time and reason."""

from __future__ import annotations

from typing import Final

import msgspec

from headwater.values.ids import Millis
from headwater.workflow.tables import WorkflowTables

ACTOR_MAX: Final = 200
"""Characters of an actor's name that are stored."""

REASON_MAX: Final = 2000
"""Characters of a reason that are stored."""


class Decision(msgspec.Struct, frozen=True):
    """One decision about one run."""

    run: int
    at: Millis
    actor: str
    """The actor of the space, or the user of the operating system."""
    verb: str
    """approve, reject, cancel, retry, abandon, applied, not_applied, skip or again."""
    reason: str = ""
    """The reason, in the person's own words."""


class DecidedBy(msgspec.Struct, frozen=True):
    """The person who decides, and the reason."""

    actor: str
    reason: str = ""


def record(tables: WorkflowTables, run: int, verb: str, by: DecidedBy) -> None:
    """Store a decision, in the transaction that carries it out."""
    query = "insert into flow_decision(run, at, actor, verb, reason) values (?, ?, ?, ?, ?)"
    tables.write(query, run, tables.now, by.actor[:ACTOR_MAX], verb, by.reason[:REASON_MAX])


def decisions(tables: WorkflowTables, runs: list[int]) -> list[Decision]:
    """The decisions about these runs, oldest first."""
    among = ", ".join("?" * len(runs))
    query = f"select run, at, actor, verb, reason from flow_decision where run in ({among}) order by id"
    return [Decision(*row) for row in tables.execute(query, *runs)]
