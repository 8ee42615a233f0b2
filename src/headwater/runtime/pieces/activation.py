"""Activates pieces: registers and retires the nodes of their functions.

A rebuilt piece keeps the nodes of unchanged functions: those do not run again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from headwater.declare.events.handler import Handler
from headwater.declare.functions.computed import Computed
from headwater.declare.functions.sink import Sink
from headwater.declare.patterns.piece import Build, Piece
from headwater.declare.verbs import Function
from headwater.runtime.pieces.piece_host import PieceHost
from headwater.runtime.pieces.piece_observations import Seen, seen_by, take_over
from headwater.scheduler.graph.node import Node
from headwater.values.address import doc_key
from headwater.values.ids import DocKey

LEAVING_MAX: Final = 1000
"""Stopped pieces whose documents are still held: a few megabytes."""


class Activation:
    """The only writer of `Piece.at_work`."""

    def __init__(self, space: PieceHost) -> None:
        self._space = space
        # Stopped pieces whose documents are still held.
        self._leaving: list[tuple[Piece[Any], list[DocKey]]] = []
        self._leaving_max = LEAVING_MAX
        # Observations of functions that were retired recently, by document.
        self._seen: dict[str, Seen] = {}
        # Handlers of pieces that an open transaction starts.
        self._early: dict[str, list[Handler[..., Any]]] = {}
        # Counts since the space was opened.
        self.started = 0

    def bring(self, pieces: Sequence[Piece[Any]]) -> None:
        """Activate what is planned of these pieces, and retire the rest."""
        if self._space.closed:
            return
        if len(self._leaving) >= self._leaving_max:
            self.sweep()
        left: dict[str, Computed[..., Any] | Sink] = {}
        for piece in pieces:
            self._drop_early(piece, piece.wanted)
            if piece.at_work is not None and piece.at_work is not piece.wanted:
                self._take_down(piece, piece.at_work, left)
        for piece in pieces:
            if piece.wanted is not None and piece.at_work is not piece.wanted:
                self._install(piece, piece.wanted, left)
        for function in left.values():
            self._space.retire(function)

    @staticmethod
    def relabel(piece: Piece[Any], build: Build[Any]) -> None:
        """Continue an unchanged piece under its new plan."""
        piece.at_work = build

    def bring_handlers(self, pieces: Sequence[Piece[Any]]) -> None:
        """Register handlers of pieces that the open transaction starts: events can be sent to them in it."""
        for piece in pieces:
            self._drop_early(piece)
            if piece.wanted is not None and piece.at_work is None:
                early = [each for each in piece.wanted.functions if isinstance(each, Handler)]
                for function in early:
                    function.register(self._space)
                if early:
                    self._early[piece.id] = early

    def _drop_early(self, piece: Piece[Any], besides: Build[Any] | None = None) -> None:
        for function in self._early.pop(piece.id, ()):
            if besides is None or function not in besides.functions:
                self._space.events.drop(function)

    def _install(self, piece: Piece[Any], build: Build[Any], left: dict[str, Computed[..., Any] | Sink]) -> None:
        space = self._space
        piece.at_work = build
        self.started += 1
        fresh: list[Function] = []
        before: dict[str, Seen] = {}
        for function in build.functions:
            place: Node | None = None
            if isinstance(function, Computed | Sink) and function.doc in left:
                former = left.pop(function.doc)
                if self._goes_on(former, function):
                    continue
                before |= self._seen_by([former])
                place = space.nodes.get(former)
                space.retire(former, notify=former in space.instances)
            if function not in space.handlers:
                with space.scheduler.registry.in_place_of(place):
                    function.register(space)
            fresh.append(function)
        plain = [each for each in fresh if type(each) is Computed and each in space.nodes]
        take_over(space, {each: self._seen.pop(each.doc) for each in plain if each.doc in self._seen})
        # From here on the changes may be undone.
        self._seen |= before
        nodes = [space.nodes[function] for function in fresh if function in space.nodes]
        has_instances = any(function in space.instances for function in fresh)
        if build.is_resumed and (has_instances or any(node.fingerprint and not node.restored for node in nodes)):
            space.restorer.take_over_piece(build.prefix, nodes)
        streams = {function.stream for function in fresh if isinstance(function, Handler)}
        if build.is_resumed and streams:
            space.events.resume_streams(streams)

    def _seen_by(self, functions: Sequence[Function]) -> dict[str, Seen]:
        space = self._space
        plain = [each for each in functions if type(each) is Computed and each in space.nodes]
        return {each.doc: found for each in plain if (found := seen_by(space, each)) is not None}

    def _goes_on(self, former: Computed[..., Any] | Sink, function: Computed[..., Any] | Sink) -> bool:
        """Whether it is the same function, declared again: then its node continues."""
        space = self._space
        if type(former) is not type(function) or former.fingerprint_in(space) != function.fingerprint_in(space):
            return False
        if former in space.instances:
            space.instances[function] = space.instances.pop(former)
            return True
        node = space.nodes[former]
        spec = function.spec_in(space)
        if not space.scheduler.registry.remake(node, spec):
            return False
        space.nodes[function] = space.nodes.pop(former)
        return True

    def _is_plain(self, function: Computed[..., Any] | Sink) -> bool:
        """Whether the function consists of its nodes only; other kinds have more."""
        space = self._space
        return type(function) in (Computed, Sink) and (function in space.nodes or function in space.instances)

    def _take_down(self, piece: Piece[Any], build: Build[Any], left: dict[str, Computed[..., Any] | Sink]) -> None:
        space = self._space
        piece.at_work = None
        # Before anything is removed: instances are known as long as their function is.
        docs = [doc_key(doc) for doc in build.documents]
        docs += [
            doc
            for function in build.functions
            if function in space.instances
            for node in space.instances[function].nodes()
            for doc in node.outputs
        ]
        if piece.wanted is None:
            self._seen |= self._seen_by(build.functions)
        for function in reversed(build.functions):
            if piece.wanted is not None and isinstance(function, Computed | Sink) and self._is_plain(function):
                left[function.doc] = function
            else:
                # Readers of one of several results call the new function.
                space.retire(function, notify=piece.wanted is not None and function in space.instances)
        if piece.wanted is None:
            self._leaving.append((piece, docs))
            space.restorer.leave_piece(build.prefix)

    def sweep(self) -> None:
        """Release the documents of stopped pieces whose writes are decided."""
        replica = self._space.replica
        leaving, self._leaving = self._leaving, []
        self._seen.clear()
        gone: list[DocKey] = []
        for piece, docs in leaving:
            if piece.is_running:
                continue
            if any(replica.is_layered(doc) for doc in docs):
                self._leaving.append((piece, docs))
            gone += docs
        # Next when as many more have been stopped, or after a sync: not once per pending verdict.
        self._leaving_max = len(self._leaving) + LEAVING_MAX
        for doc in gone:
            replica.release(doc)
        if gone:
            self._space.release_documents(gone)
            self._space.shrink()
