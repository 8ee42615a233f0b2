"""What can be asked about a space: one record for each question. Its base names the record that answers it."""

from __future__ import annotations

from typing import Any, Final, Generic, TypeAlias, TypeVar, get_args

import msgspec

from headwater.inspect.answers import (
    ActivityView,
    CountsView,
    DocumentsPage,
    EventReport,
    GraphView,
    HistoryPage,
    PiecesPage,
    ResumeView,
    TraceView,
    ValueView,
    WhyView,
)
from headwater.inspect.workflow_answers import InputsPage, RunReport, RunsPage, WorkflowsPage

A_co = TypeVar("A_co", covariant=True)

NODES_MAX: Final = 20_000
"""Nodes in one answer: more than a picture shows; a program is stopped for half a second at most."""

DOCUMENTS_MAX: Final = 1000
"""Documents in one page."""

CHANGES_MAX: Final = 1000
"""Changes in one page of a history."""

RUNS_MAX: Final = 200
"""Runs or inputs in one page: the file is locked for some milliseconds."""


class Question(
    msgspec.Struct,
    Generic[A_co],
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    tag_field="question",
    forbid_unknown_fields=True,
):
    """A question that is answered with a record of type A_co. Asking changes nothing."""


def answer_type(request: type[msgspec.Struct]) -> Any:  # noqa: ANN401  # a type, or a generic alias of one
    """The type that a question or a command is answered with."""
    return get_args(request.__orig_bases__[0])[0]  # type: ignore[attr-defined]


# --- functions: one answer for each opening ---------------------------------------------------------------------


class GetGraph(Question[tuple[GraphView, ...]], frozen=True, kw_only=True, tag="graph"):
    """The functions, and what lies between them."""

    limit: int = NODES_MAX


class ExplainNode(Question[tuple[WhyView, ...]], frozen=True, kw_only=True, tag="why"):
    """Why a node ran, or does not run."""

    node: str
    """A function, `app.function`, an instance, `function of pattern key`."""


class GetActivity(Question[tuple[ActivityView, ...]], frozen=True, kw_only=True, tag="activity"):
    """What each function has done."""


class GetCounts(Question[tuple[CountsView, ...]], frozen=True, kw_only=True, tag="counts"):
    """All counters."""


class GetResume(Question[tuple[ResumeView, ...]], frozen=True, kw_only=True, tag="resume"):
    """What was taken over from earlier openings, and what not, and why."""


class GetTrace(Question[tuple[TraceView, ...]], frozen=True, kw_only=True, tag="trace"):
    """The recorded steps."""

    kind: str = ""
    """Only records of this kind."""


# --- events and pieces ----------------------------------------------------------------------------------------


class ListEvents(Question[tuple[EventReport, ...]], frozen=True, kw_only=True, tag="events"):
    """Events that failed; or, if `waiting`, those that wait."""

    waiting: bool = False


class ShowEvent(Question[EventReport], frozen=True, kw_only=True, tag="event"):
    """Everything that is known of one event."""

    event: str
    """Its id, or the beginning of it."""


class ListPieces(Question[PiecesPage], frozen=True, kw_only=True, tag="pieces"):
    """The pieces of all patterns, or of one."""

    pattern: str = ""


# --- documents ------------------------------------------------------------------------------------------------


class ListDocuments(Question[DocumentsPage], frozen=True, kw_only=True, tag="documents"):
    """Documents whose address starts with a prefix."""

    prefix: str = ""
    at: int | None = None
    deleted: bool = False
    values: bool = False
    """With their values."""
    every: bool = False
    """Also documents of events and of declared types."""
    after: str = ""
    """`next` of the page before."""
    limit: int = DOCUMENTS_MAX


class GetValue(Question[ValueView], frozen=True, kw_only=True, tag="value"):
    """The value at an address."""

    address: str
    at: int | None = None


class GetHistory(Question[HistoryPage], frozen=True, kw_only=True, tag="history"):
    """What happened to a document, or to a value in it."""

    address: str
    at: int | None = None
    before: int = 0
    """`next` of the page before."""
    limit: int = CHANGES_MAX


# --- workflows ------------------------------------------------------------------------------------------------


class ListWorkflows(Question[WorkflowsPage], frozen=True, kw_only=True, tag="workflows"):
    """All workflows, or one."""

    workflow: str = ""
    every: bool = False
    """Archived ones, too."""


class ListRuns(Question[RunsPage], frozen=True, kw_only=True, tag="runs"):
    """Runs of all workflows, or of one."""

    workflow: str = ""
    status: str = ""
    every: bool = False
    """Also runs that had nothing to do."""
    waiting: bool = False
    """Only runs that wait for a person."""
    before: int = 0
    """The last number of the page before; 0: from the newest on."""
    after: int = 0
    """Only runs after this one,"""
    also: tuple[int, ...] = ()
    """and these."""
    limit: int = RUNS_MAX


class ShowRun(Question[RunReport], frozen=True, kw_only=True, tag="run"):
    """One run, with its attempts, calls and decisions."""

    run: int


class ListInputs(Question[InputsPage], frozen=True, kw_only=True, tag="inputs"):
    """Inputs of all workflows, or of one."""

    workflow: str = ""
    status: str = ""
    before: int = 0
    limit: int = RUNS_MAX


FunctionQuestion: TypeAlias = GetGraph | ExplainNode | GetActivity | GetCounts | GetResume | GetTrace
EventQuestion: TypeAlias = ListEvents | ShowEvent | ListPieces
DocumentQuestion: TypeAlias = ListDocuments | GetValue | GetHistory
WorkflowQuestion: TypeAlias = ListWorkflows | ListRuns | ShowRun | ListInputs
AnyQuestion: TypeAlias = FunctionQuestion | EventQuestion | DocumentQuestion | WorkflowQuestion
