"""A server that is killed and started again: programs that query it go on, and their answers are those of the file."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from headwater.host.plain_space import Space
from tests.client.query_world import Order, Shop, is_synced
from tests.client.world import storage_of
from tests.server.running import ServeProcess, settle_in, token_for, until


def caught_up(space: Space) -> None:
    until(lambda: storage_of(space).link.session.is_caught_up, "it has caught up")
    while not is_synced(space):
        pass
    space.settle()


@pytest.mark.slow
def test_answers_after_the_server_was_killed_are_those_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle_in(tmp_path, monkeypatch)
    store = tmp_path / "store"
    store.mkdir()
    ann, bob = Shop(), Shop()
    with ExitStack() as stack:
        # Before it: a server that runs in another process would look for new tokens a moment later.
        token = token_for(store, "shop", "own")
        server = stack.enter_context(ServeProcess(store))
        port = server.port
        url = f"{server.url}/shop"
        one = stack.enter_context(ann.app.open(url, token=token, actor="ann"))
        two = stack.enter_context(bob.app.open(url, token=token, actor="bob"))
        number = 0
        for life in range(4):
            for _ in range(10):
                number += 1
                with one.transaction():
                    Order(number=number, state="open" if number % 3 else "paid", cents=number)
                first = bob.orders.where(Order.state == "open").order_by(Order.number).first()
                if first is not None:
                    first.state = "sent"
            # In the middle of it, and with writes that are not decided.
            server.end(9)
            server.wait()
            for _ in range(3):
                number += 1
                with one.transaction():
                    Order(number=number, note=f"life {life}")
            assert f"life {life}" in ann.orders.where(Order.state == "open").scan().values(Order.note)
            assert ann.shown[-1]["all"][-1] == number
            server = stack.enter_context(ServeProcess(store, port=port))
            for space in (one, two):
                until(lambda space=space: space.connection.state == "live", "it is connected again")  # type: ignore[misc]
                caught_up(space)
        for space in (one, two, one, two):
            caught_up(space)
        until(lambda: ann.answers() == bob.answers(), "both have everything")
        answers = ann.answers()
        for shop, space in ((ann, one), (bob, two)):
            space.settle()
            assert shop.shown[-1] == answers
    after = Shop()
    with after.app.open(str(next(store.glob("shop-*.db")))):
        assert after.answers() == answers
        assert len(answers["all"]) == number
