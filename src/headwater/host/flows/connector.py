"""Connectors: the operations of an outside service, each declared as a read or as a mutation.

    mail = flow.connector("mail")

    @mail.read
    def unread(since: str) -> list[str]: ...

    @mail.mutation
    def send(to: str, text: str) -> str: ...          # with a parameter `key`: gets the idempotency key

    @send.reconcile
    def was_sent(key: str, to: str, text: str) -> hw.Answer[str]: ...

Handlers call them with `run.call(send, "ann", "hello")`, which looks whether this phase may.

Must never know: runs.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any, Generic, ParamSpec, TypeVar

from headwater.cells.here import Owner
from headwater.cells.sealed import Sealed
from headwater.errors import DeclarationError, LogicError
from headwater.host.code import signature_of
from headwater.host.payload import hints_of
from headwater.values.hints import schema_of
from headwater.values.schema import ANY
from headwater.values.tree import Value, freeze

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

KEY = "key"
"""A parameter of this name is given the idempotency key of the call."""


class Operation(Generic[P, R]):
    """One operation. Calling it directly is calling the function: for tests, not for handlers."""

    def __init__(self, connector: Connector, fn: Callable[P, R], *, mutates: bool) -> None:
        name = getattr(fn, "__name__", "")
        self.connector = connector
        self.fn = fn
        self.name = f"{connector.name}.{name}"
        self.mutates = mutates
        self.reconciler: Callable[..., Any] | None = None
        where = f"{self.name}()"
        signature = signature_of(fn)
        self.takes_key = mutates and KEY in signature.parameters
        hints = hints_of(fn, where)
        shown = [p for p in signature.parameters.values() if not (self.takes_key and p.name == KEY)]
        if mutates:
            for parameter in shown:
                if parameter.kind in (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL, Parameter.POSITIONAL_ONLY):
                    raise DeclarationError(f"{where}: {parameter} cannot be kept by name; name what a mutation takes")
        # Without what is not named: calls are kept by name.
        self.signature: Signature = signature.replace(parameters=shown)
        returns = hints.get("return", Any)
        schema = ANY if returns in (Any, None, type(None)) else schema_of(_awaited(returns), where=f"{where} returns")
        self.result: Sealed = Sealed(connector.owner, where, (), schema=schema)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.fn(*args, **kwargs)

    def params(self, *args: object, **kwargs: object) -> Value:
        """What a call is kept as. Raises LogicError: nothing was called."""
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise LogicError(f"run.call({self.name}): {error}; it takes {self.signature}") from None
        bound.apply_defaults()
        return freeze(dict(bound.arguments), f"what {self.name}() is called with")

    def reconcile(self, fn: F) -> F:
        """Declare what tells whether a call has happened: it is given what the call was, and `key` if it takes one."""
        if not self.mutates:
            raise DeclarationError(f"{self.name}() only reads: there is nothing to be reconciled")
        if self.reconciler is not None:
            raise DeclarationError(f"{self.name}() has a reconcile already")
        self.reconciler = fn
        return fn

    def __repr__(self) -> str:
        return f"<{'mutation' if self.mutates else 'read'} {self.name}>"


def _awaited(hint: object) -> object:
    return hint


class Connector:
    """The operations of one outside service."""

    def __init__(self, owner: Owner, name: str) -> None:
        self.owner = owner
        self.name = name
        self.operations: dict[str, Operation[..., Any]] = {}

    def read(self, fn: Callable[P, R]) -> Operation[P, R]:
        """Declare an operation that changes nothing: for producers and `prepare`."""
        return self._add(Operation(self, fn, mutates=False))

    def mutation(self, fn: Callable[P, R]) -> Operation[P, R]:
        """Declare one that changes something outside: for `mutate`, at most once in a run."""
        return self._add(Operation(self, fn, mutates=True))

    def _add(self, operation: Operation[P, R]) -> Operation[P, R]:
        if operation.name in self.operations:
            raise DeclarationError(f"connector {self.name} has {operation.name}() already; name it differently")
        self.operations[operation.name] = operation
        return operation

    @property
    def mutates(self) -> bool:
        """Any of its operations does."""
        return any(operation.mutates for operation in self.operations.values())

    def __repr__(self) -> str:
        return f"<Connector {self.name}: {', '.join(self.operations) or 'no operations'}>"
