"""Boards with lists of every kind, for the tests of reads of parts of them."""

from __future__ import annotations

from typing import Any

import headwater as hw
from headwater.values.ids import DocKey
from tests.cells.kit import depends, link_to, put


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
