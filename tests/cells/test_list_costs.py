"""A slice, a loop and a search in a list cost what they read, not the list."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import headwater as hw
from bench.counting import calls_of
from tests.cells.boards import app, board, links, row
from tests.cells.kit import put
from tests.support.compiled import needs_sources

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
