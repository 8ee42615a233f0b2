"""When an owner counts as gone: by its session lock, or by a beat that stands still; never by a clock of another."""

from __future__ import annotations

import pytest

from headwater.store.backends.postgres.presence import OwnerSight, OwnerWatch


def sight(beat: int = 1, *, is_locked: bool = True, database_age_s: float = 1000.0) -> OwnerSight:
    return OwnerSight("process 1", None, beat, 0.0, is_locked, database_age_s)


def test_an_owner_without_a_row_is_gone() -> None:
    assert OwnerWatch().is_gone(None, 0.0)


def test_an_owner_whose_lock_is_free_is_gone_if_it_does_not_come_back_at_once() -> None:
    watch = OwnerWatch()
    assert not watch.is_gone(sight(is_locked=False), 0.0)
    assert not watch.is_gone(sight(is_locked=False), 0.2)
    assert watch.is_gone(sight(is_locked=False), 0.31)


def test_an_owner_that_takes_its_lock_again_stays() -> None:
    watch = OwnerWatch()
    assert not watch.is_gone(sight(is_locked=False), 0.0)
    assert not watch.is_gone(sight(is_locked=True), 0.2)
    assert not watch.is_gone(sight(is_locked=False), 0.4)
    assert not watch.is_gone(sight(2, is_locked=False), 0.6)
    assert not watch.is_gone(sight(2, is_locked=False), 0.8)


def test_after_a_restart_of_the_database_free_locks_mean_nothing() -> None:
    watch = OwnerWatch()
    for tenth in range(19):
        assert not watch.is_gone(sight(is_locked=False, database_age_s=tenth / 10), tenth / 10)


def test_an_owner_that_is_stopped_is_gone_after_its_lease() -> None:
    watch = OwnerWatch()
    seen = [watch.is_gone(sight(7), second / 2) for second in range(12)]
    assert seen == [False] * 10 + [True, True]


def test_beats_keep_an_owner() -> None:
    watch = OwnerWatch()
    assert not any(watch.is_gone(sight(second), float(second)) for second in range(60))


def test_an_observer_that_was_stopped_itself_takes_nobody_for_gone() -> None:
    watch = OwnerWatch()
    assert not watch.is_gone(sight(7), 0.0)
    # It was stopped for a minute: the owner may have beaten since.
    assert not watch.is_gone(sight(7), 60.0)
    assert not watch.is_gone(sight(8), 60.1)


@pytest.mark.parametrize("rate", [0.5, 1.0, 2.0])
def test_a_clock_that_runs_fast_or_slow_never_takes_a_beating_owner(rate: float) -> None:
    watch = OwnerWatch()
    for tenth in range(600):
        assert not watch.is_gone(sight(tenth // 10), tenth / 10 * rate)
