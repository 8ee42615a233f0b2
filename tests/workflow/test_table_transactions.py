"""What rides with a commit to other tables of the database: rows and documents land together, or not at all."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import (
    HeadwaterError,
    InvariantError,
    PoisonedError,
    StoreFullError,
    TransitionError,
    UnavailableError,
)
from headwater.store.backends.memory_backend import MemoryBackend
from headwater.store.backends.postgres.postgres_backend import PostgresBackend
from headwater.store.backends.sqlite import SqliteBackend
from headwater.store.commit import (
    UNNUMBERED,
    Commit,
    Committed,
    Conflict,
    Operation,
    Refused,
    Submission,
    Tables,
    Verdict,
)
from headwater.store.engine import Engine
from headwater.store.verification import verify
from headwater.testing import Disk, DiskVFS, SimClock
from headwater.values.address import doc_key
from headwater.values.ids import MAIN, DocKey, LocalSeq, SessionId
from headwater.values.tree import ABSENT, Maybe
from headwater.workflow import transitions
from headwater.workflow.deployment import deploy
from headwater.workflow.publication import Publication, publish
from headwater.workflow.table_checks import check_all
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.wording.status_document import key_of
from headwater.workflow.workflow_spec import FlowSpec
from headwater.workflow.workflow_transaction import TransactionStep, WorkflowTransaction
from tests.support.flows import FLOW, flow_spec, packed
from tests.support.hosts import on_disk, reopened, storage_on
from tests.support.limits import small_limits
from tests.support.naive import plain
from tests.support.postgres import new_name, open_backend
from tests.support.spaces import EITHER, Space, edit, increment, put, read, remove

INSERT = "insert into flow(name, salt, version, intent, created_at, updated_at) values (?, '', 1, 'active', 0, 0)"
RIDING = SessionId("riding")


class Rows:
    """A rider: adds a row for each name, does what it is told besides, and wants these documents written."""

    def __init__(self, *names: str, also: Callable[[], object] = lambda: None, docs: Sequence[Operation] = ()) -> None:
        self.names = names
        self.also = also
        self.docs = docs
        self.calls = 0
        self.seen: dict[str, Any] = {}
        self.told: list[tuple[Verdict | None, HeadwaterError | None]] = []

    def apply(self, tables: Tables, look: Callable[[DocKey], Maybe]) -> Sequence[Operation]:
        self.calls += 1
        self.seen = {"rows": [row[0] for row in tables.execute("select name from flow order by id")]}
        self.seen["a"] = plain(look(doc_key("a")))
        for name in self.names:
            tables.execute(INSERT, (name,))
            assert tables.changed == 1
        self.also()
        return self.docs

    def decided(self, verdict: Verdict | None, error: HeadwaterError | None) -> None:
        self.told.append((verdict, error))


def raising(error: BaseException) -> Callable[[], object]:
    def raise_it() -> None:
        raise error

    return raise_it


def alone(table_transaction: Rows) -> Submission:
    """What no session asks for."""
    return Submission(Commit(RIDING, UNNUMBERED), table_transaction=table_transaction)


def names_in(engine: Engine) -> list[str]:
    return [str(row[0]) for row in engine.backend.tables.execute("select name from flow order by id")]


@pytest.fixture(params=EITHER)
def space(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Space]:
    space = Space(request.param, tmp_path)
    yield space
    space.close()


# --- together -------------------------------------------------------------------------------------------------


def test_rows_and_the_commit_land_together(space: Space) -> None:
    ann = space.writer("ann")
    table_transaction = Rows("one", docs=[put("status", "there")])
    [outcome] = space.engine.admit([Submission(ann.build(put("a", 1)), table_transaction=table_transaction)])
    assert outcome.verdict == Committed(1)
    assert (space.value("a"), space.value("status"), names_in(space.engine)) == (1, "there", ["one"])
    assert [effect.doc for effect in outcome.effects] == [doc_key("a"), doc_key("status")]
    space.reopen()
    assert (space.value("a"), space.value("status"), names_in(space.engine)) == (1, "there", ["one"])
    assert verify(space.engine).ok


def test_a_rider_sees_what_came_before_it_in_its_group(space: Space) -> None:
    ann = space.writer("ann")
    first, second, third = Rows("one"), Rows("two"), Rows("three")
    space.engine.admit(
        [
            Submission(ann.build(put("a", 1)), table_transaction=first),
            alone(second),
            Submission(ann.build(put("a", 2))),
            alone(third),
        ]
    )
    assert first.seen == {"rows": [], "a": plain(ABSENT)}
    assert second.seen == {"rows": ["one"], "a": 1}
    assert third.seen == {"rows": ["one", "two"], "a": 2}


def test_a_ride_without_documents_makes_no_row_in_the_log(space: Space) -> None:
    space.writer("ann").accept(put("a", 1))
    [outcome] = space.engine.admit([alone(Rows("one"))])
    assert outcome.verdict == Committed(1) and space.engine.head == 1
    space.reopen()
    assert (names_in(space.engine), space.engine.head) == (["one"], 1)


def test_a_ride_with_documents_is_a_commit_of_its_own(space: Space) -> None:
    outcomes = space.engine.admit([alone(Rows("one", docs=[put("s", 1)])), alone(Rows("two", docs=[put("s", 2)]))])
    assert [outcome.verdict for outcome in outcomes] == [Committed(1), Committed(2)]
    assert [outcome.commit.local_seq for outcome in outcomes] == [1, 2], "numbered by its place"
    assert space.value("s") == 2
    space.reopen()
    assert space.engine.admit([alone(Rows("three", docs=[put("s", 3)]))])[0].verdict == Committed(3)
    assert verify(space.engine).ok


# --- not at all -----------------------------------------------------------------------------------------------


def test_a_rider_that_refuses_takes_its_commit_with_it_and_nobody_elses(space: Space) -> None:
    ann, bob = space.writer("ann"), space.writer("bob")
    refusing = Rows("bad", also=raising(TransitionError("it is not so")), docs=[put("status", "bad")])
    verdicts = [
        outcome.verdict
        for outcome in space.engine.admit(
            [
                Submission(ann.build(put("a", 1)), table_transaction=Rows("before")),
                Submission(bob.build(put("b", 1)), table_transaction=refusing),
                alone(Rows("alone", also=raising(TransitionError("nor this")))),
                Submission(ann.build(put("c", 1)), table_transaction=Rows("after")),
                Submission(bob.build(put("d", 1))),
            ]
        )
    ]
    refused = [Refused(text, code="HW507") for text in ("it is not so", "nor this")]
    assert verdicts == [Committed(1), *refused, Committed(2), Committed(3)]
    assert names_in(space.engine) == ["before", "after"]
    assert [plain(space.value(name)) for name in "abcd"] == [1, plain(ABSENT), 1, 1]
    space.reopen()
    assert names_in(space.engine) == ["before", "after"]
    assert verify(space.engine).ok


@pytest.mark.parametrize("error", [InvariantError("a bug"), StoreFullError("no room"), UnavailableError("gone")])
def test_a_fault_in_the_middle_undoes_the_whole_group_which_can_be_sent_again(
    space: Space, error: HeadwaterError
) -> None:
    ann, bob = space.writer("ann"), space.writer("bob")
    ann.accept(put("a", 0))
    good = Submission(ann.build(put("a", 1)), table_transaction=Rows("one", docs=[put("status", "one")]))
    plain_one = Submission(bob.build(put("b", 1)))
    broken = Submission(bob.build(put("c", 1)), table_transaction=Rows("bad", also=raising(error)))
    with pytest.raises(type(error)):
        space.engine.admit([good, plain_one, broken])
    assert (space.engine.head, names_in(space.engine), space.value("a")) == (1, [], 0)
    assert space.engine.admit([alone(Rows("between"))])[0].verdict == Committed(1)
    assert [outcome.verdict for outcome in space.engine.admit([good, plain_one])] == [Committed(2), Committed(3)]
    assert (names_in(space.engine), space.value("a"), space.value("status")) == (["between", "one"], 1, "one")
    assert good.table_transaction is not None and good.table_transaction.calls == 2  # type: ignore[attr-defined]  # one of ours
    assert verify(space.engine).ok


def test_a_rider_that_refused_in_a_group_that_was_undone_is_asked_again(space: Space) -> None:
    """It refused because of something that never happened."""
    ann, bob = space.writer("ann"), space.writer("bob")
    # A group in which somebody refuses is decided once more, so that nobody else is undone for it.
    refusal = raising(TransitionError("somebody was faster"))
    answers: list[Callable[[], object]] = [refusal, refusal, lambda: None]
    doubtful = Submission(bob.build(put("b", 1)), table_transaction=Rows("b", also=lambda: answers.pop(0)()))  # noqa: PLW0108  # each time another
    broken = Submission(ann.build(put("a", 1)), table_transaction=Rows("a", also=raising(InvariantError("a bug"))))
    with pytest.raises(InvariantError):
        space.engine.admit([doubtful, broken])
    [outcome] = space.engine.admit([doubtful])
    assert outcome.verdict == Committed(1)
    assert (names_in(space.engine), space.value("b")) == (["b"], 1)


def test_documents_that_cannot_be_written_undo_the_rows(space: Space) -> None:
    ann = space.writer("ann")
    misfit = Rows("one", docs=[edit("nowhere", remove("n"))])
    [outcome] = space.engine.admit([Submission(ann.build(put("a", 1)), table_transaction=misfit)])
    assert isinstance(outcome.verdict, Conflict)
    assert (names_in(space.engine), space.engine.head, plain(space.value("a"))) == ([], 0, plain(ABSENT))
    assert ann.accept(put("a", 2)) == 1


def test_a_commit_that_is_too_large_undoes_the_rows(space: Space) -> None:
    large = Rows("one", docs=[put("status", "x" * 2000)])
    with small_limits(COMMIT_BYTES_MAX=1000):
        [outcome] = space.engine.admit([Submission(space.writer("ann").build(put("a", 1)), table_transaction=large)])
    assert isinstance(outcome.verdict, Refused)
    assert (names_in(space.engine), space.engine.head) == ([], 0)


def test_a_commit_in_conflict_is_not_ridden(space: Space) -> None:
    ann, bob = space.writer("ann"), space.writer("bob")
    ann.accept(put("a", 1))
    bob.accept(put("a", 2))
    table_transaction = Rows("one")
    [outcome] = space.engine.admit(
        [Submission(ann.build(put("b", 1), reads=[read("a", at=1)]), table_transaction=table_transaction)]
    )
    assert isinstance(outcome.verdict, Conflict)
    assert (table_transaction.calls, names_in(space.engine)) == (0, [])


# --- once -----------------------------------------------------------------------------------------------------


def test_a_commit_that_was_decided_is_not_ridden_again(space: Space) -> None:
    ann = space.writer("ann")
    table_transaction = Rows("one", docs=[put("status", 1)])
    kept = Submission(ann.build(put("a", 1)), table_transaction=table_transaction)
    empty = Submission(ann.build(put("b", 1)), table_transaction=Rows("two"))
    refused = Submission(ann.build(put("c", 1)), table_transaction=Rows("three", also=raising(TransitionError("no"))))
    group = [kept, empty, refused]
    first = [outcome.verdict for outcome in space.engine.admit(group)]
    assert [outcome.verdict for outcome in space.engine.admit(group)] == first
    # Twice, because one of its group was refused; and never again.
    assert (table_transaction.calls, names_in(space.engine), space.engine.head) == (2, ["one", "two"], 2)
    space.reopen()
    again = [outcome.verdict for outcome in space.engine.admit([kept, empty])]
    assert again == first[:2] == [Committed(1), Committed(2)]
    assert (table_transaction.calls, names_in(space.engine)) == (2, ["one", "two"])


# --- with a storage, and others who look on -------------------------------------------------------------------


class Full(MemoryBackend):
    """A disk that has no room for the first so many groups."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def append(self, *given: Any, **named: Any) -> None:
        if self.times:
            self.times -= 1
            raise StoreFullError("no room")
        super().append(*given, **named)


