"""Histories in which one promise is broken: the check of that promise says so, and so do no others of a sound one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headwater.store.commit import Commit, Committed, Conflict, PendingRead
from headwater.values.address import doc_key
from headwater.values.ids import LocalSeq, Seq, SessionId
from tests.support.histories import (
    Appender,
    Asked,
    BrokenError,
    Held,
    check_commits,
    inv8_whole,
    inv9_fold,
    inv10_snapshot,
    layers_once,
    no_cycles,
)
from tests.support.naive import Accepted, NaiveSpace
from tests.support.spaces import put

A, B = doc_key("a"), doc_key("b")


def sound() -> tuple[NaiveSpace, list[Asked]]:
    """Two sessions, four commits, of which one was rejected."""
    log = NaiveSpace()
    asked = []
    for session, number, operations, seen in (
        ("ann", 1, (put("a", 1), put("b", 1)), {}),
        ("bob", 1, (put("a", 2),), {A: 1}),
        ("ann", 3, (put("a", 3), put("b", 3)), {A: 2, B: 1}),
    ):
        log.head += 1
        log.log.append(Accepted(log.head, "main", session, number, operations))
        commit = Commit(SessionId(session), LocalSeq(number), operations)
        asked.append(Asked(commit, seen, Committed(Seq(log.head))))
    asked.append(Asked(Commit(SessionId("ann"), LocalSeq(2)), {A: 1}, Conflict("")))
    return log, asked


def test_a_sound_history_breaks_nothing() -> None:
    check_commits(*sound())


def lost(log: NaiveSpace, _: list[Asked]) -> None:
    log.log.pop()
    log.head -= 1


def elsewhere(_: NaiveSpace, asked: list[Asked]) -> None:
    asked[2].told = Committed(Seq(2))


def twice(log: NaiveSpace, _: list[Asked]) -> None:
    log.head += 1
    log.log.append(Accepted(log.head, "main", "bob", 1, ()))


def out_of_order(log: NaiveSpace, asked: list[Asked]) -> None:
    log.head += 1
    log.log.append(Accepted(log.head, "main", "ann", 2, ()))
    asked[3].told = Committed(Seq(log.head))


def rejected_and_there(_: NaiveSpace, asked: list[Asked]) -> None:
    asked[2].told = Conflict("")


def failed_and_there(_: NaiveSpace, asked: list[Asked]) -> None:
    asked[1].told, asked[1].failed = None, True


def never_told(_: NaiveSpace, asked: list[Asked]) -> None:
    asked[1].told = None


def saw_what_was_not(_: NaiveSpace, asked: list[Asked]) -> None:
    asked[2].seen[A] = 1


def rests_on_the_rejected(_: NaiveSpace, asked: list[Asked]) -> None:
    rest = PendingRead(A, (), Seq(1), ((LocalSeq(2), LocalSeq(2)),))
    asked[2].commit = Commit(SessionId("ann"), LocalSeq(3), pending_reads=(rest,))


@pytest.mark.parametrize(
    ("promise", "damage"),
    [
        ("S1", lost),
        ("S1", elsewhere),
        ("INV-11", twice),
        ("INV-5", out_of_order),
        ("INV-6", rejected_and_there),
        ("INV-6", failed_and_there),
        ("INV-7", never_told),
        ("INV-1", saw_what_was_not),
        ("INV-4", rests_on_the_rejected),
    ],
)
def test_a_broken_promise_is_named(promise: str, damage: Callable[[NaiveSpace, list[Asked]], None]) -> None:
    log, asked = sound()
    damage(log, asked)
    with pytest.raises(BrokenError) as broken:
        check_commits(log, asked)
    assert broken.value.promise == promise


def view(**docs: Any) -> dict[str, Held]:
    return {doc_key(name): Held(value, seq, value) for name, (seq, value) in docs.items()}


def test_a_replica_that_has_a_commit_in_part_is_found() -> None:
    log, _ = sound()
    assert inv8_whole(log, view(a=(2, 2), b=(1, 1)), "main", "ann") == 2
    with pytest.raises(BrokenError, match="INV-8"):
        inv8_whole(log, view(a=(3, 3), b=(1, 1)), "main", "ann")
    with pytest.raises(BrokenError, match="INV-9"):
        inv8_whole(log, view(a=(3, 4), b=(3, 3)), "main", "ann")


def test_a_replica_that_is_behind_or_shows_something_else_is_found() -> None:
    log, _ = sound()
    inv9_fold(log, view(a=(3, 3), b=(3, 3)), "main", "ann")
    for wrong in (
        view(a=(2, 2)),
        view(a=(3, 2)),
        {A: Held(3, 3, 4)},
        {A: Held(3, 3, 3, [Commit(SessionId("ann"), 9)])},
    ):
        with pytest.raises(BrokenError, match="INV-9"):
            inv9_fold(log, wrong, "main", "ann")


def test_a_layer_that_is_confirmed_as_well_is_found() -> None:
    log, asked = sound()
    with pytest.raises(BrokenError, match="layers"):
        layers_once(log, {A: Held(3, 3, 3, [asked[2].commit])}, 3, "ann")
    layers_once(log, {A: Held(2, 2, 3, [asked[2].commit])}, 2, "ann")


def test_reads_of_two_places_are_found() -> None:
    log, _ = sound()
    inv10_snapshot(log, {A: 2, B: 1})
    with pytest.raises(BrokenError, match="INV-10"):
        inv10_snapshot(log, {A: 1, B: 3})


def test_a_circle_of_what_was_seen_and_not_seen_is_found() -> None:
    """Write skew: each saw the other's list before the other has appended."""
    first = Appender("first", "ann", {"x": [], "y": []}, {"x": 1})
    second = Appender("second", "bob", {"x": [], "y": []}, {"y": 2})
    with pytest.raises(BrokenError, match="cycle"):
        no_cycles([first, second], {"x": [1], "y": [2]})
    second.seen = {"x": [1], "y": []}
    assert no_cycles([first, second], {"x": [1], "y": [2]}) == 1


def test_a_list_that_never_was_so_is_found() -> None:
    with pytest.raises(BrokenError, match="never was so"):
        no_cycles([Appender("t", "ann", {"x": [2]}, {})], {"x": [1, 2]})


def test_a_session_whose_later_transaction_comes_first_is_found() -> None:
    first = Appender("first", "ann", {}, {"x": 1})
    second = Appender("second", "ann", {}, {"x": 2})
    with pytest.raises(BrokenError, match="cycle"):
        no_cycles([first, second], {"x": [2, 1]})
