"""A check that runs computations again and compares the results.

For tests. A second run with the same reads must have the same result and the same writes. A function that writes
besides its result runs a third time, on top of its writes: then nothing may change. These runs are in transactions that
are never committed. No count and no decision depends on them.

Restored nodes are checked in the same way: a run must have the restored result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from headwater.cells.replica import Replica
from headwater.cells.transaction import Transaction
from headwater.scheduler.graph.node import Node, titled
from headwater.scheduler.runs.attempt import Attempt
from headwater.scheduler.runs.immediate_retry import RetryImmediately
from headwater.scheduler.runs.pull import TooDeep
from headwater.scheduler.runs.runner import Runner
from headwater.scheduler.runs.steps import Perform
from headwater.values.address import Depth, address_text
from headwater.values.author_text import describe, safe_repr, same_message
from headwater.values.diff import differences
from headwater.values.ids import DocKey
from headwater.values.overlap import touches
from headwater.values.tree import ABSENT, Maybe

RAISED: Final = "what it raised"
"""The name of a difference between two errors, which have no place in a value."""

SHOWN_MAX: Final = 60
"""Characters of a value in a message: two of them and a place fit a line."""

ADVICE: Final = (
    "a computed may depend on cells and nothing else. Time: read hw.clock(every=...). Chance: keep a seed, or what was "
    "drawn, in a cell. Counting, collecting, asking the outside: in a handler, whose events come once each"
)


class Difference(msgspec.Struct, frozen=True):
    """A difference between two runs."""

    node: str
    place: str
    first: object
    second: object
    line: str = ""
    """The source location of the function: `search.py:11`."""
    on_top: bool = False
    """The second run was on top of the writes of the first."""
    piece: str = ""
    """The piece that it belongs to, if any."""
    restored: bool = False
    """The first value was restored from an earlier opening."""

    @property
    def head(self) -> str:
        """The function, and the kind of check."""
        name = titled(self.node if self.node.endswith(")") else f"{self.node}()", self.piece)
        where = f" {self.line}" if self.line else ""
        if self.restored:
            return f"{name}{where} was restored from an earlier opening, and a run has another result"
        how = "run again on top of what it had written" if self.on_top else "run again on the same inputs"
        return f"{name}{where} is not idempotent: {how}, it came out differently"

    @property
    def row(self) -> str:
        """The place, and the values of the first and of the second run."""
        return f"{self.place}: first {_told(self.first)}, then {_told(self.second)}"

    def __str__(self) -> str:
        return f"{self.head}\n  {self.row}\nfix: {ADVICE}"


class _Image(msgspec.Struct, frozen=True):
    """The reads and writes of a first run, taken before its commit."""

    # For the second.
    tx: Transaction
    seen: dict[DocKey, Maybe]
    written: dict[DocKey, Maybe]


def _is_far(node: Node) -> bool:
    """Whether it has read more than documents of its space, which a repeated run would read as of now."""
    return node.rare.has_far or bool(node.rare.spans)


def _copy_of(tx: Transaction) -> Transaction:
    """A new transaction for the same work, with the same snapshots and without the writes."""
    other = Transaction(tx.replica, tx.name, read_only=tx.read_only, cause=tx.cause)
    other.node, other.triggers, other.surface = tx.node, tx.triggers, tx.surface
    other._seen = dict(tx._seen)  # noqa: SLF001  # nothing else copies a transaction
    return other


class IdempotencyCheck:
    """The idempotency check."""

    def __init__(self, runner: Runner, replica: Replica, perform: Perform) -> None:
        self._runner = runner
        self._replica = replica
        # Calls a function for a repeated run; a test may suppress its output.
        self.perform = perform
        self.differences: list[Difference] = []

    def check_idempotency(self, *, on: bool) -> None:
        """Turn the check on or off."""
        self._runner.before = self._take_image if on else None
        self._runner.after = self._recheck if on else None

    def _take_image(self, attempt: Attempt) -> None:
        node, tx = attempt.node, attempt.tx
        # An effect need not be idempotent. A suspended run cannot be compared: its surroundings have changed meanwhile.
        # An attempt that has started something would start it twice.
        if node.outputs and not node.spec.is_async and not tx.launched and not tx.followers and not _is_far(node):
            written = dict(tx.written())
            seen = {doc: tx.snapshot_of(doc) for doc in [*(doc for doc, _, _ in node.reads), *written]}
            attempt.image = _Image(_copy_of(tx), seen, written)

    def _recheck(self, attempt: Attempt) -> None:
        image, attempt.image = attempt.image, None
        if not isinstance(image, _Image) or self._has_moved(attempt.node, image):
            return
        found = self._same_again(attempt, image)
        if not found and image.written and attempt.node.rare.error is None:
            found = self._on_top(attempt)
        if not self._has_moved(attempt.node, image):
            self.differences += found

    def _has_moved(self, node: Node, image: _Image) -> bool:
        """Whether a read of the first run has changed, except by its own writes."""
        if not node.is_clean or node.removed:
            return True
        for doc, path, bits in node.reads:
            if doc not in image.written:
                seen, now = image.seen[doc], self._replica.read(doc)
                if seen is not now and touches(path, Depth.SHALLOW if bits else Depth.DEEP, seen, now):
                    return True
        return False

    def check_restored(self, nodes: Iterable[Node], valid: Callable[[Node], bool]) -> None:
        """Run restored nodes that have not run since, if their inputs are valid: the results must be the same.

        A function with another result depends on something that no run can observe, or was restored wrongly.
        """
        for node in list(nodes):
            spec = node.spec
            if (
                not node.restored
                or node.runs
                or not node.outputs
                or spec.is_async
                or node.removed
                or _is_far(node)
                or not valid(node)
            ):
                continue
            tx = Transaction(self._replica, node.title, read_only=spec.read_only, cause=node.cause)
            tx.node, tx.surface = node, node.rare.surface
            again = self._run(node, tx)
            if again is None:
                continue
            if again.error is not None:
                places: list[tuple[str, object, object]] = [(RAISED, None, again.error)]
            else:
                made = [(node.outputs[0], node.to_stored(again.result)), *tx.written()]
                places = [
                    (address_text(doc, path), one, other)
                    for doc, value in made
                    for path, one, other in differences(self._replica.read(doc), value)
                ]
            self._give_up(again)
            found = [Difference(node.name, *each, _line(node), piece=node.piece, restored=True) for each in places]
            self.differences += found

    # -- once more -----------------------------------------------------------------------------------------

    def _same_again(self, attempt: Attempt, image: _Image) -> list[Difference]:
        node = attempt.node
        again = self._run(node, image.tx)
        if again is None:
            return []
        value: Maybe = ABSENT
        if again.error is None:
            try:
                value = node.to_stored(again.result)
            except Exception as refused:  # noqa: BLE001  # what an author's function returns is the author's
                again.error = refused
        found = list(self._raised(node, again.error))
        if not found and again.error is None:
            found += self._places(node, node.outputs[0], node.to_stored(attempt.result), value)
            second = dict(again.tx.written())
            for doc in dict.fromkeys([*image.written, *second]):
                base = image.seen[doc] if doc in image.seen else again.tx.snapshot_of(doc)
                found += self._places(node, doc, image.written.get(doc, base), second.get(doc, base))
        self._give_up(again)
        return found

    def _on_top(self, attempt: Attempt) -> list[Difference]:
        node, first = attempt.node, attempt.tx
        # Under the same name, which is part of error messages.
        tx = Transaction(self._replica, first.name, read_only=node.spec.read_only, cause=first.cause)
        tx.node, tx.triggers, tx.surface = node, first.triggers, node.rare.surface
        again = self._run(node, tx)
        if again is None:
            return []
        found = list(self._raised(node, again.error, on_top=True))
        if not found:
            for doc, value in tx.written():
                found += self._places(node, doc, self._replica.read(doc), value, on_top=True)
        self._give_up(again)
        return found

    def _run(self, node: Node, tx: Transaction) -> Attempt | None:
        """Run the function again. None: it asked for a retry, or for stack, and is not compared."""
        runner = self._runner
        again = Attempt(runner, node, tx, self._replica.version, 0.0, node.fn, pulled=True)
        runner.stack.append(node)
        node.running = True
        try:
            self.perform(again)
        except (RetryImmediately, TooDeep):
            self._give_up(again)
            return None
        except BaseException:
            self._give_up(again)
            raise
        finally:
            node.running = False
            runner.stack.pop()
        return again

    @staticmethod
    def _give_up(again: Attempt) -> None:
        if again.tx.is_open:
            again.tx.abort()

    # -- what differs --------------------------------------------------------------------------------------

    def _raised(self, node: Node, second: Exception | None, *, on_top: bool = False) -> Iterator[Difference]:
        if not same_message(second, node.rare.error):
            yield Difference(node.name, RAISED, node.rare.error, second, _line(node), on_top, node.piece)

    def _places(
        self, node: Node, doc: DocKey, first: Maybe, second: Maybe, *, on_top: bool = False
    ) -> Iterator[Difference]:
        for path, one, other in differences(first, second):
            yield Difference(node.name, address_text(doc, path), one, other, _line(node), on_top, node.piece)


def _line(node: Node) -> str:
    code = getattr(node.origin, "__code__", None)
    return "" if code is None else f"{code.co_filename.replace(chr(92), '/').rpartition('/')[2]}:{code.co_firstlineno}"


def _told(value: object) -> str:
    if value is ABSENT:
        return "nothing"
    if value is None:
        return "None"
    text = describe(value) if isinstance(value, Exception) else safe_repr(value)
    return text if len(text) <= SHOWN_MAX else f"{text[: SHOWN_MAX - 3]}..."
