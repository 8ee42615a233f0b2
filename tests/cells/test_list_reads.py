"""A slice, a loop and a search in a list cost what they read, and depend on no more than decides their answer."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from bench.counting import calls_of
from headwater.cells.list_reads import LOOP_MAX, SLICE_MAX, span_of
from headwater.errors import ConflictError, HeadwaterError, SchemaError
from headwater.values.chunked import ChunkedList
from headwater.values.ids import DocKey
from headwater.values.tree import Array
from tests.cells.kit import DEEP, SHALLOW, checks, depends, inside, link_to, put, twice
from tests.support.compiled import needs_sources


class Item(hw.Doc):
    title: str = ""


class Other(hw.Doc):
    title: str = ""


class Loud(hw.Doc):
    title: str = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Loud) or super().__eq__(other)

    __hash__ = hw.Doc.__hash__


class Board(hw.Doc):
    rows: hw.List[Item] = hw.List()
    words: hw.List[str] = hw.List()
    ready: hw.List[int] = hw.List([1, 2, 3])
    nested: hw.List[hw.List[int]] = hw.List()
    maybe: hw.List[hw.Link[Item | None]] = hw.List()
    free: hw.List[Any] = hw.List()
    mixed: hw.List[Item | int] = hw.List()
    loud: hw.List[Loud] = hw.List()


app = hw.App("reads")
board = app.doc("board", Board)
backlog = app.cell("backlog", [], type=hw.List[Item])

LENGTHS = (0, 1, 2, 5)
ENDS = (None, -9, -2, -1, 0, 1, 2, 4, 5, 6, 10**9, -(10**9), 2**70)
STEPS = (None, 1, 2, 3, -1, -2, -7)


def name(number: int) -> str:
    return f"item:{number:032d}"


def links(count: int) -> list[Any]:
    return [link_to(DocKey(f"space/{name(number)}")).to_value() for number in range(count)]


def fill(space: hw.Space, count: int, field: str = "rows") -> None:
    """A list of documents that are not there: only its links are written."""
    put(space, "reads.board", {field: links(count)})


def row(space: hw.Space, number: int) -> Item:
    return space.doc(name(number), Item)


def paths(tx: Any) -> set[tuple[str | int, ...]]:
    return {path for _, path, _ in depends(tx)}


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
    span = span_of(part, len(before))
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


# --- counts -----------------------------------------------------------------------------------------------------

LOOKS: dict[str, Callable[[hw.Space, int], object]] = {
    "slice": lambda _space, length: board.rows[length // 2 : length // 2 + 20],
    "slice from the end": lambda _space, _length: board.rows[-20:],
    "slice with a step": lambda _space, length: board.rows[length - 40 :: 2],
    "slice backwards": lambda _space, length: board.rows[length - 1 : length - 21 : -1],
    "long slice": lambda _space, length: board.rows[length - 80 :],
    "slice of numbers": lambda _space, length: board.free[length // 2 : length // 2 + 20],
    "loop that is left": lambda _space, _length: list(itertools.islice(board.rows, 20)),
    "loop backwards that is left": lambda _space, _length: list(itertools.islice(reversed(board.rows), 20)),
    "in, the last": lambda space, length: row(space, length - 1) in board.rows,
    "in, not there": lambda space, length: row(space, length + 1) in board.rows,
    "in, something else": lambda _space, _length: "text" in board.rows,
    "index": lambda space, length: board.rows.index(row(space, length - 1)),
    "count": lambda space, length: board.rows.count(row(space, length - 1)),
}


def _costs(length: int) -> Iterator[tuple[str, dict[str, int]]]:
    with app.open("memory:") as space:
        put(space, "reads.board", {"rows": links(length), "free": list(range(length))})
        handles = space._opening.handles
        for kind, look in LOOKS.items():
            before = len(handles)
            with space.transaction() as tx:
                found = look(space, length)
                entries, made = len(tx.journal), len(handles) - before
                look(space, length)
                del found

                def again(look: Callable[[hw.Space, int], object] = look) -> None:
                    look(space, length)

                yield kind, {"entries": entries, "handles": made, "calls": calls_of(again, 3), "docs": len(tx.docs)}


def test_a_part_of_a_list_costs_the_same_in_a_short_list_and_in_a_long_one() -> None:
    needs_sources("compiled modules make no calls that can be seen")
    plain, chunked, long = (dict(_costs(length)) for length in (100, 2_000, 100_000))
    assert long == chunked
    for kind, cost in plain.items():
        # An element of a list in chunks takes a call or two more, wherever it is.
        assert {**long[kind], "calls": 0} == {**cost, "calls": 0}, kind
        assert cost["calls"] <= long[kind]["calls"] <= cost["calls"] * 1.25, kind
    assert {kind: cost["entries"] for kind, cost in long.items()} == {
        "slice": 20,
        "slice from the end": 21,
        "slice with a step": 21,
        "slice backwards": 20,
        "long slice": 1,
        "slice of numbers": 20,
        "loop that is left": 1,
        "loop backwards that is left": 2,
        "in, the last": 1,
        "in, not there": 1,
        "in, something else": 1,
        "index": 1,
        "count": 1,
    }
    assert long["slice"]["handles"] == 20
