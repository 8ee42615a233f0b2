"""How often a function runs when an outsider writes its input, in whatever order runtimes hear, run and send.

A runtime runs a function at most once for each step in which it hears of a change, and never again because its result
was rejected or equals that of another. So all of them together run it at most as often as there are runtimes for a
change that no other crosses, and in a burst at most once for each state that each of them was shown.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from headwater.store.commit import CommitOutcome
from tests.runtime.side_by_side.exchange import Exchange, Runtime, number

COMPUTED = ("double", "plus", "left", "right", "both")
COUNT = 8


class Shops:
    """Runtimes with a chain and a diamond, and an outsider that has none of the functions."""

    def __init__(self, count: int = COUNT) -> None:
        self.exchange = Exchange()
        self.runtimes = [self._shop() for _ in range(count)]
        self.outsider = self.exchange.runtime()
        self.runtimes[0].put(price=1)
        self.exchange.settle()
        for each in self.runtimes:
            each.adopted()
        self.ran: list[Counter[str]] = [Counter() for _ in self.runtimes]
        # In how many steps each has heard of a change of the input.
        self.shown = [0] * count
        self.price = 1

    def _shop(self) -> Runtime:
        shop = self.exchange.runtime()
        shop.computed("double", lambda tx: 2 * number(tx, "price"))
        shop.computed("plus", lambda tx: number(tx, "double") + 1)
        shop.computed("left", lambda tx: number(tx, "price") + 3)
        shop.computed("right", lambda tx: number(tx, "price") + 5)
        shop.computed("both", lambda tx: number(tx, "left") * number(tx, "right"))
        shop.show("show_chain", "plus")
        shop.show("show_diamond", "both")
        return shop

    def write(self) -> None:
        """The outsider changes the input."""
        self.price += 1
        self.outsider.hear()
        self.outsider.put(price=self.price)
        self.outsider.send()

    def hear_and_run(self, place: int, most: int | None = None) -> None:
        """A runtime takes in what has come, or the first of it, and runs what follows."""
        shop = self.runtimes[place]
        self.shown[place] += any(map(self._is_input, shop.inbox[:most]))
        shop.hear(most)
        self.ran[place].update(shop.run())

    def _is_input(self, heard: object) -> bool:
        return isinstance(heard, CommitOutcome) and heard.commit.session == self.outsider.replica.session

    def runs(self) -> dict[str, int]:
        """Of each function, by all of them."""
        return {name: sum(ran[name] for ran in self.ran) for name in COMPUTED}

    def adopted(self) -> int:
        return sum(len(shop.adopted()) for shop in self.runtimes)

    def end(self) -> None:
        """Until nobody has anything to send or hear."""
        while any(shop.inbox or shop.outbox for shop in self.runtimes):
            for place, shop in enumerate(self.runtimes):
                self.hear_and_run(place)
                shop.send()

    def check(self) -> None:
        """All show the right thing, and nobody ran in vain."""
        for shop in self.runtimes:
            assert shop.see("plus") == 2 * self.price + 1
            assert shop.see("both") == (self.price + 3) * (self.price + 5)
            shop.check()
        for ran, shown in zip(self.ran, self.shown, strict=True):
            assert max(ran[name] for name in COMPUTED) <= shown


def test_runtimes_that_hear_a_change_together_run_each_function_once_and_one_result_is_stored() -> None:
    shops = Shops()
    rows = shops.exchange.commits
    shops.write()
    for place in range(COUNT):
        shops.hear_and_run(place)
    for shop in shops.runtimes:
        shop.send()
    shops.end()
    assert shops.runs() == dict.fromkeys(COMPUTED, COUNT)
    assert shops.adopted() == 0
    assert shops.exchange.commits - rows == 1 + len(COMPUTED)
    shops.check()


def test_runtimes_that_hear_a_change_with_its_results_adopt_all_of_them() -> None:
    shops = Shops()
    shops.write()
    for place, shop in enumerate(shops.runtimes):
        shops.hear_and_run(place)
        shop.send()
    shops.end()
    assert shops.runs() == dict.fromkeys(COMPUTED, 1)
    assert shops.adopted() == len(COMPUTED) * (COUNT - 1)
    shops.check()


def in_any_order(seed: int, changes: int) -> Shops:
    """Everybody writes, sends, hears some or all of what has come, and runs, in an order of chance."""
    rng, shops, left = random.Random(seed), Shops(), changes
    while True:
        acts: list[tuple[str, int]] = [("write", 0)] if left else []
        for place, shop in enumerate(shops.runtimes):
            acts += [("hear", place)] * bool(shop.inbox) + [("send", place)] * bool(shop.outbox)
        if not acts:
            return shops
        act, place = rng.choice(acts)
        if act == "write":
            left -= 1
            shops.write()
        elif act == "hear":
            shops.hear_and_run(place, rng.choice([1, 2, None]))
        else:
            shops.runtimes[place].send()


@pytest.mark.parametrize("seed", range(12))
def test_one_change_runs_a_function_at_most_once_for_each_runtime(seed: int) -> None:
    shops = in_any_order(seed, 1)
    assert max(shops.runs().values()) <= COUNT
    shops.check()


@pytest.mark.parametrize("seed", range(12))
def test_a_burst_runs_a_function_at_most_once_for_each_state_that_a_runtime_was_shown(seed: int) -> None:
    in_any_order(100 + seed, 6).check()
