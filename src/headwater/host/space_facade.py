"""The names of an open space that authors use, in plain code and in an event loop alike.

A facade: it holds the opening and forwards to it. Everything else of an opening is internal: `dir(space)` is the
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
from headwater.errors import UnavailableError
from headwater.runtime.connection import Connection
from headwater.runtime.console_port import OnConsole
from headwater.runtime.error_report import ErrorMode, OnError, check_on_error, chosen
from headwater.runtime.inspection_port import GraphForm
from headwater.runtime.opening import Opening
from headwater.runtime.restore import Resumption
from headwater.runtime.stats import Stats
from headwater.scheduler.graph.node import Node
from headwater.scheduler.scheduler import Scheduler
from headwater.values.ids import BranchId, SpaceId

if TYPE_CHECKING:
    from headwater.host.workflow_host import Workflows

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")
D = TypeVar("D", bound=Doc)


class SpaceFacade(HandleCopies, ABC):
    """What `hw.Space` and `hw.AsyncSpace` have in common."""

    __slots__ = ("__weakref__", "_opening")

    def __init__(self, opening: Opening) -> None:
        self._opening = opening

    def __repr__(self) -> str:
        opening = self._opening
        state = "closed" if opening.closed else f"open, at {opening.replica.seq}"
        return f"<{type(self).__name__} {opening.name!r}: {state}>"

    def _repr_html_(self) -> str:
        stats = self.stats
        rows = [(name, getattr(stats, name)) for name in stats.__struct_fields__ if name != "space"]
        return record_html(self.name, "closed space" if self.closed else "open space", rows)

    # -- identity ------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name of the space."""
        return self._opening.name

    @property
    def id(self) -> SpaceId:
        """The id of the space: 20 letters and digits, made with its file. Renaming and moving the space keep it.

        Raises UnavailableError (HW201) if the server of the space does not tell it.
        """
        runtime = self._opening
        if not runtime.space_id:
            message = (
                f"the id of space {runtime.name!r} is not known: its server does not tell it; update the server, or "
                "connect once while it is reached"
            )
            raise UnavailableError(message, space=runtime.name)
        return runtime.space_id

    @property
    def branch(self) -> BranchId:
        """The branch that was opened."""
        return self._opening.branch

    @property
    def actor(self) -> str | None:
        """The user that the program acts for: the owner of cells with the scopes `"user"` and `"session"`."""
        return self._opening.actor

    @property
    def closed(self) -> bool:
        """Whether the space was closed."""
        return self._opening.closed

    # -- data ----------------------------------------------------------------------------------------------

    def transaction(self, *, change_group: str | None = None) -> TransactionBlock:
        """A block whose reads and writes are one transaction: `with space.transaction() as tx:`.

        All writes are committed, or none. An exception in the block rolls them back. A nested block is a savepoint.

        Args:
            change_group: A name. Sinks with the same name do not run for these writes.

        Returns:
            The context manager. It returns the `Transaction`.

        Raises:
            ConflictError: HW211. At the end of the block: a value that the block read has changed.
            ClosedError: HW103. The space is closed.

        Example:
            ```python
            import headwater as hw

            app = hw.App("bank")
            ann, bob = app.cell("ann", 100), app.cell("bob", 0)
            with app.open("memory:") as space:
                with space.transaction():
                    ann.value -= 30
                    bob.value += 30
                print(ann.value, bob.value)  # 70 30
            ```
        """
        return self._opening.transaction(change_group=change_group)

    @overload
    def cell(self, address: str, type: type[T], *, default: T = ...) -> Cell[T]: ...
    @overload
    def cell(self, address: str) -> Cell[object]: ...
    def cell(self, address: str, type: Any = None, *, default: Any = ...) -> Cell[Any]:  # noqa: A002  # as in app.cell
        """The cell at an address, for code that does not have the declaration.

        Args:
            address: The document, and the path in it: `todo.board/items/0`. `user:ann!todo.theme` is a cell of one
                user.
            type: The type of the value. Without it, values are plain lists, dicts and scalars.
            default: The value while none is stored.

        Returns:
            The cell.

        Raises:
            NameRefusedError: HW105. The address cannot be read.

        Example:
            ```python
            import headwater as hw

            app = hw.App("counter")
            count = app.cell("count", 7)
            with app.open("memory:") as space:
                count.value = 8
                print(space.cell("counter.count").value)  # 8
            ```
        """
        return self._opening.cell(address, type, default=default)

    @overload
    def doc(self, doc_id: str, kind: type[D]) -> D: ...
    @overload
    def doc(self, doc_id: str) -> AnyDoc: ...
    def doc(self, doc_id: str, kind: type[Doc] = AnyDoc) -> Doc:
        """The document with an id, for code that does not have it.

        Args:
            doc_id: The id, from `hw.id_of`, or the name of a declared document. `user:ann!NAME` belongs to one user.
            kind: The class of the document. Without it, every stored field is an attribute.

        Returns:
            The document.

        Raises:
            SchemaError: HW108. The document belongs to another class.

        Example:
            ```python
            import headwater as hw


            class Note(hw.Doc):
                text: str


            app = hw.App("notes")
            with app.open("memory:") as space:
                note_id = hw.id_of(Note(text="tea"))
                print(space.doc(note_id, Note).text)  # tea
            ```
        """
        return self._opening.doc(doc_id, kind)

    async def synced(self) -> None:
        """Wait, without blocking the event loop, until everything written so far is on disk.

        Raises:
            RejectedError: HW210. A transaction was rejected and rolled back.
            StoreFullError: HW203. The disk has no room.
        """
        await self._opening.synced()

    # -- functions -----------------------------------------------------------------------------------------

    def start(self, pattern: Pattern[P, R], key: str, /, *args: P.args, **inputs: P.kwargs) -> Piece[R]:
        """Start a piece of a pattern under a key, or continue it.

        The same key is the same piece. With the same inputs nothing happens; with other inputs the piece is built
        again, and unchanged functions do not run. Without inputs it continues with the last ones. In a computed
        function or a sink, the piece is a child of that function: it is stopped when a run no longer starts it. In a
        handler or a transaction, the start is part of the commit.

        Args:
            pattern: The pattern.
            key: The name of the piece in the space.
            args: Inputs of the pattern.
            inputs: Inputs of the pattern by name.

        Returns:
            The piece.

        Raises:
            TypeError: The inputs do not fit the pattern.
            DeclarationError: HW110. The function of the pattern declares something that is not possible.

        Example:
            ```python
            import headwater as hw


            @hw.pattern
            def counter(p: hw.Builder, first: int) -> dict[str, object]:
                return {"count": p.cell("count", first)}


            app = hw.App("desk")
            with app.open("memory:") as space:
                piece = space.start(counter, "left", first=3)
                print(piece.outputs["count"].value)  # 3
            ```
        """
        return self._opening.start(pattern, key, *args, **inputs)

    @property
    def workflows(self) -> Workflows:
        """The execution of the workflows: `drain()` executes what is due, `start()` starts a host in the background."""
        return cast("Workflows", self._opening.workflows)

    # -- callbacks -----------------------------------------------------------------------------------------

    @property
    def on_error(self) -> OnError:
        """The function that is called with exceptions of functions that run by themselves.

        Assign a function, "raise" or "log" to change it. Raises UsageError for anything else.
        """
        return self._opening.on_error

    @on_error.setter
    def on_error(self, handler: OnError | ErrorMode) -> None:
        check_on_error(handler)
        self._opening.on_error = chosen(handler)

    @property
    def on_console(self) -> OnConsole | None:
        """The function that is called with each line that functions print or log, as `hw.Console`.

        It returns what is forwarded: None for the line itself, another text, or `""` for nothing. Assign to it to
        change it.
        """
        return self._opening.on_console

    @on_console.setter
    def on_console(self, handler: OnConsole | None) -> None:
        self._opening.on_console = handler

    @property
    def connection(self) -> Connection:
        """The state of the connection to the server. A space in this process has the state `"local"`."""
        return self._opening.connection

    def on_connection(self, callback: Callable[[Connection], None]) -> Callable[[], None]:
        """Call a function on every change of the connection.

        It is called in the thread of the connection, or in the event loop of this space. It must not wait for the
        server.

        Args:
            callback: The function. It takes the new `Connection`.

        Returns:
            A function that ends the subscription.
        """
        return self._opening.on_connection(callback)

    # -- inspecting ----------------------------------------------------------------------------------------

    @property
    def stats(self) -> Stats:
        """Counts of this opening: commits, runs, events, documents in memory."""
        return self._opening.stats

    def graph(self, form: GraphForm = "text") -> str:
        """Draw the functions of this space and the dependencies between them.

        Args:
            form: `"text"`, `"svg"`, `"mermaid"` or `"json"`.

        Returns:
            The drawing, as text.

        Raises:
            UsageError: HW100. There is no such form.
        """
        return self._opening.graph(form)

    def runs(self, function: object) -> int:
        """The number of runs of a function in this opening. Of a resource: the number of requests.

        Args:
            function: A function of the app. The runs for all arguments are counted together.

        Returns:
            The number.

        Raises:
            UsageError: HW100. The function is not one of this app.

        Example:
            ```python
            import headwater as hw

            app = hw.App("shop")
            price = app.cell("price", 250)


            @app.computed
            def gross() -> int:
                return price.value * 12 // 10


            with app.open("memory:") as space:
                gross(), gross()
                print(space.runs(gross))  # 1
            ```
        """
        return self._opening.runs(function)

    def explain_resume(self) -> Resumption:
        """What this opening has restored from earlier ones: which functions need not run, which must, and why.

        Returns:
            The counts and the reasons.
        """
        return self._opening.explain_resume()

    @property
    def nodes(self) -> Mapping[object, Node]:
        """The node of each function without parameters."""
        return self._opening.nodes

    @property
    def scheduler(self) -> Scheduler:
        """The scheduler: statistics, traces, breakpoints, and options of nodes while the space is open."""
        return self._opening.scheduler


def opening_of(space: SpaceFacade) -> Opening:
    """The opening behind a space, for the rest of the package."""
    return space._opening  # noqa: SLF001  # one place for all of the package
