"""The app: what an author declares, and how it is opened.

Declaring does no IO. An app collects cells, documents and functions; `open` gives them a place to live, as often and
in as many places as wanted.

Length: the options of `open`, `aopen` and `run` are spelled out three times, for editors and type checkers.

Must never know: how commits are made, or when functions run.
"""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable, Coroutine, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Protocol, TypeVar, cast, overload

from headwater.cells.cell import Cell
from headwater.cells.doc import Doc, declare_doc
from headwater.cells.here import Addressed, called
from headwater.cells.reading import SCOPES, ScopeName
from headwater.errors import AmbiguousError, DeclarationError, HeadwaterError, NameRefusedError, NotOpen
from headwater.host.base_space import BaseSpace
from headwater.host.code import is_async, is_generator, signature_of
from headwater.host.console import OnConsole
from headwater.host.declared import (
    COMPUTED_OPTIONS,
    HANDLER_OPTIONS,
    SINK_OPTIONS,
    Writable,
    check_options,
    declare,
)
from headwater.host.functions import Computed, Sink
from headwater.host.handlers import AsyncHandler, Handler, Stream, make_handler
from headwater.host.opening import Lease, default_url, share_space
from headwater.host.options import DemandPolicy, Options
from headwater.host.process import Stay
from headwater.host.report import OnError
from headwater.host.space import Space
from headwater.scheduler.limits import FAILED_MAX
from headwater.scheduler.node import OnInvalid
from headwater.values.address import doc_key
from headwater.values.duration import Duration
from headwater.values.hints import freeze_with, infer, schema_of
from headwater.values.ids import MAIN
from headwater.values.schema import ANY
from headwater.values.tree import ABSENT, Maybe
from headwater.workflow.limits import KEEP_RUNS
from headwater.workflow.spec import OnPoison

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from headwater.host.async_opening import AsyncOpening
    from headwater.host.async_space import AsyncSpace
    from headwater.host.flows.flow import Workflow
    from headwater.store.backends.sqlite_file import Durability

T = TypeVar("T")
D = TypeVar("D", bound=Doc)
P = ParamSpec("P")
R = TypeVar("R")


