"""What others write while an opening takes over is not lost, whichever moment they choose."""

from __future__ import annotations

from pathlib import Path

import pytest

import headwater as hw
from headwater.scheduler.runs.persistence import Persistence


@pytest.mark.parametrize("when", ["before it is installed", "after it is installed"])
def test_write_in_the_middle_of_taking_over_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    app = hw.App("shop")
    x = app.cell("x", 1)
    shown: list[int] = []

    @app.computed
    def double() -> int:
        return x.value * 2

    @app.sink
    def show() -> None:
        shown.append(double())

    path = tmp_path / "shop.db"
    with app.open(path):
        pass
    with hw.App("other").open(path, apart=True) as other:
        install = Persistence.restore_all

        def meanwhile(*args: object) -> None:
            if when.startswith("after"):
                install(*args)  # type: ignore[arg-type]  # as it was called
            other.cell("shop.x").value = 5
            other.sync()
            if when.startswith("before"):
                install(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(Persistence, "restore_all", meanwhile)
        with app.open(path) as space:
            space.settle()
            assert (double(), shown[-1]) == (10, 10)
