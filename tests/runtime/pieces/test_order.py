"""A piece that is built anew stays where it is among those that could run in any order."""

from __future__ import annotations

from typing import Any

import headwater as hw
from headwater.testing.invariants.scheduler_invariants import check


def test_piece_that_is_built_with_other_inputs_has_its_turn_where_it_was() -> None:
    app = hw.App("shop")
    rate = app.cell("rate", 1)
    said: list[str] = []

    @hw.pattern
    def part(p: hw.Builder, name: str) -> dict[str, Any]:
        @p.computed
        def price() -> int:
            return rate.value * len(name)

        @p.sink
        def show() -> None:
            said.append(f"{name} {price()}")

        return {"price": price}

    def taken() -> list[str]:
        found = said.copy()
        said.clear()
        return found

    with app.open("memory:") as space:
        for key in ("one", "two", "three"):
            space.start(part, key, name=key)
        assert taken() == ["one 3", "two 3", "three 5"]
        for times, name in enumerate(("first", "1st", "one"), 2):
            space.start(part, "one", name=name)
            taken()
            rate.value = times
            assert [each.split()[0] for each in taken()] == [name, "two", "three"]
            check(space.scheduler)
        # All of them, in whichever order that happens.
        for key in ("three", "two"):
            space.start(part, key, name=f"{key}!")
        taken()
        rate.value = 9
        assert [each.split()[0] for each in taken()] == ["one", "two!", "three!"]
        check(space.scheduler)
