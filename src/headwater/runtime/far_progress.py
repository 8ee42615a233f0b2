"""What proxy nodes depend on in other spaces, through all bridges: runs in progress, debounces, and how often they ran.

A proxy node of one space may depend on one of another, and so on.
"""

from __future__ import annotations

from collections.abc import Iterable

from headwater.runtime.bridge import Bridge, BridgedSpace
from headwater.scheduler.graph.node import Node
from headwater.values.address import split_far


def reached(space: BridgedSpace) -> list[BridgedSpace]:
    """The spaces that functions of this one read, and those that functions there read."""
    found: dict[BridgedSpace, None] = {space: None}
    todo = [space]
    while todo:
        for bridge in list(todo.pop().bridges.out.values()):
            if bridge.there not in found:
                found[bridge.there] = None
                todo.append(bridge.there)
    del found[space]
    return list(found)


def live_proxies(space: BridgedSpace) -> list[Node]:
    """The proxy nodes that live functions of a space depend on."""
    bridges = list(space.bridges.out.values())
    return [node for bridge in bridges for node in list(bridge.proxies.values()) if node.is_live]


def suspended_above(space: BridgedSpace, nodes: Iterable[Node]) -> list[BridgedSpace]:
    """The spaces with a run in progress above one of these nodes of a space. Only proxy nodes are followed."""
    found: dict[BridgedSpace, None] = {}
    todo = [(space, node) for node in nodes if node.spec.is_proxy]
    seen = {node for _, node in todo}
    while todo:
        home, proxy = todo.pop()
        bridge = bridge_of(home, proxy)
        for node in () if bridge is None else bridge.not_current_above(proxy):
            assert bridge is not None
            if node.attempt is not None:
                found[bridge.there] = None
            elif node.spec.is_proxy and node not in seen:
                seen.add(node)
                todo.append((bridge.there, node))
    return list(found)


def hurry(space: BridgedSpace, proxy: Node) -> None:
    """The functions that a proxy node waits for run without their debounce."""
    bridge = bridge_of(space, proxy)
    for node in () if bridge is None else bridge.not_current_above(proxy):
        assert bridge is not None
        if node.spec.is_proxy:
            hurry(bridge.there, node)
        bridge.hurry(node)


def runs_of(space: BridgedSpace, proxy: Node) -> int:
    """How often the functions that a proxy node stands for have run. Its own runs may only have found it waiting."""
    bridge = bridge_of(space, proxy)
    return 0 if bridge is None else sum(writer.runs for writer in bridge.writers(split_far(proxy.outputs[0])[1]))


def bridge_of(space: BridgedSpace, proxy: Node) -> Bridge | None:
    """The bridge that a proxy node of a space belongs to; None while it is being removed."""
    doc = split_far(proxy.outputs[0])[1]
    return next((each for each in list(space.bridges.out.values()) if each.proxies.get(doc) is proxy), None)
