"""Declared functions: what `@app.computed` and `@app.sink` make of an author's function.

Must never know: apps (an owner is whoever knows which space is meant), and when a function runs.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any, Generic, ParamSpec, TypeVar, cast, get_type_hints

from headwater.cells.cell import Cell
from headwater.cells.here import HERE, Frame, Owner, find
from headwater.cells.transaction import Transaction
from headwater.errors import DeclarationError
from headwater.host.space import BaseSpace
from headwater.scheduler.settle import COMPUTED
from headwater.values.address import Depth, doc_key
from headwater.values.hints import schema_of
from headwater.values.schema import ANY, Schema

P = ParamSpec("P")
R = TypeVar("R")


class Computed(Generic[P, R]):
    """A declared function: still called to be read. Without parameters its result is kept in a document."""

    def __init__(self, app: Owner, fn: Callable[P, R], name: str, doc: str) -> None:
        self.name = name
        self.__wrapped__ = fn
        self.__doc__ = fn.__doc__
        self.__name__ = name
        self._app = app
        self._plain = bool(signature(fn).parameters)
        self._result: Cell[Any] | None = None
        self._type: Schema = ANY
        self._doc = doc

    @property
    def address(self) -> str:
        """Where its result stands."""
        return self._resolve().address

    def _resolve(self) -> Cell[Any]:
        """Where its result stands. At first use: what it returns may be declared after it."""
        if self._result is None:
            where = f"the result of {self.name}()"
            try:
                hint = get_type_hints(self.__wrapped__).get("return", Any)
            except NameError as error:
                message = f"{where}: its type cannot be resolved: {error}; declare or import it at module level"
                raise DeclarationError(message, name=self.name) from None
            self._type = schema_of(hint, where=where)
            self._result = Cell(self._app, self._doc, schema=self._type)
        return self._result

    def register(self, space: BaseSpace) -> None:
        """Make it a node of an open space."""
        if not self._plain:
            self._resolve()
            run = cast("Callable[[], object]", self.__wrapped__)
            space.nodes[self] = space.scheduler.add_computation(self.name, run, doc_key(self._doc), self._type)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        home, tx = find(self._app, self)
        assert isinstance(home, BaseSpace)
        node = home.nodes.get(self)
        if node is None and not self._plain:
            # Another was declared in its place, and not everybody who calls it knows.
            node = home.computation(self.name)
        if node is None or args or kwargs or (tx is not None and tx.has_writes):
            # With parameters, or in the middle of a transaction whose writes nobody else can see: a plain call, whose
            # reads are the caller's.
            if tx is not None:
                return self._plainly(home, tx, *args, **kwargs)
            with home.transaction() as own:
                return self._plainly(home, own, *args, **kwargs)
        if tx is None and home.news:
            home.catch_up()
        try:
            home.pull(node)
        except Exception:
            if tx is not None and node.result is not None:
                # Whoever was told of an error has to be told of its end.
                tx.note(node.result, (), Depth.DEEP)
            raise
        return cast("R", self._resolve().value)

    def _plainly(self, home: BaseSpace, tx: Transaction, *args: P.args, **kwargs: P.kwargs) -> R:
        """In a transaction that is not its own, of which it may write nothing."""
        tx.guarded = True
        token = HERE.set(Frame(home, tx, HERE.get(), COMPUTED.format(self.name)))
        try:
            return self.__wrapped__(*args, **kwargs)
        finally:
            HERE.reset(token)

    def __repr__(self) -> str:
        return f"<computed {self._doc}>"


class Sink:
    """A declared function that runs by itself."""

    def __init__(self, app: Owner, fn: Callable[[], object], name: str, doc: str) -> None:
        self.name = name
        self.__wrapped__ = fn
        self.__doc__ = fn.__doc__
        self.__name__ = name
        self._app = app
        self._doc = doc

    def register(self, space: BaseSpace) -> None:
        """Make it a node of an open space."""
        space.nodes[self] = space.scheduler.add_sink(self.name, self.__wrapped__)

    def __call__(self) -> None:
        """Run it once more, by hand."""
        self.__wrapped__()

    def __repr__(self) -> str:
        return f"<sink {self._doc}>"
