"""Connectors: the operations of an outside service, each declared as a read or as a mutation.

    mail = flow.connector("mail")

    @mail.read
    def unread(since: str) -> list[str]: ...

    @mail.mutation
    def send(to: str, text: str, key: str = "") -> str: ...          # `key` takes the idempotency key

    @send.reconcile
    def was_sent(key: str, to: str) -> hw.Answer[str]: ...           # takes any of the call's parameters

Handlers call them with `run.call(send, "ann", "hello")`, which checks the phase.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from inspect import Parameter
from typing import Any, Final, Generic, ParamSpec, TypeVar, cast, get_args, get_origin

from headwater.cells.context import Owner
from headwater.cells.detached_value import DetachedValue
from headwater.cells.space_port import SpacePort
from headwater.declare.events.payload import Payload, hints_of
from headwater.declare.functions.function_code import is_generator, signature_of
from headwater.declare.workflows.current_run import CURRENT_RUN
from headwater.errors import DeclarationError, LogicError
from headwater.values.codec import decode
from headwater.values.hints import schema_of
from headwater.values.schema import ANY
from headwater.values.tree import Value

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

KEY: Final = "key"
"""A parameter of this name takes the idempotency key of the call."""

_UNNAMED: Final = (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL, Parameter.POSITIONAL_ONLY)


class Operation(Generic[P, R]):
    """One operation. Outside of workflows, calling it calls the function."""

    def __init__(self, connector: Connector, fn: Callable[P, R], *, mutates: bool) -> None:
        given: object = fn
        kind = "mutation" if mutates else "read"
        name = getattr(fn, "__name__", "")
        if not callable(given) or isinstance(given, type) or is_generator(given):
            raise DeclarationError(f"@{connector.name}.{kind} is put in front of a plain function, not of {fn!r}")
        if not name or name == "<lambda>":
            raise DeclarationError(f"@{connector.name}.{kind}: {fn!r} has no name to be kept under; write it with def")
        self.connector = connector
        self.fn = fn
        self.name = f"{connector.name}.{name}"
        self.mutates = mutates
        self.reconciler: Callable[..., Any] | None = None
        # The parameters of the call that the reconciler takes; None: all.
        self._reconciler_takes: tuple[str, ...] | None = ()
        where = f"{self.name}()"
        signature = signature_of(fn)
        self.takes_key = mutates and KEY in signature.parameters
        shown = [p for p in signature.parameters.values() if not (self.takes_key and p.name == KEY)]
        hints = hints_of(fn, where) if mutates else {}
        if mutates:
            for parameter in signature.parameters.values():
                if parameter.kind in _UNNAMED:
                    raise DeclarationError(f"{where}: {parameter} cannot be kept by name; name what a mutation takes")
        self._signature = signature.replace(parameters=shown)
        # The arguments and the result of a read are not stored.
        self._payload = Payload(connector.owner, self.name, where, self._signature, hints) if mutates else None
        schema = schema_of(_result(hints.get("return", Any)), where=f"{where} returns") if mutates else ANY
        self.result: DetachedValue = DetachedValue(connector.owner, where, (), schema=schema)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        run = CURRENT_RUN.get()
        if run is not None:
            run.check_direct(self)
        if run is not None and not self.mutates:
            found: R = run.read(self, *args, **kwargs)
            return found
        return self.fn(*args, **kwargs)

    def params(self, *args: object, **kwargs: object) -> Value:
        """The stored form of the arguments, by name. Raises LogicError: nothing was called."""
        assert self._payload is not None
        try:
            return self._payload.seal(*args, **kwargs)
        except TypeError as error:
            raise LogicError(f"run.call({self.name}, ...): {error}") from None

    def named(self, args: tuple[object, ...], kwargs: dict[str, object], key: str) -> dict[str, object]:
        """The arguments of the function, by name: `key` may be any of its parameters."""
        bound = self._signature.bind(*args, **kwargs)
        return {**bound.arguments, **({KEY: key} if self.takes_key else {})}

    def reconcile(self, fn: F) -> F:
        """Declare a function that finds out whether a call has happened: it takes parameters of the call, and `key`."""
        if not self.mutates:
            raise DeclarationError(f"{self.name}() only reads: there is nothing to be reconciled")
        if self.reconciler is not None:
            raise DeclarationError(f"{self.name}() has a reconcile already")
        given: object = fn
        if not callable(given) or is_generator(given):
            raise DeclarationError(f"@{self.name}.reconcile is put in front of a function, not of {fn!r}")
        self._reconciler_takes = self._names_of(fn)
        self.reconciler = fn
        return fn

    def _names_of(self, fn: Callable[..., Any]) -> tuple[str, ...] | None:
        """The parameters of the call that a reconciler takes; None: all."""
        asked: list[str] = []
        for parameter in signature_of(fn).parameters.values():
            if parameter.kind is Parameter.VAR_KEYWORD:
                return None
            known = parameter.name == KEY or parameter.name in self._signature.parameters
            if parameter.kind in _UNNAMED or (not known and parameter.default is Parameter.empty):
                there = ", ".join([KEY, *self._signature.parameters])
                message = f"@{self.name}.reconcile: nothing is known for {parameter.name}"
                raise DeclarationError(f"{message}; of the call it may name {there}", operation=self.name)
            if known:
                asked.append(parameter.name)
        return tuple(asked)

    def reconcile_arguments(self, home: SpacePort, params: bytes, key: str) -> dict[str, object]:
        """The arguments of the reconciler, from the stored call."""
        found = self._loaded(home, params)
        found[KEY] = key
        return (
            found
            if self._reconciler_takes is None
            else {name: found[name] for name in self._reconciler_takes if name in found}
        )

    def stored_arguments(self, home: SpacePort, params: bytes, key: str) -> dict[str, object]:
        """The arguments of the function, from the stored call, to send the same call again."""
        return {**self._loaded(home, params), **({KEY: key} if self.takes_key else {})}

    def _loaded(self, home: SpacePort, params: bytes) -> dict[str, object]:
        assert self._payload is not None
        kept = cast("Mapping[str, Value]", decode(params))
        fields = self._payload.fields
        # The call of another version of the program may have fewer parameters, or others.
        return {n: fields[n].from_tree(home, home.untracked, value) for n, value in kept.items() if n in fields}

    def __repr__(self) -> str:
        return f"<{'mutation' if self.mutates else 'read'} {self.name}>"


def _result(hint: object) -> object:
    """The type of the result; for a function that returns an awaitable, the type of what that returns."""
    if get_origin(hint) in (Awaitable, Coroutine):
        hint = get_args(hint)[-1]
    # A function annotated with None may return something all the same: it is stored.
    return Any if hint in (None, type(None)) else hint


class Connector:
    """An outside service of a workflow, with its operations. Made by `flow.connector`."""

    def __init__(self, owner: Owner, name: str) -> None:
        self.owner = owner
        self.name = name
        self.operations: dict[str, Operation[..., Any]] = {}

    def read(self, fn: Callable[P, R]) -> Operation[P, R]:
        """Declare an operation that changes nothing outside, for producers and `prepare`.

        Args:
            fn: The function.

        Returns:
            The operation. Call it with `run.read(operation, ...)`.

        Raises:
            DeclarationError: HW110. The name is already declared.

        Example:
            ```python
            import headwater as hw

            bank = hw.App("bank").workflow("pay").connector("bank")


            @bank.read
            def balance(account: str) -> int:
                return 100
            ```
        """
        return self._add(Operation(self, fn, mutates=False))

    def mutation(self, fn: Callable[P, R]) -> Operation[P, R]:
        """Declare an operation that changes something outside, for `mutate`. It is called at most once in a run.

        Args:
            fn: The function.

        Returns:
            The operation. Call it with `run.call(operation, ...)`.

        Raises:
            DeclarationError: HW110. The name is already declared.

        Example:
            ```python
            import headwater as hw

            bank = hw.App("bank").workflow("pay").connector("bank")


            @bank.mutation
            def transfer(account: str, cents: int, key: str) -> str:
                return f"receipt of {key}"
            ```
        """
        return self._add(Operation(self, fn, mutates=True))

    def _add(self, operation: Operation[P, R]) -> Operation[P, R]:
        if operation.name in self.operations:
            raise DeclarationError(f"connector {self.name} has {operation.name}() already; name it differently")
        self.operations[operation.name] = operation
        return operation

    @property
    def mutates(self) -> bool:
        """One of its operations is a mutation."""
        return any(operation.mutates for operation in self.operations.values())

    @property
    def reconciles(self) -> bool:
        """One of its operations has a reconciler."""
        return any(operation.reconciler is not None for operation in self.operations.values())

    def __repr__(self) -> str:
        return f"<Connector {self.name}: {', '.join(self.operations) or 'no operations'}>"
