"""The errors of authors' functions, as reported. Those of events are in `events/event_errors`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from headwater.cells.context import CONTEXT
from headwater.cells.transaction import Transaction
from headwater.errors import ClosedError, HeadwaterError, OfflineError, StoreError, UnavailableError, UserCodeError
from headwater.scheduler.graph.node import DocPath, FunctionHome, Node
from headwater.scheduler.scheduler_limits import RUNS_MAX
from headwater.store.commit import OriginCommitted, Refused
from headwater.values.address import address_text
from headwater.values.author_text import calls_of, describe

NOT_NOW: Final = (UnavailableError, OfflineError, ClosedError)
"""Errors after which a store or a server may accept the same commit later, or in the next opening."""


_SHOWN_MAX: Final = 8
"""Functions that a message names: of a longer circle, the first ones and the last."""


def is_final(error: HeadwaterError | None) -> bool:
    """Whether a retry would fail in the same way, as without a right. An error without a code may pass."""
    return error is not None and type(error) is not StoreError and not isinstance(error, NOT_NOW)


def is_forgotten(tx: Transaction) -> bool:
    """Whether a server had accepted this result as stored already, and has forgotten that since.

    Its commit was then sent again and required to follow from itself. Run again, it gets a new number.
    """
    verdict, number = tx.verdict, tx.local_seq
    return isinstance(verdict, Refused) and number is not None and verdict.unmet == OriginCommitted(number)


class ReportedFunction(Protocol):
    """A node or a handler, as reports use it."""

    @property
    def name(self) -> str:
        """The name of the function."""

    @property
    def runs(self) -> int:
        """The number of its runs."""

    @property
    def piece(self) -> str:
        """The piece that it belongs to."""


def facts_of(node: ReportedFunction, causes: Sequence[DocPath]) -> dict[str, object]:
    """The facts of every reported error: its function, and why that ran."""
    return {
        "piece": node.piece,
        "node": node.name,
        "event": None,
        "triggers": tuple(address_text(*cause) for cause in causes),
        "run": node.runs,
    }


def circular(node: Node, called: Node | None = None) -> UserCodeError:
    """The error for a computation that is called by one of its own inputs. It names the functions of the circle.

    `called` is the function that reads it, if that does not run itself.
    """
    circle = _circle(node)
    if called is not None and called.title not in circle:
        circle = (*circle, called.title)
    through = f": {' calls '.join((*circle, circle[0]))}" if circle else ", directly or through what it calls"
    message = f"{node.title} reads itself{through}; a value cannot be made of itself"
    return UserCodeError(message, node=node.name, circle=circle)


def _circle(node: Node) -> tuple[str, ...]:
    """The functions that run around this code, from the node on: in this and in other spaces."""
    runs: list[tuple[str, str]] = []
    frame = CONTEXT.get()
    while frame is not None:
        tx = frame.tx
        if tx is not None and tx.node is not None and (tx.name, frame.space.name) not in runs:
            runs.append((tx.name, frame.space.name))
            if tx.node is node:
                break
        frame = frame.outer
    else:
        return ()
    several = len({space for _, space in runs}) > 1
    shown = [f"{name} of space {space!r}" if several else name for name, space in reversed(runs)]
    return tuple(shown if len(shown) <= _SHOWN_MAX else (*shown[: _SHOWN_MAX - 1], "...", shown[-1]))


def restless(nodes: Sequence[Node], elsewhere: Sequence[str] = ()) -> UserCodeError:
    """The error for nodes that do not settle, and the functions of other spaces that make them run again."""
    names = ", ".join(f"{node.title}" for node in nodes)
    if elsewhere:
        names = f"{names} and {', '.join([*elsewhere[:_SHOWN_MAX], *(['others'] if elsewhere[_SHOWN_MAX:] else [])])}"
        then = f"do not settle: they ran {RUNS_MAX} times in turn, each time changing what another of them reads. "
        message = f"{names} {then}They are tried again, ever less often"
        return UserCodeError(
            message, nodes=tuple(node.name for node in nodes), elsewhere=tuple(elsewhere), **_first(nodes)
        )
    does = "does not settle: it" if len(nodes) == 1 else "do not settle: each"
    message = (
        f"{names} {does} ran {RUNS_MAX} times in one pass, each time changing what it or something above it reads. "
        "It is tried again, ever less often"
    )
    return UserCodeError(message, nodes=tuple(node.name for node in nodes), **_first(nodes))


def _first(nodes: Sequence[Node]) -> dict[str, object]:
    return facts_of(nodes[0], nodes[0].last_causes)


def function_error(node: Node, causes: Sequence[DocPath], space: str) -> UserCodeError:
    """The error of a function, with its place and the causes of the run."""
    error = node.rare.error
    message = f"{node.title} in space {space!r} raised {describe(error)}. It runs again when what it read changes"
    report = UserCodeError(message, space=space, **facts_of(node, causes))
    report.__cause__ = error
    return report


def no_result(node: Node) -> UserCodeError | None:
    """The error for a function that ended its own transaction: its result cannot be stored."""
    if not node.outputs:
        return None
    message = (
        f"{node.title} has ended its own transaction, with tx.abort() or tx.commit(), and so has no result; let the "
        "function return, or raise an exception"
    )
    return UserCodeError(message, node=node.name)


def unstored(node: Node, error: HeadwaterError) -> HeadwaterError:
    """The error for callers of a function whose first result the store does not take now."""
    message = f"the result of {node.title} could not be stored: {error.message}. It is tried again"
    return type(error)(message, **error.facts)


def unstorable(node: Node, tx: Transaction, *, is_over: bool = True) -> UserCodeError:
    """The report of a result that could not be stored."""
    found = tx.error or tx.verdict
    then = "It runs again when what it read changes" if is_over else "It is tried again, ever less often"
    message = f"the result of {node.title} could not be stored: {found}. {then}"
    report = UserCodeError(message, **facts_of(node, tx.triggers))
    report.__cause__ = tx.error
    return report


class Report(Protocol):
    """Reports an error of a function to the opening that the function belongs to."""

    def __call__(self, error: UserCodeError, home: FunctionHome | None = None, /) -> None: ...


class ErrorReports:
    """The listeners of errors: the default one, and those that subscribed."""

    def __init__(self, report: Callable[[UserCodeError], None]) -> None:
        self._report = report
        self._listeners: tuple[Callable[[UserCodeError], None], ...] = ()

    def report(self, error: UserCodeError, home: FunctionHome | None = None) -> None:
        """Call all listeners; the opening of the function, or the default one, is last. It may raise."""
        for listener in self._listeners:
            listener(error)
        if home is None:
            self._report(error)
        else:
            home.report(error)

    def listen(self, listener: Callable[[UserCodeError], None]) -> Callable[[], None]:
        """Add a listener. Returns the function that removes it."""
        # Wrapped, so that a listener that is added twice is called twice.
        entry: Callable[[UserCodeError], None] = lambda error: listener(error)  # noqa: E731, PLW0108
        self._listeners = (*self._listeners, entry)

        def end() -> None:
            self._listeners = tuple(other for other in self._listeners if other is not entry)

        return end


def set_error(node: Node, error: Exception | None) -> None:
    """Note the error of the last attempt that counts, and where it was raised."""
    if error is not None or node.rare.error is not None:
        rare = node.own_rare()
        rare.error, rare.trace = error, None if error is None else calls_of(error)


def store_recovered(node: Node) -> None:
    """The store takes its results again, or will never take the last one."""
    if node.rare.store_error is not None:
        node.rare.store_failures, node.rare.store_error = 0, None
