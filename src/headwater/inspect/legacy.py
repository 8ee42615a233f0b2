# ruff: noqa: C901, D103, PLR0911
"""Requests of commands that are not moved to `Inspector` yet, translated to questions and commands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self, cast

import msgspec

from headwater.errors import ClosedError, HeadwaterError
from headwater.inspect.answers import OpeningView, PiecesPage, TraceLine
from headwater.inspect.commands import (
    AnyCommand,
    ControlInput,
    ControlWorkflow,
    DecideRun,
    DropEvent,
    PublishEvent,
    RedeliverEvent,
    SendEvent,
    WorkflowCommand,
)
from headwater.inspect.envelope import Request
from headwater.inspect.inspector import Scope
from headwater.inspect.questions import (
    AnyQuestion,
    ExplainNode,
    GetActivity,
    GetCounts,
    GetGraph,
    GetResume,
    GetTrace,
    ListEvents,
    ListInputs,
    ListPieces,
    ListRuns,
    ListWorkflows,
    ShowEvent,
    ShowRun,
    WorkflowQuestion,
)
from headwater.inspect.records import VERSION, Ask, Opening, Reply, Trouble
from headwater.inspect.socket_client import SocketInspector
from headwater.inspect.workflow_commands import carry_out
from headwater.inspect.workflow_queries import answer as workflow_answer
from headwater.runtime.workflows.hub import Hub


def flow_question(ask: Ask) -> WorkflowQuestion:
    match ask.ask:
        case "workflows":
            return ListWorkflows(workflow=ask.workflow, every=ask.every)
        case "runs":
            return ListRuns(
                workflow=ask.workflow,
                status=ask.status,
                every=ask.every,
                waiting=ask.waiting,
                before=ask.before,
                after=ask.after,
                also=ask.also,
                limit=ask.limit,
            )
        case "run":
            return ShowRun(run=ask.number)
        case _:
            return ListInputs(workflow=ask.workflow, status=ask.status, before=ask.before, limit=ask.limit)


def flow_command(ask: Ask) -> WorkflowCommand:
    match ask.act:
        case "publish":
            return PublishEvent(workflow=ask.workflow, topic=ask.topic, value=ask.value, id=ask.name, title=ask.title)
        case "pause" | "resume" | "now" | "archive" | "restore" | "reprocess":
            return ControlWorkflow(workflow=ask.workflow, action=ask.act)
        case "skip_input":
            return ControlInput(input=ask.number, action="skip")
        case "retry_input":
            return ControlInput(input=ask.number, action="retry")
        case action:
            return DecideRun(run=ask.number, action=cast("Any", action), by=ask.by, reason=ask.reason, value=ask.value)


def hub_answer(hub: Hub, ask: Ask) -> str:
    found = carry_out(hub, flow_command(ask)) if ask.ask == "workflow" else workflow_answer(hub, flow_question(ask))
    return msgspec.json.encode(found).decode()


def event_command(ask: Ask) -> AnyCommand:
    match ask.ask:
        case "send":
            return SendEvent(handler=ask.node, fields=ask.fields, name=ask.name, by=ask.by, timeout_ms=ask.timeout_ms)
        case "redeliver":
            return RedeliverEvent(event=ask.event, timeout_ms=ask.timeout_ms)
        case "drop":
            return DropEvent(event=ask.event)
        case _:
            return flow_command(ask)


def scope_of(ask: Ask) -> Scope:
    return Scope(space=ask.space, app=ask.app, branch=ask.branch)


def _questions(ask: Ask) -> list[AnyQuestion]:
    match ask.ask:
        case "snapshot":
            return [GetGraph(limit=ask.limit)]
        case "stats":
            more = [GetResume()] if ask.resume else []
            return [GetActivity(), GetCounts(), *more]
        case "why":
            return [ExplainNode(node=ask.node)]
        case "trace":
            return [GetTrace(kind=ask.kind)]
        case "events":
            return [ListEvents(waiting=ask.waiting)]
        case "pieces":
            return [ListPieces(pattern=ask.name)]
        case "event":
            return [ShowEvent(event=ask.event)]
        case _:
            return [flow_question(ask)]


class Caller:
    """A connection to the process that has a file open."""

    def __init__(self, inspector: SocketInspector) -> None:
        self._inspector = inspector
        self._kind: str | None = None

    def ask(self, request: Ask) -> Reply:
        try:
            return self._ask(request)
        except ClosedError as error:
            if request.ask == "workflow":
                return Reply(v=VERSION, pid=1, trouble=Trouble("ClosedError", error.message))
            raise ConnectionResetError("it is being closed") from None
        except HeadwaterError as error:
            if type(error).__name__ == "UnavailableError":
                raise
            return Reply(v=VERSION, pid=1, trouble=Trouble(type(error).__name__, error.message))

    def _ask(self, ask: Ask) -> Reply:
        inspector = self._inspector
        scope = scope_of(ask)
        if ask.ask in ("send", "redeliver", "drop", "workflow"):
            command = event_command(ask)
            response = inspector._request(Request(scope=scope, do=command), (ask.timeout_ms or 0.0) / 1000)  # noqa: SLF001
            found = response.read(cast("Any", command), "the process")
            if ask.ask == "workflow":
                return Reply(v=VERSION, pid=response.pid, told=msgspec.json.encode(found).decode())
            return Reply(v=VERSION, pid=response.pid, event=found)
        if ask.ask == "trace" and ask.follow:
            self._kind = ask.kind
        fields: dict[str, dict[str, Any]] = {}
        mark, pid = "", 0
        for number, question in enumerate(_questions(ask)):
            unless = "" if number else ask.unless
            request = Request(scope=scope, ask=question, unless=unless, wait_ms=ask.wait_ms)
            response = inspector._request(request)  # noqa: SLF001
            response.check("the process")
            mark, pid = (response.mark, response.pid) if not number else (mark, pid)
            if not bytes(response.answer):
                return Reply(v=VERSION, pid=response.pid, mark=response.mark)
            found = response.read(cast("Any", question), "the process")
            if ask.ask == "event":
                return Reply(v=VERSION, pid=pid, mark=mark, event=found)
            if ask.ask in ("workflows", "runs", "run", "inputs"):
                return Reply(v=VERSION, pid=pid, mark=mark, told=msgspec.json.encode(found).decode())
            if ask.ask == "events":
                one = Opening(app="", space=ask.space, branch=ask.branch, at_ms=0, events=found)
                return Reply(v=VERSION, pid=pid, mark=mark, openings=(one,))
            if isinstance(found, PiecesPage):
                left = sum(found.left_out.values())
                app = next(iter(found.left_out), "")
                one = Opening(app=app, space=ask.space, branch=ask.branch, at_ms=0, pieces=found.pieces, left_out=left)
                return Reply(v=VERSION, pid=pid, mark=mark, openings=(one,))
            for view in cast("tuple[OpeningView, ...]", found):
                given = msgspec.structs.asdict(view)
                for name in ("label", "origin", "pid"):
                    given.pop(name)
                fields.setdefault(view.label, {}).update(given)
        return Reply(v=VERSION, pid=pid, mark=mark, openings=tuple(Opening(**each) for each in fields.values()))

    def follow(self) -> Iterator[TraceLine]:
        return self._inspector.follow(self._kind or "")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._inspector.close()


def knock(file: str) -> Caller | None:
    found = SocketInspector.connect(file)
    return None if found is None else Caller(found)
