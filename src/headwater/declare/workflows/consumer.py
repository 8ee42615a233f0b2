"""Consumers, as authors write them: a class with up to four methods, one for each phase."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from difflib import get_close_matches
from inspect import get_annotations, getattr_static, isabstract, isfunction, signature
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast, get_args, get_origin, get_type_hints

from headwater.cells.context import Owner
from headwater.cells.detached_value import DetachedValue
from headwater.declare.functions.function_code import is_generator
from headwater.declare.workflows.current_run import CURRENT_RUN
from headwater.declare.workflows.plan import Applied, Event, NotApplied, Outcome, Plan, Unknown
from headwater.declare.workflows.run_handle import Run
from headwater.errors import DeclarationError, UsageError
from headwater.values.codec import encode
from headwater.values.hints import freeze_with, schema_of
from headwater.values.schema import ANY, Schema

In = TypeVar("In")
Data = TypeVar("Data")
Result = TypeVar("Result")


class Consumer(ABC, Generic[In, Data, Result]):
    """The base class of consumers: `prepare` decides, `mutate` acts once, `next` continues.

    The three types are those of the events, of the data that `prepare` passes to `mutate`, and of the result of
    `mutate`.
    """

    state: Any = None
    """The state that is stored between runs. Declare it with a type and a default: `state: Cursor = Cursor()`.

    Read it in `prepare`, assign it in `next`.
    """
    run: Run
    """The run that a method is called in."""

    @abstractmethod
    def prepare(self, pending: Sequence[Event[In]]) -> Plan[Data] | Awaitable[Plan[Data]]:
        """Choose events and decide everything. This method only reads, and may be called again.

        Args:
            pending: The queued events, oldest first.

        Returns:
            The plan, or `hw.Plan.idle()` if there is nothing to do.
        """

    def mutate(
        self, run: Run, data: Data
    ) -> (
        Result
        | Applied[Result]
        | NotApplied
        | Unknown
        | Awaitable[Result | Applied[Result] | NotApplied | Unknown | None]
        | None
    ):
        """Act: the one effect of the run. This method is never called again for the same run.

        Args:
            run: The run. `run.key` identifies the effect for the called service.
            data: The data of the plan.

        Returns:
            The result of the effect. `hw.NotApplied()` or `hw.Unknown()` if it did not happen, or may not have
            happened.
        """

    def reconcile(  # the default
        self,
        run: Run,  # noqa: ARG002  # the parameters of an override
        data: Data,  # noqa: ARG002  # likewise
    ) -> Applied[Result] | NotApplied | Unknown | Awaitable[Applied[Result] | NotApplied | Unknown]:
        """Find out whether the effect has happened, after a crash or a timeout. Without this method, a person is asked.

        Args:
            run: The run. `run.key` identifies the effect.
            data: The data of the plan.

        Returns:
            `hw.Applied(result)`, `hw.NotApplied()` or `hw.Unknown()`.
        """
        return Unknown(f"{type(self).__name__} has no reconcile")

    def next(self, run: Run, data: Data, outcome: Outcome[Result]) -> Awaitable[None] | None:
        """Continue after the effect: publish events and write cells. Both are part of the commit of the run.

        This method may be called again.

        Args:
            run: The run.
            data: The data of the plan.
            outcome: `hw.Applied(result)`, `hw.Skipped()` or `hw.Nothing()`.
        """

    # Hidden from type checkers: they would allow the assignment of any attribute.
    if not TYPE_CHECKING:

        def __setattr__(self, name: str, value: object) -> None:
            run = CURRENT_RUN.get() if name == "state" else None
            if run is None or run.keeps_state(type(self).__name__):
                object.__setattr__(self, name, value)


def overrides(kind: type[Consumer[Any, Any, Any]], method: str) -> bool:
    """Whether a class overrides a method."""
    return getattr(kind, method) is not getattr(Consumer, method)


_METHODS: Final = {"prepare": 1, "mutate": 2, "reconcile": 2, "next": 3}
"""The number of arguments of each."""


_CLOSE: Final = 0.8
"""How similar names must be: `nxt` and `next` are, `text` and `next` are not."""


def check_methods(kind: type[Consumer[Any, Any, Any]], where: str) -> None:
    """Reject a class that could never be called. Raises DeclarationError."""
    if isabstract(kind):
        close = get_close_matches("prepare", _own_methods(kind), n=1, cutoff=_CLOSE)
        hint = f"; did you mean prepare by {close[0]}?" if close else ""
        raise DeclarationError(f"{where}: it has no prepare, which chooses events and returns a hw.Plan{hint}")
    try:
        signature(kind).bind()
    except TypeError as error:
        message = f"{where}: it is created for each run, without arguments: {error}; remove the parameters"
        raise DeclarationError(message) from None
    for name, count in _METHODS.items():
        method = getattr(kind, name)
        if not callable(method) or is_generator(method):
            raise DeclarationError(f"{where}: {name} is {method!r}; a plain or async method is expected")
        is_bound = isinstance(getattr_static(kind, name), staticmethod | classmethod)
        try:
            signature(method).bind(*range(count + (not is_bound)))
        except TypeError as error:
            parameters = signature(getattr(Consumer, name)).parameters
            raise DeclarationError(f"{where}: write `def {name}({', '.join(parameters)})`: {error}") from None
    _check_spelling(kind, where)


def _own_methods(kind: type) -> dict[str, Callable[..., Any]]:
    """The public methods of the author."""
    found: dict[str, Callable[..., Any]] = {}
    for parent in kind.__mro__:
        if issubclass(parent, Consumer) and parent is not Consumer:
            plain = {name: value for name, value in vars(parent).items() if isfunction(value) and name[0] != "_"}
            found |= {name: value for name, value in plain.items() if name not in _METHODS}
    return found


def _check_spelling(kind: type[Consumer[Any, Any, Any]], where: str) -> None:
    """Reject a method with nearly the name of a missing one, and with its parameters."""
    missing = [name for name in _METHODS if not overrides(kind, name)]
    for name, method in _own_methods(kind).items():
        for meant in get_close_matches(name.lower(), missing, n=1, cutoff=_CLOSE):
            try:
                signature(method).bind(*range(_METHODS[meant] + 1))
            except TypeError:
                continue
            message = f"{where}: nothing would call {name}(); did you mean {meant}?"
            raise DeclarationError(message, method=name, meant=meant)


class ConsumerTypes:
    """How the values of a consumer are stored: by the types of its class, or as any JSON."""

    def __init__(self, owner: Owner, kind: type[Consumer[Any, Any, Any]], where: str) -> None:
        given = _type_arguments(kind)
        # The declared type of its events; None: not declared.
        self.event: object = given[0]
        self.data: DetachedValue = sealed_type(owner, f"{where}, data", given[1])
        self.result: DetachedValue = sealed_type(owner, f"{where}, result", given[2])
        hints = _class_hints(kind, where)
        hint = hints.get("state", Any)
        self.has_state = "state" in hints
        self.state: DetachedValue = sealed_type(owner, f"{where}, state", hint)
        self.default: bytes | None = stored_default(getattr(kind, "state", None), hint, where)

    def changed_state(self, before: bytes | None, state: object) -> bytes | None:
        """The stored form of the state that `next` has left; None if it is unchanged."""
        known = self.default if before is None else before
        if state is None and known is None:
            return None
        kept = encode(self.state.to_tree(state))
        return None if kept == known else kept


def stored_default(given: object, hint: object, where: str) -> bytes | None:
    """The stored form of the default of a state; None: nothing. Raises DeclarationError if it does not fit its type."""
    if given is None and (hint is Any or hint is None):
        return None
    try:
        # As a stored value, but without documents: none is open yet.
        kept = encode(freeze_with(_schema(hint, where), given, f"the state of {where}"))
    except UsageError as error:
        if given is None:
            name = getattr(hint, "__name__", hint)
            message = f"{where}: its state is of type {name} and has no default: give it one, or write `{name} | None`"
        else:
            message = f"{where}: {given!r} cannot be the default of its state: {error.message}"
        raise DeclarationError(message) from None
    return None if given is None else kept


def _type_arguments(kind: type, known: Mapping[object, object] | None = None) -> tuple[object, object, object]:
    """The arguments of `hw.Consumer[In, Data, Result]`, of the class or of a base class."""
    known = known or {}
    for base in vars(kind).get("__orig_bases__", kind.__bases__):
        origin = get_origin(base) or base
        if not (isinstance(origin, type) and issubclass(origin, Consumer)):
            continue
        given = [_filled(argument, known) for argument in _resolved(kind, get_args(base))]
        if origin is Consumer:
            return cast("tuple[object, object, object]", tuple(given)) if given else (None, None, None)
        parameters = getattr(origin, "__parameters__", ())
        return _type_arguments(origin, dict(zip(parameters, given, strict=False)))
    return None, None, None


def _resolved(kind: type, hints: tuple[object, ...]) -> list[object]:
    """Type hints that are texts, resolved in the module of the class."""
    names = vars(sys.modules.get(kind.__module__, sys))
    holder = SimpleNamespace(__annotations__={str(place): hint for place, hint in enumerate(hints)})
    try:
        return list(get_type_hints(holder, names, include_extras=True).values())
    except NameError as error:
        message = f"consumer {kind.__name__}: its types cannot be resolved: {error}; declare them first"
        raise DeclarationError(message) from None


def _filled(hint: Any, known: Mapping[object, object]) -> object:  # noqa: ANN401  # any type hint
    """A type hint with its variables replaced; an unknown variable is Any."""
    if isinstance(hint, TypeVar):
        return known.get(hint, Any)
    parameters = getattr(hint, "__parameters__", ())
    if parameters and not isinstance(hint, type):
        return cast("object", hint[tuple(known.get(parameter, Any) for parameter in parameters)])
    return cast("object", hint)


def _class_hints(kind: type, where: str) -> dict[str, object]:
    """The types of the attributes of an author's class, without those of Consumer."""
    found: dict[str, object] = {}
    for parent in reversed(kind.__mro__):
        if parent is Consumer or not issubclass(parent, Consumer):
            continue
        try:
            found |= get_annotations(parent, eval_str=True)
        except NameError as error:
            raise DeclarationError(f"{where}: its types cannot be resolved: {error}; declare them first") from None
    return found


def sealed_type(owner: Owner, where: str, hint: object) -> DetachedValue:
    """How a value is stored: by its type; without one, as any JSON."""
    return DetachedValue(owner, where, (), schema=_schema(hint, where))


def _schema(hint: object, where: str) -> Schema:
    return ANY if hint is None or hint is Any else schema_of(hint, where=where)
