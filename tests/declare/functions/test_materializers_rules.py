"""Functions that write below a place, wherever a run says: the three rules for them, and only these.

They are wanted although nobody looks, and have their turn when nothing else is left. Who reads where they may write
waits for them. And that they may write somewhere wakes nobody: what they have written does.
"""

from __future__ import annotations

from typing import Any

import pytest

import headwater as hw
from headwater.errors import DeclarationError
from headwater.testing import Probe, probe


class Shop:
    """Prices of goods, an index of them that a materializer keeps, and a log of who ran."""

    def __init__(self) -> None:
        self.app = hw.App("shop")
        self.log: list[object] = []
        self.prices = self.app.cell("prices", {"tea": 3, "jam": 5})
        self.index = self.app.cell("index", dict[str, list[str]]())
        self.other = self.app.cell("other", 0)

        @self.app.materializer(writes=[self.index])
        def fill() -> None:
            self.log.append("fill")
            found: dict[str, list[str]] = {}
            for name, price in sorted(self.prices.value.items()):
                found.setdefault(f"p{price}", []).append(name)
            for key, names in found.items():
                self.index.key(key).value = names
            for key in [key for key in self.index.value if key not in found]:
                self.index.key(key).clear()

        self.fill = fill

    def open(self) -> Probe:
        # Once for each run: the log is not doubled by the check.
        return probe(self.app, idempotency=False)

    def taken(self) -> list[object]:
        log, self.log = self.log, []
        return log


@pytest.fixture
def shop() -> Shop:
    return Shop()


# --- rule 1: standing demand, idle priority ---------------------------------------------------------------


def test_it_runs_although_nobody_reads_what_it_writes(shop: Shop) -> None:
    with shop.open() as t:
        assert (shop.taken(), shop.index.value) == (["fill"], {"p3": ["tea"], "p5": ["jam"]})
        shop.prices.value = {"tea": 5, "jam": 5}
        assert (shop.taken(), shop.index.value) == (["fill"], {"p5": ["jam", "tea"]})
        assert "fill() is a materializer, clean, live: materializer" in hw.why(shop.fill)
        assert t.runs(shop.fill) == 2


def test_it_runs_when_everything_else_has_run(shop: Shop) -> None:
    app = shop.app

    @app.computed
    def total() -> int:
        shop.log.append("total")
        return sum(shop.prices.value.values())

    @app.sink
    def first() -> None:
        shop.log.append(f"first {total()}")

    @app.sink
    def second() -> None:
        shop.log.append(f"second {len(shop.prices.value)}")

    with shop.open():
        assert shop.taken()[-1] == "fill"
        shop.prices.value = {"tea": 4}
        ran = shop.taken()
        assert ran[-1] == "fill"
        assert sorted(map(str, ran[:-1])) == ["first 4", "second 1", "total"]


def test_changes_that_come_together_are_one_run(shop: Shop) -> None:
    with shop.open() as t:
        shop.taken()
        with t.space.transaction():
            for price in range(10):
                shop.prices.key("tea").value = price
            shop.prices.key("jam").value = 9
        assert (shop.taken(), shop.index.value) == (["fill"], {"p9": ["jam", "tea"]})


def test_changes_within_a_pass_are_one_run(shop: Shop) -> None:
    """A computed and a sink write one after the other what it reads: it waits for both."""
    app, start = shop.app, shop.app.cell("start", 0)
    hint = app.cell("hint", 0)

    @app.computed(writes=[hint], eager=True)
    def ahead() -> int:
        hint.value = start.value * 10
        return hint.value

    @app.sink
    def mirror() -> None:
        shop.prices.value = {"tea": start.value, "jam": hint.value}

    with shop.open():
        shop.taken()
        start.value = 1
        assert (shop.taken(), shop.index.value) == (["fill"], {"p1": ["tea"], "p10": ["jam"]})


def test_it_is_not_run_by_what_it_has_not_read(shop: Shop) -> None:
    with shop.open():
        shop.taken()
        shop.other.value = 1
        shop.index.key("by hand").value = ["x"]
        assert shop.taken() == ["fill"], "it has read which keys there are"
        shop.index.key("p3").value = ["by hand"]
        assert shop.taken() == ["fill"]


