"""Runs that called functions with arguments: the calls are kept with them, and made again before anything runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater.core import open_space
from headwater.declare.functions.arguments import STORED_MAX, restored_arguments, stored_arguments
from headwater.declare.functions.function_code import signature_of
from headwater.testing import probe
from tests.runtime.restore.kit import Program, outcome, reason


class Board(hw.Doc):
    items: hw.List[Item]


class Item(hw.Doc):
    title: str
    price: int = 1


CHAIN = """
import headwater as hw

app = hw.App("garden")
names = app.cell("names", ["a", "b", "c"])
factor = app.cell("factor", 2)

@app.computed
def leaf(name: str) -> int:
    return len(name) + {bonus}

@app.computed
def middle(name: str, times: int = 1) -> int:
    return leaf(name) * factor.value * times

@app.computed
def upper(name: str) -> int:
    return middle(name) + middle(name, times=3)

@app.computed
def top() -> int:
    return sum(upper(name) for name in names.value)
"""


def runs_of(space: hw.Space) -> int:
    return sum(space.stats.runs.values())


def test_unchanged_pipeline_of_functions_with_parameters_runs_none_of_them(tmp_path: Path) -> None:
    garden = Program(tmp_path)
    garden.write(main=CHAIN.format(bonus=0))
    with garden.start() as (space, main):
        assert main.top() == 24
        assert runs_of(space) == 13
    for _ in range(2):
        with garden.start() as (space, main):
            assert outcome(space) == (13, 0, 0)
            assert main.top() == 24
            assert main.middle("a", times=3) == 6
            assert runs_of(space) == 0


def test_change_reaches_exactly_those_that_it_concerns(tmp_path: Path) -> None:
    garden = Program(tmp_path)
    garden.write(main=CHAIN.format(bonus=0))
    with garden.start() as (space, main):
        main.top()
    with hw.App("other").open(garden.data) as space:
        space.cell("garden.names", list[str]).value = ["a", "b", "cc"]
    with garden.start() as (space, main):
        assert outcome(space) == (12, 1, 0)
        assert main.top() == 32
        assert dict(space.stats.runs) == {"top": 1, "upper": 1, "middle": 2, "leaf": 1}
        main.factor.value = 3
        assert main.top() == 48
    with garden.start() as (space, main):
        assert main.top() == 48
        assert runs_of(space) == 0


def test_changed_code_of_a_function_with_parameters_runs_it_and_those_that_it_changes(tmp_path: Path) -> None:
    garden = Program(tmp_path)
    garden.write(main=CHAIN.format(bonus=0))
    with garden.start() as (space, main):
        main.top()
    garden.write(main=CHAIN.format(bonus="0 * 1 + len('')"))
    with garden.start() as (space, main):
        assert main.top() == 24
        assert dict(space.stats.runs) == {"top": 0, "upper": 0, "middle": 0, "leaf": 3}
    garden.write(main=CHAIN.format(bonus=1))
    with garden.start() as (space, main):
        assert main.top() == 48
        assert dict(space.stats.runs) == {"top": 1, "upper": 3, "middle": 6, "leaf": 3}


def test_caller_of_a_function_that_takes_other_parameters_now_runs(tmp_path: Path) -> None:
    text = """
import headwater as hw

app = hw.App("garden")

@app.computed
def leaf({parameters}) -> int:
    return a

@app.computed
def top() -> int:
    return leaf(1)
