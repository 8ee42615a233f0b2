"""Questions about the workflows of a store, answered from its tables. None needs the lock of the space."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, Final

from headwater.errors import NotFoundError
from headwater.inspect.workflow_records import (
    RUNS_MAX,
    InputsPage,
    ListInputs,
    ListRuns,
    ListWorkflows,
    RunReport,
    RunsPage,
    ShowRun,
    WorkflowQuestion,
    WorkflowsPage,
)
from headwater.runtime.workflows.hub import Hub
from headwater.workflow import run_queries
from headwater.workflow.host_state import Hosts
from headwater.workflow.operator_actions import find_flow
from headwater.workflow.wording.views import FlowView, RunView

WATCHED_MAX: Final = 500
"""Runs that are asked for by number."""


def mark_of(hub: Hub) -> str:
    """A mark that differs after each change of a workflow."""
    return f"{id(hub):x}:{hub.transactions}.{len(hub.wakers)}"


def hosted_by(hub: Hub) -> tuple[str, ...]:
    """Workflows whose runs are executed in this process."""
    return tuple(hub.hosted) if hub.wakers else ()


def hosts_of(hub: Hub, apps: tuple[str, ...] = ()) -> Hosts:
    """The hosts, for a file of this process. `apps`: the apps that have it open, also without workflows."""
    declared = tuple(hub.hosted)
    return Hosts(hosted_by(hub), (*apps, *(name.partition(".")[0] for name in declared)), declared)


def answer(hub: Hub, question: WorkflowQuestion, apps: tuple[str, ...] = ()) -> Any:  # noqa: ANN401  # as the question declares
    """The answer. `apps`: the apps that have the file open. Raises NotFoundError."""
    # Runs of a killed host are not reported as running.
    hub.recover()
    at, hosts = hub.now(), hosts_of(hub, apps)
    hosted = hosts.running
    match question:
        case ListWorkflows() if question.workflow:
            flow = flow_view(hub, full_name(hub, question.workflow), hosts)
            return WorkflowsPage(at=at, hosted=hosted, flows=[flow])
        case ListWorkflows():
            flows = hub.look(lambda tables: run_queries.flows(tables, archived=question.every, hosts=hosts))
            return WorkflowsPage(at=at, hosted=hosted, flows=flows)
        case ListRuns():
            return RunsPage(at=at, hosted=hosted, runs=_runs(hub, question))
        case ShowRun():
            details = hub.look(lambda tables: run_queries.run_details(tables, question.run, hosts))
            return RunReport(at=at, hosted=hosted, details=details)
        case ListInputs():
            name = full_name(hub, question.workflow) if question.workflow else None
            limit = max(min(question.limit, RUNS_MAX), 0)
            before, status = question.before or None, question.status or None
            inputs = hub.look(
                lambda tables: run_queries.inputs(tables, name, limit=limit, before=before, status=status)
            )
            return InputsPage(at=at, hosted=hosted, inputs=inputs)


def _runs(hub: Hub, question: ListRuns) -> list[RunView]:
    name = full_name(hub, question.workflow) if question.workflow else None
    return hub.look(
        lambda tables: run_queries.runs(
            tables,
            name,
            limit=max(min(question.limit, RUNS_MAX), 0),
            before=question.before or None,
            after=question.after,
            also=question.also[:WATCHED_MAX],
            status=question.status or None,
            acting=not question.every,
            waiting=question.waiting,
            hosts=hosts_of(hub),
        )
    )


def flow_view(hub: Hub, name: str, hosts: Hosts | None = None) -> FlowView:
    """One workflow."""
    return hub.look(lambda tables: run_queries.flow(tables, name, hosts=hosts or hosts_of(hub)))


def full_name(hub: Hub, text: str) -> str:
    """The workflow that a text means; a similar one is suggested. Raises NotFoundError."""
    try:
        return hub.look(lambda tables: find_flow(tables, text)).name
    except NotFoundError as error:
        there = error.facts.get("known")
        known = [str(name) for name in there] if isinstance(there, tuple) else []
        # Compare the part after the dot: the app is mostly the same.
        last = text.rpartition(".")[2]
        close = get_close_matches(last, {name.rpartition(".")[2] for name in known}, n=3, cutoff=0.65)
        meant = [name for part in close for name in known if name.rpartition(".")[2] == part]
        if not meant:
            raise
        message = f"there is no workflow {text!r} here; did you mean {' or '.join(meant)}?"
        raise NotFoundError(message, workflow=text) from None
