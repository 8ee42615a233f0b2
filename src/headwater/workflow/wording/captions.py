"""Short names of runs and inputs."""

from __future__ import annotations

from headwater.workflow.rows import EffectOutcome, RunRow
from headwater.workflow.tables import WorkflowTables


def run_caption(run: RunRow, tables: WorkflowTables | None = None) -> str:
    """A run in one line: what came in, and what was done because of it. "Note a.txt -> Append 1 rows"."""
    done = run.title or run.handler
    if run.outcome == EffectOutcome.SKIPPED:
        done += " (skipped)"
    titles = [] if tables is None else inputs_of(tables, run)
    return f"{listed(titles)} -> {done}" if titles else done


def inputs_of(tables: WorkflowTables, run: RunRow, limit: int = 4) -> list[str]:
    """The titles of the inputs of a run."""
    query = (
        "select input.title from flow_take as take join flow_cause as cause on cause.event = take.event "
        "join flow_input as input on input.id = cause.input where take.run = ? limit ?"
    )
    # Each once, in the order of the events. Not with DISTINCT, for which the database would sort all of them.
    return list(dict.fromkeys(row[0] for row in tables.execute(query, run.id, limit * 4)))[:limit]


def listed(titles: list[str], most: int = 3) -> str:
    """A, B and more."""
    shown = ", ".join(titles[:most])
    return f"{shown} and more" if len(titles) > most else shown