"""
    garden = Program(tmp_path)
    garden.write(main=text.format(parameters="a: int"))
    with garden.start() as (space, main):
        assert main.top() == 1
    garden.write(main=text.format(parameters="a: int, b: int = 2"))
    with garden.start() as (space, main):
        assert (
            reason(space, "top") == "a function that it called with arguments does not exist any more, or takes others"
        )
        assert main.top() == 1
        assert runs_of(space) == 2


def test_long_chain_of_calls_is_restored_without_recursion(tmp_path: Path) -> None:
    app = hw.App("deep")
    start = app.cell("start", 1)

    @app.computed
    def sum_to(n: int) -> int:
        return start.value if n == 0 else n + sum_to(n - 1)

    @app.computed
    def top() -> int:
        return sum_to(400)

    with app.open(tmp_path / "deep.db"):
        assert top() == 80_201
    with app.open(tmp_path / "deep.db") as space:
        assert top() == 80_201
        assert runs_of(space) == 0
        start.value = 2
        assert top() == 80_202


def test_failure_of_a_call_is_part_of_it(tmp_path: Path) -> None:
    app = hw.App("shop")
    rate = app.cell("rate", 5)

    @app.computed
    def per(amount: int) -> int:
        return amount // rate.value

    @app.computed
    def label() -> str:
        try:
            return f"each {per(100)}"
        except ZeroDivisionError:
            return "no rate"

    path = tmp_path / "shop.db"
    with app.open(path):
        assert label() == "each 20"
        rate.value = 0
        assert label() == "no rate"
    with app.open(path) as space:
        assert label() == "no rate"
        assert (space.runs(label), space.runs(per)) == (0, 1)
        rate.value = 5
        assert label() == "each 20"


def test_call_of_a_function_that_writes_besides_is_restored_only_if_that_stands(tmp_path: Path) -> None:
    app = hw.App("shop")
    log = app.cell("log", 0)

    @app.computed(writes=[log])
    def noted(amount: int) -> int:
        log.value = amount * 100
        return amount

    @app.computed
    def top() -> int:
        return noted(3) + 1

    path = tmp_path / "shop.db"
    with app.open(path):
        assert top() == 4
    with app.open(path) as space:
        assert top() == 4
        assert runs_of(space) == 0
    with hw.App("other").open(path) as space:
        space.cell("shop.log", int).value = -1
    with app.open(path) as space:
        assert top() == 4
        assert (space.runs(noted), space.runs(top)) == (1, 0)
        assert log.value == 300


def test_async_function_with_parameters_is_restored_for_its_caller() -> None:
    app = hw.App("shop")
    rate = app.cell("rate", 5)

    @app.computed
    async def per(amount: int) -> int:
        found = rate.value
        await asyncio.sleep(0.01)
        return amount // found

    seen: list[int] = []

    @app.computed
    def label() -> int:
        return per(100)

    @app.sink
    def show() -> None:
        seen.append(label())

    with probe(app, idempotency=False) as t:
        t.advance("1s")
        t.restart()
        t.advance("1s")
        assert seen[-1] == 20
        assert t.runs(per) == 1
        rate.value = 4
        t.advance("1s")
        assert seen[-1] == 25


def part(p: hw.Builder, rate: hw.Cell[int]) -> dict[str, Any]:
    @p.computed
    def per(amount: int) -> int:
        return amount // rate.value

    @p.computed
    def label() -> str:
        return f"{per(100)} {per(200)}"

    return {"label": label}


def test_functions_with_parameters_of_a_piece_are_restored_with_it(tmp_path: Path) -> None:
    app = hw.App("shop")
    rate = app.cell("rate", 5)
    pattern = hw.pattern(part)
    path = tmp_path / "shop.db"
    for opening in range(3):
        with app.open(path) as space:
            piece = space.start(pattern, "one", rate=rate)
            assert piece.outputs["label"]() == "20 40"
            assert sum(node.runs for node in space.scheduler.registry.nodes) == (0 if opening else 3)
    with app.open(path) as space:
        piece = space.start(pattern, "one", rate=rate)
        rate.value = 10
        assert piece.outputs["label"]() == "10 20"


def test_branch_begins_with_the_calls_of_its_parent(tmp_path: Path) -> None:
    app = hw.App("shop")
    names = app.cell("names", ["a", "b"])

    @app.computed
    def size(name: str) -> int:
        return len(name)

    @app.computed
    def top() -> int:
        return sum(size(name) for name in names.value)

    path = tmp_path / "shop.db"
    with app.open(path):
        assert top() == 2
    with open_space(str(path)) as storage:
        storage.fork("draft")
    with app.open(path, branch="draft") as space:
        assert top() == 2
        assert runs_of(space) == 0
        names.value = ["a", "bb"]
        assert top() == 3


# -- arguments -----------------------------------------------------------------------------------------------


def kept(*given: Any) -> bool:
    """Whether a caller that gives these arguments is restored."""
    app = hw.App("shop")
    ran: list[int] = []
    cell = app.cell("cell", 7)
    found = [cell if each is hw.Cell else each for each in given]

    @app.computed
    def told(*args: Any) -> str:
        return f"{args!r}"

    @app.computed
    def one(arg: Any) -> str:
        return f"{arg!r} {type(arg).__name__}"

    @app.computed
    def top() -> str:
        return "".join([one(each) for each in found])

    with probe(app, idempotency=False) as t:
        before = top()
        t.restart()
        # What the function is called with is what it was called with.
        assert "".join([str(one.__wrapped__(each)) for each in found]) == before
        assert top() == before
        names = {node.name: node for node in t.space.scheduler.registry.nodes}
        del told, ran
        return names["top"].runs == 0


@pytest.mark.parametrize(
    "given",
    [
        1,
        -3,
        2**70,
        1.5,
        float("inf"),
        "",
        "naïve",
        True,
        False,
        None,
        [1, [2, "x"]],
        {"a": [1], "b": {}},
        (1, "b"),
        hw.Cell,
    ],
    ids=repr,
)
def test_argument_that_is_stored_makes_its_caller_restorable(given: Any) -> None:
    assert kept(given)


@pytest.mark.parametrize(
    "given",
    [(1, (2, 3)), {"b": 1, "a": 2}, "x" * (STORED_MAX + 1)],
    ids=["tuple in a tuple", "order of keys", "long"],
)
def test_argument_that_cannot_be_made_again_exactly_costs_a_run(given: Any) -> None:
    app = hw.App("shop")

    @app.computed
    def one(arg: Any) -> int:
        return len(arg)

    @app.computed
    def top() -> int:
        return one(given)

    with probe(app, idempotency=False) as t:
        assert top() == len(given)
        t.restart()
        assert top() == len(given)
        assert t.runs(top) == 2


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3) | st.tuples(inner)
    ),
    max_leaves=6,
)


@given(st.lists(PLAIN, max_size=3), st.dictionaries(st.sampled_from("abc"), PLAIN, max_size=2))
def test_what_is_stored_of_arguments_is_made_again_exactly(args: list[Any], named: dict[str, Any]) -> None:
    def fn(first: Any, *rest: Any, **more: Any) -> None: ...

    signature = signature_of(fn)
    app = hw.App("shop")
    bound = signature.bind(0, *args, **named)
    bound.apply_defaults()
    stored = stored_arguments(fn, app, bound)
    with app.open("memory:") as space:
        made = None if stored is None else restored_arguments(fn, signature, app, space._opening, stored)
    if made is not None:
        assert repr(made.args) == repr(bound.args)
        assert repr(made.kwargs) == repr(bound.kwargs)


@pytest.mark.parametrize(
    "stored",
    [
        (("int", "x"),),
        (("value", "zz", "plain"),),
        (("value", "c1", "plain"),),
        (("value", "90", "other"),),
        (("value",),),
        (("doc", "Item", "user:ann!item:1"),),
        (("doc", "Other", "space!item:1"),),
        (("cell", "shop.nothing"),),
        (("other", "1"),),
        ((),),
        (("int", "1"), ("int", "2")),
    ],
    ids=repr,
)
def test_stored_arguments_that_are_damaged_are_none(stored: tuple[tuple[str, ...], ...]) -> None:
    def fn(item: Item) -> None: ...

    app = hw.App("shop")
    with app.open("memory:") as space:
        assert restored_arguments(fn, signature_of(fn), app, space._opening, stored) is None


def test_document_is_made_again_as_the_class_of_its_parameter(tmp_path: Path) -> None:
    app = hw.App("shop")
    board = app.doc("board", Board)

    def declared(fn: Callable[..., int]) -> Any:
        return app.computed(name=fn.__name__)(fn)

    def price(item: Item) -> int:
        return item.price

    def untyped(item) -> int:  # type: ignore[no-untyped-def]  # noqa: ANN001
        return int(item.price)

    priced, guessed = declared(price), declared(untyped)

    @app.computed
    def by_class() -> int:
        return int(priced(board.items[0]))

    @app.computed
    def without() -> int:
        return int(guessed(board.items[0]))

    path = tmp_path / "shop.db"
    with app.open(path):
        board.items.append(Item(title="tea", price=3))
        assert (by_class(), without()) == (3, 3)
    with app.open(path) as space:
        assert (by_class(), without()) == (3, 3)
        assert (space.runs(by_class), space.runs(without)) == (0, 1)
