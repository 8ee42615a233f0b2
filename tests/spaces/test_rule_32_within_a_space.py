"""Rule 32: within a space everything is as without others: one snapshot, conflicts, serial commits.

What is read in another space is part of the snapshot, and no part of the conflict check: no commit covers two spaces.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import ConflictError


class Two:
    """Two files; and for each a second session, which plays somebody else."""

    there: hw.Space
    here: hw.Space

    def __init__(self, folder: Path) -> None:
        self.near, self.far = hw.App("near"), hw.App("far")
        self.x, self.y = self.near.cell("x", 1), self.near.cell("y", 0)
        self.n = self.far.cell("n", 1)
        self.folder = folder

    def write_aside(self, name: str, value: int) -> None:
        """Another session of the space writes, and its commit is decided."""
        app = hw.App(name.partition(".")[0])
        cell = app.cell(name.partition(".")[2], 0)
        with app.open(self.folder / f"{app.name}.db", apart=True) as other:
            cell.value = value
            other.sync()


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Two]:
    found = Two(tmp_path)
    with found.far.open(tmp_path / "far.db") as found.there, found.near.open(tmp_path / "near.db") as found.here:
        yield found


def test_a_block_that_has_read_near_and_far_conflicts_with_near_changes_alone(two: Two) -> None:
    space = two.here
    two.x.value = 1
    space.sync()
    with space.transaction():
        two.y.value = two.x.value + two.n.value
        two.write_aside("far.n", 50)
    space.sync()
    assert two.y.value == 2
    with space.transaction():
        two.y.value = two.x.value + two.n.value + 100
        two.write_aside("near.x", 7)
    with pytest.raises(ConflictError, match=r"near\.x was written"):
        space.sync()
    assert (two.x.value, two.y.value) == (7, 2)


def test_a_transaction_sees_each_far_document_as_at_its_first_look(two: Two) -> None:
    space = two.here
    with space.transaction():
        first = two.n.value
        two.write_aside("far.n", 50)
        assert two.n.value == first
    two.there.settle()
    assert two.n.value == 50