def test_it_waits_as_long_as_it_is_told(shop: Shop) -> None:
    app, copy = shop.app, shop.app.cell("copy", dict[str, int]())

    @app.materializer(writes=copy, debounce="1s")
    def mirror() -> None:
        copy.value = dict(shop.prices.value)

    with shop.open() as t:
        for price in range(1, 6):
            shop.prices.key("tea").value = price
            t.advance("500ms")
        assert (t.runs(mirror), copy.value) == (1, {"tea": 3, "jam": 5})
        t.advance("500ms")
        assert (t.runs(mirror), copy.value) == (2, {"tea": 5, "jam": 5})


# --- rule 2: promotion under demand -----------------------------------------------------------------------


def test_sink_that_reads_below_the_place_runs_after_it_and_once(shop: Shop) -> None:
    @shop.app.sink
    def show() -> None:
        shop.log.append((dict(shop.prices.value)["tea"], shop.index.key("p3").exists))

    with shop.open():
        shop.taken()
        shop.prices.key("tea").value = 4
        assert shop.taken() == ["fill", (4, False)]
        shop.prices.key("tea").value = 3
        assert shop.taken() == ["fill", (3, True)]


def test_computed_that_reads_below_the_place_runs_after_it(shop: Shop) -> None:
    @shop.app.computed
    def cheapest() -> str:
        shop.log.append("cheapest")
        return min(shop.index.value) + str(shop.prices.value["tea"])

    @shop.app.sink
    def show() -> None:
        shop.log.append(cheapest())

    with shop.open():
        shop.taken()
        shop.prices.key("tea").value = 2
        assert shop.taken() == ["fill", "cheapest", "p22"]


def test_call_from_outside_has_it_run_first(shop: Shop) -> None:
    @shop.app.computed
    def keys() -> list[str]:
        return sorted(shop.index.value)

    with shop.open() as t:
        assert keys() == ["p3", "p5"]
        with t.space.transaction():
            shop.prices.key("tea").value = 7
        assert keys() == ["p5", "p7"]


def test_event_whose_handler_reads_below_the_place_is_handled_after_it(shop: Shop) -> None:
    @shop.app.handler
    def look() -> list[str]:
        shop.log.append("look")
        return sorted(shop.index.value)

    @shop.app.handler
    def change_and_look(price: int) -> None:
        shop.prices.key("tea").value = price
        look.send()

    with shop.open():
        assert look.send().result() == ["p3", "p5"]
        shop.taken()
        change_and_look.send(8)
        assert shop.taken() == ["fill", "look"]
        assert look.send().result() == ["p5", "p8"]


def test_chain_of_two_settles_in_one_pass_and_shows_the_end_of_it(shop: Shop) -> None:
    """The second is not known to be out of date before the first has run: who reads it may run once too often."""
    app, names = shop.app, shop.app.cell("names", list[str]())

    @app.materializer(writes=[names])
    def collect() -> None:
        shop.log.append("collect")
        names.value = sorted(shop.index.value)

    @app.sink
    def show() -> None:
        shop.log.append((shop.prices.value["tea"], list(names.value)))

    with shop.open():
        assert shop.taken()[-1] == (3, ["p3", "p5"])
        shop.prices.key("tea").value = 1
        ran = shop.taken()
        assert ran[-3:] == ["fill", "collect", (1, ["p1", "p5"])]
        assert len(ran) <= 4


def test_reader_beside_the_place_does_not_wait_for_it(shop: Shop) -> None:
    """Its place is a part of a document: who reads another part of it has its turn before."""
    app = shop.app
    book = app.cell("book", {"made": {"n": 0}, "free": {"n": 0}})

    @app.materializer(writes=[book.key("made")])
    def part() -> None:
        shop.log.append("made")
        book.key("made").value = {"n": shop.other.value}

    @app.sink
    def beside() -> None:
        shop.log.append(("beside", book.key("free").value["n"], shop.other.value))

    with shop.open():
        book.value = {"made": {"n": 0}, "free": {"n": 0}}
        shop.taken()
        shop.other.value = 5
        assert shop.taken() == [("beside", 0, 5), "made"]


# --- rule 3: envelopes are for ordering only --------------------------------------------------------------


def test_readers_below_the_place_are_not_woken_by_a_run_that_changes_nothing(shop: Shop) -> None:
    @shop.app.sink
    def show() -> None:
        shop.log.append(sorted(shop.index.value))

    with shop.open() as t:
        shop.taken()
        shop.prices.value = dict(reversed(shop.prices.value.items()))
        shop.prices.value = {**shop.prices.value}
        shop.prices.value = {"jam": 5, "tea": 3}
        assert (t.runs(show), shop.taken()) == (2, ["fill"]), "stored, the prices are what they were"
        shop.prices.value = {"tea": 5, "jam": 3}
        assert shop.taken() == ["fill", ["p3", "p5"]], "what stands there has changed, and is read as a whole"


