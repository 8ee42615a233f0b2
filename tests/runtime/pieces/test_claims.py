"""A piece that several ask for stays although one of them, who was first, has failed."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import headwater as hw
from headwater.core import Transaction
from tests.runtime.pieces.kit import Told, check_held, stored

told = Told()


@pytest.fixture(autouse=True)
def _told_anew() -> None:
    told.taken()


@hw.pattern
def card(p: hw.Builder, who: str) -> dict[str, Any]:
    @p.computed
    def label() -> str:
        return who

    @p.sink
    def watch() -> None:
        told(label())

    @p.handler
    def ask() -> str:
        return label()

    return {"label": label, "ask": ask}


class Undone(Exception):  # noqa: N818  # it is none
    pass


@pytest.mark.parametrize("fails", [True, False])
def test_a_thread_that_asks_for_what_a_transaction_is_starting_has_it_at_once_and_keeps_it(fails: bool) -> None:
    with hw.App("t").open("memory:") as space:
        found: list[hw.Piece[dict[str, Any]]] = []

        def other() -> None:
            found.append(space.start(card, "k", who="x"))
            assert told.taken() == ["x"]

        piece = None
        try:
            with space.transaction():
                piece = space.start(card, "k", who="x")
                thread = threading.Thread(target=other)
                thread.start()
                thread.join(120)
                if fails:
                    raise Undone
        except Undone:
            pass
        assert piece is not None
        assert found == [piece]
        assert (piece.status, stored(space, piece)["status"]) == ("running", "running")
        assert piece.outputs["ask"].send().result() == "x"
        assert told.taken() == []
        check_held(space)
        space.sync()
        assert not space._opening.pieces._origins


@pytest.mark.parametrize("is_asked_again", [True, False])
def test_a_child_that_a_later_run_asks_for_too_outlives_the_rejection_of_the_first(is_asked_again: bool) -> None:
    app = hw.App("t")

    @app.sink
    def parent() -> None: ...

    with app.open("memory:") as space:
        node = space.nodes[parent]
        first, second = Transaction(space._opening.replica, "first"), Transaction(space._opening.replica, "second")
        first.node = second.node = node
        with space._opening.lock:
            piece = space._opening.pieces._start_child(node, first, card, "k", (), {"who": "x"})
            if is_asked_again:
                assert space._opening.pieces._start_child(node, second, card, "k", (), {"who": "x"}) is piece
        second.end()
        assert space._opening.pieces.work.started == 1
        first.abort()
        assert piece.is_running is is_asked_again
        assert stored(space, piece).get("status") == ("running" if is_asked_again else None)
        space.settle()
        check_held(space)
        assert not space._opening.pieces._origins
