"""`hw.status`: whether what is shown is decided, in a run and out of any."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import UsageError
from headwater.testing.invariants.scheduler_invariants import check
from tests.app.holding import disk_held
from tests.server.running import DEADLINE_S, served, settle_in


class Seat(hw.Doc):
    who: str = ""
    row: int = 1


class Plane:
    """A program that shows a seat, with whether it is decided."""

    def __init__(self) -> None:
        app = self.app = hw.App("plane")
        self.seat = app.cell("seat", "")
        self.other = app.cell("other", 0)
        self.shown: list[str] = []
        self.valued: list[str] = []

        @app.sink
        def show() -> None:
            self.shown.append(f"{self.seat.value!r} {hw.status(self.seat)}")

        @app.sink
        def value() -> None:
            self.valued.append(self.seat.value)

        self.show = show


def test_a_sink_that_asked_runs_again_when_the_write_is_decided_and_one_that_did_not_does_not() -> None:
    plane = Plane()
    with plane.app.open("memory:") as space:
        with disk_held(space._opening):
            plane.seat.value = "ann"
            assert plane.shown == ["'' confirmed", "'ann' pending"]
        space.sync()
        assert plane.shown == ["'' confirmed", "'ann' pending", "'ann' confirmed"]
        assert plane.valued == ["", "ann"]
        space.sync()
        assert len(plane.shown) == 3
        check(space.scheduler)


def test_of_another_document_nothing_is_told() -> None:
    plane = Plane()
    with plane.app.open("memory:") as space:
        assert plane.other.value == 0
        with disk_held(space._opening):
            plane.other.value = 1
        space.sync()
        assert plane.shown == ["'' confirmed"]


def test_several_writes_before_the_first_is_decided_are_one_change_of_status() -> None:
    plane = Plane()
    with plane.app.open("memory:") as space:
        with disk_held(space._opening):
            for who in ("ann", "bob", "cid"):
                plane.seat.value = who
        space.sync()
        assert plane.shown == ["'' confirmed", "'ann' pending", "'bob' pending", "'cid' pending", "'cid' confirmed"]


def test_outside_of_a_run_it_is_as_of_now() -> None:
    plane = Plane()
    with plane.app.open("memory:") as space:
        with disk_held(space._opening):
            plane.seat.value = "ann"
            assert hw.status(plane.seat) == "pending"
            assert hw.status(plane.other) == "confirmed"
        space.sync()
        assert hw.status(plane.seat) == "confirmed"
        assert f"{hw.status(plane.seat)}" == "confirmed"


def test_of_a_document_and_of_its_parts_it_is_that_of_the_whole_document() -> None:
    app = hw.App("plane")
    seat = app.doc("seat", Seat)
    people = app.cell("people", {"ann": 1})
    with app.open("memory:") as space:
        assert (seat.who, people.value) == ("", {"ann": 1})
        with disk_held(space._opening):
            seat.who = "ann"
            people.key("bob").value = 2
            assert hw.status(seat) == hw.status(people) == hw.status(people.key("ann")) == "pending"
        space.sync()
        assert hw.status(seat) == hw.status(people) == hw.status(people.key("ann")) == "confirmed"


def test_what_the_transaction_around_has_written_is_pending_unless_it_is_as_it_was() -> None:
    plane = Plane()
    with plane.app.open("memory:") as space:
        plane.seat.value = "ann"
        space.sync()
        with space.transaction():
            assert hw.status(plane.seat) == "confirmed"
            plane.seat.value = "bob"
            assert hw.status(plane.seat) == "pending"
            plane.seat.value = "ann"
            assert hw.status(plane.seat) == "confirmed"


def test_a_computed_that_asked_runs_again_and_is_not_taken_over_by_the_next_opening(tmp_path: Path) -> None:
    app = hw.App("plane")
    seat = app.cell("seat", "")

    @app.computed
    def label() -> str:
        return f"{seat.value} {hw.status(seat)}"

    @app.computed
    def plain() -> str:
        return seat.value

    with app.open(tmp_path / "plane.db") as space:
        assert label() == " confirmed"
        with disk_held(space._opening):
            seat.value = "ann"
            assert label() == "ann pending"
        space.sync()
        assert label() == "ann confirmed"
        assert space.runs(label) == 3
        plain()
    with app.open(tmp_path / "plane.db") as space:
        assert (label(), plain()) == ("ann confirmed", "ann")
        assert (space.runs(label), space.runs(plain)) == (1, 0)


def test_who_does_not_ask_any_more_is_not_run_for_it() -> None:
    app = hw.App("plane")
    seat, is_asking = app.cell("seat", ""), app.cell("is_asking", default=True)
    runs: list[str] = []

    @app.sink
    def show() -> None:
        runs.append(hw.status(seat) if is_asking.value else "-")

    with app.open("memory:") as space:
        assert not seat.value
        with disk_held(space._opening):
            is_asking.value = False
            seat.value = "ann"
        space.sync()
        assert runs == ["confirmed", "-"]
        assert len(space.scheduler.decision_waits) == 0


def test_a_removed_function_leaves_nothing_behind() -> None:
    app = hw.App("plane")
    seat = app.cell("seat", "")

    @app.sink
    def show() -> None:
        hw.status(seat)

    with app.open("memory:") as space:
        assert len(space.scheduler.decision_waits) == 1
        space._opening.drop(show)
        assert len(space.scheduler.decision_waits) == 0
        assert not space._opening.replica.status_docs


def test_without_anybody_who_asks_nothing_is_told() -> None:
    app = hw.App("plane")
    seat = app.cell("seat", "")
    told: list[object] = []
    with app.open("memory:") as space:
        space._opening.replica.on_status = told.append
        seat.value = "ann"
        space.sync()
        assert not told
        assert len(space.scheduler.decision_waits) == 0


def test_what_is_neither_a_cell_nor_a_document_has_no_status() -> None:
    app = hw.App("plane")
    seat = app.doc("seat", Seat)
    with app.open("memory:"), pytest.raises(UsageError, match="give the document"):
        hw.status(seat.who)  # type: ignore[arg-type]  # a text


def test_the_seats_program_shows_what_is_decided_and_what_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle_in(tmp_path, monkeypatch)
    with served(tmp_path / "store") as server:
        said = [_run_seats(who, f"{server.url}/seats") for who in ("ann", "bob")]
    assert said[0] == ["seat='' confirmed", "seat='ann' pending", "seat='ann' confirmed", "ann got it"]
    assert said[1] == ["seat='ann' confirmed", "bob lost it to ann"]


def _run_seats(*args: str) -> list[str]:
    program = Path(__file__).parents[2] / "examples" / "seats.py"
    command = [sys.executable, str(program), *args]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=DEADLINE_S).stdout.splitlines()
