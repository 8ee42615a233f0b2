"""The records of reads in indexes: spans of keys, and questions about the documents in them."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, cast, get_args

import msgspec

from headwater.store.collection_record import IndexField, field_of, field_tree
from headwater.values.codec import decode, encode
from headwater.values.tree import array_of, is_array

AnswerKind: TypeAlias = Literal["count", "exists", "sum", "min", "max", "distinct"]
"""What is asked about the documents of a span."""
_KINDS: Final = get_args(AnswerKind)


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


# --- stored ---------------------------------------------------------------------------------------------------


def question_code(question: SpanQuestion | None) -> bytes:
    """The stored form of a question; no bytes for a read of keys."""
    if question is None:
        return b""
    fields = [None if each is None else field_tree(each) for each in (question.field, question.by)]
    return encode(array_of([question.kind, *fields]))


def question_of(code: bytes) -> SpanQuestion | None:
    """The inverse. Raises ValueError for anything else."""
    if not code:
        return None
    tree = decode(code)
    if not is_array(tree) or len(tree) != 3 or tree[0] not in _KINDS:  # noqa: PLR2004  # kind, field, groups
        raise ValueError("this is no question about a span")
    field, by = [None if each is None else field_of(each) for each in tree[1:]]
    return SpanQuestion(cast("AnswerKind", tree[0]), field, by)
