"""What opening and reading cost, in rows asked of the database: counts that do not grow with what is not needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from headwater.host.space_files import open_space
from headwater.store import document, engine, folding
from headwater.store.backends.memory_backend import MemoryBackend
from headwater.store.backends.sqlite import SqliteBackend
from headwater.store.commit import (
    Absent,
    Commit,
    Committed,
    Effect,
    Entry,
    PendingRead,
    Refused,
    SetDoc,
    Submission,
    decode_entry,
)
from headwater.store.conflict import EVERYTHING, Write, first_unseen
from headwater.store.engine import Engine
from headwater.store.sessions import Session
from headwater.store.state_cache import DocState, ends_with_whole_layer
from headwater.store.store_limits import DECODED_MAX
from headwater.testing import SimClock
from headwater.values.address import Depth, doc_key
from headwater.values.ids import MAIN, LocalSeq, Seq, SessionId
from headwater.values.tree import ABSENT, freeze
from headwater.values.tree import Path as TreePath
from tests.support.spaces import add, edit, put, replace

READS = ["row", "log", "head", "heads", "revisions", "snapshot", "snapshots", "never_written"]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each kind of row was asked for."""
    counts: Counter[str] = Counter()
    for name in READS:
        original = getattr(SqliteBackend, name)

        def counting(*args: object, name: str = name, original: object = original, **options: object) -> object:
            counts[name] += 1
            return original(*args, **options)  # type: ignore[operator]

        monkeypatch.setattr(SqliteBackend, name, counting)
    return counts


def filled(path: str, documents: int) -> None:
    """Documents that came in one commit, as an import brings them; folded, as closing does."""
    backend = SqliteBackend(path)
    engine = Engine(backend, SimClock())
    operations = tuple(SetDoc(doc_key(f"d{n}"), freeze({"n": n, "text": "x" * 50})) for n in range(documents))
    if operations:
        engine.admit([Submission(Commit(SessionId("s"), LocalSeq(1), operations))])
    engine.fold()
    backend.close()


@pytest.mark.parametrize("documents", [0, 1, 1000])
def test_opening_asks_for_no_document(tmp_path: Path, asked: Counter[str], documents: int) -> None:
    path = str(tmp_path / "space.db")
    filled(path, documents)
    asked.clear()
    backend = SqliteBackend(path)
    Engine(backend, SimClock())
    # The newest row of the log tells where it ends, and the one the caches reach to is the same.
    assert {name: count for name, count in asked.items() if name not in ("row", "log")} == {}
    assert asked["row"] <= 1 and asked["log"] <= 1
    backend.close()


def test_document_that_came_with_a_thousand_others_is_read_without_them(tmp_path: Path, asked: Counter[str]) -> None:
    """A snapshot of each is taken, because the commit is far larger than the document."""
    path = str(tmp_path / "space.db")
    filled(path, 1000)
    backend = SqliteBackend(path)
    engine = Engine(backend, SimClock())
    asked.clear()
    assert engine.states.get(MAIN, doc_key("d700")).value == {"n": 700, "text": "x" * 50}
    assert asked["row"] == asked["log"] == 0
    backend.close()


def test_documents_that_a_group_creates_are_looked_up_together(tmp_path: Path, asked: Counter[str]) -> None:
    path = str(tmp_path / "space.db")
    filled(path, 3)
    with closing(SqliteBackend(path)) as backend:
        engine = Engine(backend, SimClock())
        asked.clear()
        outcomes = engine.admit([created(number, f"n{number}") for number in range(1, 21)])
        assert [type(outcome.verdict) for outcome in outcomes] == [Committed] * 20
        assert dict(asked) == {"never_written": 1}
        # One of them exists: the second is refused, as it would be alone.
        outcomes = engine.admit([created(21, "new"), created(22, "d2"), created(23, "n3"), created(24, "new")])
        assert [type(outcome.verdict) for outcome in outcomes] == [Committed, Refused, Refused, Refused]


