"""Rings: spaces that read each other, and whose functions may make each other run without an end.

In a thread the turns of the spaces are counted (`turns`). In an event loop a chain counts the passes that follow from
one write. In both, what is due rests in the end, and one report names the functions of all spaces of the ring.
"""

from __future__ import annotations

from abc import abstractmethod

from headwater.cells.space_port import RuntimePort
from headwater.machine import machine
from headwater.runtime.bridge import BridgedSpace
from headwater.runtime.turns import Chain


class ChainedRuntime(RuntimePort):
    """The runtime of a space, whose passes in an event loop belong to chains."""

    chain: Chain | None = None
    """What the pass in progress follows from, if functions of other spaces read this one."""
    next_chain: Chain | None = None
    """What the next pass follows from, if it was requested in a pass of another space."""

    def has_loop_of(self, _other: RuntimePort) -> bool:
        """Whether both are used in one event loop. Overridden by the host."""
        return False

    def begin_chain(self) -> bool:
        """A pass begins. Returns whether it is within the limit of its chain.

        A pass that no other space has requested begins a chain.
        """
        self.chain, self.next_chain = self.next_chain or Chain(), None
        return self.chain.begin(self)

    def follow(self, other: RuntimePort) -> None:
        """Another space requests a pass: it continues the chain in which the other one is."""
        chain = other.chain if isinstance(other, ChainedRuntime) else None
        if chain is not None and (self.next_chain is None or chain.passes(self) > self.next_chain.passes(self)):
            self.next_chain = chain


class RingSpace(BridgedSpace):
    """The part of an opening that rests when a ring of spaces does not settle."""

    @abstractmethod
    def is_of(self, thread: int) -> bool:
        """Whether it is used by this thread, and by no event loop."""

    def rest(self) -> None:
        """Functions of several spaces depend on each other, and do not settle: back off what is due."""
        ring = self._ring()
        ids = {space.space_id for space in (self, *ring)}
        woken = [(space, node) for space in ring for node in space.scheduler.woken_by(ids)]
        with self.lock:
            self.scheduler.rest_invalid([f"{node.title} of space {space.name!r}" for space, node in woken])
        for space, node in woken:
            # One report for all of them.
            space.scheduler.gates.know_ring(node)

    def _ring(self) -> list[RingSpace]:
        """The other spaces of this thread or loop that this one reads, and that read it, directly or not."""
        return [space for space in self.spaces_read() if self.bridges in [each.bridges for each in space.spaces_read()]]

    def spaces_read(self) -> list[RingSpace]:
        """The other spaces of this thread or loop that this one reads, directly or not."""
        thread = machine().thread_id()
        found: list[RingSpace] = [self]
        for space in found:
            known = [each.bridges for each in found]
            others = [bridge.there for bridge in space.bridges.out.values()]
            found += [
                other
                for other in others
                if isinstance(other, RingSpace) and other.bridges not in known and self._is_beside(other, thread)
            ]
        return found[1:]

    def _is_beside(self, other: RingSpace, thread: int) -> bool:
        runtime = self.runtime
        if self.can_await:
            return isinstance(runtime, ChainedRuntime) and runtime.has_loop_of(other.runtime)
        return other.is_of(thread)
