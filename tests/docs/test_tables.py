"""Tables in the documents that are made from tables in the code say the same."""

import re
from enum import Enum
from pathlib import Path
from typing import get_args

from headwater.cells import transaction_states
from headwater.declare.events.ticket import TicketState
from headwater.scheduler.events import event, origin
from headwater.scheduler.graph import node
from headwater.server.topic_intake import BODY_MAX
from headwater.workflow import phases, workflow_limits
from headwater.workflow.retry_policy import DEFAULT
from headwater.workflow.rows import EffectOutcome, RunStatus

ROOT = Path(__file__).resolve().parents[2]
PICTURES = {"only-light", "only-dark"}
"""What follows the # of a picture: the color scheme that it is for."""


def table_below(path: Path, header: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The rows of the table with this header."""
    lines = iter(path.read_text(encoding="utf-8").splitlines())
    for line in lines:
        if cells(line) == header:
            break
    else:
        raise AssertionError(f"{path.name} has no table | {' | '.join(header)} |")
    next(lines)
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append(cells(line))
    return rows


def cells(line: str) -> tuple[str, ...]:
    return tuple(re.split(r"\s*\|\s*", line.strip().strip("|").strip())) if line.startswith("|") else ()


def test_life_of_a_transaction_is_the_one_in_the_code() -> None:
    shown = table_below(ROOT / "docs" / "internals" / "cells.md", ("status", "signal", "status after"))
    in_code: list[tuple[Enum, Enum, Enum]] = [
        (*before, after) for before, after in transaction_states.TRANSITIONS.items()
    ]
    assert sorted(shown) == sorted(tuple(str(each.value) for each in row) for row in in_code)


def test_life_of_a_node_is_the_one_in_the_code() -> None:
    shown = table_below(ROOT / "docs" / "internals" / "scheduler.md", ("status", "signal", "status after"))
    in_code: list[tuple[Enum, Enum, Enum]] = [(*before, after) for before, after in node.NODE_TRANSITIONS.items()]
    assert sorted(shown) == sorted(tuple(str(each.value) for each in row) for row in in_code)


def test_life_of_an_event_is_the_one_in_the_code() -> None:
    shown = table_below(ROOT / "docs" / "internals" / "events.md", ("state", "signal", "state after"))
    in_code: list[tuple[Enum, Enum, Enum]] = [(*before, after) for before, after in event.EVENT_TRANSITIONS.items()]
    assert sorted(shown) == sorted(tuple(str(each.value) for each in row) for row in in_code)


def test_states_of_a_ticket_are_those_in_the_code() -> None:
    shown = table_below(ROOT / "docs" / "guide" / "handlers.md", ("`ticket.state`", "Meaning"))
    assert [name for name, _ in shown] == [state.value for state in event.EventState] == list(get_args(TicketState))


def test_fates_of_what_sent_an_event_are_those_in_the_code() -> None:
    shown = table_below(ROOT / "docs" / "internals" / "events.md", ("state of its origin", "the event"))
    assert {name.partition(",")[0] for name, _ in shown} == {fate.value for fate in origin.OriginState}


def test_every_decision_is_in_the_index() -> None:
    folder = ROOT / "docs" / "decisions"
    linked = re.findall(r"\]\(([\w-]+\.md)\) \| (.+) \|$", (folder / "README.md").read_text("utf-8"), re.MULTILINE)
    assert [name for name, _ in linked] == sorted(path.name for path in folder.glob("0*.md"))
    # A number may be missing: it belongs to a decision that is not written yet.
    numbers = [int(name[:4]) for name, _ in linked]
    assert len(set(numbers)) == len(numbers)
    for number, (name, title) in zip(numbers, linked, strict=True):
        first = (folder / name).read_text("utf-8").splitlines()[0]
        assert first.startswith(f"# {number}. {title.partition(';')[0]}")


def test_life_of_a_run_is_the_one_in_the_code() -> None:
    header = ("step", "phase", "status", "outcome", "phase after", "status after", "outcome after")
    shown = table_below(ROOT / "docs" / "internals" / "workflows.md", header)
    assert shown == [
        (
            what.value,
            ", ".join(rule.phases),
            ", ".join(rule.statuses),
            ", ".join(rule.outcomes),
            *(str(after or "same") for after in (rule.phase, rule.status, rule.outcome)),
        )
        for what, rules in phases.STEPS.items()
        for rule in rules
    ]


def test_ways_to_go_on_after_a_run_are_those_in_the_code() -> None:
    shown = table_below(ROOT / "docs" / "internals" / "workflows.md", ("outcome", "the chain goes on", ""))
    assert [row[:2] for row in shown] == [
        (outcome.value, phases.restart_of(outcome).value) for outcome in EffectOutcome
    ]


def test_statuses_in_the_guide_are_those_in_the_code() -> None:
    header = ("Failure", "Signal", "Run status", "Next")
    shown = table_below(ROOT / "docs" / "guide" / "workflows.md", header)
    assert {run.strip("`") for _, _, run, _ in shown} == set(RunStatus) - {RunStatus.ACTIVE, RunStatus.COMMITTED}


def test_limits_of_workflows_in_the_reference_are_those_in_the_code() -> None:
    text = {row[0]: row[1] for row in table_below(ROOT / "docs" / "reference" / "workflows.md", ("limit", "value"))}
    waits = ", ".join(f"{DEFAULT.delay_ms(n) // 1000} s" for n in range(1, workflow_limits.TRIES + 1))
    assert text["retries"].startswith(
        f"{workflow_limits.TRIES}, after {waits}, never more than {workflow_limits.BACKOFF_MAX_MS // 60_000} minutes"
    )
    assert text["events shown at once"].startswith(f"{workflow_limits.PEEK}, at most {workflow_limits.PEEK_MAX} ")
    assert text["asking to be woken"].startswith(f"in {workflow_limits.WAKE_MIN_MS // 1000} seconds")
    assert workflow_limits.WAKE_MAX_MS == 86_400_000
    assert text["a phase"].startswith(f"{workflow_limits.PHASE_MS // 60_000} minutes")
    seconds = workflow_limits.RECONCILE_MS // 1000
    asked = f"{workflow_limits.RECONCILE_TRIES} times in the background, {seconds} seconds each"
    assert text["asking `reconcile`"] == asked
    assert text["finished runs that are kept"].replace(" ", "").startswith(str(workflow_limits.KEEP_RUNS))
    assert text["a payload over HTTP"] == f"{BODY_MAX >> 20} MiB"