def created(number: int, name: str) -> Submission:
    doc, value = doc_key(name), freeze({"n": number})
    commit = Commit(SessionId("t"), LocalSeq(number), (SetDoc(doc, value),), preconditions=(Absent(doc),))
    return Submission(commit, (Effect(doc, ABSENT, value, EVERYTHING),))


def test_small_document_that_came_alone_is_not_written_twice(tmp_path: Path) -> None:
    path = str(tmp_path / "space.db")
    filled(path, 1)
    backend = SqliteBackend(path)
    assert backend.snapshots(MAIN, doc_key("d0")) == []
    backend.close()


def test_writes_are_remembered_for_two_folds_at_most(tmp_path: Path) -> None:
    backend = SqliteBackend(str(tmp_path / "space.db"))
    engine = Engine(backend, SimClock())
    number = 0

    def write(times: int) -> DocState:
        nonlocal number
        for _ in range(times):
            number += 1
            operation = (
                put("a", {"n": 0}) if number == 1 else edit("a", replace("n", to=number), add("m", value=number))
            )
            engine.admit([Submission(Commit(SessionId("s"), LocalSeq(number), (operation,)))])
        engine.fold()
        return engine.states.get(MAIN, doc_key("a"))

    assert len(write(10).recent) == 10
    assert len(write(5).recent) == 5
    assert len(write(3).recent) == 3
    backend.close()


@pytest.mark.pure("replaces a function")
def test_read_through_many_layers_looks_no_further_back_than_the_last_whole_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[int] = []

    def counting(path: TreePath, depth: Depth, writes: Iterable[Write]) -> Seq | None:
        found = list(writes)
        looked.append(len(found))
        return first_unseen(path, depth, found)

    through_whole: list[bool] = []

    def asking(session: Session, state: DocState, read: PendingRead) -> bool:
        through_whole.append(ends_with_whole_layer(session, state, read))
        return through_whole[-1]

    monkeypatch.setattr(engine, "first_unseen", counting)
    monkeypatch.setattr(engine, "ends_with_whole_layer", asking)
    docs = [doc_key("a"), doc_key("b")]
    with open_space("memory:") as storage:
        here = storage.attach()
        assert [here.read(doc) for doc in docs] == [ABSENT, ABSENT]
        with storage._lock:  # nothing is decided meanwhile
            for number in range(60):  # fewer than a group: a full one would be decided by who writes
                doc = docs[number % 2]  # so that the layers of a document are not all commits of the session
                here.commit([SetDoc(doc, number)], reads=[here.read_mark(doc, ())])
        here.sync()
        assert here.read(docs[1]) == 59
    assert len(through_whole) > 20
    assert all(through_whole) and not looked, "not even one write is looked at"


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_statement_is_planned_once_whatever_values_it_gets(tmp_path: Path, kind: str) -> None:
    """The condition could be that of a partial index: without the setting, it is planned again for each value."""
    backend = MemoryBackend() if kind == "memory" else SqliteBackend(str(tmp_path / "space.db"))
    planned: list[object] = []

    def note(*asked: object) -> int:
        planned.append(asked)
        return apsw.SQLITE_OK

    backend.tables._db.authorizer = note  # asked whenever a statement is planned
    query = "select id from flow_event where topic = ? and status = ?"
    backend.tables.execute(query, (1, "consumed"))
    assert planned
    planned.clear()
    backend.tables.execute(query, (2, "pending"))
    assert not planned
    backend.close()


