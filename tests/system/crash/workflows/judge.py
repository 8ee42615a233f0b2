"""What must be so when everything has come to its end, whatever happened on the way.

The queries stand here beside `headwater.workflow.table_checks`, and share nothing with it: two that agree say more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headwater.core import open_space, verify
from headwater.store.engine import Engine
from headwater.values.ids import Millis
from headwater.workflow.table_checks import check_all
from headwater.workflow.tables import WorkflowTables
from tests.support.service import Account

EARLY = (
    "select event.id from flow_event as event join flow_run as run on run.id = event.created_by "
    "where run.status <> 'committed'"
)

NEVER = {
    "an event was published before the commit of its run": EARLY,
    "a run is left as if somebody were at it": "select id, status from flow_run where status = 'active'",
    "a chain is not finished": "select name, head, block from flow where head is not null or block is not null "
    "or retry_at is not null or repairing <> 0",
    "a run that stopped has no successor, or two": "select id, status from flow_run as run "
    "where status <> 'committed' and (select count(*) from flow_run where retry_of = run.id) <> 1",
    "a run that is done has a successor": "select run.id from flow_run as run join flow_run as later "
    "on later.retry_of = run.id where run.status = 'committed'",
    "a successor is of another chain": "select later.id from flow_run as later join flow_run as run "
    "on later.retry_of = run.id where (later.chain, later.flow, later.handler, later.kind, later.attempt) "
    "is not (run.chain, run.flow, run.handler, run.kind, run.attempt + 1)",
    "a chain does not end once": "select chain from flow_run group by chain "
    "having sum(status = 'committed') <> 1 or sum(retry_of is null) <> 1",
    "an effect was not taken over": "select later.id from flow_run as later join flow_run as run "
    "on later.retry_of = run.id where run.outcome = 'applied' and "
    "(later.effect_of, later.prepare_result, later.mutation_result, later.outcome) "
    "is not (coalesce(run.effect_of, run.id), run.prepare_result, run.mutation_result, 'applied')",
    "somebody else's effect was taken over": "select later.id from flow_run as later join flow_run as run "
    "on later.retry_of = run.id where run.outcome in ('none', 'failed') and later.effect_of is not null",
    "an event is not done with": "select id, message, status from flow_event where status <> 'consumed'",
    "an event is held": "select event, run from flow_take where disposition = 'reserved'",
    "an event was not consumed once": "select event.id from flow_event as event where "
    "(select count(*) from flow_take where event = event.id and disposition = 'consumed') <> 1",
    "a run that is not done has consumed": "select run.id from flow_take as take join flow_run as run "
    "on run.id = take.run where take.disposition = 'consumed' and run.status <> 'committed'",
    "a call has no end": "select run, status from flow_call where status not in ('applied', 'failed')",
    "two effects about one event": "select take.event from flow_take as take join flow_call as call "
    "on call.run = take.run where call.status = 'applied' group by take.event having count(distinct call.run) <> 1",
    "a topic has lost count": "select id, pending from flow_topic as topic where pending <> "
    "(select count(*) from flow_event where topic = topic.id and status = 'pending')",
    "an event is about nothing": "select id from flow_event where id not in (select event from flow_cause)",
}


def judge(path: Path | str, account: Account, mail: Sequence[str], notes: Sequence[str] = ()) -> None:
    """Something was done once about each event of the one topic, and everything that is kept says so."""
    assert account.per_event == dict.fromkeys(mail, 1)
    twice = [key for key, times in Counter(account.called).items() if times > 1]
    assert not twice, "one run has called twice"
    with open_space(str(path), create=False) as space:
        space.call(lambda engine: _judge(engine, account, [*mail, *notes]))
        assert space.call(verify).ok


def ask(engine: Engine, query: str) -> list[tuple[Any, ...]]:
    """The tables, as they are."""
    return engine.backend.tables.execute(query)


def _judge(engine: Engine, account: Account, events: Sequence[str]) -> None:
    for claim, query in NEVER.items():
        assert (claim, ask(engine, query)) == (claim, [])
    assert ask(engine, "pragma foreign_key_check") == []
    assert ask(engine, "pragma integrity_check") == [("ok",)]
    calls = dict(ask(engine, "select key, status from flow_call"))
    assert calls.keys() >= set(account.called), "a call left before it was on disk that it would"
    assert sorted(key for key in calls if calls[key] == "applied") == sorted(account.applied)
    assert sorted(row[0] for row in ask(engine, "select message from flow_event")) == sorted(events)
    check_all(WorkflowTables(engine.backend.tables, Millis(0)))


def check_half_way(path: Path | str, account: Account) -> int:
    """What must be so at any moment, also when nobody was told that it ends; how many calls have no end."""
    assert all(times == 1 for times in account.per_event.values())

    def look(engine: Engine) -> int:
        assert ask(engine, "pragma foreign_key_check") == []
        assert ask(engine, "pragma integrity_check") == [("ok",)]
        assert ask(engine, EARLY) == [], "an event was published before the commit of its run"
        known = {row[0] for row in ask(engine, "select key from flow_call")}
        assert known >= set(account.called), "a call left before it was on disk that it would"
        check_all(WorkflowTables(engine.backend.tables, Millis(0)))
        return len(ask(engine, "select 1 from flow_call where status not in ('applied', 'failed')"))

    with open_space(str(path), create=False) as space:
        return space.call(look)


def rows(path: Path | str, query: str) -> list[tuple[Any, ...]]:
    """What is kept, between two lives."""
    with open_space(str(path), create=False) as space:
        return space.call(lambda engine: ask(engine, query))


def stops(path: Path | str) -> list[tuple[Any, ...]]:
    """Where a person is needed: the run, and the key of its call."""
    query = (
        "select flow.head, call.key from flow join flow_call as call on call.run = flow.head "
        "where flow.block_kind = 'indeterminate'"
    )
    return rows(path, query)
