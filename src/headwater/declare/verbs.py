"""The verbs that declare cells, documents, functions and streams, of an app and of the builder of a pattern.

Length: the options of each verb are spelled out, for editors and type checkers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Literal, ParamSpec, Protocol, TypeAlias, TypeVar, cast, overload

from headwater.cells.cell import Cell
from headwater.cells.document_class import Doc, declare_doc
from headwater.cells.reading import SCOPES, Readable, ScopeName
from headwater.declare.events.declared_reads import DeclaredRead
from headwater.declare.events.handler import AsyncHandler, Handler, Stream, make_handler
from headwater.declare.functions.choices import ChoiceVerbs
from headwater.declare.functions.computed import Computed
from headwater.declare.functions.function_code import is_async, is_generator, method_of, signature_of
from headwater.declare.functions.function_options import (
    COMPUTED_OPTIONS,
    HANDLER_OPTIONS,
    MATERIALIZER_OPTIONS,
    SINK_OPTIONS,
    Writable,
    check_options,
    parse_options,
)
from headwater.declare.functions.mutables import record_containers
from headwater.declare.functions.sink import Sink
from headwater.declare.lists.list_verbs import ListVerbs
from headwater.declare.resources.resource import Resource
from headwater.declare.resources.resource_options import OPTIONS as RESOURCE_OPTIONS
from headwater.declare.resources.resource_options import parse_request_options
from headwater.errors import DeclarationError, HeadwaterError, NameRefusedError
from headwater.scheduler.graph.node import OnInvalid
from headwater.values.address import doc_key
from headwater.values.duration import Duration
from headwater.values.hints import freeze_with, infer, schema_of
from headwater.values.schema import ANY, short
from headwater.values.tree import ABSENT, Maybe
from headwater.workflow.retry_policy import Retry

T = TypeVar("T")
D = TypeVar("D", bound=Doc)
P = ParamSpec("P")
R = TypeVar("R")

Function: TypeAlias = Computed[..., Any] | Sink | Handler[..., Any] | Resource[..., Any]
"""What is registered in an open space."""


class _Decorator(Protocol):
    """`@app.computed(...)` with options."""

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Computed[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Computed[P, R]: ...


class _HandlerDecorator(Protocol):
    """`@app.handler(...)` with options."""

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncHandler[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Handler[P, R]: ...


class _ResourceDecorator(Protocol):
    """`@app.resource(...)` with options."""

    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Resource[P, R]: ...


class Declarer(ListVerbs, ChoiceVerbs):
    """Declares under names: an app, or the builder of a pattern."""

    verb = "app"
    """The name that authors give it, for messages."""
    name: str

    @property
    @abstractmethod
    def prefix(self) -> str:
        """The beginning of the names of its documents."""

    @abstractmethod
    def _start(self, name: str, function: Function) -> None:
        """Register a function in every space where this is open."""

    @abstractmethod
    def _declared_functions(self) -> Mapping[str, Function]:
        """The functions declared so far, by name."""

    @abstractmethod
    def _check_function(self, name: str, fn: Callable[..., object]) -> None:
        """Reject a function that could not run. Raises DeclarationError."""

    # -- values --------------------------------------------------------------------------------------------

    @overload
    def cell(self, name: str, default: T, *, type: type[T], scope: ScopeName = ...) -> Cell[T]: ...
    @overload
    def cell(self, name: str, default: T, *, type: object = ..., scope: ScopeName = ...) -> Cell[T]: ...
    @overload
    def cell(self, name: str, *, type: type[T], scope: ScopeName = ...) -> Cell[T]: ...
    def cell(self, name: str, default: Any = ABSENT, *, type: object = None, scope: ScopeName = "space") -> Cell[Any]:  # noqa: A002
        """A cell. Its type is that of the default, unless `type` is more precise: `type=list[int]`, `type=Note`."""
        where = f"{self.verb}.cell({name!r})"
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
        cell: Cell[Any] = Cell(self.owner, self._id(name), schema=schema, default=stored, scope=scope)
        self._declare(name, cell, where)
        return cell

    def doc(self, name: str, kind: type[D], *, scope: ScopeName = "space") -> D:
        """A document of a class, always the same one."""
        where = f"{self.verb}.doc({name!r})"
        self._check_scope(scope, where)
        doc = declare_doc(kind, self.owner, self._id(name), scope)
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
        """A function of cells whose result is stored, and computed again when it is observed and its inputs changed.

        `eager` runs it also while it is not observed. `debounce` waits for quiet, `throttle` for a while since the last
        run. `writes` names cells and documents that it writes besides its result, `materializes` some below which it
        may write anything; a run with the same inputs has to write the same. For async functions, `timeout`, and what
        happens to a run whose inputs change while it waits: `on_invalid="restart"`, or "finish".
        """
        if fn is None:
            return lambda function: self._computed(function, name, options)
        return self._computed(fn, name, options)

    def _computed(
        self, fn: Callable[..., Any], name: str | None, options: dict[str, Any], kind: str = "computed"
    ) -> Computed[..., Any]:
        chosen = self._function_name(fn, name, kind)
        where = f"@{self.verb}.{kind} {chosen}()"
        check_options(where, options, COMPUTED_OPTIONS)
        is_materializer = kind == "materializer"
        declared = parse_options(where, is_async=is_async(fn), is_materializer=is_materializer, **options)
        for other in self._declared_functions().values() if declared.writes or declared.materializes else ():
            if (
                not isinstance(other, Handler)
                and other.name != chosen
                and (shared := declared.shares(other.options)) is not None
            ):
                option = "writes" if is_materializer else shared[0]
                message = f"{where}: {option}= names {shared[1]}, which {other.name}() writes already"
                raise DeclarationError(f"{message}; one function for each", name=chosen)
        if self.verb == "app":
            # The functions of a piece are declared anew at each start: there is no earlier state to compare with.
            record_containers(fn)
        made: Computed[..., Any] = Computed(self.owner, fn, chosen, self._id(chosen), declared)
        self._declare(chosen, made, where)
        self._start(chosen, made)
        return made

    @overload
    def materializer(
        self,
        /,
        *,
        writes: Writable,
        name: str | None = None,
        version: str | int = ...,
        debounce: Duration | None = ...,
        throttle: Duration | None = ...,
    ) -> Callable[[Callable[[], None]], Computed[[], None]]: ...
    @overload
    def materializer(
        self,
        /,
        *,
        writes: Sequence[Writable],
        name: str | None = None,
        version: str | int = ...,
        debounce: Duration | None = ...,
        throttle: Duration | None = ...,
    ) -> Callable[[Callable[[], None]], Computed[[], None]]: ...
    def materializer(self, fn: object = None, /, *, name: str | None = None, writes: Any = (), **options: Any) -> Any:
        """A function that writes below these cells and documents, wherever it decides: an index, a cache, a mirror.

        It need not be observed: it runs when nothing else is left to do, or before a read of what it may write. A run
        with the same inputs has to write the same; it returns nothing.
        """
        where = f"@{self.verb}.materializer"
        if fn is not None:
            what = f"{fn.__name__}()" if hasattr(fn, "__name__") else short(fn)
            raise DeclarationError(f"{where} {what}: what it may write below is missing; {where}(writes=[...])")
        check_options(where, options, MATERIALIZER_OPTIONS)
        if not isinstance(writes, Readable | Doc) and not writes:
            raise DeclarationError(f"{where}: writes= names nothing that it may write below")
        options["materializes"] = writes

        def declared(function: Callable[[], None]) -> Computed[[], None]:
            chosen = self._function_name(function, name, "materializer")
            if signature_of(function).parameters:
                message = f"@{self.verb}.materializer {chosen}() takes parameters, and nothing passes them"
                raise DeclarationError(f"{message}; read cells instead", name=chosen)
            return self._computed(function, name, options, "materializer")

        return declared

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
        """A function that is run for its effect: once when the app is opened, then whenever its inputs have changed.

        `debounce` waits for quiet, `throttle` for a while since the last run; a slow sink waits for quiet by itself,
        unless `auto_debounce=False`. With a `change_group`, writes of transactions in the same group do not wake it.
        `timeout` and `on_invalid` as for `computed`.
        """
        if fn is None:
            return lambda function: self._sink(function, name, options)
        return self._sink(fn, name, options)

    def _sink(self, fn: Callable[[], object], name: str | None, options: dict[str, Any]) -> Sink:
        chosen = self._function_name(fn, name, "sink")
        if signature_of(fn).parameters:
            message = f"@{self.verb}.sink {chosen}() takes parameters, and nothing passes them; read cells instead"
            raise DeclarationError(message, name=chosen)
        check_options(f"@{self.verb}.sink {chosen}()", options, SINK_OPTIONS)
        declared = parse_options(f"@{self.verb}.sink {chosen}()", is_async=is_async(fn), **options)
        if self.verb == "app":
            record_containers(fn)
        made = Sink(self.owner, fn, chosen, self._id(chosen), declared)
        self._declare(chosen, made, f"@{self.verb}.sink {chosen}()")
        self._start(chosen, made)
        return made

    def stream(self, name: str, kind: type[T]) -> Stream[T]:
        """Events of one kind, each with a value of a class: `clicks = app.stream("clicks", Click)`.

        `@app.handler(on=clicks)` handles them; `clicks.send(Click(...))` sends one.
        """
        where = f"{self.verb}.stream({name!r})"
        made: Stream[T] = Stream(self.owner, name, self._id(name), kind)
        made.payload  # noqa: B018  # a wrong type is reported now
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
        reads: DeclaredRead | Sequence[DeclaredRead] = ...,
        backlog: int = ...,
        timeout: Duration | None = ...,
        change_group: str | None = ...,
    ) -> _HandlerDecorator: ...
    def handler(self, fn: Callable[..., Any] | None = None, /, *, name: str | None = None, **options: Any) -> Any:
        """A function that handles events: each once, in one transaction, when everything that it reads is current.

        `submit.send("gift")` sends one; the parameters are the fields of an event. With `on`, it handles the events of
        a stream, and takes their value. `reads` names cells, documents and computed functions that it always reads:
        they are made current before it is called, others when it reads them. `backlog`: events that may be queued at
        once. For async functions, `timeout`.
        """
        if fn is None:
            return lambda function: self._handler(function, name, options)
        return self._handler(fn, name, options)

    def _handler(self, fn: Callable[..., Any], name: str | None, options: dict[str, Any]) -> Handler[..., Any]:
        chosen = self._function_name(fn, name, "handler")
        where = f"@{self.verb}.handler {chosen}()"
        check_options(where, options, HANDLER_OPTIONS)
        made = make_handler(self.owner, fn, chosen, self._id(chosen), where, **options)
        self._declare(chosen, made, where)
        if made.on is not None:
            made.on.handler = made
        self._start(chosen, made)
        return made

    @overload
    def resource(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Resource[P, R]: ...
    @overload
    def resource(
        self,
        /,
        *,
        name: str | None = None,
        fresh_for: Duration | None = ...,
        retry: Retry | None = ...,
        timeout: Duration | None = ...,
    ) -> _ResourceDecorator: ...
    def resource(self, fn: Callable[..., Any] | None = None, /, *, name: str | None = None, **options: Any) -> Any:
        """An async function that requests something outside: one stored result for each set of arguments, read at once.

        A request is made while it is observed and has no fresh result: one at a time for each set of arguments, and
        cancelled when it is not observed any more. `fresh_for`: how long a result is fresh; by default, for ever.
        `retry=hw.Retry(3, on=OSError)`: how often a request is repeated, for which errors. `timeout`: how long one
        request may take.
        """
        if fn is None:
            return lambda function: self._resource(function, name, options)
        return self._resource(fn, name, options)

    def _resource(self, fn: Callable[..., Any], name: str | None, options: dict[str, Any]) -> Resource[..., Any]:
        chosen = self._function_name(fn, name, "resource")
        where = f"@{self.verb}.resource {chosen}()"
        check_options(where, options, RESOURCE_OPTIONS)
        if not is_async(fn):
            message = f"{where} is not async, and would hold up its readers; write `async def {chosen}(...)`"
            raise DeclarationError(message, name=chosen)
        made: Resource[..., Any] = Resource(
            self.owner, fn, chosen, self._id(chosen), parse_request_options(where, chosen, **options)
        )
        self._declare(chosen, made, where)
        self._start(chosen, made)
        return made

    def _function_name(self, fn: object, name: str | None, kind: str) -> str:
        if not callable(fn):
            raise DeclarationError(f"@{self.verb}.{kind} is put in front of a function, not of {fn!r}")
        if is_generator(fn) or isinstance(fn, type):
            what = "a generator, which runs only as far as it is iterated" if not isinstance(fn, type) else "a class"
            raise DeclarationError(
                f"@{self.verb}.{kind} {getattr(fn, '__name__', fn)}() is {what}; a plain function is expected"
            )
        if (holder := method_of(fn)) is not None:
            message = (
                f"@{self.verb}.{kind} {getattr(fn, '__name__', fn)}() is a method of class {holder}, and is called "
                "without an instance; declare a function outside of the class, which reads cells or documents"
            )
            raise DeclarationError(message, kind=kind)
        found = name or getattr(fn, "__name__", "")
        if not found or found == "<lambda>":
            raise DeclarationError(f"@{self.verb}.{kind} needs a name for {fn!r}: give it one with name=...")
        if kind != "resource":
            # A resource is async, and needs no event loop of the author.
            self._check_function(found, fn)
        return cast("str", found)

    def _id(self, name: str) -> str:
        if not isinstance(cast("object", name), str) or not name:
            raise NameRefusedError(f"{name!r} is not a name within {self.verb}: text is expected", name=name)
        doc = f"{self.prefix}{name}"
        doc_key(doc)
        return doc

    @staticmethod
    def _check_scope(scope: str, where: str) -> None:
        if scope not in SCOPES:
            raise DeclarationError(f"{where}: {scope!r} is no scope; space, user or session is expected", scope=scope)
