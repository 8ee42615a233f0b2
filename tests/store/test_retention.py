"""Which receipts are old enough to be deleted, and which are kept; sessions of which only the last number is kept."""

from __future__ import annotations

import pytest

from headwater.store.commit import Committed, Refused
from headwater.store.compaction import compact
from headwater.store.retention import (
    DAY_MS,
    Retention,
    RetentionRound,
    drop_sessions,
    has_old_commits,
    is_dropped,
    is_retention_due,
    retain,
)
from headwater.store.verification import verify
from headwater.values.ids import MAIN, LocalSeq, Seq, SessionId
from tests.support.naive import NOTHING
from tests.support.spaces import Space, Writer, put

LINEAGE = "aa00"


def run(space: Space, **times: int) -> list[int]:
    """One round to its end; the number of receipts of each step that had some."""
    kept, this, counts = Retention(**times), RetentionRound(), []
    while True:
        (count, is_over), outcome = retain(space.engine, this, kept, space.clock.now_ms())
        assert (outcome is not None) == bool(count)
        counts += [count] * bool(count)
        if is_over:
            return counts


def deliver(ann: Writer, number: int, acknowledged: int | None = None) -> None:
    """An event of another space is handled: the receipt, and the cursor of the sender."""
    cursor = {"event": f"e{number}", "order": [1, number]}
    if acknowledged is not None:
        cursor["acknowledged"] = [1, acknowledged]
    receipt = {"stream": "a.b", "result": None, "sender": ["shop", LINEAGE, [1, number]]}
    ann.accept(put(f"receipt:e{number}", receipt), put("events:from:shop", {LINEAGE: cursor}))


def left(space: Space) -> list[str]:
    return [doc.partition("receipt:")[2] for doc in sorted(space.values()) if "receipt:" in doc]


@pytest.fixture
def ann(space: Space) -> Writer:
    return space.writer("ann")


def test_deliveries_stay_until_they_are_acknowledged_for_30_days(space: Space, ann: Writer) -> None:
    deliver(ann, 1)
    deliver(ann, 2)
    space.clock.advance(40 * DAY_MS)
    assert run(space) == []
    deliver(ann, 3, acknowledged=1)
    assert run(space) == []
    space.clock.advance(29 * DAY_MS)
    assert run(space) == []
    space.clock.advance(2 * DAY_MS)
    assert run(space) == [1]
    assert left(space) == ["e2", "e3"]
    deliver(ann, 4, acknowledged=3)
    space.clock.advance(31 * DAY_MS)
    assert run(space, receipts_ms=30 * DAY_MS) == [2]
    assert left(space) == ["e4"]
    assert verify(space.engine).findings == []


@pytest.mark.parametrize(
    "sender", [["shop", "bb00", [1, 1]], ["other", LINEAGE, [1, 1]], ["shop"], "shop", None, [1, 2, 3]]
)
def test_what_is_not_known_to_be_acknowledged_stays(space: Space, ann: Writer, sender: object) -> None:
    deliver(ann, 1, acknowledged=9)
    ann.accept(put("receipt:odd", {"stream": "a.b", "result": None, "sender": sender}))
    space.clock.advance(31 * DAY_MS)
    run(space)
    assert left(space) == ([] if sender is None else ["odd"])


def test_the_age_counts_from_the_commit_also_below_the_horizon(space: Space, ann: Writer) -> None:
    ann.accept(put("receipt:a", {"stream": "a.b", "result": 1}))
    space.clock.advance(10 * DAY_MS)
    ann.accept(put("receipt:b", {"stream": "a.b", "result": 1}))
    compact(space.engine, Seq(2))
    # When the log begins later than the age, nothing is known of what is older.
    assert not has_old_commits(space.engine, Retention(), space.clock.now_ms())
    space.clock.advance(30 * DAY_MS)
    ann.accept(put("receipt:c", {"stream": "a.b", "result": 1}))
    assert run(space) == []
    space.clock.advance(30 * DAY_MS)
    assert run(space) == [3]


def test_pages_of_receipts_are_looked_at_one_after_the_other(space: Space, ann: Writer) -> None:
    for first in range(0, 1200, 200):
        ann.accept(*[put(f"receipt:r{first + each:04}", {"stream": "a.b", "result": 1}) for each in range(200)])
    space.clock.advance(31 * DAY_MS)
    ann.accept(put("receipt:new", {"stream": "a.b", "result": 1}))
    assert sum(run(space)) == 1200
    assert left(space) == ["new"]
    assert space.value("receipt:r0000") is NOTHING


