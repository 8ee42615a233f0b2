"""Declared producers and consumers: the function or class, and its options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dis import get_instructions
from inspect import Parameter
from types import CodeType
from typing import Any, Final, Literal, TypeAlias, cast, get_args

import msgspec
from msgspec import UNSET

from headwater.cells.context import Owner
from headwater.cells.detached_value import DetachedValue
from headwater.declare.events.payload import hints_of
from headwater.declare.functions.function_code import signature_of
from headwater.declare.workflows.connector import Connector, Operation
from headwater.declare.workflows.consumer import Consumer, ConsumerTypes, overrides, sealed_type, stored_default
from headwater.declare.workflows.event_types import check_events
from headwater.declare.workflows.run_handle import Run
from headwater.declare.workflows.topic import Topic
from headwater.errors import DeclarationError, UsageError
from headwater.values.codec import encode
from headwater.values.duration import Duration, to_ms
from headwater.workflow.rates import interval_of
from headwater.workflow.retry_policy import Retry
from headwater.workflow.rows import CallRow
from headwater.workflow.run_lanes import check_key
from headwater.workflow.schedule import Schedule
from headwater.workflow.workflow_limits import AT_ONCE_MAX, PHASE_MS
from headwater.workflow.workflow_spec import ConsumerSpec, LaneSpec, Lost, ProducerSpec

PhaseName: TypeAlias = Literal["produce", "prepare", "mutate", "next", "reconcile"]
Timeout: TypeAlias = Duration | Mapping[PhaseName, Duration]
"""How long each phase may take: the same for all, or one for each."""


class Producer:
    """A function that polls a source and publishes what it finds."""

    def __init__(  # noqa: PLR0917  # made in one function
        self,
        owner: Owner,
        fn: Callable[..., Any],
        name: str,
        schedule: Schedule | None,
        retry: Retry,
        timeout: Timeouts,
    ) -> None:
        self.fn = fn
        self.name = name
        self.schedule = schedule
        self.retry = retry
        self.timeouts = timeout
        self.uses: tuple[Connector, ...] = ()
        # The source that a fixer has written, if any.
        self.source: str | None = None
        where = f"producer {name}()"
        # The parameters that take the run and the state, if any.
        self.run_at: str | None = None
        self.state_at: str | None = None
        self.state: DetachedValue | None = None
        self.default: bytes | None = None
        parameters = signature_of(fn).parameters.values()
        hints = hints_of(fn, where) if parameters else {}
        for parameter in parameters:
            is_named = parameter.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
            if is_named and hints.get(parameter.name) is Run and self.run_at is None:
                self.run_at = parameter.name
            elif is_named and self.state_at is None and hints.get(parameter.name) is not Run:
                self.state_at = parameter.name
                hint = hints.get(parameter.name)
                self.state = sealed_type(owner, f"{where}, state", hint)
                given = None if parameter.default is Parameter.empty else parameter.default
                self.default = stored_default(given, hint, where)
            else:
                message = (
                    f"{where} takes {parameter}: a producer takes its state, and a run (annotated hw.Run), or neither"
                )
                raise DeclarationError(message, name=name)

    @property
    def spec(self) -> ProducerSpec:
        """The stored form."""
        return ProducerSpec(name=self.name, schedule=self.schedule)


_RUN_AT = 1
"""The parameter of mutate that takes the run: self, run, data."""


def _uses_parameter(code: CodeType, name: str) -> bool:
    """Whether a function, or a nested one, uses this parameter, or `self.run`."""
    if name in code.co_cellvars or "run" in code.co_names:
        return True
    return any(each.opname.startswith("LOAD_FAST") and each.argval == name for each in get_instructions(code))


def _uses_run(kind: type[Consumer[Any, Any, Any]]) -> bool:
    """Whether the `mutate` of a class uses its run."""
    code = getattr(kind.mutate, "__code__", None)
    # Not a Python function: unknown.
    return code is None or code.co_argcount < _RUN_AT + 1 or _uses_parameter(code, code.co_varnames[_RUN_AT])


class FlowControl(msgspec.Struct, frozen=True, kw_only=True):
    """How many runs of a consumer are at work at once, how often it calls, and what a lost call leads to."""

    lanes: LaneSpec | None = None
    interval_us: int = 0
    lost: Lost = "reconcile"


UNLIMITED: Final = FlowControl()
"""One run at a time, with the other handlers of the workflow."""


def flow_control(key: object, concurrency: object, rate: object, lost: object, where: str) -> FlowControl:
    """The options `key`, `concurrency`, `rate` and `lost` of a consumer. Raises DeclarationError."""
    if key is not None:
        check_key(key, where)
    if concurrency is not None and (
        type(concurrency) is not int or not 1 <= concurrency <= AT_ONCE_MAX  # no bool
    ):
        message = f"{where}: concurrency={concurrency!r}; a number of lanes from 1 to {AT_ONCE_MAX} is expected"
        raise DeclarationError(message)
    if lost not in get_args(Lost):
        known = ", ".join(f'"{each}"' for each in get_args(Lost))
        raise DeclarationError(f"{where}: lost={lost!r}; one of {known} is expected")
    # One lane for all events is what a workflow has anyway.
    has_lanes = key is not None or concurrency not in (None, 1)
    lanes = LaneSpec(key=cast("str | None", key), at_once=concurrency) if has_lanes else None
    interval_us = 0 if rate is None else interval_of(rate, where)
    return FlowControl(lanes=lanes, interval_us=interval_us, lost=cast("Lost", lost))


class ConsumerDeclaration:
    """The class of a consumer, and its options."""

    def __init__(
        self,
        owner: Owner,
        kind: type[Consumer[Any, Any, Any]],
        name: str,
        topics: tuple[Topic[Any], ...],
        *,
        retry: Retry,
        timeout: Timeouts,
        peek: int,
        uses: tuple[Connector, ...],
        acts: bool | None = None,
        flow: FlowControl = UNLIMITED,
    ) -> None:
        self.name = name
        self.acts = acts
        self.flow = flow
        self.lost: Lost = flow.lost
        self.topics = {topic.name: topic for topic in topics}
        self.retry = retry
        self.timeouts = timeout
        self.peek = peek
        self.uses = uses
        # The source that a fixer has written, if any.
        self.source: str | None = None
        self.use_class(kind, ConsumerTypes(owner, kind, f"consumer {name}"))

    def use_class(self, kind: type[Consumer[Any, Any, Any]], types: ConsumerTypes) -> None:
        """Set the class whose methods are called. Raises DeclarationError if its events are of another type."""
        check_events(types.event, {name: topic.kind for name, topic in self.topics.items()}, f"consumer {self.name}")
        self.kind = kind
        self.types = types
        self.has_mutate = overrides(kind, "mutate")
        self.has_next = overrides(kind, "next")
        self.has_reconcile = overrides(kind, "reconcile")
        if self.flow.lanes is not None and (types.default is not None or types.has_state):
            message = (
                f"consumer {self.name} has a state, and lanes that are at work at the same time; keep what it knows in "
                "a cell, or leave out key= and concurrency="
            )
            raise DeclarationError(message, name=self.name)
        self._uses_its_run = _uses_run(kind)

    @property
    def by_call(self) -> bool:
        """Its mutate only names the operation of a connector that is to be called.

        Not if it has a reconcile of its own, or never uses its run: then it acts itself, whatever its connectors offer.
        """
        if self.acts is not None:
            return not self.acts
        if not self.uses or self.has_reconcile or not self._uses_its_run:
            return False
        # Operations may be declared after the consumer.
        return any(connector.mutates for connector in self.uses)

    def check(self) -> None:
        """Reject a mutate of which it is unclear whether it acts itself, or could not be sent again.

        Raises DeclarationError.
        """
        self._check_sent_again()
        code = getattr(self.kind.mutate, "__code__", None)
        is_clear = self.acts is not None or not self.has_reconcile or code is None or "call" not in code.co_names
        if is_clear or not any(connector.mutates for connector in self.uses):
            return
        names = ", ".join(connector.name for connector in self.uses if connector.mutates)
        message = (
            f"consumer {self.name} uses {names}, which has mutations: its mutate names a call, and it has its own "
            "reconcile, so it is not clear whether it acts itself or names a call; write acts=True, or acts=False"
        )
        raise DeclarationError(message, name=self.name)

    def _check_sent_again(self) -> None:
        """The same call is sent again under its key: so it has to take one."""
        for connector in self.uses if self.lost == "same_call" and self.by_call else ():
            for operation in connector.operations.values():
                if operation.mutates and not operation.takes_key:
                    message = (
                        f'consumer {self.name}: lost="same_call" sends a lost call of {operation.name}() again, which '
                        "takes no key by which the service could know it; give it a parameter `key: str`"
                    )
                    raise DeclarationError(message, name=self.name)

    @property
    def spec(self) -> ConsumerSpec:
        """The stored form."""
        has_reconcile = self.has_reconcile or (self.by_call and any(each.reconciles for each in self.uses))
        lanes, interval_us, lost = self.flow.lanes, self.flow.interval_us, self.lost
        return ConsumerSpec(
            name=self.name,
            topics=tuple(self.topics),
            peek=self.peek,
            mutates=self.has_mutate,
            reconciles=has_reconcile if lost == "reconcile" else lost == "same_call",
            lanes=UNSET if lanes is None else lanes,
            call_every_us=interval_us or UNSET,
            lost=UNSET if lost == "reconcile" else lost,
        )


class Timeouts:
    """How long each phase may take, in seconds."""

    def __init__(self, given: Timeout | None, where: str) -> None:
        self.seconds: dict[str, float] = dict.fromkeys(get_args(PhaseName), PHASE_MS / 1000)
        if given is None:
            return
        phases = given if isinstance(given, Mapping) else dict.fromkeys(self.seconds, given)
        for phase, duration in phases.items():
            if phase not in self.seconds:
                known = ", ".join(self.seconds)
                raise DeclarationError(f"{where}: timeout= names {phase!r}, which is no phase; there is {known}")
            try:
                ms = to_ms(duration, f"{where}, timeout")
            except UsageError as error:
                raise DeclarationError(error.message, **error.facts) from None
            if not ms:
                raise DeclarationError(
                    f'{where}: timeout={given!r} leaves no time at all; write "30s", or leave it out'
                )
            self.seconds[phase] = ms / 1000


def operation_of(handler: ConsumerDeclaration, name: str) -> Operation[..., Any] | None:
    """The operation of that name, among the connectors that a handler uses."""
    return next((c.operations[name] for c in handler.uses if name in c.operations), None)


def answered_bytes(handler: ConsumerDeclaration | Producer, call: CallRow | None, result: object) -> bytes:
    """The stored form of the result that a reconciliation found."""
    assert isinstance(handler, ConsumerDeclaration)
    assert call is not None
    operation = operation_of(handler, call.operation)
    sealed = handler.types.result if operation is None else operation.result
    return encode(sealed.to_tree(result))
