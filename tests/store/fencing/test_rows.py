"""Rows in PostgreSQL: damage is found when it is read, and long keys keep their order."""

from __future__ import annotations

import apsw
import msgspec
import pytest

from headwater.errors import CorruptError, MigrationError
from headwater.host.postgres.database_connection import DatabaseConnection
from headwater.store.backend import EntryFold, Fold, HeadRow, IndexRow, LogRow, ReplayRow, SnapshotRow
from headwater.store.backends.postgres.database_schema import prepare
from headwater.store.backends.postgres.postgres_backend import PostgresBackend
from headwater.store.backends.postgres.working_copy import row_sum
from headwater.store.backends.workflow_tables import WORKFLOW_STEP_4, WORKFLOW_TABLES_3
from headwater.values.ids import MAIN, NEVER, DocKey, LocalSeq, Seq, SessionId
from tests.support.postgres import database, new_name, open_backend

A = DocKey("space/a")


def full() -> PostgresBackend:
    backend = open_backend(new_name())
    rows = [LogRow(Seq(seq), b"%d" % seq, b"c" * 32) for seq in (1, 2, 3)]
    fold = Fold(Seq(3), revisions=[(MAIN, A, [Seq(1), Seq(3)])], heads=[(MAIN, HeadRow(A, Seq(3), True, 1, 1))])
    fold.snapshots = [(MAIN, SnapshotRow(A, Seq(3), b"x"))]
    fold.replays = [ReplayRow(SessionId("s"), LocalSeq(1), LocalSeq(3), Seq(1))]
    backend.append(rows, fold)
    backend.set_meta("space", "notes")
    return backend


def tamper(backend: PostgresBackend, statement: str) -> None:
    connection = DatabaseConnection(database())
    connection.run(statement, [backend._link._space])
    connection.close()


@pytest.mark.parametrize(
    ("statement", "look"),
    [
        ("update hw_log set body = 'x' where space = %b", lambda b: b.row(Seq(2))),
        ("update hw_log set sum = sum + 1 where space = %b", lambda b: list(b.log(NEVER, Seq(9)))),
        ("update hw_head set seq = 2 where space = %b", lambda b: b.head(MAIN, A)),
        ("update hw_snapshot set body = 'y' where space = %b", lambda b: b.snapshot(MAIN, A, Seq(9))),
        ("delete from hw_revision where space = %b and seq = 1", lambda b: b.revisions(MAIN, A, NEVER, Seq(9))),
        ("delete from hw_revision where space = %b and seq = 3", lambda b: b.revisions(MAIN, A, NEVER, Seq(9), Seq(3))),
        ("update hw_replay set last = 4 where space = %b", lambda b: b.replayed(SessionId("s"), LocalSeq(2))),
        ("update hw_fact set value = 'other' where space = %b and key = 'space'", lambda b: b.meta("space")),
    ],
)
def test_a_row_that_was_changed_behind_the_program_is_refused(statement: str, look: object) -> None:
    backend = full()
    look(backend)  # type: ignore[operator]
    tamper(backend, statement)
    with pytest.raises(CorruptError, match=r"HW205.*damaged"):
        look(backend)  # type: ignore[operator]
    backend.close()


def test_a_row_of_a_workflow_that_was_changed_is_found_by_verify() -> None:
    backend = full()
    backend.begin()
    backend.tables.execute(
        "insert into flow(name, salt, version, intent, created_at, updated_at) values ('a', 's', 1, 'active', 1, 1)"
    )
    backend.append((), None)
    assert backend.integrity() == []
    tamper(backend, "update hw_row set body = 'x' where space = %b")
    [found] = backend.integrity()
    assert "a row of flow does not match its checksum" in found
    backend.close()


def test_changes_of_a_transaction_that_was_rolled_back_are_not_stored() -> None:
    backend = full()
    insert = "insert into flow(name, salt, version, intent, created_at, updated_at) values (?, 's', 1, 'active', 1, 1)"
    backend.begin()
    backend.savepoint()
    backend.tables.execute(insert, ("kept",))
    backend.end_savepoint(keep=True)
    backend.savepoint()
    backend.tables.execute(insert, ("refused",))
    backend.end_savepoint(keep=False)
    backend.append((), None)
    backend.begin()
    backend.tables.execute("update flow set name = 'lost'")
    backend.roll_back()
    # As another program finds it.
    backend._copy.doubt()
    assert backend.tables.execute("select name from flow") == [("kept",)]
    backend.begin()
    backend.tables.execute("delete from flow")
    backend.append((), None)
    backend._copy.doubt()
    assert backend.tables.execute("select name from flow") == []
    backend.close()


def test_rows_of_workflows_of_an_earlier_version_get_the_defaults_of_new_columns() -> None:
    earlier = apsw.Connection(":memory:")
    earlier.execute(f"{WORKFLOW_TABLES_3} {WORKFLOW_STEP_4}")
    earlier.execute(
        "insert into flow(name, salt, version, intent, created_at, updated_at) values ('a', 's', 1, 'active', 1, 1); "
        "insert into flow_topic(flow, name) values (1, 'notes'); insert into flow_event(topic, message, payload, "
        "status, created_at) values (1, 'e1', x'c0', 'pending', 1)"
    )
    backend = full()
    rows: list[tuple[object, ...]] = []
    for table in ("flow", "flow_topic", "flow_event"):
        for values in earlier.execute(f"select * from {table}"):  # noqa: S608  # a name of ours
            key, body = (msgspec.msgpack.encode(each) for each in ([values[0]], values))
            rows.append((table, key, body, row_sum(table, key, body)))
    backend._write(lambda group: group.insert("hw_row", ("text", "bytea", "bytea", "bigint"), rows))
    assert backend.tables.execute("select message, lane, priority from flow_event") == [("e1", None, 5)]
    assert backend.tables.execute("select pending, key from flow_topic") == [(1, None)]
    backend.close()


@pytest.mark.parametrize("reverse", [False, True])
def test_keys_of_indexes_that_are_too_long_for_postgresql_keep_their_order(reverse: bool) -> None:
    start = b"k" * 959
    keys = sorted([start, *(start + bytes([n]) * 2000 for n in range(7, 0, -1)), b"a", b"z", start + b"\1\1"])
    backend = open_backend(new_name())
    backend.make_collections(NEVER)
    row = IndexRow(MAIN, "order#state", Seq(1), Seq(1), len(keys), 7)
    backend.append((), Fold(NEVER, entries=[EntryFold(row, [], keys)]))
    for limit in (1, 3, 100):
        for lo, hi in ((b"", b"\xff"), (keys[3], keys[-1]), (b"", keys[5]), (keys[2], keys[4])):
            inside = [key for key in keys if lo <= key < hi]
            expected = (inside[::-1] if reverse else inside)[:limit]
            assert backend.entries(MAIN, "order#state", lo, hi, limit, reverse=reverse) == expected
    backend.append((), Fold(NEVER, entries=[EntryFold(row, [keys[4]], [])]))
    assert backend.entry_count(MAIN, "order#state") == len(keys) - 1
    backend.close()


def test_tables_of_a_newer_format_are_refused() -> None:
    connection = DatabaseConnection(database())
    connection.run("create schema newer")
    connection.run("create table newer.hw_meta(key text primary key, value text not null)")
    connection.run("insert into newer.hw_meta values ('format', '9')")
    connection.run("select set_config('search_path', 'newer', false)")
    with pytest.raises(MigrationError, match="format 9, this Headwater reads format 1"):
        prepare(connection, "newer")
    connection.close()
