"""Every shape of table `reactive` is right, with no run too many, on the engines that hold the others to it."""

from __future__ import annotations

import math

import pytest

from bench.peers.engine import Engine, Headwater, OnFile
from bench.peers.floor import Floor
from bench.reactive import COMPILED, PURE, geometric_mean, mistake_of
from bench.reactive_shapes import CUTOFF, SHAPES, Graph, Shape


@pytest.mark.parametrize("engine", [Headwater, OnFile, Floor])
@pytest.mark.parametrize("shape", [*SHAPES, CUTOFF], ids=lambda shape: shape.name.partition(":")[0])
def test_an_engine_gets_a_shape_right(shape: Shape, engine: type[Engine]) -> None:
    assert mistake_of(engine(), shape.smaller or shape) == ""


def test_there_are_fifteen_shapes_in_the_mean() -> None:
    assert len(SHAPES) == 15


def test_an_engine_with_a_run_too_many_is_found_out() -> None:
    def build(engine: Engine) -> Graph:
        shown: list[int] = []
        get, put = engine.source(0)
        engine.effect(lambda: shown.append(get()))
        return Graph(put, lambda _: True)

    assert mistake_of(Floor(), Shape("", (0,), build)) == "1 runs, not 0"


def test_a_wrong_value_is_found_out() -> None:
    def build(engine: Engine) -> Graph:
        _, put = engine.source(0)
        return Graph(put, lambda _: False)

    assert mistake_of(Floor(), Shape("", (0,), build)) == "wrong"


def test_the_mean_of_a_ratio_and_its_inverse_is_one() -> None:
    assert math.isclose(geometric_mean([4.0, 0.25]), 1.0)


def test_the_compiled_form_is_held_to_more() -> None:
    assert all(ours <= pure for ours, pure in zip(COMPILED, PURE, strict=True))
