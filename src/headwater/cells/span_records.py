"""The records of reads in indexes: spans of keys, and questions about the documents in them."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from headwater.store.collection_record import IndexField

AnswerKind: TypeAlias = Literal["count", "exists", "sum", "min", "max", "distinct"]
"""What is asked about the documents of a span."""


class Span(msgspec.Struct, frozen=True, gc=False):
    """The keys of an index from `lo`, inclusive, to `hi`, exclusive."""

    index: str
    lo: bytes
    hi: bytes


class SpanQuestion(msgspec.Struct, frozen=True):
    """A question about the documents of a span: the number of them, or something about the values of a field.

    `by`: the same for each group of documents with an equal value in that field.
    """

    kind: AnswerKind
    field: IndexField | None = None
    by: IndexField | None = None

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that the answer depends on, besides those of the index."""
        return tuple(dict.fromkeys([each.name for each in (self.field, self.by) if each is not None]))


class SpanKey(msgspec.Struct, frozen=True):
    """A read of a run: the keys of a span, with some fields of its documents, or the answer to a question about it."""

    index: str
    lo: bytes
    hi: bytes
    fields: tuple[str, ...] = ()
    question: SpanQuestion | None = None
