"""The records that answer a page: documents, queries, resources and pieces."""

from __future__ import annotations

from typing import Literal

from headwater.inspect.event_records import PieceReport
from headwater.studio.answer_parts import AnswerRecord, Part, ValueText

# --- Documents ------------------------------------------------------------------------------------------------


class KindRow(AnswerRecord, frozen=True, kw_only=True):
    """A class, or a prefix that documents share."""

    prefix: str
    label: str
    count: int
    is_class: bool
    """A collection has been declared for it."""
    exact: bool
    """False: there are at least so many."""
    fields: tuple[str, ...] = ()


class KindsView(AnswerRecord, frozen=True, kw_only=True):
    """Classes and prefixes."""

    kinds: tuple[KindRow, ...]
    total: int
    hidden: int
    """Documents of events and of declared types, which are left out."""


class DocumentLine(AnswerRecord, frozen=True, kw_only=True):
    """A document in a list."""

    address: str
    title: str
    seq: int
    deleted: bool
    value: ValueText | None


class DocumentsAnswer(AnswerRecord, frozen=True, kw_only=True):
    """One page of documents."""

    documents: tuple[DocumentLine, ...]
    columns: tuple[str, ...]
    """Fields that most of them have."""
    hidden: int
    next: str


class Field(AnswerRecord, frozen=True, kw_only=True):
    """A field of a document with its declared type."""

    name: str
    type: str
    """In words, as `int` or `list[Line]`; empty: not declared."""
    value: ValueText | None
    link: str = ""
    """The address that it leads to."""


class DocumentView(AnswerRecord, frozen=True, kw_only=True):
    """One document, or the value at a path in it."""

    address: str
    title: str
    exists: bool
    seq: int
    """The commit that wrote it last."""
    at_ms: int
    value: ValueText | None
    fields: tuple[Field, ...]
    """Of an object, in order; at most one page."""
    type: str
    """Its declared type in words; empty: none."""
    writer: str
    """The id of the node that writes it; empty: it may be edited."""
    writer_name: str
    readers: tuple[Part, ...]
    may_edit: bool
    why_not: str


class ChangeRow(AnswerRecord, frozen=True, kw_only=True):
    """A commit that changed a document."""

    seq: int
    at_ms: int
    branch: str
    session: str
    change: str
    """In words."""
    value: ValueText | None
    """Of a path: the new value."""


class HistoryAnswer(AnswerRecord, frozen=True, kw_only=True):
    """Changes, newest first."""

    changes: tuple[ChangeRow, ...]
    next: int
    """0: this is the last page."""


class DifferenceLine(AnswerRecord, frozen=True, kw_only=True):
    """One difference."""

    address: str
    path: str
    op: Literal["added", "removed", "changed"]
    older: ValueText | None
    newer: ValueText | None


class DifferenceView(AnswerRecord, frozen=True, kw_only=True):
    """Differences, at most 500."""

    lines: tuple[DifferenceLine, ...]
    cut: bool
    older: int
    newer: int


class BranchLine(AnswerRecord, frozen=True, kw_only=True):
    """One branch."""

    name: str
    parent: str
    at: int
    """The commit of the parent that it starts from."""
    merged: tuple[str, ...]
    """Branches that were merged into it."""


class BranchesView(AnswerRecord, frozen=True, kw_only=True):
    """All branches."""

    branches: tuple[BranchLine, ...]


class CommitRow(AnswerRecord, frozen=True, kw_only=True):
    """One commit."""

    seq: int
    at_ms: int
    session: str
    documents: tuple[str, ...]
    more: int


class CommitsPage(AnswerRecord, frozen=True, kw_only=True):
    """Commits, newest first."""

    commits: tuple[CommitRow, ...]
    head: int
    oldest: int
    """The oldest commit that can be read."""
    next: int


# --- Resources, Pieces, Query ---------------------------------------------------------------------------------


class ResourceRow(AnswerRecord, frozen=True, kw_only=True):
    """A resource."""

    node: str
    name: str
    app: str
    state: str
    why: str
    requests: int
    error: str
    observed: bool
    at_ms: int
    """When the last answer came; 0: never."""
    value: ValueText | None


class ResourcesPage(AnswerRecord, frozen=True, kw_only=True):
    """Resources."""

    resources: tuple[ResourceRow, ...]
    total: int
    next: int


class PiecesAnswer(AnswerRecord, frozen=True, kw_only=True):
    """Pieces."""

    pieces: tuple[PieceReport, ...]
    patterns: dict[str, int]
    """Their numbers by pattern."""
    total: int
    next: int


class QueryRow(AnswerRecord, frozen=True, kw_only=True):
    """A document that was found."""

    address: str
    seq: int
    cells: tuple[ValueText | None, ...]
    """In the order of the columns."""


class QueryPage(AnswerRecord, frozen=True, kw_only=True):
    """One page of what was found."""

    columns: tuple[str, ...]
    rows: tuple[QueryRow, ...]
    found: int
    scanned: int
    complete: bool
    """False: the bound of time or rows was reached."""
    took_ms: float
    next: int
    command: str
    """A command that gives the documents."""


class IndexLine(AnswerRecord, frozen=True, kw_only=True):
    """An index of a collection."""

    name: str
    fields: tuple[str, ...]
    unique: bool
    state: str


class CollectionRow(AnswerRecord, frozen=True, kw_only=True):
    """A declared collection."""

    kind: str
    documents: int
    type: str
    indexes: tuple[IndexLine, ...]
    rights: tuple[str, ...]
    """Sentences."""
    state: str


class CollectionsView(AnswerRecord, frozen=True, kw_only=True):
    """Declared collections."""

    collections: tuple[CollectionRow, ...]


class FoundRow(AnswerRecord, frozen=True, kw_only=True):
    """Something that a search found."""

    kind: Literal["function", "document", "run", "event", "workflow", "input"]
    title: str
    note: str
    target: str
    """As `Report.opens`: `graph/NODE`, `documents/ADDRESS`."""


class SearchView(AnswerRecord, frozen=True, kw_only=True):
    """What a search found: at most 50."""

    rows: tuple[FoundRow, ...]