def test_a_round_is_due_once_a_day_and_when_the_times_change(space: Space, ann: Writer) -> None:
    engine, plain, week = space.engine, Retention(), Retention(receipts_ms=7 * DAY_MS)
    ann.accept(put("x", 1))

    def is_due(kept: Retention) -> bool:
        return is_retention_due(engine, MAIN, kept, space.clock.now_ms())

    assert is_due(plain)
    run(space)
    assert (is_due(plain), is_due(week)) == (False, True)
    space.clock.advance(DAY_MS)
    assert is_due(plain)
    run(space)
    space.clock.advance(-2 * DAY_MS)
    assert is_due(plain), "the clock was set back"


# --- sessions -------------------------------------------------------------------------------------------------


def dropped(space: Space, *live: str, days: int = 30) -> int:
    kept = Retention(sessions_ms=days * DAY_MS)
    return drop_sessions(space.engine, kept, [SessionId(each) for each in live], space.clock.now_ms())


def test_a_dropped_session_keeps_its_last_number_and_decides_nothing_anew(space: Space, ann: Writer) -> None:
    first, last = ann.build(put("a", 1)), ann.build(put("a", 3))
    assert isinstance(ann.send(first), Committed)
    space.writer("bob").accept(put("a", 2))
    verdict = ann.send(last)
    assert isinstance(ann.send(ann.build(put("b", 1), number=9)), Committed)
    space.clock.advance(40 * DAY_MS)
    carl = space.writer("carl")
    carl.accept(put("x", 1))
    assert dropped(space) == 1
    for _ in range(2):
        again = ann.send(first)
        assert isinstance(again, Refused)
        assert again.code == "HW404"
        assert isinstance(ann.send(last), Refused)
        assert isinstance(ann.send(ann.build(put("c", 1), number=5)), Refused), "it was rejected, or never came"
        assert isinstance(ann.send(ann.build(put("b", 1), number=9)), Committed), "the newest commit is known"
        assert is_dropped(space.engine, SessionId("ann"))
        assert not is_dropped(space.engine, SessionId("carl"))
        assert space.engine.last_of(SessionId("ann")) == 9
        assert space.value("a") == 3
        assert verify(space.engine).findings == []
        space.reopen()
    assert isinstance(verdict, Committed)
    assert dropped(space) == 0


def test_sessions_in_use_and_young_ones_stay(space: Space, ann: Writer) -> None:
    bob = space.writer("bob")
    for writer in (ann, bob):
        writer.accept(put(writer.session, 1))
        writer.accept(put(writer.session, 2))
    space.clock.advance(29 * DAY_MS)
    assert dropped(space, days=30) == 0
    space.clock.advance(2 * DAY_MS)
    assert dropped(space, "ann") == 1
    assert (is_dropped(space.engine, ann.session), is_dropped(space.engine, bob.session)) == (False, True)
    assert isinstance(ann.send(ann.build(put("ann", 1), number=1)), Committed)
    assert space.engine.backend.replayed(ann.session, LocalSeq(1)) is not None
    assert space.engine.backend.replayed(bob.session, LocalSeq(1)) is None


def test_a_dropped_session_that_goes_on_is_known_again_from_there(space: Space, ann: Writer) -> None:
    ann.accept(put("a", 1))
    ann.accept(put("a", 2))
    space.clock.advance(31 * DAY_MS)
    assert dropped(space) == 1
    ann.accept(put("a", 3))
    assert not is_dropped(space.engine, ann.session)
    space.engine.fold()
    space.reopen()
    assert verify(space.engine).findings == []
    assert isinstance(ann.send(ann.build(put("a", 2), number=2)), Committed)
    assert isinstance(ann.send(ann.build(put("a", 3), number=3)), Committed)
    assert space.value("a") == 3


def test_without_a_time_sessions_stay(space: Space, ann: Writer) -> None:
    ann.accept(put("a", 1))
    ann.accept(put("a", 2))
    space.clock.advance(4000 * DAY_MS)
    assert drop_sessions(space.engine, Retention(), [], space.clock.now_ms()) == 0
    assert not is_dropped(space.engine, ann.session)
