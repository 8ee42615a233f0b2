"""What callers get from functions that fail, wait, write besides, take parameters or are declared again."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Callable
from typing import Any

import pytest

import headwater as hw
from headwater.errors import DeclarationError, UsageError, UserCodeError
from headwater.scheduler.graph.node import Node
from headwater.scheduler.runs.pull import Puller
from headwater.testing import simulate
from tests.app.workbench import Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_async_function_that_fails_again_in_the_same_way_leaves_no_reader_with_its_old_value(bench: Bench) -> None:
    size = bench.app.cell("size", 1)

    @bench.app.computed
    async def checked() -> int:
        found = size.value
        await asyncio.sleep(0.01)
        if found >= 10:
            raise ValueError("too big")
        return found

    @bench.app.sink
    def show() -> None:
        try:
            bench.log.append((size.value, checked()))
        except hw.NotReadyError:
            bench.log.append((size.value, "loading"))
        except ValueError:
            bench.log.append((size.value, "error"))

    async def main() -> None:
        async with bench.app.aopen("memory:") as space:
            for number in (10, 11, 3):
                size.value = number
                await space.settle()

    simulate(main())
    assert bench.log[-4:] == [(10, "error"), (11, "error"), (3, "error"), (3, 3)], "while it waits, as it was"


def test_async_function_that_waits_for_something_cancelled_has_failed_and_is_not_tried_for_ever(bench: Bench) -> None:
    going = bench.app.cell("going", False)
    calls: list[bool] = []

    @bench.app.computed
    async def waits() -> bool:
        calls.append(going.value)
        if going.value:
            inner = asyncio.create_task(asyncio.sleep(10))
            inner.cancel()
            await inner
        return going.value

    @bench.app.sink
    def show() -> None:
        waits()

    errors: list[UserCodeError] = []

    async def main() -> None:
        async with bench.app.aopen("memory:", on_error=errors.append) as space:
            going.value = True
            await space.settle()
            assert calls == [False, True]
            going.value = False
            await space.settle()
            assert waits() is False

    simulate(main())
    assert ["was cancelled" in str(error) for error in errors] == [True]


@pytest.mark.slow
def test_recursion_over_parameters_may_be_deeper_than_the_instances_that_are_kept(bench: Bench) -> None:
    base = bench.app.cell("base", 1)

    @bench.app.computed
    def deep(left: int) -> int:
        return base.value if left == 0 else deep(left - 1) + 1

    with bench.open():
        assert deep(2500) == 2501
        base.value = 5
        assert deep(2500) == 2505


def test_chain_that_is_asked_for_at_its_end_costs_as_many_looks_as_it_has_links(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = bench.app.cell("base", 0)
    last = bench.app.computed(name="link0")(lambda: base.value)
    for number in range(1, 1000):
        last = bench.app.computed(name=f"link{number}")(_one_more(last))
    looks = 0
    upstream = Puller.upstream

    def counted(self: Puller, node: Node) -> list[Node]:
        nonlocal looks
        found = upstream(self, node)
        looks += len(found)
        return found

    monkeypatch.setattr(Puller, "upstream", counted)
    with bench.open():
        assert last() == 999
        assert looks <= 5 * 1000


def _one_more(above: Callable[[], int]) -> Callable[[], int]:
    return lambda: above() + 1


def test_failure_of_a_function_whose_other_writes_are_read_is_told(bench: Bench) -> None:
    count = bench.app.cell("count", 1)
    tens = bench.app.cell("tens", 0)

    @bench.app.computed(writes=[tens])
    def multiply() -> int:
        tens.value = count.value * 10
        if count.value == 2:
            raise ValueError("two")
        return 1

    @bench.app.sink
    def show() -> None:
        bench.log.append(tens.value)

    with bench.open():
        count.value = 2
        assert [error.facts["node"] for error in bench.errors] == ["multiply"]


def test_function_that_writes_besides_is_not_called_in_a_transaction_that_has_written(bench: Bench) -> None:
    count = bench.app.cell("count", 1)
    tens = bench.app.cell("tens", 0)

    @bench.app.computed(writes=tens)
    def multiply() -> int:
        tens.value = count.value * 10
        return 1

    with bench.open() as space:
        with space.transaction():
            assert multiply() == 1
        with pytest.raises(UsageError, match=r"multiply\(\) writes besides its result.*before the first write"):  # noqa: SIM117
            with space.transaction():
                count.value = 7
                multiply()
        assert (count.value, tens.value) == (1, 10)


def test_two_functions_may_not_write_the_same_cell_besides(bench: Bench) -> None:
    tens = bench.app.cell("tens", 0)
    bench.app.computed(name="one", writes=[tens])(lambda: 1)
    with pytest.raises(DeclarationError, match=r"two\(\): writes= names bench\.tens, which one\(\) writes already"):
        bench.app.computed(name="two", writes=[tens])(lambda: 2)


def test_calls_in_a_transaction_that_has_written_are_remembered_until_the_next_write(bench: Bench) -> None:
    count = bench.app.cell("count", 1)
    calls: list[int] = []

    @bench.app.computed
    def doubled() -> int:
        calls.append(count.value)
        return count.value * 2

    with bench.open() as space, space.transaction():
        count.value = 2
        assert (doubled(), doubled(), calls) == (4, 4, [2])
        count.value = 3
        assert (doubled(), doubled(), calls) == (6, 6, [2, 3])


def test_function_redeclared_with_parameters_is_what_readers_of_the_old_one_get(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builtins, "__IPYTHON__", True, raising=False)
    count = bench.app.cell("count", 1)
    functions: dict[str, Any] = {}
    functions["f"] = bench.app.computed(name="f")(lambda: count.value)

    @bench.app.computed
    def more() -> int:
        return int(functions["f"]()) + 1

    @bench.app.sink
    def show() -> None:
        bench.log.append(more())

    def times(number: int = 3) -> int:
        return count.value * number

    with bench.open():
        functions["f"] = bench.app.computed(name="f")(times)
        assert bench.log == [2, 4]
        functions["f"] = bench.app.computed(name="f")(lambda: 10)
        assert bench.log == [2, 4, 11]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"foo": 1}, "there is no option foo="),
        ({"eager": "no"}, "eager='no'; True or False is expected"),
        ({"writes": 5}, "writes= takes cells and documents of the app, not 5"),
        ({"change_group": "g"}, "there is no option change_group="),
    ],
)
def test_silly_options_of_a_computed_are_refused_when_it_is_declared(bench: Bench, options: Any, told: str) -> None:
    with pytest.raises(DeclarationError, match=told):
        bench.app.computed(name="f", **options)(lambda: 1)


@pytest.mark.parametrize("options", [{"on_error": 5}, {"actor": 5}, {"actor": ""}, {"demand": "much"}])
def test_silly_options_of_an_opening_are_refused_at_once(bench: Bench, options: Any) -> None:
    with pytest.raises(UsageError, match="expected"):
        bench.app.open("memory:", **options)
