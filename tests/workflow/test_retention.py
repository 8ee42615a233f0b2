"""Letting go of finished runs: whole chains, the oldest first, and never what something still rests on."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.workflow.rows import FailureKind, RunRow
from headwater.workflow.run_retention import BATCH, prune
from headwater.workflow.table_checks import check_all
from headwater.workflow.workflow_limits import BACKOFF_MS, PRUNE_EVERY
from tests.support.flows import Desk, flow_spec
from tests.support.spaces import EITHER


def chain(desk: Desk, message: str, failures: int) -> list[RunRow]:
    """A chain that failed so often, after its effect, and then came to an end."""
    desk.publish(message)
    run = desk.begin()
    desk.prepare(run, message)
    desk.act(run)
    found = [run]
    for _ in range(failures):
        desk.fail(found[-1])
        desk.clock.advance(5 * BACKOFF_MS)
        found.append(desk.begin())
    desk.commit(found[-1])
    return found


def add_finished(desk: Desk, *numbers: int) -> None:
    """Runs that were over long ago."""
    columns = "flow, handler, kind, attempt, why, version, phase, status, outcome, created_at, updated_at"
    query = (
        f"insert into flow_run({columns}, prepare_result, id, chain) values (?, 'work', 'consumer', 1, 'event', 1, "  # noqa: S608
        "'committed', 'committed', 'none', 1, 1, x'c0', ?, ?)"
    )
    desk.backend.begin()
    for number in numbers:
        desk.tables.execute(query, desk.flow.id, number, number)
    desk.backend.append([], None)


def ids(desk: Desk) -> list[int]:
    return [run.id for run in desk.runs()]


def test_the_oldest_finished_runs_go_with_all_that_was_only_about_them(desk: Desk) -> None:
    for number in range(6):
        desk.consume(f"{number}")
    kept = ids(desk)[-3:]
    assert desk.do(prune, desk.flow.id, 3) == 4
    assert ids(desk) == kept
    for table in ("flow_take", "flow_call"):
        assert [row[0] for row in desk.tables.execute(f"select run from {table} order by run")] == kept  # noqa: S608
    assert desk.foreign_keys() == []
    check_all(desk.tables)


def test_events_and_inputs_stay_so_that_nothing_is_done_twice(desk: Desk) -> None:
    for number in range(4):
        desk.consume(f"{number}")
    desk.do(prune, desk.flow.id, 1)
    assert len(desk.events()) == 4
    assert desk.publish("0") is False
    assert len(desk.tables.execute("select 1 from flow_input")) == 4


def test_a_chain_goes_as_a_whole_or_stays_as_a_whole(desk: Desk) -> None:
    first = chain(desk, "a", 2)
    second = chain(desk, "b", 2)
    assert desk.do(prune, desk.flow.id, 2) == 4, "the first chain, and the run that looked at nothing"
    assert ids(desk) == [run.id for run in second]
    assert desk.do(prune, desk.flow.id, 1) == 0
    assert first[0].id < second[0].id
    assert desk.foreign_keys() == []
    check_all(desk.tables)


def test_a_chain_that_is_not_finished_stays_however_old_it_is(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    desk.prepare(run, "a")
    desk.act(run)
    desk.fail(run, FailureKind.LOGIC)
    desk.tables.execute("delete from flow_run where id < ?", run.id)
    add_finished(desk, *range(run.id + 1, run.id + 20))
    assert desk.do(prune, desk.flow.id, 3) == 16
    assert ids(desk) == [run.id, *range(run.id + 17, run.id + 20)]
    check_all(desk.tables)


def test_a_run_that_is_active_stays(desk: Desk) -> None:
    desk.consume("a")
    desk.publish("b")
    run = desk.begin()
    desk.do(prune, desk.flow.id, 0)
    assert ids(desk) == [run.id]


def test_nothing_goes_while_there_are_few(desk: Desk) -> None:
    desk.consume("a")
    assert desk.do(prune, desk.flow.id, 2) == 0
    assert desk.do(prune, desk.flow.id, 100) == 0


def test_the_runs_of_one_workflow_are_let_go_and_no_others(desk: Desk) -> None:
    desk.consume("a")
    here = ids(desk)
    first = desk.flow.id
    desk.deploy(flow_spec("app.second"), "1")
    for number in range(5):
        desk.consume(f"{number}")
    assert desk.do(prune, desk.flow.id, 1) == 4
    assert ids(desk)[:-1] == here
    assert desk.do(prune, first, 100) == 0


def test_a_long_history_gets_shorter_a_little_at_a_time(desk: Desk) -> None:
    add_finished(desk, *range(2, 3 * BATCH))
    assert desk.do(prune, desk.flow.id, 10) == BATCH
    assert ids(desk)[0] == BATCH + 1
    while desk.do(prune, desk.flow.id, 10):
        pass
    assert ids(desk) == list(range(3 * BATCH - 10, 3 * BATCH))


@pytest.mark.parametrize("kind", EITHER)
def test_of_the_newest_run_the_number_is_never_given_again(kind: str, tmp_path: Path) -> None:
    """The key of a call is made of it: with the same key, another call would be taken for the same."""
    desk = Desk(kind, tmp_path, flow_spec(keep_runs=0))
    seen: set[int] = set()
    keys: set[str] = set()
    desk.idle(desk.begin())
    for number in range(2 * PRUNE_EVERY):
        desk.publish(f"{number}")
        run = desk.begin()
        assert run.id not in seen
        seen.add(run.id)
        desk.prepare(run, f"{number}")
        desk.leave(run)
        call = desk.call(run)
        assert call is not None and call.key not in keys
        keys.add(call.key)
        desk.fail(run, undone="no")
        desk.tables.execute("update flow set head = null, retry_at = null, failures = 0")
        desk.do(prune, desk.flow.id, 0)
        desk.flags.dirty.add("work")
    desk.close()


@pytest.mark.slow
def test_runs_are_let_go_of_every_workflow_whatever_their_numbers_are(tmp_path: Path) -> None:
    """Two that take turns: one of them has only odd numbers."""
    desk = Desk("memory", tmp_path, flow_spec("app.odd", keep_runs=10))
    odd, odd_flags = desk.spec, desk.flags
    desk.deploy(flow_spec("app.even", keep_runs=10))
    even, even_flags = desk.spec, desk.flags
    for _ in range(3 * PRUNE_EVERY):
        for spec, flags in ((odd, odd_flags), (even, even_flags)):
            desk.spec, desk.flags = spec, flags
            flags.fresh.add("work")
            desk.idle(desk.begin())
    counts = dict(desk.tables.execute("select flow, count(*) from flow_run group by flow"))  # type: ignore[arg-type]
    assert max(counts.values()) < 2.5 * PRUNE_EVERY, counts
    desk.close()
