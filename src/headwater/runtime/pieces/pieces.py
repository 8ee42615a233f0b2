"""The pieces of an open space: started, resumed, stopped; and their parents.

A piece has one document: its inputs, its parts, and links to its outputs. It is written in one transaction with those
of its parts: the transaction around the code that starts it, if there is one. If that is rolled back, each piece is
again what it was before. A piece that a run starts can be read by the run, so it is written before the run ends. Ids
are derived from causes: the same pattern with the same key, in the same parent, is the same piece.

Length: each way to change a piece can be undone, and the ways back depend on each other.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

from headwater.cells.context import CONTEXT, check_crossing
from headwater.cells.transaction import Transaction
from headwater.cells.transaction_states import SETTLED
from headwater.declare.functions.invocation import Invocation
from headwater.declare.patterns.builder import Builder
from headwater.declare.patterns.pattern import Pattern
from headwater.declare.patterns.piece import RETURNED_KEY, Build, Piece
from headwater.declare.patterns.piece_plan import PieceChange, PiecePlan
from headwater.declare.patterns.piece_record import change_operations
from headwater.declare.verb_port import CURRENT_BUILDER
from headwater.errors import DeclarationError, UsageError
from headwater.runtime.pieces.activation import Activation
from headwater.runtime.pieces.dormant import Dormancy
from headwater.runtime.pieces.piece_host import PieceHost
from headwater.runtime.pieces.piece_planner import PiecePlanner, PieceRequest
from headwater.scheduler.graph.node import Node
from headwater.scheduler.runs.attempt import Attempt
from headwater.store.commit import DeleteDoc, Operation, PatchDoc
from headwater.values.address import doc_key
from headwater.values.shrink import shrunk
from headwater.values.tree import ABSENT, same

R = TypeVar("R")

_OF_PIECE: Final = re.compile(r"([^\s,()]*\+\w+:[a-z2-7]{32})(?:\.([^\s,;]+))?")
"""The address of a document of a piece."""


class Pieces:
    """The pieces of one open space. Starting and stopping need its lock."""

    def __init__(self, space: PieceHost, root: str) -> None:
        self._space = space
        self._planner = PiecePlanner(space, self, root)
        self.work = Activation(space)
        self.running: dict[str, Piece[Any]] = {}
        # Children of functions, by id; and those that a current run has started.
        self._children: dict[Node, dict[str, Piece[Any]]] = {}
        self._asked: dict[Node, tuple[Transaction, set[str]]] = {}
        self.sleeping = Dormancy(space, lambda node: list(self._children.get(node, {}).values()))
        # Pieces of transactions without a verdict.
        self._origins: dict[str, Transaction] = {}
        # Changes of plain code and of transactions, runs included, that have no verdict, in order.
        self._undecided: dict[int, list[PieceChange]] = {}
        # Those of transactions of plain code that are open, by the identity of the transaction.
        self._unsent: dict[int, list[list[PieceChange]]] = {}
        # Work for the next holder of the lock.
        self._due: deque[Callable[[], None]] = deque()

    # -- starting ------------------------------------------------------------------------------------------

    def start(self, pattern: Pattern[..., R], key: str, args: tuple[object, ...], inputs: dict[str, Any]) -> Piece[R]:
        """As `space.start`."""
        _check(pattern, key)
        space = self._space
        space.check_open()
        check_crossing(space, f"a piece of {pattern.name}", "started")
        tx = self._around()
        builder = CURRENT_BUILDER.get()
        if isinstance(builder, Builder) and tx is not None and builder.tx is tx:
            return self.start_within(builder, pattern, key, args, inputs)
        with space.lock:
            self.catch_up()
            node = None if tx is None else tx.node
            if tx is not None and isinstance(node, Node):
                return self._start_child(node, tx, pattern, key, args, inputs)
            found = self._carry_out(PieceRequest(pattern, key, args, inputs, self._planner.root, tx=tx))
        if tx is None:
            space.catch_up()
        return found

    def start_within(
        self, builder: Builder, pattern: Pattern[..., R], key: str, args: tuple[object, ...], inputs: dict[str, Any]
    ) -> Piece[R]:
        """Plan a piece that is part of another one."""
        _check(pattern, key)
        if not builder.is_building:
            message = f"pattern {builder.name}() has returned, and its builder starts nothing any more"
            raise UsageError(f"{message}; functions start pieces with hw.start(...)")
        others = [plan.piece for plan in builder.plans if plan.piece.pattern is pattern]
        mark = key or str(len(others))
        if any(other.key == mark for other in others):
            message = f"pattern {builder.name}() starts {pattern.name} {mark!r} twice; give each a key of its own"
            raise DeclarationError(message, key=mark)
        parent, tx = builder.enclosing_piece.parent, builder.origin
        plan = self._planner.start(PieceRequest(pattern, mark, args, inputs, builder.prefix, parent, builder, tx))
        builder.plans.append(plan)
        return plan.piece

    def start_returned(self, attempt: Attempt, asked: Invocation[R]) -> Piece[R]:
        """Start the pattern that a function returned: a child, to which its result refers."""
        node, tx = attempt.node, attempt.tx
        pattern = asked.pattern
        assert isinstance(pattern, Pattern)
        with self._space.lock:
            return self._start_child(node, tx, pattern, RETURNED_KEY, asked.args, asked.inputs)

    def _start_child(  # noqa: PLR0917  # of whom, where, what
        self,
        node: Node,
        tx: Transaction,
        pattern: Pattern[..., R],
        key: str,
        args: tuple[object, ...],
        inputs: dict[str, Any],
    ) -> Piece[R]:
        if node.removed:
            raise UsageError(f"{node.title} was removed, and cannot have children", node=node.name)
        # I7: no observation of this run is stored. Only a run starts children, and each of them is stored on its own.
        tx.reads_outside = True
        place = node.outputs[0] if node.outputs else node.stored_as or node.name
        run, asked = self._asked.get(node, (None, set[str]()))
        if run is not tx:
            # The first child of this run; those of a discarded run do not count.
            asked = set()
            self._asked[node] = (tx, asked)
        piece = self._carry_out(PieceRequest(pattern, key, args, inputs, place, node, tx=tx), asked)
        asked.add(piece.id)
        self._children.setdefault(node, {})[piece.id] = piece
        self.sleeping.turn(piece, asleep=False)
        self.sleeping.watch(node)
        return piece

    def _carry_out(self, asked: PieceRequest, before: Collection[str] = ()) -> Piece[Any]:
        """Start a child. The same run may have started others before."""
        plan = self._planner.start(asked)
        if plan.change is not None and plan.piece.id in before and plan.is_other:
            plan.forget()
            message = f"{plan.piece.title} is started twice in one run, with different inputs; give each its own key"
            raise UsageError(message, piece=plan.piece.id)
        changes: list[PieceChange] = []
        for each in plan:
            changes += self._changes(each, asked.tx)
        if changes:
            try:
                self._make(changes, asked.tx, is_asked=True)
            except BaseException:
                plan.forget()
                raise
        return plan.piece

    def _changes(self, plan: PiecePlan, tx: Transaction | None) -> list[PieceChange]:
        """Including former parts."""
        change = plan.change
        if change is None or change.after is None:
            return []
        former = () if change.before is None else change.before.parts
        gone = [part for part in former if part not in change.after.parts]
        return [*(each for part in gone for each in self._planner.stop(part, tx)), change]

    def _around(self) -> Transaction | None:
        """The transaction of this space that this code is part of."""
        frame = CONTEXT.get()
        while frame is not None:
            if frame.space is self._space and frame.tx is not None and frame.tx.is_open:
                return frame.tx
            frame = frame.outer
        return None

    # -- stopping ------------------------------------------------------------------------------------------

    def stop(self, piece: Piece[Any]) -> None:
        """As `piece.stop()`."""
        space = self._space
        space.check_open()
        check_crossing(space, piece.title, "stopped")
        tx = self._around()
        with space.lock:
            self.catch_up()
            if not piece.is_running:
                return
            self._check_stop(piece)
            self._make(list(self._planner.stop(piece, tx)), tx, is_asked=True)
        if tx is None:
            space.catch_up()

    def _check_stop(self, piece: Piece[Any]) -> None:
        parent, whole = piece.parent, piece.whole
        if whole is not None and whole.wanted is not None and piece in whole.wanted.parts:
            message = f"{piece.title} cannot be stopped by itself: it is part of {whole.title}; stop that"
            raise UsageError(message, piece=piece.id)
        if parent is not None and piece.id in self._children.get(parent, ()):
            message = f"{piece.title} cannot be stopped: {parent.title} has it as a child as long as it asks for it"
            raise UsageError(f"{message}; have it ask no more", piece=piece.id)

    def removed(self, node: Node) -> None:
        """Stop the pieces of a function that was removed."""
        self._asked.pop(node, None)
        children = self._children.pop(node, None)
        if children and not self._space.closed:
            self._stop_all(children.values())

    def after(self, attempt: Attempt) -> None:
        """At the end of a run, stop children that it did not start again, in the same pass.

        A failed run keeps its children.
        """
        node = attempt.node
        children = self._children.get(node)
        if children is None:
            return
        self.sleeping.watch(node)
        run, asked = self._asked.pop(node, (None, set[str]()))
        if node.error is not None:
            return
        gone = [piece for piece in children.values() if run is not attempt.tx or piece.id not in asked]
        for piece in gone:
            del children[piece.id]
        if not children:
            del self._children[node]
        self._stop_all(gone)

    def _stop_all(self, pieces: Sequence[Piece[Any]] | Any) -> None:  # noqa: ANN401
        changes = [change for piece in pieces for change in self._planner.stop(piece, None)]
        if changes:
            self._make(changes, None)

    # -- what comes of it ----------------------------------------------------------------------------------

    def _make(self, changes: list[PieceChange], tx: Transaction | None, *, is_asked: bool = False) -> None:
        """Write and activate a plan. In a transaction, it is active when that is sent."""
        written = [each for change in changes for each in change_operations(change.doc, change.stored, change.value)]
        is_run = tx is not None and isinstance(tx.node, Node)
        if tx is not None and not is_run:
            _write(tx, written)
        elif written:
            sent = self._space.replica.commit(written)
            if tx is None and is_asked:
                self._undecided[id(changes)] = changes
                sent.on_settled(lambda sent: self._soon(partial(self._decided, changes, is_stored=sent.accepted)))
        for change in changes:
            self._want(change.piece, change.after)
        pieces = [change.piece for change in changes]
        undo = partial(self._undo, changes, tx, is_run=tx is None or is_run)
        try:
            if tx is None or is_run:
                self.work.bring(pieces)
            else:
                self.work.bring_handlers(pieces)
        except BaseException:
            undo()
            raise
        if tx is None or (is_run and changes[-1].after is None):
            # A run may stop a piece, its own included.
            return
        # I10: it survives only if its transaction is committed.
        for piece in pieces:
            self._origins[piece.id] = tx
        self._undecided[id(changes)] = changes
        bring = partial(self._soon, partial(self._bring, changes, pieces, tx))
        # After everything is undone, so that nothing runs in between.
        self._space.scheduler.origins.attach(tx, partial(self._soon, undo), bring)
        if not is_run:
            self._unsent.setdefault(id(tx), []).append(changes)
            tx.on_sent = (*tx.on_sent, bring)

    def _decided(self, changes: list[PieceChange], *, is_stored: bool) -> None:
        """A change outside of a transaction has a verdict: undo what could not be stored, as on a full disk."""
        if is_stored:
            self._undecided.pop(id(changes), None)
        else:
            self._undo(changes, None, is_run=False)

    def _hand_down(self, changes: list[PieceChange]) -> None:
        """A change is undone. If the next one of its piece is undone as well, the piece is what it was before both."""
        later: list[list[PieceChange]] = []
        for key in reversed(self._undecided):
            if key == id(changes):
                break
            later.append(self._undecided[key])
        else:
            return
        del self._undecided[id(changes)]
        undone = {change.piece.id: change for change in changes}
        for each in reversed(later):
            for index, change in enumerate(each):
                former = undone.pop(change.piece.id, None)
                if former is not None and change.before is former.after:
                    each[index] = change._replace(before=former.before)

    def _sent(self, tx: Transaction) -> None:
        """A transaction was sent: its changes come after those that other threads have made since."""
        unsent = self._unsent.pop(id(tx), ())
        last = {change.piece.id: change for changes in unsent for change in changes}
        overtaken = {id_: change for id_, change in last.items() if self._is_overtaken(change)}
        for changes in unsent:
            if id(changes) in self._undecided:
                # In the order in which they are undone.
                self._undecided[id(changes)] = self._undecided.pop(id(changes))
            for index, change in enumerate(changes):
                late = overtaken.pop(change.piece.id, None)
                if late is not None:
                    changes[index] = change._replace(before=change.piece.wanted)
                    self._want(change.piece, late.after)

    def _is_overtaken(self, change: PieceChange) -> bool:
        """Whether a piece is not what its document says after this change: another thread has changed it before."""
        if change.piece.wanted is change.after:
            return False
        document, meant = self._space.replica.read(change.doc), change.value
        if not isinstance(document, Mapping) or not isinstance(meant, Mapping):
            return False
        told = ("status",) if change.after is None else ("status", "given")
        return all(same(document.get(name), meant.get(name)) for name in told)

    def _bring(self, changes: list[PieceChange], pieces: list[Piece[Any]], tx: Transaction) -> None:
        """A transaction was sent, or decided."""
        if not tx.is_open and tx.local_seq is not None:
            self._sent(tx)
        if tx.status in SETTLED:
            self._undecided.pop(id(changes), None)
        for piece in pieces:
            if tx.status in SETTLED and self._origins.get(piece.id) is tx:
                del self._origins[piece.id]
        self.work.bring(pieces)

    def claim(self, piece: Piece[Any], tx: Transaction | None) -> bool:
        """Start an active, unchanged piece again. It then stays, even if the transaction that started it fails.

        Returns whether it must be built again, so that this transaction writes it, too.
        """
        origin = self._origins.get(piece.id)
        if origin is None or origin is tx or origin.status in SETTLED or piece.wanted is None:
            return False
        if not isinstance(origin.node, Node):
            return True
        # A piece of a run is written by its own transaction: it must only not be undone.
        mine = replace(piece.wanted)
        if piece.at_work is piece.wanted:
            self.work.relabel(piece, mine)
        self._want(piece, mine)
        return False

    def _want(self, piece: Piece[Any], build: Build[Any] | None) -> None:
        piece.wanted = build
        if build is None:
            self.sleeping.forget(piece)
            self.running.pop(piece.id, None)
        else:
            piece.build = build
            self.running[piece.id] = piece

    def _forget_unsent(self, changes: list[PieceChange], tx: Transaction | None) -> None:
        left = [each for each in self._unsent.pop(id(tx), ()) if each is not changes]
        if left:
            self._unsent[id(tx)] = left

    def _undo(self, changes: list[PieceChange], tx: Transaction | None, *, is_run: bool) -> None:
        """Restore the former state of each piece, except for later changes."""
        self._forget_unsent(changes, tx)
        self._hand_down(changes)
        undone = [change for change in reversed(changes) if change.piece.wanted is change.after]
        for change in undone:
            piece = change.piece
            self._want(piece, change.before)
            if change.before is None and piece.parent is not None:
                self._children.get(piece.parent, {}).pop(piece.id, None)
                if not self._children.get(piece.parent, True):
                    del self._children[piece.parent]
        if self._space.closed:
            return
        if is_run:
            back = [each for change in undone for each in change_operations(change.doc, change.value, change.stored)]
            if back:
                self._space.replica.commit(back)
        pieces = [change.piece for change in undone]
        if tx is None or (tx.is_open and is_run):
            self.work.bring(pieces)
        elif tx.is_open:
            # A savepoint was rolled back: the rest is not sent yet.
            self.work.bring_handlers(pieces)

    def _soon(self, what: Callable[[], None]) -> None:
        """Do it at once, unless another thread has the lock and may wait for this one."""
        if not self._space.lock.acquire(blocking=False):
            self._due.append(what)
            self._space.catch_up_soon()
            return
        try:
            self.catch_up()
            what()
        finally:
            self._space.lock.release()

    @property
    def is_due(self) -> bool:
        """Whether another thread has left work."""
        return bool(self._due)

    def catch_up(self) -> None:
        """Do work that other threads have left. The caller holds the lock."""
        while self._due:
            self._due.popleft()()

    def is_taken_back(self, title: object) -> bool:
        """Whether the transaction that started a piece is being rolled back: its functions will be removed in a moment.

        Their errors until then are not reported.
        """
        started = [self.running[id_] for id_ in self._origins if id_ in self.running]
        return any(piece.title == title and self._space.replica.read(doc_key(piece.id)) is ABSENT for piece in started)

    def why_not(self, id_: str) -> str:
        """Why a piece takes no events, and what to do."""
        piece = self.running.get(id_)
        if piece is None or piece.parent is None or not piece.asleep:
            return "the piece is stopped; start it again with space.start(...)"
        return f"the piece is dormant while nothing observes {piece.parent.title}; read that in a sink"

    def captioned(self, words: str) -> str:
        """The text with `n of timer kitchen` in place of the address of an active piece's document."""

        def name(found: re.Match[str]) -> str:
            piece = self.running.get(found[1])
            return found[0] if piece is None else f"{found[2] or 'inputs'} of {piece.title}"

        return _OF_PIECE.sub(name, words) if "+" in words else words

    def sweep(self) -> None:
        """Release the documents of stopped pieces."""
        with self._space.lock:
            self.work.sweep()
            self.running = shrunk(self.running)


def _write(tx: Transaction, written: list[Operation]) -> None:
    for each in written:
        if isinstance(each, PatchDoc):
            for step in each.ops:
                tx.patch(each.doc, step)
        elif isinstance(each, DeleteDoc):
            tx.delete(each.doc)
        else:
            tx.set(each.doc, (), each.value)


def _check(pattern: object, key: object) -> None:
    if not isinstance(pattern, Pattern):
        raise UsageError(f"{pattern!r} cannot be started: a function with @hw.pattern in front is expected")
    if not isinstance(key, str):
        raise UsageError(f"{key!r} is no key of a piece of {pattern.name}: a text is expected")