def test_listing_reads_only_the_rows_that_it_returns(tmp_path: Path) -> None:
    """By the plans of its queries: each goes to its keys by an index, and sorts nothing."""
    queries: list[tuple[str, tuple[object, ...]]] = []

    def record(_cursor: object, query: str, values: tuple[object, ...]) -> bool:
        queries.append((query, values))
        return True

    with open_space(str(tmp_path / "x.db")) as storage:
        replica = storage.attach()
        replica.commit([SetDoc(doc_key(f"shop.c{number}"), number) for number in range(20)])
        replica.sync()

        def look(engine: Engine) -> list[str]:
            engine.fold()
            backend = engine.backend
            assert isinstance(backend, SqliteBackend)
            backend.heads(MAIN, "space/shop.", doc_key("a"), 3)
            backend._db.exec_trace = record  # type: ignore[assignment]  # its values are a tuple here
            found = backend.heads(MAIN, "space/shop.", doc_key("shop.c1"), 3)
            found += backend.heads(MAIN, "space/shop.", doc_key("a"), 3)
            backend._db.exec_trace = None
            assert [row.doc for row in found] == [
                doc_key(f"shop.c{name}") for name in ("10", "11", "12", "0", "1", "10")
            ]
            plans = (backend._db.execute(f"explain query plan {query}", values) for query, values in queries)
            return [str(row[3]) for plan in plans for row in plan]

        steps = storage.call(look)
    assert any("doc" in step for step in steps)
    for step in steps:
        assert step.startswith(("SEARCH", "SCALAR SUBQUERY")), step


def counted_decodes(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The rows of the log that are decoded from now on."""
    decodes: list[bytes] = []

    def counting(body: bytes) -> Entry:
        decodes.append(body)
        return decode_entry(body)

    monkeypatch.setattr(document, "decode_entry", counting)
    return decodes


@pytest.mark.parametrize("is_folded", [False, True])
def test_reads_of_documents_that_one_commit_has_made_decode_it_once(
    monkeypatch: pytest.MonkeyPatch, *, is_folded: bool
) -> None:
    """As of a list whose elements were all made by one transaction: each reads its own document through that commit."""
    decodes = counted_decodes(monkeypatch)
    clock, backend, ann = SimClock(), MemoryBackend(), SessionId("ann")
    space = Engine(backend, clock)
    docs = [doc_key(f"d{number}") for number in range(50)]
    space.admit([Submission(Commit(ann, LocalSeq(1), tuple(SetDoc(doc, number) for number, doc in enumerate(docs))))])
    if is_folded:
        space.fold()
        # The states are loaded again: their writes are only in the log.
    space.states.clear()
    for number, doc in enumerate(docs):
        read = PendingRead(doc, (), Seq(0), ((LocalSeq(1), LocalSeq(1)),))
        commit = Commit(ann, LocalSeq(2 + number), (put(f"r{number}", 1),), (), (read,))
        [outcome] = space.admit([Submission(commit)])
        assert type(outcome.verdict) is Committed
    assert len(decodes) == is_folded


@pytest.mark.parametrize("commits", [2, DECODED_MAX])
def test_documents_that_some_commits_have_written_together_decode_each_commit_once(
    monkeypatch: pytest.MonkeyPatch, commits: int
) -> None:
    backend, ann = MemoryBackend(), SessionId("ann")
    space = Engine(backend, SimClock())
    docs = [f"d{number}" for number in range(20)]
    space.admit([Submission(Commit(ann, LocalSeq(1), tuple(put(doc, {"n": 0}) for doc in docs)))])
    for number in range(2, commits + 1):
        # In small commits, so that no snapshot is made of a document.
        patches = tuple(edit(doc, replace("n", to=number)) for doc in docs)
        space.admit([Submission(Commit(ann, LocalSeq(number), patches))])
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(folding, "SNAPSHOT_SLACK_BYTES", 1_000_000)
        space.fold()
    decodes = counted_decodes(monkeypatch)
    found = [space.documents.at(MAIN, doc_key(doc), space.head).value for doc in docs]
    assert found == [{"n": commits}] * len(docs)
    assert len(decodes) == commits


def test_entries_are_kept_decoded_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    backend, ann = MemoryBackend(), SessionId("ann")
    space = Engine(backend, SimClock())
    for number in range(1, 4):
        space.admit([Submission(Commit(ann, LocalSeq(number), (put(f"d{number}", "x" * 1_000),)))])
    space.fold()
    monkeypatch.setattr(document, "FOLD_BYTES", 2_500)
    decodes = counted_decodes(monkeypatch)
    for seq in (1, 2, 1, 3, 1, 2):
        assert space.documents.entry(Seq(seq)) is not None
    # Two fit: the third takes the place of the second, which was used before the first.
    assert len(decodes) == 4
