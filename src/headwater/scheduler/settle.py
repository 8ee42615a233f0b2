"""Keeping results current: a change makes its readers invalid, and what a sink shows is made valid again.

A sink is always wanted. A computation is run when somebody who is wanted, or a caller, asks for its value while it is
invalid, and never otherwise. Writers run before readers: a sink is run after every computation above it that may
have changed, and only if one of them did.

Must never know: apps, event loops, threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from headwater.cells.here import HERE, Frame
from headwater.cells.home import Home
from headwater.cells.journal import Entry
from headwater.cells.transaction import Transaction
from headwater.cells.traverse import BREADTH
from headwater.errors import UserCodeError
from headwater.scheduler.node import Node, Signal, Status
from headwater.scheduler.readers import Readers
from headwater.scheduler.trouble import RUNS_MAX, circular, restless, shown, told
from headwater.values.change import Notification
from headwater.values.hints import freeze_with
from headwater.values.ids import DocId, DocKey
from headwater.values.link import Link
from headwater.values.match import touches
from headwater.values.schema import Schema

NESTED_MAX: Final = 40
"""Functions that call each other for the first time, one within another. Each takes seven frames or so of Python's
stack, of which a thousand are usual, and authors want some, too."""


class _TooDeep(BaseException):  # no error: authors' code must not catch it
    """A computation has to run, and the stack is full of others that wait for it: they make way."""

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self.node = node


COMPUTED: Final = "{}() is computed and may not write {{}}; move the write to a @app.handler"
"""What a computed function is told that writes: for `Transaction.read_only`."""


class Scheduler:
    """The nodes of one open space."""

    def __init__(self, home: Home, report: Callable[[UserCodeError], None]) -> None:
        self._home = home
        self._report = report
        self._readers = Readers()
        self._sinks: list[Node] = []
        self._by_result: dict[DocKey, Node] = {}
        # Became invalid since a pass last looked. Others may append while one that runs takes.
        self._changed: deque[Node] = deque()
        self._settling = False
        # Computations that run within one another now.
        self._within: list[Node] = []
        # Somebody further out takes care of what does not fit the stack.
        self._pulling = False
        # Computations that are invalid: while there are none, every one that is clean is valid, too.
        self._outdated: set[Node] = set()
        self._closed = False
        self._count = 0
        self._unlisten = home.replica.listen(self._on_change, self._readers)

    # -- nodes ---------------------------------------------------------------------------------------------

    def add_computation(self, name: str, fn: Callable[[], object], result: DocKey, schema: Schema) -> Node:
        """A function whose result is kept in a document of its own."""
        node = Node(name=name, fn=fn, order=self._next(), result=result, schema=schema)
        self._by_result[result] = node
        # Whoever has read it from another that was declared before, as in a notebook.
        self._wake_readers(node)
        return node

    def add_sink(self, name: str, fn: Callable[[], object]) -> Node:
        """A function that is run for what it does, as often as what it reads changes."""
        node = Node(name=name, fn=fn, order=self._next())
        self._sinks.append(node)
        self._invalid(node)
        return node

    def remove(self, node: Node) -> None:
        """Never run it again, and forget what it read."""
        self._readers.replace(node, [])
        self._outdated.discard(node)
        if node in self._sinks:
            self._sinks.remove(node)
        if node.result is not None and self._by_result.get(node.result) is node:
            del self._by_result[node.result]

    def close(self) -> None:
        """Run nothing any more."""
        self._closed = True
        self._unlisten()
        self._sinks.clear()
        self._changed.clear()

    def _next(self) -> int:
        self._count += 1
        return self._count

    # -- changes -------------------------------------------------------------------------------------------

    def _on_change(self, notification: Notification) -> None:
        """A value changed. Nothing runs here."""
        for change in notification.changes:
            for node in self._readers.concerned(change):
                # One that is at work looks for itself, when it is done, whether what it has read is still so.
                if not node.reading and node.tx is not notification.source:
                    node.signal(Signal.CHANGED)
                    self._invalid(node)

    def _invalid(self, node: Node) -> None:
        if node.result is not None:
            self._outdated.add(node)
        if not node.queued:
            node.queued = True
            self._changed.append(node)
        self._home.restless = True

    def _take(self) -> dict[Node, None]:
        """What became invalid since the last look, and still is: a caller may have had it run."""
        # Before the look: what comes after it is for the next one.
        self._home.restless = False
        taken: dict[Node, None] = {}
        while self._changed:
            node = self._changed.popleft()
            node.queued = False
            if node.status is not Status.CLEAN:
                taken[node] = None
        return taken

    def _wake_readers(self, node: Node) -> None:
        """A computation fails, or no longer does, or is another: its result stays, what its callers get does not."""
        if node.result is not None:
            for reader in self._readers.of_doc(node.result):
                if reader is not node and not reader.running:
                    reader.signal(Signal.CHANGED)
                    self._invalid(reader)

    # -- running -------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Run what is wanted until it is all valid."""
        if self._settling:
            return
        self._settling = True
        runs: dict[Node, int] = {}
        found: dict[Node, None] = {}
        try:
            while changed := self._take():
                found = self._downstream(changed)
                maybe = dict(found)
                for sink in [sink for sink in self._sinks if sink in found]:
                    self._ensure(sink, maybe, runs)
        except BaseException:
            # An interrupt, or an error handler that raised: who was not reached has still to run.
            for node in found:
                if node.status is not Status.CLEAN:
                    self._invalid(node)
            raise
        finally:
            self._settling = False

    def _downstream(self, changed: dict[Node, None]) -> dict[Node, None]:
        """The nodes, and everyone who reads their results, directly or not."""
        found = dict(changed)
        todo = list(changed)
        while todo:
            result = todo.pop().result
            if result is not None:
                fresh = [reader for reader in self._readers.of_doc(result) if reader not in found]
                found.update(dict.fromkeys(fresh))
                todo += fresh
        return found

    def _ensure(self, node: Node, maybe: dict[Node, None], runs: dict[Node, int]) -> None:
        """Make a node valid: what it read first, then, if any of that is different now, itself.

        Without recursion: chains may be longer than Python's stack.
        """
        todo: list[tuple[Node, Iterator[Node]]] = []
        self._enter(node, maybe, todo)
        while todo:
            current, above = todo[-1]
            if not any(self._enter(other, maybe, todo) for other in above):
                todo.pop()
                self._renew(current, runs)

    def _enter(self, node: Node, maybe: dict[Node, None], todo: list[tuple[Node, Iterator[Node]]]) -> bool:
        """Whether a node has to be looked at; then it is next, before the one that reads it."""
        if self._closed or node not in maybe or node.running:
            return False
        del maybe[node]
        above = [self._by_result[entry.doc] for entry in node.reads if entry.doc in self._by_result]
        todo.append((node, iter(above)))
        return True

    def _renew(self, node: Node, runs: dict[Node, int]) -> None:
        """Run a node unless it is valid, within bounds."""
        if node.status is Status.CLEAN:
            return
        count = runs[node] = runs.get(node, 0) + 1
        if count > RUNS_MAX:
            if count == RUNS_MAX + 1:
                self._report(restless(node))
            return
        for _ in range(RUNS_MAX):
            if node.is_clean:
                return
            try:
                self._attempt(node)
            except _TooDeep as deep:
                if self._within or self._pulling:
                    raise
                # What it waits for goes first. If that fails, it will be told when it asks again.
                with suppress(Exception):
                    self.pull(deep.node)
            else:
                return
        self._report(restless(node))

    def pull(self, node: Node) -> None:
        """A caller wants the value of a computation: make it valid, or raise what it raised.

        However long the chain is that it is the end of: if too many wait within each other, they are stopped, the one
        that they wait for is run first, and they again. Sinks are not stopped; what they have done is done.
        """
        if self._within or self._pulling:
            self._pull(node)
            return
        self._pulling = True
        try:
            self._pull_in_turn(node)
        finally:
            self._pulling = False

    def _pull_in_turn(self, node: Node) -> None:
        waiting = [node]
        while waiting:
            try:
                self._pull(waiting[-1])
            except _TooDeep as deep:
                if deep.node in waiting:
                    raise circular(deep.node) from None
                waiting.append(deep.node)
                continue
            except Exception:
                if len(waiting) == 1:
                    raise
                # Whoever asked for it will be told when it asks again.
            waiting.pop()

    def _pull(self, node: Node) -> None:
        if node.running:
            raise circular(node)
        if len(self._within) >= NESTED_MAX and node.status is not Status.CLEAN:
            raise _TooDeep(node)
        if not self._is_surely_valid(node):
            self._make_valid(node)
        if node.error is not None:
            # From where it was raised, and not from everywhere it was raised again.
            raise node.error.with_traceback(node.trace)

    def _is_surely_valid(self, node: Node) -> bool:
        """Told without a walk: it is clean, nothing above can be outdated, and nobody who asks can be above it."""
        if node.status is not Status.CLEAN or self._outdated:
            return False
        # One that has never finished is above nobody.
        return all(not other.rank or node.rank < other.rank for other in self._within)

    def _make_valid(self, node: Node) -> None:
        for _ in range(RUNS_MAX):
            runs, above = node.runs, self._upstream(node)
            self._ensure(node, dict(above), {})
            if node.status is Status.CLEAN:
                break
            # What it read was changed while it ran: once more.
        else:
            raise restless(node)
        if node.runs == runs:
            # It is as it was: made, among others, from what is asking for it now?
            for other in above:
                if other.running:
                    raise circular(other)

    def _upstream(self, node: Node) -> dict[Node, None]:
        """The node and everything above it: what `_ensure` may have to look at."""
        found = {node: None}
        todo = [node]
        while todo:
            for entry in todo.pop().reads:
                above = self._by_result.get(entry.doc)
                if above is not None and above not in found:
                    found[above] = None
                    todo.append(above)
        return found

    def _attempt(self, node: Node) -> None:
        """One run, one transaction."""
        home = self._home
        computed = node.result is not None
        read_only = COMPUTED.format(node.name) if computed else ""
        tx = home.begin(f"{node.name}()", read_only=read_only, cause=["run", node.name, node.order])
        token = HERE.set(Frame(home, tx, HERE.get()))
        node.signal(Signal.STARTED)
        self._outdated.discard(node)
        failed = shown(node.error)
        node.tx, node.error, node.trace = tx, None, None
        node.running = node.reading = True
        node.runs += 1
        if computed:
            self._within.append(node)
        try:
            self._finish(node, tx, node.fn())
        except Exception as error:  # noqa: BLE001  # whatever an author's function raises is the author's
            node.error, node.trace = error, error.__traceback__
            if tx.journal:
                # What it had read until then is what may mend it.
                self._subscribe(node, tx)
        except BaseException:
            # An interrupt, or a place to be made: as if it had not been started.
            node.runs -= 1
            node.signal(Signal.TAKEN_BACK)
            self._invalid(node)
            raise
        finally:
            node.running = node.reading = False
            if computed:
                self._within.pop()
            HERE.reset(token)
            if tx.is_open:
                tx.abort()
        if computed and shown(node.error) != failed:
            self._wake_readers(node)
        if node.error is not None and not computed:
            self._report(told(node, home.name))

    def _finish(self, node: Node, tx: Transaction, result: object) -> None:
        if node.result is not None and node.schema is not None:
            tx.read_only = ""
            value = freeze_with(node.schema, result, f"the result of {node.name}()")
            narrowest = max((doc.partition("/")[0] for doc in tx.journal.docs()), key=_breadth, default="space")
            if narrowest == "space":
                tx.set(node.result, (), value)
            else:
                # Made of what is one user's own, so it is that user's own: in everybody's place stands a link that
                # leads each reader to his.
                doc = DocId(node.result.partition("/")[2])
                tx.set(DocKey(f"{narrowest}/{doc}"), (), value)
                tx.set(node.result, (), Link(doc=doc, scope=narrowest.partition(":")[0]).to_value())
        self._subscribe(node, tx)
        tx.on_settled(lambda settled: self._settled(node, settled))
        tx.commit()

    def _subscribe(self, node: Node, tx: Transaction) -> None:
        """From here on the node is told of changes of what it read; what changed since it looked is found here.

        A transaction with writes is not looked through: it is rejected for the same reason when it is committed.
        """
        # Without their marks, which hold on to all layers that were there.
        reads = [Entry(entry.doc, entry.path, entry.depth) for entry in tx.journal.dependencies()]
        node.reading = False
        self._readers.replace(node, reads)
        above = [self._by_result[entry.doc].rank for entry in reads if entry.doc in self._by_result]
        node.rank = max(above, default=0) + 1
        if not tx.is_open or tx.has_writes:
            return
        read = self._home.replica.read
        for entry in reads:
            seen, now = tx.look(entry.doc), read(entry.doc)
            if seen is not now and touches(entry.path, entry.depth, seen, now):
                node.signal(Signal.TAKEN_BACK)
                self._invalid(node)
                return

    def _settled(self, node: Node, tx: Transaction) -> None:
        """The store has decided on a run. One that was taken back has to be done again."""
        if tx.is_rejected and node.tx is tx and node.status is not Status.NEVER_RAN:
            node.signal(Signal.TAKEN_BACK)
            self._invalid(node)


def _breadth(instance: str) -> int:
    """How narrow a scope is, by the name of its instance."""
    return BREADTH[instance.partition(":")[0]]