class _Decorator(Protocol):
    """What `@app.computed(...)` is with options."""

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Computed[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Computed[P, R]: ...


class _HandlerDecorator(Protocol):
    """What `@app.handler(...)` is with options."""

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncHandler[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Handler[P, R]: ...


class App:
    """Declarations under one name. Everything an app declares is stored in documents `app.name`."""

    def __init__(self, name: str) -> None:
        if not _is_name(name):
            message = f"{name!r} is not a name for an app: printable characters without '.', '/' and '!' are expected"
            raise NameRefusedError(message, name=name)
        self.name = name
        self._declared: dict[str, object] = {}
        self._functions: dict[str, Computed[..., Any] | Sink | Handler[..., Any]] = {}
        self._workflows: dict[str, Workflow] = {}
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
    def computed(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Computed[P, R]: ...
    @overload
    def computed(self, fn: Callable[P, R], /) -> Computed[P, R]: ...
    @overload
    def computed(
        self,
        /,
        *,
        name: str | None = None,
        version: str | int = ...,
        eager: bool = ...,
        debounce: Duration | None = ...,
        throttle: Duration | None = ...,
        timeout: Duration | None = ...,
        on_invalid: OnInvalid = ...,
        writes: Writable | Sequence[Writable] = ...,
        materializes: Writable | Sequence[Writable] = ...,
    ) -> _Decorator: ...
    def computed(self, fn: Callable[..., Any] | None = None, /, *, name: str | None = None, **options: Any) -> Any:
        """A function of cells whose result is kept, and made again when what it read has changed and somebody looks.

        `eager`: also if nobody does. `debounce` waits for quiet, `throttle` for a while since the last run. `writes`
        names cells and documents that it writes besides, `materializes` some below which it may write anything; both
        have to come out the same each time. For async functions, `timeout`, and what becomes of a run that waits while
        something it has read changes: `on_invalid="restart"`, or "finish".
        """
        if fn is None:
            return lambda function: self._computed(function, name, options)
        return self._computed(fn, name, options)

    def _computed(self, fn: Callable[..., Any], name: str | None, options: dict[str, Any]) -> Computed[..., Any]:
        chosen = self._function_name(fn, name, "computed")
        where = f"@app.computed {chosen}()"
        check_options(where, options, COMPUTED_OPTIONS)
        declared = declare(where, is_async=is_async(fn), **options)
        for other in self._functions.values() if declared.writes else ():
            if (
                not isinstance(other, Handler)
                and other.name != chosen
                and (shared := declared.shares(other.declared)) is not None
            ):
                message = f"{where}: writes= names {shared}, which {other.name}() writes already; one function for each"
                raise DeclarationError(message, name=chosen)
        made: Computed[..., Any] = Computed(self, fn, chosen, self._id(chosen), declared)
        self._declare(chosen, made, f"@app.computed {chosen}()")
        self._start(chosen, made)
        return made

    @overload
    def sink(self, fn: Callable[[], object], /) -> Sink: ...
    @overload
    def sink(
        self,
        /,
        *,
        name: str | None = None,
        resume: Literal["draw", "quiet"] = ...,
        version: str | int = ...,
        debounce: Duration | None = ...,
        throttle: Duration | None = ...,
        auto_debounce: bool = ...,
        timeout: Duration | None = ...,
        on_invalid: OnInvalid = ...,
        change_group: str | None = ...,
    ) -> Callable[[Callable[[], object]], Sink]: ...
    def sink(self, fn: Callable[[], object] | None = None, /, *, name: str | None = None, **options: Any) -> Any:
        """A function that is run for what it does: once when the app is opened, then when what it read has changed.

        `debounce` waits for quiet, `throttle` for a while since the last run; one that is slow waits for quiet by
        itself, unless `auto_debounce=False`. With a `change_group`, what is written in transactions of the same group
        does not wake it. `timeout` and `on_invalid` as for `computed`.
        """
        if fn is None:
            return lambda function: self._sink(function, name, options)
        return self._sink(fn, name, options)

    def _sink(self, fn: Callable[[], object], name: str | None, options: dict[str, Any]) -> Sink:
        chosen = self._function_name(fn, name, "sink")
        if signature_of(fn).parameters:
            message = f"@app.sink {chosen}() takes parameters, and nobody is there to give them; read cells instead"
            raise DeclarationError(message, name=chosen)
        check_options(f"@app.sink {chosen}()", options, SINK_OPTIONS)
        declared = declare(f"@app.sink {chosen}()", is_async=is_async(fn), **options)
        made = Sink(self, fn, chosen, self._id(chosen), declared)
        self._declare(chosen, made, f"@app.sink {chosen}()")
        self._start(chosen, made)
        return made

    def stream(self, name: str, kind: type[T]) -> Stream[T]:
        """Events of one kind, each carrying a value of a class: `clicks = app.stream("clicks", Click)`.

        `@app.handler(on=clicks)` handles them; `clicks.send(Click(...))` sends one.
        """
        where = f"app.stream({name!r})"
        made: Stream[T] = Stream(self, name, self._id(name), kind)
        made.payload  # noqa: B018  # what cannot be declared is told now
        self._declare(name, made, where)
        return made

    @overload
    def handler(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncHandler[P, R]: ...
    @overload
    def handler(self, fn: Callable[P, R], /) -> Handler[P, R]: ...
    @overload
    def handler(
        self,
        /,
        *,
        name: str | None = None,
        on: Stream[Any] | None = ...,
        reads: Writable | Sequence[Writable] = ...,
        backlog: int = ...,
        timeout: Duration | None = ...,
        change_group: str | None = ...,
    ) -> _HandlerDecorator: ...
    def handler(self, fn: Callable[..., Any] | None = None, /, *, name: str | None = None, **options: Any) -> Any:
        """A function that handles events: each once, in one transaction, when all that it reads is current.

        `submit.send("gift")` sends one; what its parameters take is what an event carries. With `on`, it handles the
        events of a stream, and takes their value. `reads` names cells and documents that it is sure to read: they are
        made current before it is called, others when it reads them. `backlog`: events that may wait at once. For async
        functions, `timeout`.
        """
        if fn is None:
            return lambda function: self._handler(function, name, options)
        return self._handler(fn, name, options)

    def _handler(self, fn: Callable[..., Any], name: str | None, options: dict[str, Any]) -> Handler[..., Any]:
        chosen = self._function_name(fn, name, "handler")
        where = f"@app.handler {chosen}()"
        check_options(where, options, HANDLER_OPTIONS)
        made = make_handler(self, fn, chosen, self._id(chosen), where, **options)
        self._declare(chosen, made, where)
        if made.on is not None:
            made.on.handler = made
        self._start(chosen, made)
        return made

    def workflow(
        self,
        name: str,
        *,
        on_poison: OnPoison = "block",
        keep_runs: int | None = KEEP_RUNS,
        version: str | int = "",
    ) -> Workflow:
        """A workflow: producers that poll, topics that hold, consumers that act once.

        With `on_poison="park"`, an event that fails is put aside and the others go on; else everything waits for it. Of
        finished runs, the newest `keep_runs` are kept; None: all.
        """
        from headwater.host.flows.flow import Workflow  # noqa: PLC0415  # most programs have none

        where = f"app.workflow({name!r})"
        made = Workflow(self, name, self._id(name), on_poison=on_poison, keep_runs=keep_runs, version=version)
        self._declare(name, made, where)
        self._workflows[name] = made
        return made

    def _function_name(self, fn: object, name: str | None, kind: str) -> str:
        if not callable(fn):
            raise DeclarationError(f"@app.{kind} is put in front of a function, not of {fn!r}")
        if is_generator(fn) or isinstance(fn, type):
            what = "a generator, which runs only as far as somebody asks" if not isinstance(fn, type) else "a class"
            raise DeclarationError(
                f"@app.{kind} {getattr(fn, '__name__', fn)}() is {what}; a plain function is expected"
            )
        found = name or getattr(fn, "__name__", "")
        if not found or found == "<lambda>":
            raise DeclarationError(f"@app.{kind} needs a name for {fn!r}: give it one with name=...")
        if is_async(fn) and any(isinstance(home, Space) for home in list(self._homes)):
            # It is open already, in plain code.
            raise self._needs_loop(found)
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

    def _start(self, name: str, function: Computed[..., Any] | Sink | Handler[..., Any]) -> None:
        """From now on; also where the app is open already, as in a notebook."""
        self._functions[name] = function
        for home in list(self._homes):
            function.register(home)
            if isinstance(function, Handler):
                home.resume_events()
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
        demand: DemandPolicy = "lazy",
        on_error: OnError | None = None,
        on_console: OnConsole | None = None,
        keep_failed: int = FAILED_MAX,
        force: bool = False,
    ) -> Space:
        """Open a space for this app: a file `x.db`, a folder `data/` with `space=`, or `memory:`.

        Use it in a `with` statement. Sinks run once, then whenever something they read changes. `actor` says who acts:
        cells of scope user and session are that user's own. With `demand="eager"` computed functions run although
        nobody looks. `on_error` is told of what sinks raise; without it, it is logged. `on_console` is told of what
        functions print and log, and says what is forwarded. Of events that failed, the last `keep_failed` are kept.
        `force` deploys workflows although events that wait would be skipped, because nobody consumes them any more.
        """
        options = Options(
            space=space,
            actor=actor,
            branch=branch,
            durability=durability,
            create=create,
            demand=demand,
            on_error=on_error,
            on_console=on_console,
            keep_failed=keep_failed,
            force=force,
        )
        return self.open_with(url, options)

    def open_with(
        self, url: str | PathLike[str] | None, options: Options, wake: Callable[[], None] | None = None
    ) -> Space:
        """As `open`, with everything in one record."""
        self._check_plain()
        lease = self._share(url, options)
        opened = _or_release(lease, lambda: Space(lease, self, options, wake=wake))
        try:
            self._begin(opened)
            opened.resume_events()
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
        demand: DemandPolicy = "lazy",
        on_error: OnError | None = None,
        on_console: OnConsole | None = None,
        keep_failed: int = FAILED_MAX,
        force: bool = False,
    ) -> AsyncOpening:
        """As `open`, for code in an event loop: `async with app.aopen(url) as space`."""
        options = Options(
            space=space,
            actor=actor,
            branch=branch,
            durability=durability,
            create=create,
            demand=demand,
            on_error=on_error,
            on_console=on_console,
            keep_failed=keep_failed,
            force=force,
        )
        return self.aopen_with(url, options)

    def aopen_with(self, url: str | PathLike[str] | None, options: Options) -> AsyncOpening:
        """As `aopen`, with everything in one record."""
        from headwater.host.async_opening import AsyncOpening  # noqa: PLC0415  # plain programs need not load asyncio
        from headwater.host.async_space import AsyncSpace  # noqa: PLC0415

        def make(loop: AbstractEventLoop) -> AsyncSpace:
            lease = self._share(url, options)
            return _or_release(lease, lambda: AsyncSpace(lease, self, options, loop=loop))

        return AsyncOpening(make, self._begin)

    def run(
        self,
        url: str | PathLike[str] | None = None,
        *,
        space: str | None = None,
        actor: str | None = None,
        branch: str = MAIN,
        durability: Durability = "full",
        demand: DemandPolicy = "lazy",
        on_error: OnError | None = None,
        on_console: OnConsole | None = None,
        keep_failed: int = FAILED_MAX,
        force: bool = False,
    ) -> None:
        """Open, and stay open until the process is told to end (Ctrl-C, or SIGTERM)."""
        options = Options(
            space=space,
            actor=actor,
            branch=branch,
            durability=durability,
            demand=demand,
            on_error=on_error,
            on_console=on_console,
            keep_failed=keep_failed,
            force=force,
        )
        with Stay() as stay, self.open_with(url, options, stay.wake) as opened:
            if self._workflows:
                opened.workflows.start()
            while stay.wait(opened.wake_in()):
                opened.settle()

    @staticmethod
    def _share(url: str | PathLike[str] | None, options: Options) -> Lease:
        return share_space(_url(url), options.space, create=options.create, durability=options.durability)

    @property
    def needs_event_loop(self) -> bool:
        """Some function of it is async: it is opened with `aopen`."""
        return any(is_async(function.__wrapped__) for function in self._functions.values())

    def _check_plain(self) -> None:
        """Refuse what only an event loop can run."""
        for name, function in self._functions.items():
            if is_async(function.__wrapped__):
                raise self._needs_loop(name)

    def _needs_loop(self, name: str) -> DeclarationError:
        message = f"{name}() is async and needs an event loop: open the app with `async with app.aopen(...)`"
        return DeclarationError(message, app=self.name, name=name)

    def _begin(self, opened: BaseSpace) -> None:
        """Everything declared so far lives there now."""
        with self._lock:
            self._homes.append(opened)
        opened.on_close(lambda: self._end(opened))
        for function in list(self._functions.values()):
            function.register(opened)
        opened.resuming.take_over(self.name, self._functions)
        if self._workflows and opened.is_main:
            from headwater.host.flows.deploying import deploy_flow  # noqa: PLC0415  # most programs have none

            for flow in self._workflows.values():
                # All of them are looked at before any of them is changed.
                flow.check()
            for flow in self._workflows.values():
                deploy_flow(opened, flow, force=opened.forces)

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
    if isinstance(thing, Handler):
        return "a handler"
    kinds: dict[type, str] = {Cell: "a cell", Computed: "a computed", Sink: "a sink", Stream: "a stream"}
    return kinds.get(type(thing), "a document")


__all__ = ["App", "Computed", "Handler", "Sink", "Stream"]
