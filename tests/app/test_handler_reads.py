"""`@app.handler(reads=...)` takes what is computed, too."""

from __future__ import annotations

from typing import Any

import pytest

import headwater as hw
from headwater.errors import DeclarationError


@pytest.mark.parametrize("alone", [True, False])
def test_a_computed_that_is_named_is_current_before_the_handler_is_called(alone: bool) -> None:
    app = hw.App("a")
    x = app.cell("x", 1)
    log: list[str] = []

    @app.computed
    def double() -> int:
        log.append("double")
        return 2 * x.value

    @app.handler(reads=double if alone else [x, double])
    def act() -> int:
        log.append("act")
        return double()

    with app.open("memory:") as space:
        assert act.send().result("60s") == 2
        assert log == ["double", "act"]
        x.value = 2
        ticket = act.send()
        space.settle()
        assert ticket.result("60s") == 4
        assert log == ["double", "act"] * 2


def test_a_list_that_is_computed_can_be_named() -> None:
    app = hw.App("a")
    names = app.cell("names", ["ann"])
    loud = app.each(names, str.upper, name="loud")

    @app.handler(reads=[loud])
    def act() -> list[str]:
        return list(loud())

    with app.open("memory:"):
        assert act.send().result("60s") == ["ANN"]


def test_what_cannot_be_named_is_refused_where_it_is_declared() -> None:
    app, other = hw.App("a"), hw.App("b")

    @app.computed
    def row(number: int) -> int:
        return number

    @other.computed
    def far() -> int:
        return 1

    for reads, text in ((row, "takes parameters"), (far, "another app"), (3, "cells and documents")):
        given: Any = reads
        with pytest.raises(DeclarationError, match=text):
            app.handler(reads=[given], name="act")(lambda: None)
