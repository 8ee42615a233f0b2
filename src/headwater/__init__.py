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

from headwater import _sources
from headwater._version import __version__

if _sources.is_wanted():  # before the first module that may be compiled
    _sources.install()

if TYPE_CHECKING:
    from headwater import http as http
    from headwater.app import App
    from headwater.cells.cell import Cell
    from headwater.cells.conditions import col
    from headwater.cells.document_class import Doc, Link
    from headwater.cells.document_operations import address_of, delete, exists, id_of
    from headwater.cells.list_and_map import List, Map
    from headwater.cells.query import Page, Query
    from headwater.cells.transaction import Transaction
    from headwater.cells.untracked import untracked
    from headwater.cells.untyped_document import AnyDoc
    from headwater.declare.collections.allowing import allow
    from headwater.declare.collections.collection import Collection
    from headwater.declare.collections.collection_verb import total
    from headwater.declare.collections.declared_changes import dropped, renamed, retyped
    from headwater.declare.events.handler import Handler, Stream
    from headwater.declare.events.ticket import Ticket
    from headwater.declare.functions.choices import Choice, if_else, unless, when
    from headwater.declare.functions.computed import Computed
    from headwater.declare.functions.invocation import Invocation
    from headwater.declare.functions.sink import Sink
    from headwater.declare.lists.each import Each
    from headwater.declare.lists.list_verbs import each, flat_each, select
    from headwater.declare.lists.select import FlatEach, Select
    from headwater.declare.patterns.builder import Builder
    from headwater.declare.patterns.pattern import Pattern, pattern
    from headwater.declare.patterns.piece import Piece
    from headwater.declare.resources.clock import clock
    from headwater.declare.resources.resource import Resource
    from headwater.declare.resources.resource_state import Failed, Pending, Ready
    from headwater.declare.workflows.broken import Broken
    from headwater.declare.workflows.connector import Connector
    from headwater.declare.workflows.consumer import Consumer
    from headwater.declare.workflows.plan import (
        Answer,
        Applied,
        Event,
        NotApplied,
        Nothing,
        Outcome,
        Plan,
        Skipped,
        Unknown,
    )
    from headwater.declare.workflows.run_handle import Run
    from headwater.declare.workflows.topic import Topic
    from headwater.declare.workflows.webhook import Webhook
    from headwater.declare.workflows.workflow import Workflow
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
    from headwater.host.async_space import AsyncSpace
    from headwater.host.plain_space import Space
    from headwater.host.together import together
    from headwater.http.openai_fixer import OpenAIFixer
    from headwater.runtime.after_commit import after_commit
    from headwater.runtime.connection import Connection
    from headwater.runtime.console_port import Console
    from headwater.runtime.decision_status import status
    from headwater.runtime.pieces.starting import start
    from headwater.runtime.restore import Resumption
    from headwater.runtime.stats import Stats
    from headwater.runtime.why import why
    from headwater.server.ingress import Ingress, ingress_app, serve_ingress
    from headwater.workflow.retry_policy import Retry

