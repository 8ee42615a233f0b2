"""The names of an open space that authors use, in plain code and in an event loop alike.

A facade: it holds the runtime and forwards to it. Everything else of a runtime is internal: `dir(space)` is the
reference.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast, overload

from headwater.cells.binding import HandleCopies
from headwater.cells.cell import Cell
from headwater.cells.display import record_html
from headwater.cells.document_class import Doc
from headwater.cells.space_port import TransactionBlock
from headwater.cells.untyped_document import AnyDoc
from headwater.declare.patterns.pattern import Pattern
from headwater.declare.patterns.piece import Piece
from headwater.runtime.connection import Connection
from headwater.runtime.console_port import OnConsole
from headwater.runtime.error_report import OnError
from headwater.runtime.inspection_port import GraphForm
from headwater.runtime.restore import Resumption
from headwater.runtime.space_runtime import SpaceRuntime
from headwater.runtime.stats import Stats
from headwater.scheduler.graph.node import Node
from headwater.scheduler.scheduler import Scheduler
from headwater.values.ids import BranchId

if TYPE_CHECKING:
    from headwater.host.workflow_host import Workflows

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")
D = TypeVar("D", bound=Doc)


class SpaceFacade(HandleCopies, ABC):
    """What `hw.Space` and `hw.AsyncSpace` have in common."""

    __slots__ = ("__weakref__", "_runtime")

    def __init__(self, runtime: SpaceRuntime) -> None:
        self._runtime = runtime

    def __repr__(self) -> str:
        runtime = self._runtime
        state = "closed" if runtime.closed else f"open, at {runtime.replica.seq}"
        return f"<{type(self).__name__} {runtime.name!r}: {state}>"

    def _repr_html_(self) -> str:
        stats = self.stats
        rows = [(name, getattr(stats, name)) for name in stats.__struct_fields__ if name != "space"]
        return record_html(self.name, "closed space" if self.closed else "open space", rows)

    # -- identity ------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name of the space."""
        return self._runtime.name

    @property
    def branch(self) -> BranchId:
        """The branch that it was opened at."""
        return self._runtime.branch

    @property
    def actor(self) -> str | None:
        """The user that cells of scope user and session belong to."""
        return self._runtime.actor

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._runtime.closed

    # -- data ----------------------------------------------------------------------------------------------

    def transaction(self, *, change_group: str | None = None) -> TransactionBlock:
        """A block whose writes are committed together. Sinks of the same change group are not notified."""
        return self._runtime.transaction(change_group=change_group)

    @overload
    def cell(self, address: str, type: type[T], *, default: T = ...) -> Cell[T]: ...
    @overload
    def cell(self, address: str) -> Cell[object]: ...
    def cell(self, address: str, type: Any = None, *, default: Any = ...) -> Cell[Any]:  # noqa: A002  # as in app.cell
        """The cell at an address, such as `todo.board/items/0`, of a type if one is given."""
        return self._runtime.cell(address, type, default=default)

    @overload
    def doc(self, doc_id: str, kind: type[D]) -> D: ...
    @overload
    def doc(self, doc_id: str) -> AnyDoc: ...
    def doc(self, doc_id: str, kind: type[Doc] = AnyDoc) -> Doc:
        """The document with an id, as a class of yours, or with the fields it has; `user:ann!...` as in `cell`."""
        return self._runtime.doc(doc_id, kind)

    async def synced(self) -> None:
        """Wait, without blocking the event loop, until everything written so far is on disk."""
        await self._runtime.synced()

    # -- functions -----------------------------------------------------------------------------------------

    def start(self, pattern: Pattern[P, R], key: str, /, *args: P.args, **inputs: P.kwargs) -> Piece[R]:
        """Start a piece of a pattern under a key, or continue it: `space.start(timer, "kitchen", minutes=3)`.

        The same key is the same piece: with the same inputs nothing happens; with other inputs it is built again, and
        unchanged functions need not run. Without inputs it continues with its last ones. Called by a computed or sink,
        the piece is a child of that function: it is stopped when a run no longer asks for it. In a handler or a
        transaction, the start is part of it.
        """
        return self._runtime.start(pattern, key, *args, **inputs)

    @property
    def workflows(self) -> Workflows:
        """Execution of the workflows: `drain()` what is due, or `start()` a host in the background."""
        return cast("Workflows", self._runtime.workflows)

    # -- callbacks -----------------------------------------------------------------------------------------

    @property
    def on_error(self) -> OnError:
        """Called with errors of functions that run by themselves."""
        return self._runtime.on_error

    @on_error.setter
    def on_error(self, handler: OnError) -> None:
        self._runtime.on_error = handler

    @property
    def on_console(self) -> OnConsole | None:
        """Called with what functions print and log in their runs here, as `hw.Console`; returns what is forwarded."""
        return self._runtime.on_console

    @on_console.setter
    def on_console(self, handler: OnConsole | None) -> None:
        self._runtime.on_console = handler

    @property
    def connection(self) -> Connection:
        """The state of the connection to the server; of a space in this process, that there is none."""
        return self._runtime.connection

    def on_connection(self, callback: Callable[[Connection], None]) -> Callable[[], None]:
        """Call on every change of the connection: in the connection's thread, or in the loop of this space.

        Returns a function that unsubscribes. The callback must not wait for the server: the connection waits for it.
        """
        return self._runtime.on_connection(callback)

    # -- inspecting ----------------------------------------------------------------------------------------

    @property
    def stats(self) -> Stats:
        """Counts of what has happened here so far."""
        return self._runtime.stats

    def graph(self, form: GraphForm = "text") -> str:
        """The functions of this space and what lies between them, drawn: as text, "svg", "mermaid" or "json"."""
        return self._runtime.graph(form)

    def runs(self, function: object) -> int:
        """The number of runs of a function of the app in this opening; with parameters, for all arguments together.

        Of a resource: the number of requests sent.
        """
        return self._runtime.runs(function)

    def explain_resume(self) -> Resumption:
        """What this opening restored from earlier ones: which functions need not run, which must, and why."""
        return self._runtime.explain_resume()

    @property
    def nodes(self) -> Mapping[object, Node]:
        """The node of each function without parameters."""
        return self._runtime.nodes

    @property
    def scheduler(self) -> Scheduler:
        """The scheduler: statistics, traces, breakpoints, and options of nodes while the space is open."""
        return self._runtime.scheduler


def runtime_of(space: SpaceFacade) -> SpaceRuntime:
    """The runtime behind a space, for the rest of the package."""
    return space._runtime  # noqa: SLF001  # one place for all of the package
