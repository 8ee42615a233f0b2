"""The elements of one run of `hw.each`, and how they differ from those of the run before.

A list of links shares most of its links with the version before. So the rows at both ends stay, and only those in
between are made anew: an insertion in a list of ten thousand costs as much as one in a list of ten.
"""

from __future__ import annotations

from typing import cast

from headwater.cells.elements import ElementEntry, LinkList
from headwater.declare.functions.instances import Key
from headwater.declare.lists.computed_list import Roster
from headwater.declare.lists.each_row import Row
from headwater.values.ids import DocKey
from headwater.values.tree import Array, splice


class RowChange:
    """Which rows of a roster replace which of the one before: all others are the same, in the same order."""

    __slots__ = ("at", "former", "gone", "rows")

    def __init__(self, former: object, at: int, gone: list[Row], rows: list[Row]) -> None:
        # Identifies the roster before, without keeping it.
        self.former = former
        self.at = at
        # The rows that were there, and those that are there now.
        self.gone = gone
        self.rows = rows


class EachRoster(Roster):
    """The rows of one run."""

    __slots__ = ("by_key", "change", "has_repeats", "links", "places", "token")

    def __init__(self, entries: list[ElementEntry | None], by_key: dict[Key, Row], stored: Array | None = None) -> None:
        super().__init__(entries, stored)
        # The latest roster has the rows by their keys, each with the number of its places; earlier ones have given them
        # to it.
        self.by_key = by_key
        # The links that the rows were made of, if nothing else decides which rows there are.
        self.links: LinkList | None = None
        self.change: RowChange | None = None
        self.token = object()
        # By the document of a result, the index of its row; and whether one is there twice. Made at need.
        self.places: dict[DocKey, int] | None = None
        self.has_repeats = False

    @property
    def rows(self) -> list[Row | None]:
        """Its elements: all of them are rows."""
        return cast("list[Row | None]", self.entries)

    def spliced(self, at: int, delete: int, rows: list[Row], links: LinkList) -> tuple[EachRoster, list[Row]]:
        """The next roster, with other rows in one place; and the rows that are in none any more."""
        before = self.rows[at : at + delete]
        entries = [*self.entries[:at], *rows, *self.entries[at + delete :]]
        stored = splice(self.stored, at, delete, [row.reference() for row in rows])
        gone = [row for row in before if row is not None]
        made = EachRoster(entries, self.by_key, stored)
        made.links, made.change = links, RowChange(self.token, at, gone, rows)
        for row in rows:
            made.by_key[row.element_key] = row
            row.count += 1
        for row in gone:
            row.count -= 1
        left = list(dict.fromkeys(row for row in gone if not row.count))
        for row in left:
            del made.by_key[row.element_key]
        made.take_tokens(self, left, rows)
        return made, left
