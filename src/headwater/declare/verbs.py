"""The verbs that declare functions and streams, of an app and of the builder of a pattern.

Length: the options of each verb are spelled out, for editors and type checkers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Literal, ParamSpec, Protocol, TypeAlias, TypeVar, overload

from headwater.cells.document_class import Doc
from headwater.cells.reading import Readable
from headwater.declare.events.declared_reads import DeclaredRead
from headwater.declare.events.handler import AsyncHandler, Handler, Stream, make_handler
from headwater.declare.functions.choices import ChoiceVerbs
from headwater.declare.functions.computed import Computed
from headwater.declare.functions.function_code import (
    NO_PARAMETERS,
    is_async,
    is_generator,
    method_of,
    signature_of,
)
from headwater.declare.functions.function_options import (
    COMPUTED_OPTIONS,
    HANDLER_OPTIONS,
    MATERIALIZER_OPTIONS,
    NO_OPTIONS,
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
from headwater.declare.value_verbs import ValueVerbs
from headwater.errors import DeclarationError, NameRefusedError
from headwater.scheduler.graph.node import OnInvalid
from headwater.values.address import doc_key
from headwater.values.duration import Duration
from headwater.values.schema import short
from headwater.workflow.retry_policy import Retry

T = TypeVar("T")
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


class Declarer(ValueVerbs, ListVerbs, ChoiceVerbs):
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
    def _check_async(self, name: str) -> None:
        """Reject an async function that could not run. Raises DeclarationError."""

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
        """Declare a function whose result is stored and kept current.

        Headwater records what a run reads. When one of these values changes, an observed function runs again; a
        function that is not observed runs at its next call. The function must only read and return. A function with
        parameters has one stored result for each set of arguments. Use it as `@app.computed`, or with options as
        `@app.computed(...)`.

        Args:
            fn: The function.
            name: Its name; by default that of the function.
            version: A version of the code. Change it to compute stored results again.
            eager: Whether it also runs while it is not observed.
            debounce: Run only after its inputs have not changed for this time.
            throttle: Leave at least this time between two runs.
            timeout: For async functions: the longest time of one run.
            on_invalid: For async functions, when an input changes during a run. `"restart"`: the run is cancelled and
                started again. `"finish"`: it ends first.
            writes: Cells and documents that it writes besides its result.
            materializes: Cells and documents below which it may write anything.

        Returns:
            The declared function. A call returns its current result.

        Raises:
            DeclarationError: HW110. The name is already declared, or an option is wrong.

        Example:
            ```python
            import headwater as hw

            app = hw.App("shop")
            price, amount = app.cell("price", 250), app.cell("amount", 2)


            @app.computed
            def total() -> int:
                return price.value * amount.value


            with app.open("memory:"):
                print(total())  # 500
            ```
        """
        if fn is None:
            return lambda function: self._computed(function, name, options)
        return self._computed(fn, name, options)

    def _computed(
        self, fn: Callable[..., Any], name: str | None, options: dict[str, Any], kind: str = "computed"
    ) -> Computed[..., Any]:
        chosen = self._function_name(fn, name, kind)
        where = f"@{self.verb}.{kind} {chosen}()"
        is_materializer = kind == "materializer"
        declared = NO_OPTIONS
        if options:
            check_options(where, options, COMPUTED_OPTIONS)
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
        """Declare a function that keeps documents up to date: an index, a cache, a mirror.

        It runs when no other function is left to run, or before a read of what it may write. It need not be observed,
        takes no parameters and returns nothing. With the same inputs it must write the same values.

        Args:
            fn: Not used: `writes` is required, so the decorator is always called with options.
            name: Its name; by default that of the function.
            writes: Cells and documents below which it may write.
            version: A version of the code. Change it to run it again.
            debounce: Run only after its inputs have not changed for this time.
            throttle: Leave at least this time between two runs.

        Returns:
            A decorator that returns the declared function.

        Raises:
            DeclarationError: HW110. `writes` is missing, or another function writes the same.

        Example:
            ```python
            import headwater as hw

            app = hw.App("words")
            text = app.cell("text", "to be or not to be")
            lengths = app.cell("lengths", type=dict[str, int], default={})


            @app.materializer(writes=lengths)
            def index() -> None:
                lengths.value = {word: len(word) for word in text.value.split()}


            with app.open("memory:"):
                print(lengths.value["not"])  # 3
            ```
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
            if signature_of(function) is not NO_PARAMETERS:
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
        """Declare a function that is run for its effect: print, draw, send to a page.

        It runs once when the app is opened, then whenever a value that it read has changed. It takes no parameters. Use
        it as `@app.sink`, or with options as `@app.sink(...)`.

        Args:
            fn: The function.
            name: Its name; by default that of the function.
            resume: What happens at an opening if nothing it read has changed. `"draw"`: it runs. `"quiet"`: it does
                not.
            version: A version of the code. Change it to run a quiet sink again.
            debounce: Run only after its inputs have not changed for this time.
            throttle: Leave at least this time between two runs.
            auto_debounce: Whether a slow sink is debounced automatically.
            timeout: For async functions: the longest time of one run.
            on_invalid: For async functions: `"restart"` or `"finish"`, as for `computed`.
            change_group: A name. Writes of transactions with the same name do not run the sink.

        Returns:
            The declared sink.

        Raises:
            DeclarationError: HW110. The name is already declared, the function takes parameters, or an option is wrong.

        Example:
            ```python
            import headwater as hw

            app = hw.App("counter")
            count = app.cell("count", 1)


            @app.sink
            def show() -> None:
                print("count is", count.value)


            with app.open("memory:"):
                pass
            ```
        """
        if fn is None:
            return lambda function: self._sink(function, name, options)
        return self._sink(fn, name, options)

    def _sink(self, fn: Callable[[], object], name: str | None, options: dict[str, Any]) -> Sink:
        chosen = self._function_name(fn, name, "sink")
        if signature_of(fn) is not NO_PARAMETERS:
            message = f"@{self.verb}.sink {chosen}() takes parameters, and nothing passes them; read cells instead"
            raise DeclarationError(message, name=chosen)
        where = f"@{self.verb}.sink {chosen}()"
        declared = NO_OPTIONS
        if options:
            check_options(where, options, SINK_OPTIONS)
            declared = parse_options(where, is_async=is_async(fn), **options)
        if declared.is_quiet and self.verb == "app":
            # Any other sink runs at each opening, whether it looks changed or not.
            record_containers(fn)
        made = Sink(self.owner, fn, chosen, self._id(chosen), declared)
        self._declare(chosen, made, where)
        self._start(chosen, made)
        return made

    def stream(self, name: str, kind: type[T]) -> Stream[T]:
        """Declare a kind of events, each with a value of one class.

        `@app.handler(on=stream)` handles the events; `stream.send(value)` sends one.

        Args:
            name: The name, unique in the app.
            kind: The type of the value of each event.

        Returns:
            The stream.

        Raises:
            DeclarationError: HW110. The name is already declared, or values of the type cannot be stored.

        Example:
            ```python
            import headwater as hw

            app = hw.App("shop")
            orders = app.stream("orders", str)


            @app.handler(on=orders)
            def pack(order: str) -> str:
                return f"packed {order}"


            with app.open("memory:"):
                print(orders.send("tea").result())  # packed tea
            ```
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
        """Declare a function that handles events: each at most once, in one transaction with its receipt.

        The parameters of the function are the fields of an event; `fn.send(...)` sends one. Before a call, everything
        that the handler reads is current. After a conflict the call is repeated. Use it as `@app.handler`, or with
        options.

        Args:
            fn: The function.
            name: Its name; by default that of the function.
            on: A stream. The handler then takes one parameter, the value of the event.
            reads: Cells, documents and computed functions that it always reads. They are made current before the call.
            backlog: How many events may be queued at once.
            timeout: For async functions: the longest time of one call.
            change_group: A name. Sinks with the same name do not run for writes of this handler.

        Returns:
            The declared handler.

        Raises:
            DeclarationError: HW110. The name is already declared, or an option is wrong.
            HandlerTakenError: HW111. The stream has a handler already.

        Example:
            ```python
            import headwater as hw

            app = hw.App("shop")
            left = app.cell("left", 3)


            @app.handler
            def buy(amount: int) -> int:
                if amount > left.value:
                    raise hw.Reject("sold out")
                left.value -= amount
                return left.value


            with app.open("memory:"):
                print(buy.send(2).result())  # 1
            ```
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
        """Declare an async function that requests a value from outside, such as an HTTP API.

        A call does not wait: it returns `hw.Pending`, `hw.Ready` or `hw.Failed`. A request is made while the resource
        is observed and has no fresh result, one at a time for each set of arguments. It is cancelled when no function
        observes it.

        Args:
            fn: The async function.
            name: Its name; by default that of the function.
            fresh_for: How long a result is fresh. By default, forever.
            retry: How often a failed request is repeated, and for which errors.
            timeout: The longest time of one request.

        Returns:
            The declared resource.

        Raises:
            DeclarationError: HW110. The function is not async, the name is already declared, or an option is wrong.

        Example:
            ```python
            import headwater as hw

            app = hw.App("weather")


            @app.resource(fresh_for="10m", retry=hw.Retry(3, on=OSError))
            async def temperature(city: str) -> float:
                return 21.5
            ```
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
        if kind != "resource" and is_async(fn):
            # A resource is async, and needs no event loop of the author.
            self._check_async(found)
        return found

    def _id(self, name: str) -> str:
        if not isinstance(name, str) or not name:  # type: ignore[redundant-expr]  # an author may pass anything
            raise NameRefusedError(f"{name!r} is not a name within {self.verb}: text is expected", name=name)
        doc = f"{self.prefix}{name}"
        doc_key(doc)
        return doc
