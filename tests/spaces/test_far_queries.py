"""Queries of collections of another space are dependencies like any other: by key, by field and by answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater.errors import CrossSpaceError, QueryError
from headwater.server.server import Server
from tests.declare.collections.test_query_runs_model import Case, Item, Model, Write, cases, steps


def function_of(case: Case) -> Callable[[], Any]:
    def function() -> Any:
        return case.ask(None)

    return function


@given(data=st.data(), steps=steps)
def test_functions_have_the_answers_and_run_only_when_they_may_have_changed(
    data: st.DataObject, steps: list[list[Write]]
) -> None:
    far, near = hw.App("far"), hw.App("near")
    items = far.collection(Item, indexes=[(Item.a, Item.b)])
    chosen = data.draw(st.lists(cases(items), min_size=1, max_size=5))
    functions = [near.computed(name=f"f{index}")(function_of(case)) for index, case in enumerate(chosen)]

    @near.sink
    def show() -> None:
        for each in functions:
            each()

    model = Model()
    with far.open("memory:") as there, near.open("memory:") as space:
        for step in steps:
            before = [
                (space.runs(each), case.depends(model.rows)) for each, case in zip(functions, chosen, strict=True)
            ]
            with there.transaction():
                for write in step:
                    model.write(write)
            for function, case, (runs, depended) in zip(functions, chosen, before, strict=True):
                assert function() == case.answer(model.rows), case.name
                ran = space.runs(function) - runs
                assert ran == (depended != case.depends(model.rows)), (case.name, step)


class Shop(hw.Doc):
    name: str
    town: str = "Ulm"
    rating: int = 0
    note: str = ""


class Towns:
    """A file with shops, and a file with functions that ask for them. Declared anew for each opening."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.there, self.here = hw.App("there"), hw.App("here")
        self.shops = shops = self.there.collection(Shop, indexes=[(Shop.town, Shop.rating)])
        in_ulm = shops.where(Shop.town == "Ulm")

        @self.here.computed
        def names() -> list[str]:
            return [each.name for each in in_ulm.order_by(Shop.rating)]

        @self.here.computed
        def number() -> int:
            return in_ulm.count()

        @self.here.computed
        def best() -> list[str]:
            return [each.name for each in in_ulm.order_by(Shop.rating, descending=True).limit(1)]

        @self.here.computed
        def notes() -> list[str]:
            return in_ulm.values(Shop.note)

        self.functions: dict[str, Callable[[], object]] = {
            "names": names,
            "number": number,
            "best": best,
            "notes": notes,
        }

    @contextmanager
    def open(self) -> Iterator[tuple[hw.Space, hw.Space]]:
        with self.there.open(self.folder / "there.db") as far, self.here.open(self.folder / "here.db") as near:
            yield far, near

    def look(self, near: hw.Space) -> tuple[dict[str, object], list[str]]:
        """The answers, and which functions ran for them or before."""
        found = {name: function() for name, function in self.functions.items()}
        return found, [name for name, function in self.functions.items() if near.runs(function)]


START: dict[str, object] = {"names": ["a", "b"], "number": 2, "best": ["b"], "notes": ["", ""]}


def filled(folder: Path) -> None:
    """Both files, with the functions restored from what has been decided."""
    towns = Towns(folder)
    with towns.open() as (far, near):
        with far.transaction():
            Shop(name="a", rating=1)
            Shop(name="b", rating=5)
            Shop(name="c", town="Bonn", rating=3)
        assert towns.look(near)[0] == START
    towns = Towns(folder)
    with towns.open() as (_, near):
        assert towns.look(near) == (START, [])


def shop_of(towns: Towns, name: str) -> Shop:
    return next(each for each in towns.shops.scan().filter(lambda each: each.name == name))


CHANGES: dict[str, tuple[Callable[[Towns], object], set[str]]] = {
    "nothing": (lambda _: None, set()),
    "elsewhere": (lambda _: Shop(name="d", town="Bonn"), set()),
    "a new one": (lambda _: Shop(name="d", rating=2), {"names", "number", "notes"}),
    "a new best one": (lambda _: Shop(name="d", rating=9), {"names", "number", "best", "notes"}),
    "one leaves": (lambda t: setattr(shop_of(t, "a"), "town", "Bonn"), {"names", "number", "notes"}),
    "a field that one reads": (lambda t: setattr(shop_of(t, "a"), "note", "shut"), {"notes"}),
    "a field of another town": (lambda t: setattr(shop_of(t, "c"), "note", "shut"), set()),
}


