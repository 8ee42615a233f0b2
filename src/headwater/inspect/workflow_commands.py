"""Commands about workflows, runs, inputs and topics, carried out in the tables of a store.

None needs the lock of the space. A transition waits for the disk only, also while a function of the author runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from headwater.declare.workflows.controls import Controls
from headwater.declare.workflows.handler_specs import ConsumerDeclaration, operation_of
from headwater.declare.workflows.plan import Applied, NotApplied, Skipped, Unknown
from headwater.errors import AddressError, TransitionError, UsageError
from headwater.inspect.publish_command import publish_event
from headwater.inspect.workflow_queries import flow_view, full_name, hosted_by, hosts_of
from headwater.inspect.workflow_records import (
    ControlInput,
    ControlReport,
    ControlWorkflow,
    DecideRun,
    PublishEvent,
    PublishReport,
    WorkflowCommand,
)
from headwater.runtime.workflows.hub import Hub
from headwater.runtime.workflows.repair import handler_of
from headwater.values.codec import from_json
from headwater.values.tree import Value, freeze
from headwater.workflow import run_queries
from headwater.workflow.input_queries import next_in_words
from headwater.workflow.operator_actions import find_flow, find_input


def carry_out(hub: Hub, command: WorkflowCommand) -> Any:  # noqa: ANN401  # as the command declares
    """Carry out a command. On disk at return. Raises what rejects it: then nothing was done."""
    hub.recover()
    match command:
        case PublishEvent():
            return _publish(hub, command)
        case ControlWorkflow():
            return _control_workflow(hub, command)
        case ControlInput():
            return _control_input(hub, command)
        case DecideRun():
            return _decide_run(hub, command)


class _NamedControls(Controls):
    """The controls of a workflow, without the app that declares it."""

    def __init__(self, hub: Hub, name: str = "") -> None:
        self._hub = hub
        self._name = name

    def _target(self) -> tuple[Hub, str]:
        return self._hub, self._name


def _publish(hub: Hub, command: PublishEvent) -> PublishReport:
    name = full_name(hub, command.workflow)
    event = publish_event(hub, name, command)
    then = hub.look(lambda tables: next_in_words(tables, find_flow(tables, name), hosts_of(hub)))
    return PublishReport(at=hub.now(), hosted=hosted_by(hub), flow=flow_view(hub, name), event=event, then=then)


def _control_workflow(hub: Hub, command: ControlWorkflow) -> ControlReport:
    name = full_name(hub, command.workflow)
    # The actions are methods of the controls.
    count: int | None = getattr(_NamedControls(hub, name), command.action)()
    return ControlReport(at=hub.now(), hosted=hosted_by(hub), flow=flow_view(hub, name), count=count or 0)


def _decide_run(hub: Hub, command: DecideRun) -> ControlReport:
    controls, number = _NamedControls(hub), command.run
    outcomes: dict[str, Callable[[], Applied[Value] | NotApplied | Skipped | Unknown]] = {
        "applied": lambda: Applied(_result(hub, number, command.value)),
        "not_applied": NotApplied,
        "skip": Skipped,
        "again": Unknown,
    }
    if command.action in outcomes:
        controls.reconcile(number, outcomes[command.action](), by=command.by, reason=command.reason)
    else:
        getattr(controls, command.action)(number, by=command.by, reason=command.reason)
    run = hub.look(lambda tables: run_queries.run_view(tables, tables.run(number), hosts=hosts_of(hub)))
    return ControlReport(at=hub.now(), hosted=hosted_by(hub), flow=flow_view(hub, run.workflow), run=run)


def _control_input(hub: Hub, command: ControlInput) -> ControlReport:
    controls, number = _NamedControls(hub), command.input
    before = hub.look(lambda tables: tables.flow(find_input(tables, number).flow))
    count = controls.skip(number) if command.action == "skip" else controls.reprocess(number)
    found = hub.look(lambda tables: run_queries.input_view(tables, number))
    after, then = hub.look(
        lambda tables: (tables.flow(before.id), next_in_words(tables, tables.flow(before.id), hosts_of(hub)))
    )
    if before.block_kind == "ask" and after.block_kind is None:
        then = f"The plan of run {before.head} is dropped, and made anew without it. {then}"
    flow = flow_view(hub, found.workflow)
    return ControlReport(at=hub.now(), hosted=hosted_by(hub), flow=flow, input=found, count=count, then=then)


def _result(hub: Hub, run_id: int, text: str) -> Value:
    """The result of a call as a person enters it. It must have the type that `next` expects."""
    try:
        given: object = json.loads(text)
    except ValueError as error:
        raise UsageError(f"the result of run {run_id} is not JSON: {error}", run=run_id) from None
    value = freeze(from_json(given), f"the result of run {run_id}")
    run, call = hub.look(lambda tables: (tables.run(run_id), tables.call_of(tables.run(run_id))))
    hosted = next((each for each in list(hub.hosted.values()) if each.flow_id == run.flow), None)
    if hosted is None or call is None or run.handler not in hosted.flow.consumers:
        # A result is final, so it is accepted only where it can be checked.
        message = (
            f"the result of run {run_id} can be checked only where its app is open: start it (headwater run MODULE:APP)"
        )
        raise TransitionError(f"{message}, then say it again; --not-applied and --skip need no app", run=run_id)
    handler = handler_of(hosted, run.kind, run.handler)
    assert isinstance(handler, ConsumerDeclaration)
    operation = operation_of(handler, call.operation)
    sealed = handler.types.result if operation is None else operation.result
    try:
        return sealed.to_tree(sealed.from_tree(hosted.space, hosted.space.untracked, value))
    except AddressError as error:
        raise UsageError(error.message, run=run_id) from None
