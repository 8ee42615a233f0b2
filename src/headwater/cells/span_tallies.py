"""Answers about the documents of a span that follow each change: counts, sums, extremes, different values, groups.

A tally takes documents in and out one by one, in any order, and its answer is always that of a new tally of what is in
it. Sums are exact (`values/exact_sum.py`).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from hashlib import blake2b
from typing import Final, TypeAlias, cast

from headwater.cells.span_records import SpanQuestion
from headwater.errors import InvariantError
from headwater.values.exact_sum import ExactSum
from headwater.values.sortkey import Ordered, encode_field
from headwater.values.tree import ABSENT

Scalar: TypeAlias = Ordered | tuple[Ordered, ...]
Answer: TypeAlias = Scalar | tuple[tuple[Ordered, Scalar], ...]
"""Of groups: each value of the field with the answer for its group, in the order of the values."""

_DIGEST_BYTES: Final = 16


class Tally:
    """The answer to a question, kept current."""

    is_unsure = False
    """It cannot answer before it is filled anew."""

    def put(self, key: bytes, value: Ordered, group: Ordered) -> None:
        """A document came: its key, and its values in the two fields of the question."""
        raise NotImplementedError

    def take(self, key: bytes, value: Ordered, group: Ordered) -> None:
        """A document that was put went."""
        raise NotImplementedError

    def merge(self, group: Ordered, known: ExactSum) -> None:
        """Put all documents of a group, of which their number and their sum are known."""
        raise NotImplementedError

    def answer(self) -> Answer:
        """The answer."""
        raise NotImplementedError

    @property
    def is_empty(self) -> bool:
        """No document is in it."""
        raise NotImplementedError


class CountTally(Tally):
    """The number of documents."""

    def __init__(self) -> None:
        self.count = 0

    def put(self, key: bytes, value: Ordered, group: Ordered) -> None:  # noqa: ARG002  # only how many
        self.count += 1

    def take(self, key: bytes, value: Ordered, group: Ordered) -> None:  # noqa: ARG002  # likewise
        self.count -= 1

    def merge(self, group: Ordered, known: ExactSum) -> None:  # noqa: ARG002  # only how many
        self.count += known.count

    def answer(self) -> Answer:
        return self.count

    @property
    def is_empty(self) -> bool:
        return not self.count


class ExistsTally(Tally):
    """Whether there is a document: one of them, the witness, is enough."""

    def __init__(self) -> None:
        self.witness: bytes | None = None
        self.is_unsure = False

    def put(self, key: bytes, value: Ordered, group: Ordered) -> None:  # noqa: ARG002  # only whether
        if self.witness is None:
            self.witness, self.is_unsure = key, False

    def take(self, key: bytes, value: Ordered, group: Ordered) -> None:  # noqa: ARG002  # likewise
        if key == self.witness:
            self.witness, self.is_unsure = None, True

    def answer(self) -> Answer:
        return self.witness is not None

    @property
    def is_empty(self) -> bool:
        return self.witness is None


class SumTally(Tally):
    """The sum of the numbers, or of the durations; other values are left out."""

    def __init__(self) -> None:
        self._sum = ExactSum()

    def put(self, key: bytes, value: Ordered, group: Ordered) -> None:  # noqa: ARG002  # one field
        self._sum.add(value)

    def take(self, key: bytes, value: Ordered, group: Ordered) -> None:  # noqa: ARG002  # one field
        self._sum.add(value, -1)

    def merge(self, group: Ordered, known: ExactSum) -> None:  # noqa: ARG002  # one field
        self._sum.merge(known)

    def answer(self) -> Answer:
        return self._sum.answer()

    @property
    def is_empty(self) -> bool:
        return not self._sum.count


class BagTally(Tally):
    """The different values, each with the number of documents that have it: for extremes, and for `distinct`."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._values: dict[bytes, tuple[Ordered, int]] = {}
        # Those that can be an extreme, sorted.
        self._sorted: list[bytes] = []
        self.count = 0

    def put(self, key: bytes, value: Ordered, group: Ordered) -> None:  # noqa: ARG002  # one field
        self.count += 1
        code = encode_field(value)
        known = self._values.get(code)
        if known is None:
            insort(self._sorted, code)
            self._values[code] = (value, 1)
        else:
            self._values[code] = (known[0], known[1] + 1)

    def take(self, key: bytes, value: Ordered, group: Ordered) -> None:  # noqa: ARG002  # one field
        self.count -= 1
        code = encode_field(value)
        known, count = self._values[code]
        if count > 1:
            self._values[code] = (known, count - 1)
        else:
            del self._values[code]
            del self._sorted[bisect_left(self._sorted, code)]

    def answer(self) -> Answer:
        if self._kind == "distinct":
            return tuple([self._values[code][0] for code in self._sorted])
        codes = self._sorted
        for code in reversed(codes) if self._kind == "max" else codes:
            value = self._values[code][0]
            if value is not None and value is not ABSENT:
                return value
        return None

    @property
    def is_empty(self) -> bool:
        return not self.count


