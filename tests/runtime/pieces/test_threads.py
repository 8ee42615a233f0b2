"""Threads that start and stop the same pieces in every way at once: nobody is held up, and all is whole at the end."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

import headwater as hw
from headwater.errors import ConflictError, NotFoundError
from headwater.host.space_facade import opening_of
from headwater.runtime.pieces.pieces import Pieces
from tests.runtime.pieces.kit import Held, check_held, held


@hw.pattern
def card(p: hw.Builder, who: str) -> dict[str, Any]:
    clicks = p.cell("clicks", 0)

    @p.computed
    def label() -> str:
        return f"{who} {clicks.value}"

    @p.sink
    def watch() -> None:
        label()

    @p.handler
    def click() -> None:
        clicks.value += 1

    return {"label": label, "click": click}


@hw.pattern
def pair(p: hw.Builder, who: str) -> list[hw.Piece[dict[str, Any]]]:
    return [p.start(card, side, who=f"{who} {side}") for side in ("left", "right")]


class Undone(Exception):  # noqa: N818  # it is none
    pass


class Crowd:
    """What each of several threads does, by chance."""

    def __init__(self) -> None:
        app = self.app = hw.App("crowd")
        self.count = app.cell("count", 0)
        self.failed: list[BaseException] = []

        @app.handler
        def make(key: str, fails: bool) -> None:
            self.count.value += 1
            hw.start(pair, key, who=key)
            if fails:
                raise Undone

        self.make = make

    def work(self, space: hw.Space, chance: Random) -> None:
        try:
            for _ in range(40):
                with suppress(Undone, ConflictError):
                    self.step(space, chance, chance.choice("abcd"))
        except BaseException as error:  # noqa: BLE001  # told by the test
            self.failed.append(error)

    def step(self, space: hw.Space, chance: Random, key: str) -> None:
        match chance.randrange(6):
            case 0:
                space.start(pair, key, who=chance.choice("xy"))
            case 1:
                space.start(pair, key, who="x").stop()
            case 2:
                with space.transaction():
                    self.count.value += 1
                    space.start(pair, key, who="z")
                    if chance.random() < 0.4:
                        raise Undone
            case 3:
                _ = self.make.send(key, chance.random() < 0.4)
            case 4:
                with space.transaction():
                    self.count.value += 1
                    with pytest.raises(Undone), space.transaction():
                        space.start(card, key, who="inner")
                        raise Undone
            case _:
                self.count.value = chance.randrange(9)


@pytest.mark.parametrize("seed", range(3))
def test_a_crowd_leaves_pieces_whole(tmp_path: Path, seed: int) -> None:
    crowd = Crowd()
    with crowd.app.open(tmp_path / "crowd.db", on_error=lambda _: None) as space:
        threads = [threading.Thread(target=crowd.work, args=(space, Random(10 * seed + n))) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)
        assert not crowd.failed
        space._opening.wait_for_disk()
        space.settle()
        # Some were taken back, and nobody has waited for them: that is told when the space is closed.
        space._opening.runtime.unreported.clear()
        check_held(space)
        assert not space._opening.pieces._origins
        for piece in [piece for piece in space._opening.pieces.running.values() if piece.whole is None]:
            piece.stop()
        assert held(space) == Held(nodes=0, handlers=1, running=0, children=0, instances=0)
        check_held(space)


def test_threads_that_are_first_to_start_something_do_so_in_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Pieces] = []
    init = Pieces.__init__

    def slowly(self: Pieces, *args: Any) -> None:
        made.append(self)
        # Long enough for the others to come.
        threading.Event().wait(0.02)
        init(self, *args)

    monkeypatch.setattr(Pieces, "__init__", slowly)
    with hw.App("first").open("memory:") as space:
        barrier = threading.Barrier(4)

        def work(number: int) -> None:
            barrier.wait()
            space.start(card, str(number), who="x")

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert (len(made), len(space._opening.pieces.running)) == (1, 4)
        check_held(space)


def test_event_for_a_piece_whose_functions_another_thread_is_replacing_is_sent() -> None:
    """They are replaced under the lock of the space: at that moment, there is no handler."""
    app = hw.App("shop")
    with app.open("memory:") as space:
        piece = space.start(card, "a", who="ann")
        runtime, found = opening_of(space), list[object]()

        def send() -> None:
            try:
                found.append(piece.outputs["click"].send().result("60s"))
            except NotFoundError as error:
                found.append(error)

        sender = threading.Thread(target=send)
        with runtime.lock:
            handlers = runtime.scheduler.streams.handlers
            ((stream, handler),) = handlers.items()
            del handlers[stream]
            sender.start()
            # Time enough to find that out; it may also come later.
            sender.join(0.2)
            handlers[stream] = handler
        sender.join()
        assert found == [None]


def test_event_for_a_piece_that_another_thread_stops_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    app = hw.App("shop")
    with app.open("memory:") as space:
        piece = space.start(card, "a", who="ann")
        runtime = opening_of(space)
        send = runtime.send

        def late(*given: Any) -> object:
            piece.stop()
            return send(*given)

        monkeypatch.setattr(runtime, "send", late)
        with pytest.raises(NotFoundError, match="stopped"):
            piece.outputs["click"].send()


def test_piece_is_what_the_last_of_two_transactions_says_although_another_thread_has_changed_it_in_between() -> None:
    """It ran, and its document was stopped: the change of the other thread was made later, and sent first."""
    app = hw.App("shop")
    with app.open("memory:") as space:
        piece = space.start(card, "a", who="ann")
        piece.stop()

        def start() -> None:
            space.start(card, "a", who="bob")

        with space.transaction():
            space.start(card, "a", who="bob").stop()
            other = threading.Thread(target=start)
            other.start()
            other.join()
            assert piece.status == "running"
        assert piece.status == "stopped"
        piece = space.start(card, "a", who="ann")
        with space.transaction():
            piece.stop()
            other = threading.Thread(target=start)
            other.start()
            other.join()
            assert piece.status == "running"
        assert piece.status == "stopped"
        with space.transaction():
            space.start(card, "a", who="eve")
            other = threading.Thread(target=piece.stop)
            other.start()
            other.join()
            assert piece.status == "stopped"
        assert (piece.status, piece.outputs["label"]()) == ("running", "eve 0")


def test_piece_is_what_another_thread_has_made_of_it_if_the_transaction_is_rejected() -> None:
    app = hw.App("shop")
    count = app.cell("count", 0)
    with app.open("memory:") as space:
        piece = space.start(card, "a", who="ann")
        piece.stop()

        def start() -> None:
            space.start(card, "a", who="bob")
            count.value = 5

        with pytest.raises(ConflictError), space.transaction():
            count.value += 1
            space.start(card, "a", who="bob").stop()
            other = threading.Thread(target=start)
            other.start()
            other.join()
        assert piece.status == "running"
