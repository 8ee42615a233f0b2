"""The app: what an author declares, and how it is opened.

Declaring does no IO. An app collects cells, documents and functions; `open` gives them a place to live, as often and
in as many places as wanted.

Must never know: how commits are made, or when functions run.
"""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction, signature
from os import PathLike
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast, overload

from headwater.cells.cell import Cell
from headwater.cells.doc import Doc, declare_doc
from headwater.cells.here import Addressed, called
from headwater.cells.reading import SCOPES, ScopeName
from headwater.errors import AmbiguousError, DeclarationError, HeadwaterError, NameRefusedError, NotOpen
from headwater.host.functions import Computed, Sink
from headwater.host.opening import Lease, default_url, share_space
from headwater.host.process import Stay
from headwater.host.space import BaseSpace, Space
from headwater.values.address import doc_key
from headwater.values.hints import freeze_with, infer, schema_of
from headwater.values.ids import MAIN
from headwater.values.schema import ANY
from headwater.values.tree import ABSENT, Maybe

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from headwater.host.async_opening import AsyncOpening
    from headwater.host.async_space import AsyncSpace
    from headwater.store.backends.sqlite_file import Durability

T = TypeVar("T")
D = TypeVar("D", bound=Doc)
P = ParamSpec("P")
R = TypeVar("R")