@pytest.mark.parametrize(("change", "ran"), CHANGES.values(), ids=CHANGES)
def test_after_a_restart_exactly_the_readers_of_a_change_run(
    tmp_path: Path, change: Callable[[Towns], object], ran: set[str]
) -> None:
    filled(tmp_path)
    towns = Towns(tmp_path)
    with towns.there.open(tmp_path / "there.db"):
        change(towns)
    towns = Towns(tmp_path)
    with towns.open() as (_, near):
        found, runs = towns.look(near)
        assert found == plainly(towns)
        assert set(runs) == ran
    towns = Towns(tmp_path)
    with towns.open() as (_, near):
        assert towns.look(near) == (found, [])


@given(
    steps=st.lists(st.tuples(st.sampled_from(["add", "move", "note", "delete"]), st.integers(0, 9)), max_size=6),
    asleep=st.booleans(),
)
def test_answers_are_right_after_any_changes_and_restarts(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]], asleep: bool
) -> None:
    folder, numbers = tmp_path_factory.mktemp("towns"), count()
    for kind, which in steps:
        towns = Towns(folder)
        with towns.open() as (_, near):
            if not asleep:
                towns.look(near)
            change(towns, kind, which, numbers)
            expected = plainly(towns)
            assert towns.look(near)[0] == expected
            if asleep:
                change(towns, kind, which + 1, numbers)
    towns = Towns(folder)
    with towns.open() as (_, near):
        assert towns.look(near)[0] == plainly(towns)
    towns = Towns(folder)
    with towns.open() as (_, near):
        assert towns.look(near)[1] == []


def change(towns: Towns, kind: str, which: int, numbers: Iterator[int]) -> None:
    found = sorted(towns.shops.scan(), key=lambda each: each.name)
    if kind == "add" or not found:
        Shop(name=f"s{next(numbers)}", town=["Ulm", "Bonn"][which % 2], rating=which)
        return
    chosen = found[which % len(found)]
    if kind == "move":
        chosen.town = "Bonn" if chosen.town == "Ulm" else "Ulm"
    elif kind == "note":
        chosen.note += "!"
    else:
        hw.delete(chosen)


def plainly(towns: Towns) -> dict[str, object]:
    """The same without indexes."""
    found = [each for each in towns.shops.scan() if each.town == "Ulm"]
    found.sort(key=lambda each: (each.rating, hw.id_of(each)))
    names = [each.name for each in found]
    notes = [each.note for each in sorted(found, key=lambda each: (each.rating, hw.id_of(each)))]
    return {"names": names, "number": len(names), "best": names[-1:], "notes": notes}


def test_a_change_elsewhere_in_the_collection_invalidates_nothing() -> None:
    towns = Towns(Path())
    with towns.here.open("memory:") as near, towns.there.open("memory:"):
        Shop(name="a")
        before = towns.look(near)
        Shop(name="b", town="Bonn")
        assert not near._opening.scheduler.invalidation.invalid
        assert towns.look(near) == before
        assert [near.runs(each) for each in towns.functions.values()] == [1, 1, 1, 1]
        Shop(name="c", rating=9)
        assert len(near._opening.scheduler.invalidation.invalid) == 4


def test_an_answer_that_is_the_same_after_changes_is_restored(tmp_path: Path) -> None:
    filled(tmp_path)
    towns = Towns(tmp_path)
    with towns.open() as (far, near):
        towns.look(near)
        with far.transaction():
            shop_of(towns, "a").town = "Bonn"
            shop_of(towns, "c").town = "Ulm"
        assert towns.functions["number"]() == 2
        assert near.runs(towns.functions["number"]) == 0
    towns = Towns(tmp_path)
    with towns.open() as (_, near):
        assert towns.functions["number"]() == 2
        assert near.runs(towns.functions["number"]) == 0


