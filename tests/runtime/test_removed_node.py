"""A removed node is released by its last reference: the collector need not look for it."""

from __future__ import annotations

import gc
import sys

import headwater as hw
from headwater.scheduler.graph.node import Node


def test_removed_node_goes_without_the_collector() -> None:
    app = hw.App("shop")
    price = app.cell("price", 1)
    with app.open("memory:") as space:
        double = app.computed(name="double")(lambda: price.value * 2)
        assert double() == 2
        node = space._opening.nodes[double]
        gc.disable()
        try:
            space._opening.drop(double)
            space.sync()
            space.settle()
            assert node.commit is None
            # This name, and the argument of the call.
            assert sys.getrefcount(node) == 2
        finally:
            gc.enable()
        assert isinstance(node, Node)
        assert node.removed
