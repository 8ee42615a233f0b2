"""What declared functions use of an open space: nodes, instances, and the scheduler that makes them current."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from headwater.cells.cell import Cell
from headwater.cells.space_port import SpacePort
from headwater.declare.functions.fingerprint import Fingerprints
from headwater.declare.functions.instances import Instance, Instances, Key
from headwater.scheduler.graph.node import Node, NodeSpec
from headwater.scheduler.scheduler import Scheduler


class FunctionPort(SpacePort):
    """An open space, as computed functions, sinks and lists see it."""

    nodes: dict[object, Node]
    """By declared function, for functions without parameters."""
    instances: dict[object, Instances]
    """By declared function, for functions with parameters: one node for each set of arguments."""
    scheduler: Scheduler
    fingerprints: Fingerprints

    @abstractmethod
    def add_node(self, function: object, spec: NodeSpec) -> Node:
        """Register the node of a function."""

    @abstractmethod
    def instances_of(self, function: object) -> Instances:
        """The nodes of a function with parameters."""

    @abstractmethod
    def add_instance(self, function: object, key: Key, made: Callable[[], tuple[NodeSpec, Cell[Any]]]) -> Instance:
        """Register the node for one set of arguments, unless another thread has done so."""

    @abstractmethod
    def stop_sink(self, sink: object) -> None:
        """Remove the node of a sink. Its runs stay counted."""

    @abstractmethod
    def drop(self, function: object) -> None:
        """Remove the nodes of a function, and notify their readers."""

    @abstractmethod
    def pull(self, node: Node, *, in_run: bool) -> None:
        """Make a computation current. Raises what its function raised. `in_run`: a function asks for it."""
