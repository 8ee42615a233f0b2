"""The records about a space as a whole: branches, commits, differences, kinds of documents, queries."""

from __future__ import annotations

from typing import ClassVar, Final, Literal, TypeAlias

import msgspec

from headwater.inspect.document_records import MISSING, DocumentRow
from headwater.inspect.request import Command, Question

COMMITS_MAX: Final = 1000
"""Commits in one page."""

DIFFERENCES_MAX: Final = 500
"""Differences in one answer."""

KINDS_MAX: Final = 1000
"""Kinds in one answer. A space with more has generated names."""

READING_MS: Final = 200
"""Milliseconds that one question may read documents: nothing is committed meanwhile."""

# --- answers --------------------------------------------------------------------------------------------------


class BranchReport(msgspec.Struct, frozen=True, kw_only=True):
    """One branch."""

    branch: str
    parent: str | None
    at: int | None
    """The commit of the parent that it starts from."""
    merged: tuple[str, ...]
    """Branches that were merged into it."""


class DifferenceReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One value that differs."""

    document: str
    address: str
    older: object = MISSING
    newer: object = MISSING


class Differences(msgspec.Struct, frozen=True, kw_only=True):
    """Differences by document."""

    differences: tuple[DifferenceReport, ...]
    older: int
    newer: int
    is_complete: bool


class CommitReport(msgspec.Struct, frozen=True, kw_only=True):
    """One commit."""

    seq: int
    at_ms: int
    branch: str
    session: str
    documents: tuple[str, ...]
    more: int
    """Documents that are not named."""


class CommitsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Commits, newest first."""

    commits: tuple[CommitReport, ...]
    head: int
    oldest: int
    """The oldest number whose state can be read."""
    next: int
    """The number before which the next page begins; 0: this is the last."""


class KindReport(msgspec.Struct, frozen=True, kw_only=True):
    """Documents whose names begin alike."""

    prefix: str
    count: int
    declared: bool
    """A collection is declared for them."""
    fields: tuple[str, ...] = ()


class KindsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Kinds of documents, in order."""

    kinds: tuple[KindReport, ...]
    hidden: int
    """Documents of events and of declared types."""
    is_complete: bool
    """False: the time was over, and all counts are at least so many."""


class FoundDocuments(msgspec.Struct, frozen=True, kw_only=True):
    """Documents that satisfy the conditions."""

    documents: tuple[DocumentRow, ...]
    found: int
    scanned: int
    is_complete: bool
    """False: the bound of time or documents was reached."""


class Pulse(msgspec.Struct, frozen=True, kw_only=True):
    """Whether anything has changed, and how far the space is. Cheap: no function is read."""

    space: str
    mark: str
    seq: int
    at_ms: int
    running: tuple[str, ...] = ()
    """Functions that are running, outermost first."""


class TypeReport(msgspec.Struct, frozen=True, kw_only=True):
    """The declared type of a value, in words."""

    type: str
    """Empty: no app has declared it."""
    fields: dict[str, str]
    """Of an object: the types of its fields, also of missing fields."""


class BranchWritten(msgspec.Struct, frozen=True, kw_only=True):
    """A branch was made or merged."""

    seq: int
    at: int = 0
    """Where the new branch starts."""
    documents: int = 0
    """Documents that the merge changed."""


# --- questions ------------------------------------------------------------------------------------------------


class ListBranches(Question[tuple[BranchReport, ...]], frozen=True, kw_only=True, tag="branches"):
    """All branches."""


class CompareDocuments(Question[Differences], frozen=True, kw_only=True, tag="differences"):
    """Differences between two commits, or to another branch."""

    older: int
    newer: int | None = None
    address: str = ""
    """One document; empty: all."""
    against: str = ""
    """The newer side is that of this branch."""
    limit: int = DIFFERENCES_MAX


class ListCommits(Question[CommitsAnswer], frozen=True, kw_only=True, tag="commits"):
    """Commits of the branch."""

    before: int = 0
    limit: int = COMMITS_MAX


class ListKinds(Question[KindsAnswer], frozen=True, kw_only=True, tag="kinds"):
    """Kinds of documents with counts."""

    at: int | None = None


class FindDocuments(Question[FoundDocuments], frozen=True, kw_only=True, tag="find"):
    """Documents of a prefix that satisfy conditions, sorted by one field."""

    prefix: str = ""
    where: str = ""
    sort: str = ""
    descending: bool = False
    at: int | None = None
    after: int = 0
    """The number of documents before this page."""
    limit: int = 200
    documents_max: int = 100_000


class GetPulse(Question[Pulse], frozen=True, kw_only=True, tag="pulse"):
    """A mark that differs after each change."""


class DescribeType(Question[TypeReport], frozen=True, kw_only=True, tag="type"):
    """The declared type of the value at an address, as the app left it in the file."""

    address: str


SpaceQuestion: TypeAlias = DescribeType | ListBranches | CompareDocuments | ListCommits | ListKinds | FindDocuments

# --- commands -------------------------------------------------------------------------------------------------


class ChangeBranch(Command[BranchWritten], frozen=True, kw_only=True, tag="branch"):
    """Make a branch that starts from that of the request, or merge that of the request into another."""

    again: ClassVar[str] = "`headwater branches` shows whether it was done"

    action: Literal["fork", "merge"]
    name: str
    """The new branch, or the one to merge into."""
    at: int | None = None