def test_only_readers_of_what_it_has_changed_are_woken(shop: Shop) -> None:
    app = shop.app

    @app.sink
    def three() -> None:
        shop.log.append(("three", shop.index.key("p3").exists))

    @app.sink
    def five() -> None:
        shop.log.append(("five", shop.index.key("p5").exists))

    with shop.open() as t:
        before = t.runs(three), t.runs(five)
        shop.taken()
        shop.prices.key("tea").value = 4
        assert shop.taken() == ["fill", ("three", False)]
        assert (t.runs(three) - before[0], t.runs(five) - before[1]) == (1, 0)


def test_reader_is_live_or_not_whatever_it_may_write(shop: Shop) -> None:
    """A computed that nobody looks at stays as it is, although it has read below the place."""

    @shop.app.computed
    def keys() -> list[str]:
        return sorted(shop.index.value)

    with shop.open() as t:
        assert keys() == ["p3", "p5"]
        shop.prices.key("tea").value = 4
        assert t.runs(keys) == 1
        assert keys() == ["p4", "p5"]


# --- what it may, and what it may not ---------------------------------------------------------------------


def test_it_may_write_below_what_it_has_named_and_nowhere_else(shop: Shop) -> None:
    app = shop.app
    made = app.cell("made", {"a": {"n": 0}, "b": {"n": 0}})

    @app.materializer(writes=[made.key("a"), app.cell("more", 0)])
    def strays() -> None:
        made.key("a").key("n").value = 1
        if shop.other.value:
            made.key("b").key("n").value = 1

    with shop.open() as t:
        assert made.value["a"] == {"n": 1}
        shop.other.value = 1
        (error,) = t.errors
        assert "strays() is computed and may not write shop.made/b/n" in str(error)
        assert made.value["b"] == {"n": 0}


def test_restart_does_not_run_it_again(shop: Shop) -> None:
    with shop.open() as t:
        assert t.runs(shop.fill) == 1
        t.restart()
        assert t.runs(shop.fill) == 1
        shop.prices.key("tea").value = 4
        assert t.runs(shop.fill) == 2


def test_restart_does_not_run_one_again_that_only_writes_besides_its_result() -> None:
    """Its result is the same each time, so nothing but its other writes would take along what it has read."""
    app = hw.App("shop")
    count, copy = app.cell("count", 1), app.cell("copy", {"n": 0})

    @app.materializer(writes=[copy])
    def mirror() -> None:
        copy.key("n").value = count.value

    with probe(app) as t:
        for number in range(2, 5):
            count.value = number
            t.restart()
            assert (t.runs(mirror), copy.value) == (number, {"n": number})


def test_it_fails_and_is_mended_by_what_it_read(shop: Shop) -> None:
    app, out = shop.app, shop.app.cell("out", {"n": 0})

    @app.materializer(writes=[out])
    def divide() -> None:
        out.key("n").value = 10 // (shop.other.value - 2)

    with shop.open() as t:
        assert out.value == {"n": -5}
        shop.other.value = 2
        (error,) = t.errors
        assert (type(error.__cause__), out.value) == (ZeroDivisionError, {"n": -5})
        shop.other.value = 3
        assert (out.value, len(t.errors)) == ({"n": 10}, 1)


# --- declared wrongly -------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [(), [], 5, "shop.index", [5], [None], None])
def test_what_cannot_be_written_is_refused_where_it_is_declared(shop: Shop, wrong: Any) -> None:
    with pytest.raises(DeclarationError, match=r"names nothing|takes cells and documents of the app"):
        shop.app.materializer(writes=wrong, name="wrong")(lambda: None)


def test_parameters_are_refused(shop: Shop) -> None:
    """Nobody is there to give them."""

    def put(number: int) -> None:
        shop.other.value = number

    wrong: Any = put
    with pytest.raises(DeclarationError, match=r"@app.materializer put\(\) takes parameters, and nothing passes them"):
        shop.app.materializer(writes=[shop.index])(wrong)


def test_place_of_another_function_is_refused(shop: Shop) -> None:
    with pytest.raises(DeclarationError, match="takes cells and documents of the app"):
        shop.app.materializer(writes=[shop.fill], name="wrong")(lambda: None)  # type: ignore[list-item]  # that is the mistake
