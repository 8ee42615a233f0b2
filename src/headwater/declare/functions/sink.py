"""Sinks: what `@app.sink` makes of an author's function. It runs by itself, until it is stopped."""

from __future__ import annotations

from collections.abc import Callable

from headwater.cells.context import Owner, find
from headwater.declare.functions.enclosing_piece import EnclosingPiece
from headwater.declare.functions.fingerprint import Fingerprints
from headwater.declare.functions.function_code import is_async
from headwater.declare.functions.function_fingerprint import FunctionFingerprint
from headwater.declare.functions.function_options import FunctionOptions
from headwater.declare.functions.function_port import FunctionPort
from headwater.errors import UsageError
from headwater.scheduler.graph.node import Node, NodeKind, NodeSpec
from headwater.values.address import doc_key


class Sink:
    """A declared function that runs for its effect, by itself. Made by `@app.sink`."""

    def __init__(self, app: Owner, fn: Callable[[], object], name: str, doc: str, options: FunctionOptions) -> None:
        self.name = name
        self.__wrapped__ = fn
        self.__doc__ = fn.__doc__
        self.__name__ = name
        self._app = app
        self._doc = doc
        self.options = options
        # Set by the builder of a pattern.
        self.enclosing_piece: EnclosingPiece | None = None

    @property
    def owner(self) -> Owner:
        """The app or space that it belongs to."""
        return self._app

    @property
    def doc(self) -> str:
        """Its full name."""
        return self._doc

    def register(self, space: FunctionPort) -> None:
        """Register its node in an open space."""
        space.add_node(self, self.spec_in(space))

    def fingerprint_in(self, space: FunctionPort) -> bytes:
        """Its fingerprint: the code, and everything besides documents that its runs depend on."""
        around = self.enclosing_piece
        return self.fingerprint_by(space.fingerprints if around is None else around.fingerprints)

    def fingerprint_by(self, fingerprints: Fingerprints) -> bytes:
        """Its fingerprint in a session."""
        return fingerprints.of(self.__wrapped__, self.options.version)

    def spec_in(self, space: FunctionPort) -> NodeSpec:
        """The facts about its node in an open space."""
        options, around = self.options, self.enclosing_piece
        fingerprints = space.fingerprints if around is None else around.fingerprints
        return NodeSpec(
            name=self.name,
            fn=self.__wrapped__,
            kind=NodeKind.EFFECT,
            is_async=is_async(self.__wrapped__),
            on_invalid=options.on_invalid,
            timeout_ms=options.timeout_ms,
            debounce_ms=options.debounce_ms,
            throttle_ms=options.throttle_ms,
            no_auto_debounce=not options.auto_debounce,
            change_group=options.change_group,
            # Usually there is none: a new process has a new screen, so the sink runs.
            fingerprint=FunctionFingerprint(self, fingerprints) if options.is_quiet else None,
            stored_as=doc_key(self._doc),
            piece="" if around is None else around.title,
            parent=None if around is None else around.parent,
            origin=self.__wrapped__,
        )

    def stop(self) -> None:
        """Stop the sink in the open space around this code. A run in progress is cancelled.

        It takes effect at once, also in a transaction that is rolled back. A second call does nothing. The next opening
        starts the sink again.

        Raises:
            NotOpen: HW001. The app has no open space here.
            UsageError: HW100. The sink belongs to a piece: stop the piece.
        """
        home, _ = find(self._app, f"{self.name}()", "stopped")
        assert isinstance(home, FunctionPort)
        if self.enclosing_piece is not None:
            message = (
                f"{self.name}() is part of the piece {self.enclosing_piece.title} and stops with it; stop the piece"
            )
            raise UsageError(message, node=self.name, piece=self.enclosing_piece.title)
        home.stop_sink(self)

    def node_in(self, home: FunctionPort) -> Node | None:
        """Its node in an open space."""
        return home.nodes.get(self)

    def __call__(self) -> None:
        """Run it once, by hand."""
        self.__wrapped__()

    def __repr__(self) -> str:
        return f"<sink {self._doc}>"
