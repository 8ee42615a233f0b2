"""Plans a piece: calls the function of its pattern and returns the changes to make, without making them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from weakref import WeakValueDictionary

from headwater.cells.binding import writing_to
from headwater.cells.cell import Cell
from headwater.cells.transaction import Transaction
from headwater.declare.events.handler import Handler
from headwater.declare.functions.computed import Computed
from headwater.declare.functions.enclosing_piece import EnclosingPiece
from headwater.declare.patterns.builder import Builder
from headwater.declare.patterns.pattern import Pattern, PieceInputs
from headwater.declare.patterns.piece import Build, Piece, piece_title
from headwater.declare.patterns.piece_plan import PieceChange, PiecePlan
from headwater.declare.patterns.piece_record import declared_kind, piece_document, stopped_document, stored_inputs
from headwater.errors import LimitError, UsageError
from headwater.runtime.pieces.piece_host import PieceHost
from headwater.scheduler.graph.node import Node
from headwater.values.address import doc_key
from headwater.values.causal import derive_id
from headwater.values.tree import ABSENT, Maybe, Value, is_map, same

if TYPE_CHECKING:
    from headwater.runtime.pieces.pieces import Pieces

DEPTH_MAX: Final = 64
"""Nesting of pieces: deeper than any real tree; each level takes some of Python's thousand stack frames."""


class PieceRequest(NamedTuple):
    """What to start, where, and its parent."""

    pattern: Pattern[..., Any]
    key: str
    args: tuple[object, ...]
    inputs: dict[str, Any]
    place: str
    parent: Node | None = None
    whole: Builder | None = None
    tx: Transaction | None = None


