"""Rules 23 to 26, where the other space, the sending one, or both are at a server."""

from __future__ import annotations

from pathlib import Path

import headwater as hw
from headwater.scheduler.events import outgoing
from headwater.server.server import Server
from tests.spaces.sales_to_kill import NOTHING_WRONG, Sales


def url(server: Server, space: str) -> str:
    return f"{server.url}/{space}"


def sell(sales: Sales, near: hw.Space) -> None:
    for units in (1, 2, 3):
        sales.sell.send(units).result()
    near.delivered(timeout="1m")


def test_a_file_sends_to_a_space_of_a_server(server: Server, tmp_path: Path) -> None:
    sales = Sales()
    with sales.bank.open(url(server, "bank")), sales.shop.open(str(tmp_path / "shop.db")) as near:
        sell(sales, near)
        assert (sales.sold.value, sales.outcome(), near.stats.undelivered) == (3, NOTHING_WRONG, 0)


def test_a_space_of_a_server_sends_to_a_file(server: Server, tmp_path: Path) -> None:
    sales = Sales()
    with sales.bank.open(str(tmp_path / "bank.db")), sales.shop.open(url(server, "shop")) as near:
        sell(sales, near)
        assert (sales.sold.value, sales.outcome(), near.stats.undelivered) == (3, NOTHING_WRONG, 0)


def test_spaces_of_one_server_send_to_each_other(server: Server) -> None:
    sales = Sales()
    with sales.bank.open(url(server, "bank")), sales.shop.open(url(server, "shop")) as near:
        sell(sales, near)
        assert (sales.sold.value, sales.outcome(), near.stats.undelivered) == (3, NOTHING_WRONG, 0)


def test_another_client_delivers_what_one_has_left(server: Server) -> None:
    sales = Sales()
    with sales.shop.open(url(server, "shop")) as near:
        with near.transaction(), sales.bank.open(url(server, "bank")):
            sales.stock.value -= 2
            sales.sold.value += 1
            sales.credit.send(1, 2)
            sales.posted.post.increment(2)
        near.sync()
        assert len(outgoing.entries(near._opening.replica)) == 2
    with sales.bank.open(url(server, "bank")), sales.shop.open(url(server, "shop")) as near:
        near.delivered(timeout="1m")
        assert (sales.sold.value, sales.outcome()) == (1, NOTHING_WRONG)
