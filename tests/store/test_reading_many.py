"""Many documents at once: what each is alone, by a number of statements that does not grow with them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.errors import CorruptError
from headwater.store.backends.sqlite import SqliteBackend
from headwater.store.branching import fork
from headwater.store.collection_record import CollectionRecord, Index
from headwater.store.commit import SetDoc
from headwater.store.declaring import declare
from headwater.store.index_field import IndexField
from headwater.values.address import doc_key
from headwater.values.ids import MAIN, BranchId, Seq
from headwater.values.tree import freeze
from tests.support.halves import examples
from tests.support.limits import small_limits
from tests.support.schedules import DOCS, Schedule
from tests.support.spaces import Space, edit, put, replace

STEPS = st.lists(st.integers(0, 29), max_size=6)
BY_N = Index((IndexField("n"),))
BY_TEXT = Index((IndexField("text"), IndexField("n")))


@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    seed=st.integers(0, 10**6),
    folds=STEPS,
    forked=st.integers(0, 29),
    slack=st.sampled_from([0, 50, 4096]),
    kind=st.sampled_from(["memory", "sqlite"]),
)
def test_documents_read_together_are_those_read_alone(
    tmp_path_factory: pytest.TempPathFactory, seed: int, folds: list[int], forked: int, slack: int, kind: str
) -> None:
    with small_limits(SNAPSHOT_SLACK_BYTES=slack):
        space = Space(kind, tmp_path_factory.mktemp("many"))
        schedule = Schedule(space, random.Random(seed), honest=True)
        client, draft = schedule._clients[0], BranchId("draft")
        for step in range(30):
            if step == forked:
                fork(space.engine, space.clock, draft)
            if step in folds:
                space.engine.fold()
            writer = client.writer if step <= forked or step % 2 else space.writer(f"d{step}", draft)
            writer.commit(*[schedule._operation() for _ in range(2)])
        documents = space.engine.documents
        for branch in (MAIN, draft):
            for seq in map(Seq, range(space.engine.head + 1)):
                alone = {doc: documents.at(branch, doc, seq) for doc in map(doc_key, DOCS)}
                assert documents.many(branch, list(alone), seq) == alone
        space.close()


def filled(tmp_path: Path, number: int, *, is_together: bool) -> Space:
    """A folded space with documents of one commit each, or of one commit together."""
    space = Space("sqlite", tmp_path)
    operations = [put(f"order:{n:05}", {"n": n, "text": f"{n % 7}"}) for n in range(number)]
    writer = space.writer("w")
    for part in [operations] if is_together else [[each] for each in operations]:
        writer.accept(*part)
    space.engine.fold()
    space.reopen()
    return space


def statements(space: Space, work: Any) -> int:
    """The statements that a piece of work executes."""
    assert isinstance(space.backend, SqliteBackend)
    count = 0

    def record(_cursor: object, _query: str, _values: object) -> bool:
        nonlocal count
        count += 1
        return True

    space.backend._db.exec_trace = record  # type: ignore[assignment]  # its values are a tuple here
    try:
        work()
    finally:
        space.backend._db.exec_trace = None
    return count


@pytest.mark.parametrize("is_together", [False, True])
def test_documents_read_together_take_two_statements_at_most(tmp_path: Path, *, is_together: bool) -> None:
    space = filled(tmp_path, 1000, is_together=is_together)
    docs = [doc_key(f"order:{n:05}") for n in range(1000)]
    found: dict[Any, Any] = {}
    took = statements(space, lambda: found.update(space.engine.documents.many(MAIN, docs, space.engine.head)))
    assert took == (1 if is_together else 2)
    assert [found[doc].value for doc in docs] == [freeze({"n": n, "text": f"{n % 7}"}) for n in range(1000)]


def test_patches_since_are_read_for_their_documents_alone(tmp_path: Path) -> None:
    space = filled(tmp_path, 100, is_together=False)
    writer = space.writer("patches")
    writer.accept(edit("order:00007", replace("n", to=700)))
    writer.accept(SetDoc(doc_key("order:00008"), freeze({"n": 8, "text": "new"})))
    space.engine.fold()
    space.reopen()
    docs = [doc_key(f"order:{n:05}") for n in range(100)]
    head = space.engine.head
    one = statements(space, lambda: space.engine.documents.at(MAIN, docs[7], head))
    space.reopen()  # else the entry of the log that was read is still decoded
    documents = space.engine.documents
    assert statements(space, lambda: documents.many(MAIN, docs, head)) == 2 + one
    assert documents.many(MAIN, docs, head) == {doc: documents.at(MAIN, doc, head) for doc in docs}


def test_indexes_are_built_by_a_constant_number_of_statements_per_thousand_documents(tmp_path: Path) -> None:
    def build(number: int, indexes: tuple[Index, ...]) -> int:
        folder = tmp_path / f"{number}-{len(indexes)}"
        folder.mkdir()
        space = filled(folder, number, is_together=True)
        wanted = CollectionRecord("order", indexes=indexes)
        engine = space.engine
        engine.collections.enable()
        made = statements(space, lambda: engine.collections.made(MAIN, wanted.named, wanted))
        declare(engine, wanted)
        space.close()
        return made

    small, large = build(2000, (BY_N,)), build(4000, (BY_N,))
    # Two pages more of bodies, and four more of the listing, which asks five statements for each.
    assert large - small <= 2 + 4 * 6
    # One pass for all indexes.
    assert build(2000, (BY_N, BY_TEXT)) == small


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("delete from head where doc = (select id from doc where key = 'space/order:00003')", "has no head"),
        ("update head set seq = 4 where doc = (select id from doc where key = 'space/order:00003')", "checksum"),
        ("update snapshot set body = x'00' where doc = (select id from doc where key = 'space/order:00003')", "check"),
    ],
)
def test_damage_is_found_when_documents_are_read_together(tmp_path: Path, sql: str, found: str) -> None:
    space = filled(tmp_path, 40, is_together=True)
    with small_limits(SNAPSHOT_SLACK_BYTES=0):
        space.writer("more").accept(*(put(f"order:{n:05}", {"n": n, "text": "t"}) for n in range(40)))
        space.engine.fold()
    space.tamper(sql)
    space.reopen()
    docs = [doc_key(f"order:{n:05}") for n in range(40)]
    with pytest.raises(CorruptError, match=found):
        space.engine.documents.many(MAIN, docs, space.engine.head)
