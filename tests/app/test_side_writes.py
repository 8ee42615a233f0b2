"""Computed functions that write besides their result: where they may, who is woken, and that it comes out the same."""

from __future__ import annotations

from typing import Any

import pytest

import headwater as hw
from tests.app.workbench import Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_idempotency_check_finds_what_differs_in_an_app(bench: Bench) -> None:
    count, log = bench.app.cell("count", 1), bench.app.cell("log", list[int]())
    chance = iter(range(100))

    @bench.app.computed
    def steady() -> int:
        return count.value * 2

    @bench.app.computed
    def random() -> int:
        return count.value + next(chance)

    @bench.app.computed(writes=[log])
    def logging() -> int:
        log.append(count.value)
        return count.value

    @bench.app.sink
    def show() -> None:
        steady()
        random()
        logging()

    with bench.app.open("memory:") as space:
        space.scheduler.set_idempotency_check(True)
        count.value = 2
        found = space.scheduler.get_idempotency_violations()
        assert [(each.node, each.place) for each in found] == [("random", "bench.random"), ("logging", "bench.log")]
        assert str(found[0]).startswith("random() test_side_writes.py:")
        assert "\n  bench.random: first 3, then 4\nfix: a computed may depend on cells" in str(found[0])
        assert found[1].on_top, "on what it has seen it appends the same"


def test_side_writes_and_materializers_of_an_app(bench: Bench) -> None:
    count = bench.app.cell("count", 1)
    last, big = bench.app.cell("last", 0), bench.app.cell("big", dict[str, int]())

    @bench.app.computed(writes=[last])
    def doubled() -> int:
        last.value = count.value
        return count.value * 2

    @bench.app.computed(materializes=[big])
    def fill() -> int:
        big.key(f"k{count.value}").value = count.value
        return 0

    @bench.app.sink
    def show() -> None:
        bench.log.append((last.value, dict(big.value)))

    with bench.open() as space:
        assert bench.taken()[-1] == (1, {"k1": 1})
        count.value = 2
        assert bench.taken() == [(2, {"k1": 1, "k2": 2})], "once, when both have written"
        assert "fill() is a materializer, clean, live: materializer" in hw.why(fill)
        assert space.runs(fill) == 2


@pytest.mark.parametrize("option", ["writes", "materializes"])
def test_computed_may_write_only_what_it_has_named(bench: Bench, option: str) -> None:
    named, other, go = bench.app.cell("named", 0), bench.app.cell("other", 0), bench.app.cell("go", 0)

    def write() -> int:
        named.value = 1
        if go.value:
            other.value = 1
        return 1

    options: dict[str, Any] = {option: [named]}
    both = bench.app.computed(name="both", **options)(write)
    with bench.open():
        assert both() == 1
        assert named.value == 1
        go.value = 1
        with pytest.raises(hw.HeadwaterError, match=r"HW104: both\(\) is computed and may not write bench.other"):
            both()


@pytest.mark.parametrize("option", ["writes", "materializes"])
@pytest.mark.parametrize("named", ["bench.count", 5, [5], [None]])
def test_what_cannot_be_written_is_refused_where_it_is_declared(bench: Bench, option: str, named: Any) -> None:
    options: dict[str, Any] = {option: named if isinstance(named, list) else [named]}
    with pytest.raises(hw.HeadwaterError, match=rf"{option}= takes cells and documents of the app"):
        bench.app.computed(name="bad", **options)(lambda: 1)


def test_what_follows_from_the_side_writes_of_a_call_has_run_before_the_next_statement(bench: Bench) -> None:
    count, sides = bench.app.cell("count", 1), bench.app.cell("sides", dict[str, int]())

    @bench.app.computed(writes=[sides])
    def times(number: int) -> int:
        sides.key(f"k{number}").value = number * count.value
        return number * count.value

    @bench.app.sink
    def show() -> None:
        bench.log.append(dict(sides.value))

    with bench.open():
        bench.taken()
        assert times(2) == 2
        assert bench.taken() == [{"k2": 2}]
        assert times(3) == 3
        assert bench.taken() == [{"k2": 2, "k3": 3}]
        count.value = 10
        assert bench.taken() == [{"k2": 20, "k3": 30}]