def test_closing_the_far_space_leaves_answers_and_opening_it_again_asks_anew(tmp_path: Path) -> None:
    filled(tmp_path)
    towns = Towns(tmp_path)
    with towns.here.open(tmp_path / "here.db") as near:
        with towns.there.open(tmp_path / "there.db"):
            assert towns.look(near)[0] == START
            Shop(name="d", rating=7)
            closed = towns.look(near)[0]
            assert closed == {"names": ["a", "b", "d"], "number": 3, "best": ["d"], "notes": ["", "", ""]}
        assert towns.look(near)[0] == closed
        assert "closed here" in str(hw.why(towns.functions["number"]))
        with towns.there.open(tmp_path / "there.db"):
            for each in range(3):
                Shop(name=f"e{each}", rating=8 + each)
            assert towns.functions["number"]() == 6
            assert towns.functions["best"]() == ["e2"]


def test_why_names_the_space_and_the_collection(tmp_path: Path) -> None:
    filled(tmp_path)
    towns = Towns(tmp_path)
    with towns.open() as (_, near):
        towns.look(near)
        assert "a change of what it has found in the collection there:shop" in str(hw.why(towns.functions["number"]))


def test_a_handler_asks_and_a_block_of_plain_code_too() -> None:
    towns = Towns(Path())

    @towns.here.handler
    def ask() -> int:
        return towns.shops.where(Shop.town == "Ulm").count()

    with towns.here.open("memory:") as near, towns.there.open("memory:"):
        Shop(name="a")
        assert ask.send().result("5s") == 1
        with near.transaction():
            assert towns.shops.where(Shop.town == "Ulm").count() == 1
        Shop(name="b")
        assert ask.send().result("5s") == 2


def test_an_async_function_follows_what_it_has_asked_while_it_waits() -> None:
    towns, seen, may_end, asked = Towns(Path()), list[int](), asyncio.Event(), asyncio.Event()

    @towns.here.computed
    async def slow() -> int:
        found = towns.shops.where(Shop.town == "Ulm").count()
        asked.set()
        await may_end.wait()
        return found

    @towns.here.sink
    def show() -> None:
        seen.append(slow())

    async def main() -> None:
        may_end.set()
        async with towns.there.aopen("memory:") as far, towns.here.aopen("memory:") as here:
            asked.clear()
            may_end.clear()
            for name in ("a", "b"):
                with far.transaction():
                    Shop(name=name)
                await asked.wait()
            may_end.set()
            await here.settle()
            assert seen[-1] == slow() == 2

    asyncio.run(asyncio.wait_for(main(), 60))


def test_an_insert_into_a_far_collection_is_refused() -> None:
    towns = Towns(Path())
    with towns.there.open("memory:"), towns.here.open("memory:") as near:
        with pytest.raises(CrossSpaceError, match="HW112"), near.transaction():
            towns.shops.insert_many([Shop(name="a")])
        assert towns.shops.count() == 0


def test_entries_of_a_far_query_are_kept_by_key() -> None:
    towns, made, shown = Towns(Path()), list[str](), list[list[str]]()

    def made_of(shop: Shop) -> str:
        made.append(shop.name)
        return shop.name.upper()

    captions = towns.here.each(towns.shops.where(Shop.town == "Ulm").order_by(Shop.rating), made_of)

    @towns.here.sink
    def show() -> None:
        shown.append(list(captions()))

    with towns.there.open("memory:") as far, towns.here.open("memory:"):
        with far.transaction():
            Shop(name="b", rating=2)
            Shop(name="a", rating=1)
        assert made == ["a", "b"]
        with far.transaction():
            hw.delete(shop_of(towns, "a"))
            Shop(name="c", rating=3)
        assert (made, shown[-1]) == (["a", "b", "c"], ["B", "C"])


def test_a_space_of_a_server_answers_no_queries_of_other_spaces(server: Server) -> None:
    towns = Towns(Path())
    with towns.there.open(f"{server.url}/there"), towns.here.open("memory:"):
        for function in towns.functions.values():
            with pytest.raises(QueryError, match="HW120"):
                function()


def test_queries_of_two_openings_of_one_space_are_refused(tmp_path: Path) -> None:
    first, second = Towns(tmp_path), Towns(tmp_path)
    here = hw.App("both")

    @here.computed
    def one() -> int:
        return first.shops.count()

    @here.computed
    def other() -> int:
        return second.shops.count()

    file = tmp_path / "there.db"
    with first.there.open(file), second.there.open(file, apart=True), here.open("memory:"):
        assert one() == 0
        with pytest.raises(QueryError, match="open twice"):
            other()
