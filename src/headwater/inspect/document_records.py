"""The records about documents: questions, commands and their answers."""

from __future__ import annotations

from typing import ClassVar, Final, TypeAlias

import msgspec

from headwater.inspect.request import Command, Question

MISSING: Final = msgspec.UNSET
"""The value of a document that does not exist."""

DOCUMENTS_MAX: Final = 1000
"""Documents in one page."""

CHANGES_MAX: Final = 1000
"""Changes in one page of a history."""


# --- answers --------------------------------------------------------------------------------------------------


class DocumentRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A document in a list."""

    address: str
    seq: int
    deleted: bool = False
    value: object = MISSING
    """As JSON, if the question asks for values."""


class DocumentsPage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Documents in the order of their keys."""

    documents: tuple[DocumentRow, ...]
    hidden: int = 0
    """Documents of events that are left out."""
    next: str = ""
    """The key after which the next page begins; empty: this is the last."""
    is_complete: bool = True
    """False: more documents exist that cannot be listed without a longer prefix."""


class ValueView(msgspec.Struct, frozen=True, kw_only=True):
    """A value at an address."""

    address: str
    branch: str
    seq: int
    value: object
    """As JSON."""


class ChangeView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One commit that changed a document."""

    seq: int
    at_ms: int
    branch: str
    session: str
    change: str
    value: object = MISSING
    """For a path into the document: the new value."""


class HistoryPage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Changes, newest first."""

    changes: tuple[ChangeView, ...]
    next: int = 0
    """The number before which the next page begins; 0: this is the last."""


class WriteReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An accepted commit, on disk."""

    seq: int
    changed: bool
    made_space: str = ""
    """The name of the space, if this is its first commit."""


# --- questions ------------------------------------------------------------------------------------------------


class ListDocuments(Question[DocumentsPage], frozen=True, kw_only=True, tag="documents"):
    """Documents whose address starts with a prefix."""

    prefix: str = ""
    at: int | None = None
    deleted: bool = False
    values: bool = False
    """Include the values."""
    every: bool = False
    """Include documents of events and of declared types."""
    after: str = ""
    """`next` of the page before."""
    limit: int = DOCUMENTS_MAX


class GetValue(Question[ValueView], frozen=True, kw_only=True, tag="value"):
    """The value at an address."""

    address: str
    at: int | None = None


class GetHistory(Question[HistoryPage], frozen=True, kw_only=True, tag="history"):
    """The changes of a document, or of a value in it."""

    address: str
    at: int | None = None
    before: int = 0
    """`next` of the page before."""
    limit: int = CHANGES_MAX


DocumentQuestion: TypeAlias = ListDocuments | GetValue | GetHistory


# --- commands -------------------------------------------------------------------------------------------------


class SetValue(Command[WriteReport], frozen=True, kw_only=True, tag="set"):
    """Write a value at an address, or delete it: one commit."""

    again: ClassVar[str] = "`headwater history` shows whether it was written"

    address: str
    value: object = MISSING
    """As JSON; missing: delete."""
    create: bool = False
    """Allow a document that no app has declared."""
    make_space: bool = True
    """Create the space if it does not exist."""
    force: bool = False
    """Store a value although it does not fit the types of its collection. For owners."""
    unless_after: int | None = None
    """Refuse with a conflict if the document was written after this commit."""

    @property
    def deletes(self) -> bool:
        """Whether the value is deleted."""
        return self.value is MISSING
