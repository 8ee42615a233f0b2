"""The tables of workflows, with the constraints that the database enforces.

They are part of the format of a space's file. `workflow.transitions` decides what may be written when. The constraints
hold for every writer: no second active run, no second successor, no step back, no reserved event without a run.
"""

from __future__ import annotations

from typing import Final

WORKFLOW_TABLES_3: Final = """
create table flow(
    id integer primary key,
    name text not null unique,
    salt text not null,
    version integer not null,
    -- The user's: what is wanted.
    intent text not null check(intent in ('active', 'paused', 'archived')),
    -- The host's: why nothing goes on without a person. Both or none.
    block text, block_kind text,
    -- The repairer's: repairs since something last worked, and whether one is under way.
    repairs integer not null default 0, repairing integer not null default 0,
    -- The newest run of a chain that is not finished: nothing else is begun before it is resolved.
    head integer references flow_run(id),
    retry_at integer, failures integer not null default 0,
    created_at integer not null, updated_at integer not null,
    check((block is null) = (block_kind is null)),
    check(retry_at is null or head is not null)
) strict;

create table flow_version(
    flow integer not null references flow(id), version integer not null,
    print text not null, config blob not null, code blob, why text not null, at integer not null,
    primary key(flow, version)
) strict, without rowid;

create table flow_handler(
    flow integer not null references flow(id), name text not null,
    kind text not null check(kind in ('producer', 'consumer')),
    state blob, next_run_at integer, wake_at integer,
    -- So many pending events are shown at once, after one of them was poison; 0: all, for so many were not enough.
    span integer,
    gone integer not null default 0,
    primary key(flow, kind, name),
    check(kind = 'producer' or next_run_at is null),
    check(kind = 'consumer' or wake_at is null)
) strict, without rowid;

create table flow_topic(
    id integer primary key, flow integer not null references flow(id), name text not null,
    pending integer not null default 0 check(pending >= 0),
    reserved integer not null default 0 check(reserved >= 0),
    parked integer not null default 0 check(parked >= 0),
    unique(flow, name)
) strict;

create table flow_run(
    id integer primary key,
    flow integer not null references flow(id),
    handler text not null,
    kind text not null check(kind in ('producer', 'consumer')),
    retry_of integer references flow_run(id),
    chain integer not null, attempt integer not null, crashes integer not null default 0,
    why text not null, version integer not null,
    phase text not null check(phase in ('preparing', 'prepared', 'mutating', 'mutated', 'emitting', 'committed')),
    status text not null check(status in ('active', 'paused:transient', 'paused:approval', 'paused:reconciliation',
        'failed:logic', 'failed:internal', 'committed', 'crashed')),
    outcome text not null check(outcome in ('none', 'unknown', 'applied', 'failed', 'skipped')),
    offered integer not null default 0, taken integer not null default 0,
    title text not null default '', ask integer not null default 0, approval blob,
    cancelled integer not null default 0,
    prepare_result blob, mutation_result blob,
    -- The run that has made the call, if it is another of the chain.
    effect_of integer references flow_run(id),
    error_kind text, error text, error_details text,
    created_at integer not null, updated_at integer not null,
    -- Exactly where the steps of `workflow.phases` lead.
    check((outcome = 'unknown') = (phase = 'mutating')),
    check(case outcome when 'none' then phase <> 'mutated' when 'failed' then phase = 'mutated'
        else phase in ('mutating', 'mutated', 'emitting', 'committed') end),
    check((outcome = 'applied') = (mutation_result is not null)),
    check((phase = 'committed') = (status = 'committed')),
    check(case status when 'active' then 1 when 'crashed' then 1
        when 'paused:reconciliation' then phase in ('mutating', 'mutated') else phase <> 'mutating' end),
    check(kind = 'producer' or phase = 'preparing' or prepare_result is not null),
    check(kind = 'consumer' or (phase in ('preparing', 'committed') and outcome = 'none')),
    check(retry_of is null or retry_of < id),
    check((status in ('active', 'committed')) or error_kind is not null)
) strict;
create unique index flow_run_active on flow_run(flow) where status = 'active';
-- Partial, because most runs are never retried, and an index costs a page in every commit.
create unique index flow_run_successor on flow_run(retry_of) where retry_of is not null;
create index flow_run_chain on flow_run(chain) where retry_of is not null;
create index flow_run_flow on flow_run(flow, id);
-- For the deletion of a run: finds the runs that refer to it.
create index flow_run_effect on flow_run(effect_of) where effect_of is not null;
create trigger flow_run_forward before update of phase on flow_run
    when instr('preparing prepared mutating mutated emitting committed', new.phase)
        < instr('preparing prepared mutating mutated emitting committed', old.phase)
    begin select raise(abort, 'a run goes forward only'); end;
create trigger flow_run_final before update of phase, status, outcome, prepare_result, mutation_result on flow_run
    when old.status in ('committed', 'failed:internal', 'crashed', 'failed:logic')
        and not (old.phase = 'mutating' and new.phase = 'mutated' and new.status = old.status)
    begin select raise(abort, 'a run that has ended stays as it is'); end;
create trigger flow_run_once before update of prepare_result, mutation_result on flow_run
    when (old.prepare_result is not null and new.prepare_result is not old.prepare_result)
        or (old.mutation_result is not null and new.mutation_result is not old.mutation_result)
    begin select raise(abort, 'what was prepared, and what came of it, is said once'); end;
create trigger flow_run_fixed
    before update of flow, handler, kind, retry_of, chain, attempt, why, version, effect_of on flow_run
    begin select raise(abort, 'what a run is, and follows from, stays as it is'); end;

create table flow_event(
    id integer primary key,
    topic integer not null references flow_topic(id),
    message text not null,
    payload blob not null,
    status text not null check(status in ('pending', 'reserved', 'consumed', 'skipped', 'parked')),
    reserved_by integer references flow_run(id),
    attempt integer not null default 1,
    created_by integer,
    created_at integer not null,
    -- The newest run that there was when it was published with another payload: one that had begun has seen the old.
    changed integer not null default 0,
    unique(topic, message),
    check((status = 'reserved') = (reserved_by is not null))
) strict;
create index flow_event_pending on flow_event(topic, id) where status = 'pending';
create index flow_event_parked on flow_event(topic, id) where status = 'parked';
create index flow_event_reserved on flow_event(reserved_by) where reserved_by is not null;
create trigger flow_event_pinned before update of payload on flow_event
    when old.status <> 'pending'
    begin select raise(abort, 'what a run was given does not change'); end;
create trigger flow_event_counted after insert on flow_event
    begin update flow_topic set pending = pending + 1 where id = new.topic; end;
create trigger flow_event_moved after update of status on flow_event
    begin update flow_topic set
        pending = pending + (new.status = 'pending') - (old.status = 'pending'),
        reserved = reserved + (new.status = 'reserved') - (old.status = 'reserved'),
        parked = parked + (new.status = 'parked') - (old.status = 'parked')
        where id = new.topic; end;

create table flow_take(
    run integer not null references flow_run(id), event integer not null references flow_event(id),
    attempt integer not null,
    disposition text not null check(disposition in ('reserved', 'consumed', 'released', 'skipped', 'parked', 'moved')),
    primary key(run, event)
) strict, without rowid;
create index flow_take_event on flow_take(event);
create trigger flow_take_final before update on flow_take
    when old.disposition <> 'reserved' or new.run <> old.run or new.event <> old.event
    begin select raise(abort, 'what became of an event in a run is said once'); end;

create table flow_input(
    id integer primary key, flow integer not null references flow(id),
    source text not null, message text not null, title text not null,
    created_by integer, created_at integer not null,
    skipped_at integer,
    unique(flow, source, message)
) strict;
create table flow_cause(
    event integer not null references flow_event(id), input integer not null references flow_input(id),
    primary key(event, input)
) strict, without rowid;
create index flow_cause_input on flow_cause(input);

create table flow_call(
    run integer primary key references flow_run(id),
    operation text not null, params blob not null, key text not null,
    status text not null check(status in ('in_flight', 'applied', 'failed', 'needs_reconcile', 'indeterminate')),
    result blob, error text,
    tries integer not null default 0, next_at integer,
    resolved_by text check(resolved_by in ('call', 'reconciliation', 'user_applied', 'user_not_applied', 'user_skip')),
    resolved_at integer, at integer not null,
    check((status = 'applied') = (result is not null)),
    check((status in ('applied', 'failed')) = (resolved_by is not null)),
    check((status = 'needs_reconcile') = (next_at is not null))
) strict;
create index flow_call_open on flow_call(next_at) where status = 'needs_reconcile';
create trigger flow_call_final before update on flow_call
    when old.status in ('applied', 'failed')
    begin select raise(abort, 'what became of a call is said once'); end;
"""

