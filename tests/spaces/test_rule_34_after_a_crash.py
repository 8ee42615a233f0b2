"""Rule 34: after a crash the other log may be ahead of a stored result, or behind: such a result is made again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import headwater as hw

STEPS = 4


class Shop:
    """`near` shows a cell and a function of `far`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.far, self.near = hw.App("far"), hw.App("near")
        n = self.n = self.far.cell("n", 0)
        shown = self.shown = list[int]()

        @self.far.computed
        def total() -> int:
            return n.value * 10

        @self.near.computed
        def above() -> int:
            return total() + n.value

        self.near.sink(name="show")(lambda: shown.append(above()))
        self.total, self.above = total, above

    def visit(self, number: int | None = None) -> tuple[int, int, int]:
        """Open both, perhaps write, close both. Runs of the two functions at the start, and what is shown."""
        with hw.together(self.far.opening(self.folder / "far.db"), self.near.opening(self.folder / "near.db")) as both:
            ran = both[0].runs(self.total), both[1].runs(self.above)
            if number is not None:
                self.n.value = number
            return *ran, self.above()


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both files after each step."""
    folder = tmp_path_factory.mktemp("images")
    (folder / "now").mkdir()
    for step in range(STEPS):
        Shop(folder / "now").visit(step)
        shutil.copytree(folder / "now", folder / str(step))
    return folder


@pytest.mark.parametrize("near", range(STEPS))
@pytest.mark.parametrize("far", range(STEPS))
def test_what_the_disk_has_of_each_is_enough(images: Path, tmp_path: Path, far: int, near: int) -> None:
    for name, step in (("far", far), ("near", near)):
        for file in (images / str(step)).glob(f"{name}.db*"):
            shutil.copy(file, tmp_path / file.name)
    ran, above, shown = Shop(tmp_path).visit()
    assert shown == far * 11
    # The far file is of one moment: its own result is current.
    assert (ran, above) == (0, int(far != near))
    assert Shop(tmp_path).visit() == (0, 0, far * 11)
