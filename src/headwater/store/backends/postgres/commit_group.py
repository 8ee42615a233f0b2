"""The one statement of a group of commits: the fence, and everything that the group writes. Nothing else writes.

The fence compares the epoch and the number of groups in the row of the space, and counts the group. If another owner
has taken the space over, no row is found, and no other part of the statement writes anything. One statement runs to its
end without the client: a paused client holds no lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

_OWN: Final = (
    "with own as (update hw_space set head = coalesce(%b::bigint, head), groups = groups + 1{more} "
    "where id = %b and epoch = %b and groups = %b returning id)"
)

COLUMNS: Final = ("space_id", "lineage", "features")
"""The facts about a space that are columns of its row."""


class FencedGroup:
    """The parts of a statement, with their values. A table is written by one part: all see the state before it."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._values: list[object] = []
        self._columns: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._parts or self._columns)

    def insert(self, table: str, types: Sequence[str], rows: Sequence[tuple[object, ...]], then: str = "") -> None:
        """Insert rows, all by one array for each column; `then`: what to do in a conflict."""
        if not rows:
            return
        arrays = ", ".join(f"%b::{each}[]" for each in types)
        self._parts.append(f"insert into {table} select own.id, t.* from own, unnest({arrays}) t {then}")
        self._values += _columns(rows)

    def part(self, statement: str, *values: object) -> None:
        """Any other write. It has to join `own`."""
        self._parts.append(statement)
        self._values += values

    def matching(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        """A write for each of these rows, which are arrays in the statement."""
        if rows:
            self.part(statement, *_columns(rows))

    def set_column(self, name: str, value: str) -> None:
        """Set a column of the row of the space, which the fence writes anyway."""
        assert name in COLUMNS
        self._columns[name] = value

    def statement(self) -> str:
        """Its result is the number of spaces that were written: 1, or 0 if there is another owner."""
        more = "".join(f", {name} = %b" for name in self._columns)
        parts = "".join(f", p{number} as ({part})" for number, part in enumerate(self._parts))
        return f"{_OWN.format(more=more)}{parts} select count(*) from own"

    def values(self, head: int | None, space: int, epoch: int, groups: int) -> list[object]:
        return [head, *self._columns.values(), space, epoch, groups, *self._values]


def _columns(rows: Iterable[tuple[object, ...]]) -> list[list[object]]:
    return [list(column) for column in zip(*rows, strict=True)]