class PiecePlanner:
    """The part of an open space that calls the functions of patterns."""

    def __init__(self, space: PieceHost, pieces: Pieces, root: str) -> None:
        self._space = space
        self._pieces = pieces
        # The name of the app in ids, and as their prefix.
        self.root = root
        # A handle of a stopped piece refers to the restarted one.
        self._known: WeakValueDictionary[str, Piece[Any]] = WeakValueDictionary()

    def start(self, asked: PieceRequest) -> PiecePlan:
        """Call the function. Raises what that raises, DeclarationError, UsageError."""
        space, pattern = self._space, asked.pattern
        depth = _depth(asked)
        doc = f"{self.root}+{derive_id(pattern.name, asked.place, asked.key)}"
        stored = self.stored(doc, asked.tx)
        known = self._known.get(doc)
        wanted = None if known is None else known.wanted
        if wanted is not None and wanted.pattern.identity != pattern.identity:
            message = f"{pattern.name} {asked.key!r} is at work, built by {wanted.pattern.identity}"
            raise UsageError(f"{message}: {pattern.identity} needs another name, or another key", piece=doc)
        kept = pattern.inputs(space, doc)
        before, given = stored_inputs(stored), dict[str, object]()
        if not asked.args and not asked.inputs and is_map(before):
            # Resumed with the stored inputs.
            sealed: Value = before
        else:
            given = kept.named(asked.args, asked.inputs)
            sealed = kept.sealed(asked.args, asked.inputs)
        is_claimed = False
        if known is not None and wanted is not None and wanted.pattern is pattern and same(wanted.sealed, sealed):
            is_claimed = self._pieces.claim(known, asked.tx)
            if not is_claimed:
                return PiecePlan(known)
        unsealed = self._unsealed(kept, sealed)
        # A given cell is identified by its default besides its address.
        unsealed |= {name: each for name, each in given.items() if isinstance(each, Cell)}
        fingerprints = space.fingerprints.nested(pattern.__wrapped__)
        ran = {} if known is None else known.ran
        around = EnclosingPiece(piece_title(pattern.name, asked.key), f"{doc}.", asked.parent, fingerprints, depth, ran)
        plan = self._built(asked, Builder(space, doc, pattern.name, around, asked.tx), unsealed, sealed, stored)
        if is_claimed and plan.change is not None:
            # Independent of the current value.
            plan.change = plan.change._replace(stored=ABSENT)
        return plan

    def _built(
        self, asked: PieceRequest, builder: Builder, given: Mapping[str, object], sealed: Value, stored: Maybe
    ) -> PiecePlan:
        pattern, doc = asked.pattern, builder.prefix[:-1]
        known = self._known.get(doc)
        try:
            outputs = builder.build(pattern.__wrapped__, given)
            for function in builder.functions.values():
                _check(function)
            fingerprint = self._space.fingerprints.of(pattern.__wrapped__, pattern.version).hex()
            internal = {name: declared_kind(each) for name, each in builder.declared.items()}
            internal |= {plan.piece.title: "piece" for plan in builder.plans}
            with writing_to(self._space):
                value, generation = piece_document(pattern, asked.key, fingerprint, sealed, internal, outputs, stored)
        except BaseException:
            for plan in reversed(builder.plans):
                plan.forget()
            raise
        build: Build[Any] = Build(
            pattern=pattern,
            sealed=sealed,
            outputs=outputs,
            generation=generation,
            prefix=builder.prefix,
            documents=(doc, *(f"{builder.prefix}{name}" for name in builder.declared)),
            functions=tuple(builder.functions.values()),
            parts=tuple(plan.piece for plan in builder.plans),
            is_resumed=is_map(stored),
        )
        piece: Piece[Any] = known or Piece(
            key=asked.key, id=doc, _pieces=self._pieces, ran=builder.enclosing_piece.ran, build=build
        )
        self._known[doc] = piece
        former, piece.build = piece.build, build
        piece.parent = asked.parent
        for plan in builder.plans:
            plan.piece.whole = piece
        change = PieceChange(piece, piece.wanted, build, doc_key(doc), stored, value)
        return PiecePlan(piece, change, None if known is None else former, builder.plans)

    def stop(self, piece: Piece[Any], tx: Transaction | None) -> Iterator[PieceChange]:
        """Plan to remove a piece with its parts."""
        if piece.wanted is not None:
            for part in piece.wanted.parts:
                yield from self.stop(part, tx)
            stored = self.stored(piece.id, tx)
            yield PieceChange(piece, piece.wanted, None, doc_key(piece.id), stored, stopped_document(stored))

    def stored(self, doc: str, tx: Transaction | None) -> Maybe:
        """Its document."""
        at = doc_key(doc)
        return self._space.replica.read(at) if tx is None or isinstance(tx.node, Node) else tx.document(at)

    def _unsealed(self, kept: PieceInputs, sealed: Value) -> dict[str, object]:
        """Inputs as the function gets them. Cells of the app are the declared ones, which have defaults."""
        declared: Mapping[str, object] = getattr(self._space.owner, "declared", {})
        found = kept.unsealed(self._space, sealed)
        for name, each in found.items():
            known = declared.get(each.address.removeprefix(f"{self.root}.")) if isinstance(each, Cell) else None
            if isinstance(known, Cell) and isinstance(each, Cell) and known.address == each.address:
                found[name] = known
        return found


def _check(function: object) -> None:
    """Check declarations before anything is made."""
    if isinstance(function, Computed):
        function.check()
    elif isinstance(function, Handler):
        function.payload  # noqa: B018  # as it says
        function.result  # noqa: B018


def _depth(asked: PieceRequest) -> int:
    depth = 1 if asked.whole is None else asked.whole.enclosing_piece.depth + 1
    node = asked.parent if asked.whole is None else None
    while node is not None:
        depth += 1
        node = node.declared_parent
    if depth > DEPTH_MAX:
        message = f"{asked.pattern.name} {asked.key!r} would be the {depth}th piece within others, at most {DEPTH_MAX}"
        raise LimitError(f"{message} are: does a pattern start itself without end?", limit=DEPTH_MAX)
    return depth
