"""Tests of the shop, without a web server."""

import pytest
import shop

import headwater as hw
from headwater.testing import probe


def test_the_last_cake_is_sold_once() -> None:
    with probe(shop.app):
        shop.fill()
        assert shop.buy.send("cake").result() == 0
        with pytest.raises(hw.EventRejectedError):
            shop.buy.send("cake").result()
        assert shop.view() == {"tea": 3, "cake": 0, "earned": 250}


def test_a_repeated_order_is_one_order_after_a_crash_too() -> None:
    with probe(shop.app) as t:
        shop.fill()
        assert shop.buy.once("order-1", by="web").send("tea").result() == 2
        t.restart(crash=True)
        assert shop.buy.once("order-1", by="web").send("tea").result() == 2
