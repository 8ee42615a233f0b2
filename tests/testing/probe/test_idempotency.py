"""The idempotency check of a probe: what it finds, what it says, and that it leaves no trace."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

import headwater as hw
from headwater.runtime.console_port import Console
from headwater.testing import ProbeError, probe


class Item(hw.Doc):
    title: str = ""


class Shelf(hw.Doc):
    items: hw.List[Item] = hw.List()


@pytest.fixture
def app() -> hw.App:
    return hw.App("lot")


def counter() -> Callable[[], int]:
    count = [0]

    def step() -> int:
        count[0] += 1
        return count[0]

    return step


# --- what it says -----------------------------------------------------------------------------------------


def test_message_names_the_function_its_line_both_values_and_what_to_do(app: hw.App) -> None:
    step = counter()

    @app.computed
    def draw() -> dict[str, object]:
        return {"numbers": [7, 7, step()], "day": "monday"}

    app.sink(name="show")(draw)
    line = draw.__wrapped__.__code__.co_firstlineno
    with pytest.raises(ProbeError) as told, probe(app):
        pass
    lines = str(told.value).splitlines()
    assert lines[0] == (
        f"draw() test_idempotency.py:{line} is not idempotent: run again on the same inputs, it came out differently"
    )
    assert lines[1] == "  lot.draw/numbers/2: first 1, then 2"
    assert lines[2].startswith("fix: a computed may depend on cells and nothing else. Time: read hw.clock(every=...)")
    assert len(lines) == 3


def test_message_shows_the_two_writes_of_a_materializer(app: hw.App) -> None:
    step, index = counter(), app.cell("index", dict[str, int]())

    @app.materializer(writes=[index])
    def fill() -> None:
        index.key(f"at {step()}").value = 1

    with pytest.raises(ProbeError) as told, probe(app):
        pass
    rows = str(told.value).splitlines()[1:-1]
    assert rows == ["  lot.index/at 1: first 1, then nothing", "  lot.index/at 2: first nothing, then 1"]


def test_materializer_that_adds_to_what_it_wrote_is_found(app: hw.App) -> None:
    count, total = app.cell("count", 2), app.cell("total", {"sum": 0})

    @app.materializer(writes=[total])
    def add() -> None:
        total.value = {"sum": total.value["sum"] + count.value}

    with pytest.raises(ProbeError) as told, probe(app):
        assert total.value == {"sum": 2}, "the check itself writes nothing"
    lines = str(told.value).splitlines()
    assert "run again on top of what it had written, it came out differently" in lines[0]
    assert lines[1] == "  lot.total/sum: first 2, then 4"


def test_function_is_told_once_however_often_it_ran(app: hw.App) -> None:
    step, count = counter(), app.cell("count", 0)

    @app.computed
    def draw() -> int:
        return count.value * 100 + step()

    app.sink(name="show")(draw)
    with pytest.raises(ProbeError) as told, probe(app):
        for number in range(1, 10):
            count.value = number
    assert str(told.value).count("draw() ") == 1
    assert str(told.value).endswith("come once each")
    assert "\n  and 5 more\n" in str(told.value)


def test_only_the_first_functions_are_told(app: hw.App) -> None:
    step = counter()
    functions = [app.computed(name=f"draw{index}")(lambda: step()) for index in range(8)]  # noqa: PLW0108  # each another
    app.sink(name="show")(lambda: [function() for function in functions])
    with pytest.raises(ProbeError, match="and 3 more functions"), probe(app):
        pass


# --- what it finds ----------------------------------------------------------------------------------------


def test_chance_is_found_and_chance_with_a_seed_is_not(app: hw.App) -> None:
    seed = app.cell("seed", 5)

    @app.computed
    def wild() -> float:
        return random.random()  # that is the mistake

    @app.computed
    def tame() -> float:
        return random.Random(seed.value).random()

    app.sink(name="show")(lambda: (wild(), tame()))
    with probe(app) as t:
        assert [each.node for each in t.differences] == ["wild"]


def test_difference_that_somebody_has_looked_at_does_not_fail_the_test(app: hw.App) -> None:
    step, count = counter(), app.cell("count", 0)

    @app.computed
    def draw() -> int:
        return count.value * 100 + step()

    app.sink(name="show")(draw)
    with probe(app) as t:
        (found,) = t.differences
        assert (found.node, found.place, found.first, found.second) == ("draw", "lot.draw", 1, 2)
    with pytest.raises(ProbeError), probe(app) as t:
        assert len(t.differences) == 1
        count.value = 1


def test_functions_with_parameters_are_checked_and_named_with_their_arguments(app: hw.App) -> None:
    step = counter()

    @app.computed
    def draw(which: int) -> int:
        return which * 0 + step()

    app.sink(name="show")(lambda: draw(7))
    with pytest.raises(ProbeError, match=r"^draw\(7\) test_idempotency\.py:\d+ is not idempotent"), probe(app):
        pass


def test_result_of_a_users_own_is_checked_too(app: hw.App) -> None:
    step, mine = counter(), app.cell("mine", 1, scope="user")

    @app.computed
    def own() -> int:
        return mine.value * 0 + step()

    app.sink(name="show")(own)
    with probe(app, actor="ann") as t:
        assert [(each.node, each.first, each.second) for each in t.differences] == [("own", 1, 2)]


def test_error_that_names_the_run_is_the_same_again(app: hw.App) -> None:
    other = app.cell("other", 0)

    @app.computed
    def bad() -> int:
        other.value = 1
        return 1

    with probe(app) as t:
        with pytest.raises(hw.HeadwaterError, match="HW104"):
            bad()
        assert t.differences == []


def test_what_is_not_checked_is_run_once(app: hw.App) -> None:
    """Sinks, handlers, and everything if the test says so."""
    ran: list[str] = []
    count = app.cell("count", 0)

    @app.computed
    def value() -> int:
        ran.append("computed")
        return count.value

    @app.sink
    def show() -> None:
        value()
        ran.append("sink")

    @app.handler
    def act() -> None:
        ran.append("handler")

    with probe(app, idempotency=False) as t:
        act.send().result()
        assert ran == ["computed", "sink", "handler"]
        assert (t.differences, t.runs(value)) == ([], 1)
    ran.clear()
    with probe(app) as t:
        act.send().result()
        assert ran == ["computed", "computed", "sink", "handler"]
        assert t.runs(value) == 1


# --- no trace ---------------------------------------------------------------------------------------------


def story(app: hw.App, *, idempotency: bool) -> list[object]:
    """Everything that can be counted, of an app with a bit of each."""
    count, index = app.cell("count", 1), app.cell("index", dict[str, int]())
    shelf = app.doc("shelf", Shelf)

    @app.computed
    def row(number: int) -> int:
        return number * count.value

    @app.computed
    def page() -> list[int]:
        return [row(number) for number in range(count.value)]

    @app.computed
    def bad() -> int:
        return 1 // (count.value - 3)

    @app.materializer(writes=[index])
    def fill() -> None:
        index.value = {str(each): each for each in page()}

    @app.sink
    def show() -> None:
        len(index.value), page()
        try:
            bad()
        except ZeroDivisionError:
            shelf.items.append(Item(title="bad"))

    @app.handler
    def act() -> int:
        count.value += 1
        return sum(page())

    with probe(app, idempotency=idempotency) as t:
        for _ in range(4):
            act.send().result()
        count.value = 2
        t.settle()
        t.restart()
        count.value = 5
        t.settle()
        space = t.space
        nodes: Any = space.scheduler.get_stats()
        ids = [hw.id_of(item) for item in shelf.items]
        runs = [t.runs(each) for each in (row, page, bad, fill, show, act)]
        rows = space._opening.ask_store(
            lambda engine: (engine.head, sorted(each.doc for each in engine.backend.observations("main")))
        )
        return [runs, nodes, space.stats, ids, rows, dict(index.value)]


def test_check_changes_no_count_no_commit_no_id_and_no_row() -> None:
    with_check = story(hw.App("lot"), idempotency=True)
    without = story(hw.App("lot"), idempotency=False)
    # How commits share an fsync, and in how many passes their verdicts are heard, is up to a thread.
    for told in (with_check, without):
        nodes: Any = told[1]
        told[1] = structs.replace(nodes, passes=0)
        stats: Any = told[2]
        told[2] = (stats.seq, stats.commits, stats.rejected, stats.documents, stats.runs, stats.events)
    assert with_check == without


def test_what_a_function_prints_is_shown_once(app: hw.App, capsys: pytest.CaptureFixture[str]) -> None:
    @app.computed
    def loud() -> int:
        print("loud")
        return 1

    app.sink(name="show")(loud)
    heard: list[Console] = []
    with probe(app):
        pass
    assert capsys.readouterr().out == "loud\n"

    def hear(said: Console) -> None:
        heard.append(said)

    with probe(app, on_console=hear):
        pass
    assert len(heard) == 1


def test_what_a_computed_calls_for_in_a_second_run_does_not_run_again(app: hw.App) -> None:
    count = app.cell("count", 1)
    ran: list[str] = []

    @app.computed
    def inner() -> int:
        ran.append("inner")
        return count.value

    @app.computed
    def outer() -> int:
        ran.append("outer")
        return inner() + 1

    with probe(app) as t:
        assert outer() == 2
        assert sorted(ran) == ["inner", "inner", "outer", "outer"], "each once, and once more for itself"
        assert (t.runs(inner), t.runs(outer)) == (1, 1)


def test_what_writes_and_returns_what_cannot_be_stored_is_told_as_that(app: hw.App) -> None:
    """Nothing that it wrote was kept: there is nothing for it to be run on top of."""
    count, twice = app.cell("count", 1), app.cell("twice", 0)

    @app.computed(writes=[twice], eager=True)
    def double() -> object:
        twice.value = count.value * 2
        return count.value if count.value == 1 else object()

    with probe(app) as t:
        count.value = 2
        (error,) = t.errors
        assert "cannot store the result of double()" in str(error)
        assert twice.value == 2


def test_restored_result_that_a_run_would_not_come_to_fails_the_test() -> None:
    app = hw.App("tariff")
    hours = app.cell("hours", 2)
    rates = {"hour": 50}

    @app.computed
    def price() -> int:
        return hours.value * rates["hour"]

    with pytest.raises(ProbeError, match=r"price\(\).* was restored .*\n  tariff.price: first 100, then 120"):  # noqa: SIM117
        with probe(app) as t:
            assert price() == 100
            t.restart()
            rates["hour"] = 60
            assert price() == 100


def test_restored_results_of_a_test_that_ends_well_are_what_a_run_comes_to() -> None:
    app = hw.App("tariff")
    hours = app.cell("hours", 2)

    @app.computed
    def price() -> int:
        if not hours.value:
            raise ValueError
        return hours.value * 50

    @app.computed
    def label() -> str:
        try:
            return f"costs {price()}"
        except ValueError:
            return "free"

    with probe(app) as t:
        for value in (0, 2, 0):
            hours.value = value
            label()
            t.restart()
        assert label() == "free"
        assert not t.differences
