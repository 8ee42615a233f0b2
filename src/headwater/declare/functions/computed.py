"""Computed functions: what `@app.computed` makes of an author's function.

Length: the hot path of a call is one method, with its helpers beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from inspect import BoundArguments
from typing import Any, Final, Generic, ParamSpec, TypeVar, cast

from headwater.cells.cell import Cell
from headwater.cells.context import CONTEXT, Owner, find
from headwater.cells.context_frame import ContextFrame
from headwater.cells.far import FarReads
from headwater.cells.transaction import Transaction
from headwater.declare.functions.arguments import restored_arguments, stored_arguments
from headwater.declare.functions.enclosing_piece import EnclosingPiece
from headwater.declare.functions.fingerprint import Fingerprints
from headwater.declare.functions.function_code import NO_PARAMETERS, is_async, return_type_of, signature_of
from headwater.declare.functions.function_fingerprint import FunctionFingerprint
from headwater.declare.functions.function_options import FunctionOptions, check_returns_nothing, returned_error
from headwater.declare.functions.function_port import FunctionPort
from headwater.declare.functions.instances import Instance, Instances, arguments_text, key_of
from headwater.declare.functions.invocation import Invocation
from headwater.errors import DeclarationError, HeadwaterError, NotReadyError, SchemaError, UsageError
from headwater.scheduler.graph.node import DocPath, Node, NodeKind, NodeSpec, NodeStatus
from headwater.scheduler.runs.seen_failures import note_call, note_waiting
from headwater.scheduler.scheduler_limits import RUNS_MAX
from headwater.store.observations import Arguments
from headwater.values.address import Depth, doc_key
from headwater.values.guess import check_untyped
from headwater.values.hints import freeze_with, schema_of
from headwater.values.ids import DocKey
from headwater.values.schema import ANY, Schema
from headwater.values.tree import ABSENT, Value
from headwater.values.value_limits import INT_MAX, INT_MIN

P = ParamSpec("P")
R = TypeVar("R")

_CLEAN: Final = NodeStatus.CLEAN

COMPUTED = "{}() is computed and may not write {{}}; move the write to a @app.handler"
"""The message for a computed function that writes, for `Transaction.read_only`."""

RUN_COMPUTED = "{run} is computed and may not write {}; move the write to a @app.handler"
"""The same for its own run, whose transaction has its name."""


class Computed(Generic[P, R]):
    """A declared function whose result is stored and kept current. Made by `@app.computed`; a call returns the result.

    There is one result for each set of arguments.
    """

    # Large programs have many. Attributes of authors have a dict, as those of a function.
    __slots__ = (
        "__dict__",
        "__weakref__",
        "__wrapped__",
        "_app",
        "_is_typed",
        "_key",
        "_result",
        "_returned_types",
        "_signature",
        "_type",
        "enclosing_piece",
        "name",
        "options",
    )

    def __init__(self, app: Owner, fn: Callable[P, object], name: str, doc: str, options: FunctionOptions) -> None:
        self.name: str = name
        self.__wrapped__: Callable[P, object] = fn
        self._app = app
        self.options: FunctionOptions = options
        self._signature = signature_of(fn)
        # Made on demand: a result that is returned as it is stored needs none.
        self._result: Cell[Any] | None = None
        self._type: Schema = ANY
        # Types of stored results that are returned as they are; None: the type of the result is not resolved yet.
        self._returned_types: frozenset[type] | None = None
        self._is_typed = True
        self._key = doc_key(doc)
        # Set by the builder of a pattern.
        self.enclosing_piece: EnclosingPiece | None = None

    @property
    def __name__(self) -> str:
        return self.name

    @property
    def address(self) -> str:
        """The address of the result. A function with parameters has one result per set of arguments, and no address.

        Raises:
            UsageError: HW100. The function has parameters.
        """
        if self._signature is not NO_PARAMETERS:
            message = (
                f"{self.name}() takes parameters: it has a result for each set of arguments, and no single address"
            )
            raise UsageError(message, name=self.name)
        return self._result_cell().address

    @property
    def owner(self) -> Owner:
        """The app or space that it belongs to."""
        return self._app

    @property
    def doc(self) -> str:
        """The document of its result."""
        return self._doc

    @property
    def _doc(self) -> str:
        # Of a document of the space.
        return self._key.partition("/")[2]

    @property
    def is_parametrised(self) -> bool:
        """Whether the function has parameters."""
        return self._signature is not NO_PARAMETERS

    def _resolve(self) -> None:
        """Resolve the type of its result. At first use: the return type may be declared after the function."""
        if self._returned_types is None:
            where = f"the result of {self.name}()"
            try:
                hint, self._is_typed = return_type_of(self.__wrapped__)
            except NameError as error:
                message = f"{where}: its type cannot be resolved: {error}; declare or import it at module level"
                raise DeclarationError(message, name=self.name) from None
            if self.options.is_materializer:
                check_returns_nothing(self.name, hint)
                hint = None
            self._type = schema_of(hint, where=where)
            self._returned_types = frozenset() if self._type.has_handles else self._type.plain

    def _result_cell(self) -> Cell[Any]:
        """The cell of its result."""
        if self._result is None:
            self._resolve()
            self._result = Cell(self._app, "", schema=self._type, key=self._key)
        return self._result

    def check(self) -> None:
        """Raise DeclarationError if its return type cannot be stored."""
        self._resolve()

    def to_stored(self, value: object) -> Value:
        """Convert what the function returned."""
        if self._type is ANY and type(value) is int and INT_MIN <= value <= INT_MAX:
            # As below, without a call.
            return value
        if not self._is_typed:
            check_untyped(self.name, value)
        try:
            return freeze_with(self._type, value, "")
        except HeadwaterError:
            if self.options.is_materializer:
                raise returned_error(self.name, value) from None
            # Once more, for the message: the quick attempt above has no name to report.
            return freeze_with(self._type, value, f"the result of {self.name}()")

    def register(self, space: FunctionPort) -> None:
        """Register its node in an open space; with parameters, a call registers one."""
        if self._signature is not NO_PARAMETERS:
            space.instances_of(self)
            with suppress(DeclarationError):
                # Taken before anything runs. A wrong type is reported by the first call.
                self.fingerprint_in(space)
            return
        node = space.add_node(self, self.spec_in(space))
        if self.enclosing_piece is None:
            # As `_renew`: each opening registers each function.
            space.scheduler.announce(node)

    def spec_in(self, space: FunctionPort) -> NodeSpec:
        """The facts about its node in an open space."""
        self._resolve()
        return self._spec(space, self.name, self.__wrapped__, self._key)

    def fingerprint_in(self, space: FunctionPort) -> bytes:
        """Its fingerprint: the code, and everything besides documents that its results depend on."""
        self._resolve()
        around = self.enclosing_piece
        return self.fingerprint_by(space.fingerprints if around is None else around.fingerprints)

    def fingerprint_by(self, fingerprints: Fingerprints) -> bytes:
        """Its fingerprint in a session. Its type is resolved."""
        return fingerprints.of(self.__wrapped__, self._type, self.options.version)

    def _spec(self, space: FunctionPort, name: str, fn: Callable[..., object], doc: DocKey) -> NodeSpec:
        options = self.options
        around = self.enclosing_piece
        outputs: tuple[DocKey, ...] = (doc,)
        envelope: tuple[DocPath, ...] = ()
        if options.writes or options.materializes:
            sides, envelope = options.write_surface(space)
            outputs += sides
        return NodeSpec(
            name=name,
            fn=fn,
            kind=NodeKind.COMPUTATION,
            outputs=outputs,
            side_write_envelope=envelope,
            eager=options.eager,
            result_type=self,
            read_only=RUN_COMPUTED,
            has_callers=True,
            is_async=is_async(self.__wrapped__),
            on_invalid=options.on_invalid,
            timeout_ms=options.timeout_ms,
            debounce_ms=options.debounce_ms,
            throttle_ms=options.throttle_ms,
            change_group=options.change_group,
            fingerprint=FunctionFingerprint(self, space.fingerprints if around is None else around.fingerprints),
            is_instance=self._signature is not NO_PARAMETERS,
            piece="" if around is None else around.title,
            parent=None if around is None else around.parent,
            origin=self.__wrapped__,
        )

    def _renew(self, space: FunctionPort, node: Node) -> None:
        """Notify readers of a declaration that this one replaces, as in a notebook."""
        if self.enclosing_piece is None:
            # The functions of a piece are restored first.
            space.scheduler.announce(node)

    # -- reading -------------------------------------------------------------------------------------------

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:  # noqa: C901, PLR0911, PLR0912  # the hot path
        frame = CONTEXT.get()
        if frame is not None and frame.tx is not None and not args and not kwargs:
            here = frame.tx
            # As for a cell: read before in this transaction, and nothing was written since.
            memo = here.memo
            if self in memo:
                return memo[self]  # type: ignore[return-value]  # a cast is a call
            space = frame.space
            if not here.wrote and space.owner is self._app and not space.needs_check:
                # As below, for a current result: nearly every read of a run.
                node = space.nodes.get(self)  # type: ignore[attr-defined]  # an app's home is a space
                if (
                    node is not None
                    and node.status is _CLEAN
                    and node.rare.error is None
                    and node.failed_at <= here.failures
                    and not node.spec.is_async
                    and space.scheduler.is_valid(node)  # type: ignore[attr-defined]
                ):
                    found: object = here.read(self._key)
                    if type(found) not in self._returned_types:  # type: ignore[operator]  # it has a node
                        found = self._result_cell()._read_in(frame)  # noqa: SLF001  # as .value
                    memo[self] = found
                    return found  # type: ignore[return-value]
        home, tx = find(self._app, self._doc if self._signature is not NO_PARAMETERS else self)
        assert isinstance(home, FunctionPort)
        if tx is not None and tx.has_writes:
            # A transaction with writes that no node has seen: a plain call, and its reads belong to the
            # caller.
            value = self._call_plain(home, tx, *args, **kwargs)
            if not args and not kwargs:
                # Until the next write: functions that call each other twice would else take exponential time.
                tx.memo[self] = value
            return value
        if self._signature is not NO_PARAMETERS:
            if self not in home.instances and (successor := self._successor(home)) is not None:
                return cast("R", successor(*args, **kwargs))
            instance = self._instance(home, *args, **kwargs)
            if instance is None:
                return self._call_without_node(home, tx, *args, **kwargs)
            node, cell = instance.node, instance.cell
        else:
            found = home.nodes.get(self)
            if found is None and (successor := self._successor(home)) is not None:
                return cast("R", successor(*args, **kwargs))
            if found is None or args or kwargs:
                return self._call_without_node(home, tx, *args, **kwargs)
            node, cell = found, None
        value = self._pull(home, tx, node, cell)
        if node.removed and self._signature is not NO_PARAMETERS:
            # Removed as unread while this call waited for the lock.
            return self(*args, **kwargs)
        return value

    def _pull(self, home: FunctionPort, tx: Transaction | None, node: Node, cell: Cell[Any] | None) -> R:
        value = self._read_current(home, tx, node, cell)
        if tx is None:
            if home.runtime.has_work:
                # Other functions may have read what it wrote besides its result.
                home.runtime.catch_up()
        elif self._signature is NO_PARAMETERS:
            tx.memo[self] = value
        return cast("R", value)

    def _read_current(self, home: FunctionPort, tx: Transaction | None, node: Node, cell: Cell[Any] | None) -> object:
        """Make its stored result current, and read it.

        The commit of its run may be rejected before the result is read, because another program has written what it
        read. Its first result is then gone, and it runs again. If there is no room for it, the caller gets that error.
        """
        for _ in range(RUNS_MAX - 1):
            self._make_current(home, tx, node)
            value: object = None
            if tx is None:
                # Takes in verdicts first.
                with suppress(SchemaError):
                    value = self._stored_value(home, tx, cell)
            if value is not None:
                return value
            if self._is_stored(home, tx, node):
                return self._stored_value(home, tx, cell)
        self._make_current(home, tx, node)
        return self._stored_value(home, tx, cell)

    def _stored_value(self, home: FunctionPort, tx: Transaction | None, cell: Cell[Any] | None) -> object:
        """The stored result, as its cell reads it; without a cell, if it is returned as it is stored."""
        if cell is None and not isinstance(tx, FarReads):
            if tx is None and home.inbox:
                home.runtime.catch_up()
            found = (home.untracked if tx is None else tx).read(self._key)
            if type(found) in self._returned_types:  # type: ignore[operator]  # it has a node
                return found
        return (self._result_cell() if cell is None else cell).value

    @staticmethod
    def _is_stored(home: FunctionPort, tx: Transaction | None, node: Node) -> bool:
        """Whether its result can be read after its run. Raises the error of the store if that did not take it."""
        doc = node.outputs[0]
        if tx.hold(doc) if tx is not None else home.replica.read(doc) is not ABSENT:
            return True
        if (error := home.scheduler.store_error(node)) is not None:
            if tx is not None:
                # A reader of an error is notified when the error ends.
                tx.record(doc, (), Depth.DEEP)
            raise error
        return False

    def _make_current(self, home: FunctionPort, tx: Transaction | None, node: Node) -> None:
        """Make its stored result current, without reading it. Raises what the function raised."""
        if tx is None and home.inbox:
            home.runtime.catch_up()
        try:
            if tx is None or node.rare.error is not None or not home.scheduler.is_valid(node):
                if isinstance(tx, FarReads):
                    tx.far.pull(node)
                else:
                    home.pull(node, in_run=tx is not None and tx.node is not None)
        except Exception:
            if tx is not None:
                # A reader of an error is notified when the error ends.
                tx.record(node.outputs[0], (), Depth.DEEP)
                note_call(tx, node)
            elif home.runtime.has_work:
                # Pieces that it started before it failed run, and are then removed.
                home.runtime.catch_up()
            raise
        if node.spec.is_async and (node.is_retried or home.replica.read(node.outputs[0]) is ABSENT):
            if tx is not None:
                tx.record(node.outputs[0], (), Depth.DEEP)
                note_waiting(tx, node)
            why = "it is under way, and its readers run again when it is ready"
            raise NotReadyError(f"{self.name}() has no value yet: {why}", node=self.name)
        if tx is not None:
            note_call(tx, node)

    def current_in(self, home: FunctionPort, tx: Transaction | None) -> Cell[object]:
        """The cell of its result, made current: for readers of a part of it."""
        node = home.nodes.get(self)
        if node is None:
            if (successor := self._successor(home)) is not None:
                return successor.current_in(home, tx)
            raise UsageError(f"{self.name}() is no function of space {home.name!r} any more", node=self.name)
        self._make_current(home, tx, node)
        return self._result_cell()

    def _successor(self, home: FunctionPort) -> Computed[..., Any] | None:
        """The function that replaced this one, as in a notebook: a caller with the old object means the new one."""
        declared = [each for each in (*home.nodes, *home.instances) if isinstance(each, Computed) and each is not self]
        return next((each for each in declared if each._key == self._key), None)  # noqa: SLF001  # one of its kind

    def _instance(self, home: FunctionPort, *args: P.args, **kwargs: P.kwargs) -> Instance | None:
        """The node for these arguments, made at need; None if they have no key, or do not fit."""
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError:
            return None
        bound.apply_defaults()
        key = key_of(bound.arguments)
        if key is None:
            return None
        found = home.instances_of(self).get(key)
        if found is None:
            doc = Instances.doc_of(self._doc, key)
            found = home.add_instance(self, key, lambda: self._make_instance(home, doc_key(doc), bound))
        return found

    def _make_instance(self, home: FunctionPort, doc: DocKey, bound: BoundArguments) -> tuple[NodeSpec, Cell[Any]]:
        self._resolve()
        fn = self.__wrapped__
        given, named = bound.args, bound.kwargs
        label = f"{self.name}({arguments_text(bound.arguments)})"
        spec = self._spec(home, label, lambda: fn(*given, **named), doc)
        spec.called_with = stored_arguments(fn, self._app, bound)
        return spec, Cell(self._app, "", schema=self._type, key=doc)

    def restored_call(self, home: FunctionPort, doc: DocKey, stored: Arguments) -> Callable[[], Node] | None:
        """A function that makes the node of a call that an earlier session recorded; None if it cannot be made.

        The node is not restored: its first caller does that.
        """
        bound = restored_arguments(self.__wrapped__, self._signature, self._app, home, stored)
        key = None if bound is None else key_of(bound.arguments)
        if bound is None or key is None or doc_key(Instances.doc_of(self._doc, key)) != doc:
            return None
        instances = home.instances_of(self)
        return lambda: (instances.get(key) or instances.put(key, *self._make_instance(home, doc, bound))).node

    def node_in(self, home: FunctionPort, *args: object, **kwargs: object) -> Node | None:
        """Its node in an open space; with parameters, the node for these arguments, if any."""
        bound = self._signature.bind(*args, **kwargs)
        if self._signature is NO_PARAMETERS:
            return home.nodes.get(self)
        bound.apply_defaults()
        key = key_of(bound.arguments)
        found = None if key is None else home.instances_of(self).get(key)
        return None if found is None else found.node

    def _call_without_node(self, home: FunctionPort, tx: Transaction | None, *args: P.args, **kwargs: P.kwargs) -> R:
        """A plain call: for arguments that have no key, or for a function that is not declared any more."""
        around = self.enclosing_piece
        if around is not None and is_async(self.__wrapped__) and self not in home.nodes and self not in home.instances:
            message = f"{self.name}() of {around.title} is async and cannot be called: the piece is stopped"
            raise UsageError(f"{message}; start it again with space.start(...)", node=self.name)
        if tx is not None:
            return self._call_plain(home, tx, *args, **kwargs)
        with home.transaction() as own:
            return self._call_plain(home, own, *args, **kwargs)

    def _call_plain(self, home: FunctionPort, tx: Transaction, *args: P.args, **kwargs: P.kwargs) -> R:
        """A plain call in a transaction that is not its own: it may not write."""
        if is_async(self.__wrapped__):
            # Arguments that do not fit raise TypeError, as in Python.
            self._signature.bind(*args, **kwargs)
            message = (
                f"{self.name}() is async and cannot be called in a transaction that has written, nor with arguments "
                "that cannot be compared; call it before the first write"
            )
            raise UsageError(message, node=self.name)
        if self.options.writes or self.options.materializes:
            message = (
                f"{self.name}() writes besides its result, and cannot be called in a transaction that has written, "
                "nor with arguments that cannot be compared; call it before the first write, or after the block"
            )
            raise UsageError(message, node=self.name)
        tx.guarded = True
        token = CONTEXT.set(ContextFrame(home, tx, CONTEXT.get(), COMPUTED.format(self.name)))
        try:
            result = self.__wrapped__(*args, **kwargs)
        finally:
            CONTEXT.reset(token)
        if type(result) is Invocation:
            message = (
                f"{self.name}() returns {result!r}, and cannot be called in a transaction that has written, nor with "
                "arguments that cannot be compared: only its own run starts children; call it before the first write"
            )
            raise UsageError(message, node=self.name)
        return cast("R", result)

    def __repr__(self) -> str:
        return f"<computed {self._doc}>"


class _FunctionDoc:
    """The text of the function, for a computed function; and for the class, its own."""

    def __init__(self, text: str | None) -> None:
        self._text = text

    def __get__(self, function: Computed[..., Any] | None, _owner: object = None) -> str | None:
        return self._text if function is None else function.__wrapped__.__doc__


Computed.__doc__ = _FunctionDoc(Computed.__doc__)  # type: ignore[assignment]  # one for each function would take memory
