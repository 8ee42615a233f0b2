"""Answers about the documents of a span that follow each change: counts, sums, extremes, different values, groups.

A tally takes documents in and out one by one, in any order, and its answer is always that of a new tally of what is in
it. Sums are exact: floats are added as integers, scaled by the smallest float there is, and rounded once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections.abc import Iterator
from hashlib import blake2b
from math import inf, isfinite, isnan, nan
from typing import Final, TypeAlias, cast

from headwater.cells.span_records import SpanQuestion
from headwater.errors import InvariantError
from headwater.values.sortkey import Elapsed, Ordered, encode_field
from headwater.values.tree import ABSENT

Scalar: TypeAlias = Ordered | tuple[Ordered, ...]
Answer: TypeAlias = Scalar | tuple[tuple[Ordered, Scalar], ...]
"""Of groups: each value of the field with the answer for its group, in the order of the values."""

SCALE_BITS: Final = 1074
"""Every finite float is a multiple of 2 to the power of minus this."""

_DIGEST_BYTES: Final = 16


class Tally(ABC):
    """The answer to a question, kept current."""

    is_unsure = False
    """It cannot answer before it is filled anew."""

    @abstractmethod
    def put(self, key: bytes, value: Ordered, group: Ordered) -> None:
        """A document came: its key, and its values in the two fields of the question."""

    @abstractmethod
    def take(self, key: bytes, value: Ordered, group: Ordered) -> None:
        """A document that was put went."""

    @abstractmethod
    def answer(self) -> Answer:
        """The answer."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """No document is in it."""


class CountTally(Tally):
    """The number of documents."""

    def __init__(self) -> None:
        self.count = 0

    def put(self, key: bytes, value: Ordered, group: Ordered) -> None:  # noqa: ARG002  # only how many
        self.count += 1

    def take(self, key: bytes, value: Ordered, group: Ordered) -> None:  # noqa: ARG002  # likewise
        self.count -= 1

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
        self.count = 0
        self._ints = 0
        # Scaled; and how many floats there are, finite or not.
        self._scaled = 0
        self._floats = 0
        self._micros = 0
        self._durations = 0
        # Not a number, greater than all, less than all.
        self._nans = self._highs = self._lows = 0

    def put(self, key: bytes, value: Ordered, group: Ordered) -> None:  # noqa: ARG002  # one field
        self._add(value, 1)

    def take(self, key: bytes, value: Ordered, group: Ordered) -> None:  # noqa: ARG002  # one field
        self._add(value, -1)

    def _add(self, value: Ordered, sign: int) -> None:
        self.count += sign
        if type(value) is int:
            self._ints += sign * value
        elif type(value) is float:
            self._floats += sign
            if isfinite(value):
                self._scaled += sign * scaled(value)
            elif isnan(value):
                self._nans += sign
            elif value > 0:
                self._highs += sign
            else:
                self._lows += sign
        elif isinstance(value, Elapsed):
            self._micros += sign * value.micros
            self._durations += sign

    def answer(self) -> Answer:
        if self._durations:
            return Elapsed(self._micros)
        if not self._floats:
            return self._ints
        if self._nans or (self._highs and self._lows):
            return nan
        if self._highs or self._lows:
            return inf if self._highs else -inf
        total = self._scaled + (self._ints << SCALE_BITS)
        try:
            # The division of integers is rounded correctly.
            return total / (1 << SCALE_BITS)
        except OverflowError:
            return inf if total > 0 else -inf

    @property
    def is_empty(self) -> bool:
        return not self.count


def scaled(value: float) -> int:
    """A finite float as a multiple of the smallest one."""
    numerator, denominator = value.as_integer_ratio()
    return numerator << (SCALE_BITS + 1 - denominator.bit_length())


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
        code = encode_field(group)
        found = self._groups.get(code)
        if found is None:
            found = self._groups[code] = group, tally_of(self._each)
        if isinstance(group, str):
            self._last = group, found[1]
        found[1].put(key, value, group)

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
