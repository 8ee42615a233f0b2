"""A slice of a list, and a search in it, depend on no more than decides their answer."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.cells.list_reads import SLICE_MAX
from headwater.errors import ConflictError, HeadwaterError, SchemaError
from headwater.values.chunked import ChunkedList
from headwater.values.tree import Array
from tests.cells.boards import Board, Item, Loud, Other, app, backlog, board, fill, links, name, row
from tests.cells.kit import DEEP, SHALLOW, checks, depends, inside, put, twice

LENGTHS = (0, 1, 2, 5)
ENDS = (None, -9, -2, -1, 0, 1, 2, 4, 5, 6, 10**9, -(10**9), 2**70)
STEPS = (None, 1, 2, 3, -1, -2, -7)


# --- slices -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", LENGTHS)
def test_a_slice_is_that_of_a_list(length: int) -> None:
    with app.open("memory:") as space:
        fill(space, length)
        rows = [row(space, number) for number in range(length)]
        board.words = words = list(map(str, range(length)))
        backlog.value = rows
        for ends in itertools.product(ENDS, ENDS, STEPS):
            part = slice(*ends)
            assert board.rows[part] == rows[part], part
            assert board.words[part] == words[part], part
            assert backlog.value[part] == rows[part], part


@pytest.mark.parametrize("length", [0, 1, 3, 600])
def test_a_slice_of_a_list_in_chunks_is_that_of_a_list(length: int) -> None:
    items = list(range(length))
    chunked: Array = ChunkedList.of(items) if items else ChunkedList([[0]], [0], 1)
    items = items or [0]
    ends = (None, -601, -600, -3, -1, 0, 1, 2, 255, 256, 257, 511, 512, 599, 600, 601)
    for part in itertools.starmap(slice, itertools.product(ends, ends, (None, 1, 2, 255, -1, -3, -700))):
        assert chunked[part] == items[part], part


def test_what_slices_no_list_slices_none_here() -> None:
    with app.open("memory:") as space:
        fill(space, 3)
        with pytest.raises(ValueError, match="slice step cannot be zero"):
            _ = board.rows[::0]
        with pytest.raises(TypeError, match="slice indices must be integers"):
            _ = board.rows["a":]  # type: ignore[misc]


@pytest.mark.parametrize("part", list(itertools.starmap(slice, itertools.product((None, -2, 0, 1, 4), repeat=2))))
def test_a_slice_is_of_what_the_transaction_has_made_of_the_list(part: slice) -> None:
    with app.open("memory:") as space:
        fill(space, 4)
        model = [row(space, number) for number in range(4)]
        with space.transaction():
            own_edits: list[Callable[[Any], object]] = [
                lambda rows: rows.insert(0, row(space, 10)),
                lambda rows: rows.append(row(space, 11)),
                lambda rows: rows.__setitem__(2, row(space, 12)),
                lambda rows: rows.__setitem__(slice(1, 3), [row(space, 13)]),
                lambda rows: rows.__delitem__(slice(0, 2)),
                lambda rows: rows.reverse(),
            ]
            for edit in own_edits:
                edit(model)
                edit(board.rows)
                assert board.rows[part] == model[part]
                assert list(board.rows) == model
                assert list(reversed(board.rows)) == model[::-1]
                assert row(space, 13) in board.rows or row(space, 13) not in model
            board.rows = model = [row(space, 20)]
            assert board.rows[part] == model[part]
            assert (row(space, 20) in board.rows, row(space, 0) in board.rows) == (True, False)


ROWS_READ: dict[str, tuple[slice, set[tuple[tuple[str | int, ...], Any]]]] = {
    "closed": (slice(2, 4), {(("rows", 2), DEEP), (("rows", 3), DEEP)}),
    "step": (slice(1, 6, 2), {(("rows", 1), DEEP), (("rows", 3), DEEP), (("rows", 5), DEEP)}),
    "backwards": (slice(3, 1, -1), {(("rows", 2), DEEP), (("rows", 3), DEEP)}),
    "empty": (slice(4, 4), set()),
    "beyond the end": (slice(8, 12), {(("rows", 8), DEEP), (("rows", 9), DEEP), (("rows", 10), DEEP)}),
    "behind it": (slice(20, 30), {(("rows", 20), DEEP)}),
    "open": (slice(8, None), {(("rows",), SHALLOW), (("rows", 8), DEEP), (("rows", 9), DEEP)}),
    "from the end": (slice(-2, None), {(("rows",), SHALLOW), (("rows", 8), DEEP), (("rows", 9), DEEP)}),
    "to the end": (slice(1, -8), {(("rows",), SHALLOW), (("rows", 1), DEEP)}),
    "huge": (slice(9, 2**80), {(("rows", 9), DEEP), (("rows", 10), DEEP)}),
    "behind all lists": (slice(2**70, 2**80), {(("rows",), SHALLOW)}),
    "whole": (slice(None), {(("rows",), DEEP)}),
    "whole and more": (slice(0, 50), {(("rows",), DEEP)}),
    "whole backwards": (slice(None, None, -1), {(("rows",), DEEP)}),
    "backwards beyond the end": (slice(30, 8, -1), {(("rows", 9), DEEP), (("rows", 10), DEEP)}),
}


@pytest.mark.parametrize("case", ROWS_READ)
def test_a_slice_depends_on_its_elements_and_on_what_ends_it(case: str) -> None:
    part, expected = ROWS_READ[case]
    with app.open("memory:") as space:
        fill(space, 10)
        with space.transaction() as tx:
            assert board.rows[part] == [row(space, number) for number in range(10)][part]
            assert depends(tx) == {("reads.board", path, depth) for path, depth in expected}
            assert checks(tx) == depends(tx)


def test_a_long_slice_is_one_read() -> None:
    with app.open("memory:") as space:
        fill(space, 200)
        with space.transaction() as tx:
            assert len(board.rows[10 : 10 + SLICE_MAX]) == SLICE_MAX
            assert len(tx.journal) == SLICE_MAX
        with space.transaction() as tx:
            assert len(board.rows[10 : 11 + SLICE_MAX]) == SLICE_MAX + 1
            assert depends(tx) == {("reads.board", ("rows",), DEEP)}
            assert len(tx.journal) == 1


def test_a_slice_of_a_default_or_behind_a_link_is_that_of_a_list() -> None:
    with app.open("memory:") as space:
        assert board.ready[1:] == [2, 3]
        assert board.ready[::-2] == [3, 1]
        assert board.words[:5] == []
        fill(space, 100)
        put(space, "behind", {"rows": {"/": {"link@1": {"id": "reads.board", "path": ["rows"], "scope": "space"}}}})
        far = space.doc("behind", Board)
        assert far.rows[3:5] == [row(space, 3), row(space, 4)]
        assert far.rows[:80] == [row(space, number) for number in range(80)]
        assert list(far.rows) == [row(space, number) for number in range(100)]
        assert list(reversed(far.rows))[:2] == [row(space, 99), row(space, 98)]
        assert (row(space, 7) in far.rows, row(space, 100) in far.rows) == (True, False)


def test_a_slice_of_lists_in_a_list_does_not_read_them() -> None:
    with app.open("memory:") as space:
        board.nested = [[1], [2], [3]]  # type: ignore[list-item]
        with space.transaction() as tx:
            part = board.nested[1:]
            assert depends(tx) == {("reads.board", ("nested",), SHALLOW)}
            assert [list(each) for each in part] == [[2], [3]]
        part[0].append(9)
        assert list(board.nested[1]) == [2, 9]


def test_elements_that_need_more_than_their_link_are_read_with_it() -> None:
    with app.open("memory:") as space:
        ann, bob = Item(title="ann"), Item(title="bob")
        board.maybe = [ann, None, bob]  # type: ignore[list-item]
        hw.delete(bob)
        assert board.maybe[:2] == [ann, None]
        with space.transaction() as tx:
            assert board.maybe[1:] == [None, None]
            assert (hw.id_of(bob), (), SHALLOW) in depends(tx)
        put(space, "target", 5)
        board.free = [1, {"a": 2}, None]
        space.cell("reads.board/free").at(0).value = {"/": {"link@1": {"id": "target", "scope": "space"}}}
        assert board.free[:2] == [5, {"a": 2}]
        board.mixed = [ann, 4]
        assert board.mixed[:] == [ann, 4]
        assert (4 in board.mixed, ann in board.mixed, bob in board.mixed) == (True, True, False)


def test_a_slice_is_not_spoiled_by_what_is_beside_it() -> None:
    with app.open("memory:") as space:
        put(space, "reads.board", {"words": ["a", "b", 5], "rows": [*links(2), 7]})
        assert board.words[:2] == ["a", "b"]
        assert board.rows[:2] == [row(space, 0), row(space, 1)]
        with pytest.raises(SchemaError, match=r"cannot read reads\.board/words/2: expected str"):
            _ = board.words[1:]
        with pytest.raises(SchemaError, match=r"cannot read reads\.board/rows/2: expected a link to Item, got"):
            _ = board.rows[1:]
        loop = iter(board.rows)
        assert [next(loop), next(loop)] == [row(space, 0), row(space, 1)]
        with pytest.raises(SchemaError, match=r"cannot read reads\.board/rows/2: expected a link to Item, got"):
            next(loop)
        put(space, "reads.board", {"words": 5})
        with pytest.raises(HeadwaterError, match=r"reads\.board/words"):
            _ = board.words[1:]


def test_a_slice_conflicts_with_what_it_read_and_with_nothing_else(tmp_path: Path) -> None:
    with twice(app, tmp_path) as (one, two):
        fill(two, 20)
        two.sync()
        one.settle()
        for place, conflicts in ((9, False), (10, True), (14, True), (15, False)):
            with two.transaction():
                two.cell("count", int).value = place + len(board.rows[10:15])
                with inside(one):
                    board.rows[place] = row(one, 100 + place)
                    one.sync()
            if conflicts:
                with pytest.raises(ConflictError):
                    two.sync()
            else:
                two.sync()
            one.settle()


# --- searches ---------------------------------------------------------------------------------------------------


def test_a_document_is_found_by_its_stored_link() -> None:
    with app.open("memory:") as space:
        fill(space, 300)
        there, missing = row(space, 298), row(space, 300)
        with space.transaction() as tx:
            assert there in board.rows
            assert depends(tx) == {("reads.board", ("rows", 298), DEEP)}
        with space.transaction() as tx:
            assert missing not in board.rows
            assert depends(tx) == {("reads.board", ("rows",), DEEP)}
        assert (board.rows.index(there), board.rows.count(there), board.rows.count(missing)) == (298, 1, 0)
        assert board.rows.index(there, -5, 299) == 298
        for bounds in ((299,), (0, 298)):
            with pytest.raises(ValueError, match=r"is not in reads\.board/rows"):
                board.rows.index(there, *bounds)
        board.rows.append(there)
        assert (board.rows.index(there), board.rows.count(there)) == (298, 2)
        hw.delete(there)
        assert there in board.rows


def test_what_is_no_such_document_is_not_found() -> None:
    with app.open("memory:") as space:
        fill(space, 3)
        assert space.doc(name(1), Item) in board.rows
        assert space.doc(name(1)) in board.rows  # a handle without a class is equal, too
        assert Other() not in board.rows
        for value in (None, 5, "item", [], {}, object(), app.cell("cell", 0)):
            assert value not in board.rows
            assert board.rows.count(value) == 0  # type: ignore[arg-type]


def test_a_document_of_another_space_is_found_by_the_link_that_names_it() -> None:
    people, tasks = hw.App("people"), hw.App("tasks")
    own = tasks.doc("board", Board)
    with people.open("memory:") as who, tasks.open("memory:") as todo:
        with inside(who):
            eve, adam = Item(title="eve"), Item(title="adam")
            who.sync()
        with inside(todo):
            mine = Item(title="mine")
            own.rows = [mine, eve]
            twin = todo.doc(hw.id_of(eve), Item)
            assert (eve in own.rows, mine in own.rows, adam in own.rows, twin in own.rows) == (True, True, False, False)
            assert own.rows[:2] == [mine, eve]
            assert (own.rows.index(eve), own.rows.count(twin)) == (1, 0)
            # Of the same id here and there.
            own.rows.append(twin)
            assert (own.rows.index(twin), own.rows.index(eve)) == (2, 1)


def test_an_equality_of_its_own_is_asked() -> None:
    with app.open("memory:"):
        one, two = Loud(), Loud()
        board.loud = [one]
        assert two in board.loud
        assert board.loud.index(two) == 0
        assert board.loud.count(two) == 1

    class Anything:
        def __eq__(self, _other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

    with app.open("memory:") as space:
        fill(space, 2)
        assert Anything() in board.rows
        assert board.rows.count(Anything()) == 2  # type: ignore[arg-type]


def test_a_user_finds_their_own_document() -> None:
    with app.open("memory:", actor="ann") as space:
        mine = space.doc("user!prefs", Item)
        board.rows = [Item(), mine]
        assert mine in board.rows
        assert board.rows.index(mine) == 1
        assert space.doc("prefs", Item) not in board.rows
        assert board.rows[1:] == [mine]