def test_a_group_that_the_disk_refused_is_tried_one_by_one_and_each_rides_in_its_own_transaction() -> None:
    storage = storage_on(Full(2))
    table_transactions = [Rows("one", docs=[put("s", 1)]), Rows("two", docs=[put("s", 2)]), Rows("three")]
    for table_transaction in table_transactions:
        storage.submit_tables(table_transaction)
    storage.wait()
    assert storage.call(names_in) == ["two", "three"], "all three, and then the first alone, were refused"
    [[(verdict, error)], *others] = [table_transaction.told for table_transaction in table_transactions]
    assert verdict is None and isinstance(error, StoreFullError)
    assert others == [[(Committed(1), None)], [(Committed(1), None)]]
    assert [table_transaction.calls for table_transaction in table_transactions] == [2, 2, 2]
    storage.close()


@pytest.mark.parametrize("kind", EITHER)
def test_documents_that_a_rider_writes_appear_in_every_replica(kind: str, tmp_path: Path) -> None:
    backend: MemoryBackend | PostgresBackend | SqliteBackend = (
        MemoryBackend() if kind == "memory" else SqliteBackend(str(tmp_path / "s.db"), durability="normal")
    )
    if kind == "postgres":
        backend = open_backend(new_name())
    storage = storage_on(backend)
    ann, bob = storage.attach(), storage.attach()
    table_transactions = [
        Rows("one", docs=[put("status", {"n": 1})]),
        Rows("two", docs=[edit("status", increment("n"))]),
    ]
    for table_transaction in table_transactions:
        storage.submit_tables(table_transaction)
    storage.wait()
    for replica in (ann, bob):
        replica.refresh()
        assert plain(replica.read(doc_key("status"))) == {"n": 2}
    table_transaction = Rows("three", docs=[edit("status", increment("n"))])
    ann._commit((put("a", 1),), (), (), None, rider=table_transaction)
    storage.wait()
    for replica in (ann, bob):
        replica.refresh()
        assert plain(replica.read(doc_key("status"))) == {"n": 3}
        assert plain(replica.read(doc_key("a"))) == 1
    assert [told for table_transaction in table_transactions for told in table_transaction.told] == [
        (Committed(1), None),
        (Committed(2), None),
    ]
    storage.close()


