"""What a page can ask: one record for each question, and the record that answers it (`answers.py`).

Every question names its space and branch. `at` reads the past where documents are read. A list is a page: `limit` is
bounded by the server, `after` is `next` of the page before.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, Literal, TypeAlias, get_args

import msgspec

from headwater.studio import answers
from headwater.studio.deeds import Deed
from headwater.studio.limits import BOXES, PAGE

Tone = answers.Tone


class StudioQuestion(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """Common to all questions."""

    answer: ClassVar[type[Any]]
    space: str = ""
    """Of a folder or a server; empty: the first."""
    branch: str = "main"


# --- Overview -------------------------------------------------------------------------------------------------


class Overview(StudioQuestion, frozen=True, kw_only=True, tag="overview", omit_defaults=True):
    """What waits for a person, the counters, what is busy."""

    answer = answers.OverviewView


class Spaces(StudioQuestion, frozen=True, kw_only=True, tag="spaces", omit_defaults=True):
    """The spaces of a folder or a server, one row each."""

    answer = answers.SpacesView
    after: str = ""
    limit: int = PAGE


class Search(StudioQuestion, frozen=True, kw_only=True, tag="search", omit_defaults=True):
    """Functions, documents, workflows, runs and events whose name has a text in it."""

    answer = answers.SearchView
    text: str


# --- Functions ------------------------------------------------------------------------------------------------


class GraphQuestion(StudioQuestion, frozen=True, kw_only=True, tag="graph", omit_defaults=True):
    """Boxes with positions, routes and states."""

    answer = answers.GraphAnswer
    app: str = ""
    """The label of an opening; empty: all of them in one picture."""
    around: str = ""
    """The id of a node: only what is within `hops` edges of it."""
    hops: int = 2
    boxes: int = BOXES


class Functions(StudioQuestion, frozen=True, kw_only=True, tag="functions", omit_defaults=True):
    """The same as a table; or the members of one shared box."""

    answer = answers.FunctionsPage
    app: str = ""
    box: str = ""
    """The id of a box: only its members."""
    search: str = ""
    tone: str = ""
    sort: Literal["name", "runs", "time", "state"] = "name"
    after: int = 0
    limit: int = PAGE


class FunctionQuestion(StudioQuestion, frozen=True, kw_only=True, tag="function", omit_defaults=True):
    """One function: why it ran or does not run, what it reads, who reads it."""

    answer = answers.FunctionDetail
    node: str


class Passes(StudioQuestion, frozen=True, kw_only=True, tag="passes", omit_defaults=True):
    """Follow a change: the newest recorded passes, newest first."""

    answer = answers.PassesPage
    before: int = 0
    limit: int = PAGE


class PassQuestion(StudioQuestion, frozen=True, kw_only=True, tag="pass", omit_defaults=True):
    """One recorded pass, step by step."""

    answer = answers.PassView
    number: int


# --- Documents ------------------------------------------------------------------------------------------------


class Kinds(StudioQuestion, frozen=True, kw_only=True, tag="kinds", omit_defaults=True):
    """Classes and prefixes of documents, with counts."""

    answer = answers.KindsView
    at: int | None = None


class DocumentsQuestion(StudioQuestion, frozen=True, kw_only=True, tag="documents", omit_defaults=True):
    """Documents whose address starts with a prefix, with their values."""

    answer = answers.DocumentsAnswer
    prefix: str = ""
    deleted: bool = False
    every: bool = False
    """Include documents of events and of declared types."""
    at: int | None = None
    after: str = ""
    limit: int = PAGE


class DocumentQuestion(StudioQuestion, frozen=True, kw_only=True, tag="document", omit_defaults=True):
    """One document, or the value at a path in it."""

    answer = answers.DocumentView
    address: str
    at: int | None = None
    whole: bool = False
    """Not cut at 64 KiB, but at 16 MiB."""


class History(StudioQuestion, frozen=True, kw_only=True, tag="history", omit_defaults=True):
    """The commits that changed a document, newest first."""

    answer = answers.HistoryAnswer
    address: str
    before: int = 0
    limit: int = PAGE


class DifferenceQuestion(StudioQuestion, frozen=True, kw_only=True, tag="difference", omit_defaults=True):
    """What changed between two commits, or two branches: in one document, or in all of a prefix."""

    answer = answers.DifferenceView
    address: str = ""
    """A document; empty: all of them."""
    older: int
    newer: int | None = None
    """None: now."""
    against: str = ""
    """Another branch: the newer side is read there."""


class Branches(StudioQuestion, frozen=True, kw_only=True, tag="branches", omit_defaults=True):
    """The branches of the space."""

    answer = answers.BranchesView


class Commits(StudioQuestion, frozen=True, kw_only=True, tag="commits", omit_defaults=True):
    """Commits of the branch, newest first: for the slider of the past."""

    answer = answers.CommitsPage
    before: int = 0
    limit: int = PAGE


# --- Events ---------------------------------------------------------------------------------------------------


class Events(StudioQuestion, frozen=True, kw_only=True, tag="events", omit_defaults=True):
    """Failed or waiting events, grouped by handler and reason."""

    answer = answers.EventsPage
    state: Literal["failed", "waiting", "outgoing"] = "failed"
    handler: str = ""
    reason: str = ""
    """Only those of one group."""
    after: str = ""
    limit: int = PAGE


class EventQuestion(StudioQuestion, frozen=True, kw_only=True, tag="event", omit_defaults=True):
    """All details of one event."""

    answer = answers.EventAnswer
    event: str


class Handlers(StudioQuestion, frozen=True, kw_only=True, tag="handlers", omit_defaults=True):
    """The handlers that events can be sent to, with their parameters."""

    answer = answers.HandlersView


# --- Workflows ------------------------------------------------------------------------------------------------


class WorkflowsQuestion(StudioQuestion, frozen=True, kw_only=True, tag="workflows", omit_defaults=True):
    """All workflows, or one, with their sentences."""

    answer = answers.WorkflowsView
    workflow: str = ""
    every: bool = False
    """Include archived workflows."""


class Runs(StudioQuestion, frozen=True, kw_only=True, tag="runs", omit_defaults=True):
    """Runs, newest first."""

    answer = answers.RunsAnswer
    workflow: str = ""
    status: str = ""
    every: bool = False
    """Include runs without work."""
    waiting: bool = False
    """Only runs that wait for a person."""
    before: int = 0
    limit: int = PAGE


class RunQuestion(StudioQuestion, frozen=True, kw_only=True, tag="run", omit_defaults=True):
    """One run: phases, plan, call, chain of attempts, decisions."""

    answer = answers.RunDetail
    number: int


class Inputs(StudioQuestion, frozen=True, kw_only=True, tag="inputs", omit_defaults=True):
    """Inputs, newest first."""

    answer = answers.InputsAnswer
    workflow: str = ""
    status: str = ""
    before: int = 0
    limit: int = PAGE


# --- Resources, Pieces, Query ---------------------------------------------------------------------------------


class Resources(StudioQuestion, frozen=True, kw_only=True, tag="resources", omit_defaults=True):
    """The resources, with age, state and last error."""

    answer = answers.ResourcesPage
    after: int = 0
    limit: int = PAGE


class PiecesQuestion(StudioQuestion, frozen=True, kw_only=True, tag="pieces", omit_defaults=True):
    """Pieces by pattern and key."""

    answer = answers.PiecesAnswer
    pattern: str = ""
    after: int = 0
    limit: int = PAGE


class QueryQuestion(StudioQuestion, frozen=True, kw_only=True, tag="query", omit_defaults=True):
    """Documents of a prefix or class that satisfy conditions, with chosen columns."""

    answer = answers.QueryPage
    prefix: str = ""
    where: str = ""
    """`path op literal` joined by `and`; op is one of = != < <= > >= in contains exists."""
    columns: tuple[str, ...] = ()
    sort: str = ""
    descending: bool = False
    at: int | None = None
    after: int = 0
    limit: int = PAGE


class CollectionsQuestion(StudioQuestion, frozen=True, kw_only=True, tag="collections", omit_defaults=True):
    """Declared collections: indexes, rights, state of migrations."""

    answer = answers.CollectionsView


# --- Server (answered by the server only) ---------------------------------------------------------------------


class ServerQuestion(StudioQuestion, frozen=True, kw_only=True, tag="server", omit_defaults=True):
    """Clients, sessions, tokens, the audit log and the metrics of a server."""

    answer = answers.ServerView


class Audit(StudioQuestion, frozen=True, kw_only=True, tag="audit", omit_defaults=True):
    """Lines of the audit log, newest first."""

    answer = answers.AuditPage
    event: str = ""
    """Only these, such as `granted`."""
    search: str = ""
    """Only lines with this text."""
    before: int = 0
    limit: int = PAGE


# --- deeds ----------------------------------------------------------------------------------------------------


class IntentQuestion(StudioQuestion, frozen=True, kw_only=True, tag="intent", omit_defaults=True):
    """What a deed is about to do: the sentence and the command, before it is done."""

    answer = answers.IntentView
    deed: Deed


Question: TypeAlias = (
    Overview
    | Spaces
    | Search
    | GraphQuestion
    | Functions
    | FunctionQuestion
    | Passes
    | PassQuestion
    | Kinds
    | DocumentsQuestion
    | DocumentQuestion
    | History
    | DifferenceQuestion
    | Branches
    | Commits
    | Events
    | EventQuestion
    | Handlers
    | WorkflowsQuestion
    | Runs
    | RunQuestion
    | Inputs
    | Resources
    | PiecesQuestion
    | QueryQuestion
    | CollectionsQuestion
    | ServerQuestion
    | Audit
    | IntentQuestion
)

QUESTIONS: Final[dict[str, type[StudioQuestion]]] = {
    str(each.__struct_config__.tag): each for each in get_args(Question)
}
"""All questions by tag."""
