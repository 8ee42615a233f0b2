"""Resources: what `@app.resource` makes of an author's async function."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from inspect import BoundArguments, Parameter
from typing import Any, Generic, ParamSpec, TypeVar, cast, get_type_hints

from headwater.cells.cell import Cell
from headwater.cells.context import UNTRACKED, Owner, find, sole_open
from headwater.cells.cross_space import READ
from headwater.cells.document_class import Doc
from headwater.cells.reading import Readable
from headwater.cells.transaction import Transaction
from headwater.cells.transaction_states import Status
from headwater.declare.functions.enclosing_piece import EnclosingPiece
from headwater.declare.functions.function_code import signature_of
from headwater.declare.functions.function_options import NO_OPTIONS, FunctionOptions
from headwater.declare.functions.instances import Instances, Key, arguments_text, key_of, missing_arguments_error
from headwater.declare.resources.resource_captions import why_requested
from headwater.declare.resources.resource_instance import ResourceInstance
from headwater.declare.resources.resource_options import RequestOptions
from headwater.declare.resources.resource_port import ResourcePort
from headwater.declare.resources.resource_state import State
from headwater.errors import DeclarationError, HeadwaterError, UsageError
from headwater.scheduler.graph.node import Node
from headwater.values.address import doc_key
from headwater.values.hints import freeze_with, schema_of
from headwater.values.schema import Schema

P = ParamSpec("P")
R = TypeVar("R")


class Explainable:
    """Something that is requested, and can explain why."""

    why: Callable[..., str]
    """Takes the arguments of a call: why it was requested with these, or is not."""


class Resource(Explainable, Generic[P, R]):
    """A declared async function whose results are requested from outside. Made by `@app.resource`.

    A call never waits: it returns `hw.Pending`, `hw.Ready` or `hw.Failed`. There is one stored result per set of
    arguments.
    """

    options: FunctionOptions = NO_OPTIONS
    """The options that all functions have: it writes nothing besides its result."""

    def __init__(
        self, owner: Owner | None, fn: Callable[P, Coroutine[Any, Any, R]], name: str, doc: str, asking: RequestOptions
    ) -> None:
        self.name = name
        self.__wrapped__ = fn
        self.__doc__ = fn.__doc__
        self.__name__ = name
        self.request_options = asking
        self._owner = owner
        self._doc = doc
        self._signature = signature_of(fn)
        self._schema: Schema | None = None
        # The types of its parameters, by name; resolved with the type of the result.
        self._parameter_types: dict[str, Schema] = {}
        # Set by the builder of a pattern.
        self.enclosing_piece: EnclosingPiece | None = None

    @property
    def owner(self) -> Owner | None:
        """The app or space that it belongs to."""
        return self._owner

    @property
    def doc(self) -> str:
        """The document of its result; with arguments, the beginning of the names of its documents."""
        return self._doc

    def register(self, space: ResourcePort) -> None:
        """Register it. A call registers a node; a wrong type is reported now."""
        self._type()
        if self._owner is not None:
            space.fetcher.know(self)

    def _type(self) -> Schema:
        """The type of its result. Resolved at first use: it may be declared after the resource."""
        if self._schema is None:
            where = f"the answer of {self.name}()"
            try:
                hints = get_type_hints(self.__wrapped__, include_extras=True)
            except NameError as error:
                message = f"{where}: its type cannot be resolved: {error}; declare or import it at module level"
                raise DeclarationError(message, name=self.name) from None
            self._schema = schema_of(hints.pop("return", Any), where=where)
            for name, parameter in self._signature.parameters.items():
                # Variadic parameters, and types that no cell could hold, are not checked.
                if name in hints and parameter.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
                    with suppress(DeclarationError):
                        self._parameter_types[name] = schema_of(hints[name], where=f"{name} of {self.name}()")
        return self._schema

    # -- reading -------------------------------------------------------------------------------------------

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> State[R]:
        """Its state: `hw.Pending()`, `hw.Ready(value)`, or `hw.Failed(error, last)`.

        A run that has read it runs again when the state changes. Without a fresh result, a request is made.
        """
        home, tx = self._home()
        successor = self._successor(home)
        if successor is not None:
            return successor(*args, **kwargs)
        source = self._source(home, *args, **kwargs)
        if tx is None and (home.inbox or home.runtime.has_work):
            home.catch_up()
        home.fetcher.called(source, tx)
        if tx is None and home.runtime.has_work:
            home.catch_up()
        return source.state(home, tx, home.timers.wall, home.fetcher.found_unreadable)

    def refresh(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Request the value again, although the result is fresh, and also if it is not observed.

        In a transaction, the request is sent once the transaction is on disk.

        Args:
            args: The arguments of the resource.
            kwargs: The arguments by name.

        Raises:
            UsageError: HW100. It is called in a computed function, which must only read.
            NotOpen: HW001. The app has no open space here.
        """
        home, tx = self._home()
        successor = self._successor(home)
        if successor is not None:
            successor.refresh(*args, **kwargs)
            return
        source = self._source(home, *args, **kwargs)
        if tx is None:
            home.fetcher.refresh(source)
            home.catch_up()
        elif tx.refusal(source.doc):
            message = f"{self.name}.refresh() has something done, and this code may only read; do it in a handler"
            raise UsageError(message, name=self.name)
        else:
            undone: list[bool] = []

            def ask(ended: Transaction) -> None:
                if ended.status is Status.COMMITTED and not undone:
                    home.fetcher.refresh(source)

            tx.follow(ask, lambda: undone.append(True))

    def node_in(self, home: ResourcePort, *args: object, **kwargs: object) -> Node | None:
        """Its node in an open space for these arguments, if it was called with them."""
        key = key_of(self._bound(*args, **kwargs).arguments)
        found = None if key is None else home.fetcher.find(self, key)
        return None if found is None else found.node

    def why(self, *args: object, **kwargs: object) -> str:
        """Explain why the value was requested with these arguments, or was not. The same as `hw.why`.

        Args:
            args: The arguments of the resource.
            kwargs: The arguments by name.

        Returns:
            The explanation, for people.

        Raises:
            NotOpen: HW001. The app has no open space here.
        """
        home, _ = self._home(UNTRACKED)
        try:
            key = key_of(self._bound(*args, **kwargs).arguments)
        except TypeError as error:
            raise missing_arguments_error(f"why({self.name})", error, home.fetcher.labels(self)) from None
        found = None if key is None else home.fetcher.find(self, key)
        if found is None:
            return f"{self.name}() with these arguments has not been called here, so nothing is known of it"
        return why_requested(home, found)

    def _home(self, use: str = READ) -> tuple[ResourcePort, Transaction | None]:
        home, tx = sole_open(f"{self.name}()") if self._owner is None else find(self._owner, self.name, use)
        assert isinstance(home, ResourcePort)
        return home, tx

    def _successor(self, home: ResourcePort) -> Resource[P, R] | None:
        """The resource that replaced this one, as in a notebook: a caller with the old object means the new one."""
        if self._owner is None or home.fetcher.knows(self):
            return None
        return cast("Resource[P, R] | None", home.fetcher.successor(self._doc))

    def _bound(self, *args: object, **kwargs: object) -> BoundArguments:
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound

    def _source(self, home: ResourcePort, *args: P.args, **kwargs: P.kwargs) -> ResourceInstance:
        """The instance for these arguments, made at need."""
        bound = self._bound(*args, **kwargs)
        key = key_of(bound.arguments)
        if key is None:
            message = (
                f"{self.name}({arguments_text(bound.arguments)}): an argument cannot be compared, so "
                "its results have no key; give it plain values, documents or cells"
            )
            raise UsageError(message, name=self.name)
        found = home.fetcher.find(self, key)
        if found is not None:
            return found
        around = self.enclosing_piece
        return home.fetcher.add(
            self,
            key,
            self._make_instance(home, key, bound),
            origin=self.__wrapped__,
            piece="" if around is None else around.title,
            parent=None if around is None else around.parent,
        )

    def _check(self, arguments: Mapping[str, object]) -> None:
        """Check arguments as the inputs of patterns. Raises SchemaError. Documents and cells are not read."""
        for name, given in arguments.items():
            schema = self._parameter_types.get(name)
            if schema is not None and _is_plain(given):
                try:
                    freeze_with(schema, given, name)
                except HeadwaterError as error:
                    message = error.message.replace("cannot store", f"{self.name}() cannot take", 1)
                    raise type(error)(message, **error.facts) from None

    def _make_instance(self, home: ResourcePort, key: Key, bound: BoundArguments) -> ResourceInstance:
        schema = self._type()
        self._check(bound.arguments)
        doc = Instances.doc_of(self._doc, key) if key else self._doc
        label = f"{self.name}({arguments_text(bound.arguments)})"
        # A later request has the same arguments, whatever a list holds by then.
        for name, given in bound.arguments.items():
            bound.arguments[name] = _as_given(given)
        fn, args, kwargs = self.__wrapped__, bound.args, bound.kwargs
        value: Cell[Any] = Cell(home, doc, ("value",), schema=schema)
        return ResourceInstance(self.request_options, label, doc_key(doc), lambda: fn(*args, **kwargs), value)

    def __repr__(self) -> str:
        return f"<resource {self._doc}>"


def _is_plain(given: object) -> bool:
    """Without documents and cells: checking it reads nothing."""
    if isinstance(given, list | tuple):
        return all(map(_is_plain, given))
    if isinstance(given, Mapping):
        return all(map(_is_plain, given.values()))
    return not isinstance(given, Doc | Readable)


def _as_given(given: object) -> object:
    """A copy of lists and dicts. Documents and cells stay as they are."""
    if isinstance(given, list):
        return [_as_given(each) for each in given]
    if isinstance(given, tuple):
        return tuple(_as_given(each) for each in given)
    return {name: _as_given(each) for name, each in given.items()} if isinstance(given, dict) else given
