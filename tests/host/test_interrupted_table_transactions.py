"""Ctrl-C while a rider is decided: it is done once, or whoever waits is told that nobody knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import pytest

from headwater.errors import HeadwaterError, NotFoundError
from headwater.host.storage import Storage
from headwater.store.commit import Committed, Operation, Tables, Verdict
from headwater.store.engine import Engine
from headwater.values.ids import DocKey
from headwater.values.tree import Maybe
from tests.host.test_interrupts import POINTS, Stop
from tests.support.hosts import in_memory
from tests.support.spaces import put

COUNT = "select count(*) from flow"
INSERT = "insert into flow(name, salt, version, intent, created_at, updated_at) values (?, '', 1, 'active', 0, 0)"


class Row:
    """Adds a row each time it rides: a second time would be refused, because names are unique."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.told: list[tuple[Verdict | None, HeadwaterError | None]] = []

    def apply(self, tables: Tables, look: Callable[[DocKey], Maybe]) -> Sequence[Operation]:
        assert look is not None
        tables.execute(INSERT, (self.name,))
        return [put(f"status-{self.name}", "there")]

    def decided(self, verdict: Verdict | None, error: HeadwaterError | None) -> None:
        self.told.append((verdict, error))


def rows_of(storage: Storage, name: str) -> int:
    found = storage.call(lambda engine: engine.backend.tables.execute(f"{COUNT} where name = ?", (name,)))
    return int(str(found[0][0]))


@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize(("owner", "name", "when"), POINTS)
def test_a_rider_of_its_own_is_kept_once_or_said_to_be_unknown(
    monkeypatch: pytest.MonkeyPatch, *, owner: type, name: str, when: str, nth: int
) -> None:
    storage = in_memory(group_max=4)
    storage.attach()
    table_transactions = [Row("a"), Row("b")]
    for table_transaction in table_transactions:
        storage.submit_tables(table_transaction)
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, Stop(nth, when).around(getattr(owner, name)))
        with suppress(KeyboardInterrupt):
            storage.wait()
    storage.wait()
    for table_transaction in table_transactions:
        assert table_transaction.told
        verdict, error = table_transaction.told[0]
        if isinstance(verdict, Committed):
            assert rows_of(storage, table_transaction.name) == 1
        else:
            assert error is not None
    # And it goes on.
    later = Row("later")
    storage.submit_tables(later)
    storage.wait()
    assert isinstance(later.told[0][0], Committed)
    assert rows_of(storage, "later") == 1


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize(("owner", "name", "when"), POINTS)
def test_a_rider_of_a_commit_is_kept_once_with_it(
    monkeypatch: pytest.MonkeyPatch, *, owner: type, name: str, when: str, nth: int
) -> None:
    storage = in_memory(group_max=4)
    ann = storage.attach()
    table_transaction = Row("a")
    pending = ann._commit([put("count", 1)], (), (), None, None, table_transaction)
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, Stop(nth, when).around(getattr(owner, name)))
        with suppress(KeyboardInterrupt):
            storage.wait()
    ann.sync()
    assert pending.accepted
    assert rows_of(storage, "a") == 1
    assert isinstance(table_transaction.told[0][0], Committed)


class Refused(Row):
    """Adds its row, and is refused."""

    def apply(self, tables: Tables, look: Callable[[DocKey], Maybe]) -> Sequence[Operation]:
        super().apply(tables, look)
        raise NotFoundError("it does not fit")


def test_writes_of_a_refused_transaction_are_undone_if_its_refusal_is_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage = in_memory(group_max=4)
    storage.attach()
    storage.submit_tables(Refused("a"))
    with monkeypatch.context() as patched:
        patched.setattr(Engine, "_undo", Stop(1, "before").around(Engine._undo))
        with suppress(KeyboardInterrupt):
            storage.wait()
    storage.submit_tables(Row("b"))
    storage.wait()
    assert (rows_of(storage, "a"), rows_of(storage, "b")) == (0, 1)
    storage.close()


def test_group_that_is_decided_when_it_is_interrupted_is_told_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = in_memory(group_max=4)
    ann = storage.attach()
    pending = ann.commit([put("count", 1)])
    alone = Row("a")
    storage.submit_tables(alone)
    guarded = Storage._guarded

    @contextmanager
    def interrupted_at_the_end(here: Storage) -> Iterator[None]:
        with guarded(here):
            yield
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Storage, "_guarded", interrupted_at_the_end)
        with suppress(KeyboardInterrupt):
            storage.wait()
    ann.sync()
    assert pending.accepted
    assert isinstance(alone.told[0][0], Committed)
    assert rows_of(storage, "a") == 1
    storage.close()
