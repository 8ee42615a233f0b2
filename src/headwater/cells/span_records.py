"""The records of reads in indexes: spans of keys, and questions about the documents in them."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final, Literal, TypeAlias, cast, get_args

import msgspec

from headwater.store.index_field import IndexField, field_of, field_tree
from headwater.values.codec import decode, encode
from headwater.values.ids import DocKey
from headwater.values.space_ids import is_space_id
from headwater.values.tree import array_of, is_array

AnswerKind: TypeAlias = Literal["count", "exists", "sum", "min", "max", "distinct"]
"""What is asked about the documents of a span."""
_KINDS: Final = get_args(AnswerKind)


class Span(msgspec.Struct, frozen=True, gc=False):
    """The keys of an index from `lo`, inclusive, to `hi`, exclusive."""

    index: str
    lo: bytes
    hi: bytes

    def overlaps(self, lo: bytes, hi: bytes) -> bool:
        """Whether a key can be in both."""
        return self.lo < hi and lo < self.hi


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
        return tuple(dict.fromkeys([name for each in (self.field, self.by) if each is not None for name in each.names]))


class SpanKey(msgspec.Struct, frozen=True):
    """A read of a run: the keys of a span, with some fields of its documents, or the answer to a question about it."""

    index: str
    lo: bytes
    hi: bytes
    fields: tuple[str, ...] = ()
    question: SpanQuestion | None = None


class KeyQuestion(msgspec.Struct, frozen=True, gc=False):
    """The first keys of a span, or the last, that a reader needs next."""

    index: str
    lo: bytes
    hi: bytes
    limit: int | None
    """At most so many are needed now; None: all that one answer may have."""
    reverse: bool = False
    docs: int = 0
    """So many of their documents are read next."""
    whole: bool = False
    """Also of later documents, fields are read: those that enter the span have to be here."""


# --- keys that are not here -------------------------------------------------------------------------------------

SPAN_MARK: Final = "space/span?"
"""How a name begins that stands for keys of a server, which were asked for. It is no document: `?` is in no id."""


def span_mark(question: KeyQuestion) -> DocKey:
    """The name that stands for the answer to a question."""
    parts = [question.index, question.lo, question.hi, question.limit, question.reverse, question.docs]
    body = encode(array_of(parts))
    return DocKey(f"{SPAN_MARK}{blake2b(body, digest_size=16).hexdigest()}")


def is_span_mark(doc: DocKey) -> bool:
    """Whether a name stands for keys."""
    return doc.startswith(SPAN_MARK)


# --- of other spaces ------------------------------------------------------------------------------------------

_BAR: Final = "|"


def far_index(space: str, index: str) -> str:
    """The name of an index of another space, by the id of that space."""
    return f"{space}{_BAR}{index}"


def split_index(index: str) -> tuple[str, str]:
    """The inverse; without an id, the index is of the space at hand."""
    space, mark, own = index.partition(_BAR)
    return (space, own) if mark and is_space_id(space) else ("", index)


def is_far_span(key: SpanKey) -> bool:
    """Whether a span is of an index of another space."""
    return _BAR in key.index and bool(split_index(key.index)[0])


def far_span(space: str, key: SpanKey) -> SpanKey:
    """A span of another space, by the id of that space."""
    return SpanKey(far_index(space, key.index), key.lo, key.hi, key.fields, key.question)


def own_span(key: SpanKey) -> SpanKey:
    """The same span with the name that its index has in its space."""
    return SpanKey(split_index(key.index)[1], key.lo, key.hi, key.fields, key.question)


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
