"""Where pieces meet other things: threads, openings, branches, scopes, events, instances, lists, their own runs."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.core import doc_key
from headwater.errors import EventFailedError, UserCodeError
from headwater.host import plain_opening
from headwater.host.storage import storage_of
from tests.runtime.pieces.kit import Told, check_held, held, stored

told = Told()


@pytest.fixture(autouse=True)
def _told_anew() -> None:
    told.taken()


@hw.pattern
def card(p: hw.Builder, who: str) -> dict[str, Any]:
    clicks = p.cell("clicks", 0)

    @p.computed
    def label() -> str:
        told("label")
        return f"{who} {clicks.value}"

    @p.sink
    def watch() -> None:
        told("watch", label())

    @p.handler
    def click(by: int = 1) -> int:
        if by < 0:
            raise ValueError("no")
        clicks.value += by
        return clicks.value

    return {"label": label, "clicks": clicks, "click": click}


# --- its own runs -------------------------------------------------------------------------------------------


def test_a_sink_may_stop_its_own_piece() -> None:
    pieces: list[hw.Piece[Any]] = []

    @hw.pattern
    def fuse(p: hw.Builder) -> dict[str, Any]:
        heat = p.cell("heat", 0)

        @p.sink
        def blow() -> None:
            told("blow", heat.value)
            if heat.value > 1:
                pieces[0].stop()

        return {"heat": heat}

    with hw.App("t").open("memory:") as space:
        before = held(space)
        pieces.append(space.start(fuse, "f"))
        for heat in (1, 2, 3):
            pieces[0].outputs["heat"].value = heat
        assert told.taken() == [("blow", 0), ("blow", 1), ("blow", 2)]
        assert (pieces[0].status, held(space), stored(space, pieces[0])["status"]) == ("stopped", before, "stopped")
        check_held(space)


def test_a_handler_may_stop_its_own_piece() -> None:
    pieces: list[hw.Piece[Any]] = []

    @hw.pattern
    def door(p: hw.Builder) -> hw.Handler[[], str]:
        @p.handler
        def close() -> str:
            pieces[0].stop()
            return "closed"

        return close

    with hw.App("t").open("memory:") as space:
        before = held(space)
        pieces.append(space.start(door, "d"))
        assert pieces[0].outputs.send().result() == "closed"
        assert (pieces[0].status, held(space)) == ("stopped", before)


def test_what_raises_in_a_piece_is_told_with_its_name_and_harms_no_other() -> None:
    @hw.pattern
    def fragile(p: hw.Builder, fails: bool) -> dict[str, Any]:
        @p.computed
        def value() -> int:
            if fails:
                raise ValueError("no")
            return 1

        @p.sink
        def show() -> None:
            told("show", value())

        return {"value": value}

    errors: list[UserCodeError] = []
    with hw.App("t").open("memory:", on_error=errors.append) as space:
        bad = space.start(fragile, "bad", fails=True)
        space.start(fragile, "good", fails=False)
        assert (told.taken(), [error.facts["piece"] for error in errors]) == ([("show", 1)], ["fragile bad"])
        with pytest.raises(ValueError, match="no"):
            bad.outputs["value"]()
        space.start(fragile, "bad", fails=False)
        assert told.taken() == [("show", 1)]
        check_held(space)


# --- others -------------------------------------------------------------------------------------------------


def test_two_threads_that_start_the_same_key_have_the_same_piece() -> None:
    with hw.App("t").open("memory:") as space:
        found: list[hw.Piece[Any]] = []
        barrier = threading.Barrier(8)

        def work() -> None:
            barrier.wait()
            found.append(space.start(card, "k", who="x"))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert (len({id(piece) for piece in found}), len(found)) == (1, 8)
        assert (space._opening.pieces.work.started, told.taken()) == (1, ["label", ("watch", "x 0")])
        check_held(space)


def test_threads_that_start_and_stop_the_same_key_leave_it_as_the_last_has_said() -> None:
    with hw.App("t").open("memory:") as space:

        def work(number: int) -> None:
            for turn in range(15):
                piece = space.start(card, "k", who=str((number + turn) % 3))
                if turn % 2:
                    piece.stop()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)
        piece = space.start(card, "k", who="last")
        assert piece.outputs["label"]() == "last 0"
        check_held(space)
        piece.stop()
        assert held(space).nodes == 0


def test_two_openings_of_one_file_both_have_the_piece(tmp_path: Path) -> None:
    one, two = hw.App("t"), hw.App("t")
    with one.open(tmp_path / "t.db") as first, two.open(tmp_path / "t.db") as second:
        here = first.start(card, "k", who="x")
        first.sync()
        second.sync()
        there = second.start(card, "k", who="x")
        assert here.id == there.id
        assert second.runs(there.outputs["label"]) == 0, "it was made by the other"
        told.taken()
        assert there.outputs["click"].send().result() == 1
        second.sync()
        first.sync()
        assert here.outputs["label"]() == there.outputs["label"]() == "x 1"
        there.stop()
        second.sync()
        first.sync()
        assert (here.is_running, there.is_running) == (True, False)
        check_held(first)
        check_held(second)


def test_a_branch_has_the_pieces_of_what_it_was_forked_from(tmp_path: Path) -> None:
    app = hw.App("t")
    with app.open(tmp_path / "t.db") as space:
        space.start(card, "k", who="x").outputs["click"].send().result()
        space.sync()
        storage_of(space._opening._lease).fork("b")
    told.taken()
    with app.open(tmp_path / "t.db", branch="b") as space:
        piece = space.start(card, "k", who="x")
        assert told.taken() == [("watch", "x 1")]
        piece.outputs["click"].send().result()
        assert piece.outputs["label"]() == "x 2"
        check_held(space)
    with app.open(tmp_path / "t.db") as space:
        assert space.start(card, "k", who="x").outputs["label"]() == "x 1"


def test_cells_of_a_piece_may_be_one_users_own(tmp_path: Path) -> None:
    @hw.pattern
    def mine(p: hw.Builder) -> dict[str, Any]:
        likes = p.cell("likes", 0, scope="user")
        looks = p.cell("looks", 0, scope="session")

        @p.computed
        def both() -> int:
            return likes.value * 10 + looks.value

        return {"likes": likes, "looks": looks, "both": both}

    app = hw.App("t")
    for actor, expected in (("ann", 0), ("bob", 0), ("ann", 20)):
        with app.open(tmp_path / "t.db", actor=actor) as space:
            outputs = space.start(mine, "m").outputs
            assert outputs["both"]() == expected
            outputs["likes"].value += 2
            outputs["looks"].value += 1
            assert outputs["both"]() == expected + 21


# --- events -------------------------------------------------------------------------------------------------


def test_an_event_that_waits_when_its_piece_is_stopped_is_kept_and_can_be_delivered_again() -> None:
    with hw.App("t").open("memory:", on_error=lambda _: None) as space:
        piece = space.start(card, "k", who="x")
        with space.transaction():
            ticket = piece.outputs["click"].send()
            piece.stop()
        with pytest.raises(EventFailedError, match=r"click\(\) of card k was removed before its turn came") as error:
            ticket.result()
        space.start(card, "k", who="x")
        assert piece.outputs["clicks"].value == 0
        space._opening.events.redeliver(str(error.value.facts["event"]))
        space.sync()
        assert piece.outputs["clicks"].value == 1


@pytest.mark.parametrize("how", ["plain", "child", "transaction"])
def test_an_event_that_was_left_over_is_handled_when_its_piece_is_started_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    def make() -> tuple[hw.App, hw.Handler[[], None]]:
        app = hw.App("t")

        @app.handler
        def send() -> None:
            _ = begin().outputs["click"].send(5)

        @app.computed(eager=True)
        def parent() -> str:
            return begin().id if how == "child" else ""

        def begin() -> hw.Piece[dict[str, Any]]:
            if how != "child" or not pieces:
                pieces.append(hw.start(card, "k", who="x"))
            return pieces[-1]

        pieces: list[hw.Piece[dict[str, Any]]] = []
        return app, send

    monkeypatch.setattr(plain_opening, "CLOSE_MS", 0.0)
    app, send = make()
    with app.open(tmp_path / "t.db") as space:
        if how != "child":
            space.start(card, "k", who="x")
        (piece,) = space._opening.pieces.running.values()
        space.scheduler.loading([doc_key(f"{piece.id}.clicks")])
        _ = send.send()
        assert piece.outputs["clicks"].value == 0
    app, _ = make()
    with app.open(tmp_path / "t.db") as space:
        if how == "transaction":
            with space.transaction():
                space.start(card, "k", who="x")
        elif how == "plain":
            space.start(card, "k", who="x")
        (piece,) = space._opening.pieces.running.values()
        space.sync()
        assert piece.outputs["clicks"].value == 5
    app, _ = make()
    with app.open(tmp_path / "t.db") as space:
        assert space.start(card, "k", who="x").outputs["clicks"].value == (0 if how == "child" else 5)


def test_an_event_that_fails_names_the_piece() -> None:
    errors: list[UserCodeError] = []
    with hw.App("t").open("memory:", on_error=errors.append) as space:
        piece = space.start(card, "k", who="x")
        with pytest.raises(EventFailedError):
            piece.outputs["click"].send(-1).result()
        assert errors[0].facts["piece"] == "card k"


# --- what else is declared ----------------------------------------------------------------------------------


class Item(hw.Doc):
    title: str


class Shelf(hw.Doc):
    items: hw.List[Item] = hw.List()


@hw.pattern
def shelf_view(p: hw.Builder, shelf: Shelf, prefix: str) -> dict[str, Any]:
    @p.computed
    def row(item: Item) -> str:
        told("row", item.title)
        return f"{prefix}{item.title}"

    rows = hw.each(shelf.items, row)

    @p.computed
    def text() -> str:
        return ", ".join(row(item) for item in shelf.items)

    return {"row": row, "rows": rows, "text": text}


def test_instances_and_lists_belong_to_their_piece(tmp_path: Path) -> None:
    app = hw.App("t")
    shelf = app.doc("shelf", Shelf)
    for opening in range(2):
        with app.open(tmp_path / "t.db") as space:
            before = held(space)
            if not opening:
                with space.transaction():
                    for title in "ab":
                        shelf.items.append(Item(title=title))
            piece = space.start(shelf_view, "s", shelf=shelf, prefix="-")
            assert (piece.outputs["text"](), list(piece.outputs["rows"]())) == ("-a, -b", ["-a", "-b"])
            assert told.taken() == ([("row", "a"), ("row", "b")] if not opening else [])
            check_held(space)
            piece.stop()
            assert held(space) == before


def test_instances_of_a_piece_that_is_built_anew_are_made_anew() -> None:
    app = hw.App("t")
    shelf = app.doc("shelf", Shelf)
    with app.open("memory:") as space:
        shelf.items.append(Item(title="a"))
        piece = space.start(shelf_view, "s", shelf=shelf, prefix="-")
        assert piece.outputs["text"]() == "-a"
        space.start(shelf_view, "s", shelf=shelf, prefix="+")
        assert piece.outputs["text"]() == "+a"
        shelf.items.append(Item(title="b"))
        assert piece.outputs["text"]() == "+a, +b"
        check_held(space)


def test_a_resource_of_a_piece_goes_with_it() -> None:
    @hw.pattern
    def asks(p: hw.Builder, city: str) -> dict[str, Any]:
        @p.resource
        async def weather(name: str) -> str:
            return f"rain in {name}"

        @p.computed
        def shown() -> str:
            match weather(city):
                case hw.Ready(value):
                    return value
                case _:
                    return "?"

        @p.sink
        def show() -> None:
            told(shown())

        return {"shown": shown}

    with hw.App("t").open("memory:") as space:
        before = held(space)
        piece = space.start(asks, "a", city="Rome")
        space.wait("200ms")
        assert told.taken()[-1] == "rain in Rome"
        piece.stop()
        assert held(space) == before


def test_what_is_read_in_the_body_of_a_pattern_is_nobodys_dependency() -> None:
    app = hw.App("t")
    name = app.cell("name", "x")

    @app.computed
    def loud() -> str:
        return name.value.upper()

    @hw.pattern
    def fixed(_p: hw.Builder) -> dict[str, Any]:
        return {"at_start": loud()}

    @app.computed
    def parent() -> str:
        told("parent")
        return str(hw.start(fixed, "f").outputs["at_start"])

    with app.open("memory:") as space:
        assert parent() == "X"
        name.value = "y"
        assert parent() == "X"
        assert told.taken() == ["parent"]
        assert stored(space, space.start(fixed, "g"))["outputs"]["at_start"] == "Y"
