"""A transaction ends once, in one of three ways; whoever waits is called in all three, and nothing is kept."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from contextlib import suppress
from itertools import product

import pytest

from headwater.cells.transaction import Transaction
from headwater.cells.transaction_states import SETTLED, TRANSITIONS, Status, TransactionSignal
from headwater.errors import (
    AddressError,
    ClosedError,
    HeadwaterError,
    InvariantError,
    LimitError,
    StoreFullError,
)
from headwater.store.commit import Absent, Committed, Conflict, Refused
from headwater.values.address import Depth, doc_key
from headwater.values.ids import Seq
from headwater.values.notifications import Notification
from tests.cells.replica.desk import Ear
from tests.cells.transactions.stage import A, B, C, Stage, seen
from tests.support.naive import NOTHING
from tests.support.spaces import edit, increment, put, remove, replace

FULL = StoreFullError("no room")
CLOSED = ClosedError("space 'notes' was closed; open it again to use it")
LIMIT = LimitError("too much of it")


def ready_stage() -> Stage:
    return Stage(a={"x": 1}, c=[1])


def ready(stage: Stage) -> Transaction:
    """Has read, written, and been remembered in."""
    tx = stage.begin("of a test")
    tx.set(B, (), seen(tx, "a", "x") + 1)
    tx.set(A, ("y",), 5)
    tx.memo["cell"] = "value"
    return tx


# --- the ways to end ------------------------------------------------------------------------------------------


def end_committed(stage: Stage, tx: Transaction) -> None:
    tx.commit()
    stage.settle()


def end_with_nothing_to_write(stage: Stage, tx: Transaction) -> None:
    tx.roll_back((0, {}, 0, 0))
    tx.commit()
    assert stage.submitted == 0


def end_in_conflict(stage: Stage, tx: Transaction) -> None:
    stage.elsewhere(edit("a", replace("x", to=9)))
    tx.commit()
    stage.settle()


def end_refused(stage: Stage, tx: Transaction) -> None:
    tx.require(Absent(A))
    tx.commit()
    stage.settle()


def end_failed(stage: Stage, tx: Transaction) -> None:
    tx.commit()
    stage.fail(FULL)
    stage.tell()


def end_stale(stage: Stage, tx: Transaction) -> None:
    stage.meanwhile(edit("a", replace("x", to=9)))
    tx.commit()


def end_overtaken(stage: Stage, tx: Transaction) -> None:
    tx.patch(C, remove(0))
    stage.meanwhile(put("c", "no list any more"))
    tx.commit()


def end_on_a_layer_taken_back(stage: Stage, tx: Transaction) -> None:
    stage.here.commit([put("c", 1)])
    assert seen(tx, "c") == 1
    stage.fail(FULL)
    stage.tell()
    tx.commit()


def end_at_a_closed_door(stage: Stage, tx: Transaction) -> None:
    stage.error = CLOSED
    with pytest.raises(ClosedError) as caught:
        tx.commit()
    assert caught.value is CLOSED


def end_at_a_limit(stage: Stage, tx: Transaction) -> None:
    stage.error = LIMIT
    with pytest.raises(LimitError):
        tx.commit()


def end_interrupted(stage: Stage, tx: Transaction) -> None:
    stage.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        tx.commit()


def end_aborted(_: Stage, tx: Transaction) -> None:
    tx.abort()


End = Callable[[Stage, Transaction], None]
ENDS: dict[str, tuple[End, Status, object, HeadwaterError | None]] = {
    "committed": (end_committed, Status.COMMITTED, Committed, None),
    "nothing to write": (end_with_nothing_to_write, Status.COMMITTED, Committed, None),
    "conflict": (end_in_conflict, Status.REJECTED, Conflict, None),
    "refused": (end_refused, Status.REJECTED, Refused, None),
    "failed": (end_failed, Status.REJECTED, None, FULL),
    "stale": (end_stale, Status.REJECTED, Conflict, None),
    "overtaken": (end_overtaken, Status.REJECTED, Conflict, None),
    "layer taken back": (end_on_a_layer_taken_back, Status.REJECTED, Conflict, None),
    "closed": (end_at_a_closed_door, Status.REJECTED, None, CLOSED),
    "limit": (end_at_a_limit, Status.REJECTED, None, LIMIT),
    "interrupted": (end_interrupted, Status.ABORTED, None, None),
    "aborted": (end_aborted, Status.ABORTED, None, None),
}
each_end = pytest.mark.parametrize("end", [case[0] for case in ENDS.values()], ids=list(ENDS))


@pytest.mark.parametrize("name", ENDS)
def test_end_tells_how_it_came_about(name: str) -> None:
    end, status, verdict, error = ENDS[name]
    stage = ready_stage()
    tx = ready(stage)
    end(stage, tx)
    assert tx.status is status
    assert (type(tx.verdict) if tx.verdict is not None else None) is verdict
    assert tx.error is error
    assert repr(tx) == f"<Transaction of a test: {status.value}>"


@each_end
def test_everyone_is_called_once_in_order_when_it_has_ended(end: End) -> None:
    stage = ready_stage()
    tx = ready(stage)
    called: list[tuple[str, Transaction, Status]] = []
    for name in ("first", "second"):
        tx.on_settled(lambda settled, name=name: called.append((name, settled, settled.status)))  # type: ignore[misc]
    assert tx.is_awaited
    end(stage, tx)
    stage.settle()
    assert called == [("first", tx, tx.status), ("second", tx, tx.status)]
    assert tx.status in SETTLED
    assert not tx.is_awaited


@each_end
def test_callback_that_raises_stops_none_of_the_others_and_its_error_is_not_lost(end: End) -> None:
    stage = ready_stage()
    tx = ready(stage)
    called: list[str] = []

    def broken(_: Transaction) -> None:
        called.append("broken")
        raise ZeroDivisionError

    tx.on_settled(broken)
    tx.on_settled(lambda _: called.append("other"))
    with suppress(HeadwaterError), pytest.raises(ZeroDivisionError):
        end(stage, tx)
    assert called == ["broken", "other"]
    assert tx.status in SETTLED


@each_end
def test_callback_that_comes_after_the_end_is_called_at_once(end: End) -> None:
    stage = ready_stage()
    tx = ready(stage)
    end(stage, tx)
    called: list[Transaction] = []
    tx.on_settled(called.append)
    assert called == [tx]
    assert not tx.is_awaited


@each_end
def test_nothing_is_kept_when_it_has_ended(end: End) -> None:
    class Kept:
        def __call__(self, _: Transaction) -> None: ...

    stage = ready_stage()
    tx = ready(stage)
    callback, remembered = Kept(), Kept()
    memo = tx.memo
    memo["kept"] = remembered
    tx.on_settled(callback)
    alive = [weakref.ref(callback), weakref.ref(remembered)]
    del callback, remembered
    end(stage, tx)
    gc.collect()
    assert [ref() for ref in alive] == [None, None]
    assert (len(tx.journal), len(tx.memo), len(tx._seen), tx._preconditions, tx.callbacks) == (0, 0, 0, (), ())
    assert not memo, "code that still holds the memo finds it empty"
    tx.memo["late"] = 1
    assert not tx.memo, "all ended transactions share one, to which nothing is added"
    assert not tx.has_writes


@each_end
def test_nobody_keeps_the_transaction_when_it_has_ended(end: End) -> None:
    stage = ready_stage()
    end(stage, ready(stage))
    stage.error = None
    for raised in (CLOSED, LIMIT):
        raised.__traceback__ = None
    gc.collect()
    assert [found for found in gc.get_objects() if type(found) is Transaction and found.replica is stage.here] == []


def test_what_was_held_is_let_go_when_it_is_sent_and_the_journal_when_it_is_decided() -> None:
    stage = ready_stage()
    tx = ready(stage)
    tx.commit()
    assert (tx.status, len(tx._seen), len(tx.memo)) == (Status.PENDING, 0, 0)
    assert len(tx.journal) > 0, "whoever retries it may ask what it had read"
    stage.settle()
    assert len(tx.journal) == 0


def test_callback_may_begin_anew() -> None:
    stage = ready_stage()
    tx = ready(stage)
    again: list[Transaction] = []

    def retry(failed: Transaction) -> None:
        assert (len(failed.journal), failed.is_rejected) == (0, True)
        again.append(ready(stage))
        again[0].commit()

    tx.on_settled(retry)
    end_in_conflict(stage, tx)
    stage.settle()
    assert again[0].status is Status.COMMITTED
    assert stage.now("b") == 10


# --- after the end --------------------------------------------------------------------------------------------

USES: dict[str, Callable[[Transaction], object]] = {
    "read": lambda tx: tx.read(A),
    "look": lambda tx: tx.document(A),
    "note": lambda tx: tx.record(A, (), Depth.DEEP),
    "set": lambda tx: tx.set(A, ("x",), 1),
    "set whole": lambda tx: tx.set(C, (), 1),
    "patch": lambda tx: tx.patch(A, increment("x")),
    "delete": lambda tx: tx.delete(A),
    "require": lambda tx: tx.require(Absent(C)),
    "commit": lambda tx: tx.commit(),
    "abort": lambda tx: tx.abort(),
}


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.parametrize("use", USES)
def test_use_after_the_end_is_refused_with_what_to_do(name: str, use: str) -> None:
    stage = ready_stage()
    tx = ready(stage)
    ENDS[name][0](stage, tx)
    if use == "abort" and tx.status is Status.ABORTED:
        tx.abort()
        return
    with pytest.raises(ClosedError) as caught:
        USES[use](tx)
    assert "transaction of a test cannot " in caught.value.message
    assert f"it is {tx.status.value}" in caught.value.message
    assert "needs a transaction of its own" in caught.value.message
    assert caught.value.facts["status"] == tx.status.value


@pytest.mark.parametrize("use", USES)
def test_use_while_the_store_has_not_decided_is_refused(use: str) -> None:
    stage = ready_stage()
    tx = ready(stage)
    tx.commit()
    with pytest.raises(ClosedError, match="it is pending"):
        USES[use](tx)
    stage.settle()
    assert tx.status is Status.COMMITTED, "and does no harm to it"


def test_message_says_what_was_tried() -> None:
    tx = Stage(a={"x": 1}).begin()
    tx.abort()
    for use, verb in [("read", "read"), ("set", "write"), ("require", "be given a precondition"), ("commit", "commit")]:
        with pytest.raises(ClosedError, match=f"this transaction cannot {verb}: it is aborted"):
            USES[use](tx)


def test_aborted_transaction_leaves_no_trace() -> None:
    stage = Stage(a={"x": 1})
    ear = Ear(stage.here, a={"x": 1})
    tx = ready(stage)
    tx.abort()
    tx.abort()
    stage.settle()
    assert (stage.now("a"), stage.now("b"), stage.submitted, ear.told) == ({"x": 1}, NOTHING, 0, [])


# --- the table ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("status", "signal"), list(product(Status, TransactionSignal)))
def test_what_the_table_says_happens_and_nothing_else_can(status: Status, signal: TransactionSignal) -> None:
    tx = Stage().begin("in between")
    tx.status = status
    after = TRANSITIONS.get((status, signal))
    if after is not None:
        tx._settle(signal, None, None)
        assert tx.status is after
        return
    with pytest.raises(InvariantError) as caught:
        tx._settle(signal, None, None)
    assert tx.status is status
    assert caught.value.facts == {"status": status.value, "signal": signal.value}


def test_every_status_can_be_reached_and_only_the_settled_ones_cannot_be_left() -> None:
    reached = {Status.OPEN, *TRANSITIONS.values()}
    assert reached == set(Status)
    assert {status for status, _ in TRANSITIONS} == set(Status) - SETTLED


def test_transaction_cannot_be_decided_twice() -> None:
    stage = ready_stage()
    tx = ready(stage)
    tx.commit()
    (pending,) = stage.here._pending.values()
    (decided,) = pending.callbacks
    stage.settle()
    with pytest.raises(InvariantError):
        decided(pending)
    assert tx.verdict == Committed(Seq(2))


# --- errors on the way ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [ZeroDivisionError(), InvariantError("a bug"), AddressError("a bug"), KeyboardInterrupt()]
)
def test_listener_that_raises_does_not_keep_the_transaction_from_its_verdict(error: BaseException) -> None:
    """The commit is visible and under way when listeners are called: what they raise says nothing about its fate."""
    stage = ready_stage()
    tx = ready(stage)
    called: list[Transaction] = []
    tx.on_settled(called.append)

    def broken(_: Notification) -> None:
        raise error

    end = stage.here.listen(broken)
    with pytest.raises(type(error)):
        tx.commit()
    end()
    assert (tx.status, stage.now("b"), called) == (Status.PENDING, 2, [])
    stage.settle()
    assert (tx.status, called) == (Status.COMMITTED, [tx])


def test_value_that_cannot_be_stored_rejects_the_transaction_and_nothing_of_it_is_seen() -> None:
    stage = ready_stage()
    tx = ready(stage)
    tx.set(doc_key("d"), ("when",), object())  # type: ignore[arg-type]
    with pytest.raises(AddressError, match="freeze"):
        tx.commit()
    assert (tx.status, type(tx.error)) == (Status.REJECTED, AddressError)
    assert (stage.now("b"), stage.submitted) == (NOTHING, 0)


def test_replica_is_as_before_when_the_door_was_closed() -> None:
    stage = ready_stage()
    tx = ready(stage)
    end_at_a_closed_door(stage, tx)
    assert (stage.now("a"), stage.now("b"), stage.here.pending_count) == ({"x": 1}, NOTHING, 0)
    stage.error = None
    again = ready(stage)
    again.commit()
    stage.settle()
    assert again.status is Status.COMMITTED


def test_all_of_a_rejected_transaction_is_taken_back_at_once() -> None:
    stage = Stage(a={"x": 1, "y": 0}, b=0)
    ear = Ear(stage.here, a={"x": 1, "y": 0}, b=0)
    tx = ready(stage)
    stage.elsewhere(edit("a", replace("x", to=9)))
    tx.commit()
    assert ear.model == {A: {"x": 1, "y": 5}, B: 2}
    stage.settle()
    assert ear.model == {A: {"x": 9, "y": 0}, B: 0}
    assert [notification.source is tx for notification in ear.told] == [True, True]


def test_name_is_optional() -> None:
    tx = Stage().begin()
    assert repr(tx) == "<Transaction unnamed: open>"
    assert (tx.is_open, tx.is_rejected, tx.has_writes) == (True, False, False)
