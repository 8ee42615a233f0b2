"""A piece that is started with other inputs, and then with the first ones again."""

from __future__ import annotations

from pathlib import Path

import pytest

import headwater as hw


@hw.pattern
def desk(p: hw.Builder, rate: int) -> hw.Computed[[], str]:
    price = p.cell("price", 2)

    @p.computed
    def label() -> str:
        return "high" if price.value * rate > 100 else "low"

    @p.sink
    def show() -> None:
        label()

    return label


@pytest.mark.parametrize("is_stored", [True, False])
def test_function_of_a_piece_with_its_first_inputs_again_does_not_run_after_a_restart(
    tmp_path: Path, is_stored: bool
) -> None:
    """The run with the other inputs had the same result: its observation replaced that of the first run."""
    app, url = hw.App("shop"), str(tmp_path / "shop.db")
    with app.open(url) as space:
        piece = space.start(desk, "a", rate=1)
        if is_stored:
            space.sync()
        space.start(desk, "a", rate=2)
        space.start(desk, "a", rate=1)
        assert space.runs(piece.outputs) == 2
    with app.open(url) as space:
        piece = space.start(desk, "a", rate=1)
        assert piece.outputs() == "low"
        assert space.runs(piece.outputs) == 0