_HOMES = {
    "Answer": "headwater.declare.workflows.plan",
    "AnyDoc": "headwater.cells.untyped_document",
    "App": "headwater.app",
    "Applied": "headwater.declare.workflows.plan",
    "ApprovalError": "headwater.errors",
    "AsyncSpace": "headwater.host.async_space",
    "Broken": "headwater.declare.workflows.broken",
    "Builder": "headwater.declare.patterns.builder",
    "Cell": "headwater.cells.cell",
    "Choice": "headwater.declare.functions.choices",
    "Collection": "headwater.declare.collections.collection",
    "Computed": "headwater.declare.functions.computed",
    "Connection": "headwater.runtime.connection",
    "Connector": "headwater.declare.workflows.connector",
    "Console": "headwater.runtime.console_port",
    "Consumer": "headwater.declare.workflows.consumer",
    "Doc": "headwater.cells.document_class",
    "Each": "headwater.declare.lists.each",
    "Event": "headwater.declare.workflows.plan",
    "EventError": "headwater.errors",
    "EventFailedError": "headwater.errors",
    "EventRefusedError": "headwater.errors",
    "EventRejectedError": "headwater.errors",
    "EventReusedError": "headwater.errors",
    "EventTimeoutError": "headwater.errors",
    "Failed": "headwater.declare.resources.resource_state",
    "FlatEach": "headwater.declare.lists.select",
    "Handler": "headwater.declare.events.handler",
    "HeadwaterError": "headwater.errors",
    "IndeterminateError": "headwater.errors",
    "Ingress": "headwater.server.ingress",
    "InternalError": "headwater.errors",
    "Invocation": "headwater.declare.functions.invocation",
    "Link": "headwater.cells.document_class",
    "List": "headwater.cells.list_and_map",
    "LogicError": "headwater.errors",
    "Map": "headwater.cells.list_and_map",
    "NotApplied": "headwater.declare.workflows.plan",
    "NotReadyError": "headwater.errors",
    "Nothing": "headwater.declare.workflows.plan",
    "OpenAIFixer": "headwater.http.openai_fixer",
    "Outcome": "headwater.declare.workflows.plan",
    "Page": "headwater.cells.query",
    "Pattern": "headwater.declare.patterns.pattern",
    "Pending": "headwater.declare.resources.resource_state",
    "Piece": "headwater.declare.patterns.piece",
    "Plan": "headwater.declare.workflows.plan",
    "Query": "headwater.cells.query",
    "Ready": "headwater.declare.resources.resource_state",
    "Reject": "headwater.errors",
    "Resource": "headwater.declare.resources.resource",
    "ResourceError": "headwater.errors",
    "Resumption": "headwater.runtime.restore",
    "Retry": "headwater.workflow.retry_policy",
    "Run": "headwater.declare.workflows.run_handle",
    "Select": "headwater.declare.lists.select",
    "Sink": "headwater.declare.functions.sink",
    "Skipped": "headwater.declare.workflows.plan",
    "Space": "headwater.host.plain_space",
    "Stats": "headwater.runtime.stats",
    "Stream": "headwater.declare.events.handler",
    "Ticket": "headwater.declare.events.ticket",
    "Topic": "headwater.declare.workflows.topic",
    "Transaction": "headwater.cells.transaction",
    "TransientError": "headwater.errors",
    "TransitionError": "headwater.errors",
    "Unknown": "headwater.declare.workflows.plan",
    "UserCodeError": "headwater.errors",
    "Webhook": "headwater.declare.workflows.webhook",
    "Workflow": "headwater.declare.workflows.workflow",
    "WorkflowError": "headwater.errors",
    "address_of": "headwater.cells.document_operations",
    "allow": "headwater.declare.collections.allowing",
    "after_commit": "headwater.runtime.after_commit",
    "together": "headwater.host.together",
    "untracked": "headwater.cells.untracked",
    "clock": "headwater.declare.resources.clock",
    "col": "headwater.cells.conditions",
    "delete": "headwater.cells.document_operations",
    "dropped": "headwater.declare.collections.declared_changes",
    "each": "headwater.declare.lists.list_verbs",
    "exists": "headwater.cells.document_operations",
    "flat_each": "headwater.declare.lists.list_verbs",
    "http": "headwater.http",
    "id_of": "headwater.cells.document_operations",
    "if_else": "headwater.declare.functions.choices",
    "ingress_app": "headwater.server.ingress",
    "pattern": "headwater.declare.patterns.pattern",
    "renamed": "headwater.declare.collections.declared_changes",
    "retyped": "headwater.declare.collections.declared_changes",
    "select": "headwater.declare.lists.list_verbs",
    "serve_ingress": "headwater.server.ingress",
    "start": "headwater.runtime.pieces.starting",
    "status": "headwater.runtime.decision_status",
    "total": "headwater.declare.collections.collection_verb",
    "unless": "headwater.declare.functions.choices",
    "when": "headwater.declare.functions.choices",
    "why": "headwater.runtime.why",
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
    "Collection",
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
    "Page",
    "Pattern",
    "Pending",
    "Piece",
    "Plan",
    "Query",
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
    "address_of",
    "after_commit",
    "allow",
    "clock",
    "col",
    "delete",
    "dropped",
    "each",
    "exists",
    "flat_each",
    "http",
    "id_of",
    "if_else",
    "ingress_app",
    "pattern",
    "renamed",
    "retyped",
    "select",
    "serve_ingress",
    "start",
    "status",
    "together",
    "total",
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
