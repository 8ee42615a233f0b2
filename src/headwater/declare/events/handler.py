"""Handlers and streams: what `@app.handler` and `app.stream` make, and how events are sent to them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from inspect import Parameter
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast

from headwater.cells.context import UNTRACKED, Owner, find
from headwater.cells.detached_value import DetachedValue
from headwater.declare.events.declared_reads import DeclaredRead, check_reads, document_of_read
from headwater.declare.events.event_port import EventPort
from headwater.declare.events.payload import Payload, check_parameters, hints_of
from headwater.declare.events.ticket import Ticket
from headwater.declare.functions.enclosing_piece import EnclosingPiece
from headwater.declare.functions.function_code import is_async, signature_of
from headwater.declare.functions.function_options import milliseconds
from headwater.errors import DeclarationError, HandlerTakenError, NotFoundError, UsageError
from headwater.scheduler.events.event import HandlerRecord, HandlerSpec
from headwater.scheduler.scheduler_limits import BACKLOG_MAX
from headwater.values.duration import Duration
from headwater.values.hints import schema_of
from headwater.values.schema import ANY
from headwater.values.tree import Value

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Stream(Generic[T]):
    """A declared kind of events, each with a value of one class. Made by `app.stream`.

    `@app.handler(on=stream)` handles them.
    """

    def __init__(self, app: Owner, name: str, doc: str, kind: object) -> None:
        self.name = name
        self.doc = doc
        self._app = app
        self._kind = kind
        self._payload: Payload | None = None
        # Set when a handler is declared.
        self.handler: Handler[..., Any] | None = None

    @property
    def address(self) -> str:
        """Its full name."""
        return self.doc

    @property
    def payload(self) -> Payload:
        """The fields of its events."""
        if self._payload is None:
            self._payload = Payload.of_type(self._app, self._kind, self.doc, f"stream {self.name}")
        return self._payload

    def send(self, value: T, /) -> Ticket[object]:
        """Send an event. In a transaction, the event is sent with the commit.

        Args:
            value: The value of the event.

        Returns:
            The ticket of the event.

        Raises:
            SchemaError: HW108. The value does not fit the type of the stream.
            LimitError: HW102. Too many events are queued.
            NotOpen: HW001. The app has no open space here.
        """
        return self._handler().deliver(self.payload.seal(value), None)

    def once(self, id: str, *, by: str = "") -> StreamSender[T]:  # noqa: A002  # the usual word
        """An event with an id of its own. It is handled once, even if it is sent again.

        Args:
            id: The id of the event, such as a request id.
            by: The namespace of the id. By default, the actor of the open space.

        Returns:
            A sender: `stream.once("order-7").send(value)`.

        Raises:
            EventReusedError: HW165. From the ticket: the id was used with another value.
        """
        return StreamSender(self, _external_id(id, by))

    def _handler(self) -> Handler[..., Any]:
        if self.handler is None:
            message = f"stream {self.name} has no handler; declare one with @app.handler(on={self.name})"
            raise UsageError(message, stream=self.name)
        return self.handler

    def __repr__(self) -> str:
        return f"<stream {self.doc}>"


class StreamSender(Generic[T]):
    """An event with an id of its own."""

    def __init__(self, stream: Stream[T], outside: tuple[str, str]) -> None:
        self._stream = stream
        self._outside = outside

    def send(self, value: T, /) -> Ticket[object]:
        """Send it. If it was handled before, the ticket has that result."""
        stream = self._stream
        return stream._handler().deliver(stream.payload.seal(value), self._outside)  # noqa: SLF001  # its other half


class Handler(Generic[P, R]):
    """A declared handler. `send` an event to it; each event is handled at most once, in one transaction.

    Made by `@app.handler`.
    """

    def __init__(
        self,
        app: Owner,
        fn: Callable[P, object],
        name: str,
        doc: str,
        *,
        on: Stream[Any] | None = None,
        reads: tuple[DeclaredRead, ...] = (),
        backlog: int = BACKLOG_MAX,
        timeout_ms: float | None = None,
        change_group: str | None = None,
    ) -> None:
        self.name = name
        self.__wrapped__ = fn
        self.__doc__ = fn.__doc__
        self.__name__ = name
        self._app = app
        self.doc = doc
        self.stream: str = doc if on is None else on.doc
        self.on = on
        self._reads = reads
        self._backlog = backlog
        self._timeout_ms = timeout_ms
        self._change_group = change_group
        self._payload: Payload | None = None
        self._result: DetachedValue | None = None
        # Set by the builder of a pattern.
        self.enclosing_piece: EnclosingPiece | None = None

    @property
    def address(self) -> str:
        """The full name of its stream."""
        return self.stream

    @property
    def owner(self) -> Owner:
        """The app or space that it belongs to."""
        return self._app

    @property
    def payload(self) -> Payload:
        """The fields of its events. Resolved at first use: their types may be declared after the handler."""
        if self._payload is None:
            where = f"{self.name}()"
            made = self.on.payload if self.on is not None else None
            self._payload = made or Payload.of_function(self._app, self.__wrapped__, self.doc, where)
        return self._payload

    @property
    def result(self) -> DetachedValue:
        """The type of its result."""
        if self._result is None:
            where = f"the result of {self.name}()"
            hint = hints_of(self.__wrapped__, where).get("return", Any)
            schema = ANY if hint is Any else schema_of(hint, where=where)
            self._result = DetachedValue(self._app, f"{self.doc}()", schema=schema)
        return self._result

    def register(self, space: EventPort) -> None:
        """Register it in an open space: it handles events from now on."""
        fn, payload = self.__wrapped__, self.payload
        self.result  # noqa: B018  # a wrong type is reported now
        spec = HandlerSpec(
            stream=self.stream,
            name=self.name,
            fn=lambda sent: payload.call(fn, *space.around(), sent),
            reads=tuple(document_of_read(each, space) for each in self._reads),
            may_link=payload.may_link,
            # Documents in the result belong to this opening. Plain code around a pass may be in another one.
            store=partial(self.result.to_tree_in, space) if self.result.may_link else self.result.to_tree,
            given=payload.given,
            is_async=is_async(fn),
            timeout_ms=self._timeout_ms,
            backlog_max=self._backlog,
            change_group=self._change_group,
            piece="" if self.enclosing_piece is None else self.enclosing_piece.title,
            origin=fn,
        )
        space.add_handler(self, spec)

    # -- sending -------------------------------------------------------------------------------------------

    def send(self, *args: P.args, **kwargs: P.kwargs) -> Ticket[R]:
        """Send an event with these arguments. In a transaction, the event is sent with the commit.

        Args:
            args: The arguments of the handler.
            kwargs: The arguments by name.

        Returns:
            The ticket of the event.

        Raises:
            SchemaError: HW108. An argument does not fit its type.
            LimitError: HW102. Too many events are queued.
            NotOpen: HW001. The app has no open space here.

        Example:
            ```python
            import headwater as hw

            app = hw.App("counter")
            count = app.cell("count", 0)


            @app.handler
            def add(amount: int) -> None:
                count.value += amount


            with app.open("memory:"):
                add.send(2).result()
                print(count.value)  # 2
            ```
        """
        return self.deliver(self.payload.seal(*args, **kwargs), None)

    def once(self, id: str, *, by: str = "") -> Sender[P, R]:  # noqa: A002  # the usual word
        """An event with an id of its own. It is handled once, even if it is sent again.

        Args:
            id: The id of the event, such as a request id.
            by: The namespace of the id, such as the name of a webhook. By default, the actor of the open space.

        Returns:
            A sender: `handler.once("order-7").send(...)`.

        Raises:
            EventReusedError: HW165. From the ticket: the id was used with other arguments.

        Example:
            ```python
            import headwater as hw

            app = hw.App("counter")
            count = app.cell("count", 0)


            @app.handler
            def add(amount: int) -> None:
                count.value += amount


            with app.open("memory:"):
                add.once("click-1").send(2).result()
                add.once("click-1").send(2).result()
                print(count.value)  # 2
            ```
        """
        return Sender(self, _external_id(id, by))

    def send_fields(self, fields: Mapping[str, object], outside: tuple[str, str] | None = None) -> Ticket[R]:
        """As `send`, with fields that come from outside of Python. Unknown fields are rejected."""
        home, _ = find(self._app, self, UNTRACKED)
        return self.deliver(self.payload.from_json(home, fields), outside)

    def deliver(self, payload: Value, outside: tuple[str, str] | None) -> Ticket[R]:
        """Send a checked payload."""
        # Every open space is an EventPort; to ask an abstract class takes longer than to queue the event.
        home: EventPort = find(self._app, self, UNTRACKED)[0]  # type: ignore[assignment]
        around = self.enclosing_piece
        if around is None or home.events.is_handled(self.stream):
            try:
                return Ticket(home, home.send(self.stream, payload, outside), self.result)
            except NotFoundError as error:
                if around is None or error.facts.get("stream") != self.stream:
                    raise
                # Another thread has just stopped the piece.
        message = f"{self.name}() of {around.title} cannot be sent to"
        raise NotFoundError(f"{message}: {home.pieces.why_not(around.prefix[:-1])}", stream=self.stream)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """In a transaction, a plain call as a part of it. Elsewhere an error: send an event."""
        _, tx = find(self._app, self, "run")
        if tx is None or not tx.is_open:
            message = (
                f"{self.name}() is a handler: send it an event with {self.name}.send(...), which is handled once; "
                "a plain call is for code in a transaction, and becomes a part of that"
            )
            raise UsageError(message, handler=self.name)
        return cast("R", self.__wrapped__(*args, **kwargs))

    def record_in(self, home: EventPort) -> HandlerRecord | None:
        """The scheduler's record of it in an open space."""
        return home.handlers.get(self)

    def __repr__(self) -> str:
        return f"<handler {self.stream}>"