def test_whoever_rides_hears_why_it_was_refused() -> None:
    storage = storage_on(MemoryBackend())
    told: list[WorkflowTransaction] = []
    transaction = WorkflowTransaction(SimClock().now_ms, told.append)
    transaction.add(lambda _: raising(TransitionError("it is not so"))())
    storage.submit_tables(transaction)
    storage.wait()
    assert told == [transaction] and transaction.is_decided and not transaction.is_committed
    assert isinstance(transaction.error, TransitionError)
    storage.close()


def test_a_step_that_is_dropped_before_a_repetition_leaves_nothing() -> None:
    """The group was rolled back: what the step had written and returned before does not count."""
    storage = storage_on(MemoryBackend())
    told: list[tuple[object, dict[int, object]]] = []
    dropped = WorkflowTransaction(SimClock().now_ms, lambda ended: told.append((ended.tables, ended.results)))
    number = dropped.add(lambda tables: tables.execute("insert into flow_topic(flow, name) values (1, 'a')"))
    refused = WorkflowTransaction(SimClock().now_ms, lambda _: None)

    def refuse(_: WorkflowTables) -> object:
        dropped.drop(number)
        raise TransitionError("it is not so")

    refused.add(refuse)
    with storage._lock:  # both in one group
        storage.submit_tables(WorkflowTransaction(SimClock().now_ms, lambda _: None, lambda _: None, _add_flow))
        storage.submit_tables(dropped)
        storage.submit_tables(refused)
    storage.wait()
    assert told == [(None, {})] and dropped.is_committed
    assert storage.call(lambda engine: engine.backend.tables.execute("select name from flow_topic")) == []
    storage.close()


