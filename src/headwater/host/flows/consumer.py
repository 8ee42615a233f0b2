"""Consumers, as authors write them: a class with up to four methods, one for each phase.

Must never know: when they are called.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args, get_origin

from headwater.cells.here import Owner
from headwater.cells.sealed import Sealed
from headwater.errors import DeclarationError
from headwater.host.payload import hints_of
from headwater.values.hints import schema_of
from headwater.values.schema import ANY, Schema

if TYPE_CHECKING:
    from headwater.host.flows.plan import Applied, Event, NotApplied, Outcome, Plan, Unknown
    from headwater.host.flows.run import Run

In = TypeVar("In")
Data = TypeVar("Data")
Result = TypeVar("Result")


class Consumer(ABC, Generic[In, Data, Result]):
    """What is done with the events of a topic: `prepare` decides, `mutate` acts once, `next` goes on from there.

    The three types are those of the events, of what `prepare` hands to `mutate`, and of what `mutate` returns. A state
    that is kept between runs is an attribute with a type and a default, `state: Cursor = Cursor()`: read it in
    `prepare`, assign it in `next`.
    """

    state: Any = None
    run: Run
    """The run that a method is called in."""

    @abstractmethod
    def prepare(self, pending: Sequence[Event[In]]) -> Plan[Data] | Awaitable[Plan[Data]]:
        """Choose events and decide everything. Only reads; may be called again."""

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
        """The one effect. Never called again for the same run; `run.key` names it for whoever is called."""

    def reconcile(  # for those that have none
        self,
        run: Run,  # noqa: ARG002  # what those that have one are given
        data: Data,  # noqa: ARG002  # likewise
    ) -> Applied[Result] | NotApplied | Unknown | Awaitable[Applied[Result] | NotApplied | Unknown]:
        """After a crash or a timeout: did it happen? Without this method, a person is asked."""
        from headwater.host.flows.plan import Unknown  # noqa: PLC0415  # it imports this module

        return Unknown(f"{type(self).__name__} has no reconcile")

    def next(self, run: Run, data: Data, outcome: Outcome[Result]) -> Awaitable[None] | None:
        """Publish, and write cells: that lands with the commit of the run, or not at all. May be called again."""


def overrides(kind: type[Consumer[Any, Any, Any]], method: str) -> bool:
    """Whether a class has its own."""
    return getattr(kind, method) is not getattr(Consumer, method)


class Types:
    """How what a consumer hands on is kept: by the types of its class, or as whatever JSON it is."""

    def __init__(self, owner: Owner, kind: type[Consumer[Any, Any, Any]], where: str) -> None:
        given = _type_arguments(kind)
        self.data: Sealed = _sealed(owner, f"{where}, data", given[1])
        self.result: Sealed = _sealed(owner, f"{where}, result", given[2])
        hints = _class_hints(kind, where)
        default = getattr(kind, "state", None)
        known = hints.get("state", Any)
        self.state: Sealed = _sealed(owner, f"{where}, state", known if known is not Any else None)
        self.default = default


def _type_arguments(kind: type) -> tuple[object, object, object]:
    for base in getattr(kind, "__orig_bases__", ()):
        if get_origin(base) is Consumer:
            given = get_args(base)
            return given[0], given[1], given[2]
    for parent in kind.__mro__[1:]:
        if parent is not Consumer and issubclass(parent, Consumer) and "__orig_bases__" in vars(parent):
            return _type_arguments(parent)
    return None, None, None


def _class_hints(kind: type, where: str) -> dict[str, object]:
    """The types of its attributes; those of Consumer itself are not the author's."""
    from inspect import get_annotations  # noqa: PLC0415  # at declaration only

    found: dict[str, object] = {}
    for parent in reversed(kind.__mro__):
        if parent is Consumer or not issubclass(parent, Consumer):
            continue
        try:
            found |= get_annotations(parent, eval_str=True)
        except NameError as error:
            raise DeclarationError(f"{where}: its types cannot be resolved: {error}; declare them first") from None
    return found


def _sealed(owner: Owner, where: str, hint: object) -> Sealed:
    schema: Schema = ANY if hint is None or hint is Any or isinstance(hint, TypeVar) else schema_of(hint, where=where)
    return Sealed(owner, where, (), schema=schema)


def sealed_state(owner: Owner, fn: Callable[..., object], parameter: str, where: str) -> Sealed:
    """How the state of a producer is kept: by the type of the parameter that takes it."""
    return _sealed(owner, f"{where}, state", hints_of(fn, where).get(parameter))
