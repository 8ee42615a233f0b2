"""Pieces that plain code starts and stops while the disk is full: what runs is what the documents say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.errors import RejectedError, StoreFullError
from headwater.scheduler.trace import TraceRecord
from headwater.testing.invariants.restore_invariants import i7_runs
from headwater.testing.invariants.scheduler_invariants import i8_causes
from tests.host.test_sync_full_disk import no_room_for
from tests.runtime.pieces.kit import check_held, stored


@contextmanager
def full(space: hw.Space) -> Iterator[None]:
    """The disk takes nothing."""
    backend = space._opening._lease.local.call(lambda engine: engine.backend)

    def append(*_: object) -> None:
        raise StoreFullError("no room to write: the disk is full")

    backend.append = append  # type: ignore[method-assign,assignment]
    try:
        yield
        with pytest.raises(RejectedError):
            space.sync()
    finally:
        del backend.append
    space.settle()


told: list[str] = []


@hw.pattern
def labelled(p: hw.Builder, size: hw.Cell[int]) -> dict[str, Any]:
    @p.computed
    def label() -> str:
        return f"size {size.value}"

    @p.sink
    def watch() -> None:
        told.append(label())

    return {"label": label}


@hw.pattern
def card(p: hw.Builder, who: str) -> dict[str, Any]:
    @p.sink
    def watch() -> None:
        pass

    return {"who": who}


@pytest.fixture
def space(tmp_path: Path) -> Iterator[hw.Space]:
    with hw.App("t").open(str(tmp_path / "t.db")) as space:
        space.sync()
        yield space
        check_held(space)
        assert not space._opening.pieces._undecided


def test_start_that_is_not_stored_leaves_nothing_running(space: hw.Space) -> None:
    with full(space):
        piece = space.start(card, "a", who="x")
    assert (piece.is_running, stored(space, piece)) == (False, {})
    space.start(card, "a", who="x")
    space.sync()
    assert (piece.is_running, stored(space, piece)["status"]) == (True, "running")


def test_stop_that_is_not_stored_leaves_the_piece_running(space: hw.Space) -> None:
    piece = space.start(card, "a", who="x")
    space.sync()
    with full(space):
        piece.stop()
    assert (piece.is_running, stored(space, piece)["status"]) == (True, "running")


def test_several_changes_that_are_not_stored_leave_what_was_before_the_first(space: hw.Space) -> None:
    piece = space.start(card, "a", who="x")
    space.sync()
    with full(space):
        piece.stop()
        space.start(card, "a", who="y")
        piece.stop()
        other = space.start(card, "b", who="z")
        other.stop()
    assert (piece.is_running, piece.outputs["who"]) == (True, "x")
    assert not other.is_running


@pytest.mark.pure("replaces a method")
@pytest.mark.parametrize("before", ["x", None])
def test_several_transactions_that_are_not_stored_leave_what_was_before_the_first(
    space: hw.Space, monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    piece = space.start(card, "a", who="x")
    if before is None:
        piece.stop()
    space.sync()
    with full(space), monkeypatch.context() as patch:
        # The verdicts arrive after both.
        patch.setattr(space._opening.runtime.attached._port, "take", list)
        with space.transaction():
            space.start(card, "a", who="y")
        with space.transaction():
            piece.stop()
    assert piece.is_running is (before is not None)
    assert before is None or piece.outputs["who"] == before


def test_change_that_is_stored_after_one_that_is_not_counts(space: hw.Space) -> None:
    piece = space.start(card, "a", who="x")
    space.sync()
    with full(space):
        piece.stop()
    piece.stop()
    space.sync()
    assert (piece.is_running, stored(space, piece)["status"]) == (False, "stopped")


@hw.pattern
def pair(p: hw.Builder, size: hw.Cell[int], name: str) -> dict[str, Any]:
    @p.computed
    def label() -> str:
        return f"{name} {size.value}"

    @p.sink
    def watch() -> None:
        told.append(label())

    inner = p.start(labelled_as, "inner", size=size, name=name)
    return {"label": label, "inner": inner.outputs["label"]}


@hw.pattern
def labelled_as(p: hw.Builder, size: hw.Cell[int], name: str) -> dict[str, Any]:
    @p.computed
    def label() -> str:
        return f"inner {name} {size.value}"

    @p.sink
    def watch() -> None:
        told.append(label())

    return {"label": label}


def test_start_with_other_inputs_that_is_not_stored_is_undone_for_all_parts(tmp_path: Path) -> None:
    """To restore a part, runs without writes are stored first, as that of parity(): no room for that either."""
    app = hw.App("t")
    size, number = app.cell("size", 1), app.cell("number", 1)

    @app.computed
    def parity() -> int:
        return number.value % 2

    with app.open(str(tmp_path / "t.db")) as space:
        space.start(pair, "a", size=size, name="x")
        parity()
    with app.open(str(tmp_path / "t.db"), on_error="log") as space:
        space.start(pair, "a", size=size, name="x")
        number.value = 3
        space.sync()
        with full(space):
            parity()
            space.start(pair, "a", size=size, name="y")
            # As a sync does: what was known of the former functions is only in the store now.
            space._opening.pieces.sweep()
        size.value = 7
        space.sync()
        assert sorted(told[-2:]) == ["inner x 7", "x 7"]


def test_run_that_a_restarted_piece_took_over_and_that_is_not_stored_is_made_again(tmp_path: Path) -> None:
    app = hw.App("t")
    size = app.cell("size", 1)
    with app.open(str(tmp_path / "t.db"), on_error="log") as space:
        piece = space.start(labelled, "a", size=size)
        space.sync()
        storage = space._opening._lease.local
        records: list[TraceRecord] = []
        space._opening.scheduler.trace.listen(records.append)
        with no_room_for(space._opening, ".label"):
            with storage._lock:  # type: ignore[attr-defined]  # that of a file
                # Nothing is decided meanwhile.
                size.value = 5
                piece.stop()
                space.start(labelled, "a", size=size)
            space.sync()
            space.settle()
        assert piece.is_running
        space.wait("3s")
        assert (piece.outputs["label"](), told[-1]) == ("size 5", "size 5")
        check_held(space)
    # The trace says why a restored function runs.
    i7_runs(records)
    i8_causes(records)
