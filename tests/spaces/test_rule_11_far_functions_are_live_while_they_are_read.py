"""Rule 11: a proxy node stands for the result of a far function: liveness, dormancy and calls reach across."""

from __future__ import annotations

import pytest

import headwater as hw
from headwater.errors import ClosedError, NotOpen
from headwater.runtime.bridge import Bridge
from headwater.scheduler.graph.node import Node
from headwater.scheduler.scheduler import Scheduler


def scheduler(space: hw.Space) -> Scheduler:
    return space._opening.scheduler


def bridge_of(space: hw.Space) -> Bridge:
    return next(iter(space._opening.bridges.out.values()))


class Chain:
    """far: n -> double -> quadruple; near: mirror, and a sink that shows it while `on`."""

    def __init__(self) -> None:
        self.near, self.far = hw.App("near"), hw.App("far")
        self.n = self.far.cell("n", 1)
        self.on = self.near.cell("on", default=False)
        self.double = self.far.computed(name="double")(lambda: self.n.value * 2)
        self.quadruple = self.far.computed(name="quadruple")(lambda: self.double() * 2)
        self.mirror = self.near.computed(name="mirror")(lambda: self.quadruple() + 1)
        self.near.sink(name="show")(lambda: self.mirror() if self.on.value else None)


def test_a_far_function_is_live_while_a_live_function_reads_it() -> None:
    c = Chain()
    with c.far.open("memory:") as far, c.near.open("memory:") as near:
        far_nodes: list[Node] = list(far._opening.nodes.values())
        assert [node.is_live for node in far_nodes] == [False, False]
        c.on.value = True
        assert [node.is_live for node in far_nodes] == [True, True]
        c.n.value = 3
        assert (far.runs(c.quadruple), near.runs(c.mirror)) == (2, 2)
        c.on.value = False
        assert [node.is_live for node in far_nodes] == [False, False]
        # I2: nothing observed, nothing runs.
        c.n.value = 4
        assert (far.runs(c.double), far.runs(c.quadruple), near.runs(c.mirror)) == (2, 2, 2)
        assert c.mirror() == 17
        assert (far.runs(c.double), far.runs(c.quadruple), near.runs(c.mirror)) == (3, 3, 3)


def test_a_call_of_a_dormant_function_finds_a_far_function_that_is_not_current() -> None:
    c = Chain()
    with c.far.open("memory:") as far, c.near.open("memory:") as near:
        assert c.mirror() == 5
        c.n.value = 2
        [proxy] = bridge_of(near).proxies.values()
        assert not proxy.is_clean
        assert near._opening.nodes[c.mirror].is_clean  # woken by changes of the value alone
        assert (c.mirror(), far.runs(c.quadruple)) == (9, 2)
        assert proxy.is_clean


def test_a_proxy_node_goes_with_its_last_reader() -> None:
    c = Chain()
    sum_of = c.near.cell("which", default=True)
    c.near.sink(name="pick")(lambda: c.quadruple() if sum_of.value else None)
    with c.far.open("memory:"), c.near.open("memory:") as near:
        assert len(bridge_of(near).proxies) == 1
        sum_of.value = False
        assert len(bridge_of(near).proxies) == 0
        assert not any(node.spec.is_proxy for node in scheduler(near).registry.nodes)


def test_a_far_function_that_is_made_later_is_followed() -> None:
    near, far = hw.App("near"), hw.App("far")
    n = far.cell("n", 1)
    seen: list[int] = []

    @far.computed
    def row(by: int) -> int:
        return n.value * by

    @near.sink
    def show() -> None:
        seen.append(row(n.value))

    with far.open("memory:") as there, near.open("memory:"):
        n.value = 2
        n.value = 3
        assert seen == [1, 4, 9]
        live = [node.name for node in scheduler(there).registry.nodes if node.is_live]
        assert live == ["row(3)"]


def test_closing_the_far_space_leaves_readers_their_values() -> None:
    c = Chain()
    with c.near.open("memory:", on_error="log") as near:
        with c.far.open("memory:"):
            c.on.value = True
            assert c.mirror() == 5
        near.settle()
        assert not any(node.spec.is_proxy for node in scheduler(near).registry.nodes)
        assert near._opening.nodes[c.mirror].is_clean
        assert near.runs(c.mirror) == 1


def test_a_far_space_that_is_opened_again_is_read_from_there_whatever_happened_meanwhile() -> None:
    """Also by runs around which the closed opening is still that of the `with` block."""
    near, far = hw.App("near"), hw.App("far")
    n, m = near.cell("n", 1), far.cell("m", 1)
    shown: list[int] = []

    @far.computed
    def double() -> int:
        return m.value * 2

    @near.sink
    def show() -> None:
        shown.append(double() + n.value)

    errors: list[hw.UserCodeError] = []
    with far.open("memory:") as first, near.open("memory:", on_error=errors.append):
        first.close()
        n.value = 2
        assert shown == [3]
        assert [type(error.__cause__) for error in errors] == [NotOpen]
        with far.open("memory:"):
            assert shown == [3, 4]
            m.value = 5
            assert shown == [3, 4, 12]


def test_a_run_that_met_a_closed_space_runs_again_when_it_is_opened() -> None:
    near, far = hw.App("near"), hw.App("far")
    m = far.cell("m", 1)

    @near.computed
    def seen() -> int:
        return far_space.cell("far.m", int).value if far_space.closed else m.value

    with near.open("memory:", on_error="log"):
        with far.open("memory:") as far_space:
            pass
        with pytest.raises(ClosedError):
            seen()
        with far.open("memory:") as far_space:
            assert seen() == 1


def test_closing_the_near_space_ends_its_demand() -> None:
    c = Chain()
    with c.far.open("memory:") as far:
        with c.near.open("memory:"):
            c.on.value = True
            assert all(node.is_live for node in far._opening.nodes.values())
        assert not any(node.is_live for node in far._opening.nodes.values())
        assert far._opening.bridges.readers == ()
        c.n.value = 5
        assert far.runs(c.quadruple) == 1


def test_a_far_function_that_is_read_again_is_live_again() -> None:
    near, far = hw.App("near"), hw.App("far")
    n, on = far.cell("n", 1), near.cell("on", True)
    shown: list[int] = []

    @far.computed
    def total() -> int:
        return n.value * 10

    @near.sink
    def show() -> None:
        shown.append(total() if on.value else 0)

    with far.open("memory:"), near.open("memory:"):
        n.value = 2
        on.value = False
        on.value = True
        n.value = 3
        assert shown == [10, 20, 0, 20, 30]
