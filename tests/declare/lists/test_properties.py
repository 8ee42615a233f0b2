"""Whatever is done to a list, what is computed of it is what a comprehension would give, and nothing runs in vain."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from tests.declare.lists.kit import Desk, Item, is_open
from tests.support.halves import examples

Edit: TypeAlias = tuple[str, int, int]

EDITS = st.lists(
    st.tuples(
        st.sampled_from(["append", "insert", "remove", "move", "again", "change", "flip", "reverse", "clear", "two"]),
        st.integers(0, 12),
        st.integers(0, 5),
    ),
    max_size=25,
)


def shout(item: Item) -> str:
    return item.title.upper()


def letters(item: Item) -> list[str]:
    return list(item.title)


def double(number: int) -> int:
    return number * 2


def is_even(number: int) -> bool:
    return number % 2 == 0


def spread(number: int) -> list[int]:
    return [number] * (number % 3)


def edit_documents(desk: Desk, edit: Edit) -> None:
    """One edit of the list, or of what is in it."""
    verb, place, number = edit
    items = desk.board.items
    match verb:
        case "append":
            items.append(Item(title=f"a{number}"))
        case "insert":
            items.insert(place, Item(title=f"i{number}"))
        case "clear" if number == 0:
            items.clear()
        case "reverse":
            items.reverse()
        case _ if len(items):
            edit_one(desk, verb, place % len(items), number)
        case _:
            pass


def edit_one(desk: Desk, verb: str, at: int, number: int) -> None:
    """An edit of an element, or of where it stands."""
    items = desk.board.items
    match verb:
        case "remove":
            del items[at]
        case "move":
            items.insert(number, items.pop(at))
        case "again":
            items.insert(number, items[at])
        case "change":
            items[at].title = f"c{number}"
        case "flip":
            items[at].done = not items[at].done
        case "two":
            items[at].title = f"b{number}"
            items.append(Item(title="z"))
            del items[0]
        case _:
            pass


def edit_numbers(desk: Desk, edit: Edit) -> None:
    """The same of a list of values."""
    verb, place, number = edit
    held = list(desk.numbers.value)
    at = place % len(held) if held else 0
    match verb:
        case "append":
            desk.numbers.append(number)
        case "insert":
            desk.numbers.insert(at, number)
        case "clear" if number == 0:
            desk.numbers.value = []
        case "reverse":
            desk.numbers.value = held[::-1]
        case "change" | "flip" if held:
            desk.numbers.at(at).value = number
        case "remove" if held:
            desk.numbers.value = [*held[:at], *held[at + 1 :]]
        case "move" | "again" | "two" if held:
            desk.numbers.value = [*held[number:], *held[:number], number]


@given(EDITS)
def test_lists_of_documents_are_as_a_comprehension_has_them_and_only_what_changed_runs(edits: list[Edit]) -> None:
    desk = Desk()
    rows = hw.each(desk.board.items, shout)
    chosen = hw.select(desk.board.items, is_open)
    flat = hw.flat_each(desk.board.items, letters)
    desk.look_at(rows, chosen, flat)
    with desk.open() as space:
        desk.runs()
        before: dict[str, tuple[str, bool]] = {}
        for edit in edits:
            with space.transaction():
                edit_documents(desk, edit)
            items = list(desk.board.items)
            assert desk.shown == [
                [shout(item) for item in items],
                [item for item in items if is_open(item)],
                [letter for item in items for letter in letters(item)],
            ]
            now = {hw.id_of(item): (item.title, item.done) for item in items}
            runs = desk.runs()
            renamed = [each for each, (title, _) in now.items() if each not in before or before[each][0] != title]
            flipped = [each for each, (_, done) in now.items() if each not in before or before[each][1] != done]
            assert runs.get("each_shout.element", 0) == len(renamed)
            assert runs.get("select_is_open.element", 0) == len(flipped)
            assert runs.get("flat_each_letters.element", 0) == len(renamed)
            assert all(runs.get(name, 0) <= 1 for name in runs if not name.endswith(".element"))
            # Three for each document in the list, and the five of the lists, and the sink.
            assert desk.nodes == 3 * len(now) + 6
            before = now
        assert desk.errors == []


@given(EDITS)
def test_lists_of_values_are_as_a_comprehension_has_them_and_only_what_changed_runs(edits: list[Edit]) -> None:
    desk = Desk()
    rows = hw.each(desk.numbers, double)
    chosen = hw.select(desk.numbers, is_even)
    flat = hw.flat_each(desk.numbers, spread)
    further = hw.each(chosen, double, name="further")
    desk.look_at(rows, chosen, flat, further)
    with desk.open() as space:
        desk.numbers.value = []
        desk.runs()
        before: list[int] = []
        for edit in edits:
            with space.transaction():
                edit_numbers(desk, edit)
            now = list(desk.numbers.value)
            even = [number for number in now if is_even(number)]
            assert desk.shown == [
                [double(number) for number in now],
                even,
                [each for number in now for each in spread(number)],
                [double(number) for number in even],
            ]
            runs = desk.runs()
            changed = [at for at, number in enumerate(now) if at >= len(before) or before[at] != number]
            for name in ("each_double.element", "select_is_even.element", "flat_each_spread.element"):
                assert runs.get(name, 0) == len(changed)
            # At most once for each that has changed or is gone: it may be before that is known.
            assert runs.get("further.element", 0) <= len(changed) + max(len(before) - len(now), 0)
            assert all(runs.get(name, 0) <= 1 for name in runs if not name.endswith(".element"))
            assert desk.nodes == 3 * len(now) + len(even) + 7
            before = now
        assert desk.errors == []


@given(EDITS)
def test_whoever_only_asks_now_and_then_gets_the_same(edits: list[Edit]) -> None:
    desk = Desk()
    rows = hw.each(desk.board.items, shout)
    chosen = hw.select(desk.numbers, is_even)
    further = hw.each(hw.flat_each(chosen, spread), double)
    with desk.open():
        for index, edit in enumerate(edits):
            edit_documents(desk, edit)
            edit_numbers(desk, edit)
            if index % 3 == 0:
                even = [number for number in desk.numbers.value if is_even(number)]
                assert rows() == [shout(item) for item in desk.board.items]
                assert chosen() == even
                assert further() == [double(each) for number in even for each in spread(number)]


@given(st.lists(EDITS, min_size=1, max_size=3))
@settings(max_examples=examples(10))
def test_after_whatever_edits_a_restart_runs_no_element(lives: list[list[Edit]]) -> None:
    with TemporaryDirectory() as folder:
        for edits in [*lives, []]:
            desk = Desk()
            rows = hw.each(desk.board.items, shout)
            even = hw.select(desk.numbers, is_even)
            further = hw.each(hw.each(rows, len, name="lengths"), double, name="further")
            desk.look_at(rows, even, hw.each(even, double), hw.flat_each(desk.board.items, letters), further)
            with desk.open(Path(folder) / "kept.db"):
                assert not any(name.endswith(".element") for name in desk.runs())
                for edit in edits:
                    edit_documents(desk, edit)
                    edit_numbers(desk, edit)
                items, chosen = list(desk.board.items), [each for each in desk.numbers.value if is_even(each)]
                assert desk.shown == [
                    [shout(item) for item in items],
                    chosen,
                    [double(number) for number in chosen],
                    [letter for item in items for letter in letters(item)],
                    [2 * len(shout(item)) for item in items],
                ]
                assert desk.errors == []
