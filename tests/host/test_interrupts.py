"""Ctrl-C at any moment: nothing is lost, nothing lands twice, and every commit is settled in the end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from headwater.cells.pending_commit import PendingCommit
from headwater.errors import HeadwaterError
from headwater.host.storage import Storage
from headwater.runtime.attached_replica import AttachedReplica, Delivered, ReplicaPort
from headwater.store.collection_record import CollectionRecord, Index, Shift
from headwater.store.commit import CommitOutcome, Committed, SetDoc
from headwater.store.declaring import declare
from headwater.store.engine import Engine
from headwater.store.index_field import IndexField
from headwater.store.verification import verify
from headwater.values.address import doc_key
from headwater.values.frozen import FrozenDict
from headwater.values.ids import NEVER
from headwater.values.tree import ABSENT
from tests.support.hosts import in_memory
from tests.support.naive import plain
from tests.support.spaces import edit, increment, put


class Stop:
    """Raises once, the nth time a function is about to be called, or has just returned."""

    def __init__(self, nth: int, when: str, error: type[BaseException] = KeyboardInterrupt) -> None:
        self.left, self.when, self.error = nth, when, error

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            self.left -= 1
            now = self.left == 0
            if now and self.when == "before":
                raise self.error
            result = function(*args, **kwargs)
            if now:
                raise self.error
            return result

        return wrapped


COUNT = doc_key("count")

POINTS = [
    (Engine, "admit", "before"),
    (Engine, "_decide", "before"),
    (Engine, "_decide", "after"),
    (Engine, "_append", "after"),
    (Engine, "_write", "before"),
    (Engine, "_advance", "before"),
    (Engine, "_advance", "after"),
    (Engine, "_write", "after"),
    (Engine, "admit", "after"),
    (Storage, "_decide", "after"),
    (ReplicaPort, "deliver", "before"),
    (ReplicaPort, "deliver", "after"),
]


@pytest.fixture
def storage() -> Storage:
    storage = in_memory(group_max=4)
    storage.attach().commit([put("count", {"n": 0})])
    storage.wait()
    return storage


def check(storage: Storage, replicas: list[AttachedReplica], sent: list[PendingCommit]) -> None:
    """Everything settled once, as the log says; every replica shows the sum; the log holds each commit once."""
    for replica in replicas:
        replica.sync()
        assert replica.pending_count == 0
    assert all(pending.settled for pending in sent)
    accepted = [pending for pending in sent if pending.accepted]
    expected = {"n": len(accepted)}
    for replica in replicas:
        assert plain(replica.read(COUNT)) == expected
        replica.commit([put("after", "ok")])
        replica.sync()
    engine = storage._engine
    assert plain(engine.documents.at(replicas[0]._branch, COUNT, engine.head).value) == expected
    places = [pending.verdict.seq for pending in accepted if isinstance(pending.verdict, Committed)]
    assert len(set(places)) == len(places)
    assert verify(engine).ok
    assert [row.seq for row in engine.backend.log(NEVER, engine.head)] == list(range(1, engine.head + 1))


@pytest.mark.parametrize("nth", [1, 2, 3, 5])
@pytest.mark.parametrize(("owner", "name", "when"), POINTS)
def test_interrupt_while_waiting_loses_nothing_and_doubles_nothing(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, *, owner: type, name: str, when: str, nth: int
) -> None:
    ann, bob = storage.attach(), storage.attach()
    bob.read(COUNT)
    sent = [replica.commit([edit("count", increment("n"))]) for replica in (ann, bob, ann)]
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, Stop(nth, when).around(getattr(owner, name)))
        with suppress(KeyboardInterrupt):
            storage.wait()
    check(storage, [ann, bob], sent)
    assert all(pending.accepted for pending in sent)


@pytest.mark.parametrize("nth", [1, 2, 4])
@pytest.mark.parametrize(("owner", "name", "when"), POINTS)
def test_interrupt_inside_a_commit_that_helps_leaves_no_trace_or_all_of_it(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, *, owner: type, name: str, when: str, nth: int
) -> None:
    """The fourth waiting commit decides the group; Ctrl-C then comes out of `commit` itself."""
    ann, bob = storage.attach(), storage.attach()
    bob.read(COUNT)
    sent: list[PendingCommit] = []
    interrupted = 0
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, Stop(nth, when).around(getattr(owner, name)))
        for number in range(6):
            try:
                sent.append((ann, bob)[number % 2].commit([edit("count", increment("n"))]))
            except KeyboardInterrupt:
                interrupted += 1
    assert interrupted <= 1
    for replica in (ann, bob):
        replica.sync()
    landed = plain(storage._engine.documents.at(ann._branch, COUNT, storage._engine.head).value)["n"]
    assert all(pending.accepted for pending in sent), [(p.verdict, p.error) for p in sent]
    assert landed in (len(sent), len(sent) + interrupted)
    for replica in (ann, bob):
        assert plain(replica.read(COUNT)) == {"n": landed}


@pytest.mark.parametrize("when", ["before", "after"])
def test_interrupt_between_two_that_are_taken_from_the_queue_loses_neither(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    stop = Stop(2, when)

    class Queue(deque[Any]):
        popleft = stop.around(deque.popleft)

    ann = storage.attach()
    monkeypatch.setattr(storage, "_waiting", Queue(storage._waiting))
    sent = [ann.commit([edit("count", increment("n"))]) for _ in range(3)]
    with suppress(KeyboardInterrupt):
        storage.wait()
    check(storage, [ann], sent)


@pytest.mark.pure("interrupts at each line of Python")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("name", ["_write", "_advance"])
@pytest.mark.parametrize(("action", "nth"), [("fork", 1), ("merge", 1), ("merge", 2), ("fold", 1)])
def test_interrupt_in_the_care_of_a_space_does_not_confuse_later_commits(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, *, action: str, nth: int, name: str, when: str
) -> None:
    """A merge folds first: only the second write is its own."""
    ann = storage.attach()
    assert plain(ann.read(COUNT)) == {"n": 0}
    assert ann.read(doc_key("other")) is ABSENT, "held here from now on: it has to be told of the merge"
    storage.fork("draft")
    draft = storage.attach(branch="draft")
    draft.commit([put("other", 1)])
    draft.sync()
    actions: dict[str, Callable[[], object]] = {
        "fork": lambda: storage.fork("second"),
        "merge": lambda: storage.merge("draft"),
        "fold": lambda: storage.call(lambda engine: engine.fold()),
    }
    with monkeypatch.context() as patched:
        patched.setattr(Engine, name, Stop(nth, when).around(getattr(Engine, name)))
        with pytest.raises(KeyboardInterrupt):
            actions[action]()
    sent = [ann.commit([edit("count", increment("n"))]) for _ in range(2)]
    check(storage, [ann], sent)
    engine = storage._engine
    other = engine.documents.at(ann._branch, doc_key("other"), engine.head).value
    assert plain(ann.read(doc_key("other"))) == plain(other)
    assert (ann.read(doc_key("other")) is ABSENT) == (other is ABSENT)


@pytest.mark.parametrize("name", ["_write", "_advance"])
def test_second_interrupt_while_the_first_is_mended_does_no_harm_either(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    ann, bob = storage.attach(), storage.attach()
    bob.read(COUNT)
    sent = [replica.commit([edit("count", increment("n"))]) for replica in (ann, bob, ann)]
    with monkeypatch.context() as patched:
        patched.setattr(Engine, name, Stop(1, "after").around(getattr(Engine, name)))
        patched.setattr(Engine, "__init__", Stop(1, "before").around(Engine.__init__))
        with suppress(KeyboardInterrupt):
            storage.wait()
    check(storage, [ann, bob], sent)
    assert all(pending.accepted for pending in sent)


def test_commit_that_breaks_the_engine_fails_alone_and_the_others_go_on(storage: Storage) -> None:
    """A value that got past all checks: no writer may be held up by what another one did."""
    ann, bob = storage.attach(), storage.attach()
    first = ann.commit([edit("count", increment("n"))])
    broken = bob.commit([SetDoc(doc_key("broken"), FrozenDict({"a": object()}))])  # type: ignore[dict-item]
    last = ann.commit([edit("count", increment("n"))])
    for replica in (ann, bob):
        replica.sync()
    assert first.accepted and last.accepted
    assert isinstance(broken.error, HeadwaterError)
    assert bob.read(doc_key("broken")) is ABSENT


def test_thread_of_a_space_outlives_a_commit_that_breaks_the_engine() -> None:
    storage = in_memory(still=False)
    ann = storage.attach()
    broken = ann.commit([SetDoc(doc_key("broken"), FrozenDict({"a": object()}))])  # type: ignore[dict-item]
    ann.sync()
    good = ann.commit([put("fine", 1)])
    ann.sync()
    assert (broken.accepted, good.accepted, storage._thread.is_alive()) == (False, True, True)
    storage.close()


class Receiver:
    """Takes outcomes, as the channel of a server."""

    def __init__(self) -> None:
        self.shifts: dict[int, list[Shift]] = {}

    def deliver(self, decided: Delivered) -> None:
        for each in decided:
            if isinstance(each, CommitOutcome) and isinstance(each.verdict, Committed) and each.shifts:
                self.shifts.setdefault(each.verdict.seq, list(each.shifts))


@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize(("owner", "name", "when"), POINTS[:-2])
def test_outcomes_after_an_interrupt_have_the_shifts_of_their_commits(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, *, owner: type, name: str, when: str, nth: int
) -> None:
    record = CollectionRecord("order", indexes=(Index((IndexField("n"),)),))
    storage.commit(lambda engine: declare(engine, record))
    receiver = Receiver()
    head = storage.join(receiver)
    ann = storage.attach()
    for number in range(3):
        ann.commit([put(f"order:{number}", {"n": number}), put(f"other{number}", number)])
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, Stop(nth, when).around(getattr(owner, name)))
        with suppress(KeyboardInterrupt):
            storage.wait()
    storage.wait()
    known = storage.call(lambda engine: engine.collections.shifts_in_log(head))
    assert len(known) == 3
    assert receiver.shifts == known