class AsyncHandler(Handler[P, R]):
    """An async handler. Sending is the same; a plain call is awaited."""

    if TYPE_CHECKING:

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:  # type: ignore[override]
            """In a transaction, an async call as a part of it."""


class Sender(Generic[P, R]):
    """An event with an id of its own."""

    def __init__(self, handler: Handler[P, R], outside: tuple[str, str]) -> None:
        self._handler = handler
        self._outside = outside

    def send(self, *args: P.args, **kwargs: P.kwargs) -> Ticket[R]:
        """Send it. If it was handled before, the ticket has that result."""
        return self._handler.deliver(self._handler.payload.seal(*args, **kwargs), self._outside)


def make_handler(
    app: Owner,
    fn: Callable[..., Any],
    name: str,
    doc: str,
    where: str,
    *,
    on: Stream[Any] | None = None,
    reads: object = (),
    backlog: int = BACKLOG_MAX,
    timeout: Duration | None = None,
    change_group: str | None = None,
) -> Handler[..., Any]:
    """A handler, with its options checked. Raises DeclarationError, HandlerTakenError."""
    signature = signature_of(fn)
    check_parameters(signature, where)
    if on is not None:
        if not isinstance(on, Stream):
            raise DeclarationError(f"{where}: on={on!r}; a stream made with app.stream(...) is expected")
        if on.handler is not None and on.handler.name != name:
            message = f"{where}: stream {on.name} is handled by {on.handler.name}() already, and each event by one"
            raise HandlerTakenError(f"{message}; call the one from the other", stream=on.name, taken_by=on.handler.name)
        if [parameter.kind is Parameter.KEYWORD_ONLY for parameter in signature.parameters.values()] != [False]:
            raise DeclarationError(f"{where}: on= a stream, it takes one parameter, the event's value")
    if type(backlog) is not int or backlog < 1:
        raise DeclarationError(f"{where}: backlog={backlog!r}; a number of events is expected, 1 or more")
    if timeout is not None and not is_async(fn):
        raise DeclarationError(f"{where}: timeout= is for async functions; a plain one cannot be stopped from outside")
    if change_group is not None and type(change_group) is not str:
        raise DeclarationError(f"{where}: change_group={change_group!r}; a text is expected")
    return (AsyncHandler if is_async(fn) else Handler)(
        app,
        fn,
        name,
        doc,
        on=on,
        reads=check_reads(where, reads, app),
        backlog=backlog,
        timeout_ms=milliseconds(timeout, f"{where}, timeout="),
        change_group=change_group,
    )


def _external_id(name: object, by: object) -> tuple[str, str]:
    if not isinstance(name, str) or not name or not isinstance(by, str):
        message = f"once({name!r}, by={by!r}): texts are expected, such as the id that a webhook gives"
        raise UsageError(message)
    return by, name