def _add_flow(tables: WorkflowTables) -> object:
    columns = "id, name, salt, version, intent, created_at, updated_at"
    return tables.execute(f"insert into flow({columns}) values (1, 'f', '', 1, 'active', 1, 1)")  # noqa: S608


# --- a disk that fails ----------------------------------------------------------------------------------------


def test_without_room_nothing_of_a_ride_is_kept_and_later_ones_are() -> None:
    disk = Disk()
    with on_disk(disk) as storage:
        small, large = Rows("small", docs=[put("s", 1)]), Rows("large", docs=[put("s", "x" * 1_000_000)])
        storage.submit_tables(small)
        storage.wait()
        disk.capacity_bytes = sum(map(len, disk.files().values())) + 60_000
        storage.submit_tables(large)
        storage.wait()
        [(verdict, error)] = large.told
        assert verdict is None and isinstance(error, StoreFullError)
        assert storage.call(names_in) == ["small"]
        disk.capacity_bytes = None
        again = Rows("again", docs=[put("s", "x" * 1_000_000)])
        storage.submit_tables(again)
        storage.wait()
        assert storage.call(names_in) == ["small", "again"]


def test_without_room_for_rows_alone_nothing_of_a_ride_is_kept() -> None:
    """It is the database that runs out in the middle of the rider, not the log behind it."""
    disk = Disk()
    with on_disk(disk) as storage:
        disk.capacity_bytes = sum(map(len, disk.files().values())) + 60_000
        table_transaction = Rows(*[f"{number} {'x' * 10_000}" for number in range(200)])
        storage.submit_tables(table_transaction)
        storage.wait()
        [(verdict, error)] = table_transaction.told
        assert verdict is None and isinstance(error, StoreFullError)
        disk.capacity_bytes = None
        assert storage.call(names_in) == []
        other = Rows("other")
        storage.submit_tables(other)
        storage.wait()
        assert other.told == [(Committed(0), None)]
        assert storage.call(names_in) == ["other"]