class GroupTally(Tally):
    """One tally for each value of a field."""

    def __init__(self, question: SpanQuestion) -> None:
        self._each = SpanQuestion(question.kind, question.field)
        self._groups: dict[bytes, tuple[Ordered, Tally]] = {}
        # The text of the last group, and its tally: most often the next document is of the same one.
        self._last: tuple[str, Tally] | None = None

    def put(self, key: bytes, value: Ordered, group: Ordered) -> None:
        last = self._last
        if last is not None and last[0] == group:
            last[1].put(key, value, group)
            return
        found = self._of(group)
        if isinstance(group, str):
            self._last = group, found
        found.put(key, value, group)

    def _of(self, group: Ordered) -> Tally:
        code = encode_field(group)
        found = self._groups.get(code)
        if found is None:
            found = self._groups[code] = group, tally_of(self._each)
        return found[1]

    def merge(self, group: Ordered, known: ExactSum) -> None:
        self._of(group).merge(group, known)

    def take(self, key: bytes, value: Ordered, group: Ordered) -> None:
        code = encode_field(group)
        tally = self._groups[code][1]
        tally.take(key, value, group)
        if tally.is_empty:
            del self._groups[code]
            self._last = None

    def answer(self) -> Answer:
        return tuple([(group, _single(tally)) for _, (group, tally) in sorted(self._groups.items(), key=_code)])

    @property
    def is_empty(self) -> bool:
        return not self._groups


def _code(item: tuple[bytes, tuple[Ordered, Tally]]) -> bytes:
    return item[0]


def _single(tally: Tally) -> Scalar:
    return cast("Scalar", tally.answer())  # of no groups


def tally_of(question: SpanQuestion) -> Tally:
    """An empty tally for a question."""
    if question.by is not None:
        if question.kind == "exists":
            raise InvariantError("each group has a document", question=question)
        return GroupTally(question)
    match question.kind:
        case "count":
            return CountTally()
        case "exists":
            return ExistsTally()
        case "sum":
            return SumTally()
        case _:
            return BagTally(question.kind)


# --- comparing answers ----------------------------------------------------------------------------------------


def answer_digest(answer: Answer) -> bytes:
    """Equal exactly if the answers are the same: 1, 1.0 and True are not."""
    return blake2b(b"".join(_parts(answer)), digest_size=_DIGEST_BYTES).digest()


def _parts(answer: object) -> Iterator[bytes]:
    if isinstance(answer, tuple):
        yield b"(" + len(answer).to_bytes(8, "big")
        for each in answer:
            yield from _parts(each)
    else:
        # A sum may be longer than the numbers of a key.
        code = b"%d" % answer if type(answer) is int else encode_field(answer)  # type: ignore[arg-type]  # no tuple
        yield len(code).to_bytes(8, "big") + code