class App:
    """Declarations under one name. Everything an app declares is stored in documents `app.name`."""

    def __init__(self, name: str) -> None:
        if not _is_name(name):
            message = f"{name!r} is not a name for an app: printable characters without '.', '/' and '!' are expected"
            raise NameRefusedError(message, name=name)
        self.name = name
        self._declared: dict[str, object] = {}
        self._functions: dict[str, Computed[..., Any] | Sink] = {}
        # Open now, in the order they were opened.
        self._homes: list[BaseSpace] = []
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<App {self.name}: {len(self._declared)} declared, open in {len(self._homes)} spaces>"

    # -- declaring -----------------------------------------------------------------------------------------

    @overload
    def cell(self, name: str, default: T, *, type: type[T], scope: ScopeName = ...) -> Cell[T]: ...
    @overload
    def cell(self, name: str, default: T, *, type: object = ..., scope: ScopeName = ...) -> Cell[T]: ...
    @overload
    def cell(self, name: str, *, type: type[T], scope: ScopeName = ...) -> Cell[T]: ...
    def cell(self, name: str, default: Any = ABSENT, *, type: object = None, scope: ScopeName = "space") -> Cell[Any]:  # noqa: A002
        """A cell. Its type is that of the default, unless `type` says more: `type=list[int]`, `type=Note`."""
        where = f"app.cell({name!r})"
        schema = (
            schema_of(type, where=where)
            if type is not None
            else ANY
            if default is ABSENT
            else infer(default, where=where)
        )
        stored: Maybe = ABSENT
        if default is not ABSENT:
            try:
                stored = freeze_with(schema, default, f"the default of {self.name}.{name}")
            except HeadwaterError as error:
                raise DeclarationError(error.message, **error.facts) from None
        self._check_scope(scope, where)
        cell: Cell[Any] = Cell(self, self._id(name), schema=schema, default=stored, scope=scope)
        self._declare(name, cell, where)
        return cell

    def doc(self, name: str, kind: type[D], *, scope: ScopeName = "space") -> D:
        """A document of a class, always the same one."""
        where = f"app.doc({name!r})"
        self._check_scope(scope, where)
        doc = declare_doc(kind, self, self._id(name), scope)
        self._declare(name, doc, where)
        return doc

    @overload
    def computed(self, fn: Callable[P, R], /) -> Computed[P, R]: ...
    @overload
    def computed(self, /, *, name: str | None = None) -> Callable[[Callable[P, R]], Computed[P, R]]: ...
    def computed(self, fn: Callable[..., Any] | None = None, /, *, name: str | None = None) -> Any:
        """A function of cells whose result is kept, and made again when what it read has changed."""
        if fn is None:
            return lambda function: self.computed_as(function, name)
        return self.computed_as(fn, name)

    def computed_as(self, fn: Callable[P, R], name: str | None) -> Computed[P, R]:
        """As `computed`, with the name given."""
        chosen = self._function_name(fn, name, "computed")
        made: Computed[P, R] = Computed(self, fn, chosen, self._id(chosen))
        self._declare(chosen, made, f"@app.computed {chosen}()")
        self._start(chosen, made)
        return made

    @overload
    def sink(self, fn: Callable[[], object], /) -> Sink: ...
    @overload
    def sink(self, /, *, name: str | None = None) -> Callable[[Callable[[], object]], Sink]: ...
    def sink(self, fn: Callable[[], object] | None = None, /, *, name: str | None = None) -> Any:
        """A function that is run for what it does: once when the app is opened, then when what it read has changed."""
        if fn is None:
            return lambda function: self.sink_as(function, name)
        return self.sink_as(fn, name)

    def sink_as(self, fn: Callable[[], object], name: str | None) -> Sink:
        """As `sink`, with the name given."""
        chosen = self._function_name(fn, name, "sink")
        if signature(fn).parameters:
            message = f"@app.sink {chosen}() takes parameters, and nobody is there to give them; read cells instead"
            raise DeclarationError(message, name=chosen)
        made = Sink(self, fn, chosen, self._id(chosen))
        self._declare(chosen, made, f"@app.sink {chosen}()")
        self._start(chosen, made)
        return made

    def _function_name(self, fn: object, name: str | None, kind: str) -> str:
        if not callable(fn):
            raise DeclarationError(f"@app.{kind} is put in front of a function, not of {fn!r}")
        if isgeneratorfunction(fn) or isinstance(fn, type):
            what = "a generator, which runs only as far as somebody asks" if not isinstance(fn, type) else "a class"
            raise DeclarationError(
                f"@app.{kind} {getattr(fn, '__name__', fn)}() is {what}; a plain function is expected"
            )
        if iscoroutinefunction(fn) or isasyncgenfunction(fn):
            message = f"@app.{kind} {getattr(fn, '__name__', fn)}() is async; only plain functions can be run so far"
            raise DeclarationError(message)
        found = name or getattr(fn, "__name__", "")
        if not found or found == "<lambda>":
            raise DeclarationError(f"@app.{kind} needs a name for {fn!r}: give it one with name=...")
        return cast("str", found)

    def _id(self, name: str) -> str:
        doc = f"{self.name}.{name}"
        if not isinstance(cast("object", name), str) or not name:
            raise NameRefusedError(f"{name!r} is not a name within an app: text is expected", name=name)
        doc_key(doc)
        return doc

    def _declare(self, name: str, thing: object, where: str) -> None:
        if name in self._declared and not hasattr(builtins, "__IPYTHON__"):
            message = (
                f"{where}: app {self.name!r} has {name!r} already, {_described(self._declared[name])}; "
                "choose another name (functions take name=...)"
            )
            raise DeclarationError(message, app=self.name, name=name)
        self._declared[name] = thing
        replaced = self._functions.pop(name, None)
        if replaced is not None:
            for home in list(self._homes):
                home.drop(replaced)

    def _start(self, name: str, function: Computed[..., Any] | Sink) -> None:
        """From now on; also where the app is open already, as in a notebook."""
        self._functions[name] = function
        for home in list(self._homes):
            function.register(home)
            home.catch_up()

    @staticmethod
    def _check_scope(scope: str, where: str) -> None:
        if scope not in SCOPES:
            raise DeclarationError(f"{where}: {scope!r} is no scope; space, user or session is expected", scope=scope)

    # -- opening -------------------------------------------------------------------------------------------

    def open(
        self,
        url: str | PathLike[str] | None = None,
        *,
        space: str | None = None,
        actor: str | None = None,
        branch: str = MAIN,
        durability: Durability = "full",
        create: bool = True,
    ) -> Space:
        """Open a space for this app: a file `x.db`, a folder `data/` with `space=`, or `memory:`.

        Use it in a `with` statement. Sinks run once, then whenever something they read changes. `actor` says who acts:
        cells of scope user and session are that user's own.
        """
        return self._open(url, space, actor, branch, durability, create=create, wake=None)

    def _open(
        self,
        url: str | PathLike[str] | None,
        space: str | None,
        actor: str | None,
        branch: str,
        durability: Durability,
        *,
        create: bool,
        wake: Callable[[], None] | None,
    ) -> Space:
        lease = share_space(_url(url), space, create=create, durability=durability)
        opened = _or_release(lease, lambda: Space(lease, self, actor, branch=branch, wake=wake))
        try:
            self._begin(opened)
            opened.catch_up()
        except BaseException:
            opened.abandon()
            raise
        return opened

    def aopen(
        self,
        url: str | PathLike[str] | None = None,
        *,
        space: str | None = None,
        actor: str | None = None,
        branch: str = MAIN,
        durability: Durability = "full",
        create: bool = True,
    ) -> AsyncOpening:
        """As `open`, for code in an event loop: `async with app.aopen(url) as space`."""
        from headwater.host.async_opening import AsyncOpening  # noqa: PLC0415  # plain programs need not load asyncio
        from headwater.host.async_space import AsyncSpace  # noqa: PLC0415

        def make(loop: AbstractEventLoop) -> AsyncSpace:
            lease = share_space(_url(url), space, create=create, durability=durability)
            return _or_release(lease, lambda: AsyncSpace(lease, self, actor, branch=branch, loop=loop))

        return AsyncOpening(make, self._begin)

    def run(
        self,
        url: str | PathLike[str] | None = None,
        *,
        space: str | None = None,
        actor: str | None = None,
        branch: str = MAIN,
        durability: Durability = "full",
    ) -> None:
        """Open, and stay open until the process is told to end (Ctrl-C, or SIGTERM)."""
        with (
            Stay() as stay,
            self._open(url, space, actor, branch, durability, create=True, wake=stay.wake) as opened,
        ):
            while stay.wait():
                opened.catch_up()

    def _begin(self, opened: BaseSpace) -> None:
        """Everything declared so far lives there now."""
        with self._lock:
            self._homes.append(opened)
        opened.on_close(lambda: self._end(opened))
        for function in list(self._functions.values()):
            function.register(opened)

    def _end(self, opened: BaseSpace) -> None:
        with self._lock:
            if opened in self._homes:
                self._homes.remove(opened)

    def sole_home(self, what: str | Addressed) -> BaseSpace:
        """The opening that something of this app means in code that has none around it."""
        homes = list(self._homes)
        if len(homes) == 1:
            return homes[0]
        name = called(what).removeprefix(f"{self.name}.")
        if not homes:
            message = f"{name} has no open space here; wrap the code in `with app.open(...)`"
            raise NotOpen(message, app=self.name, name=name)
        spaces = ", ".join(repr(home.name) for home in homes)
        message = (
            f"{name} could mean any of {len(homes)} openings of app {self.name!r} ({spaces}), and none of them is "
            "around this code; use it inside the `with` block that is meant, or through space.cell(...)"
        )
        raise AmbiguousError(message, app=self.name, name=name)


def _url(url: str | PathLike[str] | None) -> str:
    if url is None:
        return default_url()
    return str(url) if isinstance(url, PathLike) else url


def _is_name(name: object) -> bool:
    return isinstance(name, str) and name.isprintable() and bool(name.strip()) and not set("./!") & set(name)


def _or_release(lease: Lease, make: Callable[[], T]) -> T:
    try:
        return make()
    except BaseException:
        lease.release()
        raise


def _described(thing: object) -> str:
    return {Cell: "a cell", Computed: "a computed", Sink: "a sink"}.get(type(thing), "a document")


__all__ = ["App", "Computed", "Sink"]