@pytest.mark.parametrize("nth", range(1, 9))
def test_whichever_sync_fails_rows_and_documents_say_the_same(nth: int) -> None:
    disk = Disk()
    acknowledged = 0
    with small_limits(CHECKPOINT_PAGES=8), on_disk(disk) as storage:
        replica = storage.attach()
        replica.commit([put("steps", {"n": 0})])
        replica.sync()
        disk.failing_syncs = range(disk.sync_count + nth, sys.maxsize)
        poisoned = False
        for number in range(1, 13):
            table_transaction = Rows(f"{number}", docs=[edit("steps", increment("n"))])
            storage.submit_tables(table_transaction)
            storage.wait()
            [(verdict, error)] = table_transaction.told
            assert (verdict is None) == isinstance(error, PoisonedError)
            assert not (poisoned and verdict), "nothing is kept after a failure"
            poisoned = poisoned or verdict is None
            acknowledged = acknowledged if poisoned else number
        assert poisoned
    with on_disk(reopened(disk)) as storage:
        names = storage.call(names_in)
        assert storage.call(steps_of) == len(names)
        assert len(names) in (acknowledged, acknowledged + 1)


# --- a power cut ----------------------------------------------------------------------------------------------


class Line:
    """A workflow whose transitions transaction with commits. Each is counted, in the database and in a document."""

    def __init__(self, engine: Engine, disk: Disk) -> None:
        self.engine = engine
        self.disk = disk
        self.clock = SimClock()
        self.steps = 0
        engine.admit([Submission(Commit(SessionId("made"), LocalSeq(1), (put("steps", {"n": 0}),)))])

    def do(self, *parts: TransactionStep) -> Any:
        """One transaction, and a mark when it was acknowledged; what its last part came to."""
        transaction = WorkflowTransaction(self.clock.now_ms, lambda _: None)
        for part in (*parts, self._count):
            transaction.add(part)
        self.steps += 1
        commit = Commit(SessionId("line"), LocalSeq(self.steps), (edit("steps", increment("n")),))
        [outcome] = self.engine.admit([Submission(commit, table_transaction=transaction)])
        assert type(outcome.verdict) is Committed, outcome
        self.disk.mark(self.steps)
        return transaction.last(2)[0]

    def _count(self, tables: WorkflowTables) -> None:
        query = "insert into flow_input(flow, source, message, title, created_at) values (1, 'steps', ?, '', 0)"
        tables.execute(query, str(self.steps))


