"""The pieces of an open space: started, resumed, stopped; and whose children they are.

A piece has one document: its inputs, what it consists of, and links to its outputs. That is written in one transaction,
the one around the code that starts it if there is one: if that does not come to be, the piece is stopped again. Ids are
derived from causes: whoever starts the same pattern with the same key, in the same place, means the same piece.

Must never know: what a function does, and when it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from headwater.cells.cell import Cell
from headwater.cells.doc import Doc
from headwater.cells.here import HERE
from headwater.cells.transaction import Transaction
from headwater.errors import DeclarationError, UsageError
from headwater.host.functions import Computed
from headwater.host.handlers import Handler, Stream
from headwater.host.pieces.building import Builder, Within
from headwater.host.pieces.pattern import ARGUMENTS, Inputs, Invocation, Pattern
from headwater.host.pieces.piece import Piece, PieceStatus, named_outputs
from headwater.scheduler.attempt import Attempt
from headwater.scheduler.node import Node
from headwater.store.commit import PatchDoc, SetDoc
from headwater.values.address import doc_key
from headwater.values.causal import derive_id
from headwater.values.ids import DocId, DocKey
from headwater.values.link import Link
from headwater.values.patch import Replace
from headwater.values.tree import Maybe, Value, freeze, is_map, same

if TYPE_CHECKING:
    from headwater.host.base_space import BaseSpace

R = TypeVar("R")

STATUS: Final = "status"

LEAVING_MAX: Final = 1000
"""Pieces that are stopped, and of which documents are still held: a few megabytes."""

RETURNED: Final = "()"
"""The key of a child that a function has returned: it has one of each pattern."""


class Pieces:
    """Those of one open space. Whoever starts and stops has the turn."""

    def __init__(self, space: BaseSpace, root: str) -> None:
        self._space = space
        # What stands for the app, in ids and in front of them.
        self._root = root
        self.running: dict[str, Piece[Any]] = {}
        # Children of functions, by id; and those that a run which is under way has asked for.
        self._children: dict[Node, dict[str, Piece[Any]]] = {}
        self._asked: dict[Node, tuple[Transaction, set[str]]] = {}
        # Stopped, and what they have made is still held.
        self._leaving: list[Piece[Any]] = []
        self._leaving_max = LEAVING_MAX
        # Since the space was opened.
        self.started = 0

    # -- starting ------------------------------------------------------------------------------------------

    def start(self, pattern: Pattern[..., R], key: str, args: tuple[object, ...], inputs: dict[str, Any]) -> Piece[R]:
        """As `space.start`."""
        _check(pattern, key)
        space = self._space
        with space.turn:
            tx = self._around()
            node = None if tx is None else tx.node
            if isinstance(node, Node):
                return self._start_child(node, tx, pattern, key, args, inputs)
            found = self._start(None, self._root, pattern, key, args, inputs)
        if tx is None:
            self._go(found)
        return found

    def start_within(
        self, builder: Builder, pattern: Pattern[..., R], key: str, args: tuple[object, ...], inputs: dict[str, Any]
    ) -> Piece[R]:
        """A piece that is part of another."""
        _check(pattern, key or pattern.name)
        mark = key or f"{pattern.name} {sum(child.pattern.name == pattern.name for child in builder.children)}"
        if any(child.pattern is pattern and child.key == mark for child in builder.children):
            message = f"pattern {builder.name}() starts {pattern.name} {mark!r} twice; give each a key of its own"
            raise DeclarationError(message, key=mark)
        return self._start(builder._within.parent, builder.prefix, pattern, mark, args, inputs)  # noqa: SLF001

    def start_returned(self, attempt: Attempt, asked: Invocation[Any]) -> Value:
        """A function has returned a pattern with its inputs: a child of its own, which its result refers to."""
        node, tx = attempt.node, attempt.tx
        with self._space.turn:
            piece = self._start_child(node, tx, asked.pattern, RETURNED, asked.args, asked.inputs)
        return piece.__headwater_value__()

    def _start_child(  # noqa: PLR0917  # of whom, where, what
        self,
        node: Node,
        tx: Transaction | None,
        pattern: Pattern[..., R],
        key: str,
        args: tuple[object, ...],
        inputs: dict[str, Any],
    ) -> Piece[R]:
        assert tx is not None
        # I7: nothing is kept of this run for the next opening. Only a run starts children, and each is kept for itself.
        tx.reaches_out = True
        place = node.outputs[0] if node.outputs else node.spec.kept_as or node.name
        run, asked = self._asked.get(node, (None, set[str]()))
        if run is not tx:
            # The first of this run; those of one that did not count do not count, either.
            asked = set()
            self._asked[node] = (tx, asked)
        piece = self._start(node, place, pattern, key, args, inputs)
        asked.add(piece.id)
        self._children.setdefault(node, {})[piece.id] = piece
        return piece

    def _start(  # noqa: PLR0917  # likewise
        self,
        parent: Node | None,
        place: str,
        pattern: Pattern[..., R],
        key: str,
        args: tuple[object, ...],
        inputs: dict[str, Any],
    ) -> Piece[R]:
        space = self._space
        if len(self._leaving) >= self._leaving_max:
            self.sweep()
        doc = self._id(place, pattern, key)
        at = doc_key(doc)
        stored = self._stored(at)
        kept = pattern.inputs(space, doc)
        before = stored.get(ARGUMENTS) if is_map(stored) else None
        given: dict[str, object] = {}
        if not args and not inputs and is_map(before):
            # Resumed, without saying anew with what.
            sealed: Value = before
        else:
            given = kept.named(args, inputs)
            sealed = kept.seal(*args, **inputs)
        running = self.running.get(doc)
        if running is not None and running.pattern is pattern and same(running.sealed, sealed):
            return running
        within = Within(f"{pattern.name} {key}".strip(), parent, space.prints.apart(pattern.__wrapped__))
        builder = Builder(space, doc, pattern.name, within)
        unsealed = self._unsealed(kept, sealed)
        # A cell that was given is known by more than its place: by its default.
        unsealed |= {name: each for name, each in given.items() if isinstance(each, Cell)}
        outputs = builder.build(pattern.__wrapped__, unsealed)
        earlier = None if running is None else (running.pattern, running.sealed)
        piece: Piece[R] = running or Piece(pattern=pattern, key=key, id=doc, _pieces=self, outputs=outputs)
        piece.pattern, piece.parent, piece.sealed, piece.outputs = pattern, parent, sealed, outputs
        piece.generation = self._put(at, stored, self._record(piece, builder, stored))
        if running is not None:
            self._take_down(running, besides=builder.children)
        self._install(piece, builder, was_there=is_map(stored))
        tx = self._around()
        if tx is not None:
            # I10: it survives only if what it was started in comes to be.
            space.scheduler.lineage.launch(tx, lambda: self._undo(piece, place, earlier))
        return piece

    def _unsealed(self, kept: Inputs, sealed: Value) -> dict[str, object]:
        """Inputs as the function gets them. Cells that the app declares are these, which have defaults."""
        declared: Mapping[str, object] = getattr(self._space.owner, "declared", {})
        found = kept.unsealed(self._space, sealed)
        for name, each in found.items():
            known = declared.get(each.address.removeprefix(f"{self._root}.")) if isinstance(each, Cell) else None
            if isinstance(known, Cell) and isinstance(each, Cell) and known.address == each.address:
                found[name] = known
        return found

    def _id(self, place: str, pattern: Pattern[..., Any], key: str) -> str:
        return f"{self._root}+{derive_id(pattern.name, place, key)}"

    def _stored(self, at: DocKey) -> Maybe:
        tx = self._around()
        return self._space.replica.read(at) if tx is None else tx.look(at)

    def _around(self) -> Transaction | None:
        """The transaction of this space that this code is part of."""
        frame = HERE.get()
        while frame is not None:
            if frame.home is self._space and frame.tx is not None and frame.tx.is_open:
                return frame.tx
            frame = frame.outer
        return None

    # -- its document --------------------------------------------------------------------------------------

    def _record(self, piece: Piece[Any], builder: Builder, stored: Maybe) -> dict[str, object]:
        pattern = piece.pattern
        print_ = self._space.prints.of(pattern.__wrapped__, pattern.version).hex()
        internal = {name: _kind(each) for name, each in builder.declared.items()}
        internal |= {f"{child.pattern.name} {child.key}": "piece" for child in builder.children}
        record: dict[str, object] = {
            "pattern": pattern.identity,
            "key": piece.key,
            "print": print_,
            ARGUMENTS: piece.sealed,
            "internal": internal,
            "outputs": {name: _reference(each) for name, each in named_outputs(piece.outputs).items()},
            STATUS: PieceStatus.RUNNING.value,
        }
        is_same = is_map(stored) and stored.get("print") == print_ and same(stored.get("internal"), freeze(internal))
        before = stored.get("generation") if is_map(stored) else None
        number = before if isinstance(before, int) else 0
        record["generation"] = number if is_same else number + 1
        return record

    def _put(self, at: DocKey, stored: Maybe, record: dict[str, object]) -> int:
        """One transaction, or a part of the one around this code."""
        value = freeze(record, "a piece")
        generation = record["generation"]
        assert isinstance(generation, int)
        if is_map(stored) and same(stored, value):
            return generation
        tx = self._around()
        if tx is None or tx.node is not None:
            # What a run starts is its own transaction: whoever runs again finds it, and means the same.
            self._space.replica.commit((SetDoc(at, value),))
        else:
            tx.set(at, (), value)
        return generation

    # -- running -------------------------------------------------------------------------------------------

    def _install(self, piece: Piece[Any], builder: Builder, *, was_there: bool) -> None:
        space = self._space
        piece.functions = tuple(builder.functions.values())
        piece.children = tuple(builder.children)
        piece.documents = (piece.id, *(f"{builder.prefix}{name}" for name in builder.declared))
        piece.status = PieceStatus.RUNNING
        self.running[piece.id] = piece
        self.started += 1
        for function in piece.functions:
            function.register(space)
        nodes = [space.nodes[function] for function in piece.functions if function in space.nodes]
        if was_there:
            space.resuming.take_over_piece(builder.prefix, nodes)
        for node in nodes:
            if node.outputs and not node.restored:
                # Whoever has read what it came to when it was at work before looks again.
                space.scheduler.renew(node)

    def _go(self, piece: Piece[Any]) -> None:
        """What it consists of has its turn."""
        if any(isinstance(function, Handler) for function in piece.functions):
            self._space.resume_events()
        self._space.catch_up()

    def _undo(self, piece: Piece[Any], place: str, earlier: tuple[Pattern[..., Any], Value] | None) -> None:
        """It goes; or, if it was at work before, with other inputs, it is again what it was."""
        with self._space.turn:
            self._take_down(piece)
            if earlier is not None and not self._space.closed:
                pattern, sealed = earlier
                kept = pattern.inputs(self._space, piece.id)
                self._start(piece.parent, place, pattern, piece.key, (), self._unsealed(kept, sealed))

    # -- stopping ------------------------------------------------------------------------------------------

    def stop(self, piece: Piece[Any]) -> None:
        """As `piece.stop()`."""
        space = self._space
        space.check_open()
        with space.turn:
            if not piece.is_running:
                return
            parent = piece.parent
            if parent is not None and piece.id in self._children.get(parent, ()):
                message = f"{piece.id} cannot be stopped: {parent.title} has it as a child as long as it asks for it"
                raise UsageError(f"{message}; have it ask no more", piece=piece.id)
            self._say_stopped(self._take_down(piece))
        if self._around() is None:
            space.catch_up()

    def _say_stopped(self, pieces: list[Piece[Any]]) -> None:
        """Also for whoever looks at the documents."""
        if not pieces:
            return
        tx = self._around()
        said = Replace((STATUS,), PieceStatus.STOPPED.value)
        if tx is None or tx.node is not None:
            # A piece whose document nobody has seen, for what it was started in did not come to be, has none.
            there = [at for at in (doc_key(piece.id) for piece in pieces) if is_map(self._space.replica.read(at))]
            self._space.replica.commit([PatchDoc(at, (said,)) for at in there])
        else:
            for piece in pieces:
                tx.patch(doc_key(piece.id), said)

    def _take_down(self, piece: Piece[Any], besides: list[Piece[Any]] | None = None) -> list[Piece[Any]]:
        """Everything it consists of, and its children; but for those that go on as part of what replaces it.

        Returns what was stopped.
        """
        if not piece.is_running:
            return []
        piece.status = PieceStatus.STOPPED
        self.running.pop(piece.id, None)
        stopped = [piece]
        for child in piece.children:
            if besides is None or child not in besides:
                stopped += self._take_down(child)
        for function in reversed(piece.functions):
            self._space.retire(function)
        self._leaving.append(piece)
        return stopped

    def sweep(self) -> None:
        """Hold no longer what pieces have made that are stopped, if what they have written is decided."""
        replica = self._space.replica
        leaving, self._leaving = self._leaving, []
        gone: list[DocKey] = []
        for piece in leaving:
            docs = [doc_key(doc) for doc in piece.documents]
            if piece.is_running:
                continue
            if any(replica.is_layered(doc) for doc in docs):
                self._leaving.append(piece)
            gone += docs
        # The next time when as many have come, or after a sync: not for each that waits for its verdict.
        self._leaving_max = len(self._leaving) + LEAVING_MAX
        for doc in gone:
            replica.let_go(doc)
        if gone:
            self._space.ask_store(lambda engine: engine.let_go(self._space.branch, gone))

    def removed(self, node: Node) -> None:
        """A function is no longer: nor are the pieces that its runs have started."""
        self._asked.pop(node, None)
        stopped = [each for child in self._children.pop(node, {}).values() for each in self._take_down(child)]
        if not self._space.closed:
            self._say_stopped(stopped)

    def after(self, attempt: Attempt) -> None:
        """A run has come to its end, and counts: children that it has not asked for are stopped, in the same pass."""
        children = self._children.get(attempt.node)
        if children is None:
            return
        run, asked = self._asked.pop(attempt.node, (None, set[str]()))
        if run is not attempt.tx:
            asked = set()
        for piece in [piece for piece in children.values() if piece.id not in asked]:
            del children[piece.id]
            self._say_stopped(self._take_down(piece))
        if not children:
            del self._children[attempt.node]

    @property
    def has_children(self) -> bool:
        """Some function has."""
        return bool(self._children)


def _check(pattern: object, key: object) -> None:
    if not isinstance(pattern, Pattern):
        raise UsageError(f"{pattern!r} cannot be started: a function with @hw.pattern in front is expected")
    if not isinstance(key, str):
        raise UsageError(f"{key!r} is no key of a piece of {pattern.name}: a text is expected")


def _kind(thing: object) -> str:
    if isinstance(thing, Doc):
        return "document"
    return "handler" if isinstance(thing, Handler) else type(thing).__name__.lower()


def _link(doc: str) -> Value:
    return Link(doc=DocId(doc)).to_value()


def _reference(output: object) -> object:
    """What stands for an output: a link to where it is kept; a plain value is itself."""
    if isinstance(output, Computed):
        return None if output.is_parametrised else _link(output.doc)
    if isinstance(output, Handler | Stream):
        return output.address
    if isinstance(output, Mapping):
        return {str(name): _reference(each) for name, each in output.items()}
    if isinstance(output, list | tuple):
        return [_reference(each) for each in output]
    return output