WORKFLOW_STEP_4: Final = """
-- Put aside after the effect: the events are parked, plan and result stay here. 'again': taken up as soon as possible.
alter table flow_run add column aside text check(aside is null or (aside in ('kept', 'again')
    and outcome in ('applied', 'skipped') and status not in ('active', 'committed')));
create index flow_run_aside on flow_run(flow, aside, id) where aside is not null;
-- The service that has to be signed in to again, or that refused permission.
alter table flow_run add column service text;
-- A person has asked for this run of a producer; kept until the run begins.
alter table flow_handler add column asked integer not null default 0 check(kind = 'producer' or asked = 0);

-- What a person decided about a run: who, what, when and why. Never rewritten; deleted together with the run.
create table flow_decision(
    id integer primary key,
    run integer not null references flow_run(id),
    at integer not null,
    actor text not null, verb text not null, reason text not null default ''
) strict;
create index flow_decision_run on flow_decision(run);
create trigger flow_decision_final before update on flow_decision
    begin select raise(abort, 'a decision is recorded once'); end;
"""
"""The changes of format 4. A new file takes the same steps as an old one.

Only additions, so that no table is rebuilt: an added column may have a check of its own, and the status words of runs
and events do not change.
"""

WORKFLOW_STEP_5: Final = """
-- The lanes of a consumer that may be at several of its events at once. The lane that all other handlers of a workflow
-- share has no name, and its state is in the row of the workflow. Only lanes with something to remember have a row.
create table flow_lane(
    flow integer not null references flow(id), name text not null check(name <> ''), handler text not null,
    -- As in `flow` and `flow_handler`, for this lane alone.
    block text, block_kind text,
    repairs integer not null default 0, repairing integer not null default 0,
    head integer references flow_run(id),
    retry_at integer, failures integer not null default 0,
    wake_at integer, span integer,
    primary key(flow, name),
    check((block is null) = (block_kind is null)),
    check(retry_at is null or head is not null)
) strict, without rowid;
create unique index flow_lane_head on flow_lane(head) where head is not null;

alter table flow_run add column lane text not null default '';
-- Which grant of the run counts, once other processes execute runs.
alter table flow_run add column claim integer not null default 0;
alter table flow_run add column label blob;
alter table flow_run add column trace text;
drop index flow_run_active;
create unique index flow_run_active on flow_run(flow, lane) where status = 'active';
drop trigger flow_run_fixed;
create trigger flow_run_fixed
    before update of flow, handler, kind, retry_of, chain, attempt, why, version, effect_of, lane on flow_run
    begin select raise(abort, 'what a run is, and follows from, stays as it is'); end;

-- The field of the payload that names the lane of an event, for a consumer with a key.
alter table flow_topic add column key text;
-- The lane of an event of such a topic. Null: its consumer has none.
alter table flow_event add column lane text;
alter table flow_event add column priority integer not null default 5 check(priority between 0 and 9);
alter table flow_event add column label blob;
alter table flow_event add column trace text;
drop index flow_event_pending;
create index flow_event_pending on flow_event(topic, priority desc, id) where status = 'pending';
create index flow_event_lane on flow_event(topic, lane, priority desc, id)
    where status = 'pending' and lane is not null;

-- The earliest time of the next call of a consumer with a rate, in microseconds since 1970.
alter table flow_handler add column call_at integer;
"""
"""The changes of format 5. As in format 4: only additions, and an index or trigger in place of another."""

WORKFLOW_TABLES: Final = f"{WORKFLOW_TABLES_3} {WORKFLOW_STEP_4} {WORKFLOW_STEP_5}"
"""The tables of today, for backends that make them anew: every step."""
