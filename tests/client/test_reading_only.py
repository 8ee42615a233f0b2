"""Who may only read sees everything, also what functions come to, and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater as hw
from headwater.access.rights import Right
from headwater.errors import RejectedError
from headwater.server.server import Server, Serving
from tests.client.world import storage_of
from tests.server.running import until


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    with Server(Serving(store=tmp_path / "store", port=0)) as running:
        yield running


class Shop:
    """One price, one function, one who looks."""

    def __init__(self, *, looks: bool) -> None:
        self.app = app = hw.App("shop")
        self.price = app.cell("price", 1)
        self.shown: list[tuple[int, int]] = []

        @app.computed
        def gross() -> int:
            return self.price.value * 2

        self.gross = gross
        if looks:

            @app.sink
            def show() -> None:
                self.shown.append((self.price.value, gross()))


def reader_token(server: Server) -> str:
    token, _ = server.access.create(space="shop", can=Right.READ, actor="rita")
    return token


def rows(server: Server) -> int:
    assert server.spaces is not None
    return server.spaces.channels["shop"].storage.call(lambda engine: engine.head)


def test_a_reader_sees_what_functions_come_to_and_nothing_of_it_is_stored(server: Server) -> None:
    writer, reader = Shop(looks=False), Shop(looks=True)
    with writer.app.open(f"{server.url}/shop") as writing:
        writer.price.value = 3
        writing.sync()
        with reader.app.open(f"{server.url}/shop", token=reader_token(server)) as reading:
            before = rows(server)
            assert reading.connection.can == "read"
            assert reader.shown == [(3, 6)]
            writer.price.value = 5
            writing.sync()
            settle_until(reading, lambda: reader.shown[-1] == (5, 10))
            assert reading.runs(reader.gross) == 2
            # Only the writer's price.
            assert rows(server) == before + 1


def test_what_a_reader_writes_is_taken_back_and_told(server: Server) -> None:
    writer, reader = Shop(looks=False), Shop(looks=True)
    with writer.app.open(f"{server.url}/shop") as writing:
        writer.price.value = 3
        writing.sync()
        with reader.app.open(f"{server.url}/shop", token=reader_token(server)) as reading:
            before = rows(server)
            reader.price.value = 9
            with pytest.raises(RejectedError, match="the right to write it is missing"):
                reading.sync()
            assert reader.price.value == 3
            assert reader.shown[-1] == (3, 6)
            assert rows(server) == before
        assert writer.price.value == 3


def test_what_others_have_come_to_does_not_stand_in_for_what_a_reader_has(server: Server) -> None:
    writer, reader = Shop(looks=True), Shop(looks=True)
    with (
        writer.app.open(f"{server.url}/shop") as writing,
        reader.app.open(f"{server.url}/shop", token=reader_token(server)) as reading,
    ):
        for price in range(2, 12):
            writer.price.value = price
        writing.sync()
        settle_until(reading, lambda: reader.shown[-1] == (11, 22))
        assert all(gross == 2 * price for price, gross in reader.shown)
        assert reading.connection.pending == 0


def test_a_reader_whose_write_was_rolled_back_still_follows_the_others(server: Server) -> None:
    def shop(shown: list[int]) -> tuple[hw.App, hw.Cell[int]]:
        app = hw.App("shop")
        price = app.cell("price", 1)

        # Without `self`: a function of equal code is not run if the result of another program can be taken over.
        @app.computed
        def gross() -> int:
            return price.value * 2

        @app.sink
        def show() -> None:
            shown.append(gross())

        return app, price

    shown: list[int] = []
    (writer, price), (reader, own) = shop([]), shop(shown)
    with (
        writer.open(f"{server.url}/shop") as writing,
        reader.open(f"{server.url}/shop", token=reader_token(server)) as reading,
    ):
        while 18 not in shown:
            # Its function runs for the price of 9, and keeps the result here, unless the verdict is faster.
            own.value = 9
            with pytest.raises(RejectedError):
                reading.sync()
        for next_price in (3, 4):
            price.value = next_price
            writing.sync()
            # The price and what the writer's function made of it are taken in together.
            until(lambda: storage_of(reading).link.session.seq == rows(server), "the news of the writer")
            settle_until(reading, lambda expected=2 * next_price: shown[-1] == expected)


def settle_until(space: hw.Space, is_so: object) -> None:
    """Take in what comes, until something is so."""
    assert callable(is_so)
    for _ in range(400):
        space.wait("10ms")
        if is_so():
            return
    raise AssertionError("it never was")
