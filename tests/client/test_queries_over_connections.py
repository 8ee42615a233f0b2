"""Queries at a server over lost connections and restarts: what is known stays known, and only changes are sent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.client import server_link
from headwater.errors import OfflineError
from headwater.host.plain_space import Space
from headwater.sync import frames
from headwater.sync.client_session import ClientSession
from tests.client.query_shop import Order, Shop, filled, heard, numbers, opened
from tests.client.world import Behind, behind, settled, state_is
from tests.server.running import settle_in, until


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Behind]:
    settle_in(tmp_path, monkeypatch)
    with behind(tmp_path / "store") as world:
        yield world


# --- connections ----------------------------------------------------------------------------------------------


def test_known_spans_answer_while_the_server_is_away_and_others_raise(
    at: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(at, 5)
    shop = Shop()
    with opened(at, shop) as space:
        assert numbers(shop.waiting.limit(3)) == [1, 2, 3]
        assert shop.waiting.count() == 5
        at.go_away()
        state_is(space, "offline")
        Order(number=0)
        assert numbers(shop.waiting.limit(3)) == [0, 1, 2]
        assert shop.waiting.count() == 6
        monkeypatch.setattr(server_link, "PATIENCE_S", 0.0)
        with pytest.raises(OfflineError) as caught:
            shop.orders.where(Order.state == "paid").count()
        assert caught.value.code == "HW405"
        monkeypatch.undo()
        at.come_back()
        state_is(space, "live")
        assert shop.orders.where(Order.state == "paid").count() == 0
        heard(space)
        assert shop.waiting.count() == 6


def test_a_run_that_could_not_ask_is_repeated_when_the_server_is_back(
    at: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(at, 2)
    shop = Shop()
    wanted = shop.app.cell("wanted", "open")
    shop.watch(lambda shop: numbers(shop.orders.where(Order.state == wanted.value).order_by(Order.number)))
    with opened(at, shop, on_error="log") as space:
        at.go_away()
        state_is(space, "offline")
        monkeypatch.setattr(server_link, "PATIENCE_S", 0.0)
        wanted.value = "paid"
        space.settle()
        assert shop.seen[-1] == ["1", "2"]
        monkeypatch.undo()
        at.come_back()
        state_is(space, "live")
        until(lambda: settled(space) and shop.seen[-1] == [], "the function has run again")


def test_after_a_reconnect_only_changes_are_sent(at: Behind, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(at, 300)
    shop, other = Shop(), Shop()
    runs = shop.watch(lambda shop: [shop.waiting.count()])
    answers: list[frames.SpanKeys] = []
    take = ClientSession._take_keys

    def noted(self: Any, keys: frames.SpanKeys) -> None:
        answers.append(keys)
        take(self, keys)

    monkeypatch.setattr(ClientSession, "_take_keys", noted)
    with opened(at, shop) as space, other.app.open(at.straight, actor="bob") as there:
        at.go_away()
        state_is(space, "offline")
        Order(number=1_000)
        with there.transaction():
            for order in other.waiting.limit(2):
                order.state = "paid"
        there.sync()
        answers.clear()
        at.come_back()
        state_is(space, "live")
        heard(space)
        assert shop.seen[-1] == ["299"]
        assert len(runs) == 2
        assert [(len(each.keys), len(each.gone), len(each.came)) for each in answers] == [(0, 2, 1)]


def test_after_a_reconnect_without_a_change_nothing_runs(at: Behind) -> None:
    filled(at, 5)
    shop = Shop()
    runs = shop.watch(lambda shop: [shop.waiting.count(), *shop.waiting.values(Order.note)])
    with opened(at, shop) as space:
        at.go_away()
        state_is(space, "offline")
        at.come_back()
        state_is(space, "live")
        heard(space)
        assert runs == ["run"]


# --- restarts -------------------------------------------------------------------------------------------------


class Report(Shop):
    """One function for each kind of question."""

    def __init__(self) -> None:
        super().__init__()
        app, orders, shown = self.app, self.orders, self.seen

        @app.computed
        def page() -> list[int]:
            return [order.number for order in orders.where(Order.state == "open").order_by(Order.number).limit(3)]

        @app.computed
        def count() -> int:
            return orders.where(Order.state == "open").count()

        @app.computed
        def paid() -> int:
            return orders.where(Order.state == "paid").count()

        @app.computed
        def cents() -> int:
            return orders.where(Order.state == "open").sum(Order.cents)

        @app.computed
        def notes() -> list[str | None]:
            return orders.where(Order.state == "open").order_by(Order.number).values(Order.note)

        @app.computed
        def states() -> dict[str, int]:
            return orders.group_by(Order.state).count()

        @app.sink
        def show() -> None:
            shown.append([page(), count(), paid(), cents(), notes(), states()])

        self.functions = (page, count, paid, cents, notes, states)

    def runs(self, space: Space) -> list[int]:
        return [space.runs(each) for each in self.functions]


@pytest.fixture
def reported(at: Behind) -> Behind:
    """Five orders, and a program that has run before."""
    filled(at, 5)
    with opened(at, Report()) as space:
        heard(space)
    return at


def test_functions_are_restored_without_a_run_and_notified_from_then_on(reported: Behind) -> None:
    report, other = Report(), Shop()
    with opened(reported, report) as space, opened(reported, other, "bob") as there:
        heard(space)
        assert report.runs(space) == [0] * 6, space.explain_resume()
        order = other.orders.where(Order.number == 1).one()
        order.note = "x"
        heard(there, space)
        assert report.runs(space) == [0, 0, 0, 0, 1, 0]
        assert report.seen[-1][4] == ["x", None, None, None, None]
        order.state = "paid"
        heard(there, space)
        assert report.runs(space) == [1, 1, 1, 1, 2, 1]
        assert report.seen[-1] == [[2, 3, 4], 4, 1, 1400, [None] * 4, {"open": 4, "paid": 1}]


def test_a_change_while_closed_runs_what_has_read_it_and_nothing_else(reported: Behind) -> None:
    other = Shop()
    with opened(reported, other, "bob") as there:
        other.orders.where(Order.number == 5).one().note = "x"
        there.sync()
    report = Report()
    with opened(reported, report) as space:
        heard(space)
        assert report.runs(space) == [0, 0, 0, 0, 1, 0], space.explain_resume()
    with opened(reported, other, "bob") as there:
        other.orders.where(Order.number == 5).one().state = "sent"
        there.sync()
    report = Report()
    with opened(reported, report) as space:
        heard(space)
        assert report.runs(space) == [0, 1, 0, 1, 1, 1], space.explain_resume()
        assert report.seen[-1] == [[1, 2, 3], 4, 0, 1000, [None] * 4, {"open": 4, "sent": 1}]
