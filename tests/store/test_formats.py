"""Spaces written by every earlier version open, verify, and read as they always did."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import copyfile

import pytest

from headwater.store.backends.sqlite_file import FORMAT
from headwater.store.verification import verify
from headwater.values.codec import to_json
from headwater.workflow import operator_actions, transitions
from headwater.workflow.planner import IdleUntil
from headwater.workflow.run_recovery import left_active
from headwater.workflow.table_checks import check_all
from headwater.workflow.transitions import ReconcileCall
from headwater.workflow.wording.status_document import key_of
from tests.store.fixtures.make_format_1 import told
from tests.store.fixtures.make_format_3 import FLOWS, PARKING, rows_told
from tests.store.fixtures.make_format_4 import ABANDONING, FACTS
from tests.store.fixtures.make_format_5 import CHARGING
from tests.support.flows import FLOW, RidingDesk, flow_spec, packed
from tests.support.spaces import Space, edit, increment, put

FIXTURES = Path(__file__).with_name("fixtures")
SPACES = sorted(path.stem for path in FIXTURES.glob("format-*.db"))


def open_copy(name: str, folder: Path) -> Space:
    copyfile(FIXTURES / f"{name}.db", folder / "space.db")
    return Space("sqlite", folder)


def test_there_is_a_space_of_every_format() -> None:
    assert {int(name.split("-")[1]) for name in SPACES} == set(range(1, FORMAT + 1))


@pytest.mark.parametrize("name", SPACES)
def test_space_of_an_earlier_version_verifies(name: str, tmp_path: Path) -> None:
    space = open_copy(name, tmp_path)
    report = verify(space.engine)
    assert report.findings == []
    assert report.snapshots > 0
    assert verify(space.reopen()).ok
    space.close()


@pytest.mark.parametrize("name", SPACES)
def test_space_of_an_earlier_version_reads_as_it_did(name: str, tmp_path: Path) -> None:
    expected = json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8"))
    space = open_copy(name, tmp_path)
    first = space.engine.documents.horizon.seq
    for _ in range(2):
        assert told(space, first) == expected
        space.engine.fold()
    space.close()


@pytest.mark.parametrize("name", SPACES)
def test_space_of_an_earlier_version_goes_on(name: str, tmp_path: Path) -> None:
    space = open_copy(name, tmp_path)
    head = space.engine.head
    assert space.writer("new").accept(edit("patched", increment("n")), put("more", 1)) == head + 1
    assert verify(space.reopen()).ok
    space.close()


# --- the tables, and what is in them --------------------------------------------------------------------------


def schema_of(space: Space) -> list[tuple[object, ...]]:
    """Every table, index and trigger, as it was declared."""
    query = "select type, name, sql from sqlite_schema where name not like 'sqlite_%' order by type, name"
    return space.backend.tables.execute(query)


@pytest.mark.parametrize("name", SPACES)
def test_space_of_an_earlier_version_gets_the_tables_of_this_one(name: str, tmp_path: Path) -> None:
    """If this fails for the newest format: what is declared was changed without a new format."""
    space = open_copy(name, tmp_path)
    fresh = Space("sqlite", tmp_path, file=tmp_path / "fresh.db")
    assert schema_of(space) == schema_of(fresh)
    assert space.backend.tables.execute("pragma foreign_key_check") == []
    assert space.backend.tables.execute("pragma integrity_check") == [("ok",)]
    fresh.close()
    space.close()


@pytest.mark.parametrize("name", SPACES)
def test_space_of_an_earlier_version_takes_workflows(name: str, tmp_path: Path) -> None:
    space = open_copy(name, tmp_path)
    before, active = len(RidingDesk(space).rows()["flow_run"]), left_active(RidingDesk(space).tables)
    desk = RidingDesk(space, flow_spec())
    desk.idle(desk.begin())
    desk.consume("a", state=packed("seen a"))
    desk.publish("b")
    left = desk.begin()
    space.reopen()
    desk = RidingDesk(space, flow_spec())
    assert left_active(desk.tables) == [*active, left.id]
    desk.crash(left)
    run = desk.begin()
    assert (run.retry_of, desk.handler().state) == (left.id, packed("seen a"))
    desk.prepare(run, "b")
    desk.act(run)
    desk.commit(run)
    assert len(desk.rows()["flow_run"]) == before + 4
    check_all(desk.tables)
    status = to_json(space.engine.states.get(space.writer("w").branch, key_of(FLOW)).value)
    assert isinstance(status, dict) and (status["state"], status["pending"]) == ("Idle", {"notes": 0})
    assert verify(space.reopen()).ok
    space.close()


def test_workflows_of_an_earlier_version_read_as_they_did(tmp_path: Path) -> None:
    expected = json.loads((FIXTURES / "workflows-3.json").read_text(encoding="utf-8"))
    space = open_copy("format-3", tmp_path)
    check_all(RidingDesk(space).tables)
    for _ in range(2):
        assert _of_format_3(_of_format_4(rows_told(space))) == expected
        space.reopen()
    space.close()


def test_workflows_of_format_4_read_as_they_did(tmp_path: Path) -> None:
    """Runs that were put aside, decisions of people, a service that has to be signed in to."""
    expected = json.loads((FIXTURES / "workflows-4.json").read_text(encoding="utf-8"))
    space = open_copy("format-4", tmp_path)
    check_all(RidingDesk(space).tables)
    for _ in range(2):
        assert _of_format_4(rows_told(space)) == expected
        space.reopen()
    space.close()


def test_lanes_of_format_5_read_as_they_did_and_go_on(tmp_path: Path) -> None:
    """One is tried again, one has a call that was lost, one was at work, and events wait in all of them."""
    expected = json.loads((FIXTURES / "workflows-5.json").read_text(encoding="utf-8"))
    space = open_copy("format-5", tmp_path)
    desk = RidingDesk(space, CHARGING)
    check_all(desk.tables)
    for _ in range(2):
        assert rows_told(space) == expected
        space.reopen()
    desk = RidingDesk(space, CHARGING)
    for left in left_active(desk.tables):
        desk.crash(desk.run(left))
    space.clock.advance(3_600_000)
    lost = desk.next()
    assert isinstance(lost, ReconcileCall) and lost.run.lane == "work customer=carl"
    desk.flags.pursued.add(lost.run.id)
    space.clock.advance(1000)
    assert [desk.begin().lane for _ in range(2)] == ["work customer=dora", "work customer=bob"]
    # Three lanes at once, with the call that is found out.
    assert desk.next() == IdleUntil()
    check_all(desk.tables)
    space.close()


def test_space_of_format_4_keeps_its_id_and_lineage(tmp_path: Path) -> None:
    expected = json.loads((FIXTURES / "facts-4.json").read_text(encoding="utf-8"))
    space = open_copy("format-4", tmp_path)
    assert {key: space.backend.meta(key) for key in FACTS} == expected
    space.close()


def test_run_that_was_put_aside_by_format_4_goes_on(tmp_path: Path) -> None:
    space = open_copy("format-4", tmp_path)
    desk = RidingDesk(space, ABANDONING)
    again = desk.begin()
    assert again.retry_of is not None and again.mutation_result == packed({"receipt": 7})
    desk.commit(again)
    check_all(desk.tables)
    assert verify(space.reopen()).ok
    space.close()


def _of_format_3(told_now: dict[str, object]) -> dict[str, object]:
    """Without what format 4 added, which is empty."""
    assert told_now.pop("flow_decision") == []
    return _without(told_now, {"flow_run": [None, None], "flow_handler": [0]})


def _of_format_4(told_now: dict[str, object]) -> dict[str, object]:
    """Without what format 5 added, which is empty."""
    assert told_now.pop("flow_lane") == []
    event: list[object] = [None, 5, None, None]
    added = {"flow_run": ["", 0, None, None], "flow_topic": [None], "flow_event": event, "flow_handler": [None]}
    return _without(told_now, added)


def _without(told_now: dict[str, object], added: Mapping[str, Sequence[object]]) -> dict[str, object]:
    for table, empty in added.items():
        rows = told_now[table]
        assert isinstance(rows, list)
        assert all(row[-len(empty) :] == empty for row in rows)
        told_now[table] = [row[: -len(empty)] for row in rows]
    return told_now


def test_workflows_of_an_earlier_version_go_on(tmp_path: Path) -> None:
    space = open_copy("format-3", tmp_path)
    parking, asking, doubting = (RidingDesk(space, spec) for spec in FLOWS)
    [left] = left_active(parking.tables)
    doubting.crash(doubting.run(left))
    found = doubting.next()
    assert isinstance(found, ReconcileCall) and found.call.operation == "mail.send"
    doubting.do(transitions.applied, left, packed("sent"), "reconciliation")
    doubting.commit(doubting.begin())
    asked = asking.flow.head
    assert asked is not None
    asking.do(operator_actions.approve, asked)
    run = asking.begin()
    assert run.id == asked
    asking.act(run)
    asking.commit(run)
    assert parking.do(operator_actions.reprocess, PARKING.name) == 1
    last = parking.begin()
    assert [event.message for event in parking.tables.pending(1, PARKING.consumers[0].topics, 9)] == ["bad", "c"]
    parking.prepare(last, "bad", "c")
    parking.act(last)
    parking.commit(last)
    assert {status for (status,) in parking.tables.execute("select distinct status from flow_event")} == {
        "consumed",
        "skipped",
        "pending",
    }
    check_all(parking.tables)
    assert verify(space.reopen()).ok
    space.close()
