"""Dormant pieces: children of functions that are not observed. They become active again when observed.

Nothing of a dormant piece runs by itself, and it takes no events. Its results stay known to callers: if nothing has
changed when it becomes active, nothing runs. Notifications of the scheduler during a pass are recorded, and evaluated
when the pass is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from headwater.declare.events.handler import Handler
from headwater.declare.patterns.piece import Build, Piece
from headwater.runtime.pieces.piece_host import PieceHost
from headwater.scheduler.graph.node import Node, NodeKind, SharedSpec

ROUNDS_MAX: Final = 64
"""Rounds in which activated pieces activate others: as deep as pieces may be nested. The rest has the next pass."""


class Dormancy:
    """The only writer of `Piece.asleep`."""

    def __init__(self, space: PieceHost, children: Callable[[Node], Iterable[Piece[Any]]]) -> None:
        self._space = space
        self._children = children
        self._noted: dict[Node, None] = {}

    def watch(self, node: Node) -> None:
        """Track a function with children: they are active while it is observed."""
        if node.rare.on_live is None:
            # Not for every function: few have children.
            rare = node.own_rare()
            rare.on_live = rare.on_dormant = partial(self._note, node)
        if not node.is_live:
            self._note(node)

    def _note(self, node: Node) -> None:
        """Its liveness may have changed."""
        if not self._space.closed:
            self._noted[node] = None
            if not self._space.is_passing:
                self._space.catch_up_soon()

    def end_pass(self) -> None:
        """Make pieces dormant or active. Activated ones run; in an event loop, in a pass of their own."""
        for _ in range(ROUNDS_MAX):
            if not self._look() or self._space.can_await:
                return
            self._space.scheduler.settle()

    def _look(self) -> bool:
        """Children of live functions are active, others dormant. Returns whether any was activated."""
        has_woken = False
        while self._noted:
            node, _ = self._noted.popitem()
            # A running function is evaluated when it has ended.
            if not node.removed and node.attempt is None:
                for piece in self._children(node):
                    has_woken |= self.turn(piece, asleep=not node.is_live)
        return has_woken

    def turn(self, piece: Piece[Any], *, asleep: bool) -> bool:
        """Make a piece with its parts dormant, or active. Returns whether it was activated."""
        build = piece.wanted
        if build is None:
            return False
        has_woken = False
        for part in build.parts:
            has_woken |= self.turn(part, asleep=asleep)
        if piece.asleep is asleep:
            return has_woken
        piece.asleep = asleep
        if asleep:
            self._put_to_sleep(build)
            return has_woken
        self._wake(build)
        return True

    def _put_to_sleep(self, build: Build[Any]) -> None:
        rest = self._space.scheduler.graph.liveness.rest
        for node in self._nodes(build):
            if _is_wanted_by_itself(node.spec):
                rest(node)
        for function in build.functions:
            if isinstance(function, Handler):
                self._space.counts.leave(function)
                self._space.events.drop(function)

    def _wake(self, build: Build[Any]) -> None:
        space = self._space
        handlers = [each for each in build.functions if isinstance(each, Handler) and each not in space.handlers]
        for function in handlers:
            function.register(space)
        if handlers:
            space.events.resume_streams({function.stream for function in handlers})
        for node in self._nodes(build):
            space.scheduler.graph.liveness.rouse(node)

    def _nodes(self, build: Build[Any]) -> list[Node]:
        space = self._space
        found = [space.nodes[each] for each in build.functions if each in space.nodes]
        return found + [
            node for each in build.functions if each in space.instances for node in space.instances[each].nodes()
        ]

    @staticmethod
    def forget(piece: Piece[Any]) -> None:
        """Forget a stopped piece."""
        piece.asleep = False


def _is_wanted_by_itself(spec: SharedSpec) -> bool:
    return spec.kind is NodeKind.EFFECT or spec.eager or bool(spec.side_write_envelope)
