"""A loop over a list depends on what it has reached; readers of a part run when that part has changed."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater.cells.list_reads import LOOP_MAX, part_of_slice
from headwater.errors import ConflictError
from tests.cells.boards import Board, Item, app, board, fill, links, paths, row
from tests.cells.kit import DEEP, SHALLOW, checks, depends, inside, put, twice

# --- loops ------------------------------------------------------------------------------------------------------


def test_a_loop_that_is_left_depends_on_what_it_has_reached() -> None:
    with app.open("memory:") as space:
        fill(space, 100)
        with space.transaction() as tx:
            assert next(iter(board.rows)) == row(space, 0)
            assert paths(tx) == {("rows", 0)}
        with space.transaction() as tx:
            for item in board.rows:
                if item == row(space, 3):
                    break
            assert paths(tx) == {("rows", number) for number in range(4)}
        with space.transaction() as tx:
            assert next(iter(reversed(board.rows))) == row(space, 99)
            assert depends(tx) == {("reads.board", ("rows",), SHALLOW), ("reads.board", ("rows", 99), DEEP)}
        with space.transaction() as tx:
            list(itertools.islice(board.rows, LOOP_MAX + 1))
            assert depends(tx) == {("reads.board", ("rows",), DEEP)}


@pytest.mark.parametrize("length", [0, 1, LOOP_MAX - 1, LOOP_MAX, LOOP_MAX + 1, 100])
def test_a_loop_to_the_end_is_one_read(length: int) -> None:
    with app.open("memory:") as space:
        fill(space, length)
        for loop in (iter, reversed):
            with space.transaction() as tx:
                found = [*loop(board.rows)]
                assert {row(space, number) for number in range(length)} == set(found)
                assert depends(tx) == {("reads.board", ("rows",), DEEP)}
                assert len(tx.journal) <= 2


def test_a_loop_goes_through_the_list_as_it_was_when_it_began() -> None:
    with app.open("memory:") as space:
        fill(space, 5)
        rows = [row(space, number) for number in range(5)]
        seen = []
        for item in board.rows:
            seen.append(item)
            board.rows.remove(item)
        assert (seen, list(board.rows)) == (rows, [])
        board.rows = rows
        with space.transaction():
            for item in board.rows:
                board.rows.append(item)
        assert list(board.rows) == [*rows, *rows]
        board.rows = rows
        with space.transaction():
            loop = iter(board.rows)
            assert next(loop) == rows[0]
        assert list(loop) == rows[1:]  # after the end of its transaction


@pytest.mark.parametrize(
    ("reached", "place", "conflicts"), [(1, 0, True), (1, 1, False), (3, 2, True), (3, 3, False), (20, 30, True)]
)
@pytest.mark.parametrize("written", ["nothing", "an element", "all"])
def test_a_loop_over_which_the_list_is_written_is_checked_all_the_same(
    tmp_path: Path, reached: int, place: int, conflicts: bool, written: str
) -> None:
    with twice(app, tmp_path) as (one, two):
        fill(two, 40)
        two.sync()
        one.settle()
        with two.transaction():
            loop = iter(board.rows)
            if written == "an element":
                board.rows[35] = row(two, 500)
            elif written == "all":
                board.words = ["a"]
                two.cell("reads.board").value = {"rows": links(3)}
            assert list(itertools.islice(loop, reached)) == [row(two, number) for number in range(reached)]
            two.cell("count", int).value = reached
            with inside(one):
                board.rows[place] = row(one, 600)
                one.sync()
        if conflicts:
            with pytest.raises(ConflictError):
                two.sync()
        else:
            two.sync()


def test_a_loop_in_an_untracked_block_is_no_dependency() -> None:
    with app.open("memory:") as space:
        fill(space, 40)
        for count in (1, 3, 30, 40):
            with space.transaction() as tx:
                with hw.untracked():
                    assert len(list(itertools.islice(board.rows, count))) == count
                    assert len(board.rows[:count]) == count
                assert depends(tx) == set()
                assert checks(tx) != set()


def test_a_loop_that_ends_the_transaction_of_its_run_goes_on_depending() -> None:
    live = hw.App("ending")
    own = live.doc("board", Board)
    seen: list[list[Item]] = []

    with live.open("memory:") as space:
        put(space, "ending.board", {"rows": links(4)})

        @live.sink
        def show() -> None:
            with space.transaction() as tx:
                loop = iter(own.rows)
                first = next(loop)
                tx.commit()
                seen.append([first, *itertools.islice(loop, 1)])

        own.rows[3] = row(space, 10)
        assert len(seen) == 1
        own.rows[1] = row(space, 11)
        assert seen[-1] == [row(space, 0), row(space, 11)]


# --- who runs ---------------------------------------------------------------------------------------------------

EDITS: dict[str, Callable[[Any, int, Any], object]] = {
    "replace": lambda rows, at, new: rows.__setitem__(at % len(rows), new) if len(rows) else None,
    "insert": lambda rows, at, new: rows.insert(at, new),
    "append": lambda rows, _at, new: rows.append(new),
    "delete": lambda rows, at, _new: rows.__delitem__(at % len(rows)) if len(rows) else None,
    "replace slice": lambda rows, at, new: rows.__setitem__(slice(at, at + 2), [new]),
    "delete slice": lambda rows, at, _new: rows.__delitem__(slice(at, at + 3)),
    "reverse": lambda rows, _at, _new: rows.reverse(),
}

an_end = st.none() | st.integers(-9, 9) | st.integers(10, 100)
edits = st.lists(
    st.tuples(st.sampled_from(sorted(EDITS)), st.integers(0, 12), st.integers(0, 5)), min_size=1, max_size=12
)


@given(
    length=st.integers(0, 10),
    part=st.builds(slice, an_end, an_end, st.none() | st.sampled_from([1, 2, 3, -1, -2])),
    count=st.integers(0, 12),
    sought=st.integers(0, 12),
    steps=edits,
    is_documents=st.booleans(),
)
def test_who_reads_a_part_runs_when_it_has_changed_and_not_for_other_elements(
    length: int, part: slice, count: int, sought: int, steps: list[tuple[str, int, int]], is_documents: bool
) -> None:
    live = hw.App("live")
    own = live.doc("board", Board)
    seen: dict[str, list[object]] = {"slice": [], "loop": [], "backwards": [], "in": []}

    with live.open("memory:") as space:

        def value(number: int) -> Any:
            return row(space, number) if is_documents else str(number)

        model = [value(number) for number in range(length)]
        if is_documents:
            own.rows = model
        else:
            own.words = model
        looks: dict[str, Callable[[Any], object]] = {
            "slice": lambda rows: rows[part],
            "loop": lambda rows: list(itertools.islice(rows, count)),
            "backwards": lambda rows: list(itertools.islice(reversed(rows), count)),
            "in": lambda rows: value(sought) in rows,
        }

        def sink(kind: str) -> None:
            live.sink(name=kind)(lambda: seen[kind].append(looks[kind](own.rows if is_documents else own.words)))

        for kind in looks:
            sink(kind)
        for edit, at, number in steps:
            before, runs = list(model), {kind: len(found) for kind, found in seen.items()}
            EDITS[edit](own.rows if is_documents else own.words, at, value(number))
            EDITS[edit](model, at, value(number))
            for kind, look in looks.items():
                has_run = len(seen[kind]) > runs[kind]
                assert seen[kind][-1] == look(model), (kind, edit, at)
                if look(before) != look(model):
                    assert has_run, (kind, edit, at)
            assert (len(seen["slice"]) > runs["slice"]) <= _may_run(part, before, model), (edit, at)
            if is_documents and edit == "replace" and model and at % len(model) >= count:
                assert len(seen["loop"]) == runs["loop"] or count > len(model), (edit, at)


def _may_run(part: slice, before: list[Any], after: list[Any]) -> bool:
    """Whether a slice was touched: it has changed, or what decides its end."""
    if before[part] != after[part]:
        return True
    span = part_of_slice(part, len(before))
    is_longer = len(before) != len(after)
    return is_longer and (span.is_counted or (part.step or 1) < 0 or len(span.places) == len(before))


def test_a_slice_is_run_again_for_an_insertion_before_it_and_not_for_a_change_behind_it() -> None:
    live = hw.App("page")
    own = live.doc("board", Board)
    runs: list[list[Item]] = []

    @live.computed
    def page() -> list[Item]:
        found = own.rows[10:20]
        runs.append(found)
        return found

    live.sink(name="show")(page)
    with live.open("memory:") as space:
        put(space, "page.board", {"rows": links(100)})
        assert page() == [row(space, number) for number in range(10, 20)]
        count = len(runs)
        own.rows[50] = row(space, 500)
        own.rows.append(row(space, 501))
        own.rows.pop()
        own.rows.insert(20, row(space, 502))
        assert len(runs) == count
        own.rows.insert(0, row(space, 503))
        assert len(runs) == count + 1
        assert page() == [row(space, number) for number in range(9, 19)]
        del own.rows[5]
        own.rows[15] = row(space, 504)
        assert len(runs) == count + 3
