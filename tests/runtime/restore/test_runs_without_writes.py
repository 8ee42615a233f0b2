"""Runs that write nothing are known at the next opening, whatever else happens to the commits around them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import RejectedError, StoreFullError
from tests.host.test_sync_full_disk import full
from tests.runtime.restore.kit import outcome


def watched() -> tuple[hw.App, hw.Cell[int]]:
    app = hw.App("watched")
    count = app.cell("count", 0)

    @app.sink(resume="quiet")
    def show() -> None:
        count.value  # noqa: B018  # a read

    return app, count


def test_run_on_an_undecided_commit_is_not_lost_by_a_sync_that_does_not_wait_for_it(tmp_path: Path) -> None:
    """As by a sync of another thread, which has waited before the commit was made."""
    app, count = watched()
    with app.open(tmp_path / "a.db") as space:
        space.sync()
        runtime = space._opening
        with runtime.lock:
            count.value = 1
            space.settle()
            runtime.restorer.keep()
    with app.open(tmp_path / "a.db") as space:
        assert outcome(space) == (1, 0, 0)


def test_run_is_not_lost_by_a_sync_without_room(tmp_path: Path) -> None:
    app, count = watched()
    with app.open(tmp_path / "a.db") as space:
        count.value = 1
        space._opening._lease.storage.wait()
        space.settle()
        with full(space._opening), pytest.raises(StoreFullError):
            space.sync()
    with app.open(tmp_path / "a.db") as space:
        assert outcome(space) == (1, 0, 0)


def test_run_is_not_lost_with_a_commit_without_room_that_carries_it(tmp_path: Path) -> None:
    app, count = watched()
    other = app.cell("other", 0)
    with app.open(tmp_path / "a.db") as space:
        count.value = 1
        space._opening._lease.storage.wait()
        space.settle()
        with full(space._opening):
            other.value = 1
            with pytest.raises(RejectedError):
                space.sync()
    with app.open(tmp_path / "a.db") as space:
        assert outcome(space) == (1, 0, 0)


def test_run_on_a_commit_whose_verdict_arrives_at_the_close_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, count = watched()

    async def changed() -> None:
        async with app.aopen(tmp_path / "a.db") as space:
            await space.synced()
            runtime = space._opening.runtime
            count.value = 1
            await space.settle()
            run, calm = runtime.run_pass, runtime.calm
            monkeypatch.setattr(runtime, "run_pass", lambda: None)

            async def calmed() -> None:
                monkeypatch.setattr(runtime, "run_pass", run)
                await calm()

            # The loop is busy with something else until the close takes in what has arrived.
            monkeypatch.setattr(runtime, "calm", calmed)
            with runtime.lock:
                count.value = 2
                runtime.scheduler.settle()
                assert runtime.replica.pending_count

    asyncio.run(changed())
    with app.open(tmp_path / "a.db") as space:
        assert outcome(space) == (1, 0, 0)
