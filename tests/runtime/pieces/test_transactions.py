"""Pieces are started and stopped in transactions: they come to be with these, or each is again what it was."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import headwater as hw
from headwater.core import SetDoc, doc_key
from headwater.errors import ConflictError, EventFailedError, UserCodeError
from tests.runtime.pieces.kit import Told, check_held, held, stored

told = Told()


@pytest.fixture(autouse=True)
def _told_anew() -> None:
    told.taken()


@hw.pattern
def card(p: hw.Builder, who: str, size: hw.Cell[int] = 1) -> dict[str, Any]:  # type: ignore[assignment]  # as it is kept
    clicks = p.cell("clicks", 0)

    @p.computed
    def label() -> str:
        return f"{who} {clicks.value} {size.value}"

    @p.sink
    def watch() -> None:
        told(label())

    @p.handler
    def click() -> int:
        clicks.value += 1
        return clicks.value

    return {"label": label, "click": click, "clicks": clicks}


@hw.pattern
def pair(p: hw.Builder, who: str) -> dict[str, Any]:
    return {"left": p.start(card, "left", who=f"{who}-left"), "right": p.start(card, "right", who=f"{who}-right")}


class Stop(Exception):  # noqa: N818  # it is no error
    pass


def keys(space: hw.Space) -> list[str]:
    return sorted(piece.title for piece in space._opening.pieces.running.values())


def test_a_piece_and_its_parts_are_one_commit() -> None:
    with hw.App("t").open("memory:") as space:
        before = space.stats.commits
        piece = space.start(pair, "p", who="x")
        assert space.stats.commits == before + 3, "all three of them, and two labels"
        assert keys(space) == ["card left", "card right", "pair p"]
        assert told.taken() == ["x-left 0 1", "x-right 0 1"]
        commits = space.stats.commits
        space.start(pair, "p", who="y")
        assert (piece.outputs["left"].outputs["label"](), told.taken()) == ("y-left 0 1", ["y-left 0 1", "y-right 0 1"])
        assert space.stats.commits == commits + 3
        commits = space.stats.commits
        piece.stop()
        assert (space.stats.commits, keys(space)) == (commits + 1, [])
        check_held(space)


def test_a_piece_starts_to_work_when_its_transaction_is_over() -> None:
    with hw.App("t").open("memory:") as space:
        with space.transaction():
            piece = space.start(card, "a", who="a")
            assert piece.is_running
            assert piece.outputs["label"]() == "a 0 1", "it can be read in there"
            assert space.start(card, "a", who="a") is piece
            assert told.taken() == []
            assert held(space).nodes == 0
        assert told.taken() == ["a 0 1"]
        check_held(space)


def test_an_event_is_sent_to_a_piece_in_the_transaction_that_starts_it() -> None:
    with hw.App("t").open("memory:") as space:
        with space.transaction():
            piece = space.start(card, "a", who="a")
            ticket = piece.outputs["click"].send()
        assert ticket.result() == 1
        assert told.taken()[-1] == "a 1 1"
        check_held(space)


def test_a_transaction_that_fails_leaves_nothing_of_a_piece() -> None:
    with hw.App("t").open("memory:") as space:
        before = held(space), space.stats.commits
        with pytest.raises(Stop), space.transaction():
            piece = space.start(pair, "p", who="x")
            raise Stop
        assert (held(space), space.stats.commits) == before
        assert (piece.status, stored(space, piece), told.taken()) == ("stopped", {}, [])
        check_held(space)


def test_a_piece_that_was_at_work_before_a_transaction_that_failed_is_what_it_was() -> None:
    with hw.App("t").open("memory:") as space:
        piece = space.start(pair, "p", who="x")
        other = space.start(card, "o", who="o")
        before, told_before = held(space), (stored(space, piece), stored(space, other))
        told.taken()
        with pytest.raises(Stop), space.transaction():
            space.start(pair, "p", who="y")
            space.start(pair, "p", who="z")
            other.stop()
            assert other.status == "stopped"
            space.start(card, "o", who="n")
            other.stop()
            raise Stop
        assert (held(space), (stored(space, piece), stored(space, other))) == (before, told_before)
        assert (piece.outputs["left"].outputs["label"](), other.outputs["label"]()) == ("x-left 0 1", "o 0 1")
        assert told.taken() == [], "nothing of it has ever been at work"
        other.outputs["clicks"].value = 1
        assert told.taken() == ["o 1 1"]
        check_held(space)


@pytest.mark.parametrize("outer_fails", [False, True])
def test_a_part_of_a_transaction_that_fails_is_undone_alone(outer_fails: bool) -> None:
    with hw.App("t").open("memory:") as space:
        old = space.start(card, "old", who="1")
        told.taken()
        try:
            with space.transaction():
                space.start(card, "old", who="2")
                new = space.start(card, "new", who="1")
                with pytest.raises(Stop), space.transaction():
                    space.start(card, "old", who="3")
                    space.start(card, "new", who="2")
                    space.start(card, "inner", who="1")
                    old.stop()
                    raise Stop
                assert (old.status, new.status) == ("running", "running")
                assert (old.outputs["label"](), new.outputs["label"]()) == ("2 0 1", "1 0 1")
                if outer_fails:
                    raise Stop
        except Stop:
            pass
        assert keys(space) == (["card old"] if outer_fails else ["card new", "card old"])
        assert old.outputs["label"]() == ("1 0 1" if outer_fails else "2 0 1")
        assert sorted(told.taken()) == ([] if outer_fails else ["1 0 1", "2 0 1"])
        check_held(space)


def test_a_stop_in_a_transaction_takes_place_when_it_is_over() -> None:
    with hw.App("t").open("memory:") as space:
        piece = space.start(card, "a", who="a")
        told.taken()
        with space.transaction():
            piece.outputs["clicks"].value = 1
            piece.stop()
            assert (piece.status, held(space).nodes) == ("stopped", 2)
        assert (told.taken(), held(space).nodes, stored(space, piece)["status"]) == ([], 0, "stopped")
        check_held(space)


def test_started_and_stopped_in_one_transaction_it_never_works() -> None:
    with hw.App("t").open("memory:") as space:
        with space.transaction():
            piece = space.start(card, "a", who="a")
            piece.stop()
        assert (told.taken(), piece.status, stored(space, piece)["status"]) == ([], "stopped", "stopped")
        check_held(space)
        space.start(card, "a", who="a")
        assert told.taken() == ["a 0 1"]


class Office:
    """Handlers that start pieces."""

    def __init__(self) -> None:
        app = self.app = hw.App("office")
        self.seen = app.cell("seen", 0)
        self.fails = True
        self.calls = 0
        self.meanwhile: Any = None

        @app.handler
        def open_up(who: str) -> str:
            self.calls += 1
            count = self.seen.value
            piece = hw.start(card, who, who=who)
            if self.meanwhile is not None:
                self.meanwhile()
            self.seen.value = count + 1
            if self.fails:
                raise Stop
            return piece.id

        self.open_up = open_up


def test_a_handler_that_fails_leaves_nothing_and_its_redelivery_starts_the_piece() -> None:
    office = Office()
    failed: list[UserCodeError] = []
    with office.app.open("memory:", on_error=failed.append) as space:
        before = held(space)
        with pytest.raises(EventFailedError) as error:
            office.open_up.send("a").result()
        assert (held(space), told.taken()) == (before, [])
        check_held(space)
        office.fails = False
        space._opening.events.redeliver(str(error.value.facts["event"]))
        space.sync()
        assert (keys(space), told.taken()) == (["card a"], ["a 0 1"])
        assert office.open_up.send("a").result() == space._opening.pieces.running.popitem()[0]


def test_a_handler_whose_commit_conflicts_is_retried_and_starts_the_piece_once() -> None:
    office = Office()
    office.fails = False
    with office.app.open("memory:") as space:
        other = space._opening._lease.storage.attach()

        def meanwhile() -> None:
            office.meanwhile = None
            other.commit((SetDoc(doc_key("office.seen"), 10),))
            space._opening.wait_for_disk()

        office.meanwhile = meanwhile
        made = office.open_up.send("a").result()
        assert (office.calls, office.seen.value) == (2, 11)
        space.sync()
        assert (list(space._opening.pieces.running), told.taken()) == ([made], ["a 0 1", "a 0 1"])
        assert stored(space, made)["status"] == "running"
        check_held(space)
        other.detach()


def test_a_body_that_raises_half_way_leaves_nothing() -> None:
    @hw.pattern
    def broken(p: hw.Builder, who: str) -> None:
        p.cell("one", 1)
        p.start(card, "part", who=who)

        @p.sink
        def show() -> None:
            told("show")

        @p.handler
        def handle() -> None: ...

        if who != "fine":
            raise Stop

    with hw.App("t").open("memory:") as space:
        before = held(space), space.stats.commits
        with pytest.raises(Stop):
            space.start(broken, "b", who="x")
        assert (held(space), space.stats.commits, told.taken()) == (*before, [])
        piece = space.start(broken, "b", who="fine")
        told.taken()
        before = held(space), space.stats.commits
        with pytest.raises(Stop):
            space.start(broken, "b", who="x")
        assert (held(space), space.stats.commits, told.taken()) == (*before, [])
        assert piece.is_running
        assert piece.build.parts[0].outputs["label"]() == "fine 0 1"
        check_held(space)


def test_a_transaction_that_loses_against_another_thread_leaves_nothing_and_holds_up_nobody() -> None:
    app = hw.App("t")
    count = app.cell("count", 0)
    with app.open("memory:") as space:
        conflicts = []

        def work(number: int) -> None:
            for turn in range(20):
                try:
                    with space.transaction():
                        seen = count.value
                        space.start(card, f"{number}-{turn}", who="x")
                        count.value = seen + 1
                except ConflictError:
                    conflicts.append((number, turn))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)
        space.sync()
        space.settle()
        assert len(space._opening.pieces.running) == count.value == 80 - len(conflicts)
        check_held(space)


def test_an_error_that_was_read_from_a_piece_ends_with_it() -> None:
    @hw.pattern
    def risky(p: hw.Builder, fails: bool) -> hw.Computed[[], int]:
        start = p.cell("start", 1)

        @p.computed
        def value() -> int:
            if fails and start.value > 1:
                raise ValueError("no")
            return 7

        return value

    app = hw.App("t")
    with app.open("memory:", on_error=lambda _: None) as space:
        piece = space.start(risky, "r", fails=True)

        @app.sink
        def show() -> None:
            try:
                told(piece.outputs())
            except ValueError:
                told("error")

        space.cell(piece.outputs.doc.replace("value", "start"), int).value = 2
        assert told.taken() == [7, "error"]
        space.start(risky, "r", fails=False)
        assert told.taken() == [7]
