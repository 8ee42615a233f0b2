"""Headwater keeps results current: plain functions over documents, re-run exactly when what they read changes.

    import headwater as hw

    app = hw.App("counter")
    count = app.cell("count", 0)

Everything an author needs is here; `headwater.core` is the engine beneath, `headwater.testing` its test tools. Names
are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from headwater._version import __version__

if TYPE_CHECKING:
    from headwater.app import App
    from headwater.cells.anydoc import AnyDoc
    from headwater.cells.cell import Cell
    from headwater.cells.collection import List, Map
    from headwater.cells.doc import Doc, Link
    from headwater.cells.transaction import Transaction
    from headwater.cells.untracked import untracked
    from headwater.cells.whole import delete, exists, id_of
    from headwater.errors import (
        ApprovalError,
        EventError,
        EventFailedError,
        EventRefusedError,
        EventRejectedError,
        EventReusedError,
        EventTimeoutError,
        HeadwaterError,
        IndeterminateError,
        InternalError,
        LogicError,
        NotReadyError,
        Reject,
        ResourceError,
        TransientError,
        TransitionError,
        UserCodeError,
        WorkflowError,
    )
    from headwater.host import http
    from headwater.host.after import after_commit
    from headwater.host.async_space import AsyncSpace
    from headwater.host.choices import Choice, if_else, unless, when
    from headwater.host.connection import Connection
    from headwater.host.console import Console
    from headwater.host.flows.connector import Connector
    from headwater.host.flows.consumer import Consumer
    from headwater.host.flows.fixing import Broken
    from headwater.host.flows.flow import Workflow
    from headwater.host.flows.ingress import Ingress, ingress_app, serve_ingress
    from headwater.host.flows.openai_fixer import OpenAIFixer
    from headwater.host.flows.plan import Answer, Applied, Event, NotApplied, Nothing, Outcome, Plan, Skipped, Unknown
    from headwater.host.flows.run import Run
    from headwater.host.flows.topic import Topic
    from headwater.host.flows.webhook import Webhook
    from headwater.host.functions import Computed
    from headwater.host.handlers import Handler, Stream
    from headwater.host.lists.chosen import FlatEach, Select
    from headwater.host.lists.each import Each
    from headwater.host.lists.verbs import each, flat_each, select
    from headwater.host.pieces.building import Builder
    from headwater.host.pieces.pattern import Invocation, Pattern, pattern
    from headwater.host.pieces.piece import Piece
    from headwater.host.pieces.starting import start
    from headwater.host.resources.clock import clock
    from headwater.host.resources.resource import Resource
    from headwater.host.resources.state import Failed, Pending, Ready
    from headwater.host.resuming import Resumption
    from headwater.host.sinks import Sink
    from headwater.host.space import Space
    from headwater.host.stats import Stats
    from headwater.host.status import status
    from headwater.host.ticket import Ticket
    from headwater.host.words import why
    from headwater.workflow.policy import Retry

_HOMES = {
    "Answer": "headwater.host.flows.plan",
    "AnyDoc": "headwater.cells.anydoc",
    "App": "headwater.app",
    "Applied": "headwater.host.flows.plan",
    "ApprovalError": "headwater.errors",
    "AsyncSpace": "headwater.host.async_space",
    "Broken": "headwater.host.flows.fixing",
    "Builder": "headwater.host.pieces.building",
    "Cell": "headwater.cells.cell",
    "Choice": "headwater.host.choices",
    "Computed": "headwater.host.functions",
    "Connection": "headwater.host.connection",
    "Connector": "headwater.host.flows.connector",
    "Console": "headwater.host.console",
    "Consumer": "headwater.host.flows.consumer",
    "Doc": "headwater.cells.doc",
    "Each": "headwater.host.lists.each",
    "Event": "headwater.host.flows.plan",
    "EventError": "headwater.errors",
    "EventFailedError": "headwater.errors",
    "EventRefusedError": "headwater.errors",
    "EventRejectedError": "headwater.errors",
    "EventReusedError": "headwater.errors",
    "EventTimeoutError": "headwater.errors",
    "Failed": "headwater.host.resources.state",
    "FlatEach": "headwater.host.lists.chosen",
    "Handler": "headwater.host.handlers",
    "HeadwaterError": "headwater.errors",
    "IndeterminateError": "headwater.errors",
    "Ingress": "headwater.host.flows.ingress",
    "InternalError": "headwater.errors",
    "Invocation": "headwater.host.pieces.pattern",
    "Link": "headwater.cells.doc",
    "List": "headwater.cells.collection",
    "LogicError": "headwater.errors",
    "Map": "headwater.cells.collection",
    "NotApplied": "headwater.host.flows.plan",
    "NotReadyError": "headwater.errors",
    "Nothing": "headwater.host.flows.plan",
    "OpenAIFixer": "headwater.host.flows.openai_fixer",
    "Outcome": "headwater.host.flows.plan",
    "Pattern": "headwater.host.pieces.pattern",
    "Pending": "headwater.host.resources.state",
    "Piece": "headwater.host.pieces.piece",
    "Plan": "headwater.host.flows.plan",
    "Ready": "headwater.host.resources.state",
    "Reject": "headwater.errors",
    "Resource": "headwater.host.resources.resource",
    "ResourceError": "headwater.errors",
    "Resumption": "headwater.host.resuming",
    "Retry": "headwater.workflow.policy",
    "Run": "headwater.host.flows.run",
    "Select": "headwater.host.lists.chosen",
    "Sink": "headwater.host.sinks",
    "Skipped": "headwater.host.flows.plan",
    "Space": "headwater.host.space",
    "Stats": "headwater.host.stats",
    "Stream": "headwater.host.handlers",
    "Ticket": "headwater.host.ticket",
    "Topic": "headwater.host.flows.topic",
    "Transaction": "headwater.cells.transaction",
    "TransientError": "headwater.errors",
    "TransitionError": "headwater.errors",
    "Unknown": "headwater.host.flows.plan",
    "UserCodeError": "headwater.errors",
    "Webhook": "headwater.host.flows.webhook",
    "Workflow": "headwater.host.flows.flow",
    "WorkflowError": "headwater.errors",
    "after_commit": "headwater.host.after",
    "untracked": "headwater.cells.untracked",
    "clock": "headwater.host.resources.clock",
    "delete": "headwater.cells.whole",
    "each": "headwater.host.lists.verbs",
    "exists": "headwater.cells.whole",
    "flat_each": "headwater.host.lists.verbs",
    "http": "headwater.host.http",
    "id_of": "headwater.cells.whole",
    "if_else": "headwater.host.choices",
    "ingress_app": "headwater.host.flows.ingress",
    "pattern": "headwater.host.pieces.pattern",
    "select": "headwater.host.lists.verbs",
    "serve_ingress": "headwater.host.flows.ingress",
    "start": "headwater.host.pieces.starting",
    "status": "headwater.host.status",
    "unless": "headwater.host.choices",
    "when": "headwater.host.choices",
    "why": "headwater.host.words",
}

__all__ = [
    "Answer",
    "AnyDoc",
    "App",
    "Applied",
    "ApprovalError",
    "AsyncSpace",
    "Broken",
    "Builder",
    "Cell",
    "Choice",
    "Computed",
    "Connection",
    "Connector",
    "Console",
    "Consumer",
    "Doc",
    "Each",
    "Event",
    "EventError",
    "EventFailedError",
    "EventRefusedError",
    "EventRejectedError",
    "EventReusedError",
    "EventTimeoutError",
    "Failed",
    "FlatEach",
    "Handler",
    "HeadwaterError",
    "IndeterminateError",
    "Ingress",
    "InternalError",
    "Invocation",
    "Link",
    "List",
    "LogicError",
    "Map",
    "NotApplied",
    "NotReadyError",
    "Nothing",
    "OpenAIFixer",
    "Outcome",
    "Pattern",
    "Pending",
    "Piece",
    "Plan",
    "Ready",
    "Reject",
    "Resource",
    "ResourceError",
    "Resumption",
    "Retry",
    "Run",
    "Select",
    "Sink",
    "Skipped",
    "Space",
    "Stats",
    "Stream",
    "Ticket",
    "Topic",
    "Transaction",
    "TransientError",
    "TransitionError",
    "Unknown",
    "UserCodeError",
    "Webhook",
    "Workflow",
    "WorkflowError",
    "__version__",
    "after_commit",
    "clock",
    "delete",
    "each",
    "exists",
    "flat_each",
    "http",
    "id_of",
    "if_else",
    "ingress_app",
    "pattern",
    "select",
    "serve_ingress",
    "start",
    "status",
    "unless",
    "untracked",
    "when",
    "why",
]


def _load(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'headwater' has no attribute {name!r}")
    module = import_module(home)
    # One name is that of a package: `hw.http`.
    found: object = module if name == "http" else getattr(module, name)
    globals()[name] = found
    return found


if not TYPE_CHECKING:  # type checkers shall know no other names than those above
    __getattr__ = _load


def __dir__() -> list[str]:
    return __all__