def recorded_line(seed: int) -> tuple[Disk, int]:
    """Runs from their beginning to their end, on a disk that remembers; how many transactions that were."""
    disk = Disk(seed=seed)
    vfs = DiskVFS("riding-run", disk)
    backend = SqliteBackend("/space.db", vfs="riding-run")
    line, spec = Line(Engine(backend, SimClock()), disk), flow_spec()
    flags = line.do(lambda tables: deploy(tables, spec, "1", "salt")).flags
    for number in range(1, 3):
        event = Publication(FLOW, "notes", f"{number}", packed(number))
        line.do(partial(_publish, event))
        run: int = line.do(lambda tables: transitions.begin(tables, FLOW, spec, flags)).run.id
        line.do(partial(_prepare, run, number, spec))
        line.do(partial(_leave, run))
        line.do(partial(_apply, run), partial(_commit, run, spec))
    disk.power_off()
    backend.close()
    vfs.unregister()
    return disk, line.steps


def _publish(event: Publication, tables: WorkflowTables) -> object:
    return publish(tables, event)


def _prepare(run: int, event: int, spec: FlowSpec, tables: WorkflowTables) -> object:
    return transitions.prepared(tables, run, transitions.Prepared(events=(event,), result=packed(event)), spec)


def _leave(run: int, tables: WorkflowTables) -> object:
    return transitions.in_flight(tables, run, "work.mutate", packed(1))


def _apply(run: int, tables: WorkflowTables) -> object:
    return transitions.applied(tables, run, packed("done"))


def _commit(run: int, spec: FlowSpec, tables: WorkflowTables) -> object:
    return transitions.consumed(tables, run, None, spec)


@pytest.mark.slow
def test_after_every_crash_point_rows_and_documents_say_the_same() -> None:
    counts: Counter[str] = Counter()
    with small_limits(FOLD_COMMITS=4, CHECKPOINT_PAGES=10):
        disk, last = recorded_line(7)
        for image in disk.crash_images(random.Random(5), keeps=(0.0, 0.5)):
            marks = [mark for mark in image.marks if isinstance(mark, int)]
            if not marks:
                continue  # before the workflow was deployed
            vfs = DiskVFS("riding-check", Disk(image.files))
            backend = SqliteBackend("/space.db", vfs="riding-check")
            engine = Engine(backend, SimClock())
            look_at(engine, marks[-1])
            counts["images"] += 1
            counts["ahead"] += steps_of(engine) > marks[-1]
            counts["last"] += steps_of(engine) == last
            backend.close()
            vfs.unregister()
    assert counts["images"] > 100 and counts["ahead"] > 5 and counts["last"] > 1, counts


def steps_of(engine: Engine) -> int:
    found: Any = plain(engine.documents.at(MAIN, doc_key("steps"), engine.head).value)
    return int(found["n"])


def look_at(engine: Engine, acknowledged: int) -> None:
    assert steps_of(engine) >= acknowledged
    [[counted]] = engine.backend.tables.execute("select count(*) from flow_input where source = 'steps'")
    assert counted == steps_of(engine), "rows and log agree"
    tables = WorkflowTables(engine.backend.tables, SimClock().now_ms())
    flow = tables.flow_named(FLOW)
    assert flow is not None
    status: Any = plain(engine.documents.at(MAIN, key_of(FLOW), engine.head).value)
    active = tables.active(flow.id)
    assert status["run"] == (None if active is None else active.id)
    assert status["pending"] == {"notes": tables.topics(flow.id)["notes"].unfinished}
    assert (status["state"] == "Running") == (active is not None)
    check_all(tables)
    assert engine.backend.tables.execute("pragma foreign_key_check") == []
    report = verify(engine)
    assert report.ok, report.findings
